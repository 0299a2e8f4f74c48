//! Selection of tools, the form in which they are offered, and changes while a program runs.
#![expect(clippy::unwrap_used, reason = "helpers of tests: a wrong case may panic")]

mod common;

use serde_json::json;
use tool_registry::{Answer, DynamicTools, Registry, Selection, Snapshot};

use common::described;

fn all(ids: &[&str]) -> Snapshot {
    Snapshot::new(ids.iter().map(|id| described(id, "Echoes."))).unwrap()
}

fn ids(snapshot: &Snapshot) -> Vec<&str> {
    snapshot.tools().map(|tool| tool.id().as_str()).collect()
}

#[test]
fn handles_are_read_from_a_listing() {
    let selection = Selection::new(["x:gone", "a"]).answer_with_handle(["a"]);
    assert!(selection.allows("x:gone") && !selection.allows("b"));
    let chosen = selection.from(&all(&["a", "b"]));
    assert_eq!(chosen.unknown[0].name, "x:gone");
    assert_eq!(chosen.tools.get("a").unwrap().settings().answer, Answer::Handle);
}

#[test]
fn a_node_offers_more_tools_in_its_own_words() {
    let tools: DynamicTools = serde_json::from_value(json!({
        "toolIds": ["a", "hidden", "gone"], "descriptionTemplate": "{toolName}! {toolDescription} ({toolName})"
    }))
    .unwrap();
    let chosen = tools.from(&all(&["a", "hidden"]), &Selection::all().hide(["hidden"]));
    assert_eq!(ids(&chosen.tools), ["a"]);
    assert_eq!(chosen.tools.get("a").unwrap().definition().description, "a! Echoes. (a)");
    let mut unknown: Vec<&str> = chosen.unknown.iter().map(|unknown| unknown.name.as_str()).collect();
    unknown.sort_unstable();
    assert_eq!(unknown, ["gone", "hidden"]);
    assert!(serde_json::from_value::<DynamicTools>(json!({"toolIds": [], "template": ""})).is_err());
}

#[test]
fn tools_are_replaced_all_at_once_or_not_at_all() {
    let registry = Registry::new();
    for tool in [described("a", "Old."), described("b", "Same.")] {
        registry.register(tool).unwrap();
    }
    let before = registry.snapshot();
    let old = ["a", "b"].map(|id| id.parse().unwrap());
    let refused = registry.replace(&old, [described("c", "New."), described("c", "Again.")]);
    assert_eq!(refused.unwrap_err().code(), "duplicate_tool");
    assert!(registry.snapshot().is_same(&before));
    let change = registry.replace(&old, [described("a", "New."), described("c", "New.")]).unwrap();
    assert_eq!(ids(&registry.snapshot()), ["a", "c"]);
    assert_eq!(ids(&before), ["a", "b"], "what a turn saw stays");
    assert_eq!(
        serde_json::to_value(change.into_event()).unwrap(),
        json!({"type": "registry.changed", "data": {"added": ["c"], "removed": ["b"], "changed": ["a"],
            "warnings": ["the description of `a` is another one"]}})
    );
}
