//! OpenAI's chat completions, as OpenAI and the many servers that follow it speak them.

use serde_json::{Value, json};

use super::answer::Answer;
use super::calls::Piece;
use super::conversation::{Said, address, argument_text, conversation, is_image};
use super::dialect::{Dialect, Question, parts, text_of};
use super::fault::{error_beside, error_in};
use crate::{Attachment, LlmError, NativeCall};

/// Names under which servers give reasoning apart from the text; of those that stand together, the first counts.
const REASONING: &[&str] = &["reasoning_content", "reasoning", "reasoning_text", "thinking"];

/// Fields of events that need not say anything.
const KNOWN: &[&str] = &["choices", "usage", "id", "object", "model", "created", "x_groq", "type"];

/// The body of a request.
pub(super) fn request(question: &Question<'_>) -> Value {
    let mut body = json!({"model": question.info.name, "stream": true});
    if !question.request.tools.is_empty() {
        body["tools"] = question
            .request
            .tools
            .iter()
            .map(|tool| {
                let (name, description, parameters) = (&tool.name, &tool.description, &tool.parameters);
                let function =
                    json!({"name": name, "description": description, "parameters": parameters, "strict": false});
                json!({"type": "function", "function": function})
            })
            .collect();
    }
    let said = conversation(&question.request.messages, question.info);
    body["messages"] = said.iter().flat_map(messages).collect();
    if let Some(schema) = &question.request.response_schema {
        body["response_format"] =
            json!({"type": "json_schema", "json_schema": Question::named_schema(schema)});
    }
    body["stream_options"] = json!({"include_usage": true});
    let name = question.info.name.rsplit('/').next().unwrap_or_default();
    let is_newer = ["gpt-5", "gpt-6", "o1", "o3", "o4"].iter().any(|start| name.starts_with(start));
    question.set(
        &mut body,
        "",
        &[
            ("temperature", "temperature"),
            ("stop", "stop"),
            ("max_tokens", if is_newer { "max_completion_tokens" } else { "max_tokens" }),
            ("top_p", "top_p"),
            ("seed", "seed"),
        ],
    );
    body
}

fn messages(said: &Said) -> Vec<Value> {
    match said {
        Said::System(text) => vec![json!({"role": "system", "content": text})],
        Said::User { text, attachments } if attachments.is_empty() => {
            vec![json!({"role": "user", "content": text})]
        }
        Said::User { text, attachments } => {
            let text = (!text.is_empty()).then(|| json!({"type": "text", "text": text}));
            let parts: Value = text.into_iter().chain(attachments.iter().map(attached)).collect();
            vec![json!({"role": "user", "content": parts})]
        }
        Said::Assistant { text, calls } => vec![assistant(text, calls)],
        Said::Results(results) => {
            let message = |(id, text)| json!({"role": "tool", "content": text, "tool_call_id": id});
            results.iter().map(|result| message((&result.id, &result.text))).collect()
        }
    }
}

fn assistant(text: &str, calls: &[NativeCall]) -> Value {
    let mut message = json!({"role": "assistant"});
    message["content"] = if text.is_empty() { Value::Null } else { text.into() };
    // Servers whose models reason want their reasoning back with the calls that came of it.
    let kept = calls.iter().flat_map(|call| &call.reasoning).filter(|kept| kept.get("type").is_none());
    for (name, value) in kept.filter_map(Value::as_object).flatten() {
        if REASONING.contains(&name.as_str()) || name == "reasoning_details" {
            message[name] = value.clone();
        }
    }
    if !calls.is_empty() {
        let call = |call: &NativeCall| {
            let function = json!({"name": call.name, "arguments": argument_text(call)});
            json!({"type": "function", "id": call.id, "function": function})
        };
        message["tool_calls"] = calls.iter().map(call).collect();
    }
    message
}

fn attached(attachment: &Attachment) -> Value {
    if is_image(attachment) {
        return json!({"type": "image_url", "image_url": {"url": address(attachment)}});
    }
    let name = attachment.name.as_deref().unwrap_or("document.pdf");
    json!({"type": "file", "file": {"filename": name, "file_data": address(attachment)}})
}

/// Reads the events of an answer.
#[derive(Debug, Default)]
pub(super) struct Reader {
    /// Name under which the server gives reasoning.
    reasoning: Option<&'static str>,
    details: Vec<Value>,
}

impl Dialect for Reader {
    fn read(&mut self, _: &str, event: &Value, answer: &mut Answer) -> Result<(), LlmError> {
        let choices = parts(&event["choices"]);
        if choices.is_empty() {
            if let Some(error) = error_beside(event) {
                return Err(error);
            }
            let members = event.as_object();
            if members.is_some_and(|members| !members.keys().any(|key| KNOWN.contains(&key.as_str()))) {
                answer.unread("an event of another form");
            }
        }
        // A second answer to the same request was not asked for.
        let is_first =
            |choice: &&Value| choice.get("index").is_none_or(|index| index.is_null() || *index == 0);
        if let Some(choice) = choices.iter().find(is_first) {
            if let Some(error) = error_in(choice) {
                return Err(error);
            }
            self.choice(choice, answer)?;
        }
        for usage in [&event["usage"], &event["x_groq"]["usage"], &event["choices"][0]["usage"]] {
            let (read, written) = (usage["prompt_tokens"].as_u64(), usage["completion_tokens"].as_u64());
            // Some count reasoning in the total only.
            let beyond =
                usage["total_tokens"].as_u64().zip(read).map(|(total, read)| total.saturating_sub(read));
            answer.tokens(read, written.max(beyond));
            let details = usage["prompt_tokens_details"]["cached_tokens"].as_u64();
            answer.cache(details.or(usage["prompt_cache_hit_tokens"].as_u64()), None);
        }
        Ok(())
    }

    fn end(&mut self, answer: &mut Answer) {
        if let Some(name) = self.reasoning.take() {
            answer.keep_text(name);
        }
        if !self.details.is_empty() {
            answer.keep(json!({"reasoning_details": std::mem::take(&mut self.details)}));
        }
    }
}

impl Reader {
    fn choice(&mut self, choice: &Value, answer: &mut Answer) -> Result<(), LlmError> {
        if choice["delta"].is_object() {
            self.delta(&choice["delta"], answer)?;
        }
        if choice["message"].is_object() {
            Self::message(&choice["message"], answer)?;
        }
        if !choice["delta"].is_object() && !choice["message"].is_object() {
            answer.text(choice["text"].as_str().unwrap_or_default());
        }
        answer.stop(choice["finish_reason"].as_str().unwrap_or_default());
        Ok(())
    }

    fn delta(&mut self, delta: &Value, answer: &mut Answer) -> Result<(), LlmError> {
        if let Some(name) =
            REASONING.iter().find(|name| delta[**name].as_str().is_some_and(|text| !text.is_empty()))
        {
            answer.reasoning(delta[*name].as_str().unwrap_or_default());
            self.reasoning.get_or_insert(name);
        }
        if let Value::Array(details) = &delta["reasoning_details"] {
            details.iter().for_each(|detail| answer.retain_value(detail));
            self.details.extend(details.iter().cloned());
        }
        content(&delta["content"], answer);
        answer.refusal(delta["refusal"].as_str().unwrap_or_default());
        for entry in parts(&delta["tool_calls"]) {
            answer.call(piece(entry))?;
        }
        if delta["function_call"].is_object() {
            let slot = json!("function_call");
            answer
                .call(Piece { slot: Some(&slot), ..piece(&json!({"function": delta["function_call"]})) })?;
        }
        Ok(())
    }

    /// A whole message, of which pieces may have come.
    fn message(message: &Value, answer: &mut Answer) -> Result<(), LlmError> {
        let reasoning = REASONING.iter().find_map(|name| message[*name].as_str()).unwrap_or_default();
        answer.whole_reasoning(reasoning);
        match &message["content"] {
            Value::String(text) => answer.whole_text(text),
            parts if !answer.has_text() => content(parts, answer),
            _ => {}
        }
        answer.refusal(message["refusal"].as_str().filter(|_| !answer.has_text()).unwrap_or_default());
        answer.begin_whole();
        for entry in parts(&message["tool_calls"]) {
            answer.call(Piece { is_whole: true, is_last: true, ..piece(entry) })?;
        }
        if message["function_call"].is_object() {
            let slot = json!("function_call");
            let entry = json!({"function": message["function_call"]});
            answer.call(Piece { slot: Some(&slot), is_whole: true, is_last: true, ..piece(&entry) })?;
        }
        Ok(())
    }
}

/// An entry of a list of calls; name and arguments may stand beside the index.
fn piece(entry: &Value) -> Piece<'_> {
    let inner =
        ["function", "custom"].iter().find_map(|key| entry.get(*key).filter(|inner| inner.is_object()));
    let inner = inner.unwrap_or(entry);
    Piece {
        slot: entry.get("index"),
        id: entry["id"].as_str(),
        name: inner["name"].as_str().or(entry["name"].as_str()),
        arguments: inner.get("arguments").or_else(|| inner.get("input")).or_else(|| entry.get("arguments")),
        ..Piece::default()
    }
}

/// Content in text or in parts.
fn content(content: &Value, answer: &mut Answer) {
    match content {
        Value::Null => {}
        Value::String(text) => answer.text(text),
        content => {
            for part in parts(content) {
                match part["type"].as_str() {
                    Some("thinking" | "reasoning") => {
                        let inner = part.get("thinking").or(part.get("reasoning")).or(part.get("text"));
                        answer.reasoning(&inner.map(text_of).unwrap_or_default());
                    }
                    Some("refusal") => answer.refusal(&text_of(&part["refusal"])),
                    Some("reference") => {}
                    _ if part.is_string() || part["text"].is_string() => answer.text(&text_of(part)),
                    _ => answer.unread("a part of another form"),
                }
            }
        }
    }
}
