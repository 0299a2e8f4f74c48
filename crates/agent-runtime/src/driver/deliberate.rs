//! Replacements of an agent's model.

use std::fmt;
use std::pin::Pin;
use std::sync::{Arc, OnceLock};

use agent_types::{
    AskSummary, Budget, BudgetExceeded, BudgetKey, BudgetLimits, Clock, EventSink, KeepError, ResumeLog,
    ToolId,
};
use async_trait::async_trait;
use futures::{Stream, StreamExt};
use llm_provider::{LlmError, LlmEvent, LlmProvider, LlmRequest, StandardResponse};
use serde_json::{Map, Value};
use tokio_util::sync::CancellationToken;
use tool_registry::{Services, Snapshot};
use tool_system::{PrivateState, World};

use super::context::RunContext;
use super::offer::ToolOffer;
use super::trace::{Trace, inner};
use crate::history::{Exchange, visible};
use crate::machine::{ApprovalMode, Conversation};
use crate::profile::AgentProfile;
use crate::prompt::messages::{rendered, tool_value};
use crate::prompt::text::{Protocol, exchange_messages};

/// A reply as it comes. Dropping it ends whatever makes it.
pub type ReplyStream = Pin<Box<dyn Stream<Item = Result<LlmEvent, DeliberationFault>> + Send>>;

/// Reason for a missing reply.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum DeliberationFault {
    /// The model failed.
    #[error(transparent)]
    Llm(#[from] LlmError),
    /// The deliberator failed.
    #[error("{message}")]
    Failed {
        /// A word for programs.
        kind: String,
        /// Description of the failure.
        message: String,
    },
    /// The user must answer these first; then the run resumes and deliberates again with the answers.
    #[error("it waits for a person")]
    Waiting(Vec<AskSummary>),
}

impl DeliberationFault {
    /// Stable code for logs, tests and the wire.
    #[must_use]
    pub fn code(&self) -> &str {
        match self {
            Self::Llm(error) => error.code(),
            Self::Failed { kind, .. } => kind,
            Self::Waiting(_) => "waiting",
        }
    }
}

/// Writes the reply of each turn instead of the model. The text is read like a model's: it may hold an ACTION block.
///
/// Replies are recorded, so that a resumed run does not deliberate again.
#[async_trait]
pub trait Deliberator: Send + Sync + fmt::Debug {
    /// Name of the deliberator in events.
    fn name(&self) -> &str;

    /// The tool that questions of people are about, where it asks any.
    fn asks_as(&self) -> Option<ToolId> {
        None
    }

    /// Returns `true` if a reply may have effects outside of the run.
    fn has_effect(&self) -> bool {
        false
    }

    /// Returns `true` when a reply ends on its own soon after the run was cancelled; otherwise it is dropped then.
    fn winds_down(&self) -> bool {
        false
    }

    /// Begins a reply. The stream ends with [`LlmEvent::Finished`] or a fault.
    ///
    /// # Errors
    /// What keeps it from a reply.
    ///
    /// # Cancel safety
    /// The future and the stream may be dropped at any await.
    async fn deliberate(&self, turn: Deliberation<'_>) -> Result<ReplyStream, DeliberationFault>;
}

/// The model itself, which every agent has unless something stands in for it.
#[derive(Debug, Clone)]
pub(crate) struct ModelDeliberator(pub(crate) Arc<dyn LlmProvider>);

#[async_trait]
impl Deliberator for ModelDeliberator {
    fn name(&self) -> &str {
        &self.0.info().name
    }

    async fn deliberate(&self, turn: Deliberation<'_>) -> Result<ReplyStream, DeliberationFault> {
        let stream = self.0.stream(turn.into_request()).await?;
        Ok(Box::pin(stream.map(|event| event.map_err(DeliberationFault::from))))
    }
}

/// Recorded reply as a stream that emits it at once.
pub fn replayed(response: StandardResponse) -> ReplyStream {
    let text = (!response.text.is_empty()).then(|| Ok(LlmEvent::Text(response.text.clone())));
    let events = text.into_iter().chain([Ok(LlmEvent::Finished(response))]);
    Box::pin(futures::stream::iter(events.collect::<Vec<_>>()))
}

/// One turn, as whatever deliberates about it sees it.
pub struct Deliberation<'t> {
    pub(crate) context: &'t RunContext,
    pub(crate) conversation: &'t Conversation,
    pub(crate) offer: &'t ToolOffer,
    pub(crate) trace: &'t Trace,
    pub(crate) request: LlmRequest,
    pub(crate) account: &'t Account,
}

impl fmt::Debug for Deliberation<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Deliberation").field("turn", &self.turn()).finish_non_exhaustive()
    }
}

/// Usage of the run's budget by a turn while it deliberates.
#[derive(Debug, Default)]
pub(crate) struct Account(OnceLock<Option<Budget>>);

impl Account {
    /// Usage counted during the deliberation.
    pub(crate) fn counted(&self, key: BudgetKey) -> u64 {
        self.0.get().and_then(Option::as_ref).map_or(0, |budget| budget.used(key))
    }
}

impl Deliberation<'_> {
    /// The turn, from 1.
    #[must_use]
    pub fn turn(&self) -> u32 {
        self.conversation.turn()
    }

    /// The request that a model would be sent.
    #[must_use]
    pub fn into_request(self) -> LlmRequest {
        self.request
    }

    /// Input that the agent answers: the last message of the user, or the event that triggered it.
    #[must_use]
    pub fn message(&self) -> String {
        match self.conversation.input() {
            Some((_, Exchange::User { text, .. })) => text.clone(),
            Some((_, Exchange::Event { name, payload })) => format!("{name}: {payload}"),
            Some(_) | None => String::new(),
        }
    }

    /// Previous conversation as messages `{role, content}`; after the agent's first reply, with its message and
    /// replies.
    /// Results of the last calls are in [`observations`](Self::observations) only.
    #[must_use]
    pub fn history(&self) -> Vec<Value> {
        let exchanges = self.conversation.history();
        let (summary, seen) = visible(exchanges);
        let begun = self.conversation.input().map_or(0, |(at, _)| at);
        let has_replied = exchanges.len() > begun + 1;
        let frame = self.context.frame();
        let mut messages: Vec<Value> = Vec::new();
        if let Some(text) = summary {
            messages.push(rendered::summary(text));
        }
        for (at, exchange) in seen.filter(|(at, _)| has_replied || *at < begun) {
            let mut parts = Vec::new();
            match exchange {
                Exchange::Turn(turn) if at + 1 == exchanges.len() => {
                    parts.push(llm_provider::Message::assistant(turn.text.clone()));
                }
                Exchange::Observed { .. } if at + 1 == exchanges.len() => {}
                exchange => exchange_messages(exchange, Protocol::Text, &frame, &mut parts),
            }
            messages.extend(parts.iter().map(rendered::value));
        }
        messages
    }

    /// Observations of the last reply, each in the form that a model sees.
    #[must_use]
    pub fn observations(&self) -> Vec<String> {
        match self.conversation.history().last() {
            Some(Exchange::Turn(turn)) => turn.observations().map(agent_types::Observation::line).collect(),
            Some(Exchange::Observed { observations, .. }) => {
                observations.iter().map(agent_types::Observation::line).collect()
            }
            Some(_) | None => Vec::new(),
        }
    }

    /// Private state of the agent; null when it cannot be read.
    pub async fn private_state(&self) -> Value {
        match self.context.services.get::<PrivateState>() {
            Some(state) => state.0.read().await.unwrap_or_default(),
            None => Value::Null,
        }
    }

    /// The state that all agents share; null where there is none.
    pub async fn world_state(&self) -> Value {
        match self.context.services.get::<World>() {
            Some(world) => world.0.read().await.unwrap_or_default(),
            None => Value::Null,
        }
    }

    /// The tools of the turn as values `{id, description, parameters}`.
    #[must_use]
    pub fn tools(&self) -> Vec<Value> {
        self.offer.tools.tools().map(tool_value).collect()
    }

    /// The tools of the turn.
    #[must_use]
    pub fn offered(&self) -> &Snapshot {
        &self.offer.tools
    }

    /// The profile of the agent.
    #[must_use]
    pub fn profile(&self) -> &Arc<AgentProfile> {
        &self.context.profile
    }

    /// Sink for events of the turn: events emitted there are part of the agent's run.
    #[must_use]
    pub fn sink(&self) -> Arc<dyn EventSink> {
        inner(self.trace)
    }

    /// Clock of the run.
    #[must_use]
    pub fn clock(&self) -> &Arc<dyn Clock> {
        &self.context.clock
    }

    /// Is cancelled with the run.
    #[must_use]
    pub fn cancel_token(&self) -> CancellationToken {
        self.context.cancel.child_token()
    }

    /// Returns a part of the run's budget; usage counted there is not counted again with the reply's usage.
    ///
    /// # Errors
    /// The tree of agents and workflows is too deep already, or no tokens are left.
    pub fn budget(&self) -> Result<Budget, DeliberationFault> {
        let whole = &self.context.budget;
        let part = self.account.0.get_or_init(|| whole.child(BudgetLimits::default()));
        part.clone().ok_or_else(|| DeliberationFault::Failed {
            kind: "limit_reached".to_owned(),
            message: format!("limit of {} levels reached", whole.max_depth()),
        })
    }

    /// Dependencies of tools, by type.
    #[must_use]
    pub fn services(&self) -> Services {
        self.context.call_services(self.conversation, &self.offer.tools)
    }

    /// Values that tools may use and no model sees or sets.
    #[must_use]
    pub fn values(&self) -> &Arc<Map<String, Value>> {
        &self.context.values
    }

    /// Policy for calls that need human approval.
    #[must_use]
    pub fn approval(&self) -> ApprovalMode {
        self.context.approval
    }

    /// Log of the work that this turn did before the run was interrupted, as a separate run.
    #[must_use]
    pub fn resume(&self) -> Option<ResumeLog> {
        self.trace.log().inside_turn(self.conversation.turn(), &self.call_prefix())
    }

    /// Prefix of the ids of calls made during the deliberation, which makes them unique in the run.
    #[must_use]
    pub fn call_prefix(&self) -> String {
        match &self.context.inside {
            Some(call) => format!("{call}.t{}.", self.conversation.turn()),
            None => format!("t{}.", self.conversation.turn()),
        }
    }
}

/// Events that cannot be kept: nothing is requested that the log would not have.
impl From<KeepError> for DeliberationFault {
    fn from(fault: KeepError) -> Self {
        Self::Failed { kind: fault.code.to_owned(), message: fault.message }
    }
}

/// Message for an exhausted budget.
impl From<BudgetExceeded> for DeliberationFault {
    fn from(exceeded: BudgetExceeded) -> Self {
        Self::Failed { kind: exceeded.key.as_str().to_owned(), message: exceeded.to_string() }
    }
}
