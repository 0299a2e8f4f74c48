//! Tables and laws of the journal.
#![expect(clippy::unwrap_used, reason = "a test may stop at the first surprise")]

mod checkpoint;
mod inner;
mod laws;
mod logs;
mod spans;
mod table;

use agent_types::{
    CallId, EventBody, EventLocation, RunId, StoredEvent, Timestamp, TraceEvent, UnsequencedEvent,
};

/// Events as a store gives them, numbered from 1.
fn stored(events: &[UnsequencedEvent]) -> Vec<StoredEvent> {
    let numbered = (1..).zip(events.iter().cloned()).map(|(seq, event)| {
        let UnsequencedEvent { place, body, record } = event;
        let event = TraceEvent::new(RunId::new("r"), seq, Timestamp::default(), place, body);
        StoredEvent { event, record: record.map(|record| *record) }
    });
    numbered.collect()
}

fn at_node(path: &str, iteration: Option<u64>) -> EventLocation {
    EventLocation { path: Some(path.into()), iteration, ..EventLocation::default() }
}

fn in_turn(turn: u32) -> EventLocation {
    EventLocation { turn: Some(turn), ..EventLocation::default() }
}

fn in_call(call: &str) -> EventLocation {
    EventLocation { call: Some(CallId::new(call)), ..EventLocation::default() }
}

fn started() -> EventBody {
    EventBody::NodeStarted { node_type: None }
}
