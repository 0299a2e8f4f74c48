//! Requests to the model, and its replies.

use agent_types::{BudgetKey, EventBody, ReplayData, Usage};
use llm_provider::{Constraint, LlmError, LlmRequest, ModelParameters};
use serde_json::Value;

use super::ask::{Answer, AskContext, CutCost, NoAnswer, Question, ask, estimated, finished, started};
use super::deliberate::{Account, Deliberation, DeliberationFault, replayed};
use super::offer::ToolOffer;
use super::parts::Driver;
use super::stop::{is_cut_safe, stop_at};
use super::trace::Trace;
use crate::machine::{CallIds, Conversation, Input, NoReply, Reading, read_reply};
use crate::profile::AgentProfile;
use crate::prompt::text::{self, Protocol};
use crate::prompt::window::{Shown, View, Window};
use crate::resume::{PastTooLong, record_of_cost};

/// A request, ready to be sent.
pub(crate) struct Requested {
    pub(super) request: LlmRequest,
    /// Data recorded with it.
    pub(super) record: Option<ReplayData>,
    /// Identity of its messages.
    digest: String,
    /// Estimated tokens.
    tokens: usize,
}

/// The server said that the conversation is too long.
pub(super) struct TooLong {
    pub(super) message: String,
    /// The window that it named.
    pub(super) window: Option<u64>,
}

impl Requested {
    /// The request itself.
    pub(crate) fn into_request(self) -> LlmRequest {
        self.request
    }
}

/// The window of now, with all that was said so far in it.
pub(super) fn shown<'w>(
    driver: &Driver,
    conversation: &Conversation,
    window: &'w mut Shown,
    offer: &ToolOffer,
) -> &'w Window {
    let frame = driver.context.frame();
    let view = View { profile: &driver.context.profile, protocol: driver.protocol, frame: &frame };
    window.grown(&view, &offer.tools, conversation.history())
}

/// Builds the next request.
pub(crate) fn request(
    driver: &Driver,
    conversation: &Conversation,
    window: &mut Shown,
    offer: &ToolOffer,
    trace: &Trace,
) -> Requested {
    let (profile, protocol) = (&driver.context.profile, driver.protocol);
    let window = shown(driver, conversation, window, offer);
    let tools = match protocol {
        Protocol::Text => Vec::new(),
        Protocol::Native => text::specs(&offer.tools, profile.language.unwrap_or_default()),
    };
    let request = LlmRequest::new(window.messages()).with_tools(tools);
    let mut request = request.with_parameters(driver.parameters.clone());
    // A server that holds the model to a schema would keep it from calling tools in text.
    if offer.tools.is_empty() || protocol == Protocol::Native {
        request.response_schema.clone_from(&profile.output_schema);
    }
    if protocol == Protocol::Text && request.response_schema.is_none() {
        request.constraint = constraint(driver, offer, trace);
    }
    request.stop_at = stop_at(protocol, &offer.tools);
    Requested { request, record: None, digest: window.digest(), tokens: window.tokens() }
}

/// Constraint on the reply, where the model asks for a grammar. Tools that the grammar does not support are reported
/// once.
fn constraint(driver: &Driver, offer: &ToolOffer, trace: &Trace) -> Option<Constraint> {
    let (grammar, is_first) = offer.constraint(driver.model.info());
    for tool in grammar.refused.iter().filter(|_| is_first) {
        trace.emit(EventBody::AgentWarning {
            kind: "not_in_grammar".into(),
            message: format!(
                "no call of {} can be written under its grammar: {}: {}",
                tool.tool, tool.path, tool.why
            ),
        });
    }
    grammar.constraint.clone()
}

/// The reply of the log, or a new one.
pub(super) async fn answer(
    driver: &Driver,
    conversation: &Conversation,
    offer: &ToolOffer,
    trace: &Trace,
    requested: Requested,
) -> Result<Input, TooLong> {
    let Driver { context, deliberator, .. } = driver;
    let prefix = context.call_prefix();
    let ids = CallIds { first: conversation.calls() + 1, prefix: &prefix };
    let beginning = started(deliberator.name(), &requested.request, requested.digest);
    let asked = requested.tokens as u64;
    // The machine takes the tokens of replies; those of a request without one are counted here.
    let count_broken = |written: u64| {
        if driver.is_replaced {
            return Usage::new(asked, written).as_estimate();
        }
        let usage = estimated(asked, written, driver.model.info());
        driver.count(usage);
        context.meter.add(usage);
        usage
    };
    let account = Account::default();
    let turn_number = conversation.turn();
    let too_long = context.log.too_long(turn_number);
    let known = if too_long.is_none() { context.log.reply(turn_number) } else { None };
    let known_cost = known.as_ref().map(|(_, cost)| *cost);
    let turn =
        Deliberation { context, conversation, offer, trace, request: requested.request, account: &account };
    let reply = async {
        if let Some((response, _)) = known {
            return Ok(replayed(response));
        }
        if let Some(PastTooLong { window }) = too_long {
            return Err(LlmError::ContextTooLong { message: String::new(), window }.into());
        }
        context.log.resume();
        context.log.durable().await?;
        deliberator.deliberate(turn).await
    };
    let room = AskContext {
        clock: &*context.clock,
        cancel: &context.cancel,
        winds_down: deliberator.winds_down(),
        emits_pieces: true,
        count: &count_broken,
        cuts: (!driver.is_replaced && is_cut_safe(driver.model.info(), driver.protocol, &context.budget))
            .then_some(CutCost { asked, model: driver.model.info() }),
        reader: None,
    };
    match requested.record {
        Some(record) => trace.emit_kept(beginning, || record),
        None => trace.emit(beginning),
    }
    let question = Question { tools: &offer.set, ids };
    let answer = match ask(room, reply, &question, trace).await {
        Ok(answer) => answer,
        Err(NoAnswer::Fault(DeliberationFault::Llm(error @ LlmError::ContextTooLong { .. }), shown))
            if shown.is_empty() =>
        {
            let window = if let LlmError::ContextTooLong { window, .. } = error { window } else { None };
            return Err(TooLong { message: driver.model.info().describe(&error), window });
        }
        Err(none) => return Ok(Input::Unanswered(no_reply(driver, none))),
    };
    count(driver, answer.response.usage, known_cost, &account);
    if driver.is_replaced {
        let cost = known_cost.unwrap_or_else(|| account.counted(BudgetKey::CostMicros));
        trace.emit_kept(finished(&answer), || record_of_cost(cost));
    } else {
        trace.emit(finished(&answer));
    }
    let Answer { response, parsed, .. } = answer;
    let reading = Reading {
        tools: &offer.tools,
        set: &offer.set,
        ids,
        suspects: conversation.suspects(),
        protocol: driver.protocol,
    };
    let reply = Box::new(read_reply(&response, &parsed, &reading));
    Ok(Input::Replied { reply, usage: response.usage })
}

fn no_reply(driver: &Driver, none: NoAnswer) -> NoReply {
    match none {
        NoAnswer::Cancelled => NoReply::Cancelled,
        NoAnswer::Fault(DeliberationFault::Waiting(asks), _) => NoReply::Waiting(asks),
        NoAnswer::Fault(DeliberationFault::Llm(error), shown) => {
            let message = driver.model.info().describe(&error);
            NoReply::Failed { code: error.code().to_owned(), message, shown }
        }
        NoAnswer::Fault(fault, shown) => {
            NoReply::Failed { code: fault.code().to_owned(), message: fault.to_string(), shown }
        }
    }
}

/// Counts a reply in the budget. Usage that was counted while it was made is not counted again.
fn count(driver: &Driver, usage: Usage, known_cost: Option<u64>, account: &Account) {
    let budget = &driver.context.budget;
    if let Some(cost) = known_cost {
        budget.add(BudgetKey::CostMicros, cost);
    }
    if driver.is_replaced {
        budget.add(BudgetKey::Tokens, usage.total.saturating_sub(account.counted(BudgetKey::Tokens)));
    } else {
        driver.count(usage);
    }
}

impl Driver {
    /// Counts tokens of the model in the budget.
    pub(super) fn count(&self, usage: Usage) {
        let budget = &self.context.budget;
        budget.add(BudgetKey::Tokens, usage.total);
        budget.add(BudgetKey::CostMicros, self.model.info().cost_micros(usage));
    }
}

/// The parameters of a profile as the provider's.
pub(crate) fn parameters(profile: &AgentProfile) -> ModelParameters {
    let own = profile.llm.as_ref().map(|llm| llm.parameters.clone()).unwrap_or_default();
    let known = own.into_iter().filter(|(name, _)| name != "context_window");
    serde_json::from_value(Value::Object(known.collect())).unwrap_or_default()
}
