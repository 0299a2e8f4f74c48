//! Running one case: its runs one after the other, those beside each other at the same time.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use agent_types::{Clock, Recorder, RunId, SystemClock, Timestamp, VirtualClock, Watched, Watcher};
use serde_json::{Map, Value};
use tokio_util::sync::CancellationToken;
use workflow_engine::{Before, Cache, OnFail, OnWaiting, Plan, RunOptions, run};

use super::expect::{Expect, Finished};
use super::flow::{Fault, Flows, known_keys, object};
use super::memory;
use super::ops::catalog;
use super::pattern::Pattern;
use super::world::World;

/// Events that the reader of a run may be behind.
const BEHIND: usize = 1 << 20;

/// One case of a file.
pub(crate) struct Case {
    pub(crate) id: String,
    flows: Flows,
    runs: Vec<Value>,
    world: Arc<World>,
    cache: Arc<Cache>,
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
        })
    }

    /// Whether a run needs a store, which is another part's job.
    pub(crate) fn is_durable(&self) -> bool {
        self.runs.iter().any(|run| run["options"].get("store").is_some())
    }

    /// The stack on which the case is to run, in KiB.
    pub(crate) fn stack_kib(&self) -> Option<usize> {
        self.runs.iter().find_map(|run| usize::try_from(run["expect"].get("stack_kib")?.as_u64()?).ok())
    }

    /// Everything that came otherwise than it should.
    pub(crate) fn run(&self) -> Vec<String> {
        let clock = VirtualClock::new(Timestamp::default());
        let parked = clock.clone();
        let runtime = tokio::runtime::Builder::new_current_thread()
            .on_thread_park(move || {
                parked.advance_to_next();
            })
            .build();
        let clock: Arc<dyn Clock> = if self.real_time { Arc::new(SystemClock) } else { Arc::new(clock) };
        match runtime {
            Ok(runtime) => runtime.block_on(self.run_all(&clock)),
            Err(error) => vec![format!("no runtime: {error}")],
        }
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
            let group = self.runs[at..end].iter().map(|run| self.one(run, clock, &statuses));
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

    async fn one(
        &self,
        run: &Value,
        clock: &Arc<dyn Clock>,
        statuses: &[&'static str],
    ) -> Result<(&'static str, Vec<String>), Fault> {
        let map = object(run)?;
        known_keys(
            map,
            &["flow", "inputs", "options", "mode", "of", "at", "changes", "beside", "actions", "expect"],
        )?;
        let mut expect = Expect::read(map.get("expect").ok_or("a run needs `expect`")?)?;
        let finished = match map.get("mode").and_then(Value::as_str).unwrap_or("start") {
            "start" => self.start(map, clock, &mut expect).await?,
            "cancel" => Finished::Answer(cancel_answer(map, statuses)),
            other => return Err(format!("the mode `{other}` needs a store")),
        };
        let status = finished.status();
        Ok((status, expect.verdict(&finished, &self.world)))
    }

    async fn start(
        &self,
        map: &Map<String, Value>,
        clock: &Arc<dyn Clock>,
        expect: &mut Expect,
    ) -> Result<Finished, Fault> {
        let name = map.get("flow").and_then(Value::as_str).unwrap_or("main");
        let workflow = workflow_model::WorkflowSource::workflow(&self.flows, name)
            .ok_or_else(|| format!("no flow `{name}`"))?;
        let plan = match Plan::new(&workflow, &catalog(&self.world, &self.flows.versions), &self.flows) {
            Ok(plan) => plan,
            Err(error) => return Ok(Finished::Invalid(error)),
        };
        let options = self.options(map.get("options"), clock)?;
        let recorder = Recorder::new(RunId::generate(), Arc::clone(clock));
        let mut watcher = recorder.watch(BEHIND);
        let options = options.with_sink(recorder.clone());
        let inputs = map.get("inputs").and_then(Value::as_object).cloned().unwrap_or_default();
        let mut actions = Actions::read(map.get("actions"))?;
        let started = clock.elapsed();
        let handle = run(&plan, inputs, options);
        let cancel = handle.cancel_token();
        let outcome = handle.outcome();
        tokio::pin!(outcome);
        let mut slow = None;
        let outcome = loop {
            let due = actions.next_due(clock.elapsed().saturating_sub(started));
            tokio::select! {
                biased;
                watched = watcher.next() => match watched {
                    Some(Watched::Events(batch)) => {
                        for event in batch.iter() {
                            let event = serde_json::to_value(event).map_err(|error| error.to_string())?;
                            expect.see(&event, clock.elapsed().saturating_sub(started));
                            actions.on_event(&event, &cancel);
                        }
                    }
                    Some(Watched::Lagged(missed)) => return Err(format!("the reader of events missed {missed}")),
                    None => {}
                },
                outcome = &mut outcome => break outcome,
                () = wait(clock, due) => actions.on_time(clock.elapsed().saturating_sub(started), &cancel),
            }
            if actions.wants_slow_watcher() && slow.is_none() {
                slow = Some(recorder.watch(1024));
            }
        };
        let elapsed = clock.elapsed().saturating_sub(started);
        while let Some(Watched::Events(batch)) = watcher.try_next() {
            for event in batch.iter() {
                let event = serde_json::to_value(event).map_err(|error| error.to_string())?;
                expect.see(&event, elapsed);
            }
        }
        let lagged =
            slow.is_some_and(|mut slow: Watcher| matches!(slow.try_next(), Some(Watched::Lagged(_))));
        Ok(Finished::Run { outcome: Box::new(outcome), elapsed, lagged })
    }

    fn options(&self, options: Option<&Value>, clock: &Arc<dyn Clock>) -> Result<RunOptions, Fault> {
        let mut built = RunOptions {
            cache: Some(Arc::clone(&self.cache)),
            on_waiting: OnWaiting::End,
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

/// What asking to cancel an earlier run is answered with: all of them have ended.
fn cancel_answer(map: &Map<String, Value>, statuses: &[&'static str]) -> &'static str {
    let of = map.get("of").and_then(Value::as_u64).and_then(|of| usize::try_from(of).ok());
    if of.is_some_and(|of| of < statuses.len()) { "finished" } else { "unknown" }
}

async fn wait(clock: &Arc<dyn Clock>, due: Option<Duration>) {
    match due {
        Some(due) => clock.sleep(due).await,
        None => std::future::pending().await,
    }
}

/// What is done to a run while it goes on.
struct Actions(Vec<Action>);

struct Action {
    on: When,
    what: String,
    done: bool,
}

enum When {
    Event(Pattern),
    After(Duration),
}

impl Actions {
    fn read(value: Option<&Value>) -> Result<Self, Fault> {
        let mut actions = Vec::new();
        for action in value.and_then(Value::as_array).into_iter().flatten() {
            let map = object(action)?;
            known_keys(map, &["on", "after_ms", "do", "ask", "value"])?;
            let on = match (map.get("on"), map.get("after_ms").and_then(Value::as_u64)) {
                (Some(event), _) => When::Event(Pattern::read(event)?),
                (None, Some(ms)) => When::After(Duration::from_millis(ms)),
                (None, None) => return Err("an action needs `on` or `after_ms`".to_owned()),
            };
            let what = map.get("do").and_then(Value::as_str).unwrap_or_default().to_owned();
            if !["cancel", "subscribe_slow", "drop_events", "drop_handle"].contains(&what.as_str()) {
                return Err(format!("the action `{what}` is not known here"));
            }
            actions.push(Action { on, what, done: false });
        }
        Ok(Self(actions))
    }

    /// How long until the next action by time.
    fn next_due(&self, now: Duration) -> Option<Duration> {
        let open = self.0.iter().filter(|action| !action.done);
        let due = open.filter_map(|action| match action.on {
            When::After(after) => Some(after.saturating_sub(now)),
            When::Event(_) => None,
        });
        due.min()
    }

    fn on_event(&mut self, event: &Value, cancel: &CancellationToken) {
        for action in &mut self.0 {
            if !action.done && matches!(&action.on, When::Event(pattern) if pattern.matches(event)) {
                action.act(cancel);
            }
        }
    }

    fn on_time(&mut self, now: Duration, cancel: &CancellationToken) {
        for action in &mut self.0 {
            if !action.done && matches!(action.on, When::After(after) if after <= now) {
                action.act(cancel);
            }
        }
    }

    fn wants_slow_watcher(&self) -> bool {
        self.0.iter().any(|action| action.done && action.what == "subscribe_slow")
    }
}

impl Action {
    fn act(&mut self, cancel: &CancellationToken) {
        self.done = true;
        if matches!(self.what.as_str(), "cancel" | "drop_handle") {
            cancel.cancel();
        }
    }
}
