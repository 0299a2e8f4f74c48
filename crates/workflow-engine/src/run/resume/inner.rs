//! Work inside a node, such as tool calls and what runs in them: a node emits its events, and the run ensures that
//! what was started there has an end.

use std::sync::Arc;

use agent_types::{EventBody, StoredEvent, UnsequencedEvent};
use run_journal::OpenSpans;

/// Events that a running node emitted through its sink.
#[derive(Debug, Default)]
pub(crate) struct Inner {
    spans: OpenSpans,
    /// It persists replay data with its events, so that a resumed run needs all of them.
    keeps: bool,
}

impl Inner {
    /// Notes an event; `false` if its span was given up with an attempt.
    pub(crate) fn note(&mut self, event: &UnsequencedEvent) -> bool {
        let counts = self.spans.note(event);
        self.keeps |= counts && event.record.is_some();
        counts
    }

    /// Gives up what is open; the events that end it, the innermost first.
    pub(crate) fn close(&mut self, cause: &Arc<str>) -> Vec<UnsequencedEvent> {
        self.spans.close(cause)
    }

    /// Returns `true` if a resumed run needs the events of this work.
    pub(crate) fn keeps(&self) -> bool {
        self.keeps
    }
}

/// Returns `true` if an event is about work inside a node, which replay of the run ignores.
pub(crate) fn is_inner(kept: &StoredEvent) -> bool {
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
