//! Open spans: what was started and has not ended, so that each start gets an end.

use std::sync::Arc;

use agent_types::{EventBody, EventLocation, LoopEnd, ToolStatus, UnsequencedEvent, Usage};

/// Spans that the events of a node have opened and not closed.
#[derive(Debug, Default)]
pub struct OpenSpans {
    open: Vec<Open>,
    /// Spans that were closed from outside: what they emit later is dropped.
    given_up: Vec<u64>,
}

/// A span that was started and has not ended.
#[derive(Debug)]
struct Open {
    kind: Kind,
    place: EventLocation,
    end: EventBody,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    Node,
    Zone,
    Pass,
    Turn,
    Llm,
    Call,
}

impl OpenSpans {
    /// Notes an event; `false` if its span was closed from outside.
    pub fn note(&mut self, event: &UnsequencedEvent) -> bool {
        let UnsequencedEvent { place, body, .. } = event;
        if self.given_up.contains(&place.span) {
            return false;
        }
        if let Some((kind, end)) = start(body) {
            self.open.push(Open { kind, place: place.clone(), end });
        } else if let Some(kind) = end(body) {
            if kind == Kind::Pass {
                self.count_pass(place);
            }
            let ended = |open: &Open| open.kind == kind && open.place.span == place.span;
            if let Some(at) = self.open.iter().rposition(ended) {
                self.open.remove(at);
            }
        }
        true
    }

    fn count_pass(&mut self, pass: &EventLocation) {
        for zone in self.open.iter_mut().filter(|open| Some(open.place.span) == pass.parent) {
            if let EventBody::LoopExited { passes, .. } = &mut zone.end {
                *passes += 1;
            }
        }
    }

    /// Closes all open spans and returns their ends, the innermost first.
    pub fn close(&mut self, cause: &Arc<str>) -> Vec<UnsequencedEvent> {
        let open = std::mem::take(&mut self.open);
        self.given_up.extend(open.iter().map(|open| open.place.span));
        let ends = open.into_iter().rev().map(|Open { place, mut end, .. }| {
            if let EventBody::NodeCancelled { cause: own } = &mut end {
                *own = Arc::clone(cause);
            }
            UnsequencedEvent::new(place, end)
        });
        ends.collect()
    }
}

/// Returns the kind of span that an event starts, with its end in case it is closed from outside.
fn start(body: &EventBody) -> Option<(Kind, EventBody)> {
    Some(match body {
        EventBody::NodeStarted { .. } => (Kind::Node, EventBody::NodeCancelled { cause: Arc::default() }),
        EventBody::LoopEntered { .. } => {
            (Kind::Zone, EventBody::LoopExited { passes: 0, why: LoopEnd::Cancelled })
        }
        EventBody::LoopIterStarted {} => (Kind::Pass, EventBody::LoopIterFinished { changed: Vec::new() }),
        EventBody::AgentTurnStarted {} => (Kind::Turn, EventBody::AgentTurnFinished {}),
        EventBody::AgentLlmStarted { .. } => {
            let finished = EventBody::AgentLlmFinished {
                text: String::new(),
                reasoning: None,
                tool_calls: None,
                finish: "cancelled".to_owned(),
                usage: Usage::default(),
            };
            (Kind::Llm, finished)
        }
        EventBody::AgentToolStarted { tool } => {
            let finished = EventBody::AgentToolFinished {
                tool: tool.clone(),
                status: ToolStatus::Cancelled,
                summary: "cancelled".to_owned(),
                blob: None,
                ms: 0,
            };
            (Kind::Call, finished)
        }
        _ => return None,
    })
}

/// Returns the kind of span that an event ends.
fn end(body: &EventBody) -> Option<Kind> {
    Some(match body {
        EventBody::NodeFinished { .. }
        | EventBody::NodeFailed { .. }
        | EventBody::NodeSkipped { .. }
        | EventBody::NodeCached { .. }
        | EventBody::NodeCancelled { .. } => Kind::Node,
        EventBody::LoopExited { .. } => Kind::Zone,
        EventBody::LoopIterFinished { .. } => Kind::Pass,
        EventBody::AgentTurnFinished {} => Kind::Turn,
        EventBody::AgentLlmFinished { .. } => Kind::Llm,
        EventBody::AgentToolFinished { .. } => Kind::Call,
        _ => return None,
    })
}
