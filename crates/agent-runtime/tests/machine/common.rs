//! Replies, results and effects in short.

use std::sync::Arc;

use agent_runtime::machine::{
    AgentMachine, At, CallFacts, CallResult, Conversation, Effect, Input, ReadyCall, Refusal, Reply, Rules,
};
use agent_runtime::{AgentInput, AgentProfile, CallRecord, Turn};
use agent_types::{ApprovalDefault, CallId, Observation, ObservationCode, ToolStatus, Usage};
use llm_provider::Finish;
use serde_json::{Value, json};

/// Facts about a tool that only reads.
pub(crate) const READS: CallFacts =
    CallFacts { approval: ApprovalDefault::Auto, is_read_only: true, is_repeatable: true };

/// Facts about a tool that changes something.
pub(crate) const CHANGES: CallFacts =
    CallFacts { approval: ApprovalDefault::Auto, is_read_only: false, is_repeatable: true };

/// Facts about a tool with an effect, which asks.
pub(crate) const ASKS: CallFacts =
    CallFacts { approval: ApprovalDefault::Ask, is_read_only: false, is_repeatable: false };

/// Rules of a profile.
pub(crate) fn rules(profile: Value) -> Rules {
    let profile: AgentProfile = serde_json::from_value(profile).unwrap();
    Rules { profile: Arc::new(profile), frame: "f".to_owned(), corrections: Some(2), ..Rules::default() }
}

/// A machine whose run has begun, before its first turn is granted.
pub(crate) fn begun(rules: Rules) -> AgentMachine {
    let mut machine = AgentMachine::new(rules, Conversation::default());
    machine.step(Input::Begin(AgentInput::from("Go.")));
    machine
}

/// A reply with calls of these facts, numbered from `first`.
pub(crate) fn reply(text: &str, first: usize, calls: &[CallFacts]) -> Input {
    let id = |index: usize| CallId::new(format!("c{}", first + index));
    let arguments = |index: usize| json!({"n": first + index}).as_object().unwrap().clone();
    let record = |index: usize| CallRecord {
        id: id(index),
        tool: "t".to_owned(),
        arguments: arguments(index),
        edited: None,
        native: None,
        attachments: Vec::new(),
        observation: None,
    };
    let ready = |(index, facts): (usize, &CallFacts)| ReadyCall {
        index,
        id: id(index),
        tool: "t".parse().unwrap(),
        arguments: Arc::new(arguments(index)),
        repairs: Vec::new(),
        is_echo: false,
        facts: *facts,
    };
    let turn =
        Turn { text: text.to_owned(), calls: (0..calls.len()).map(record).collect(), ..Turn::default() };
    let reply = Reply {
        turn,
        message: text.to_owned(),
        ready: calls.iter().enumerate().map(ready).collect(),
        refusal: None,
        finish: Finish::Stop,
        diagnostics: Vec::new(),
        unread: None,
    };
    Input::Replied { reply: Box::new(reply), usage: Usage::default() }
}

/// A reply whose block is refused.
pub(crate) fn faulty() -> Input {
    let Input::Replied { mut reply, usage } = reply("", 1, &[]) else { unreachable!() };
    reply.refusal = Some(Refusal { code: "unknown_tool".to_owned(), errors: Vec::new() });
    reply.turn.notes.push(Observation {
        call: None,
        tool: String::new(),
        code: ObservationCode::Note,
        text: "it is wrong".to_owned(),
    });
    Input::Replied { reply, usage }
}

/// A reply that looks like a call and holds none.
pub(crate) fn unread(text: &str) -> Input {
    let Input::Replied { mut reply, usage } = reply(text, 1, &[]) else { unreachable!() };
    reply.unread = Some(Observation {
        call: None,
        tool: "t".to_owned(),
        code: ObservationCode::UnreadCall,
        text: "it was not read".to_owned(),
    });
    Input::Replied { reply, usage }
}

/// The result of the call at a position of a turn whose first call has this number.
pub(crate) fn result(first: usize, index: usize, text: &str) -> CallResult {
    let observation = Observation {
        call: Some(CallId::new(format!("c{}", first + index))),
        tool: "t".to_owned(),
        code: ObservationCode::Ok,
        text: text.to_owned(),
    };
    CallResult::new(index, observation, ToolStatus::Ok)
}

/// Effects in short.
pub(crate) fn shown(effects: &[Effect]) -> Vec<String> {
    let one = |effect: &Effect| match effect {
        Effect::Emit(emission) => {
            let name = emission.event.name().trim_start_matches("agent.");
            match &emission.at {
                At::Run => format!("{name} of the run"),
                At::Turn => name.to_owned(),
                At::Call(call) => format!("{name} {call}"),
            }
        }
        Effect::Admit(text) => format!("admit {text:?}"),
        Effect::Grant => "grant".to_owned(),
        Effect::OpenTurn(turn) => format!("open turn {turn}"),
        Effect::Ask { compactions } => (if *compactions == 0 { "ask" } else { "ask again" }).to_owned(),
        Effect::Review(calls) => format!("review {}", calls.len()),
        Effect::Call(order) => format!("call {}", order.call.call.id),
        Effect::CancelCalls => "cancel calls".to_owned(),
        Effect::Judge(_) => "judge".to_owned(),
        Effect::CloseTurn { is_over: true } => "close turn".to_owned(),
        Effect::CloseTurn { is_over: false } => "leave turn".to_owned(),
        Effect::Wake => "wake".to_owned(),
        Effect::Finish(end) => format!("finish {}", end.exit),
    };
    effects.iter().map(one).collect()
}
