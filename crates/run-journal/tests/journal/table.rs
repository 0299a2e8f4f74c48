//! Identity of events, as a table.

use agent_types::{ApprovalState, EventBody, EventLocation, UnsequencedEvent};
use run_journal::{Journal, Recorded};

use crate::{at_node, in_call, in_turn, started, stored};

fn approval(state: ApprovalState, reason: &str) -> EventBody {
    EventBody::AgentToolApproval { tool: "pay".parse().unwrap(), state, reason: Some(reason.to_owned()) }
}

fn action(action: &str, status: &str, message: Option<&str>) -> EventBody {
    EventBody::SystemAction {
        action: action.to_owned(),
        status: status.to_owned(),
        message: message.map(str::to_owned),
    }
}

fn matched(flow: &str, why: &str) -> EventBody {
    EventBody::FlowMatched { flow: flow.to_owned(), why: why.to_owned() }
}

#[test]
fn identity_is_site_call_type_and_detail() {
    let root = EventLocation::default;
    let turn_around = |turn| EventLocation { turn: Some(turn), ..at_node("a", None) };
    let deeper = EventLocation { depth: Some(1), attempt: Some(2), span: 9, ..at_node("a", None) };
    let failed = |message: &str| EventBody::FlowFailed { flow: "f".into(), message: message.to_owned() };
    let rows = [
        ("a node", (at_node("a", None), started()), (at_node("a", None), started()), true),
        ("another node", (at_node("a", None), started()), (at_node("b", None), started()), false),
        ("another pass", (at_node("a", Some(0)), started()), (at_node("a", Some(1)), started()), false),
        ("the turn around a node", (turn_around(1), started()), (at_node("a", None), started()), true),
        ("depth, attempt and span", (deeper, started()), (at_node("a", None), started()), true),
        (
            "another type",
            (at_node("a", None), started()),
            (at_node("a", None), EventBody::node_finished(None)),
            false,
        ),
        (
            "a turn",
            (in_turn(1), EventBody::AgentThinking {}),
            (in_turn(1), EventBody::AgentThinking {}),
            true,
        ),
        (
            "another turn",
            (in_turn(1), EventBody::AgentThinking {}),
            (in_turn(2), EventBody::AgentThinking {}),
            false,
        ),
        ("another call", (in_call("c1"), started()), (in_call("c2"), started()), false),
        (
            "another text of an approval",
            (in_call("c1"), approval(ApprovalState::Asked, "x")),
            (in_call("c1"), approval(ApprovalState::Asked, "y")),
            true,
        ),
        (
            "another state of an approval",
            (in_call("c1"), approval(ApprovalState::Asked, "x")),
            (in_call("c1"), approval(ApprovalState::Approved, "x")),
            false,
        ),
        ("a flow", (root(), matched("f", "x")), (root(), matched("f", "y")), true),
        ("another flow", (root(), matched("f", "x")), (root(), matched("g", "x")), false),
        ("another failure of a flow", (root(), failed("x")), (root(), failed("y")), true),
        ("an action", (root(), action("a", "ok", None)), (root(), action("a", "ok", Some("x"))), true),
        ("another status", (root(), action("a", "failed", None)), (root(), action("a", "ok", None)), false),
        ("another action", (root(), action("a", "ok", None)), (root(), action("b", "ok", None)), false),
    ];
    for (what, recorded, (place, body), same) in rows {
        let mut journal = Journal::new(&stored(&[UnsequencedEvent::new(recorded.0, recorded.1)]));
        assert_eq!(journal.peek(&place, &body).is_some(), same, "{what}");
        assert_eq!(journal.take(&place, &body).is_some(), same, "{what}");
        assert_eq!(journal.take(&place, &body), None, "{what}: no event counts twice");
    }
}

#[test]
fn events_that_share_an_identity_count_in_their_order() {
    let event = |span| UnsequencedEvent::new(EventLocation { span, ..at_node("a", None) }, started());
    let log = stored(&[event(3), event(5)]);
    let mut journal = Journal::new(&log);
    let place = at_node("a", None);
    assert_eq!(journal.peek(&place, &started()), Some(Recorded { seq: 1, span: 3 }));
    assert_eq!(journal.take(&place, &started()), Some(Recorded { seq: 1, span: 3 }));
    assert!(!journal.holds(&log[0]) && journal.holds(&log[1]));
    journal.emit(event(7));
    assert!(!journal.has_missing());
    journal.emit(event(8));
    assert_eq!(journal.take_missing(), [event(8)]);
    assert!(!journal.has_missing());
}

#[test]
fn what_is_forgotten_is_emitted_again() {
    let waiting = || EventBody::RunWaiting { exit: None, asks: Vec::new() };
    let event = UnsequencedEvent::new(EventLocation::default(), waiting());
    let mut journal = Journal::new(&stored(&[event.clone(), event.clone()]));
    journal.forget(&event.place, &event.body);
    assert_eq!(journal.take(&event.place, &event.body), None);
}
