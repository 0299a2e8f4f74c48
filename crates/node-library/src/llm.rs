//! One request to a language model.

use std::sync::Arc;

use agent_types::{BudgetKey, EventBody, EventLocation, EventSink, UnsequencedEvent};
use async_trait::async_trait;
use futures::StreamExt;
use llm_provider::recorded::{digest_of, record_of_whole};
use llm_provider::{
    Attachment, LlmError, LlmEvent, LlmProvider, LlmRequest, Message, ModelParameters, ModelSource,
    StandardResponse, retry_message,
};
use serde::Deserialize;
use serde_json::Value;

use workflow_engine::{Inputs, Node, NodeCatalog, NodeContext, NodeError, Outputs};
use workflow_model::{DataFlowType, NodeDefinition, SlotDefinition};

use crate::define::{any, as_text, setting, text};

pub(crate) fn register(catalog: &mut NodeCatalog) {
    catalog.register(GenericLlmRequest::new());
}

/// Sends messages to a model and gives its answer, whole and as it comes.
struct GenericLlmRequest(NodeDefinition);

impl GenericLlmRequest {
    fn new() -> Self {
        let definition = NodeDefinition::new("core:GenericLlmRequest", "Sends messages to a language model.")
            .input(
                "messages",
                any("a text, a list of {role, content}, or such a list as JSON text")
                    .required()
                    .with_category("ChatHistory"),
            )
            .input(
                "activated_model_id",
                text("entry of the model; one that is not there means the default model").optional(),
            )
            .input(
                "stream",
                SlotDefinition::new(
                    DataFlowType::Boolean,
                    "kept for files of others: `stream_output` always streams",
                )
                .with_default(false),
            )
            .input(
                "parameters",
                SlotDefinition::new(DataFlowType::Object, "settings of the request, such as `temperature`")
                    .optional(),
            )
            .output("response", text("the answer"))
            .output("responseText", text("the answer"))
            .output("stream_output", text("the answer as it comes").stream().with_category("StreamChunk"))
            .config("profileId", setting(DataFlowType::String, "entry of the model (required)"))
            .config("prompt", setting(DataFlowType::String, "instructions that come before the messages"))
            .config(
                "parameters",
                setting(DataFlowType::Object, "settings of the request, such as `temperature`"),
            );
        Self(definition)
    }
}

#[async_trait]
impl Node for GenericLlmRequest {
    fn definition(&self) -> &NodeDefinition {
        &self.0
    }

    async fn run(&self, ctx: NodeContext, inputs: Inputs) -> Result<Outputs, NodeError> {
        let model = model(&ctx, &inputs)?;
        let mut messages = Vec::new();
        if let Some(prompt) = ctx.config("prompt").and_then(Value::as_str) {
            messages.push(Message::system(prompt));
        }
        messages.extend(read_messages(inputs.required("messages")?)?);
        let request = LlmRequest::new(messages).with_parameters(parameters(&ctx, &inputs)?);
        let failed = |error: LlmError| {
            let refused = matches!(error, LlmError::Authentication { .. });
            let code = if refused { "llm_authentication" } else { "llm_failed" };
            NodeError::new(model.info().describe(&error)).with_code(code)
        };
        let asked = Asked::begin(&ctx, &*model, &request);
        let answer = answer(&ctx, &*model, request).await;
        asked.end(answer.as_ref().ok());
        let response = answer.map_err(|fault| match fault {
            NoAnswer::Llm(error) => failed(error),
            NoAnswer::Node(error) => error,
        })?;
        ctx.mark("stream_output", response.finish.as_str()).await?;
        Ok(Outputs::value(response.text.clone()).with("responseText", response.text))
    }
}

/// Reason for which a request has no answer.
enum NoAnswer {
    Llm(LlmError),
    Node(NodeError),
}

/// Sends a request, and hands on its answer as it comes.
async fn answer(
    ctx: &NodeContext,
    model: &dyn LlmProvider,
    request: LlmRequest,
) -> Result<StandardResponse, NoAnswer> {
    let mut stream = model.stream(request).await.map_err(NoAnswer::Llm)?;
    while let Some(event) = stream.next().await {
        match event.map_err(NoAnswer::Llm)? {
            LlmEvent::Text(piece) => ctx.chunk("stream_output", piece).await.map_err(NoAnswer::Node)?,
            LlmEvent::Reasoning(_) | LlmEvent::ToolCall { .. } | LlmEvent::Heartbeat => ctx.heartbeat(),
            LlmEvent::Unread { message } => {
                ctx.heartbeat();
                ctx.emit(EventBody::LogLine { level: "warn".to_owned(), message });
            }
            LlmEvent::Retrying { attempt, delay, error } => {
                ctx.heartbeat();
                let message = retry_message(attempt, delay, &error);
                ctx.emit(EventBody::LogLine { level: "warn".to_owned(), message });
            }
            LlmEvent::Finished(response) => {
                ctx.add_usage(response.usage);
                if let Some(budget) = ctx.budget() {
                    budget.add(BudgetKey::CostMicros, model.info().cost_micros(response.usage));
                }
                return Ok(response);
            }
        }
    }
    let error = NodeError::new("the model's answer ended without an end");
    Err(NoAnswer::Node(error.with_code("llm_failed")))
}

/// A request whose start was emitted, with what it holds.
struct Asked {
    sink: Arc<dyn EventSink>,
    place: EventLocation,
}

impl Asked {
    fn begin(ctx: &NodeContext, model: &dyn LlmProvider, request: &LlmRequest) -> Self {
        let (sink, node) = (ctx.sink(), ctx.place());
        let place = EventLocation { span: sink.new_span(), parent: Some(node.span), ..node };
        let body = EventBody::AgentLlmStarted {
            model: model.info().name.clone(),
            messages: request.messages.len(),
            digest: digest_of(&request.messages),
        };
        let record = sink.persister().map(|_| Box::new(record_of_whole(request)));
        sink.record(&mut vec![UnsequencedEvent { place: place.clone(), body, record }]);
        Self { sink, place }
    }

    fn end(self, answer: Option<&StandardResponse>) {
        let body = EventBody::AgentLlmFinished {
            text: answer.map(|answer| answer.text.clone()).unwrap_or_default(),
            reasoning: answer.and_then(|answer| answer.reasoning.clone()),
            tool_calls: None,
            finish: answer.map_or("error", |answer| answer.finish.as_str()).to_owned(),
            usage: answer.map(|answer| answer.usage).unwrap_or_default(),
            dropped: None,
        };
        self.sink.record(&mut vec![UnsequencedEvent::new(self.place, body)]);
    }
}

/// The model that the settings or the file name, else the default one.
fn model(ctx: &NodeContext, inputs: &Inputs) -> Result<Arc<dyn LlmProvider>, NodeError> {
    let source = ctx.required_service::<dyn ModelSource>()?;
    let failed = |error: llm_provider::ModelError| {
        NodeError::fatal(format!("{error}; {}", error.help())).with_code("no_model")
    };
    let set = ctx.config("profileId").and_then(Value::as_str);
    let asked = || inputs.get("activated_model_id").and_then(|id| id.as_str()).filter(|id| !id.is_empty());
    source.model(set.or_else(asked)).map_err(failed)
}

fn parameters(ctx: &NodeContext, inputs: &Inputs) -> Result<ModelParameters, NodeError> {
    let given = ctx.config("parameters").or_else(|| inputs.get("parameters").map(|value| &**value));
    match given {
        None | Some(Value::Null) => Ok(ModelParameters::default()),
        Some(value) => ModelParameters::deserialize(value)
            .map_err(|error| NodeError::fatal(format!("`parameters` cannot be used: {error}"))),
    }
}

/// Messages in any of the forms in which files hold them.
pub(crate) fn read_messages(value: &Value) -> Result<Vec<Message>, NodeError> {
    match value {
        Value::String(text) => match serde_json::from_str::<Value>(text) {
            Ok(Value::Array(items)) if items.iter().all(is_message) => {
                items.iter().map(read_message).collect()
            }
            Ok(_) | Err(_) => Ok(vec![Message::user(text.clone())]),
        },
        Value::Array(items) => items.iter().map(read_message).collect(),
        Value::Object(_) => Ok(vec![read_message(value)?]),
        Value::Null | Value::Bool(_) | Value::Number(_) => Ok(vec![Message::user(as_text(value))]),
    }
}

fn is_message(item: &Value) -> bool {
    item.get("role").is_some_and(Value::is_string)
}

fn read_message(item: &Value) -> Result<Message, NodeError> {
    if let Value::String(text) = item {
        return Ok(Message::user(text.clone()));
    }
    let content = item.get("content").or_else(|| item.get("text")).map(content_text).unwrap_or_default();
    match item.get("role").and_then(Value::as_str) {
        Some("system" | "developer") => Ok(Message::system(content)),
        Some("user") | None if item.is_object() => Ok(Message::user_with(content, images(item))),
        Some("assistant" | "model") => Ok(Message::assistant(content)),
        Some(role) => Err(NodeError::fatal(format!("`{role}` is not a role that can be sent here"))),
        None => Err(NodeError::fatal("a message must be a text or an object with `role` and `content`")),
    }
}

/// The images among the parts of a message: `{"type": "image_url", "image_url": {"url"}}`, as chat files hold them.
fn images(item: &Value) -> Vec<Attachment> {
    let parts = item.get("content").and_then(Value::as_array).into_iter().flatten();
    let urls = parts.filter_map(|part| {
        let image = part.get("image_url")?;
        image.as_str().or_else(|| image.get("url")?.as_str())
    });
    urls.map(|url| Attachment::from_url("image/*", url)).collect()
}

/// A text, or the texts of a list of parts.
fn content_text(content: &Value) -> String {
    match content {
        Value::Array(parts) => {
            let texts = parts.iter().filter_map(|part| part.as_str().or_else(|| part.get("text")?.as_str()));
            texts.collect::<Vec<_>>().join("\n")
        }
        other => as_text(other),
    }
}
