//! Each run of a project is recorded, and its recording passes when it is replayed at once.

use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::path::Path;
use std::sync::Arc;

use agent_types::{SystemClock, Timestamp, VirtualClock};
use run_store::{RunFilter, RunPhase};
use serde_json::json;
use weft_project::{Project, ProjectOptions};
use weft_runs::RunRecording;
use weft_scenarios::AgentCases;

use crate::common::{desk, weft, write};

/// Runs whose recordings were replayed.
#[derive(Default)]
pub(crate) struct Replays {
    seen: BTreeSet<String>,
    pub(crate) passed: usize,
}

impl Replays {
    /// Records the runs of a folder's project that are new and have ended or wait, and replays them.
    #[track_caller]
    pub(crate) fn check(&mut self, folder: &Path, at: &str) {
        let options = ProjectOptions::default();
        let Ok(project) = Project::open(folder, &options) else { return };
        // A page may show a project that has no run yet.
        if !folder.join(&project.settings().store.path).exists() {
            return;
        }
        let Ok(Some(store)) = project.store() else { return };
        let mut faults = String::new();
        for record in store.runs(&RunFilter::default()).unwrap() {
            let run = record.new.run.clone();
            let key = format!("{run} {} {}", record.state.phase.as_str(), record.last_seq);
            if record.state.phase == RunPhase::Running || !self.seen.insert(key) {
                continue;
            }
            match RunRecording::from_store(&project, &run) {
                Ok(recording) => {
                    let line = json!({"id": run, "recording": recording}).to_string();
                    let report = AgentCases::for_project(&project).run(&line, |_| true);
                    self.passed += report.passed;
                    for failed in report.failed.iter().flat_map(|failed| &failed.differences) {
                        let _ = writeln!(faults, "{run} of {}: {failed}", recording.subject());
                    }
                }
                Err(error) => assert!(error.code().starts_with("not_recordable_"), "{at}: {run}: {error}"),
            }
        }
        assert!(faults.is_empty(), "{at}\n{faults}");
    }
}

#[test]
fn runs_of_the_example_pass_when_replayed() {
    let folder = desk();
    let mut replays = Replays::default();
    weft(folder.path(), &["agent", "run", "desk", "What is new?"]).ok();
    weft(folder.path(), &["agent", "run", "desk", "What is new?", "--thread", "a"]).ok();
    weft(folder.path(), &["agent", "run", "desk", "And now?", "--thread", "a"]);
    replays.check(folder.path(), "the example");
    assert!(replays.passed >= 3, "{}", replays.passed);
}

#[test]
fn a_run_that_decides_otherwise_is_reported_with_the_event() {
    let folder = desk();
    let profile = json!({"id": "clock", "name": "clock", "version": "1", "schema_version": "1",
        "system_prompt": "You look.", "tool_ids_inventory": ["system:get_current_time"]});
    write(folder.path(), "agents/clock.json", &profile.to_string());
    let call = json!({"text": "<ACTION><system__get_current_time/></ACTION>"});
    write(folder.path(), "clock.jsonl", &format!("{call}\n{}\n", json!({"text": "Done."})));
    weft(folder.path(), &["agent", "run", "clock", "When?", "--script", "clock.jsonl"]).ok();
    weft(folder.path(), &["test", "--record", "last"]).ok();
    weft(folder.path(), &["test"]).ok();
    let file = folder.path().join("tests/recorded.jsonl");
    let text = std::fs::read_to_string(&file).unwrap();
    std::fs::write(&file, text.replace("\"text\":\"Done.\"", "\"text\":\"Other.\"")).unwrap();
    weft(folder.path(), &["test"]).ok();
    std::fs::write(
        &file,
        text.replace("\"text\":\"Done.\",\"final\":true", "\"text\":\"Other.\",\"final\":true"),
    )
    .unwrap();
    let failed = weft(folder.path(), &["test"]);
    assert_eq!(failed.code, 1, "{failed:?}");
    assert!(failed.stdout.contains("agent.message in turn 2: text"), "{}", failed.stdout);
    assert!(failed.stdout.contains("wanted \"Other.\"\n  got    \"Done.\""), "{}", failed.stdout);
}

#[test]
fn an_action_that_the_replay_does_not_run_is_reported() {
    let folder = desk();
    let human = json!({"action_id": "human", "handler": "handoff", "trigger_patterns": ["a person"]});
    let seen = json!({"action_id": "seen", "handler": "update_profile", "when": "after_turn",
        "parameters": {"last": "$message"}});
    let flows =
        |actions: &[&serde_json::Value]| json!({"agent": "desk", "system_actions": actions}).to_string();
    write(folder.path(), "flows.json", &flows(&[&human, &seen]));
    write(folder.path(), "said.jsonl", &json!({"text": "Hello."}).to_string());
    write(folder.path(), "weft.toml", "script = \"said.jsonl\"\n");
    weft(folder.path(), &["chat", "--session", "s", "What is new?"]).ok();
    weft(folder.path(), &["test", "--record", "last"]).ok();
    weft(folder.path(), &["test"]).ok();
    write(folder.path(), "flows.json", &flows(&[&human]));
    let failed = weft(folder.path(), &["test"]);
    assert_eq!(failed.code, 1, "{failed:?}");
    assert!(failed.stdout.contains("system.action"), "{}", failed.stdout);
}

#[test]
fn a_part_that_cannot_be_recorded_is_refused_by_name() {
    let folder = desk();
    let project = Project::open(folder.path(), &ProjectOptions::default()).unwrap();
    let store = project.store().unwrap().unwrap();
    let clock = Arc::new(VirtualClock::new(Timestamp::from_millis(0)));
    let new = run_store::NewRun {
        agent: Some("desk".into()),
        plan: json!({"kind": "agent", "agent": "desk", "message": "Hi", "before": 0}),
        ..run_store::NewRun::new(agent_types::RunId::new("open"))
    };
    let _held = store.begin(new, clock).unwrap();
    store.flush().unwrap();
    let refused = weft(folder.path(), &["test", "--record", "open"]);
    assert!(refused.stderr.contains("error[not_recordable_end]"), "{}", refused.stderr);
    let call = run_store::NewRun {
        plan: json!({"kind": "call", "tool": "core:Now", "arguments": {}}),
        ..run_store::NewRun::new(agent_types::RunId::new("call"))
    };
    let held = store.begin(call, Arc::new(SystemClock)).unwrap();
    let end = agent_types::EventBody::RunFinished {
        status: agent_types::RunStatus::Ok,
        exit: None,
        kind: None,
        partial: None,
        message: None,
    };
    let place = agent_types::EventLocation::default();
    let sink: &dyn agent_types::EventSink = &*held;
    sink.record(&mut vec![agent_types::UnsequencedEvent::new(place, end)]);
    store.flush().unwrap();
    let refused = weft(folder.path(), &["test", "--record", "call"]);
    assert!(refused.stderr.contains("error[not_recordable_call]"), "{}", refused.stderr);
}
