//! Work inside a node, such as tool calls and what runs in them: a node emits its events, and the run ensures that
//! what was started there has an end.

use std::sync::Arc;

use agent_types::{
    CallId, EventBody, EventLocation, LoopEnd, StoredEvent, ToolStatus, UnsequencedEvent, Usage,
};

use crate::plan::PlanInner;
use crate::run::graph_state::frame::{Key, NodeState};
use crate::run::scheduler::Scheduler;

/// Events that a running node emitted through its sink.
#[derive(Debug, Default)]
pub(in crate::run) struct Inner {
    open: Vec<Open>,
    /// Spans of what was given up with an attempt: what they say later is dropped.
    given_up: Vec<u64>,
    /// It persists replay data with its events, so that a resumed run needs all of them.
    keeps: bool,
}

/// Something that was started and has not ended.
#[derive(Debug)]
struct Open {
    kind: Started,
    place: EventLocation,
    end: EventBody,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Started {
    Node,
    Zone,
    Pass,
    Turn,
    Llm,
    Call,
}

/// Returns the work that an event starts, with its end event in case the work is abandoned.
fn start(body: &EventBody, cause: &Arc<str>) -> Option<(Started, EventBody)> {
    Some(match body {
        EventBody::NodeStarted { .. } => {
            (Started::Node, EventBody::NodeCancelled { cause: Arc::clone(cause) })
        }
        EventBody::LoopEntered { .. } => {
            (Started::Zone, EventBody::LoopExited { passes: 0, why: LoopEnd::Cancelled })
        }
        EventBody::LoopIterStarted {} => (Started::Pass, EventBody::LoopIterFinished { changed: Vec::new() }),
        EventBody::AgentTurnStarted {} => (Started::Turn, EventBody::AgentTurnFinished {}),
        EventBody::AgentLlmStarted { .. } => {
            let finished = EventBody::AgentLlmFinished {
                text: String::new(),
                reasoning: None,
                tool_calls: None,
                finish: "cancelled".to_owned(),
                usage: Usage::default(),
            };
            (Started::Llm, finished)
        }
        EventBody::AgentToolStarted { tool } => {
            let finished = EventBody::AgentToolFinished {
                tool: tool.clone(),
                status: ToolStatus::Cancelled,
                summary: "cancelled".to_owned(),
                blob: None,
                ms: 0,
            };
            (Started::Call, finished)
        }
        _ => return None,
    })
}

/// Returns the work that an event ends.
fn end(body: &EventBody) -> Option<Started> {
    Some(match body {
        EventBody::NodeFinished { .. }
        | EventBody::NodeFailed { .. }
        | EventBody::NodeSkipped { .. }
        | EventBody::NodeCached { .. }
        | EventBody::NodeCancelled { .. } => Started::Node,
        EventBody::LoopExited { .. } => Started::Zone,
        EventBody::LoopIterFinished { .. } => Started::Pass,
        EventBody::AgentTurnFinished {} => Started::Turn,
        EventBody::AgentLlmFinished { .. } => Started::Llm,
        EventBody::AgentToolFinished { .. } => Started::Call,
        _ => return None,
    })
}

impl Inner {
    /// Takes note of a fact; false if it comes from something that was given up.
    fn note(&mut self, draft: &UnsequencedEvent) -> bool {
        if self.given_up.contains(&draft.place.span) {
            return false;
        }
        self.keeps |= draft.record.is_some();
        let cause = || Arc::from("cancelled");
        if let Some((kind, end)) = start(&draft.body, &cause()) {
            self.open.push(Open { kind, place: draft.place.clone(), end });
        } else if let Some(kind) = end(&draft.body) {
            if kind == Started::Pass {
                self.count_pass(&draft.place);
            }
            let ended = |open: &Open| open.kind == kind && open.place.span == draft.place.span;
            if let Some(at) = self.open.iter().rposition(ended) {
                self.open.remove(at);
            }
        }
        true
    }

    fn count_pass(&mut self, pass: &EventLocation) {
        let zones = self.open.iter_mut().filter(|open| Some(open.place.span) == pass.parent);
        for zone in zones {
            if let EventBody::LoopExited { passes, .. } = &mut zone.end {
                *passes += 1;
            }
        }
    }
}

/// Returns `true` if an event is about work inside a node, which replay of the run ignores.
pub(in crate::run) fn is_inner(kept: &StoredEvent) -> bool {
    let body = &kept.event.body;
    kept.event.place.call.is_some()
        || matches!(
            body,
            EventBody::AgentLlmStarted { .. }
                | EventBody::AgentLlmFinished { .. }
                | EventBody::AgentObservation { .. }
                | EventBody::AgentParsed { .. }
                | EventBody::AgentParseFailed { .. }
                | EventBody::AgentMessage { .. }
        )
}

impl Scheduler {
    /// Tells a fact of work inside a node, unless the node has ended.
    pub(in crate::run) fn emit_inner(&mut self, key: Key, draft: UnsequencedEvent) {
        if !self.is_running(key) {
            return;
        }
        if self.inner.entry(key).or_default().note(&draft) {
            self.emit_with(draft.place, draft.body, draft.record);
        }
    }

    /// Ends what was started inside an attempt of a node that is over.
    pub(in crate::run) fn close_inner(&mut self, key: Key, cause: &Arc<str>) {
        if self.inner.is_empty() {
            return;
        }
        let Some(inner) = self.inner.get_mut(&key) else { return };
        let open = std::mem::take(&mut inner.open);
        inner.given_up.extend(open.iter().map(|open| open.place.span));
        for Open { place, mut end, .. } in open.into_iter().rev() {
            if let EventBody::NodeCancelled { cause: own } = &mut end {
                *own = Arc::clone(cause);
            }
            self.emit(place, end);
        }
    }

    /// The same for a node that has ended, of which nothing more is heard.
    pub(in crate::run) fn forget_inner(&mut self, key: Key, cause: &Arc<str>) {
        self.close_inner(key, cause);
        if !self.inner.is_empty() {
            self.inner.remove(&key);
        }
    }

    /// Returns `true` if a node has open work that can resume only from its events.
    pub(in crate::run) fn needs_its_log(&self) -> bool {
        let kept = |(key, inner): (&Key, &Inner)| inner.keeps && self.is_running(*key);
        self.inner.iter().any(kept) || self.pasts.keys().any(|key| self.is_running(*key))
    }

    /// Returns the earlier events of a node that resumes.
    pub(in crate::run) fn past_of(&mut self, key: Key) -> Option<Arc<[StoredEvent]>> {
        if self.pasts.is_empty() {
            return None;
        }
        self.pasts.remove(&key).map(Arc::from)
    }

    /// Keeps the events from inside a node, for when the node resumes.
    pub(in crate::run) fn redo_inner(&mut self, plan: &PlanInner, kept: &StoredEvent) {
        let Some(key) = self.teller(plan, kept) else { return };
        if self.frame(key).is_some_and(|frame| frame.state[key.node as usize] == NodeState::Running)
            && let Some(replay) = &mut self.replay
        {
            replay.inner.entry(key).or_default().push(kept.clone());
        }
    }

    /// Returns the node that an event belongs to: the one that made the call in which it happened, else the one of its path.
    fn teller(&mut self, plan: &PlanInner, kept: &StoredEvent) -> Option<Key> {
        let place = &kept.event.place;
        let makes_call = matches!(
            kept.event.body,
            EventBody::AgentToolChosen { .. } | EventBody::AgentToolApproval { .. }
        );
        let written =
            matches!(kept.event.body, EventBody::AgentCallReady { .. } | EventBody::AgentCallDelta { .. });
        if let Some(call) = &place.call {
            let callers = &self.replay.as_ref()?.callers;
            let mut around =
                call.as_str().rmatch_indices('.').map(|(at, _)| CallId::new(&call.as_str()[..at]));
            let known = around.find_map(|call| callers.get(&call)).copied();
            let own = || callers.get(call).copied().filter(|_| !written);
            if let Some(key) = known.or_else(own) {
                return Some(key);
            }
        }
        let key = self.find(plan, place.path.as_deref()?)?;
        if makes_call && let (Some(call), Some(replay)) = (&place.call, &mut self.replay) {
            replay.callers.insert(call.clone(), key);
        }
        Some(key)
    }
}
