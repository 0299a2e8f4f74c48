//! Nodes that were running when a run stopped, and how each resumes.

use std::sync::Arc;

use agent_types::{AskKind, AskSummary, EventBody};
use run_journal::ask_once_more;
use serde_json::Value;

use crate::outputs::Outputs;
use crate::plan::{Kind, PlanInner};
use crate::run::graph_state::frame::{Key, NodeState};
use crate::run::graph_state::propagate::Note;
use crate::run::scheduler::{OpenAsk, Scheduler};
use crate::run::workers::start::policy;

/// A node that resumes where it was.
#[derive(Debug, Clone, Copy)]
pub(in crate::run) struct Restart {
    /// The attempt that runs next.
    pub(in crate::run) attempt: u32,
    /// Attempts among those before that no limit of attempts counts.
    pub(in crate::run) interrupted: u32,
    /// It has had its start, with this span: it only asked and is answered now, or its code was not called.
    pub(in crate::run) span: Option<u64>,
    /// Its code has been called: what is decided before that stands.
    pub(in crate::run) called: bool,
}

/// A node that was running when the log ended.
#[derive(Debug, Clone, Copy)]
pub(in crate::run) struct AtWork {
    pub(in crate::run) span: u64,
    pub(in crate::run) attempt: u32,
    pub(in crate::run) interrupted: u32,
    /// The log says already that it was interrupted.
    pub(in crate::run) closed: bool,
    /// Its code was called.
    pub(in crate::run) called: bool,
    /// It has asked something itself.
    pub(in crate::run) asked: bool,
}

impl Scheduler {
    pub(in crate::run) fn has_asked(&self, key: Key) -> bool {
        self.asks.iter().any(|ask| ask.key == key)
    }

    /// Retries a node that was running, unless its effect may have happened.
    pub(in crate::run) fn resume_node(&mut self, plan: &PlanInner, key: Key, node: AtWork) {
        if self.has_asked(key) {
            return self.wake_if_answered(key, node.span, node.attempt);
        }
        if !node.called {
            let restart = Restart { attempt: 1, interrupted: 0, span: Some(node.span), called: false };
            return self.restart(key, restart);
        }
        let Some(frame) = self.frame(key) else { return };
        let spec = &plan.scopes[frame.scope as usize].nodes[key.node as usize];
        let effect = policy(plan, spec).is_some_and(|policy| policy.effect);
        let repeatable = match spec.kind {
            Kind::Run(node_type) => plan.types[node_type as usize].node.definition().idempotent,
            Kind::Muted | Kind::Bypass(_) | Kind::Call(_) | Kind::Zone(_) => true,
        };
        if effect && !repeatable {
            return self.ask_about(plan, key, node);
        }
        self.retract_streams(plan, key);
        self.restart(
            key,
            Restart {
                attempt: node.attempt + 1,
                interrupted: node.interrupted + 1,
                span: None,
                called: true,
            },
        );
    }

    pub(in crate::run) fn restart(&mut self, key: Key, restart: Restart) {
        if let Some(frame) = self.frame_mut(key) {
            frame.state[key.node as usize] = NodeState::Queued;
            self.restarts.insert(key, restart);
            self.asked.remove(&key);
            self.ready.push_front(key);
        }
    }

    /// The answers of a node that only asked may have arrived while it was suspended.
    pub(in crate::run) fn wake_if_answered(&mut self, key: Key, span: u64, attempt: u32) {
        let answered = |ask: &OpenAsk| ask.key == key && self.answers.contains_key(&*ask.summary.ask);
        if !self.asks.iter().any(answered) {
            return;
        }
        let answers = &self.answers;
        self.asks.retain(|ask| ask.key != key || !answers.contains_key(&*ask.summary.ask));
        let interrupted = attempt.saturating_sub(1);
        self.restart(key, Restart { attempt, interrupted, span: Some(span), called: true });
    }

    /// Asks for the outcome of an effect that may have happened.
    fn ask_about(&mut self, plan: &PlanInner, key: Key, node: AtWork) {
        let place = self.place(plan, key, node.span, Some(node.attempt));
        let Some(path) = place.path.clone() else { return };
        let ask = unused_ask(&path, node);
        let prompt = format!("`{path}` was running when the process ended: `retry`, `skip` or `done`?");
        let summary = AskSummary {
            ask: Arc::clone(&ask),
            kind: AskKind::Outcome,
            tool: None,
            arguments: None,
            path: Some(Arc::clone(&path)),
            prompt: Some(prompt.clone()),
        };
        let body = EventBody::NodeWaiting { ask, prompt: Some(prompt), unknown_effect: Some(true) };
        self.emit(place, body);
        let ask = OpenAsk {
            key,
            summary,
            reply: None,
            unknown_effect: true,
            span: node.span,
            attempt: node.attempt,
        };
        self.asks.push(ask);
        if let Some(value) = self.asks.last().and_then(|ask| self.answers.remove(&*ask.summary.ask)) {
            let at = self.asks.len() - 1;
            self.decide_effect(plan, at, &value);
        }
    }

    /// Applies the user's answer about an unknown outcome; `false` if it is not one of the three words.
    pub(in crate::run) fn decide_effect(&mut self, plan: &PlanInner, at: usize, value: &Value) -> bool {
        if !AskKind::Outcome.takes(value) {
            return false;
        }
        let outcome = value.get("outcome").and_then(Value::as_str).or(value.as_str());
        let ask = self.asks.remove(at);
        let (key, attempt) = (ask.key, ask.attempt);
        match outcome {
            Some("retry") => self.restart(
                key,
                Restart { attempt: attempt + 1, interrupted: attempt, span: None, called: true },
            ),
            Some("skip") => {
                let cause = self.path(plan, key);
                self.skip(plan, key, cause);
            }
            _ => {
                let given = value.get("value").cloned().unwrap_or_default();
                let note = Note { attempt: Some(attempt), ..Note::handled("answer") };
                self.finished(plan, key, ask.span, &Outputs::value(given), &note);
            }
        }
        true
    }
}

/// The id of the question what became of a node: its path, unless that question was put before.
fn unused_ask(path: &Arc<str>, node: AtWork) -> Arc<str> {
    let is_used = node.asked || node.interrupted > 0;
    if is_used { ask_once_more(path, node.attempt).into() } else { Arc::clone(path) }
}
