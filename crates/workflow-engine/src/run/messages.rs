//! Handling of the messages of running nodes, in the order of the run.

use std::sync::Arc;
use std::time::Duration;

use agent_types::{AskSummary, EventBody, EventLocation, NodeErrorKind};
use serde_json::Value;
use tokio::sync::oneshot;

use super::asks::{OpenAsk, record_of};
use super::graph_state::frame::{Key, NodeState};
use super::lifecycle::cancel_by_id;
use super::node_end::{end_containers, see_chunks};
use super::options::OnWaiting;
use super::resume::restart::{decide_effect, wake_if_answered};
use super::state::RunState;
use super::workers::mailbox::{Message, Question};
use super::zones::passes::advance_zone;
use crate::context::millis;

/// Handles everything that was posted so far.
pub(super) fn read_messages(run: &mut RunState<'_>) {
    for message in run.shared.inbox.take() {
        read_message(run, message);
    }
}

fn read_message(run: &mut RunState<'_>, message: Message) {
    match message {
        Message::Event(draft) => run.events.emit(draft.place, draft.body),
        Message::Inner(key, draft) => {
            if run.graph.is_running(key) {
                run.events.emit_inner(key, draft);
            }
        }
        Message::Flush(written) => {
            run.events.flush();
            // Without a receiver no node waits any more.
            let _ = written.send(());
        }
        Message::Usage(key, usage) => {
            run.tally.count(usage);
            if run.events.persists() {
                run.tally.keep(key, usage);
            }
        }
        Message::Chunks(open) => see_chunks(run, &open),
        // Readers that end with the run make room too, for a pass that must not begin.
        Message::StreamReady(key) if !run.is_over() => {
            let end = advance_zone(run, key);
            end_containers(run, end);
        }
        Message::StreamReady(_) => {}
        Message::Retrying { key, place, kind, message, delay, noted } => {
            if run.graph.is_running(key) {
                retrying(run, key, place, kind, message, delay);
                // Without a receiver the node has been dropped already.
                let _ = noted.send(());
            }
        }
        Message::Pull { key, slot, reply } => {
            if run.graph.pull(key, &slot, reply) {
                run.workers.pause(key);
            }
        }
        Message::Ask { key, place, questions } => ask(run, key, &place, questions),
        Message::Answer { ask, value, known } => {
            let found = answer(run, &ask, value);
            let _ = known.send(found);
        }
        Message::EndWhenWaiting => run.options.on_waiting = OnWaiting::End,
        Message::CancelNode { key, id, reply } => {
            let cancelled = cancel_by_id(run, key, &id);
            let _ = reply.send(cancelled);
        }
        Message::Freed(claim) => run.workers.permits().leave(claim),
    }
}

fn retrying(
    run: &mut RunState<'_>,
    key: Key,
    place: EventLocation,
    kind: NodeErrorKind,
    message: String,
    delay: Duration,
) {
    let streams = run.workers.note_attempt(key, place.attempt.unwrap_or(1) + 1);
    let streams = streams.as_deref().unwrap_or_default();
    for open in streams {
        see_chunks(run, open);
    }
    if let Some(path) = &place.path {
        run.events.close_inner(key, path);
        run.asks.begin_attempt(path);
    }
    run.events.emit(place, EventBody::NodeRetrying { kind, message, delay_ms: millis(delay) });
    for open in streams {
        open.stream.retract();
    }
}

fn ask(
    run: &mut RunState<'_>,
    key: Key,
    place: &EventLocation,
    questions: Vec<(Question, oneshot::Sender<Value>)>,
) {
    let Some(path) = place.path.clone().filter(|_| run.graph.is_running(key)) else { return };
    let several = questions.len() > 1;
    let mut is_open = false;
    for (question, reply) in questions {
        let ask = run.asks.identify(&path, &question, several);
        if let Some(value) = run.asks.take_answer(&ask) {
            // Without a receiver the node has been dropped already.
            let _ = reply.send(value);
            continue;
        }
        is_open = true;
        if let Some((_, known)) = run.asks.find(&ask) {
            known.reply = Some(reply);
            continue;
        }
        let summary = AskSummary {
            ask: Arc::clone(&ask),
            kind: question.kind,
            tool: question.tool,
            arguments: question.arguments,
            path: Some(Arc::clone(&path)),
            prompt: Some(question.prompt.clone()),
            definition: question.definition,
        };
        let body = EventBody::NodeWaiting { ask, prompt: Some(question.prompt), unknown_effect: None };
        run.events.emit_with(place.clone(), body, record_of(&summary, question.name));
        let (span, attempt) = (place.span, place.attempt.unwrap_or(1));
        run.asks.push(OpenAsk { key, summary, reply: Some(reply), unknown_effect: false, span, attempt });
    }
    if is_open {
        run.workers.pause(key);
    }
}

fn answer(run: &mut RunState<'_>, ask: &str, value: Value) -> bool {
    let Some((at, open)) = run.asks.find(ask).filter(|(_, open)| open.summary.kind.takes(&value)) else {
        return false;
    };
    let (reply, unknown_effect) = (open.reply.take(), open.unknown_effect);
    let (key, span, attempt) = (open.key, open.span, open.attempt);
    run.events.flush();
    run.events.keep_answer(ask, &value);
    if run.asks.set_waiting(false) && !run.options.nested {
        let cause = Some("answer".to_owned());
        run.events.emit(EventLocation::default(), EventBody::RunResumed { cause });
    }
    if unknown_effect {
        return decide_effect(run, at, &value);
    }
    let Some(reply) = reply else {
        run.asks.keep_answer(ask, value);
        if run.workers.is_active(key) || run.graph.state(key) == NodeState::Queued {
            // It is about to ask again, and finds the answer.
            run.asks.remove(at);
        } else {
            wake_if_answered(run, key, span, attempt);
        }
        return true;
    };
    run.asks.remove(at);
    if !run.asks.has_asked(key) {
        run.workers.resume(key);
    }
    reply.send(value).is_ok()
}
