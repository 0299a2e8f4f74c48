//! A model that plays a written script.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use agent_types::{Clock, SystemClock};
use async_trait::async_trait;
use futures::{StreamExt, future, stream};
use parking_lot::Mutex;

use crate::script::{self, Reply, ScriptError};
use crate::script_request::{argument_text, message_texts};
use crate::{
    Finish, LlmError, LlmEvent, LlmProvider, LlmRequest, LlmStream, ModelInfo, NativeCall, StandardResponse,
};

/// A model that answers the first request with the first reply of its script, and so on.
///
/// A request without a reply, or one that is not what its reply expects, is an [`LlmError::Script`].
#[derive(Debug)]
pub struct ScriptedModel {
    info: ModelInfo,
    clock: Arc<dyn Clock>,
    state: Mutex<State>,
}

#[derive(Debug)]
struct State {
    replies: VecDeque<Reply>,
    /// Every request so far but those with a purpose, as texts of messages.
    requests: Vec<Vec<String>>,
    calls: u64,
}

impl ScriptedModel {
    /// A model that plays `replies` in order.
    #[must_use]
    pub fn new(replies: Vec<Reply>) -> Self {
        let info = ModelInfo { name: ModelInfo::SCRIPTED.into(), scripted: true, ..ModelInfo::default() };
        let state = State { replies: replies.into(), requests: Vec::new(), calls: 0 };
        Self { info, clock: Arc::new(SystemClock), state: Mutex::new(state) }
    }

    /// A model that plays a text with one reply a line.
    ///
    /// # Errors
    /// A line that is not a valid reply, by number.
    pub fn from_jsonl(text: &str) -> Result<Self, ScriptError> {
        Ok(Self::new(script::parse(text)?))
    }

    /// The same with another clock, for replies that wait.
    #[must_use]
    pub fn with_clock(mut self, clock: Arc<dyn Clock>) -> Self {
        self.clock = clock;
        self
    }

    /// The same with what else is known of the model.
    #[must_use]
    pub fn with_info(mut self, change: impl FnOnce(&mut ModelInfo)) -> Self {
        change(&mut self.info);
        self
    }

    /// Skips replies, as for a conversation that continues after them, and errors before them.
    /// A last reply that repeats stays.
    pub fn skip(&self, replies: usize) {
        let mut state = self.state.lock();
        let mut left = replies;
        while left > 0 {
            let Some(position) = state.replies.iter().position(|reply| reply.purpose.is_none()) else {
                return;
            };
            left -= usize::from(state.replies[position].error.is_none());
            let is_last = position + 1 == state.replies.len();
            if is_last && state.replies[position].repeat {
                return;
            }
            state.replies.remove(position);
        }
    }

    /// The reply to this request, taken from the script.
    fn take(&self, request: &LlmRequest) -> Result<(Reply, u64), LlmError> {
        let mut state = self.state.lock();
        let wanted = request.purpose;
        let position = state.replies.iter().position(|reply| reply.purpose.as_deref() == wanted);
        let index = state.requests.len();
        let Some(position) = position else {
            let what = wanted.map_or_else(|| format!("request {index}"), |purpose| format!("a {purpose}"));
            return Err(LlmError::NoReply { message: format!("the script has no reply to {what}") });
        };
        let is_last = position + 1 == state.replies.len();
        let reply = match state.replies.get(position) {
            Some(reply) if reply.repeat && is_last => reply.clone(),
            Some(_) | None => state.replies.remove(position).unwrap_or_default(),
        };
        let faults = reply.request.as_ref().map(|check| check.faults(request, &state.requests));
        if wanted.is_none() {
            state.requests.push(message_texts(request));
        }
        if let Some(faults) = faults.filter(|faults| !faults.is_empty()) {
            return Err(LlmError::Script { message: format!("request {index}: {}", faults.join("; ")) });
        }
        let first_call = state.calls + 1;
        state.calls += reply.tool_calls.len() as u64;
        Ok((reply, first_call))
    }
}

#[async_trait]
impl LlmProvider for ScriptedModel {
    fn info(&self) -> &ModelInfo {
        &self.info
    }

    async fn stream(&self, request: LlmRequest) -> Result<LlmStream, LlmError> {
        let (reply, first_call) = self.take(&request)?;
        if reply.sleep_ms > 0 {
            self.clock.sleep(Duration::from_millis(reply.sleep_ms)).await;
        }
        if let Some(error) = &reply.error {
            let retry_after = error.retry_after_ms.map(Duration::from_millis);
            return Err(match error.status {
                status @ (401 | 403) => LlmError::Authentication { status, message: String::new() },
                429 => LlmError::RateLimited { message: String::new(), retry_after },
                status => LlmError::Status { status, message: "scripted".into(), retry_after },
            });
        }
        let hangs = reply.hang;
        let events = stream::iter(events(reply, first_call).into_iter().map(Ok));
        if hangs {
            let pieces = events.filter(|event| future::ready(!matches!(event, Ok(LlmEvent::Finished(_)))));
            return Ok(pieces.chain(stream::pending()).boxed());
        }
        Ok(events.boxed())
    }
}

fn events(reply: Reply, first_call: u64) -> Vec<LlmEvent> {
    let mut events = Vec::new();
    if let Some(reasoning) = &reply.reasoning {
        events.push(LlmEvent::Reasoning(reasoning.clone()));
    }
    let chunks = if reply.chunks.is_empty() { reply.text.into_iter().collect() } else { reply.chunks };
    let mut answer = StandardResponse { reasoning: reply.reasoning, ..StandardResponse::default() };
    for chunk in chunks {
        answer.text.push_str(&chunk);
        events.push(LlmEvent::Text(chunk));
    }
    for (index, call) in reply.tool_calls.into_iter().enumerate() {
        let arguments = argument_text(&call.arguments);
        events.push(LlmEvent::ToolCall { index, name: call.name.clone(), arguments: arguments.clone() });
        let id = call.id.unwrap_or_else(|| format!("native_{}", first_call + index as u64));
        answer.tool_calls.push(NativeCall::new(id, call.name, arguments));
    }
    answer.usage = reply.usage.map(Into::into).unwrap_or_default();
    answer.finish = match reply.finish.as_deref() {
        Some("stop") => Finish::Stop,
        Some("length") => Finish::Length,
        Some("tool_calls") => Finish::ToolCalls,
        Some(other) => Finish::Other(other.into()),
        None if answer.tool_calls.is_empty() => Finish::Stop,
        None => Finish::ToolCalls,
    };
    events.push(LlmEvent::Finished(answer));
    events
}

#[cfg(test)]
mod tests {
    use futures::executor::block_on;

    use super::*;
    use crate::{Message, complete};

    fn ask(model: &ScriptedModel) -> Result<StandardResponse, LlmError> {
        block_on(complete(model, LlmRequest::new(vec![Message::user("hi")])))
    }

    #[test]
    fn replies_come_in_order_and_the_last_may_repeat() {
        let model = ScriptedModel::from_jsonl(
            "{\"text\": \"one\"}\n\n{\"chunks\": [\"t\", \"wo\"], \"repeat\": true, \"usage\": {\"input\": 1, \"output\": 2}}",
        )
        .unwrap();
        assert_eq!(ask(&model).unwrap().text, "one");
        assert_eq!(ask(&model).unwrap().text, "two");
        assert_eq!(ask(&model).unwrap().usage.total, 3);
    }

    #[test]
    fn a_missing_reply_and_an_unmet_request_are_errors() {
        let model = ScriptedModel::from_jsonl(r#"{"text": "x", "request": {"contains": ["bye"]}}"#).unwrap();
        assert_eq!(
            ask(&model),
            Err(LlmError::Script { message: r#"request 0: the request lacks "bye""#.into() })
        );
        assert_eq!(
            ask(&model),
            Err(LlmError::NoReply { message: "the script has no reply to request 1".into() })
        );
    }

    #[test]
    fn errors_and_native_calls_are_played() {
        let model = ScriptedModel::from_jsonl(
            "{\"error\": {\"status\": 429, \"retry_after_ms\": 5}}\n{\"tool_calls\": [{\"name\": \"t\", \"arguments\": {\"a\": 1}}]}",
        )
        .unwrap();
        assert_eq!(
            ask(&model),
            Err(LlmError::RateLimited {
                message: String::new(),
                retry_after: Some(Duration::from_millis(5))
            })
        );
        let answer = ask(&model).unwrap();
        assert_eq!(answer.finish, Finish::ToolCalls);
        assert_eq!(answer.tool_calls[0].arguments, r#"{"a":1}"#);
    }

    #[test]
    fn a_bad_line_is_named() {
        let error = ScriptedModel::from_jsonl("{\"text\": \"x\"}\n{\"txt\": 1}").unwrap_err();
        assert!(error.to_string().starts_with("line 2 of the script: unknown field `txt`"), "{error}");
    }
}
