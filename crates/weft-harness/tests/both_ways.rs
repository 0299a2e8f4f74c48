//! A loop of nodes answers as the built-in loop does.

#[test]
fn nodes_answer_as_the_built_in_loop_does() {
    let file = concat!(env!("CARGO_MANIFEST_DIR"), "/../weft-scenarios/tests/agents.jsonl");
    let report = weft_harness::run_both_ways(&std::fs::read_to_string(file).unwrap());
    let failures =
        report.failures.iter().map(|failure| format!("{}: {}", failure.id, failure.faults.join("; ")));
    let failures: Vec<String> = failures.collect();
    assert!(failures.is_empty(), "{}", failures.join("\n"));
    assert!(report.passed > 40, "only {} scenarios were compared", report.passed);
}
