//! Logs of inner runs, ids of calls and names of questions.

use std::collections::HashMap;

use agent_types::{CallId, EventBody, EventLocation, ResumeLog, UnsequencedEvent};
use run_journal::{
    ask_in_call, ask_in_turn, ask_once_more, call_at_level, calls_around, log_in_call, log_in_turn,
};
use serde_json::json;

use crate::{at_node, in_call, in_turn, started, stored};

fn seqs(log: Option<ResumeLog>) -> Vec<u64> {
    log.into_iter().flat_map(|log| log.events).map(|kept| kept.event.seq).collect()
}

#[test]
fn a_call_has_the_events_inside_it() {
    let call = |path: Option<&str>, call: &str, depth| EventLocation {
        path: path.map(Into::into),
        depth,
        ..in_call(call)
    };
    let parent =
        EventLocation { parent_call: Some(CallId::new("c1")), depth: Some(1), ..EventLocation::default() };
    let places = [
        call(None, "c1", None),
        call(Some("a"), "c1", Some(1)),
        call(None, "c1", Some(1)),
        call(None, "c1.2", Some(1)),
        call(Some("a"), "c10", Some(1)),
        call(Some("a"), "c2", Some(1)),
        parent,
    ];
    let events = stored(&places.map(|place| UnsequencedEvent::new(place, started())));
    let answers =
        [("c1/a".to_owned(), json!(1)), ("c10/a".to_owned(), json!(2)), ("c1".to_owned(), json!(3))].into();
    let whole = ResumeLog { snapshot: None, events, answers };
    let id = CallId::new("c1");
    let log = log_in_call(&whole, &id, 0).unwrap();
    assert_eq!(log.answers, HashMap::from([("a".to_owned(), json!(1))]));
    let calls: Vec<_> = log.events.iter().map(|kept| kept.event.place.call.clone()).collect();
    assert_eq!(calls, [None, None, Some(CallId::new("c1.2")), None], "the call around is left out");
    assert!(log.events.iter().all(|kept| kept.event.place.parent_call.is_none()));
    assert_eq!(seqs(Some(log)), [2, 3, 4, 7]);
    assert_eq!(log_in_call(&whole, &CallId::new("c3"), 0), None);
}

#[test]
fn a_turn_has_what_happened_while_it_deliberated() {
    let node = |turn| EventLocation { turn: Some(turn), ..at_node("a", None) };
    let places = [in_turn(2), node(2), node(1), in_call("t2.c1"), in_call("c1")];
    let events = stored(&places.map(|place| UnsequencedEvent::new(place, EventBody::AgentThinking {})));
    let answers = [("t2/a".to_owned(), json!(1)), ("t1/a".to_owned(), json!(2))].into();
    let whole = ResumeLog { snapshot: None, events, answers };
    let log = log_in_turn(&whole, 2, "t2.").unwrap();
    assert_eq!(log.answers, HashMap::from([("a".to_owned(), json!(1))]));
    assert_eq!(seqs(Some(log)), [2, 4]);
    assert_eq!(log_in_turn(&whole, 3, "t3."), None);
}

#[test]
fn calls_know_the_calls_around_them() {
    let call = CallId::new("c1.2.3");
    assert_eq!(calls_around(&call).collect::<Vec<_>>(), [CallId::new("c1.2"), CallId::new("c1")]);
    for (level, wanted) in [(0, "c1"), (1, "c1.2"), (2, "c1.2.3"), (3, "c1.2.3")] {
        assert_eq!(call_at_level(&call, level), CallId::new(wanted));
    }
    assert_eq!(calls_around(&CallId::new("c1")).count(), 0);
}

#[test]
fn questions_have_names_of_their_own() {
    assert_eq!(ask_in_call(&CallId::new("c1"), "a"), "c1/a");
    assert_eq!(ask_in_turn(2, "a"), "t2/a");
    assert_eq!(ask_once_more("a", 2), "a~2");
}
