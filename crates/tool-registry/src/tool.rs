//! One tool: what it is, how it is treated, what it does.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use agent_types::{Annotations, ApprovalDefault, Services, ToolDefinition, ToolId};
use async_trait::async_trait;
use serde_json::{Map, Value};
use tokio::sync::Semaphore;

use crate::context::ToolContext;
use crate::dependency::Requirement;
use crate::kind::ToolKind;
use crate::output::{ToolError, ToolOutput};

/// Longest time of a call unless the tool says otherwise.
const DEFAULT_TIMEOUT: Duration = Duration::from_mins(1);

/// Longest time of a task unless the tool says otherwise.
const TASK_TIMEOUT: Duration = Duration::from_hours(24);

/// Longest result for the model unless the tool says otherwise, in bytes.
const DEFAULT_RESULT_LIMIT: usize = 8 * 1024;

/// Behaviour of a tool. The arguments fit the tool's schema.
#[async_trait]
pub trait ToolHandler: Send + Sync {
    /// Executes the call.
    ///
    /// # Errors
    /// The call failed; the model reads the message.
    ///
    /// # Cancel safety
    /// The future may be dropped at any await: on cancel, on a missed deadline.
    async fn call(&self, arguments: Map<String, Value>, cx: &ToolContext) -> Result<ToolOutput, ToolError>;

    /// Returns `true` if a call runs an agent or a workflow inside. Such a call has a moment to end its inner run when
    /// it is given up, and continues inside when its run is resumed.
    fn has_inner_run(&self) -> bool {
        false
    }

    /// Returns `true` if a task of it continues in another process, by the log of its run or by what it stored
    /// ([`ToolContext::save`]).
    fn resumes(&self) -> bool {
        self.has_inner_run()
    }
}

/// Way in which a tool is offered to a model.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Visibility {
    /// With its schema, from the first turn on.
    #[default]
    Direct,
    /// Only once it was looked for.
    Discoverable,
    /// Not at all, and it cannot be called.
    Hidden,
}

/// Answer of a call.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Answer {
    /// The whole result, when it is there.
    #[default]
    Whole,
    /// A task at once; the result is read later.
    Handle,
}

/// Settings for the calls of a tool.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct ToolSettings {
    /// Timeout of one call, including the time that it waits for a permit.
    pub timeout: Duration,
    /// Longest result that the model is shown, in bytes.
    pub result_limit: usize,
    /// Calls of this tool that may run at once in this process; absent is any number.
    pub concurrency: Option<usize>,
    /// Way in which the tool is offered to a model.
    pub visibility: Visibility,
    /// Answer of a call.
    pub answer: Answer,
    /// Retries after a retryable failure.
    pub retry: Option<ToolRetry>,
}

/// Number and backoff of the retries of a call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct ToolRetry {
    /// Attempts after the first.
    pub max: u32,
    /// The first wait where the tool names none; each further one is twice as long.
    pub backoff: Duration,
}

impl ToolRetry {
    /// So many attempts after the first, a tenth of a second before the first of them.
    #[must_use]
    pub const fn times(max: u32) -> Self {
        Self { max, backoff: Duration::from_millis(100) }
    }
}

impl Default for ToolSettings {
    fn default() -> Self {
        Self {
            timeout: DEFAULT_TIMEOUT,
            result_limit: DEFAULT_RESULT_LIMIT,
            concurrency: None,
            visibility: Visibility::default(),
            answer: Answer::default(),
            retry: None,
        }
    }
}

impl ToolSettings {
    /// The longest time of a call that counts: a task has more of it, unless a limit was set.
    pub(crate) fn limit(&self) -> Duration {
        match self.answer {
            Answer::Handle if self.timeout == DEFAULT_TIMEOUT => TASK_TIMEOUT,
            Answer::Handle | Answer::Whole => self.timeout,
        }
    }

    /// The same with retries after a retryable failure.
    #[must_use]
    pub const fn with_retry(mut self, retry: ToolRetry) -> Self {
        self.retry = Some(retry);
        self
    }

    /// The same with another time limit.
    #[must_use]
    pub const fn with_timeout(mut self, timeout: Duration) -> Self {
        self.timeout = timeout;
        self
    }

    /// The same with another limit of what the model is shown, in bytes.
    #[must_use]
    pub const fn with_result_limit(mut self, bytes: usize) -> Self {
        self.result_limit = bytes;
        self
    }

    /// The same with a limit of calls at once; 0 is taken as 1.
    #[must_use]
    pub const fn with_concurrency(mut self, calls: usize) -> Self {
        self.concurrency = Some(if calls == 0 { 1 } else { calls });
        self
    }

    /// The same, shown otherwise.
    #[must_use]
    pub const fn with_visibility(mut self, visibility: Visibility) -> Self {
        self.visibility = visibility;
        self
    }

    /// The same, answering otherwise.
    #[must_use]
    pub const fn with_answer(mut self, answer: Answer) -> Self {
        self.answer = answer;
        self
    }
}

/// A tool. Cheap to clone.
#[derive(Clone)]
pub struct Tool(Arc<Inner>);

struct Inner {
    definition: ToolDefinition,
    #[cfg(feature = "schema")]
    offered: crate::schema::Offered,
    kind: ToolKind,
    settings: ToolSettings,
    /// Room for calls, where they are limited.
    room: Option<Arc<Semaphore>>,
    requirements: Vec<Requirement>,
    parts: Arc<BTreeMap<String, Value>>,
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
    /// A tool of a definition and a handler.
    #[must_use]
    pub fn new(definition: ToolDefinition, kind: ToolKind, handler: impl ToolHandler + 'static) -> Self {
        Self(Arc::new(Inner {
            definition,
            #[cfg(feature = "schema")]
            offered: crate::schema::Offered::default(),
            kind,
            settings: ToolSettings::default(),
            room: None,
            requirements: Vec::new(),
            parts: Arc::default(),
            handler: Arc::new(handler),
        }))
    }

    /// The same, treated otherwise.
    #[must_use]
    pub fn with_settings(self, settings: ToolSettings) -> Self {
        self.changed(|inner| {
            inner.room = settings.concurrency.map(|calls| Arc::new(Semaphore::new(calls)));
            inner.settings = settings;
        })
    }

    /// The same with some settings changed; the permits for its calls stay shared.
    pub(crate) fn treated(self, change: impl FnOnce(&mut ToolSettings)) -> Self {
        self.changed(|inner| change(&mut inner.settings))
    }

    /// The same under another id.
    #[must_use]
    pub fn with_id(self, id: ToolId) -> Self {
        self.changed(|inner| {
            inner.definition.id = id;
            #[cfg(feature = "schema")]
            {
                inner.offered = crate::schema::Offered::default();
            }
        })
    }

    /// The same with a display name.
    #[must_use]
    pub fn with_title(self, title: impl Into<String>) -> Self {
        self.changed(|inner| inner.definition.title = Some(title.into()))
    }

    /// The same with what happens before anybody was asked.
    #[must_use]
    pub fn with_approval(self, approval: ApprovalDefault) -> Self {
        self.changed(|inner| inner.definition.approval = Some(approval))
    }

    /// The same with something that its calls need from their context.
    #[must_use]
    pub fn needs(self, requirement: Requirement) -> Self {
        self.changed(|inner| inner.requirements.push(requirement))
    }

    /// The same with another description.
    #[must_use]
    pub fn with_description(self, description: impl Into<String>) -> Self {
        self.changed(|inner| {
            inner.definition.description = description.into();
            #[cfg(feature = "schema")]
            {
                inner.offered = crate::schema::Offered::default();
            }
        })
    }

    /// The same with descriptions in another language: of the tool, and of parameters by name.
    #[must_use]
    pub fn translated(self, code: &str, description: &str, parameters: &[(&str, &str)]) -> Self {
        self.changed(|inner| {
            inner.definition = inner.definition.clone().translated(code, description, parameters);
            #[cfg(feature = "schema")]
            {
                inner.offered = crate::schema::Offered::default();
            }
        })
    }

    /// The same with what it says of its own behaviour.
    #[must_use]
    pub fn with_annotations(self, annotations: Annotations) -> Self {
        self.changed(|inner| inner.definition.annotations = annotations)
    }

    /// The same with the parts of what it does, by their names, beyond its code: an endpoint and a body, a workflow and
    /// those in it. An approval counts for them as they were.
    #[must_use]
    pub fn with_parts(self, parts: impl IntoIterator<Item = (String, Value)>) -> Self {
        self.changed(|inner| inner.parts = Arc::new(parts.into_iter().collect()))
    }

    /// The parts of what it does, by their names.
    #[must_use]
    pub fn parts(&self) -> &BTreeMap<String, Value> {
        &self.0.parts
    }

    fn changed(self, change: impl FnOnce(&mut Inner)) -> Self {
        let mut inner = Inner {
            definition: self.0.definition.clone(),
            #[cfg(feature = "schema")]
            offered: self.0.offered.clone(),
            kind: self.0.kind,
            settings: self.0.settings.clone(),
            room: self.0.room.clone(),
            requirements: self.0.requirements.clone(),
            parts: Arc::clone(&self.0.parts),
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

    /// Definition of the tool.
    #[must_use]
    pub fn definition(&self) -> &ToolDefinition {
        &self.0.definition
    }

    #[cfg(feature = "schema")]
    pub(crate) fn offered_cell(&self) -> &crate::schema::Offered {
        &self.0.offered
    }

    /// Its kind.
    #[must_use]
    pub fn kind(&self) -> ToolKind {
        self.0.kind
    }

    /// Settings for the calls of the tool.
    #[must_use]
    pub fn settings(&self) -> &ToolSettings {
        &self.0.settings
    }

    /// Approval that a call needs: the definition's, else that of the kind.
    #[must_use]
    pub fn approval(&self) -> ApprovalDefault {
        let definition = &self.0.definition;
        definition.approval.unwrap_or_else(|| self.0.kind.approval(&definition.annotations))
    }

    /// Type names of the services that its calls need and that are missing.
    #[must_use]
    pub fn missing(&self, services: &Services) -> Vec<&'static str> {
        let unmet = self.0.requirements.iter().filter(|requirement| !requirement.is_met(services));
        unmet.map(Requirement::name).collect()
    }

    pub(crate) fn room(&self) -> Option<&Arc<Semaphore>> {
        self.0.room.as_ref()
    }

    /// Returns `true` if a call runs an agent or a workflow inside.
    #[must_use]
    pub fn has_inner_run(&self) -> bool {
        self.handler().has_inner_run()
    }

    /// Returns `true` if a task of it continues in another process.
    #[must_use]
    pub fn resumes(&self) -> bool {
        self.handler().resumes()
    }

    pub(crate) fn handler(&self) -> &dyn ToolHandler {
        &*self.0.handler
    }
}
