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
