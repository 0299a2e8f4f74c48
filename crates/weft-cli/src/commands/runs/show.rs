//! Looking at runs that are kept.

use std::time::Duration;

use agent_types::{EventBody, RunId, StoredEvent, Timestamp, nearest};
use run_store::{RunFilter, RunPhase, RunRecord, Store};
use serde_json::{Map, Value, json};
use weft_runs::LoopReader;

use super::super::{Context, block_on};
use super::{chosen, passes, store, word};
use crate::arguments::{Output, RunsListArguments};
use crate::failure::{Exit, Failure};
use crate::output;
use crate::timeline::Timeline;

/// States that a run is listed in.
const STATES: [&str; 6] = ["running", "waiting", "interrupted", "ok", "error", "cancelled"];
/// Events that are read at once.
const PAGE: usize = 1000;
/// Interval at which a run of another process is polled.
const LOOK: Duration = Duration::from_millis(100);

pub(super) fn list(context: &Context, arguments: &RunsListArguments) -> Result<Exit, Failure> {
    if let Some(status) = &arguments.status {
        known_status(status)?;
    }
    let project = context.project(None)?;
    let store = store(&project)?;
    let filter = RunFilter {
        agent: arguments.agent.clone(),
        workflow: arguments.workflow.clone(),
        ..RunFilter::default()
    };
    let records = store.runs(&filter).map_err(|error| Failure::of_store(&error))?;
    let wanted =
        |record: &&RunRecord| arguments.status.as_deref().is_none_or(|status| status == word(store, record));
    let wanted = records.iter().filter(wanted).take(arguments.limit);
    let values = wanted.map(|record| summary(store, record)).map(Value::Object);
    match context.output {
        Output::Json => output::json(&values.collect::<Vec<_>>())?,
        Output::Jsonl => values.into_iter().try_for_each(|value| output::json(&value))?,
        Output::Text => {
            for value in values {
                let text = |key: &str| value[key].as_str().unwrap_or_default().to_owned();
                let what = ["agent", "workflow", "tool"].into_iter().find(|key| value[key].is_string());
                let mut what = what.map(text).unwrap_or_default();
                if value["retry_of"].is_string() {
                    what = format!("{what} (retry of {})", text("retry_of"));
                }
                let exit =
                    if value["exit"].is_string() { format!(" ({})", text("exit")) } else { String::new() };
                output::line(&format!(
                    "{}\t{}\t{}{exit}\t{what}",
                    text("run"),
                    text("started"),
                    text("status")
                ))?;
            }
        }
    }
    Ok(Exit::Ok)
}

/// Checks the name of a state.
fn known_status(status: &str) -> Result<(), Failure> {
    if STATES.contains(&status) {
        return Ok(());
    }
    let failure = Failure::usage(format!("no run is in the state `{status}`"));
    let near = nearest(status, STATES).map(|near| format!("did you mean `{near}`? "));
    Err(failure.with_help(format!("{}states are {}", near.unwrap_or_default(), STATES.join(", "))))
}

fn summary(store: &Store, record: &RunRecord) -> Map<String, Value> {
    let mut summary = Map::new();
    let mut put = |key: &str, value: Option<Value>| {
        if let Some(value) = value {
            summary.insert(key.to_owned(), value);
        }
    };
    put("run", Some(record.new.run.as_str().into()));
    put("status", Some(word(store, record).into()));
    put("exit", record.state.exit.map(|exit| exit.as_str().into()));
    put("kind", record.state.kind.clone().map(Value::from));
    put("started", Some(record.started.to_string().into()));
    put("finished", record.state.finished.map(|at: Timestamp| at.to_string().into()));
    put("agent", record.new.agent.clone().map(Value::from));
    put("workflow", record.new.workflow.clone().map(Value::from));
    put("tool", weft_runs::called_tool(record).map(Value::from));
    put("thread", record.new.thread.clone().map(Value::from));
    put("parent", record.new.parent.as_ref().map(|parent| parent.as_str().into()));
    put("retry_of", weft_runs::retry_of(record).map(Value::from));
    summary
}

/// Every event of a run, page by page.
fn each_event(
    store: &Store,
    run: &RunId,
    after: u64,
    mut emit: impl FnMut(&StoredEvent) -> Result<(), Failure>,
) -> Result<u64, Failure> {
    let mut last = after;
    loop {
        let page = store.events(run, last, PAGE).map_err(|error| Failure::of_store(&error))?;
        let Some(end) = page.last() else { return Ok(last) };
        last = end.event.seq;
        page.iter().try_for_each(&mut emit)?;
    }
}

pub(super) fn show(context: &Context, run: &str, log_only: bool) -> Result<Exit, Failure> {
    let mut developer_log = log_only.then(LoopReader::default);
    let project = context.project(None)?;
    let store = store(&project)?;
    let run = &chosen(store, run)?;
    let of_store = |error| Failure::of_store(&error);
    let record = store.known(run).map_err(of_store)?;
    let asks = store.asks(run).map_err(of_store)?;
    let open: Vec<_> = asks.iter().filter(|ask| ask.answer.is_none()).map(|ask| &ask.summary).collect();
    let waits = record.state.phase == RunPhase::Waiting || word(store, &record) == "interrupted";
    let wanted = |kept: &StoredEvent| !log_only || matches!(kept.event.body, EventBody::LogLine { .. });
    let mut entry_of = |kept: &StoredEvent| developer_log.as_mut().and_then(|reader| reader.add(kept));
    match context.output {
        Output::Json => {
            let (mut events, mut entries) = (Vec::new(), Vec::new());
            each_event(store, run, 0, |kept| {
                entries.extend(entry_of(kept));
                if wanted(kept) {
                    events.push(kept.event.clone());
                }
                Ok(())
            })?;
            entries.extend(developer_log.iter().flat_map(LoopReader::open));
            let mut shown = summary(store, &record);
            if waits {
                shown.insert("asks".to_owned(), json!(open));
            }
            if log_only {
                shown.insert("loops".to_owned(), json!(entries));
            }
            shown.insert("events".to_owned(), json!(events));
            output::json(&shown)?;
        }
        Output::Jsonl => {
            each_event(store, run, 0, |kept| {
                entry_of(kept).map_or(Ok(()), |entry| output::json(&entry))?;
                if wanted(kept) { output::json(&kept.event) } else { Ok(()) }
            })?;
            let mut open = developer_log.iter().flat_map(LoopReader::open);
            open.try_for_each(|entry| output::json(&entry))?;
        }
        Output::Text => {
            for (key, value) in summary(store, &record) {
                output::line(&format!("{key}: {}", value.as_str().unwrap_or_default()))?;
            }
            if record.first_seq > 1 {
                output::line(&format!("events 1 to {} were deleted", record.first_seq - 1))?;
            }
            for ask in open.iter().filter(|_| waits) {
                output::line(&format!("asks {}: {}", ask.ask, ask.prompt.as_deref().unwrap_or_default()))?;
                if let Some(tool) = &ask.tool {
                    let arguments =
                        ask.arguments.as_deref().map_or_else(|| Ok(String::new()), output::text_of)?;
                    output::line(&format!("  {tool} {arguments}"))?;
                }
            }
            each_event(store, run, 0, |kept| {
                entry_of(kept).map_or(Ok(()), |entry| passes::print(&entry))?;
                if wanted(kept) { output::line(&line(kept)) } else { Ok(()) }
            })?;
            developer_log.iter().flat_map(LoopReader::open).try_for_each(|entry| passes::print(&entry))?;
        }
    }
    Ok(Exit::Ok)
}

/// One event on one line.
fn line(kept: &StoredEvent) -> String {
    let event = serde_json::to_value(&kept.event).unwrap_or_default();
    let text = |key: &str| event[key].as_str().unwrap_or_default().to_owned();
    let data = event.get("data").map(Value::to_string).filter(|data| data != "{}").unwrap_or_default();
    let path = if event["path"].is_string() { format!(" {}", text("path")) } else { String::new() };
    let pass = event["iteration"].as_u64().map(|pass| format!(" [{pass}]")).unwrap_or_default();
    format!("{:>6} {}{path}{pass} {data}", kept.event.seq, text("type")).trim_end().to_owned()
}

/// Prints the recorded events in the form in which they were printed live.
pub(super) fn replay(context: &Context, run: &str) -> Result<Exit, Failure> {
    let project = context.project(None)?;
    let store = store(&project)?;
    let run = &chosen(store, run)?;
    let log = store.log(run, u64::MAX).map_err(|error| Failure::of_store(&error))?;
    store.known(run).map_err(|error| Failure::of_store(&error))?;
    let mut timeline = Timeline::new();
    let mut last = None;
    each_event(store, run, 0, |kept| {
        match context.output {
            Output::Text => timeline.show(&kept.event),
            Output::Jsonl => output::json(&kept.event)?,
            Output::Json => {}
        }
        last = Some(kept.event.clone());
        Ok(())
    })?;
    let record = log.events.last().and_then(|kept| kept.record.as_ref());
    let outputs: Map<String, Value> = record
        .into_iter()
        .flat_map(|record| &record.values)
        .map(|(name, value)| (name.to_string(), (**value).clone()))
        .collect();
    let text = last.as_ref().and_then(final_text);
    match context.output {
        Output::Json => {
            let known = store.known(run).map_err(|error| Failure::of_store(&error))?;
            let mut result = summary(store, &known);
            result.insert("outputs".to_owned(), Value::Object(outputs));
            output::json(&result)?;
        }
        Output::Text => match (text, outputs.values().collect::<Vec<_>>().as_slice()) {
            (Some(text), _) => output::line(&text)?,
            (None, [Value::String(text)]) => output::line(text)?,
            (None, []) => {}
            (None, _) => output::pretty(&outputs)?,
        },
        Output::Jsonl => {}
    }
    Ok(Exit::Ok)
}

fn final_text(event: &agent_types::TraceEvent) -> Option<String> {
    match &event.body {
        EventBody::AgentMessage { text, r#final: true, .. } => Some(text.clone()),
        _ => None,
    }
}

/// Prints the events of a run that another process executes, from its first one, until it has ended.
pub(super) fn watch(context: &Context, run: &str, after: u64) -> Result<Exit, Failure> {
    let project = context.project(None)?;
    let store = store(&project)?;
    let run = &chosen(store, run)?;
    store.known(run).map_err(|error| Failure::of_store(&error))?;
    let clock = std::sync::Arc::clone(project.clock());
    block_on(async {
        let mut timeline = Timeline::new();
        let mut last = after;
        loop {
            // The end is checked first, so that the last events are not missed.
            let record = store.known(run).map_err(|error| Failure::of_store(&error))?;
            let over = record.state.phase != RunPhase::Running || !store.is_at_work(run);
            last = each_event(store, run, last, |kept| match context.output {
                Output::Text => {
                    timeline.show(&kept.event);
                    Ok(())
                }
                Output::Json | Output::Jsonl => output::json(&kept.event),
            })?;
            if over || output::is_closed() {
                return Ok(Exit::Ok);
            }
            clock.sleep(LOOK).await;
        }
    })?
}

/// The whole run as one JSON value, with nothing left outside: what another program needs to show or replay it.
pub(super) fn export(context: &Context, run: &str) -> Result<Exit, Failure> {
    let project = context.project(None)?;
    let store = store(&project)?;
    let run = &chosen(store, run)?;
    let of_store = |error| Failure::of_store(&error);
    let record = store.known(run).map_err(of_store)?;
    let mut events: Vec<StoredEvent> = Vec::new();
    each_event(store, run, 0, |kept| {
        events.push(kept.clone());
        Ok(())
    })?;
    store.put_values_back(&mut events).map_err(of_store)?;
    if context.output == Output::Jsonl {
        events.iter().try_for_each(|kept| output::json(&kept.event))?;
        return Ok(Exit::Ok);
    }
    let mut whole = summary(store, &record);
    whole.insert("plan".to_owned(), record.new.plan.clone());
    whole.insert("events".to_owned(), json!(events.iter().map(|kept| &kept.event).collect::<Vec<_>>()));
    output::json(&whole)?;
    Ok(Exit::Ok)
}
