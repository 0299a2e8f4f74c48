//! Messages and tools as values, in the form in which files and nodes hand them on.

use llm_provider::Message;
use serde_json::{Value, json};
use tool_registry::{Tool, Visibility};

/// A tool as a value, with the contents that a model would see.
pub fn tool_value(tool: &Tool) -> Value {
    let definition = tool.definition();
    let mut value = json!({
        "id": tool.id(), "description": definition.description, "parameters": definition.parameters,
    });
    if tool.settings().visibility == Visibility::Discoverable {
        value["discoverable"] = true.into();
    }
    value
}

/// Messages that are ready to be sent: foreign text in them is harmless already.
pub mod rendered {
    use super::{Message, Value, json};

    /// The key that marks them.
    pub const MARK: &str = "rendered";

    /// Label for messages of the user.
    pub const SAID: &str = "said";

    /// A message with its mark.
    pub fn value(message: &Message) -> Value {
        match message {
            Message::System { text } => json!({"role": "system", "content": text, MARK: "system"}),
            Message::User { text, attachments } => {
                let mut value = json!({"role": "user", "content": text, MARK: SAID});
                if !attachments.is_empty() {
                    value["attachments"] = serde_json::to_value(attachments).unwrap_or_default();
                }
                value
            }
            Message::Assistant { text, calls } => {
                let mut value = json!({"role": "assistant", "content": text});
                if !calls.is_empty() {
                    value["tool_calls"] = serde_json::to_value(calls).unwrap_or_default();
                }
                value
            }
            Message::Tool { call, name, text } => {
                json!({"role": "tool", "content": text, "call": call, "name": name, MARK: "results"})
            }
        }
    }

    /// The older part of a conversation in short.
    pub fn summary(text: &str) -> Value {
        json!({"role": "user", "content": crate::prompt::text::summary_text(text), MARK: SAID})
    }
}
