//! Looking things up: a tool, and an answer that is on its way before the model asks.

use std::sync::Arc;

use async_trait::async_trait;
use futures::FutureExt;
use futures::future::{BoxFuture, Shared};
use http_caller::{EndpointConfig, HttpCaller};
use parking_lot::Mutex;
use serde_json::{Map, Value, json};
use tool_http::{HttpToolFile, http_tool};
use tool_registry::{CallEnd, Tool, ToolContext, ToolError, ToolHandler, ToolOutput};

use crate::config::{KnowledgeConfig, KnowledgeMode, Problems};
use crate::lookup::{ToolLookup, output_of};
use crate::step::placeholders;

/// Name of the tool of an endpoint.
const TOOL: &str = "retrieve_knowledge";

/// Longest part of a message that is looked up, in characters.
const MAX_QUERY: usize = 2_000;

/// Knowledge base of the agent.
#[derive(Debug, Clone)]
pub(crate) struct Knowledge {
    /// Tool that the model is offered.
    pub(crate) tool: Tool,
    /// Lookup that starts before the model asks.
    pub(crate) prefetch: Option<Lookup>,
}

/// A tool, and the parameter that takes what is looked for.
#[derive(Debug, Clone)]
pub(crate) struct Lookup {
    tool: Tool,
    parameter: String,
}

/// An answer that is on its way. The first call of the run takes it.
#[derive(Debug, Clone, Default)]
pub(crate) struct Prefetched(Arc<Mutex<Option<Underway>>>);

/// Result of a lookup, shared by all that wait for it.
pub(crate) type Underway = Shared<BoxFuture<'static, CallEnd>>;

impl Prefetched {
    pub(crate) fn new(underway: Underway) -> Self {
        Self(Arc::new(Mutex::new(Some(underway))))
    }

    fn take(&self) -> Option<Underway> {
        self.0.lock().take()
    }

    /// Drops the result, which is not needed any more.
    pub(crate) fn drop_it(&self) {
        drop(self.take());
    }
}

impl Lookup {
    pub(crate) fn tool_id(&self) -> agent_types::ToolId {
        self.tool.id().clone()
    }

    /// Begins to look a message up; nothing happens before the future is polled.
    pub(crate) fn begin(&self, message: &str, cx: ToolContext) -> Underway {
        let query: String = message.chars().take(MAX_QUERY).collect();
        let arguments = Map::from_iter([(self.parameter.clone(), Value::from(query))]);
        let tool = self.tool.clone();
        async move { tool.invoke(arguments, cx).await.end }.boxed().shared()
    }
}

impl Knowledge {
    pub(crate) fn parse(
        config: &KnowledgeConfig,
        lookup: Option<&dyn ToolLookup>,
        caller: &HttpCaller,
        problems: &mut Problems,
    ) -> Option<Self> {
        let place = "/retrieve_knowledge";
        let tool = match (&config.kb, &config.endpoint) {
            (Some(name), None) => of_base(name, config, lookup, problems)?,
            (None, Some(endpoint)) => of_endpoint(endpoint, config, caller, problems)?,
            (None, None) => {
                problems.error(place, "no_target", "it has `kb` or `endpoint`");
                return None;
            }
            (Some(_), Some(_)) => {
                problems.error(place, "two_targets", "it has either `kb` or `endpoint`");
                return None;
            }
        };
        if config.mode == KnowledgeMode::Tool {
            return Some(Self { tool, prefetch: None });
        }
        let Some(parameter) = first_text(&tool) else {
            problems.error(
                format!("{place}/parameters"),
                "no_query",
                "no parameter takes a text to look for",
            );
            return None;
        };
        let definition = tool.definition().clone();
        let settings = tool.settings().clone();
        let offered =
            Tool::new(definition, tool.kind(), Waiting(tool.clone())).with_settings(settings).checked();
        let offered = offered.map_err(|error| problems.error(place, error.code(), error.to_string())).ok()?;
        Some(Self { tool: offered, prefetch: Some(Lookup { tool, parameter }) })
    }
}

fn of_base(
    name: &str,
    config: &KnowledgeConfig,
    lookup: Option<&dyn ToolLookup>,
    problems: &mut Problems,
) -> Option<Tool> {
    let tool = match lookup.map(|lookup| lookup.lookup_in("kb", name)) {
        Some(Ok(tool)) => tool,
        Some(Err(none)) => {
            problems.near(
                "/retrieve_knowledge/kb",
                "unknown_kb",
                format!("unknown knowledge base `{name}`"),
                none.near,
            );
            return None;
        }
        None => {
            problems.error("/retrieve_knowledge/kb", "unknown_kb", "knowledge bases are not available here");
            return None;
        }
    };
    match &config.description {
        Some(description) => Some(tool.with_description(description.as_str())),
        None => Some(tool),
    }
}

fn of_endpoint(
    endpoint: &EndpointConfig,
    config: &KnowledgeConfig,
    caller: &HttpCaller,
    problems: &mut Problems,
) -> Option<Tool> {
    let description = config.description.as_deref().unwrap_or("Looks things up in the knowledge base.");
    let parameters = config.parameters.clone().unwrap_or_else(|| texts_of(endpoint));
    let file = HttpToolFile::new(TOOL, description, parameters, endpoint.clone());
    let tool = http_tool(&file, caller);
    // Looking things up changes nothing, whatever the method.
    let read_only = |tool: Tool| {
        let annotations =
            agent_types::Annotations { read_only: true, effect: false, ..tool.definition().annotations };
        tool.with_annotations(annotations)
    };
    tool.map(read_only)
        .map_err(|error| crate::builder::http_problems(error, "/retrieve_knowledge", problems))
        .ok()
}

/// One required text for each placeholder.
pub(crate) fn texts_of(endpoint: &EndpointConfig) -> Value {
    let names = placeholders(endpoint);
    let properties: Map<String, Value> =
        names.iter().map(|name| (name.clone(), json!({"type": "string"}))).collect();
    json!({"type": "object", "properties": properties, "required": names, "additionalProperties": false})
}

/// The parameter that takes what is looked for: a text that must be given, else the first text.
fn first_text(tool: &Tool) -> Option<String> {
    let schema = &tool.definition().parameters;
    let properties = schema.get("properties")?.as_object()?;
    let is_text = |name: &&str| {
        properties.get(*name).is_some_and(|schema| schema.get("type") == Some(&"string".into()))
    };
    let required =
        schema.get("required").and_then(Value::as_array).into_iter().flatten().filter_map(Value::as_str);
    required.chain(properties.keys().map(String::as_str)).find(is_text).map(str::to_owned)
}

/// Gives the first call the answer that is on its way.
struct Waiting(Tool);

#[async_trait]
impl ToolHandler for Waiting {
    async fn call(&self, arguments: Map<String, Value>, cx: &ToolContext) -> Result<ToolOutput, ToolError> {
        let underway = cx.services.get::<Prefetched>().and_then(|prefetched| prefetched.take());
        if let Some(underway) = underway {
            // One that failed is no reason not to look now.
            if let CallEnd::Ok(output) = underway.await {
                return Ok(output);
            }
        }
        output_of(self.0.invoke(arguments, cx.clone()).await.end)
    }

    fn has_inner_run(&self) -> bool {
        self.0.has_inner_run()
    }
}
