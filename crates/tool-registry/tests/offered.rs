//! Names on the wire, and the reading of replies by them.
#![expect(clippy::unwrap_used, reason = "helpers of tests: a wrong case may panic")]

mod common;

use proptest::prelude::*;
use serde_json::json;
use tool_registry::{Snapshot, ToolDefinition};
use tool_schema::{is_wire_name, wire_name};

fn all(ids: &[&str]) -> Snapshot {
    Snapshot::new(ids.iter().map(|id| common::described(id, "Echoes."))).unwrap()
}

#[test]
fn s33_names_on_the_wire_are_legal_and_never_shared() {
    let ids = ["workflow:a.b", "workflow:a_b", "mcp:s/read-only", "mcp:s/read_only", "workflow:摘要", "a__b"];
    let set = all(&ids).tool_set().unwrap();
    let mut names = std::collections::HashSet::new();
    for id in ids {
        let wire = wire_name(id);
        assert!(is_wire_name(&wire), "{wire}");
        assert_eq!(set.get(&wire).unwrap().name, id, "the way back leads to the whole id");
        assert!(names.insert(wire));
    }
}

#[test]
fn a_bad_schema_is_an_error_of_its_tool() {
    let definition = ToolDefinition::new("bad".parse().unwrap(), "Bad.", json!({"type": "objekt"}));
    let tool = common::echo(definition);
    assert_eq!(tool.clone().checked().unwrap_err().code(), "bad_schema");
    assert_eq!(Snapshot::new([tool]).unwrap().tool_set().unwrap_err().code(), "bad_schema");
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn order_changes_nothing(
        names in proptest::collection::hash_set("[a-c]{1,3}(:[A-C_.-]{1,3}[a-c])?", 1..20),
        asked in proptest::collection::vec("[a-cA-C_:.-]{1,6}", 1..10)
    ) {
        let names: Vec<&str> = names.iter().map(String::as_str).collect();
        let mut sorted = names.clone();
        sorted.sort_unstable();
        let (one, other) = (all(&names), all(&sorted));
        let (Ok(one_set), Ok(other_set)) = (one.tool_set(), other.tool_set()) else {
            prop_assert!(one.tool_set().is_err() && other.tool_set().is_err());
            return Ok(());
        };
        let wire: Vec<String> = names.iter().map(|name| wire_name(name)).collect();
        for name in names.iter().copied().chain(wire.iter().map(String::as_str)).chain(asked.iter().map(String::as_str)) {
            let resolved = |set: &tool_schema::ToolSet| set.get(name).map(|tool| tool.name.clone());
            prop_assert_eq!(resolved(&one_set), resolved(&other_set));
        }
        let mut chosen: Vec<String> = one.tools().map(|tool| tool.id().to_string()).collect();
        chosen.sort_unstable();
        prop_assert_eq!(chosen, sorted);
    }
}
