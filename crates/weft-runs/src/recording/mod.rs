//! Recordings of runs for tests: all that a run had from outside, and all that it emitted.

mod replay;
mod sink;

use std::collections::BTreeMap;

use agent_types::{EventBody, ReplayData, RunId, StoredEvent, TraceEvent};
use executors_flow_system::SessionStart;
use run_store::{NewRun, RunRecord};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use weft_project::Project;

pub use replay::{RunReplay, replay};
pub use sink::{ReplayDifference, ReplaySink};

use crate::error::RunsError;
use crate::local::entries;
use crate::request::ThreadName;

/// Values recorded with a request to a model, which a replay does not send.
const REQUEST: [&str; 3] = ["shared", "settings", "message"];

/// A recorded run: what it began with, the answers that it was given, and its events with the replies of the model and
/// the results of calls, flows and nodes.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RunRecording {
    run: RunId,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    agent: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    workflow: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    thread: Option<String>,
    plan: Value,
    /// Entries of the conversation before the run.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    history: Vec<Value>,
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    answers: BTreeMap<String, Value>,
    events: Vec<RecordedEvent>,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct RecordedEvent {
    event: TraceEvent,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    record: Option<ReplayData>,
}

impl RunRecording {
    /// Records a run of a project's store.
    ///
    /// # Errors
    /// The run is unknown, or a part of it cannot be recorded; the code says which.
    pub fn from_store(project: &Project, run: &RunId) -> Result<Self, RunsError> {
        let store = project.required_store(run)?;
        let record = store.known(run)?;
        check(&record)?;
        let mut events = store.events(run, 0, usize::MAX)?;
        store.put_values_back(&mut events)?;
        let answers = store.asks(run)?.into_iter().filter_map(|ask| {
            let (value, _) = ask.answer?;
            Some((ask.summary.ask.to_string(), value))
        });
        Ok(Self {
            history: history(project, &record)?,
            run: run.clone(),
            agent: record.new.agent,
            workflow: record.new.workflow,
            thread: record.new.thread,
            plan: record.new.plan,
            answers: answers.collect(),
            events: events.into_iter().map(RecordedEvent::from_stored).collect(),
        })
    }

    /// Name of the agent or workflow.
    #[must_use]
    pub fn subject(&self) -> &str {
        self.agent.as_deref().or(self.workflow.as_deref()).unwrap_or_default()
    }

    fn record(&self) -> NewRun {
        NewRun {
            agent: self.agent.clone(),
            workflow: self.workflow.clone(),
            thread: self.thread.clone(),
            plan: self.plan.clone(),
            ..NewRun::new(self.run.clone())
        }
    }

    /// The session that the run began with.
    fn session(&self) -> Option<SessionStart> {
        let first: Vec<StoredEvent> = self.events.iter().take(2).map(RecordedEvent::stored).collect();
        SessionStart::from_events(&first)
    }
}

impl RecordedEvent {
    fn from_stored(stored: StoredEvent) -> Self {
        let StoredEvent { event, mut record } = stored;
        if matches!(event.body, EventBody::AgentLlmStarted { .. })
            && let Some(record) = &mut record
        {
            record.values.retain(|(name, _)| !REQUEST.contains(&&**name));
        }
        Self { event, record: record.filter(|record| *record != ReplayData::default()) }
    }

    fn stored(&self) -> StoredEvent {
        StoredEvent { event: self.event.clone(), record: self.record.clone() }
    }
}

/// Refuses a run of which a part is not kept, or cannot be done again by itself.
fn check(record: &RunRecord) -> Result<(), RunsError> {
    let refused = |part, message: &str| {
        Err(RunsError::NotRecordable { run: record.new.run.to_string(), part, message: message.to_owned() })
    };
    if record.first_seq > 1 {
        return refused("not_recordable_events", "its first events were deleted");
    }
    if record.state.phase.as_str() == "running" {
        return refused("not_recordable_end", "it has no end yet");
    }
    match record.new.plan.get("kind").and_then(Value::as_str) {
        Some("agent" | "workflow") => Ok(()),
        Some("call") => refused("not_recordable_call", "it is a single call, in which nothing decides"),
        Some(_) | None => refused("not_recordable_task", "it is a task that a call of another run began"),
    }
}

/// Entries of the conversation before a run.
fn history(project: &Project, record: &RunRecord) -> Result<Vec<Value>, RunsError> {
    let (Some(agent), Some(thread)) = (&record.new.agent, &record.new.thread) else { return Ok(Vec::new()) };
    let before = record.new.plan.get("before").and_then(Value::as_u64).unwrap_or_default();
    let entries = entries(project, &ThreadName::new(agent, thread))?;
    let queued = record.new.plan.get("queued") == Some(&true.into());
    let (mut kept, mut exchanges) = (Vec::new(), 0);
    for entry in entries {
        if entry.is_of(&record.new.run) || exchanges >= before && !queued {
            break;
        }
        exchanges += u64::from(entry.exchange.is_some());
        kept.push(entry.to_value());
    }
    if exchanges < before && !queued {
        let message = "the conversation before it was cut or compacted".to_owned();
        let run = record.new.run.to_string();
        return Err(RunsError::NotRecordable { run, part: "not_recordable_history", message });
    }
    Ok(kept)
}
