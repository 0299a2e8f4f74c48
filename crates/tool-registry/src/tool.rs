//! One tool: what it is, how it is treated, what it does.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use agent_types::{Annotations, ApprovalDefault, ToolId};
use async_trait::async_trait;
use serde_json::{Map, Value};
use tool_schema::{CompiledSchema, OfferedTool, ToolDefinition, ToolSetError};

use crate::context::ToolContext;
use crate::output::{ToolError, ToolOutput};

/// Longest time of a call unless the tool says otherwise.
const DEFAULT_TIMEOUT: Duration = Duration::from_mins(1);

/// Longest result for the model unless the tool says otherwise, in bytes.
const DEFAULT_RESULT_LIMIT: usize = 8 * 1024;

/// What a tool does when it is called. The arguments fit the tool's schema.
#[async_trait]
pub trait ToolHandler: Send + Sync {
    /// Does it.
    ///
    /// # Errors
    /// Why it could not; the model reads the message.
    ///
    /// # Cancel safety
    /// The future may be dropped at any await: on cancel, on a missed deadline.
    async fn call(&self, arguments: Map<String, Value>, cx: &ToolContext) -> Result<ToolOutput, ToolError>;
}

/// Where a tool comes from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum ToolKind {
    /// Rust code of this process.
    Native,
    /// A workflow.
    Workflow,
    /// A single node.
    Node,
    /// An HTTP endpoint.
    Http,
    /// A server of the Model Context Protocol.
    Mcp,
}

/// How calls of a tool are treated.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct ToolSettings {
    /// Longest time of one call.
    pub timeout: Duration,
    /// Longest result that the model is shown, in bytes.
    pub result_limit: usize,
}

impl Default for ToolSettings {
    fn default() -> Self {
        Self { timeout: DEFAULT_TIMEOUT, result_limit: DEFAULT_RESULT_LIMIT }
    }
}

impl ToolSettings {
    /// The same with another time limit.
    #[must_use]
    pub const fn with_timeout(mut self, timeout: Duration) -> Self {
        self.timeout = timeout;
        self
    }
}

/// A tool. Cheap to clone.
#[derive(Clone)]
pub struct Tool(Arc<Inner>);

struct Inner {
    definition: ToolDefinition,
    offered: OfferedTool,
    kind: ToolKind,
    settings: ToolSettings,
    handler: Arc<dyn ToolHandler>,
}

impl fmt::Debug for Tool {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Tool")
            .field("id", self.id())
            .field("kind", &self.0.kind)
            .field("settings", &self.0.settings)
            .finish_non_exhaustive()
    }
}

impl Tool {
    /// A tool of a definition and what it does.
    ///
    /// # Errors
    /// A schema that cannot be used.
    pub fn new(
        definition: ToolDefinition,
        kind: ToolKind,
        handler: impl ToolHandler + 'static,
    ) -> Result<Self, ToolSetError> {
        let offered = OfferedTool::of(definition.clone())?;
        let handler = Arc::new(handler);
        Ok(Self(Arc::new(Inner { definition, offered, kind, settings: ToolSettings::default(), handler })))
    }

    /// The same, treated otherwise.
    #[must_use]
    pub fn with_settings(self, settings: ToolSettings) -> Self {
        self.changed(|inner| inner.settings = settings)
    }

    /// The same with what it says of its own behaviour.
    #[must_use]
    pub fn with_annotations(self, annotations: Annotations) -> Self {
        self.changed(|inner| inner.definition.annotations = annotations)
    }

    fn changed(self, change: impl FnOnce(&mut Inner)) -> Self {
        let mut inner = Inner {
            definition: self.0.definition.clone(),
            offered: self.0.offered.clone(),
            kind: self.0.kind,
            settings: self.0.settings.clone(),
            handler: Arc::clone(&self.0.handler),
        };
        change(&mut inner);
        Self(Arc::new(inner))
    }

    /// Its canonical id.
    #[must_use]
    pub fn id(&self) -> &ToolId {
        &self.0.definition.id
    }

    /// What it is.
    #[must_use]
    pub fn definition(&self) -> &ToolDefinition {
        &self.0.definition
    }

    /// The same as the reader of replies needs it.
    #[must_use]
    pub fn offered(&self) -> &OfferedTool {
        &self.0.offered
    }

    /// The schema of its arguments.
    #[must_use]
    pub fn schema(&self) -> &CompiledSchema {
        &self.0.offered.schema
    }

    /// Where it comes from.
    #[must_use]
    pub fn kind(&self) -> ToolKind {
        self.0.kind
    }

    /// How its calls are treated.
    #[must_use]
    pub fn settings(&self) -> &ToolSettings {
        &self.0.settings
    }

    /// Whether a person is asked before a call: what the definition says, else what the kind of tool means.
    #[must_use]
    pub fn approval(&self) -> ApprovalDefault {
        let annotations = &self.0.definition.annotations;
        let by_kind = match self.0.kind {
            ToolKind::Native | ToolKind::Workflow | ToolKind::Node if annotations.effect => {
                ApprovalDefault::Ask
            }
            ToolKind::Native | ToolKind::Workflow | ToolKind::Node => ApprovalDefault::Auto,
            ToolKind::Http | ToolKind::Mcp if annotations.read_only => ApprovalDefault::Auto,
            ToolKind::Http | ToolKind::Mcp => ApprovalDefault::Ask,
        };
        self.0.definition.approval.unwrap_or(by_kind)
    }

    pub(crate) fn handler(&self) -> &dyn ToolHandler {
        &*self.0.handler
    }
}
