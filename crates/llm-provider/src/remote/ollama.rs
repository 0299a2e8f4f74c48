//! Ollama's own form.

use serde_json::{Value, json};

use super::answer::Answer;
use super::calls::Piece;
use super::conversation::{Said, argument_object, conversation};
use super::dialect::{Dialect, Question, parts};
use super::fault::error_beside;
use crate::{AttachmentSource, LlmError, NativeCall};

/// The body of a request.
pub(super) fn request(question: &Question<'_>) -> Value {
    let mut body = json!({"model": question.info.name, "stream": true});
    if !question.request.tools.is_empty() {
        let tool = |tool: &agent_types::ToolSpec| {
            let function =
                json!({"name": tool.name, "description": tool.description, "parameters": tool.parameters});
            json!({"type": "function", "function": function})
        };
        body["tools"] = question.request.tools.iter().map(tool).collect();
    }
    let said = conversation(&question.request.messages, question.info);
    body["messages"] = said.iter().flat_map(messages).collect();
    if let Some(schema) = &question.request.response_schema {
        body["format"] = schema.clone();
    }
    question.set(
        &mut body,
        "options",
        &[
            ("temperature", "temperature"),
            ("stop", "stop"),
            ("max_tokens", "num_predict"),
            ("top_p", "top_p"),
            ("seed", "seed"),
        ],
    );
    body
}

fn messages(said: &Said) -> Vec<Value> {
    match said {
        Said::System(text) => vec![json!({"role": "system", "content": text})],
        Said::User { text, attachments } => {
            let mut message = json!({"role": "user", "content": text});
            let images: Vec<&str> = attachments
                .iter()
                .map(|attachment| match &attachment.source {
                    AttachmentSource::Data(data) => &**data,
                    AttachmentSource::Url(url) => url,
                })
                .collect();
            if !images.is_empty() {
                message["images"] = json!(images);
            }
            vec![message]
        }
        Said::Assistant { text, calls } => vec![assistant(text, calls)],
        Said::Results(results) => {
            let message = |(id, name, text)| json!({"role": "tool", "content": text, "tool_name": name, "tool_call_id": id});
            results.iter().map(|result| message((&result.id, &result.name, &result.text))).collect()
        }
    }
}

fn assistant(text: &str, calls: &[NativeCall]) -> Value {
    let mut message = json!({"role": "assistant", "content": text});
    if let Some(thinking) =
        calls.iter().flat_map(|call| &call.reasoning).find_map(|kept| kept.get("thinking"))
    {
        message["thinking"] = thinking.clone();
    }
    if !calls.is_empty() {
        let call = |call: &NativeCall| {
            let function = json!({"name": call.name, "arguments": argument_object(call)});
            json!({"id": call.id, "function": function})
        };
        message["tool_calls"] = calls.iter().map(call).collect();
    }
    message
}

/// Reads the lines of an answer.
#[derive(Debug, Default)]
pub(super) struct Reader;

impl Dialect for Reader {
    fn read(&mut self, _: &str, line: &Value, answer: &mut Answer) -> Result<(), LlmError> {
        let message = &line["message"];
        if !message.is_object() && line["done"] != true {
            match error_beside(line) {
                Some(error) => return Err(error),
                None => answer.unread("a line of another form"),
            }
        }
        answer.reasoning(message["thinking"].as_str().unwrap_or_default());
        match &message["content"] {
            Value::String(text) => answer.text(text),
            Value::Null => {}
            _ => answer.unread("content of another form"),
        }
        for entry in parts(&message["tool_calls"]) {
            call(entry, answer)?;
        }
        if line["done"] == true {
            answer.tokens(line["prompt_eval_count"].as_u64(), line["eval_count"].as_u64());
            answer.stop(line["done_reason"].as_str().unwrap_or("stop"));
            answer.last();
        }
        Ok(())
    }

    fn end(&mut self, answer: &mut Answer) {
        answer.keep_text("thinking");
    }
}

/// A whole call. Indices are of no use: some versions give all calls the same.
fn call(entry: &Value, answer: &mut Answer) -> Result<(), LlmError> {
    let function = if entry["function"].is_object() { &entry["function"] } else { entry };
    answer.call(Piece {
        id: entry["id"].as_str(),
        name: function["name"].as_str(),
        arguments: function.get("arguments"),
        is_call: true,
        ..Piece::default()
    })
}
