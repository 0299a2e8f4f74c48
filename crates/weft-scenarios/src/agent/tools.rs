//! The tools of a case.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use agent_runtime::{Agent, AgentProfile, SubAgent};
use agent_types::Clock;
use agent_types::ToolDefinition;
use async_trait::async_trait;
use http_caller::HttpCaller;
use llm_provider::{LlmProvider, ModelSource, SingleModel};
use serde_json::{Map, Value, json};
use tool_http::{HttpToolFile, http_tool};
use tool_registry::{
    Answer as Answers, Providers, Services, Snapshot, Tool, ToolContext, ToolError, ToolHandler, ToolKind,
    ToolLookupError, ToolOutput, ToolRetry, ToolSettings,
};
use tool_system::SystemTools;
use tool_workflow::{NodeTools, WorkflowLibrary, WorkflowTools};
use workflow_model::{Workflow, WorkflowSource};

use super::case::{Answer, Case, ToolSpec, profile_of};
use super::fixtures::{Begins, Pulse, World};
use crate::Fault;

/// All that tools of a case are made of.
pub(crate) struct Workshop {
    pub(crate) world: Arc<World>,
    pub(crate) model: Arc<dyn LlmProvider>,
    pub(crate) caller: HttpCaller,
    pub(crate) clock: Arc<dyn Clock>,
    providers: Providers,
    services: Services,
}

/// The workflows of a case.
#[derive(Debug, Default)]
struct Workflows(BTreeMap<String, Arc<Workflow>>);

impl WorkflowSource for Workflows {
    fn workflow(&self, id: &str) -> Option<Arc<Workflow>> {
        self.0.get(id).cloned()
    }

    fn workflow_ids(&self) -> Vec<String> {
        self.0.keys().cloned().collect()
    }
}

impl WorkflowLibrary for Workflows {}

impl Workshop {
    pub(crate) fn new(
        case: &Case,
        world: Arc<World>,
        model: Arc<dyn LlmProvider>,
        caller: HttpCaller,
        clock: Arc<dyn Clock>,
    ) -> Result<Self, Fault> {
        let mut workflows = Workflows::default();
        for (id, file) in &case.workflows {
            let workflow = Workflow::from_value(file.clone());
            let workflow = workflow.map_err(|error| format!("workflow `{id}`: {error}"))?;
            workflows.0.insert(id.clone(), Arc::new(workflow));
        }
        let source: Arc<dyn ModelSource> = Arc::new(SingleModel::new(Arc::clone(&model)));
        let services = Services::new().with::<dyn ModelSource>(source).with(Arc::new(caller.clone()));
        let catalog = Arc::new(node_library::catalog());
        let providers = Providers::new()
            .with(SystemTools::new())
            .with(WorkflowTools::new(Arc::new(workflows), Arc::clone(&catalog)))
            .with(NodeTools::new(catalog));
        Ok(Self { world, model, caller, clock, providers, services })
    }

    /// A tool that the case does not write out: a workflow of it, a node, or one that comes with weft.
    pub(crate) fn known(&self, id: &str) -> Result<Option<Tool>, Fault> {
        match self.providers.resolve(&self.providers.canonical(id), &self.services) {
            Ok(tool) => Ok(Some(tool)),
            Err(ToolLookupError::Unknown(_)) => Ok(None),
            Err(error) => Err(format!("{id}: {error}")),
        }
    }

    /// A tool of the project whose answers the case writes out.
    pub(crate) fn stub(&self, spec: &ToolSpec, own: &Tool) -> Tool {
        let answers = Fake { answers: spec.reply.clone(), given: AtomicUsize::new(0) };
        let handler = Noted { world: Arc::clone(&self.world), inner: answers };
        Tool::new(own.definition().clone(), own.kind(), handler).with_settings(own.settings().clone())
    }

    /// A tool of the case.
    pub(crate) fn tool(&self, spec: &ToolSpec) -> Result<Tool, Fault> {
        let fault = |error: String| format!("tool `{}`: {error}", spec.name);
        if let Some(endpoint) = &spec.endpoint {
            return Ok(self.endpoint(spec, endpoint).map_err(fault)?.with_settings(settings_of(spec)));
        }
        let id = spec.name.parse().map_err(|error: agent_types::InvalidToolId| fault(error.to_string()))?;
        let nothing = || json!({"type": "object", "properties": {}, "additionalProperties": false});
        let parameters = spec.parameters.clone().unwrap_or_else(nothing);
        let definition = ToolDefinition::new(id, spec.description.as_str(), parameters);
        // A stub stands in the namespace of what it stands for.
        let kind = match spec.name.split_once(':') {
            Some(("mcp", _)) => ToolKind::foreign("mcp"),
            _ => ToolKind::NATIVE,
        };
        let tool = match &spec.agent {
            Some(profile) => {
                let inner = SubAgent::new(self.agent(profile, &spec.inner_tools()?)?);
                let inner = if spec.shares()? { inner.sharing_last_message() } else { inner };
                let handler = Noted { world: Arc::clone(&self.world), inner };
                Tool::new(definition, kind, handler)
            }
            None if spec.reply.is_empty() => return Err(fault("it needs `reply`".to_owned())),
            None => {
                let answers = Fake { answers: spec.reply.clone(), given: AtomicUsize::new(0) };
                let handler = Noted { world: Arc::clone(&self.world), inner: answers };
                Tool::new(definition, kind, handler)
            }
        };
        let tool = tool.checked().map_err(|error| fault(error.to_string()))?;
        Ok(tool.with_annotations(spec.annotations.clone()).with_settings(settings_of(spec)))
    }

    fn endpoint(&self, spec: &ToolSpec, endpoint: &Value) -> Result<Tool, String> {
        let mut file = Map::new();
        let parts = [
            ("name", Some(spec.name.clone().into())),
            ("description", Some(spec.description.clone().into())),
            ("parameters", spec.parameters.clone()),
            ("endpoint", Some(endpoint.clone())),
            ("context", (!spec.context.is_empty()).then(|| json!(spec.context))),
            ("response", spec.response.clone()),
            ("auth", spec.auth.clone()),
        ];
        file.extend(parts.into_iter().filter_map(|(key, value)| Some((key.to_owned(), value?))));
        let file = HttpToolFile::from_json(&Value::Object(file).to_string());
        let tool = file.and_then(|file| http_tool(&file, &self.caller)).map_err(|error| error.to_string())?;
        let stated = spec.annotations != agent_types::Annotations::default();
        Ok(if stated { tool.with_annotations(spec.annotations.clone()) } else { tool })
    }

    /// A profile of the case, with canonical ids of tools.
    pub(crate) fn profile(&self, profile: &Value) -> Result<AgentProfile, Fault> {
        Ok(profile_of(profile)?.with_canonical_ids(|id| self.providers.canonical(id)))
    }

    /// An agent that answers calls.
    fn agent(&self, profile: &Value, tools: &[ToolSpec]) -> Result<Agent, Fault> {
        let profile = self.profile(profile)?;
        let mut made = tools.iter().map(|spec| self.tool(spec)).collect::<Result<Vec<_>, _>>()?;
        for id in profile.tool_ids() {
            if made.iter().all(|tool| tool.id().as_str() != id) {
                made.push(self.known(&id)?.ok_or_else(|| format!("unknown tool `{id}`"))?);
            }
        }
        let tools = Snapshot::new(made).map_err(|error| error.to_string())?;
        Ok(Agent::from_profile(profile, Arc::clone(&self.model), tools).with_clock(Arc::clone(&self.clock)))
    }

    /// Returns `true` when executions of a tool are noted where they happen.
    pub(crate) fn notes(tool: &ToolSpec) -> bool {
        tool.endpoint.is_none()
    }
}

/// Settings for calls of a tool.
fn settings_of(spec: &ToolSpec) -> ToolSettings {
    let mut settings = ToolSettings::default();
    if let Some(ms) = spec.timeout_ms {
        settings = settings.with_timeout(Duration::from_millis(ms));
    }
    if let Some(bytes) = spec.result_limit {
        settings = settings.with_result_limit(bytes);
    }
    if let Some(retry) = spec.retry {
        settings = settings.with_retry(ToolRetry::times(retry.max));
    }
    if spec.long_running {
        settings = settings.with_answer(Answers::Handle);
    }
    settings
}

/// Notes each execution.
struct Noted<H> {
    world: Arc<World>,
    inner: H,
}

#[async_trait]
impl<H: ToolHandler> ToolHandler for Noted<H> {
    async fn call(&self, arguments: Map<String, Value>, cx: &ToolContext) -> Result<ToolOutput, ToolError> {
        let pulse = self.world.pulse(&Begins::Call(cx.call.to_string()));
        if pulse != Pulse::Dead && cx.resume.is_none() {
            self.world.executed(cx.tool.as_str(), &arguments);
        }
        if pulse == Pulse::Last {
            let _lost = futures::poll!(self.inner.call(arguments.clone(), cx));
        }
        if !matches!(pulse, Pulse::Alive(_)) {
            self.world.outlive(pulse).await;
        }
        let result = self.inner.call(arguments, cx).await;
        self.world.outlive(pulse).await;
        result
    }

    fn has_inner_run(&self) -> bool {
        self.inner.has_inner_run()
    }
}

/// Gives what the case says.
struct Fake {
    answers: Vec<Answer>,
    given: AtomicUsize,
}

#[async_trait]
impl ToolHandler for Fake {
    async fn call(&self, _: Map<String, Value>, cx: &ToolContext) -> Result<ToolOutput, ToolError> {
        let at = self.given.fetch_add(1, Ordering::Relaxed);
        let answer = self.answers.get(at).or(self.answers.last()).cloned().unwrap_or_default();
        if answer.sleep_ms > 0 {
            cx.clock.sleep(Duration::from_millis(answer.sleep_ms)).await;
        }
        give(answer, cx).await
    }
}

async fn give(answer: Answer, cx: &ToolContext) -> Result<ToolOutput, ToolError> {
    if answer.hang {
        std::future::pending::<()>().await;
    }
    #[expect(clippy::panic, reason = "the case wants a tool that panics")]
    if let Some(message) = answer.panic {
        panic!("{message}");
    }
    if let Some(message) = answer.error {
        if answer.fatal {
            return Err(ToolError::fatal(message));
        }
        let error = ToolError::failed(message).retryable(answer.retryable);
        return Err(match answer.retry_after_ms {
            Some(ms) => error.after(Duration::from_millis(ms)),
            None => error,
        });
    }
    for chunk in answer.chunks.iter().flatten() {
        cx.chunk(chunk.as_str());
    }
    if let Some(bytes) = answer.bytes {
        let mut text = "x".repeat(bytes);
        if let Some(needle) = answer.needle.filter(|needle| needle.at + needle.text.len() <= bytes) {
            text.replace_range(needle.at..needle.at + needle.text.len(), &needle.text);
        }
        return Ok(ToolOutput::Text(text));
    }
    if let Some(value) = answer.ends {
        return Ok(ToolOutput::Ended(value));
    }
    if let Some(parts) = answer.parts {
        return Ok(ToolOutput::Parts(parts));
    }
    Ok(match answer.ok {
        Some(Value::String(text)) => ToolOutput::Text(text),
        Some(value) => ToolOutput::Json(value),
        None => ToolOutput::Text(answer.chunks.unwrap_or_default().concat()),
    })
}
