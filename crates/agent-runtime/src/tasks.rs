//! Background tasks that a call started.

use agent_types::{EventBody, Observation, ObservationCode, ReplayData};
use futures::future::select;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use std::sync::Arc;
use std::time::Duration;
use tool_registry::{Answer, CallEnd, TaskBoard, TaskState, ToolOutput};

use crate::driver::Driver;
use crate::history::Exchange;
use crate::plan::PlannedCall;
use crate::state::AgentState;
use crate::trace::Trace;

/// Name of the value that is recorded with the event.
pub(crate) const WOKEN: &str = "woken";

/// The tool whose answer, where it holds the result, is the end of a task that the model knows.
const TASK_RESULT: &str = "system:task_result";

/// Maximum length of a result for the model, in bytes; `system:task_result` reads the whole.
const MAX_SHOWN: usize = 4 * 1024;

/// End of a task as shown to the model.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct TaskEnd {
    pub(crate) task: String,
    pub(crate) observation: Observation,
}

/// Time for the work of a cancelled run to wind down.
const WIND_UP: Duration = Duration::from_millis(100);

/// Change that a call makes to the tasks that the run waits for.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum TaskChange {
    /// It began this one.
    Began(String),
    /// It read the result of this one, so that the run no longer waits for it.
    Read(String),
}

impl TaskChange {
    /// Change made by a complete call; `None` for most.
    pub(crate) fn from_call(call: &PlannedCall, end: &CallEnd) -> Option<Self> {
        let CallEnd::Ok(ToolOutput::Json(value)) = end else { return None };
        if call.tool.settings().answer == Answer::Handle {
            return Some(Self::Began(value.get("task")?.as_str()?.to_owned()));
        }
        let reads = call.tool.id().as_str() == TASK_RESULT && value.get("result").is_some();
        let task = call.call.arguments.get("task").filter(|_| reads)?;
        Some(Self::Read(task.as_str()?.to_owned()))
    }
}

impl Driver {
    /// Ends the tasks of a cancelled run, because their results could not be delivered.
    pub(crate) async fn end_tasks(&self, state: &AgentState) {
        let Some(board) = self.services.get::<TaskBoard>() else { return };
        let ended = board.cancel_all(state.tasks.iter().map(|open| open.task.as_str()));
        select(std::pin::pin!(ended), self.clock.sleep(WIND_UP)).await;
    }

    /// Reports ended tasks to the model. Returns `true` when there was any.
    pub(crate) fn wake(&self, state: &mut AgentState, trace: &Trace) -> bool {
        let ends = match trace.log().woken() {
            Some(ends) => ends,
            None => self.ends(state, trace),
        };
        if ends.is_empty() {
            return false;
        }
        for end in &ends {
            let tool = Some(end.observation.tool.clone()).filter(|tool| !tool.is_empty());
            trace.emit_kept(EventBody::AgentObservation { tool, text: end.observation.line() }, || {
                let value = serde_json::to_value(end).unwrap_or_default();
                ReplayData::from_values(vec![(Arc::from(WOKEN), Arc::new(value))])
            });
        }
        state.tasks.retain(|open| ends.iter().all(|end| end.task != open.task));
        let observations: Vec<Observation> = ends.into_iter().map(|end| end.observation).collect();
        observations.iter().for_each(|observation| state.suspects.note(&observation.text));
        state.history.push(Exchange::Observed { observations, frame: self.frame() });
        true
    }

    /// Ends that were not reported yet: of tasks in this process, and those reported from outside.
    fn ends(&self, state: &AgentState, trace: &Trace) -> Vec<TaskEnd> {
        let board = self.services.get::<TaskBoard>();
        let mut ends = Vec::new();
        for open in &state.tasks {
            let outside = trace.log().answer(&open.task).map(|value| (TaskState::Done, value.clone()));
            let Some((state, value)) = outside.or_else(|| board.as_ref()?.outcome(&open.task)) else {
                continue;
            };
            let word = match state {
                TaskState::Done => "is done",
                TaskState::Cancelled => "was cancelled",
                _ => "failed",
            };
            let text = format!("the task {} of {} {word}: {}", open.task, open.tool, excerpt(&value));
            let text = ObservationCode::Note.text(&[("text", &text)]);
            let tool = open.tool.to_string();
            let observation = Observation { call: None, tool, code: ObservationCode::Note, text };
            ends.push(TaskEnd { task: open.task.clone(), observation });
        }
        if !ends.is_empty() {
            trace.log().resume_because("task");
        }
        ends
    }
}

fn excerpt(value: &Value) -> String {
    let text = value.as_str().map_or_else(|| value.to_string(), str::to_owned);
    if text.len() <= MAX_SHOWN {
        return text;
    }
    let end = text.floor_char_boundary(MAX_SHOWN);
    format!("{}… ({} more bytes)", &text[..end], text.len() - end)
}
