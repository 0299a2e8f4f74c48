//! Each request reaches the model and the tools once, whatever interrupts the run and whatever people answer.
#![expect(clippy::unwrap_used, clippy::panic, reason = "helpers of tests: a wrong case may panic")]

mod agents;
mod fixtures;
mod law;

use agents::{Pick, Step, Story};
use fixtures::Cut;

/// The smallest case: two interruptions at work, each answered with `skip`.
#[test]
fn n01_a_reply_belongs_to_its_turn() {
    let once: &[u64] = &[11, 12, 13, 14];
    let again: &[u64] = &[11, 11, 11, 12, 13, 14];
    for (pick, wanted) in [(Pick::Skip, once), (Pick::Done, once), (Pick::Retry, again)] {
        let story = Story {
            steps: (0..4).map(|_| vec![Step::Pay]).collect(),
            cuts: vec![Cut::InTool(0), Cut::InTool(0)],
            picks: vec![pick],
        };
        let (cut, whole) = story.check();
        let paid: Vec<u64> = cut.paid().iter().filter_map(|(_, what)| what["n"].as_u64()).collect();
        assert_eq!(paid, wanted, "{pick:?}");
        assert_eq!(cut.turns_asked(), whole.turns_asked(), "{pick:?}");
    }
}
