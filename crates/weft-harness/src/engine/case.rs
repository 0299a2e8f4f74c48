//! Running one case: its runs one after the other, those beside each other at the same time.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use agent_types::{Clock, Delivery, EventBody, EventSubscription, RunId, RunStatus, SystemClock};
use serde_json::{Map, Value};
use workflow_engine::{Before, Cache, OnFail, OnWaiting, Plan, RunOptions, run};

use super::actions::Actions;
use super::expect::{Expect, Finished};
use super::fixtures::World;
use super::flow::Flows;
use super::memory;
use super::ops::catalog;
use super::stored::{Begun, Past, Stores};
use super::{known_keys, object};
use crate::VirtualTime;
use weft_scenarios::Fault;

/// Events that the reader of a run may be behind.
const BEHIND: usize = 1 << 20;

/// One case of a file.
pub(crate) struct Case {
    pub(crate) id: String,
    flows: Flows,
    runs: Vec<Value>,
    world: Arc<World>,
    cache: Arc<Cache>,
    stores: Stores,
    real_time: bool,
}

impl Case {
    pub(crate) fn read(line: &Value) -> Result<Self, Fault> {
        let map = object(line)?;
        known_keys(map, &["id", "title", "source", "flows", "runs"])?;
        let flows = object(map.get("flows").ok_or("a case needs `flows`")?)?;
        Ok(Self {
            id: map.get("id").and_then(Value::as_str).unwrap_or("?").to_owned(),
            real_time: Value::Object(flows.clone()).to_string().contains("[\"block\""),
            flows: Flows::read(flows)?,
            runs: map.get("runs").and_then(Value::as_array).cloned().ok_or("a case needs `runs`")?,
            world: Arc::new(World::default()),
            cache: Cache::new(),
            stores: Stores::default(),
        })
    }

    /// The stack on which the case is to run, in KiB.
    pub(crate) fn stack_kib(&self) -> Option<usize> {
        self.runs.iter().find_map(|run| usize::try_from(run["expect"].get("stack_kib")?.as_u64()?).ok())
    }

    /// Everything that came otherwise than it should.
    pub(crate) fn run(&self) -> Vec<String> {
        let time = VirtualTime::default();
        let clock: Arc<dyn Clock> = if self.real_time { Arc::new(SystemClock) } else { time.shared_clock() };
        time.block_on(self.run_all(&clock))
    }

    async fn run_all(&self, clock: &Arc<dyn Clock>) -> Vec<String> {
        let mut faults = Vec::new();
        let mut statuses = Vec::new();
        let mut peaks: Vec<u64> = Vec::new();
        let mut at = 0;
        while at < self.runs.len() {
            let beside =
                self.runs[at + 1..].iter().take_while(|run| run.get("beside") == Some(&Value::Bool(true)));
            let end = at + 1 + beside.count();
            memory::reset_peak();
            let group = (at..end).map(|number| self.run_number(number, clock, &statuses));
            let results = futures::future::join_all(group).await;
            let peak = memory::peak_kib();
            for (offset, result) in results.into_iter().enumerate() {
                let number = at + offset;
                let (status, mut found) = result.unwrap_or_else(|fault| ("", vec![fault]));
                peaks.push(peak);
                found.extend(self.peak_fault(number, &peaks));
                faults.extend(found.into_iter().map(|fault| format!("run {number}: {fault}")));
                statuses.push(status);
            }
            at = end;
        }
        faults
    }

    fn peak_fault(&self, number: usize, peaks: &[u64]) -> Option<String> {
        let over = self.runs[number]["expect"].get("peak_mib_over")?;
        let base = *peaks.get(usize::try_from(over["run"].as_u64()?).ok()?)?;
        let (more, most) = (peaks[number].saturating_sub(base), over["mib"].as_u64()? * 1024);
        (more > most).then(|| format!("peak memory is {more} KiB above that of run {}", over["run"]))
    }

    async fn run_number(
        &self,
        number: usize,
        clock: &Arc<dyn Clock>,
        statuses: &[&'static str],
    ) -> Result<(&'static str, Vec<String>), Fault> {
        let map = object(&self.runs[number])?;
        known_keys(
            map,
            &["flow", "inputs", "options", "mode", "of", "at", "changes", "beside", "actions", "expect"],
        )?;
        let mut expect = Expect::read(map.get("expect").ok_or("a run needs `expect`")?)?;
        let finished = match map.get("mode").and_then(Value::as_str).unwrap_or("start") {
            "cancel" => Finished::Answer(cancel_answer(map, statuses)),
            "read" => self.read_log(map, &mut expect)?,
            mode => self.start(number, mode, map, clock, &mut expect).await?,
        };
        let mut faults = Vec::new();
        if let Some(most) = map["expect"].get("store_max_mib").and_then(Value::as_u64) {
            let store = self.stores.get(store_name(map).unwrap_or_default())?;
            let bytes = store.footprint().map_err(|error| error.to_string())?.bytes;
            if bytes > most << 20 {
                faults.push(format!("store_max_mib: the store has {} KiB", bytes >> 10));
            }
        }
        let status = finished.status();
        faults.extend(expect.verdict(&finished, &self.world));
        Ok((status, faults))
    }

    /// Reads the log of an earlier run, without executing anything.
    fn read_log(&self, map: &Map<String, Value>, expect: &mut Expect) -> Result<Finished, Fault> {
        let kept = self.stores.read(&self.stores.past(map.get("of"))?)?;
        for kept in &kept {
            let event = serde_json::to_value(&kept.event).map_err(|error| error.to_string())?;
            expect.see(&event, Duration::ZERO);
        }
        let last = kept.last().ok_or("the log is empty")?;
        let values = last.record.iter().flat_map(|record| &record.values);
        let outputs = values.map(|(name, value)| (name.to_string(), (**value).clone())).collect();
        let status = match &last.event.body {
            EventBody::RunFinished { status, .. } => *status,
            EventBody::RunWaiting { .. } => RunStatus::Waiting,
            _ => return Err("the log has no end".to_owned()),
        };
        Ok(Finished::Read { status, outputs })
    }

    /// Starts a run, or resumes one.
    fn begin(
        &self,
        number: usize,
        mode: &str,
        map: &Map<String, Value>,
        clock: &Arc<dyn Clock>,
    ) -> Result<(Past, Begun), Fault> {
        let text = |key: &str| map.get(key).and_then(Value::as_str);
        let inputs = map.get("inputs").and_then(Value::as_object).cloned().unwrap_or_default();
        let run = RunId::new(format!("{}-{number}", self.id));
        let (past, begun) = match mode {
            "start" => {
                let store = store_name(map).map(str::to_owned);
                let begun = self.stores.begin(&run, store.as_deref(), clock)?;
                (Past { run, store, flow: "main".to_owned(), inputs }, begun)
            }
            "resume" => {
                let past = self.stores.past(map.get("of"))?;
                let begun = self.stores.resume(&past, clock)?;
                (past, begun)
            }
            "fork" => {
                let past = self.stores.past(map.get("of"))?;
                let changes = map.get("changes").and_then(Value::as_object).cloned().unwrap_or_default();
                let at = map.get("at").ok_or("a fork needs `at`")?;
                let begun = self.stores.fork(&past, &run, at, &changes.into_iter().collect(), clock)?;
                (Past { run, ..past }, begun)
            }
            other => return Err(format!("the mode `{other}` is not known")),
        };
        let flow = text("flow").map_or(past.flow, str::to_owned);
        let past = Past { flow, ..past };
        self.stores.note(number, past.clone());
        Ok((past, begun))
    }

    async fn start(
        &self,
        number: usize,
        mode: &str,
        map: &Map<String, Value>,
        clock: &Arc<dyn Clock>,
        expect: &mut Expect,
    ) -> Result<Finished, Fault> {
        let (past, Begun { sink, resume }) = self.begin(number, mode, map, clock)?;
        let workflow = workflow_model::WorkflowSource::workflow(&self.flows, &past.flow)
            .ok_or_else(|| format!("no flow `{}`", past.flow))?;
        let plan = match Plan::new(&workflow, &catalog(&self.world, &self.flows.versions), &self.flows) {
            Ok(plan) => plan,
            Err(error) => return Ok(Finished::Invalid(error)),
        };
        let mut options = self.options(map.get("options"), clock)?;
        options.resume = resume.map(Box::new);
        // What comes before it belongs to the run as it was.
        let mut seeing = options.resume.is_none();
        expect.resumes = !seeing;
        let mut watcher = sink.subscribe(BEHIND);
        let mut actions = Actions::read(map.get("actions"))?;
        if let Some(store) = &past.store {
            self.stores.crash_on(store, actions.crash_pattern());
        }
        let started = clock.elapsed();
        let handle = run(&plan, past.inputs.clone(), options.with_sink(sink.sink()));
        let remote = handle.remote();
        let outcome = handle.outcome();
        tokio::pin!(outcome);
        let mut slow = None;
        let outcome = loop {
            if actions.all_done() {
                remote.end_when_waiting();
            }
            let due = actions.next_due(clock.elapsed().saturating_sub(started));
            tokio::select! {
                biased;
                watched = watcher.next() => match watched {
                    Some(Delivery::Events(batch)) => {
                        for event in batch.iter() {
                            let event = serde_json::to_value(event).map_err(|error| error.to_string())?;
                            seeing |= event["type"] == "run.resumed";
                            if seeing && !actions.has_crashed() {
                                expect.see(&event, clock.elapsed().saturating_sub(started));
                                actions.on_event(&event, &remote).await?;
                            }
                        }
                    }
                    Some(Delivery::Lagged(missed)) => return Err(format!("the reader of events missed {missed}")),
                    None => {}
                },
                outcome = &mut outcome => break outcome,
                () = wait(clock, due) => {
                    actions.on_time(clock.elapsed().saturating_sub(started), &remote).await?;
                }
            }
            if actions.wants_slow_watcher() && slow.is_none() {
                slow = Some(sink.subscribe(1024));
            }
        };
        let elapsed = clock.elapsed().saturating_sub(started);
        if actions.has_crashed() {
            drop((watcher, sink));
            self.stores.reopen(past.store.as_deref().unwrap_or_default())?;
            return Ok(Finished::Crashed);
        }
        while let Some(Delivery::Events(batch)) = watcher.try_next() {
            for event in batch.iter() {
                let event = serde_json::to_value(event).map_err(|error| error.to_string())?;
                seeing |= event["type"] == "run.resumed";
                if seeing {
                    expect.see(&event, elapsed);
                }
            }
        }
        let lagged = slow
            .is_some_and(|mut slow: EventSubscription| matches!(slow.try_next(), Some(Delivery::Lagged(_))));
        Ok(Finished::Run { outcome: Box::new(outcome), elapsed, lagged })
    }

    fn options(&self, options: Option<&Value>, clock: &Arc<dyn Clock>) -> Result<RunOptions, Fault> {
        let mut built = RunOptions {
            cache: Some(Arc::clone(&self.cache)),
            on_waiting: OnWaiting::Stay,
            ..RunOptions::new()
        };
        built.clock = Arc::clone(clock);
        let Some(options) = options else { return Ok(built) };
        let options = object(options)?;
        known_keys(
            options,
            &["max_parallel", "groups", "on_fail", "deadline_ms", "store", "want", "max_starts", "before"],
        )?;
        let size = |value: &Value| value.as_u64().and_then(|size| usize::try_from(size).ok());
        built.max_parallel = options.get("max_parallel").and_then(size);
        let groups = options.get("groups").and_then(Value::as_object).into_iter().flatten();
        built.groups = groups.filter_map(|(name, limit)| Some((name.clone(), size(limit)?))).collect();
        built.on_fail = match options.get("on_fail").and_then(Value::as_str) {
            None | Some("cancel") => OnFail::Cancel,
            Some("finish_others") => OnFail::FinishOthers,
            Some(other) => return Err(format!("unknown `on_fail`: {other}")),
        };
        built.deadline = options.get("deadline_ms").and_then(Value::as_u64).map(Duration::from_millis);
        built.max_starts = options.get("max_starts").and_then(Value::as_u64);
        let wanted = options.get("want").and_then(Value::as_array);
        built.want =
            wanted.map(|names| names.iter().filter_map(|name| name.as_str().map(str::to_owned)).collect());
        if let Some(before) = options.get("before").and_then(Value::as_object) {
            let skipped: HashMap<String, bool> =
                before.iter().map(|(path, say)| (path.clone(), say == "skip")).collect();
            built.before = Some(Arc::new(move |path: &str| {
                if skipped.get(path).copied().unwrap_or(false) { Before::Skip } else { Before::Run }
            }));
        }
        Ok(built)
    }
}

/// Answer to a request to cancel an earlier run: all of them have ended.
fn cancel_answer(map: &Map<String, Value>, statuses: &[&'static str]) -> &'static str {
    let of = map.get("of").and_then(Value::as_u64).and_then(|of| usize::try_from(of).ok());
    if of.is_some_and(|of| of < statuses.len()) { "finished" } else { "unknown" }
}

fn store_name(map: &Map<String, Value>) -> Option<&str> {
    map.get("options")?.get("store")?.as_str()
}

async fn wait(clock: &Arc<dyn Clock>, due: Option<Duration>) {
    match due {
        Some(due) => clock.sleep(due).await,
        None => std::future::pending().await,
    }
}
