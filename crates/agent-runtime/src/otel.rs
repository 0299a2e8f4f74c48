//! OpenTelemetry spans from the events of a run, by the semantic conventions for generative AI.
//!
//! A run is `invoke_agent`, each request to the model `chat` inside it, each call `execute_tool`. What was said, and
//! what calls took and gave, is left out unless [`Spans::with_content`] asks for it.

use std::collections::HashMap;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use agent_types::{CallId, EventBody, EventLocation, RunStatus, Timestamp, ToolStatus, TraceEvent};
use opentelemetry::trace::{Span, SpanContext, SpanKind, Status, TraceContextExt, Tracer};
use opentelemetry::{Context, KeyValue};

/// Key of an open span.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
enum Which {
    Run,
    /// By the number of the turn's span.
    Chat(u64),
    Tool(CallId),
}

/// Creates spans from events, one run at a time. The subscriber of the run passes its events in order.
///
/// Nothing is sent anywhere but to the tracer, and a program without one has no spans.
#[derive(Debug)]
pub struct Spans<T: Tracer> {
    tracer: T,
    content: bool,
    agent: String,
    open: HashMap<Which, T::Span>,
    arguments: HashMap<CallId, String>,
}

impl<T: Tracer> Spans<T>
where
    T::Span: Send + Sync + 'static,
{
    /// Spans of this tracer.
    #[must_use]
    pub fn new(tracer: T) -> Self {
        Self { tracer, content: false, agent: String::new(), open: HashMap::new(), arguments: HashMap::new() }
    }

    /// Also notes the arguments and results of calls, and the texts of the model. They may be private.
    #[must_use]
    pub fn with_content(mut self) -> Self {
        self.content = true;
        self
    }

    /// Takes an event of the run.
    pub fn see(&mut self, event: &TraceEvent) {
        let (at, place) = (time(event.ts), &event.place);
        match &event.body {
            EventBody::RunStarted { agent, .. } => {
                self.agent = agent.clone().unwrap_or_default();
                let name = format!("invoke_agent {}", self.agent);
                let attributes = vec![
                    KeyValue::new("gen_ai.operation.name", "invoke_agent"),
                    KeyValue::new("gen_ai.agent.name", self.agent.clone()),
                    KeyValue::new("gen_ai.agent.run.id", event.run.to_string()),
                ];
                self.start(Which::Run, None, name, SpanKind::Internal, attributes, at);
            }
            EventBody::RunFinished { status, exit, message, .. } => {
                let exit = exit.map_or_else(|| "error".to_owned(), |exit| exit.to_string());
                let failed = (*status != RunStatus::Ok).then(|| (exit, message.clone().unwrap_or_default()));
                self.end(&Which::Run, Vec::new(), failed, at);
            }
            EventBody::AgentLlmStarted { model, .. } => {
                let attributes = vec![
                    KeyValue::new("gen_ai.operation.name", "chat"),
                    KeyValue::new("gen_ai.request.model", model.clone()),
                    KeyValue::new("gen_ai.agent.name", self.agent.clone()),
                ];
                let parent = place.call.clone();
                let name = format!("chat {model}");
                self.start(Which::Chat(place.span), parent, name, SpanKind::Client, attributes, at);
            }
            EventBody::AgentLlmFinished { text, finish, usage, .. } => {
                let mut attributes = vec![
                    KeyValue::new("gen_ai.usage.input_tokens", count(usage.input)),
                    KeyValue::new("gen_ai.usage.output_tokens", count(usage.output)),
                    KeyValue::new("gen_ai.response.finish_reasons", finish.clone()),
                ];
                if self.content {
                    attributes.push(KeyValue::new("gen_ai.output.messages", text.clone()));
                }
                let failed = matches!(finish.as_str(), "error" | "cancelled");
                let failed = failed.then(|| (finish.clone(), String::new()));
                self.end(&Which::Chat(place.span), attributes, failed, at);
            }
            EventBody::AgentCallReady { arguments, .. } if self.content => {
                if let Some(call) = &place.call {
                    let text = serde_json::to_string(&**arguments).unwrap_or_default();
                    self.arguments.insert(call.clone(), text);
                }
            }
            EventBody::AgentToolStarted { tool } => self.start_tool(place, tool.as_str(), at),
            EventBody::AgentToolFinished { status, summary, .. } => {
                let Some(call) = place.call.clone() else { return };
                let result = KeyValue::new("gen_ai.tool.call.result", summary.clone());
                let attributes = if self.content { vec![result] } else { Vec::new() };
                let failed = (*status != ToolStatus::Ok).then(|| (status.to_string(), String::new()));
                self.end(&Which::Tool(call), attributes, failed, at);
            }
            _ => {}
        }
    }

    fn start_tool(&mut self, place: &EventLocation, tool: &str, at: SystemTime) {
        let Some(call) = place.call.clone() else { return };
        let mut attributes = vec![
            KeyValue::new("gen_ai.operation.name", "execute_tool"),
            KeyValue::new("gen_ai.tool.name", tool.to_owned()),
            KeyValue::new("gen_ai.tool.call.id", call.to_string()),
            KeyValue::new("gen_ai.tool.type", "function"),
            KeyValue::new("gen_ai.agent.name", self.agent.clone()),
        ];
        let arguments = self.arguments.remove(&call);
        attributes.extend(arguments.map(|text| KeyValue::new("gen_ai.tool.call.arguments", text)));
        let (parent, name) = (place.parent_call.clone(), format!("execute_tool {tool}"));
        self.start(Which::Tool(call), parent, name, SpanKind::Internal, attributes, at);
    }

    /// Begins a span inside a call, or else inside the run.
    fn start(
        &mut self,
        which: Which,
        inside: Option<CallId>,
        name: String,
        kind: SpanKind,
        attributes: Vec<KeyValue>,
        at: SystemTime,
    ) {
        let parent = inside
            .and_then(|call| self.open.get(&Which::Tool(call)))
            .or_else(|| self.open.get(&Which::Run))
            .map(|span| span.span_context().clone());
        let builder =
            self.tracer.span_builder(name).with_kind(kind).with_attributes(attributes).with_start_time(at);
        let span = self.tracer.build_with_context(builder, &context(parent));
        self.open.insert(which, span);
    }

    fn end(
        &mut self,
        which: &Which,
        attributes: Vec<KeyValue>,
        failed: Option<(String, String)>,
        at: SystemTime,
    ) {
        let Some(mut span) = self.open.remove(which) else { return };
        span.set_attributes(attributes);
        if let Some((kind, message)) = failed {
            span.set_attribute(KeyValue::new("error.type", kind));
            span.set_status(Status::error(message));
        }
        span.end_with_timestamp(at);
    }
}

fn context(parent: Option<SpanContext>) -> Context {
    match parent {
        Some(parent) => Context::new().with_remote_span_context(parent),
        None => Context::new(),
    }
}

fn time(at: Timestamp) -> SystemTime {
    UNIX_EPOCH + Duration::from_millis(u64::try_from(at.as_millis()).unwrap_or_default())
}

fn count(tokens: u64) -> i64 {
    i64::try_from(tokens).unwrap_or(i64::MAX)
}
