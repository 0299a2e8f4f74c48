//! Background tasks that a call started.

use std::time::Duration;

use agent_types::{Observation, ObservationCode};
use futures::future::select;
use serde_json::Value;
use tool_registry::{Answer, CallEnd, TaskBoard, TaskState, Tool, ToolOutput};

use super::context::RunContext;
use crate::machine::{Conversation, ReadyCall, TaskChange, TaskEnd};

/// The tool whose answer, where it holds the result, is the end of a task that the model knows.
const TASK_RESULT: &str = "system:task_result";

/// Maximum length of a result for the model, in bytes; `system:task_result` reads the whole.
const MAX_SHOWN: usize = 4 * 1024;

/// Time for the work of a cancelled run to wind down.
const WIND_UP: Duration = Duration::from_millis(100);

/// Change of the tasks by a complete call; `None` for most.
pub(super) fn task_change(call: &ReadyCall, tool: &Tool, end: &CallEnd) -> Option<TaskChange> {
    let CallEnd::Ok(ToolOutput::Json(value)) = end else { return None };
    if tool.settings().answer == Answer::Handle {
        return Some(TaskChange::Began(value.get("task")?.as_str()?.to_owned()));
    }
    let reads = tool.id().as_str() == TASK_RESULT && value.get("result").is_some();
    let task = call.arguments.get("task").filter(|_| reads)?;
    Some(TaskChange::Read(task.as_str()?.to_owned()))
}

/// Cancels the tasks of a cancelled run, because their results could not be delivered.
pub(super) async fn cancel_tasks(context: &RunContext, conversation: &Conversation) {
    let Some(board) = context.services.get::<TaskBoard>() else { return };
    let ended = board.cancel_all(conversation.tasks().iter().map(|open| open.task.as_str()));
    select(std::pin::pin!(ended), context.clock.sleep(WIND_UP)).await;
}

/// Ends that were not reported yet: those of the log, else of tasks in this process and from outside.
pub(super) fn ended_tasks(context: &RunContext, conversation: &Conversation) -> Vec<TaskEnd> {
    if let Some(ends) = context.log.woken(conversation.turn()) {
        return ends;
    }
    let board = context.services.get::<TaskBoard>();
    let mut ends = Vec::new();
    for open in conversation.tasks() {
        let outside = context.log.answer(&open.task).map(|value| (TaskState::Done, value.clone()));
        let Some((state, value)) = outside.or_else(|| board.as_ref()?.outcome(&open.task)) else {
            continue;
        };
        let word = match state {
            TaskState::Done => "is done",
            TaskState::Cancelled => "was cancelled",
            TaskState::Lost => "is lost",
            _ => "failed",
        };
        let text = format!("the task {} of {} {word}: {}", open.task, open.tool, excerpt(&value));
        let text = ObservationCode::Note.text(&[("text", &text)]);
        let tool = open.tool.to_string();
        let observation = Observation { call: None, tool, code: ObservationCode::Note, text };
        ends.push(TaskEnd { task: open.task.clone(), observation });
    }
    if !ends.is_empty() {
        context.log.resume_because("task");
    }
    ends
}

fn excerpt(value: &Value) -> String {
    let text = value.as_str().map_or_else(|| value.to_string(), str::to_owned);
    if text.len() <= MAX_SHOWN {
        return text;
    }
    let end = text.floor_char_boundary(MAX_SHOWN);
    format!("{}… ({} more bytes)", &text[..end], text.len() - end)
}
