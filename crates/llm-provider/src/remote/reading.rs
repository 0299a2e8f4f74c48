//! Answers in the library's form, as they come.

use std::sync::Arc;

use agent_types::{Clock, ClockHold, Usage};
use futures::StreamExt;
use genai::chat::{ChatStream, ChatStreamEvent, StopReason, StreamEnd, ToolCall, ToolChunk};
use serde_json::Value;

use super::fault::{Secret, llm_error};
use super::last_frame::LastFrame;
use crate::{Finish, LlmError, LlmEvent, NativeCall, ProviderKind, StandardResponse};

/// An answer that is being read.
pub(super) struct Reading {
    stream: ChatStream,
    kind: ProviderKind,
    last: Arc<LastFrame>,
    answer: StandardResponse,
    done: bool,
    secret: Secret,
    clock: Arc<dyn Clock>,
    /// A virtual clock stands still while the connection is open.
    _busy: Option<ClockHold>,
}

impl Reading {
    pub(super) fn new(
        stream: ChatStream,
        kind: ProviderKind,
        last: Arc<LastFrame>,
        secret: Secret,
        clock: Arc<dyn Clock>,
    ) -> Self {
        let busy = clock.busy();
        Self {
            stream,
            kind,
            last,
            answer: StandardResponse::default(),
            done: false,
            secret,
            clock,
            _busy: busy,
        }
    }

    pub(super) async fn next(mut self) -> Option<(Result<LlmEvent, LlmError>, Self)> {
        while !self.done {
            let event = match self.stream.next().await {
                Some(Ok(event)) => self.take(event),
                // Server-side tools emit events that the library has no form for.
                Some(Err(genai::Error::JsonValueExt(_))) if self.kind == ProviderKind::Anthropic => None,
                Some(Err(error)) => Some(Err(llm_error(&error, &self.secret, self.clock.now()))),
                None => Some(self.closed()),
            };
            if let Some(event) = event {
                self.done = event.is_err() || matches!(event, Ok(LlmEvent::Finished(_)));
                return Some((event, self));
            }
        }
        None
    }

    fn take(&mut self, event: ChatStreamEvent) -> Option<Result<LlmEvent, LlmError>> {
        match event {
            ChatStreamEvent::Start | ChatStreamEvent::ThoughtSignatureChunk(_) => None,
            ChatStreamEvent::Heartbeat => Some(Ok(LlmEvent::Heartbeat)),
            ChatStreamEvent::Chunk(chunk) => {
                self.answer.text.push_str(&chunk.content);
                (!chunk.content.is_empty()).then_some(Ok(LlmEvent::Text(chunk.content)))
            }
            ChatStreamEvent::ReasoningChunk(chunk) => {
                if chunk.content.is_empty() {
                    return None;
                }
                self.answer.reasoning.get_or_insert_default().push_str(&chunk.content);
                Some(Ok(LlmEvent::Reasoning(chunk.content)))
            }
            ChatStreamEvent::ToolCallChunk(ToolChunk { tool_call }) => {
                take_call(&mut self.answer.tool_calls, tool_call).map(Ok)
            }
            ChatStreamEvent::End(end) => Some(self.finish(end)),
        }
    }

    /// The connection was closed without the sign of an end.
    fn closed(&mut self) -> Result<LlmEvent, LlmError> {
        let ending = self.last.take().ok_or_else(ended_early)?;
        self.answer.usage = ending.usage;
        self.answer.finish = finish_of(Some(ending.stop), !self.answer.tool_calls.is_empty());
        Ok(LlmEvent::Finished(std::mem::take(&mut self.answer)))
    }

    fn finish(&mut self, end: StreamEnd) -> Result<LlmEvent, LlmError> {
        // These two send no final event: the library makes one up when the connection closes.
        let made_up = matches!(self.kind, ProviderKind::Gemini | ProviderKind::Ollama);
        if made_up && end.captured_stop_reason.is_none() {
            return Err(ended_early());
        }
        if let Some(usage) = &end.captured_usage {
            let count = |tokens: Option<i32>| tokens.and_then(|n| u64::try_from(n).ok()).unwrap_or(0);
            self.answer.usage = Usage::new(count(usage.prompt_tokens), count(usage.completion_tokens));
        }
        let stop = end.captured_stop_reason.clone();
        if self.kind == ProviderKind::OpenAiResponses {
            add_unstreamed(&mut self.answer.tool_calls, end);
        }
        let has_calls = !self.answer.tool_calls.is_empty();
        self.answer.finish = finish_of(stop, has_calls);
        Ok(LlmEvent::Finished(std::mem::take(&mut self.answer)))
    }
}

fn ended_early() -> LlmError {
    LlmError::Stream { message: "it ended before its last event".into() }
}

fn finish_of(stop: Option<StopReason>, has_calls: bool) -> Finish {
    match stop {
        // Some servers say that they stopped, and mean that they wait for the results of calls.
        None | Some(StopReason::Completed(_) | StopReason::StopSequence(_)) if has_calls => Finish::ToolCalls,
        None | Some(StopReason::Completed(_) | StopReason::StopSequence(_)) => Finish::Stop,
        Some(StopReason::ToolCall(_)) => Finish::ToolCalls,
        Some(StopReason::MaxTokens(_)) => Finish::Length,
        Some(StopReason::ContentFilter(_)) => Finish::ContentFilter,
        // The word of responses for an answer that was cut off.
        Some(StopReason::Other(word)) if word == "incomplete" => Finish::Length,
        Some(StopReason::Other(word)) => Finish::Other(word),
    }
}

/// A piece of a call. The library gives the arguments as far as they have come.
fn take_call(calls: &mut Vec<NativeCall>, call: ToolCall) -> Option<LlmEvent> {
    let so_far = match call.fn_arguments {
        Value::String(text) => text,
        other => other.to_string(),
    };
    let index = match position(calls, &call.call_id, &call.fn_name, &so_far) {
        Some(index) => index,
        None if call.fn_name.is_empty() && calls.is_empty() => return None,
        None if call.fn_name.is_empty() => calls.len() - 1,
        None => {
            let signatures = call.thought_signatures.unwrap_or_default();
            calls.push(NativeCall { signatures, ..NativeCall::new(call.call_id, call.fn_name, "") });
            calls.len() - 1
        }
    };
    let known = &mut calls[index];
    let piece = so_far.strip_prefix(known.arguments.as_str()).unwrap_or_default().to_owned();
    known.arguments.push_str(&piece);
    Some(LlmEvent::ToolCall { index, name: known.name.clone(), arguments: piece })
}

/// Finds the call that a piece continues. Ids alone are not enough: some servers leave them out, or give all calls the
/// same.
fn position(calls: &[NativeCall], id: &str, name: &str, so_far: &str) -> Option<usize> {
    let continues = |known: &NativeCall| known.name == name && so_far.starts_with(&known.arguments);
    let same = calls.iter().rposition(|known| known.id == id && continues(known));
    // The library names the position where the server gave no id.
    let index = || id.strip_prefix("call_")?.parse::<usize>().ok();
    same.or_else(|| index().filter(|&index| calls.get(index).is_some_and(continues)))
}

/// Adds calls that arrived without a piece: those without arguments, and those sent only at the end.
fn add_unstreamed(calls: &mut Vec<NativeCall>, end: StreamEnd) {
    let gathered = end.captured_into_tool_calls().unwrap_or_default();
    for (index, call) in gathered.into_iter().enumerate() {
        let arguments = match call.fn_arguments {
            Value::String(text) => text,
            other => other.to_string(),
        };
        match calls.iter_mut().find(|known| known.id == call.call_id) {
            // The text as the model wrote it is better than the library's form of it, where it is whole.
            Some(known) if serde_json::from_str::<Value>(&known.arguments).is_ok() => {}
            Some(known) => known.arguments = arguments,
            None => {
                let position = index.min(calls.len());
                calls.insert(position, NativeCall::new(call.call_id, call.fn_name, arguments));
            }
        }
    }
}
