//! Tools for tasks that still run.

use tool_registry::{
    Dep, RegistryError, TaskBoard, TaskResult, TaskStatus, Tool, ToolError, ToolErrorKind, tool,
};

fn no_such(task: &str, board: &TaskBoard) -> ToolError {
    let open = board.open();
    let there = if open.is_empty() { "no task is running".to_owned() } else { open.join(", ") };
    ToolError::new(ToolErrorKind::InvalidArguments, format!("unknown task '{task}'; {there}"))
}

/// Returns the state of a task that was started earlier.
/// * `task` - its id
#[tool(name = "system:task_status", read_only, quick)]
fn task_status(task: String, board: Dep<TaskBoard>) -> Result<TaskStatus, ToolError> {
    board.status(&task).ok_or_else(|| no_such(&task, &board))
}

/// Returns the output of a task so far, and its result once it is over.
/// * `task` - its id
/// * `offset` - where to continue reading, the `next` of the answer before
/// * `limit` - most bytes to read
#[tool(name = "system:task_result", read_only, quick)]
fn task_result(
    task: String,
    #[arg(default = 0)] offset: usize,
    #[arg(default = 4096, range = 1..=65_536)] limit: usize,
    board: Dep<TaskBoard>,
) -> Result<TaskResult, ToolError> {
    board.read(&task, offset, limit).ok_or_else(|| no_such(&task, &board))
}

/// Cancels a task.
/// * `task` - its id
#[tool(name = "system:task_cancel", idempotent, quick)]
fn task_cancel(task: String, board: Dep<TaskBoard>) -> Result<String, ToolError> {
    let state = board.cancel(&task).ok_or_else(|| no_such(&task, &board))?;
    Ok(if state.is_over() { "it was over already".to_owned() } else { "cancelled".to_owned() })
}

pub(super) fn tools() -> [Result<Tool, RegistryError>; 3] {
    tool_registry::tools![task_status, task_result, task_cancel]
}
