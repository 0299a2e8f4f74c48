//! Conversations as values: messages `{role, content}` in the forms in which files and nodes hold them.

use llm_provider::{Attachment, Message, NativeCall};
use protocol_action::neutralize;
use serde::Deserialize;
use serde_json::{Value, json};
use workflow_engine::NodeError;

use crate::define::as_text;
use agent_runtime::prompt::messages::rendered;

/// A message, and whether it is ready to be sent.
#[derive(Debug, Clone)]
pub(crate) struct Said {
    pub(crate) message: Message,
    /// Origin of the message, if it was prepared here.
    mark: Option<String>,
}

/// The word for results of tools that are ready to be sent.
const RESULTS: &str = "results";

/// The word for instructions that were put together here.
const SYSTEM: &str = "system";

impl Said {
    /// Results of tools, framed.
    pub(crate) fn results(message: Message) -> Self {
        Self { message, mark: Some(RESULTS.to_owned()) }
    }

    /// Instructions that are put together again each time.
    pub(crate) fn system(text: String) -> Self {
        Self { message: Message::system(text), mark: Some(SYSTEM.to_owned()) }
    }

    /// Creates a message of the user.
    pub(crate) fn user(text: &str, attachments: Vec<Attachment>) -> Self {
        let message = Message::user_with(neutralize(text), attachments);
        Self { message, mark: Some(rendered::SAID.to_owned()) }
    }

    pub(crate) fn is_own_system(&self) -> bool {
        self.mark.as_deref() == Some(SYSTEM)
    }

    /// Returns `true` for a message of the user with exactly this text.
    pub(crate) fn says(&self, text: &str) -> bool {
        let is_said = self.mark.as_deref() == Some(rendered::SAID);
        is_said && matches!(&self.message, Message::User { text: own, .. } if *own == neutralize(text))
    }

    /// Text of a result, which is untrusted.
    pub(crate) fn foreign(&self) -> Option<&str> {
        match &self.message {
            Message::User { text, .. } if self.mark.as_deref() == Some(RESULTS) => Some(text),
            Message::Tool { text, .. } => Some(text),
            _ => None,
        }
    }

    /// The same, ready to be sent: foreign text in it can open no block.
    pub(crate) fn ready(self) -> Self {
        match (self.message, self.mark) {
            (Message::User { text, attachments }, None) => Self::user(&text, attachments),
            (Message::Tool { call, name, text }, None) => {
                Self::results(Message::Tool { call, name, text: neutralize(&text).into_owned() })
            }
            (message, mark) => Self { message, mark },
        }
    }

    pub(crate) fn value(&self) -> Value {
        let mut value = rendered::value(&self.message);
        match (&self.mark, value.as_object_mut()) {
            (Some(mark), _) => value[rendered::MARK] = mark.as_str().into(),
            (None, Some(value)) => {
                value.shift_remove(rendered::MARK);
            }
            (None, None) => {}
        }
        value
    }

    fn read(item: &Value) -> Result<Self, NodeError> {
        let Some(object) = item.as_object() else {
            return Ok(Self { message: Message::user(as_text(item)), mark: None });
        };
        let content = object.get("content").or_else(|| object.get("text")).map(content).unwrap_or_default();
        let word = |key: &str| object.get(key).and_then(Value::as_str).map(str::to_owned);
        let attachments = object.get("attachments").and_then(|value| Vec::deserialize(value).ok());
        let message = match object.get("role").and_then(Value::as_str) {
            Some("system" | "developer") => Message::system(content),
            Some("user") | None => Message::user_with(content, attachments.unwrap_or_default()),
            Some("assistant" | "model") => {
                Message::Assistant { text: content, calls: native_calls(object.get("tool_calls")) }
            }
            Some("tool") => Message::Tool {
                call: word("call").or_else(|| word("tool_call_id")).unwrap_or_default(),
                name: word("name").unwrap_or_default(),
                text: content,
            },
            Some(role) => {
                return Err(
                    NodeError::fatal(format!("`{role}` is not a role of a message")).with_code("bad_message")
                );
            }
        };
        Ok(Self { message, mark: word(rendered::MARK) })
    }
}

/// A text, or the texts of a list of parts.
fn content(content: &Value) -> String {
    match content {
        Value::Array(parts) => {
            let texts = parts.iter().filter_map(|part| part.as_str().or_else(|| part.get("text")?.as_str()));
            texts.collect::<Vec<_>>().join("\n")
        }
        other => as_text(other),
    }
}

/// Messages in any of the forms in which files hold them: a list, one message, a text, such a list as JSON text.
pub(crate) fn read(value: &Value) -> Result<Vec<Said>, NodeError> {
    match value {
        Value::Null => Ok(Vec::new()),
        Value::Array(items) => items.iter().map(Said::read).collect(),
        Value::String(text) => match serde_json::from_str::<Value>(text) {
            Ok(Value::Array(items)) if items.iter().all(|item| item.get("role").is_some()) => {
                items.iter().map(Said::read).collect()
            }
            Ok(_) | Err(_) if text.is_empty() => Ok(Vec::new()),
            Ok(_) | Err(_) => Ok(vec![Said::read(value)?]),
        },
        other => Ok(vec![Said::read(other)?]),
    }
}

/// Messages as a value.
pub(crate) fn value(messages: &[Said]) -> Value {
    messages.iter().map(Said::value).collect()
}

/// Calls in the provider's own form: `{id, name, arguments}`, or these inside `function`; arguments are text or an object.
pub(crate) fn native_calls(calls: Option<&Value>) -> Vec<NativeCall> {
    let calls = calls.and_then(Value::as_array).into_iter().flatten();
    calls.filter_map(|call| NativeCall::deserialize(call).ok().or_else(|| nested_call(call))).collect()
}

fn nested_call(call: &Value) -> Option<NativeCall> {
    let inner = call.get("function").unwrap_or(call);
    let name = inner.get("name")?;
    let arguments = inner.get("arguments").map(as_text).unwrap_or_default();
    let id = call.get("id").map(as_text).unwrap_or_default();
    NativeCall::deserialize(json!({"id": id, "name": name, "arguments": arguments})).ok()
}

/// A reply as a message of a history.
pub(crate) fn reply(text: &str, calls: &[NativeCall]) -> Value {
    let mut value = json!({"role": "assistant", "content": text});
    if !calls.is_empty() {
        value["tool_calls"] = serde_json::to_value(calls).unwrap_or_default();
    }
    value
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(from: &Value, expected: &Value) {
        assert_eq!(&value(&read(from).unwrap()), expected, "{from}");
    }

    #[test]
    fn messages_come_in_many_forms() {
        check(&json!(null), &json!([]));
        check(&json!(""), &json!([]));
        check(&json!("hi"), &json!([{"role": "user", "content": "hi"}]));
        check(&json!(["hi"]), &json!([{"role": "user", "content": "hi"}]));
        check(&json!({"content": "hi"}), &json!([{"role": "user", "content": "hi"}]));
        check(&json!(r#"[{"role": "system", "text": "be"}]"#), &json!([{"role": "system", "content": "be"}]));
        check(
            &json!([{"role": "model", "content": [{"text": "a"}, "b"]}]),
            &json!([{"role": "assistant", "content": "a\nb"}]),
        );
        check(
            &json!([{"role": "assistant", "text": "x", "usage": {}, "tool_calls": [{"id": "1", "name": "n", "arguments": "{}"}]}]),
            &json!([{"role": "assistant", "content": "x", "tool_calls": [{"id": "1", "name": "n", "arguments": "{}"}]}]),
        );
        check(
            &json!([{"role": "assistant", "content": null, "tool_calls": [{"id": "1", "type": "function", "function": {"name": "n", "arguments": "{}"}}]}]),
            &json!([{"role": "assistant", "content": "", "tool_calls": [{"id": "1", "name": "n", "arguments": "{}"}]}]),
        );
        check(
            &json!([{"role": "tool", "tool_call_id": "1", "name": "n", "content": "r"}]),
            &json!([{"role": "tool", "content": "r", "call": "1", "name": "n"}]),
        );
        assert!(read(&json!([{"role": "clown", "content": ""}])).is_err());
    }

    #[test]
    fn what_is_ready_stays_as_it_is() {
        let once: Vec<Said> =
            read(&json!("<ACTION><a/></ACTION> &lt;")).unwrap().into_iter().map(Said::ready).collect();
        assert_eq!(once[0].message.text(), "&lt;ACTION><a/>&lt;/ACTION> &amp;lt;");
        let again: Vec<Said> = read(&value(&once)).unwrap().into_iter().map(Said::ready).collect();
        assert_eq!(value(&once), value(&again));
        assert!(again[0].says("<ACTION><a/></ACTION> &lt;"));
    }
}
