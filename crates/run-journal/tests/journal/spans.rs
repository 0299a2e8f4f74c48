//! Spans that were opened and are closed from outside.

use std::sync::Arc;

use agent_types::{EventBody, EventLocation, LoopEnd, ToolStatus, UnsequencedEvent};
use run_journal::OpenSpans;

use crate::started;

fn at(span: u64, parent: u64, body: EventBody) -> UnsequencedEvent {
    let place = EventLocation { span, parent: Some(parent), ..EventLocation::default() };
    UnsequencedEvent::new(place, body)
}

#[test]
fn each_start_gets_an_end_the_innermost_first() {
    let mut spans = OpenSpans::default();
    let tool = "t".parse().unwrap();
    let events = [
        at(1, 0, EventBody::LoopEntered { mode: "times".into(), state: None }),
        at(2, 1, EventBody::LoopIterStarted { item: None }),
        at(2, 1, EventBody::LoopIterFinished { changed: Vec::new(), values: Vec::new(), decision: None }),
        at(3, 1, EventBody::LoopIterStarted { item: None }),
        at(4, 3, started()),
        at(5, 3, started()),
        at(5, 3, EventBody::node_finished(None)),
        at(6, 4, EventBody::AgentToolStarted { tool }),
    ];
    assert!(events.iter().all(|event| spans.note(event)));
    let ends = spans.close(&Arc::from("deadline"));
    let numbers: Vec<u64> = ends.iter().map(|end| end.place.span).collect();
    assert_eq!(numbers, [6, 4, 3, 1]);
    assert!(matches!(ends[0].body, EventBody::AgentToolFinished { status: ToolStatus::Cancelled, .. }));
    assert_eq!(ends[1].body, EventBody::NodeCancelled { cause: "deadline".into() });
    assert_eq!(ends[3].body, EventBody::LoopExited { passes: 1, why: LoopEnd::Cancelled });
    assert!(!spans.note(&at(4, 3, EventBody::node_finished(None))), "it was given up");
    assert!(spans.note(&at(5, 3, EventBody::AgentThinking {})));
    assert!(spans.close(&Arc::from("deadline")).is_empty());
}
