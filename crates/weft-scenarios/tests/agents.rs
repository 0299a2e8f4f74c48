//! Scenarios of what agents do besides what the shared ones ask for.

use weft_scenarios::AgentCases;

#[test]
fn every_scenario_holds() {
    let report = AgentCases::new().run(include_str!("agents.jsonl"), |_| true);
    let failed: Vec<String> = report
        .failed
        .iter()
        .flat_map(|failed| failed.differences.iter().map(|difference| format!("{}: {difference}", failed.id)))
        .collect();
    assert!(failed.is_empty(), "{}", failed.join("\n"));
    assert_eq!(report.passed, include_str!("agents.jsonl").lines().count());
}

#[test]
fn every_run_passes_when_its_log_is_replayed_at_once() {
    let replayed = AgentCases::new().replayed(include_str!("agents.jsonl"));
    let differ =
        replayed.iter().filter_map(|(id, difference)| Some(format!("{id}: {}", difference.as_ref()?)));
    let differ: Vec<String> = differ.collect();
    assert!(differ.is_empty(), "{}", differ.join("\n"));
    assert_eq!(replayed.len(), include_str!("agents.jsonl").lines().count());
}
