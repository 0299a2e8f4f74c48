//! Work inside a node, such as tool calls and what runs in them: a node emits its events, and the run ensures that
//! what was started there has an end.

use std::sync::Arc;

use agent_types::{EventBody, StoredEvent, UnsequencedEvent};
use run_journal::{OpenSpans, calls_around};

use crate::plan::PlanInner;
use crate::run::graph_state::frame::{Key, NodeState};
use crate::run::scheduler::Scheduler;

/// Events that a running node emitted through its sink.
#[derive(Debug, Default)]
pub(in crate::run) struct Inner {
    spans: OpenSpans,
    /// It persists replay data with its events, so that a resumed run needs all of them.
    keeps: bool,
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
        let inner = self.inner.entry(key).or_default();
        if inner.spans.note(&draft) {
            inner.keeps |= draft.record.is_some();
            self.emit_with(draft.place, draft.body, draft.record);
        }
    }

    /// Ends what was started inside an attempt of a node that is over.
    pub(in crate::run) fn close_inner(&mut self, key: Key, cause: &Arc<str>) {
        if self.inner.is_empty() {
            return;
        }
        let Some(inner) = self.inner.get_mut(&key) else { return };
        for end in inner.spans.close(cause) {
            self.emit(end.place, end.body);
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
            let known = calls_around(call).find_map(|call| callers.get(&call)).copied();
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
