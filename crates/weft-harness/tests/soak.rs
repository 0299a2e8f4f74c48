//! A part of the soak: a process is killed at some of its events, a file is cut at some of its bytes.
//! `cargo xtask soak` does all of them.
#![expect(clippy::unwrap_used, reason = "helpers of tests: a wrong case may panic")]

use std::process::Command;

fn soak(arguments: &[&str]) -> String {
    let done = Command::new(env!("CARGO_BIN_EXE_weft-soak")).args(arguments).output().unwrap();
    assert!(done.status.success(), "{}", String::from_utf8_lossy(&done.stderr));
    String::from_utf8(done.stdout).unwrap()
}

#[test]
fn a_killed_process_loses_nothing() {
    assert!(soak(&["kill", "--every", "37"]).contains("always the same end"));
}

#[test]
fn a_killed_agent_goes_on_to_the_same_history_and_pays_once() {
    assert!(soak(&["kill-agent", "--every", "29"]).contains("always the same end"));
}

#[test]
fn n01_a_storm_of_kills_changes_no_request() {
    assert!(soak(&["paid", "6"]).contains("every request as in the run that was not killed"));
}

#[test]
fn a_cut_file_is_whole_as_far_as_it_goes() {
    assert!(soak(&["cut", "--every", "211"]).contains("always whole"));
}
