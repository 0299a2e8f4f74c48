//! Open spans: what was started and has not ended, so that each start gets an end.

use std::mem::{Discriminant, discriminant};
use std::sync::Arc;

use agent_types::{
    EventBody, EventLocation, LoopEnd, ObservationCode, PassDecision, ToolStatus, UnsequencedEvent, Usage,
};

/// Spans that the events of a node have opened and not closed.
#[derive(Debug, Default)]
pub struct OpenSpans {
    /// Ends of the open spans, in case they are closed from outside.
    ends: Vec<UnsequencedEvent>,
    /// Spans that were closed from outside: what they emit later is dropped.
    given_up: Vec<u64>,
}

impl OpenSpans {
    /// Notes an event; `false` if its span was closed from outside.
    pub fn note(&mut self, event: &UnsequencedEvent) -> bool {
        let UnsequencedEvent { place, body, .. } = event;
        if self.given_up.contains(&place.span) {
            return false;
        }
        if let Some(end) = end_of(body) {
            self.ends.push(UnsequencedEvent::new(place.clone(), end));
            return true;
        }
        if body.info().closes().is_none() {
            return true;
        }
        if let EventBody::LoopIterFinished { .. } = body {
            self.count_pass(place);
        }
        let is_end = |end: &UnsequencedEvent| end.place.span == place.span && kind(&end.body) == kind(body);
        if let Some(at) = self.ends.iter().rposition(is_end) {
            self.ends.remove(at);
        }
        true
    }

    fn count_pass(&mut self, pass: &EventLocation) {
        for zone in self.ends.iter_mut().filter(|end| Some(end.place.span) == pass.parent) {
            if let EventBody::LoopExited { passes, .. } = &mut zone.body {
                *passes += 1;
            }
        }
    }

    /// Closes all open spans and returns their ends, the innermost first.
    pub fn close(&mut self, cause: &Arc<str>) -> Vec<UnsequencedEvent> {
        let mut ends = std::mem::take(&mut self.ends);
        self.given_up.extend(ends.iter().map(|end| end.place.span));
        ends.reverse();
        for end in &mut ends {
            if let EventBody::NodeCancelled { cause: own } = &mut end.body {
                *own = Arc::clone(cause);
            }
        }
        ends
    }
}

/// Returns the end of the span that an event starts, in case it is closed from outside.
fn end_of(body: &EventBody) -> Option<EventBody> {
    Some(match body {
        EventBody::NodeStarted { .. } => EventBody::NodeCancelled { cause: Arc::default() },
        EventBody::LoopEntered { .. } => EventBody::LoopExited { passes: 0, why: LoopEnd::Cancelled },
        EventBody::LoopIterStarted { .. } => EventBody::LoopIterFinished {
            changed: Vec::new(),
            values: Vec::new(),
            decision: Some(PassDecision::Cancelled),
        },
        EventBody::AgentTurnStarted {} => EventBody::AgentTurnFinished {},
        EventBody::AgentLlmStarted { .. } => EventBody::AgentLlmFinished {
            text: String::new(),
            reasoning: None,
            tool_calls: None,
            finish: "cancelled".to_owned(),
            usage: Usage::default(),
            dropped: None,
        },
        EventBody::AgentToolStarted { tool } => EventBody::AgentToolFinished {
            tool: tool.clone(),
            status: ToolStatus::Cancelled,
            summary: ObservationCode::Cancelled.text(&[("name", tool.as_str())]),
            blob: None,
            ms: 0,
            error: None,
        },
        _ => return None,
    })
}

/// Type of an event; all ends of a node count as one.
fn kind(body: &EventBody) -> Discriminant<EventBody> {
    match body {
        EventBody::NodeFinished { .. }
        | EventBody::NodeFailed { .. }
        | EventBody::NodeSkipped { .. }
        | EventBody::NodeCached { .. } => discriminant(&EventBody::NodeCancelled { cause: Arc::default() }),
        other => discriminant(other),
    }
}
