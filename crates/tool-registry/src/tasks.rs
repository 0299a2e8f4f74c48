//! Tasks: work that continues after its call has answered.

use std::fmt;
use std::sync::Arc;

use agent_types::{EventBody, EventSink, Recorder, RunId, RunStatus, ToolId};
use indexmap::IndexMap;
use parking_lot::Mutex;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use tokio::sync::Notify;
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

use crate::context::ToolContext;
use crate::invoke::CallEnd;
use crate::tool::Tool;

/// Capacity of a board; the oldest ended task is removed first.
const MAX_TASKS: usize = 256;

/// State of a task.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum TaskState {
    /// It has not begun.
    Pending,
    /// It runs.
    Running,
    /// It gave its result.
    Done,
    /// It failed, or took too long.
    Failed,
    /// It was cancelled.
    Cancelled,
    /// Its outcome is unknown.
    Lost,
}

impl TaskState {
    /// Returns `true` if the task has ended.
    #[must_use]
    pub const fn is_over(self) -> bool {
        !matches!(self, Self::Pending | Self::Running)
    }
}

/// Pieces that a task gave, read by offset.
#[derive(Debug, Default)]
pub(crate) struct Output(Mutex<String>);

impl Output {
    pub(crate) fn push(&self, text: &str) {
        self.0.lock().push_str(text);
    }
}

/// Status of a task.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[non_exhaustive]
pub struct TaskStatus {
    /// Its id.
    pub task: String,
    /// The tool that was called.
    pub tool: ToolId,
    /// State of the task.
    pub state: TaskState,
    /// Bytes of the pieces that it gave so far.
    pub bytes: usize,
}

/// Part of a task's output.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[non_exhaustive]
pub struct TaskResult {
    /// State of the task.
    pub state: TaskState,
    /// Its pieces from the offset on.
    pub text: String,
    /// Offset of the next read.
    pub next: usize,
    /// The result or the failure, once it is over and all pieces were read.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub result: Option<Value>,
}

struct Entry {
    tool: ToolId,
    state: TaskState,
    output: Arc<Output>,
    result: Option<Value>,
    cancel: CancellationToken,
}

#[derive(Default)]
struct Tasks {
    entries: IndexMap<String, Entry>,
    running: JoinSet<()>,
    /// Notified at the end of each task.
    ended: Arc<Notify>,
}

/// Call that a task executes.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct TaskCall {
    /// Id of the task.
    pub task: String,
    /// The tool.
    pub tool: ToolId,
    /// Its arguments.
    pub arguments: Map<String, Value>,
}

/// Store of tasks: each task is a run of its own, inside the run of the call that started it.
pub trait TaskRuns: Send + Sync + fmt::Debug {
    /// Begins the run of a task; `None` if it cannot be stored.
    fn begin(&self, parent: &RunId, call: &TaskCall) -> Option<Arc<dyn EventSink>>;

    /// Stores what the task of a run needs to resume in another process.
    fn save(&self, run: &RunId, saved: &Value);

    /// Stores the outcome of the task of a run.
    fn end(&self, run: &RunId, state: TaskState, result: &Value);
}

/// Tasks of one agent. Cheap to clone; running tasks are dropped with the last copy.
#[derive(Clone, Default)]
pub struct TaskBoard(Arc<Mutex<Tasks>>);

impl fmt::Debug for TaskBoard {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TaskBoard").field("tasks", &self.0.lock().entries.len()).finish_non_exhaustive()
    }
}

impl TaskBoard {
    /// An empty board.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Starts a call whose result is read later. Returns the id of its task, or `None` if too many tasks are running.
    ///
    /// # Panics
    /// Outside a tokio runtime.
    pub fn start(&self, tool: Tool, arguments: Map<String, Value>, mut cx: ToolContext) -> Option<String> {
        let mut tasks = self.0.lock();
        while tasks.running.try_join_next().is_some() {}
        if tasks.entries.len() >= MAX_TASKS {
            let (oldest, ..) = tasks.entries.iter().find(|(_, entry)| entry.state.is_over())?;
            let oldest = oldest.clone();
            tasks.entries.shift_remove(&oldest);
        }
        let id = format!("task-{}", cx.call);
        // The run of the call may end, or wait, before the task does.
        let call = TaskCall { task: id.clone(), tool: tool.id().clone(), arguments };
        let kept = cx.services.get::<dyn TaskRuns>().and_then(|runs| runs.begin(cx.run(), &call));
        let sink = kept.unwrap_or_else(|| Recorder::new(RunId::generate(), Arc::clone(&cx.clock)));
        cx = cx.in_own_run(sink);
        cx.emit(started(&tool));
        self.execute(&mut tasks, tool, call, cx);
        Some(id)
    }

    /// Continues a task that another process began; `cx` has the sink and the log of its run.
    ///
    /// # Panics
    /// Outside a tokio runtime.
    pub fn resume(&self, tool: Tool, call: TaskCall, cx: ToolContext) {
        self.execute(&mut self.0.lock(), tool, call, cx);
    }

    /// Adds a task that has ended elsewhere.
    pub fn restore(&self, call: TaskCall, state: TaskState, result: Value) {
        let (tool, output, cancel) = (call.tool, Arc::default(), CancellationToken::new());
        let entry = Entry { tool, state, output, result: Some(result), cancel };
        self.0.lock().entries.insert(call.task, entry);
    }

    fn execute(&self, tasks: &mut Tasks, tool: Tool, call: TaskCall, mut cx: ToolContext) {
        let TaskCall { task, arguments, .. } = call;
        let output = Arc::new(Output::default());
        let cancel = cx.cancel.child_token();
        cx.cancel = cancel.clone();
        cx.kept = Some(Arc::clone(&output));
        let entry =
            Entry { tool: tool.id().clone(), state: TaskState::Running, output, result: None, cancel };
        tasks.entries.insert(task.clone(), entry);
        // The task holds the board weakly, or neither would ever be dropped.
        let board = Arc::downgrade(&self.0);
        tasks.running.spawn(async move {
            let end = tool.invoke_now(arguments, cx.clone()).await.end;
            let last = finished(&end);
            let (state, result) = outcome(end);
            if let Some(runs) = cx.services.get::<dyn TaskRuns>() {
                runs.end(cx.run(), state, &result);
            }
            cx.emit(last);
            drop(cx);
            if let Some(board) = board.upgrade() {
                let mut tasks = board.lock();
                if let Some(entry) = tasks.entries.get_mut(&task) {
                    (entry.state, entry.result) = (state, Some(result));
                }
                tasks.ended.notify_waiters();
            }
        });
    }

    /// Status of a task.
    #[must_use]
    pub fn status(&self, task: &str) -> Option<TaskStatus> {
        let tasks = self.0.lock();
        let entry = tasks.entries.get(task)?;
        let bytes = entry.output.0.lock().len();
        Some(TaskStatus { task: task.to_owned(), tool: entry.tool.clone(), state: entry.state, bytes })
    }

    /// Tasks that are not over.
    #[must_use]
    pub fn open(&self) -> Vec<String> {
        let tasks = self.0.lock();
        let open = tasks.entries.iter().filter(|(_, entry)| !entry.state.is_over());
        open.map(|(id, _)| id.clone()).collect()
    }

    /// At most `limit` bytes of what a task gave, from `offset` on. An offset within a character begins at the next one.
    #[must_use]
    pub fn read(&self, task: &str, offset: usize, limit: usize) -> Option<TaskResult> {
        let tasks = self.0.lock();
        let entry = tasks.entries.get(task)?;
        let output = entry.output.0.lock();
        let start = output.ceil_char_boundary(offset);
        let end = output.ceil_char_boundary(start.saturating_add(limit));
        let result = entry.result.clone().filter(|_| end == output.len());
        Some(TaskResult { state: entry.state, text: output[start..end].to_owned(), next: end, result })
    }

    /// Waits until one of these tasks is over; at once where one is, or is not known here.
    ///
    /// # Cancel safety
    /// Nothing is lost by dropping the future.
    pub async fn any_end<'t>(&self, tasks: impl IntoIterator<Item = &'t str> + Clone) {
        let ended = Arc::clone(&self.0.lock().ended);
        loop {
            let mut next = std::pin::pin!(ended.notified());
            next.as_mut().enable();
            let at_work = |task| self.status(task).is_some_and(|status: TaskStatus| !status.state.is_over());
            if !tasks.clone().into_iter().all(at_work) {
                return;
            }
            next.await;
        }
    }

    /// Cancels tasks and waits until each has its end.
    ///
    /// # Cancel safety
    /// All are cancelled with the first poll; only their ends are not waited for.
    pub async fn cancel_all<'t>(&self, tasks: impl IntoIterator<Item = &'t str>) {
        let tasks: Vec<&str> = tasks.into_iter().collect();
        for task in &tasks {
            // One that is not known here has nothing to cancel.
            let _ = self.cancel(task);
        }
        for task in tasks {
            self.any_end([task]).await;
        }
    }

    /// Outcome of a task; `None` while it runs.
    #[must_use]
    pub fn outcome(&self, task: &str) -> Option<(TaskState, Value)> {
        let tasks = self.0.lock();
        let entry = tasks.entries.get(task).filter(|entry| entry.state.is_over())?;
        Some((entry.state, entry.result.clone().unwrap_or_default()))
    }

    /// Cancels a task; gives where it stood.
    #[must_use]
    pub fn cancel(&self, task: &str) -> Option<TaskState> {
        let tasks = self.0.lock();
        let entry = tasks.entries.get(task)?;
        entry.cancel.cancel();
        Some(entry.state)
    }
}

fn started(tool: &Tool) -> EventBody {
    let id = tool.id();
    let workflow = (id.namespace() == Some("workflow")).then(|| id.name().to_owned());
    EventBody::RunStarted { agent: None, workflow, message: Some(id.to_string()), inputs: None }
}

fn finished(end: &CallEnd) -> EventBody {
    let (status, message) = match end {
        CallEnd::Ok(_) => (RunStatus::Ok, None),
        CallEnd::Failed(error) => (RunStatus::Error, Some(error.message_for_model.clone())),
        CallEnd::Panicked { message } => (RunStatus::Error, Some(message.clone())),
        CallEnd::TimedOut { limit } => {
            (RunStatus::Error, Some(format!("no answer within {} ms", limit.as_millis())))
        }
        CallEnd::Cancelled => (RunStatus::Cancelled, None),
    };
    EventBody::RunFinished { status, exit: None, kind: None, partial: None, message }
}

/// State and result of a task that ended so.
fn outcome(end: CallEnd) -> (TaskState, Value) {
    match end {
        CallEnd::Ok(output) => (TaskState::Done, output.value()),
        CallEnd::Failed(error) => (TaskState::Failed, error.message_for_model.into()),
        CallEnd::Panicked { .. } => (TaskState::Failed, crate::output::INTERNAL_ERROR.into()),
        CallEnd::TimedOut { limit } => {
            (TaskState::Failed, format!("no answer within {} ms", limit.as_millis()).into())
        }
        CallEnd::Cancelled => (TaskState::Cancelled, "cancelled".into()),
    }
}
