//! Anthropic's messages.

use serde_json::{Value, json};

use super::answer::Answer;
use super::calls::{MAX_CALLS, Piece};
use super::conversation::{Said, argument_object, conversation, instructions_apart, is_image};
use super::dialect::{Dialect, Question, parts, text_of};
use super::fault::{error_beside, streamed_error};
use crate::{Attachment, AttachmentSource, LlmError, NativeCall};

/// Most tokens that a model may write, where the settings do not say; the interface wants a number. The first
/// beginning that the name holds counts.
const MAX_TOKENS: &[(&str, u32)] = &[
    ("claude-3-5", 8_192),
    ("claude-3-opus", 4_096),
    ("claude-3-haiku", 4_096),
    ("claude-opus-4-5", 64_000),
    ("claude-opus-4-6", 64_000),
    ("claude-opus-4-7", 64_000),
    ("claude-opus-4", 32_000),
    ("", 64_000),
];

/// The body of a request.
pub(super) fn request(question: &Question<'_>) -> Value {
    let mut body = json!({"model": question.info.name, "stream": true});
    // A summary is asked for once, so that nothing of its request is worth keeping.
    let marks = question.info.prompt_cache && question.request.purpose.is_none();
    let (system, said) = instructions_apart(conversation(&question.request.messages, question.info));
    if let Some(system) = system {
        body["system"] = if marks {
            json!([{"type": "text", "text": system, "cache_control": mark()}])
        } else {
            system.into()
        };
    }
    if !question.request.tools.is_empty() {
        let tool = |tool: &agent_types::ToolSpec| json!({"name": tool.name, "input_schema": tool.parameters, "description": tool.description});
        body["tools"] = question.request.tools.iter().map(tool).collect();
    }
    let mut messages = messages(&said);
    if marks {
        mark_users(&mut messages);
    }
    body["messages"] = messages.into();
    if let Some(schema) = &question.request.response_schema {
        let format = json!({"type": "json_schema", "schema": closed(schema)});
        body["output_config"] = json!({"format": format});
    }
    let most = MAX_TOKENS.iter().find(|(part, _)| question.info.name.contains(part));
    body["max_tokens"] = most.map(|(_, tokens)| *tokens).into();
    question.set(
        &mut body,
        "",
        &[
            ("temperature", "temperature"),
            ("stop", "stop_sequences"),
            ("max_tokens", "max_tokens"),
            ("top_p", "top_p"),
        ],
    );
    body
}

/// Mark of a prefix for the provider's cache.
fn mark() -> Value {
    json!({"type": "ephemeral"})
}

/// Marks the ends of the last two messages of the user: the second one reads what the first one has written, and the
/// next request reads what the second one writes.
fn mark_users(messages: &mut [Value]) {
    let of_user = |message: &&mut Value| message["role"] == "user";
    for message in messages.iter_mut().rev().filter(of_user).take(2) {
        let content = message["content"].take();
        let mut blocks = match content {
            Value::Array(blocks) => blocks,
            text => vec![json!({"type": "text", "text": text})],
        };
        if let Some(last) = blocks.last_mut() {
            last["cache_control"] = mark();
        }
        message["content"] = blocks.into();
    }
}

/// The schema with objects that have no further properties: others are refused.
fn closed(schema: &Value) -> Value {
    match schema {
        Value::Object(members) => {
            let mut members: serde_json::Map<String, Value> =
                members.iter().map(|(key, value)| (key.clone(), closed(value))).collect();
            if members.get("type").is_some_and(|kind| kind == "object") {
                members.entry("additionalProperties").or_insert(false.into());
            }
            Value::Object(members)
        }
        Value::Array(parts) => parts.iter().map(closed).collect(),
        other => other.clone(),
    }
}

/// Messages in turn: results stand in the message of the user, before what else that says.
fn messages(said: &[Said]) -> Vec<Value> {
    let mut messages: Vec<Value> = Vec::new();
    for part in said {
        let (role, mut content) = match part {
            Said::System(_) => continue,
            Said::User { text, attachments } if attachments.is_empty() && !follows_results(&messages) => {
                messages.push(json!({"role": "user", "content": text}));
                continue;
            }
            Said::User { text, attachments } => ("user", user(text, attachments)),
            Said::Assistant { text, calls } if calls.is_empty() => {
                messages.push(json!({"role": "assistant", "content": text.trim_end()}));
                continue;
            }
            Said::Assistant { text, calls } => ("assistant", assistant(text, calls)),
            Said::Results(results) => {
                let block = |(id, text)| json!({"type": "tool_result", "content": text, "tool_use_id": id});
                ("user", results.iter().map(|result| block((&result.id, &result.text))).collect())
            }
        };
        match messages.last_mut().filter(|last| last["role"] == role) {
            Some(Value::Object(last)) => {
                if let Some(Value::Array(blocks)) = last.get_mut("content") {
                    blocks.append(&mut content);
                }
            }
            _ => messages.push(json!({"role": role, "content": content})),
        }
    }
    messages
}

fn follows_results(messages: &[Value]) -> bool {
    messages.last().is_some_and(|last| last["role"] == "user")
}

fn user(text: &str, attachments: &[Attachment]) -> Vec<Value> {
    let text = (!text.is_empty()).then(|| json!({"type": "text", "text": text}));
    text.into_iter().chain(attachments.iter().map(attached)).collect()
}

fn attached(attachment: &Attachment) -> Value {
    let kind = if is_image(attachment) { "image" } else { "document" };
    let source = match &attachment.source {
        AttachmentSource::Data(data) => {
            json!({"type": "base64", "media_type": attachment.mime, "data": data})
        }
        AttachmentSource::Url(url) => json!({"type": "url", "url": url}),
    };
    json!({"type": kind, "source": source})
}

/// Thinking that is signed stands first, then the text, then the calls, each behind the thinking before it.
fn assistant(text: &str, calls: &[NativeCall]) -> Vec<Value> {
    let mut blocks = Vec::new();
    for (index, call) in calls.iter().enumerate() {
        let is_thinking =
            |block: &&Value| matches!(block["type"].as_str(), Some("thinking" | "redacted_thinking"));
        blocks.extend(call.reasoning.iter().filter(is_thinking).cloned());
        if index == 0 && !text.is_empty() {
            blocks.push(json!({"type": "text", "text": text}));
        }
        let input = argument_object(call);
        blocks.push(json!({"type": "tool_use", "id": call.id, "name": call.name, "input": input}));
    }
    blocks
}

/// Reads the events of an answer.
#[derive(Debug, Default)]
pub(super) struct Reader {
    /// Indices of the blocks of tools that run at the server.
    foreign: Vec<Value>,
    thinking: Option<Thinking>,
}

/// Thinking under way, which is kept where it is signed.
#[derive(Debug, Default)]
struct Thinking {
    text: String,
    signature: String,
}

impl Dialect for Reader {
    fn read(&mut self, name: &str, event: &Value, answer: &mut Answer) -> Result<(), LlmError> {
        match event["type"].as_str().unwrap_or(name) {
            "message_start" => self.message(&event["message"], answer)?,
            "message" => {
                self.message(event, answer)?;
                answer.last();
            }
            "content_block_start" => self.begin(event.get("index"), &event["content_block"], answer)?,
            "content_block_delta" => self.delta(event.get("index"), &event["delta"], answer)?,
            "content_block_stop" => self.close(answer),
            "message_delta" => {
                tokens(&event["usage"], answer);
                answer.stop(event["delta"]["stop_reason"].as_str().unwrap_or_default());
            }
            "message_stop" => answer.last(),
            "ping" => answer.heartbeat(),
            "error" => return Err(streamed_error(event)),
            _ => match error_beside(event) {
                Some(error) => return Err(error),
                None => answer.unread("an event of another form"),
            },
        }
        Ok(())
    }

    fn end(&mut self, answer: &mut Answer) {
        self.close(answer);
    }
}

impl Reader {
    /// A message as it begins, or a whole one.
    fn message(&mut self, message: &Value, answer: &mut Answer) -> Result<(), LlmError> {
        for (index, block) in parts(&message["content"]).iter().enumerate() {
            self.begin(Some(&index.into()), block, answer)?;
            self.close(answer);
        }
        tokens(&message["usage"], answer);
        answer.stop(message["stop_reason"].as_str().unwrap_or_default());
        Ok(())
    }

    /// A block begins, and may hold what it has to say already.
    fn begin(&mut self, index: Option<&Value>, block: &Value, answer: &mut Answer) -> Result<(), LlmError> {
        self.close(answer);
        match block["type"].as_str().unwrap_or_default() {
            "text" => answer.text(&text_of(block)),
            "thinking" => {
                self.think(block["thinking"].as_str().unwrap_or_default(), answer);
                self.sign(block["signature"].as_str().unwrap_or_default(), answer);
            }
            "redacted_thinking" => answer.keep(json!({"type": "redacted_thinking", "data": block["data"]})),
            "tool_use" => answer.call(Piece {
                slot: index,
                id: block["id"].as_str(),
                name: block["name"].as_str(),
                arguments: block.get("input").filter(|input| !is_empty(input)),
                ..Piece::default()
            })?,
            kind if kind.ends_with("_tool_use") || kind.ends_with("_tool_result") => {
                if let Some(index) = index.filter(|index| !self.foreign.contains(index)) {
                    if self.foreign.len() == MAX_CALLS {
                        return Err(Answer::too_many());
                    }
                    answer.retain_value(index);
                    self.foreign.push(index.clone());
                }
            }
            _ => answer.unread("a block of another form"),
        }
        Ok(())
    }

    fn delta(&mut self, index: Option<&Value>, delta: &Value, answer: &mut Answer) -> Result<(), LlmError> {
        let text = |key: &str| delta[key].as_str().unwrap_or_default();
        match text("type") {
            "thinking_delta" => self.think(text("thinking"), answer),
            "signature_delta" => self.sign(text("signature"), answer),
            "input_json_delta" if index.is_some_and(|index| self.foreign.contains(index)) => {}
            "input_json_delta" => {
                let arguments = delta.get("partial_json").filter(|piece| !is_empty(piece));
                answer.call(Piece { slot: index, arguments, ..Piece::default() })?;
            }
            "citations_delta" => {}
            "text_delta" | "" if delta["text"].is_string() => answer.text(text("text")),
            _ => answer.unread("a piece of another form"),
        }
        Ok(())
    }

    fn think(&mut self, piece: &str, answer: &mut Answer) {
        answer.reasoning(piece);
        self.thinking.get_or_insert_default().text.push_str(piece);
    }

    fn sign(&mut self, signature: &str, answer: &mut Answer) {
        answer.retain(signature.len());
        self.thinking.get_or_insert_default().signature.push_str(signature);
    }

    /// A block ends.
    fn close(&mut self, answer: &mut Answer) {
        if let Some(Thinking { text, signature }) =
            self.thinking.take().filter(|own| !own.signature.is_empty())
        {
            answer.keep(json!({"type": "thinking", "thinking": text, "signature": signature}));
        }
    }
}

fn is_empty(input: &Value) -> bool {
    input.as_object().is_some_and(serde_json::Map::is_empty)
}

/// Tokens; those that came out of a cache are read all the same.
fn tokens(usage: &Value, answer: &mut Answer) {
    let keys = ["input_tokens", "cache_creation_input_tokens", "cache_read_input_tokens"];
    let read = keys.iter().filter_map(|key| usage[*key].as_u64()).reduce(u64::saturating_add);
    answer.tokens(read, usage["output_tokens"].as_u64());
    answer.cache(usage[keys[2]].as_u64(), usage[keys[1]].as_u64());
}
