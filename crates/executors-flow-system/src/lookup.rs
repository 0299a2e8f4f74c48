//! Resolution of a file's names: tools and workflows from outside, and code that a program registers.

use std::fmt;

use agent_types::nearest;
use async_trait::async_trait;
use serde_json::{Map, Value};
use tool_registry::{
    CallEnd, INTERNAL_ERROR, IntoTool, RegistryError, Snapshot, Tool, ToolContext, ToolError, ToolErrorKind,
    ToolHandler, ToolOutput,
};

/// A name that leads nowhere.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct NoTool {
    /// Reason, in a sentence.
    pub message: String,
    /// The name that was probably meant.
    pub near: Option<String>,
}

impl NoTool {
    /// A name that leads nowhere.
    #[must_use]
    pub fn new(message: impl Into<String>, near: Option<String>) -> Self {
        Self { message: message.into(), near }
    }
}

/// Finds the tools that a file names.
pub trait ToolLookup {
    /// The tool of an id as the file has it.
    ///
    /// # Errors
    /// There is none, or it cannot be used.
    fn lookup(&self, id: &str) -> Result<Tool, NoTool>;

    /// The tool that a key of the file names in the namespace of the same word, with or without the namespace.
    ///
    /// # Errors
    /// Those of [`lookup`](Self::lookup).
    fn lookup_in(&self, namespace: &str, name: &str) -> Result<Tool, NoTool> {
        match name.split_once(':') {
            Some((own, _)) if own == namespace => self.lookup(name),
            Some(_) | None => self.lookup(&format!("{namespace}:{name}")),
        }
    }

    /// Returns `true` if a workflow asks a question. A silent flow and one of a timer cannot.
    fn asks(&self, _workflow: &str) -> bool {
        false
    }
}

impl ToolLookup for Snapshot {
    fn lookup(&self, id: &str) -> Result<Tool, NoTool> {
        self.get(id).cloned().ok_or_else(|| {
            let unresolved = self.unresolved(id);
            NoTool::new(unresolved.to_string(), unresolved.near.map(|near| near.to_string()))
        })
    }
}

/// Code of a program that flows and system actions name: `{"target": {"handler": "refund"}}`, `"handler": "refund"`.
///
/// Each is a tool that no model is offered: its arguments are checked, `Dep<T>` gives it what it needs, it has a time limit,
/// and a panic is its failure.
///
/// ```
/// use executors_flow_system::Handlers;
/// use tool_registry::{tool, tools};
///
/// /// Books a table.
/// #[tool]
/// fn book(day: String) -> String {
///     format!("booked for {day}")
/// }
///
/// let handlers = Handlers::new(tools![book])?;
/// assert_eq!(handlers.names().collect::<Vec<_>>(), ["book"]);
/// # Ok::<(), tool_registry::RegistryError>(())
/// ```
#[derive(Debug, Clone, Default)]
pub struct Handlers(Snapshot);

impl Handlers {
    /// The handlers of a program, by the ids of the tools.
    ///
    /// # Errors
    /// Two tools of one name, or an invalid tool.
    pub fn new<T: IntoTool>(tools: impl IntoIterator<Item = T>) -> Result<Self, RegistryError> {
        Snapshot::new(tools.into_iter().map(IntoTool::into_tool).collect::<Result<Vec<_>, _>>()?).map(Self)
    }

    /// Their names.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.0.tools().map(|tool| tool.id().as_str())
    }

    /// Resolves a name; else suggests one among the handlers and `others`.
    pub(crate) fn get(&self, name: &str, others: &[&str]) -> Result<Tool, Option<String>> {
        let near = || nearest(name, self.names().chain(others.iter().copied())).map(str::to_owned);
        self.0.get(name).cloned().ok_or_else(near)
    }
}

/// A tool that does what another one does, under a name or treatment of its own.
pub(crate) struct Delegate(pub(crate) Tool);

impl fmt::Debug for Delegate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Delegate").field(self.0.id()).finish()
    }
}

#[async_trait]
impl ToolHandler for Delegate {
    async fn call(&self, arguments: Map<String, Value>, cx: &ToolContext) -> Result<ToolOutput, ToolError> {
        output_of(self.0.invoke(arguments, cx.clone()).await.end)
    }

    fn has_inner_run(&self) -> bool {
        self.0.has_inner_run()
    }
}

/// The end of a call as a handler gives it.
pub(crate) fn output_of(end: CallEnd) -> Result<ToolOutput, ToolError> {
    match end {
        CallEnd::Ok(output) => Ok(output),
        CallEnd::Failed(error) => Err(error),
        CallEnd::Panicked { message } => {
            Err(ToolError::failed(INTERNAL_ERROR).retryable(false).with_detail(message))
        }
        CallEnd::TimedOut { limit } => {
            Err(ToolError::new(ToolErrorKind::Timeout, format!("no answer within {} ms", limit.as_millis())))
        }
        _ => Err(ToolError::new(ToolErrorKind::Cancelled, "cancelled")),
    }
}
