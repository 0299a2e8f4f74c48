//! The law: a run that is cut at any events sends the requests of an uncut one in which the same answers were given.

use std::collections::HashMap;

use agent_types::EventBody;
use proptest::prelude::*;
use proptest::test_runner::{Config, TestRunner};

use crate::agents::{Pick, Step, Story};
use crate::fixtures::{Cut, World};

/// Cases unless the variable `WEFT_PAID_CASES` says otherwise.
const CASES: u32 = 150;

fn story() -> impl Strategy<Value = Story> {
    let step = prop_oneof![
        4 => Just(Step::Pay), 2 => Just(Step::Mail), 2 => Just(Step::Look), 2 => Just(Step::Let),
        1 => Just(Step::Wrong),
    ];
    let cut = prop_oneof![
        3 => (1..70u64).prop_map(Cut::Events),
        3 => (0..50u64).prop_map(Cut::InTool),
        1 => (0..50u64).prop_map(Cut::InModel),
    ];
    let pick = prop_oneof![Just(Pick::Skip), Just(Pick::Done), Just(Pick::Retry)];
    let steps = prop::collection::vec(prop::collection::vec(step, 1..4), 1..6);
    let (cuts, picks) = (prop::collection::vec(cut, 0..6), prop::collection::vec(pick, 1..6));
    (steps, cuts, picks).prop_map(|(steps, cuts, picks)| Story { steps, cuts, picks })
}

/// Every event has the next number, and every end of a call that was started has one start at most.
fn check_log(world: &World, story: &Story) {
    let mut replies: HashMap<(Option<u32>, Option<String>), usize> = HashMap::new();
    let mut ends: HashMap<u64, usize> = HashMap::new();
    for (kept, seq) in world.events().iter().zip(1..) {
        assert_eq!(kept.event.seq, seq);
        let place = &kept.event.place;
        match &kept.event.body {
            EventBody::AgentLlmFinished { .. } => {
                let inside = place.parent_call.as_ref().or(place.call.as_ref()).map(ToString::to_string);
                *replies.entry((place.turn, inside)).or_default() += 1;
            }
            EventBody::AgentToolFinished { .. } => *ends.entry(place.span).or_default() += 1,
            _ => {}
        }
    }
    assert!(replies.values().all(|count| *count == 1), "{replies:?}: {story:?}");
    assert!(ends.values().all(|count| *count == 1), "{ends:?}: {story:?}");
}

#[test]
fn n01_cut_anywhere_the_requests_are_those_of_an_uncut_run() {
    let cases = std::env::var("WEFT_PAID_CASES").ok().and_then(|cases| cases.parse().ok()).unwrap_or(CASES);
    let mut runner = TestRunner::new(Config { cases, failure_persistence: None, ..Config::default() });
    let checked = runner.run(&story(), |story| {
        let (cut, _) = story.check();
        check_log(&cut, &story);
        Ok(())
    });
    checked.unwrap();
}
