//! A model that says again what was recorded.

use std::collections::VecDeque;

use agent_types::EventBody;
use async_trait::async_trait;
use futures::{StreamExt, stream};
use parking_lot::Mutex;

use crate::{LlmError, LlmProvider, LlmRequest, LlmStream, ModelInfo, StandardResponse};

/// A model that gives the answers of a recorded run again, in their order, whatever it is asked.
///
/// A request beyond the recording is an [`LlmError::NoReply`].
#[derive(Debug)]
pub struct ReplayProvider {
    info: ModelInfo,
    state: Mutex<State>,
}

#[derive(Debug)]
struct State {
    replies: VecDeque<StandardResponse>,
    given: usize,
}

impl ReplayProvider {
    /// A model that gives these answers.
    #[must_use]
    pub fn new(replies: impl IntoIterator<Item = StandardResponse>) -> Self {
        let info = ModelInfo { name: "replay".into(), scripted: true, ..ModelInfo::default() };
        Self { info, state: Mutex::new(State { replies: replies.into_iter().collect(), given: 0 }) }
    }

    /// Creates a model that returns the answers recorded in the events of a run; other events are ignored.
    #[must_use]
    pub fn from_events<'e>(events: impl IntoIterator<Item = &'e EventBody>) -> Self {
        Self::new(events.into_iter().filter_map(StandardResponse::from_event))
    }

    /// The same with what else is known of the model.
    #[must_use]
    pub fn with_info(mut self, change: impl FnOnce(&mut ModelInfo)) -> Self {
        change(&mut self.info);
        self
    }

    /// Number of answers that were not requested yet.
    #[must_use]
    pub fn left(&self) -> usize {
        self.state.lock().replies.len()
    }

    fn take(&self) -> Result<StandardResponse, LlmError> {
        let mut state = self.state.lock();
        let reply = state.replies.pop_front().ok_or_else(|| LlmError::NoReply {
            message: format!("the recording ends after {} replies", state.given),
        })?;
        state.given += 1;
        Ok(reply)
    }
}

#[async_trait]
impl LlmProvider for ReplayProvider {
    fn info(&self) -> &ModelInfo {
        &self.info
    }

    async fn stream(&self, _: LlmRequest) -> Result<LlmStream, LlmError> {
        Ok(stream::iter(self.take()?.into_events().into_iter().map(Ok)).boxed())
    }
}

#[cfg(test)]
mod tests {
    use agent_types::Usage;
    use futures::executor::block_on;

    use std::sync::Arc;

    use super::*;
    use crate::{Finish, LlmEvent, NativeCall, complete};

    fn finished(text: &str, finish: &str) -> EventBody {
        EventBody::AgentLlmFinished {
            text: text.into(),
            reasoning: Some("because".into()),
            tool_calls: Some(Arc::new(serde_json::json!([{"id": "c1", "name": "t", "arguments": "{}"}]))),
            finish: finish.into(),
            usage: Usage::new(1, 2),
            dropped: None,
        }
    }

    #[test]
    fn answers_of_a_log_come_again_and_then_no_more() {
        let log = [finished("", "error"), finished("one", "tool_calls"), EventBody::AgentTurnFinished {}];
        let model = ReplayProvider::from_events(&log);
        assert_eq!(model.left(), 1);
        let answer = block_on(complete(&model, LlmRequest::default())).unwrap();
        assert_eq!((answer.text.as_str(), &answer.finish), ("one", &Finish::ToolCalls));
        assert_eq!((answer.reasoning.as_deref(), answer.usage.total), (Some("because"), 3));
        assert_eq!(answer.tool_calls, [NativeCall::new("c1", "t", "{}")]);
        let error = block_on(complete(&model, LlmRequest::default())).unwrap_err();
        assert_eq!(
            (error.code(), error.to_string().as_str()),
            ("no_reply", "the recording ends after 1 replies")
        );
    }

    #[test]
    fn an_answer_is_emitted_in_pieces_by_kind() {
        let answer = StandardResponse::from_event(&finished("one", "stop")).unwrap();
        let kinds: Vec<_> = answer.into_events().iter().map(std::mem::discriminant).collect();
        assert_eq!(kinds.len(), 4);
        assert_eq!(kinds[1], std::mem::discriminant(&LlmEvent::Text(String::new())));
    }
}
