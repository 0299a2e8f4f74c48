//! OpenAI's responses.

use std::collections::HashSet;

use serde_json::{Value, json};

use super::answer::Answer;
use super::calls::{MAX_CALLS, Piece};
use super::conversation::{Said, address, argument_text, conversation, is_image};
use super::dialect::{Dialect, Question, parts, text_of};
use super::fault::{error_beside, error_in, streamed_error};
use crate::{Attachment, LlmError, NativeCall};

/// The body of a request.
pub(super) fn request(question: &Question<'_>) -> Value {
    let mut body = json!({"store": false, "model": question.info.name, "stream": true});
    let has_tools = !question.request.tools.is_empty();
    if has_tools && question.info.reasoning {
        // Without a store at the server, reasoning comes back with the calls that came of it.
        body["include"] = json!(["reasoning.encrypted_content"]);
    }
    if has_tools {
        let tool = |tool: &agent_types::ToolSpec| {
            let (name, description, parameters) = (&tool.name, &tool.description, &tool.parameters);
            json!({"type": "function", "name": name, "parameters": parameters, "description": description, "strict": false})
        };
        body["tools"] = question.request.tools.iter().map(tool).collect();
    }
    let said = conversation(&question.request.messages, question.info);
    body["input"] = said.iter().flat_map(items).collect();
    if let Some(schema) = &question.request.response_schema {
        let mut format = Question::named_schema(schema);
        format["type"] = "json_schema".into();
        body["text"] = json!({"format": format});
    }
    question.set(
        &mut body,
        "",
        &[("temperature", "temperature"), ("max_tokens", "max_output_tokens"), ("top_p", "top_p")],
    );
    body
}

fn items(said: &Said) -> Vec<Value> {
    match said {
        Said::System(text) => vec![json!({"role": "system", "content": text})],
        Said::User { text, attachments } if attachments.is_empty() => {
            vec![json!({"role": "user", "content": text})]
        }
        Said::User { text, attachments } => {
            let text = (!text.is_empty()).then(|| json!({"type": "input_text", "text": text}));
            let parts: Value = text.into_iter().chain(attachments.iter().map(attached)).collect();
            vec![json!({"role": "user", "content": parts})]
        }
        Said::Assistant { text, calls } => assistant(text, calls),
        Said::Results(results) => {
            let item = |(id, text)| json!({"type": "function_call_output", "call_id": id, "output": text});
            results.iter().map(|result| item((&result.id, &result.text))).collect()
        }
    }
}

fn assistant(text: &str, calls: &[NativeCall]) -> Vec<Value> {
    let mut items = Vec::new();
    let mut text = (!text.is_empty()).then(|| {
        let content = json!([{"type": "output_text", "text": text}]);
        json!({"type": "message", "role": "assistant", "content": content})
    });
    for call in calls {
        let reasoning: Vec<Value> =
            call.reasoning.iter().filter(|item| item["type"] == "reasoning").cloned().collect();
        // The text stands before the reasoning that a call follows at once.
        items.extend(text.take());
        items.extend(reasoning);
        items.push(json!({
            "type": "function_call", "call_id": call.id, "name": call.name, "arguments": argument_text(call),
        }));
    }
    items.extend(text);
    items
}

fn attached(attachment: &Attachment) -> Value {
    if is_image(attachment) {
        return json!({"type": "input_image", "detail": "auto", "image_url": address(attachment)});
    }
    let name = attachment.name.as_deref().unwrap_or("document.pdf");
    match &attachment.source {
        crate::AttachmentSource::Url(url) => json!({"type": "input_file", "file_url": url}),
        crate::AttachmentSource::Data(_) => {
            json!({"type": "input_file", "filename": name, "file_data": address(attachment)})
        }
    }
}

/// Reads the events of an answer.
#[derive(Debug, Default)]
pub(super) struct Reader {
    texts: Texts,
    reasoning: Texts,
    /// Encrypted reasoning that was kept.
    kept: HashSet<String>,
}

impl Dialect for Reader {
    fn read(&mut self, name: &str, event: &Value, answer: &mut Answer) -> Result<(), LlmError> {
        let name = event["type"].as_str().unwrap_or(name);
        let (place, text) =
            (PartAddress::from_event(event), |key: &str| event[key].as_str().unwrap_or_default());
        match name {
            "response.output_text.delta" => self.texts.add(&place, text("delta"), answer, Answer::text),
            "response.output_text.done" => self.texts.set(&place, text("text"), answer, Answer::text),
            "response.refusal.delta" => self.texts.add(&place, text("delta"), answer, Answer::refusal),
            "response.refusal.done" => self.texts.set(&place, text("refusal"), answer, Answer::refusal),
            "response.reasoning_summary_text.delta" | "response.reasoning_text.delta" => {
                self.reasoning.add(&place, text("delta"), answer, Answer::reasoning);
            }
            "response.reasoning_summary_text.done" | "response.reasoning_text.done" => {
                self.reasoning.set(&place, text("text"), answer, Answer::reasoning);
            }
            "response.content_part.added" | "response.content_part.done" => {
                self.part(&place, &event["part"], answer);
            }
            "response.function_call_arguments.delta" | "response.custom_tool_call_input.delta" => {
                answer.call(Piece { arguments: event.get("delta"), ..place.piece() })?;
            }
            "response.function_call_arguments.done" => {
                answer.call(Piece { arguments: event.get("arguments"), is_whole: true, ..place.piece() })?;
            }
            "response.custom_tool_call_input.done" => {
                answer.call(Piece { arguments: event.get("input"), is_whole: true, ..place.piece() })?;
            }
            "response.output_item.added" => self.item(&place, &event["item"], false, answer)?,
            "response.output_item.done" => self.item(&place, &event["item"], true, answer)?,
            "response.completed"
            | "response.incomplete"
            | "response.failed"
            | "response.cancelled"
            | "response.done" => self.last(name, &event["response"], answer)?,
            "error" => return Err(streamed_error(event)),
            _ if event["object"] == "response" => self.last("response.done", event, answer)?,
            name if name.starts_with("response.") || name == "keepalive" || name == "ping" => {
                answer.heartbeat();
            }
            _ => match error_beside(event) {
                Some(error) => return Err(error),
                None => answer.unread("an event of another form"),
            },
        }
        Ok(())
    }
}

impl Reader {
    /// A part of a message.
    fn part(&mut self, place: &PartAddress<'_>, part: &Value, answer: &mut Answer) {
        match part["type"].as_str() {
            Some("output_text" | "text") => self.texts.set(place, &text_of(part), answer, Answer::text),
            Some("refusal") => self.texts.set(place, &text_of(&part["refusal"]), answer, Answer::refusal),
            Some("reasoning_text" | "summary_text") => {
                self.reasoning.set(place, &text_of(part), answer, Answer::reasoning);
            }
            _ => answer.unread("a part of another form"),
        }
    }

    /// An item of the output, when it begins or when it is done.
    fn item(
        &mut self,
        place: &PartAddress<'_>,
        item: &Value,
        is_done: bool,
        answer: &mut Answer,
    ) -> Result<(), LlmError> {
        let own = item["id"].as_str();
        let place = PartAddress { item: own.or(place.item), ..*place };
        match item["type"].as_str().unwrap_or_default() {
            "message" => {
                for (index, part) in parts(&item["content"]).iter().enumerate() {
                    self.part(&PartAddress { part: Some(index as u64), ..place }, part, answer);
                }
            }
            "function_call" | "custom_tool_call" | "tool_call" => {
                let arguments = item.get("arguments").or_else(|| item.get("input"));
                answer.call(Piece {
                    id: item["call_id"].as_str().or(own),
                    name: item["name"].as_str(),
                    arguments,
                    is_whole: is_done,
                    ..place.piece()
                })?;
            }
            "reasoning" if is_done => self.reasoning_item(&place, item, answer),
            // What runs at the server is its own affair.
            "reasoning" => {}
            kind if kind.ends_with("_call") || kind.ends_with("_output") || kind.starts_with("mcp_") => {}
            _ => answer.unread("an item of another form"),
        }
        Ok(())
    }

    fn reasoning_item(&mut self, place: &PartAddress<'_>, item: &Value, answer: &mut Answer) {
        for (index, part) in parts(&item["summary"]).iter().chain(parts(&item["content"])).enumerate() {
            self.reasoning.set(
                &PartAddress { part: Some(index as u64), ..*place },
                &text_of(part),
                answer,
                Answer::reasoning,
            );
        }
        if let Some(content) = item["encrypted_content"].as_str()
            && self.kept.insert(content.to_owned())
        {
            let mut kept = json!({"type": "reasoning", "summary": parts(&item["summary"])});
            kept["encrypted_content"] = content.into();
            if let Some(id) = item["id"].as_str() {
                kept["id"] = id.into();
            }
            answer.keep(kept);
        }
    }

    /// The response as it ended, with all its output.
    fn last(&mut self, name: &str, response: &Value, answer: &mut Answer) -> Result<(), LlmError> {
        let status = response["status"].as_str().unwrap_or_else(|| name.trim_start_matches("response."));
        if let Some(error) = error_in(response) {
            return Err(error);
        }
        if status == "failed" {
            return Err(streamed_error(
                &json!({"message": "the response failed, and the server did not say why"}),
            ));
        }
        answer.begin_whole();
        for item in parts(&response["output"]) {
            // Ids and indices of what was streamed may be others; a part is known by its text then.
            let place = PartAddress { index: None, item: None, part: None, is_last: true };
            self.item(&place, item, true, answer)?;
        }
        let usage = &response["usage"];
        answer.tokens(usage["input_tokens"].as_u64(), usage["output_tokens"].as_u64());
        answer.cache(usage["input_tokens_details"]["cached_tokens"].as_u64(), None);
        let reason = response.pointer("/incomplete_details/reason").and_then(Value::as_str);
        answer.stop(match status {
            "completed" | "done" => "completed",
            "incomplete" => reason.unwrap_or("max_output_tokens"),
            other => other,
        });
        answer.last();
        Ok(())
    }
}

/// Address of a part in the output, as far as an event has it.
#[derive(Debug, Clone, Copy)]
struct PartAddress<'e> {
    index: Option<&'e Value>,
    item: Option<&'e str>,
    part: Option<u64>,
    /// It is that of the whole response at the end.
    is_last: bool,
}

impl<'e> PartAddress<'e> {
    fn from_event(event: &'e Value) -> Self {
        Self {
            index: event.get("output_index"),
            item: event["item_id"].as_str(),
            part: event["content_index"].as_u64().or(event["summary_index"].as_u64()),
            is_last: false,
        }
    }

    fn piece(&self) -> Piece<'e> {
        Piece { slot: self.index, item: self.item, is_last: self.is_last, ..Piece::default() }
    }
}

/// Texts by their place, so that each counts once, in whatever events it comes.
#[derive(Debug, Default)]
struct Texts(Vec<Part>);

#[derive(Debug)]
struct Part {
    index: Option<u64>,
    item: Option<String>,
    number: u64,
    text: String,
    /// The whole response has it.
    is_matched: bool,
}

impl Texts {
    /// Takes more of a text.
    fn add(
        &mut self,
        place: &PartAddress<'_>,
        piece: &str,
        answer: &mut Answer,
        emit: fn(&mut Answer, &str),
    ) {
        if !piece.is_empty() {
            let Some(part) = self.find(place, None, answer) else { return };
            part.text.push_str(piece);
            emit(answer, piece);
        }
    }

    /// Takes a whole text, of which a part may have come.
    fn set(
        &mut self,
        place: &PartAddress<'_>,
        whole: &str,
        answer: &mut Answer,
        emit: fn(&mut Answer, &str),
    ) {
        if whole.is_empty() {
            return;
        }
        let Some(part) = self.find(place, Some(whole), answer) else { return };
        part.is_matched |= place.is_last;
        match whole.strip_prefix(part.text.as_str()) {
            Some("") => {}
            Some(new) => {
                emit(answer, new);
                whole.clone_into(&mut part.text);
            }
            None if part.text.contains(whole) => {}
            None => answer.unread("a text that differs from its pieces"),
        }
    }

    /// The part in a place, which is a new one where none is there, unless there are too many.
    fn find(
        &mut self,
        place: &PartAddress<'_>,
        whole: Option<&str>,
        answer: &mut Answer,
    ) -> Option<&mut Part> {
        let number = place.part.unwrap_or(0);
        let item = |part: &Part| place.item.is_some() && part.item.as_deref() == place.item;
        let place_index = place.index.and_then(Value::as_u64);
        let index = |part: &Part| place_index.is_some() && part.index == place_index;
        let is_open = |part: &Part| part.number == number && !(place.is_last && part.is_matched);
        let position =
            |fits: &dyn Fn(&Part) -> bool| self.0.iter().rposition(|part| is_open(part) && fits(part));
        let is_anywhere = place.item.is_none() && place_index.is_none() && !place.is_last;
        let same_text = |part: &Part| {
            place.is_last && !part.is_matched && whole.is_some_and(|whole| whole.starts_with(&part.text))
        };
        let found = position(&item)
            .or_else(|| position(&index))
            .or_else(|| self.0.iter().position(same_text))
            .or_else(|| position(&|_| is_anywhere));
        if found.is_none() && self.0.len() == MAX_CALLS {
            answer.unread("too many parts");
            return None;
        }
        let at = found.unwrap_or_else(|| {
            answer.retain(place.item.map_or(0, str::len));
            self.0.push(Part {
                index: place_index,
                item: place.item.map(str::to_owned),
                number,
                text: String::new(),
                is_matched: false,
            });
            self.0.len() - 1
        });
        self.0.get_mut(at)
    }
}
