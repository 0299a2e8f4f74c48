//! Nodes that were running when a run stopped, and how each resumes.

use std::sync::Arc;

use agent_types::{AskKind, AskSummary, EventBody};
use run_journal::ask_once_more;
use serde_json::Value;

use super::replay_index::AtWork;
use crate::outputs::Outputs;
use crate::plan::data::Kind;
use crate::run::asks::OpenAsk;
use crate::run::graph_state::frame::Key;
use crate::run::lifecycle::end_readers;
use crate::run::node_end::{Note, finished, retract_streams, skip};
use crate::run::state::RunState;
use crate::run::workers::Restart;

/// Retries a node that was running, unless its effect may have happened.
pub(super) fn resume_node(run: &mut RunState<'_>, key: Key, work: AtWork) {
    if run.asks.has_asked(key) {
        return wake_if_answered(run, key, work.span, work.attempt);
    }
    if !work.called {
        let restart = Restart { attempt: 1, interrupted: 0, span: Some(work.span), called: false };
        return restart_node(run, key, restart);
    }
    let Some(node) = run.graph.node(key) else { return };
    let has_effect = run.plan.policy(node).is_some_and(|policy| policy.effect);
    let is_repeatable = match node.kind {
        Kind::Run(node_type) => run.plan.types[node_type as usize].idempotent,
        Kind::Muted | Kind::Bypass(_) | Kind::Call(_) | Kind::Zone(_) => true,
    };
    if has_effect && !is_repeatable {
        return ask_about(run, key, work);
    }
    retract_streams(run, key);
    let (attempt, interrupted) = (work.attempt + 1, work.interrupted + 1);
    restart_node(run, key, Restart { attempt, interrupted, span: None, called: true });
}

fn restart_node(run: &mut RunState<'_>, key: Key, restart: Restart) {
    if run.graph.requeue_first(key) {
        run.workers.restart(key, restart);
        run.asks.repeat_attempt(&run.graph.frames().path(key));
    }
}

/// The answers of a node that only asked may have arrived while it was suspended.
pub(in crate::run) fn wake_if_answered(run: &mut RunState<'_>, key: Key, span: u64, attempt: u32) {
    if run.asks.close_answered(key) {
        let interrupted = attempt.saturating_sub(1);
        restart_node(run, key, Restart { attempt, interrupted, span: Some(span), called: true });
    }
}

/// Asks for the outcome of an effect that may have happened.
fn ask_about(run: &mut RunState<'_>, key: Key, work: AtWork) {
    let place = run.graph.frames().location(key, work.span, Some(work.attempt));
    let Some(path) = place.path.clone() else { return };
    let is_used = run.asks.has_put(&path) || work.interrupted > 0;
    let ask = if is_used { ask_once_more(&path, work.attempt).into() } else { Arc::clone(&path) };
    run.asks.note_outcome(&path, &ask);
    let prompt = format!("`{path}` was running when the process ended: `retry`, `skip` or `done`?");
    let summary = AskSummary {
        ask: Arc::clone(&ask),
        kind: AskKind::Outcome,
        tool: None,
        arguments: None,
        path: Some(path),
        prompt: Some(prompt.clone()),
        definition: agent_types::DefinitionDigests::new(),
    };
    let body =
        EventBody::NodeWaiting { ask: Arc::clone(&ask), prompt: Some(prompt), unknown_effect: Some(true) };
    run.events.emit(place, body);
    let at = run.asks.open().len();
    let (span, attempt) = (work.span, work.attempt);
    run.asks.push(OpenAsk { key, summary, reply: None, unknown_effect: true, span, attempt });
    if let Some(value) = run.asks.take_answer(&ask) {
        decide_effect(run, at, &value);
    }
}

/// Applies the user's answer about an unknown outcome; `false` if it is not one of the three words.
pub(in crate::run) fn decide_effect(run: &mut RunState<'_>, at: usize, value: &Value) -> bool {
    if !AskKind::Outcome.takes(value) {
        return false;
    }
    let outcome = value.get("outcome").and_then(Value::as_str).or(value.as_str());
    let OpenAsk { key, attempt, span, .. } = run.asks.remove(at);
    match outcome {
        Some("retry") => {
            let (attempt, interrupted) = (attempt + 1, attempt);
            restart_node(run, key, Restart { attempt, interrupted, span: None, called: true });
        }
        Some("skip") => {
            let cause = run.graph.frames().path(key);
            end_readers(run, key);
            skip(run, key, cause);
        }
        _ => {
            let given = value.get("value").cloned().unwrap_or_default();
            finished(run, key, span, &Outputs::value(given), Note::handled("answer", attempt));
        }
    }
    true
}
