//! Google's Gemini.

use serde_json::{Value, json};

use super::answer::Answer;
use super::calls::Piece;
use super::conversation::{Said, argument_object, conversation, instructions_apart};
use super::dialect::{Dialect, Question, parts};
use super::fault::error_beside;
use crate::{Attachment, AttachmentSource, LlmError, NativeCall};

/// The body of a request.
pub(super) fn request(question: &Question<'_>) -> Value {
    let mut body = json!({});
    let (system, said) = instructions_apart(conversation(&question.request.messages, question.info));
    if let Some(system) = system {
        body["systemInstruction"] = json!({"parts": [{"text": system}]});
    }
    if !question.request.tools.is_empty() {
        let tool = |tool: &agent_types::ToolSpec| json!({"name": tool.name, "description": tool.description, "parametersJsonSchema": tool.parameters});
        let tools: Value = question.request.tools.iter().map(tool).collect();
        body["tools"] = json!([{"functionDeclarations": tools}]);
    }
    body["contents"] = said.iter().filter_map(content).collect();
    if let Some(schema) = &question.request.response_schema {
        body["generationConfig"] =
            json!({"responseMimeType": "application/json", "responseJsonSchema": schema});
    }
    question.set(
        &mut body,
        "generationConfig",
        &[
            ("temperature", "temperature"),
            ("stop", "stopSequences"),
            ("max_tokens", "maxOutputTokens"),
            ("top_p", "topP"),
            ("seed", "seed"),
        ],
    );
    body
}

fn content(said: &Said) -> Option<Value> {
    let (role, parts): (_, Vec<Value>) = match said {
        Said::System(_) => return None,
        Said::User { text, attachments } => {
            let text = (!text.is_empty()).then(|| json!({"text": text}));
            ("user", text.into_iter().chain(attachments.iter().map(attached)).collect())
        }
        Said::Assistant { text, calls } => {
            let text = (!text.is_empty()).then(|| json!({"text": text}));
            ("model", text.into_iter().chain(calls.iter().map(called)).collect())
        }
        Said::Results(results) => {
            let part = |(id, name, text)| {
                let response = json!({"name": name, "content": text});
                json!({"functionResponse": {"name": name, "response": response, "id": id}})
            };
            let results = results.iter().map(|result| part((&result.id, &result.name, &result.text)));
            ("user", results.collect())
        }
    };
    Some(json!({"role": role, "parts": parts}))
}

fn attached(attachment: &Attachment) -> Value {
    let mime = &attachment.mime;
    match &attachment.source {
        AttachmentSource::Data(data) => json!({"inline_data": {"mime_type": mime, "data": data}}),
        AttachmentSource::Url(url) => json!({"file_data": {"mime_type": mime, "file_uri": url}}),
    }
}

fn called(call: &NativeCall) -> Value {
    let function = json!({"id": call.id, "name": call.name, "args": argument_object(call)});
    let mut part = json!({"functionCall": function});
    if let Some(signature) = call.signatures.first() {
        part["thoughtSignature"] = signature.as_str().into();
    }
    part
}

/// Reads the events of an answer.
#[derive(Debug, Default)]
pub(super) struct Reader;

impl Dialect for Reader {
    fn read(&mut self, _: &str, event: &Value, answer: &mut Answer) -> Result<(), LlmError> {
        // A body that is not a stream of events is a list of them.
        if let Value::Array(events) = event {
            return events.iter().try_for_each(|event| self.read("", event, answer));
        }
        let candidates = parts(&event["candidates"]);
        let feedback = either(event, "promptFeedback", "prompt_feedback");
        let usage = either(event, "usageMetadata", "usage_metadata");
        if let Some(candidate) = candidates.first() {
            for part in parts(&candidate["content"]["parts"]) {
                part_of(part, answer)?;
            }
            let reason = either(candidate, "finishReason", "finish_reason");
            stop(reason, either(candidate, "finishMessage", "finish_message"), answer);
        } else if feedback.is_null() && usage.is_null() {
            match error_beside(event) {
                Some(error) => return Err(error),
                None => answer.unread("an event of another form"),
            }
        }
        let reason = either(feedback, "blockReason", "block_reason");
        stop(reason, either(feedback, "blockReasonMessage", "block_reason_message"), answer);
        let count = |camel, snake| either(usage, camel, snake).as_u64();
        let written = count("candidatesTokenCount", "candidates_token_count");
        let thought = count("thoughtsTokenCount", "thoughts_token_count");
        answer.cache(count("cachedContentTokenCount", "cached_content_token_count"), None);
        answer.tokens(
            count("promptTokenCount", "prompt_token_count"),
            written.map(|written| written.saturating_add(thought.unwrap_or(0))).or(thought),
        );
        Ok(())
    }
}

/// A field under either of its spellings.
fn either<'v>(value: &'v Value, camel: &str, snake: &str) -> &'v Value {
    value.get(camel).unwrap_or(&value[snake])
}

/// The reason for which the model stopped, with what the server says of it.
fn stop(reason: &Value, message: &Value, answer: &mut Answer) {
    let Some(reason) = reason.as_str().filter(|reason| !reason.ends_with("_UNSPECIFIED")) else { return };
    match message.as_str().filter(|message| !message.is_empty()) {
        Some(message) if !reason.eq_ignore_ascii_case("stop") => answer.stop(&format!("{reason}: {message}")),
        Some(_) | None => answer.stop(reason),
    }
}

fn part_of(part: &Value, answer: &mut Answer) -> Result<(), LlmError> {
    let call = either(part, "functionCall", "function_call");
    let signature = either(part, "thoughtSignature", "thought_signature").as_str();
    if call.is_object() {
        answer.call(Piece {
            id: call["id"].as_str(),
            name: call["name"].as_str(),
            arguments: call.get("args").or_else(|| call.get("arguments")),
            is_call: true,
            ..Piece::default()
        })?;
        if let Some(signature) = signature {
            answer.sign(signature);
        }
        return Ok(());
    }
    let is_server_tool =
        ["executableCode", "executable_code", "codeExecutionResult", "code_execution_result"]
            .iter()
            .any(|key| part.get(key).is_some());
    match part["text"].as_str() {
        Some(text) if part["thought"] == true => answer.reasoning(text),
        Some(text) => answer.text(text),
        None if is_server_tool || signature.is_some() => {}
        None => answer.unread("a part of another form"),
    }
    Ok(())
}
