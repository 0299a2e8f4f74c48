//! One thing that is done: a request, a workflow, or code of the program.

use std::collections::BTreeSet;
use std::sync::Arc;

use agent_types::{
    AskKind, AskSummary, Budget, BudgetLimits, CallId, Clock, EventBody, EventLocation, EventSink, Problem,
    ResumeLog, UnsequencedEvent, nearest,
};
use http_caller::{CallConfig, CallValues, Endpoint, EndpointConfig, HttpCaller, Scope};
use run_journal::{ask_in_call, log_in_call};
use serde_json::{Map, Value, json};
use tokio_util::sync::CancellationToken;
use tool_registry::{CallEnd, Services, Tool, ToolContext};

use crate::config::Problems;
use crate::mapping::{Mapping, Sources};

/// Name of what the user wrote, in requests and replies.
pub const USER_MESSAGE: &str = "user_message";

/// Parameters of workflows and code that take what the user wrote where nothing is mapped to them.
const OWN_NAMES: [&str; 2] = [USER_MESSAGE, "message"];

/// Work of a flow or a system action.
#[derive(Debug, Clone)]
pub(crate) enum Step {
    /// A request.
    Request(Box<Endpoint>),
    /// A workflow, or code of the program. It is offered to no model.
    Tool(Tool),
}

/// Context of a step: its run, services and values.
#[derive(Debug, Clone)]
pub(crate) struct StepContext {
    pub(crate) caller: HttpCaller,
    pub(crate) services: Services,
    pub(crate) clock: Arc<dyn Clock>,
    pub(crate) cancel: CancellationToken,
    pub(crate) sink: Arc<dyn EventSink>,
    /// Context values, for requests and tools.
    pub(crate) context: Arc<Map<String, Value>>,
    /// Events inside the step from before its run was interrupted or suspended.
    pub(crate) log: Option<ResumeLog>,
}

/// Reason for which a step has no result.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum StepFault {
    /// It failed, in a sentence without secrets.
    Failed(String),
    /// It waits for answers of the user.
    Asks(Vec<AskSummary>),
    /// The outcome of an effect inside it is unknown.
    Unknown,
}

impl From<String> for StepFault {
    fn from(message: String) -> Self {
        Self::Failed(message)
    }
}

impl StepContext {
    pub(crate) fn emit(&self, body: EventBody) {
        self.sink.record(&mut vec![UnsequencedEvent::new(EventLocation::default(), body)]);
    }
}

impl Step {
    /// A request, whose placeholders are the parameters and what the user wrote.
    pub(crate) fn request(
        config: &EndpointConfig,
        mapping: &Mapping,
        place: &str,
        problems: &mut Problems,
    ) -> Option<Self> {
        let required: Vec<&str> = mapping.names().chain([USER_MESSAGE]).collect();
        let properties: Map<String, Value> =
            required.iter().map(|name| ((*name).to_owned(), json!({}))).collect();
        let scope =
            Scope::new(&json!({"type": "object", "properties": properties, "required": required}), &[]);
        let config = CallConfig { endpoint: config.clone(), ..CallConfig::default() };
        match Endpoint::new(&config, &scope) {
            Ok(endpoint) => {
                let used = placeholders(&config.endpoint);
                for name in mapping.names().filter(|name| !used.contains(*name)) {
                    let message = format!("nothing in the request is `{{{name}}}`");
                    problems.warning(place, "unused_parameter", message);
                }
                Some(Self::Request(Box::new(endpoint)))
            }
            Err(error) => {
                let (parent, key) = place.rsplit_once('/').unwrap_or(("", place));
                debug_assert_eq!(key, "endpoint", "problems of requests begin with that word");
                error.problems.into_iter().for_each(|problem| problems.http(parent, problem));
                None
            }
        }
    }

    /// A tool that takes the mapped parameters.
    pub(crate) fn tool(
        tool: Tool,
        mapping: &Mapping,
        services: &Services,
        place: &str,
        problems: &mut Problems,
    ) -> Self {
        let schema = &tool.definition().parameters;
        let known = schema.get("properties").and_then(Value::as_object);
        for name in mapping.names() {
            if known.is_some_and(|known| !known.contains_key(name)) {
                let near = known
                    .and_then(|known| nearest(name, known.keys().map(String::as_str)))
                    .map(str::to_owned);
                problems.near(
                    place,
                    "unknown_parameter",
                    format!("`{}` has no parameter `{name}`", tool.id()),
                    near,
                );
            }
        }
        let required =
            schema.get("required").and_then(Value::as_array).into_iter().flatten().filter_map(Value::as_str);
        let is_given = |name: &str| {
            OWN_NAMES.contains(&name)
                || mapping.names().any(|own| own == name)
                || tool.definition().defaults.contains_key(name)
        };
        for name in required.filter(|name| !is_given(name)) {
            let message = format!("`{}` needs the parameter `{name}`", tool.id());
            problems.error(place, "missing_parameter", message);
        }
        let missing = tool.missing(services);
        if !missing.is_empty() {
            let message = format!("`{}` needs {}", tool.id(), missing.join(" and "));
            problems.error(place, "missing_dependency", message);
        }
        Self::Tool(tool)
    }

    /// Returns `true` if the step has no effect.
    pub(crate) fn is_read_only(&self) -> bool {
        match self {
            Self::Request(endpoint) => endpoint.is_read_only(),
            Self::Tool(tool) => tool.definition().annotations.read_only,
        }
    }

    /// Events inside the step, in a log of the run around it.
    pub(crate) fn log_inside(&self, name: &str, log: &ResumeLog) -> Option<ResumeLog> {
        match self {
            Self::Request(_) => None,
            Self::Tool(_) => log_in_call(log, &CallId::new(name), 0),
        }
    }

    /// Does it.
    ///
    /// # Errors
    /// It failed, or waits for answers of the user.
    pub(crate) async fn run(
        &self,
        name: &str,
        mapping: &Mapping,
        sources: Sources<'_>,
        cx: &StepContext,
    ) -> Result<Value, StepFault> {
        let mut arguments = mapping.fill(sources);
        match self {
            Self::Request(endpoint) => {
                arguments.entry(USER_MESSAGE).or_insert_with(|| sources.message.into());
                let values = CallValues { arguments: &arguments, context: sources.context };
                let answer = cx.caller.call(endpoint, values).await.map_err(|error| error.to_string())?;
                for message in answer.warnings {
                    cx.emit(EventBody::AgentWarning { kind: "http_answer".into(), message });
                }
                Ok(answer.body)
            }
            Self::Tool(tool) => call(tool, name, arguments, sources.message, cx).await,
        }
    }
}

async fn call(
    tool: &Tool,
    name: &str,
    mut arguments: Map<String, Value>,
    message: &str,
    cx: &StepContext,
) -> Result<Value, StepFault> {
    let definition = tool.definition();
    let takes =
        |name: &str| definition.parameters.get("properties").is_some_and(|known| known.get(name).is_some());
    for own in OWN_NAMES.into_iter().filter(|own| takes(own)) {
        arguments.entry(own).or_insert_with(|| message.into());
    }
    for (name, value) in &definition.defaults {
        arguments.entry(name.as_str()).or_insert_with(|| value.clone());
    }
    let typed = tool.schema().map_err(|error| error.to_string())?.type_json(arguments.into());
    if !typed.problems.is_empty() {
        return Err(Problem::messages(&typed.problems).into());
    }
    let call = CallId::new(name);
    let place = EventLocation { call: Some(call.clone()), ..EventLocation::default() };
    let budget = Budget::new(BudgetLimits::default());
    let context = ToolContext::new(
        call.clone(),
        tool.id().clone(),
        Arc::clone(&cx.clock),
        budget,
        Arc::clone(&cx.sink),
        place,
    )
    .with_cancel(cx.cancel.clone())
    .with_services(cx.services.clone())
    .with_values(Arc::clone(&cx.context))
    .with_resume(cx.log.clone());
    match tool.invoke(typed.arguments, context).await.end {
        CallEnd::Ok(output) => Ok(output.value()),
        CallEnd::Failed(error) if asks_user(&error.asks) => {
            let asks = error.asks.into_iter();
            Err(StepFault::Asks(asks.map(|ask| named(&call, ask)).collect()))
        }
        CallEnd::Failed(error) if error.asks.iter().any(|ask| ask.kind == AskKind::Outcome) => {
            Err(StepFault::Unknown)
        }
        CallEnd::Failed(error) => Err(error.to_string().into()),
        CallEnd::Panicked { message } => Err(format!("it panicked: {message}").into()),
        CallEnd::TimedOut { limit } => Err(format!("no answer within {} ms", limit.as_millis()).into()),
        CallEnd::Cancelled => Err("cancelled".to_owned().into()),
        _ => Err("it ended in an unknown way".to_owned().into()),
    }
}

/// Returns `true` for questions that the user of a session can answer: approvals and unknown effects are not theirs.
fn asks_user(asks: &[AskSummary]) -> bool {
    !asks.is_empty() && asks.iter().all(|ask| ask.kind == AskKind::Question)
}

/// A question inside a call, under the name that it has in the run around it.
fn named(call: &CallId, ask: AskSummary) -> AskSummary {
    AskSummary { ask: ask_in_call(call, &ask.ask).into(), ..ask }
}

/// The first names of all placeholders of a request that are neither context values nor secrets.
pub fn placeholders(config: &EndpointConfig) -> BTreeSet<String> {
    let mut names = BTreeSet::new();
    let value = serde_json::to_value(config).unwrap_or_default();
    let mut open = vec![&value];
    while let Some(value) = open.pop() {
        match value {
            Value::String(text) => add_names(text, &mut names),
            Value::Array(items) => open.extend(items),
            Value::Object(members) => open.extend(members.values()),
            Value::Null | Value::Bool(_) | Value::Number(_) => {}
        }
    }
    names
}

fn add_names(text: &str, names: &mut BTreeSet<String>) {
    let mut rest = text;
    while let Some(at) = rest.find('{') {
        rest = &rest[at + 1..];
        if let Some(after) = rest.strip_prefix('{') {
            rest = after;
            continue;
        }
        let Some((name, after)) = rest.split_once('}') else { return };
        let name = name.trim();
        if !name.starts_with('$') {
            names.insert(name.split('.').next().unwrap_or(name).to_owned());
        }
        rest = after;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn placeholders_are_found_wherever_they_stand() {
        let config: EndpointConfig = serde_json::from_value(json!({
            "url": "https://x.test/{a}/{$ctx.tenant}", "query_params": {"q": "{ b.c }", "r": ["{d}"]},
            "headers": {"X-Key": "{$secret.KEY}"}, "body": {"text": "{{not}} {e}", "n": 1}
        }))
        .unwrap();
        assert_eq!(placeholders(&config), ["a", "b", "d", "e"].map(str::to_owned).into());
    }
}
