//! Laws: a journal that is cut anywhere and resumed emits exactly the missing events, and none of them twice.

use agent_types::{ApprovalState, EventBody, EventLocation, UnsequencedEvent};
use proptest::prelude::*;
use run_journal::Journal;

use crate::{at_node, in_call, in_turn, started, stored};

fn place() -> impl Strategy<Value = EventLocation> {
    let site = prop_oneof![
        Just(EventLocation::default()),
        (0..3u32).prop_map(in_turn),
        ("[ab]", prop::option::of(0..3u64)).prop_map(|(path, iteration)| at_node(&path, iteration)),
        "c[12]".prop_map(|call| in_call(&call)),
    ];
    (site, 0..4u64).prop_map(|(site, span)| EventLocation { span, ..site })
}

fn body() -> impl Strategy<Value = EventBody> {
    let state = prop_oneof![Just(ApprovalState::Asked), Just(ApprovalState::Approved)];
    prop_oneof![
        Just(started()),
        Just(EventBody::node_finished(None)),
        Just(EventBody::AgentTurnStarted {}),
        "[xy]".prop_map(|text| EventBody::AgentMessage { text, r#final: true, warning: None }),
        "[fg]".prop_map(|flow| EventBody::FlowFinished { flow, silent: false }),
        state.prop_map(|state| EventBody::AgentToolApproval {
            tool: "pay".parse().unwrap(),
            state,
            reason: None
        }),
    ]
}

fn event() -> impl Strategy<Value = UnsequencedEvent> {
    (place(), body()).prop_map(|(place, body)| UnsequencedEvent::new(place, body))
}

proptest! {
    /// The run decides as before: the log and the emitted rest are the whole run, in its order.
    #[test]
    fn a_cut_journal_emits_the_rest(events in prop::collection::vec(event(), 0..40), cut in 0..40usize) {
        let cut = cut.min(events.len());
        let log = stored(&events[..cut]);
        let mut journal = Journal::new(&log);
        events.iter().cloned().for_each(|event| journal.emit(event));
        prop_assert_eq!(journal.take_missing(), &events[cut..]);
        prop_assert!(log.iter().all(|recorded| !journal.holds(recorded)));
    }

    /// Work side by side comes in another order: still each event is in the log once, from either life.
    #[test]
    fn in_any_order_no_event_comes_twice(
        events in prop::collection::vec(event(), 0..40).prop_shuffle(),
        again in any::<prop::sample::Index>(),
        cut in 0..40usize,
    ) {
        let cut = cut.min(events.len());
        let mut journal = Journal::new(&stored(&events[..cut]));
        let mut order = events.clone();
        order.rotate_left(if events.is_empty() { 0 } else { again.index(events.len()) });
        order.into_iter().for_each(|event| journal.emit(event));
        let missing = journal.take_missing();
        prop_assert_eq!(missing.len(), events.len() - cut);
        // The two lives together match the whole run once.
        let lives: Vec<UnsequencedEvent> = events[..cut].iter().cloned().chain(missing).collect();
        let mut both = Journal::new(&stored(&lives));
        prop_assert!(events.iter().all(|event| both.take(&event.place, &event.body).is_some()));
        prop_assert!(events.iter().all(|event| both.take(&event.place, &event.body).is_none()));
    }

    /// A life that ends early leaves a log like any other.
    #[test]
    fn a_journal_that_is_cut_twice_is_whole(
        events in prop::collection::vec(event(), 0..40),
        cuts in (0..40usize, 0..40usize),
    ) {
        let (first, second) = (cuts.0.min(cuts.1).min(events.len()), cuts.0.max(cuts.1).min(events.len()));
        let mut journal = Journal::new(&stored(&events[..first]));
        events[..second].iter().cloned().for_each(|event| journal.emit(event));
        let log: Vec<UnsequencedEvent> = events[..first].iter().cloned().chain(journal.take_missing()).collect();
        let mut journal = Journal::new(&stored(&log));
        events.iter().cloned().for_each(|event| journal.emit(event));
        prop_assert_eq!(journal.take_missing(), &events[second..]);
    }
}
