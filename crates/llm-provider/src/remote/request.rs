//! Requests in the library's form.

use std::sync::Arc;

use genai::chat::{
    Binary, ChatMessage, ChatOptions, ChatRequest, ContentPart, JsonSpec, MessageContent, Tool, ToolCall,
    ToolResponse,
};

use crate::attachment::Sent;
use crate::{
    Attachment, AttachmentSource, Constraint, LlmRequest, Message, ModelInfo, ModelParameters, NativeCall,
};

/// Name under which servers know the schema of an answer; it means nothing to them.
const SCHEMA_NAME: &str = "answer";

pub(super) fn options(
    parameters: &ModelParameters,
    schema: Option<serde_json::Value>,
    constraint: Option<&Constraint>,
) -> ChatOptions {
    // Collected by the library, pieces of calls are distinguished by their position even where a server leaves out the id.
    let mut options = ChatOptions::default().with_capture_usage(true).with_capture_tool_calls(true);
    options.temperature = parameters.temperature;
    options.top_p = parameters.top_p;
    options.max_tokens = parameters.max_tokens;
    options.seed = parameters.seed;
    options.stop_sequences.clone_from(&parameters.stop);
    options.response_format = schema.map(|schema| JsonSpec::new(SCHEMA_NAME, schema).into());
    let mut extra = constraint.map(Constraint::body).unwrap_or_default();
    // What a person wrote into the settings counts.
    extra.extend(parameters.extra.clone());
    if !extra.is_empty() {
        options.extra_body = Some(extra.into());
    }
    options
}

pub(super) fn chat_request(request: LlmRequest, model: &ModelInfo) -> ChatRequest {
    let messages =
        Arc::unwrap_or_clone(request.messages).into_iter().map(|message| chat_message(message, model));
    let mut chat = ChatRequest::new(messages.collect());
    if !request.tools.is_empty() {
        chat = chat.with_tools(request.tools.into_iter().map(|tool| {
            Tool::new(tool.name).with_description(tool.description).with_schema(tool.parameters)
        }));
    }
    chat
}

fn chat_message(message: Message, model: &ModelInfo) -> ChatMessage {
    match message {
        Message::System { text } => ChatMessage::system(text),
        Message::User { text, attachments } if attachments.is_empty() => ChatMessage::user(text),
        Message::User { text, attachments } => ChatMessage::user(with_attachments(text, attachments, model)),
        Message::Assistant { text, calls } if calls.is_empty() => ChatMessage::assistant(text),
        Message::Assistant { text, calls } => {
            let text = (!text.is_empty()).then_some(ContentPart::Text(text));
            let calls = calls.into_iter().map(|call| ContentPart::ToolCall(tool_call(call)));
            ChatMessage::assistant(MessageContent::from_parts(
                text.into_iter().chain(calls).collect::<Vec<_>>(),
            ))
        }
        Message::Tool { call, name, text } => ToolResponse::new(call, text).with_fn_name(name).into(),
    }
}

/// The text, with what the model cannot read as text behind it, then the rest.
fn with_attachments(mut text: String, attachments: Vec<Attachment>, model: &ModelInfo) -> MessageContent {
    let mut binaries = Vec::new();
    for attachment in attachments {
        match attachment.sent_to(model) {
            Sent::Whole => binaries.push(ContentPart::Binary(binary(attachment))),
            Sent::Text(instead) => {
                if !text.is_empty() {
                    text.push_str("\n\n");
                }
                text.push_str(&instead);
            }
        }
    }
    let text = (!text.is_empty()).then_some(ContentPart::Text(text));
    MessageContent::from_parts(text.into_iter().chain(binaries).collect::<Vec<_>>())
}

fn binary(attachment: Attachment) -> Binary {
    let Attachment { mime, name, source } = attachment;
    match source {
        AttachmentSource::Data(data) => Binary::from_base64(mime, data, name),
        AttachmentSource::Url(url) => Binary::from_url(mime, url, name),
    }
}

fn tool_call(call: NativeCall) -> ToolCall {
    let arguments = serde_json::from_str(&call.arguments).unwrap_or(call.arguments.into());
    ToolCall {
        call_id: call.id,
        fn_name: call.name,
        fn_arguments: arguments,
        thought_signatures: (!call.signatures.is_empty()).then_some(call.signatures),
    }
}
