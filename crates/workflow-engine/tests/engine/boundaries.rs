//! Boundaries of workflows and groups: absent, null and empty are three things, and declared types hold both ways.

use std::collections::BTreeMap;
use std::sync::Arc;

use agent_types::RunStatus;
use serde_json::{Map, Value, json};
use workflow_engine::{Plan, RunOptions};
use workflow_model::{NoWorkflows, Workflow};

use crate::common::{Seen, catalog, run_plan, run_with};
use crate::groups::Project;

/// Value of the slot `x` of a boundary, going in.
#[derive(Clone)]
enum In {
    Absent,
    Value(Value),
}

/// Value that comes out behind it.
#[derive(Debug, PartialEq)]
enum Out {
    Absent,
    Value(Value),
    /// Refused, with a message that says so.
    Refused(&'static str),
}

/// A workflow that hands `x` through.
fn through(input: &Value, output: &Value) -> Workflow {
    Workflow::from_value(json!({
        "nodes": [{"id": "in", "type": "core:GroupInput"}, {"id": "go", "type": "core:GroupOutput"}],
        "edges": [{"source": "in", "sourceHandle": "x", "target": "go", "targetHandle": "x"}],
        "interfaceInputs": {"x": input}, "interfaceOutputs": {"x": output},
    }))
    .unwrap()
}

fn seen_as(seen: &Seen, wanted: &Out) -> Out {
    match (&seen.outcome.status, seen.outcome.outputs.get("x"), wanted) {
        (RunStatus::Ok, Some(value), _) => Out::Value(value.clone()),
        (RunStatus::Ok, None, _) => Out::Absent,
        (_, _, Out::Refused(why)) => {
            let message = seen.outcome.error.as_ref().unwrap().to_string();
            assert!(message.contains(why), "{message}");
            Out::Refused(why)
        }
        (..) => panic!("{:?}", seen.outcome.error),
    }
}

fn at_the_top(input: &Value, output: &Value, given: &In, wanted: &Out) -> Out {
    let inputs = match given {
        In::Absent => json!({}),
        In::Value(value) => json!({"x": value}),
    };
    seen_as(&run_with(&through(input, output), inputs, RunOptions::new()), wanted)
}

/// The same behind a group that is wired straight through, or runs as one node where it has settings of its own.
fn in_a_group(input: &Value, output: &Value, given: &In, own: &Value, wanted: &Out) -> Out {
    let mut group =
        json!({"id": "G", "type": "core:NodeGroup", "configValues": {"referencedWorkflowId": "inner"}});
    group.as_object_mut().unwrap().extend(own.as_object().cloned().unwrap_or_else(Map::new));
    let mut nodes = vec![group, json!({"id": "go", "type": "core:GroupOutput"})];
    let mut edges = vec![json!({"source": "G", "sourceHandle": "x", "target": "go", "targetHandle": "x"})];
    if let In::Value(value) = given {
        nodes.push(json!({"id": "e", "type": "t:emit", "configValues": {"v": value}}));
        edges.push(json!({"source": "e", "sourceHandle": "out", "target": "G", "targetHandle": "x"}));
    }
    let outer =
        json!({"nodes": nodes, "edges": edges, "interfaceOutputs": {"x": {"dataFlowType": "WILDCARD"}}});
    let project = Project(BTreeMap::from([("inner", Arc::new(through(input, output)))]));
    let outer = Workflow::from_value(outer).unwrap();
    let plan = match (Plan::new(&outer, &catalog(), &project), wanted) {
        (Ok(plan), _) => plan,
        (Err(error), Out::Refused(_)) => {
            assert!(error.to_string().contains("required"), "{error}");
            return Out::Refused("not given");
        }
        (Err(error), _) => panic!("{error}"),
    };
    seen_as(&run_plan(&plan, json!({}), RunOptions::new(), |_| async {}), wanted)
}

#[test]
fn absent_null_and_empty_are_three_things() {
    let any = json!({"dataFlowType": "WILDCARD"});
    let text = json!({"dataFlowType": "STRING"});
    let number = json!({"dataFlowType": "INTEGER"});
    let with = |slot: &Value, default: Value| {
        let mut slot = slot.clone();
        slot["config"] = json!({"default": default});
        slot
    };
    let required = json!({"dataFlowType": "STRING", "required": true});
    let value = |value: Value| (In::Value(value.clone()), Out::Value(value));
    for (slot, (given, wanted)) in [
        // Without a default what is absent stays absent.
        (any.clone(), (In::Absent, Out::Absent)),
        (text.clone(), (In::Absent, Out::Absent)),
        (number.clone(), (In::Absent, Out::Absent)),
        (json!({"dataFlowType": "ARRAY"}), (In::Absent, Out::Absent)),
        // A default fills what is absent, and nothing else.
        (with(&text, json!("d")), (In::Absent, Out::Value(json!("d")))),
        (with(&any, json!(null)), (In::Absent, Out::Value(json!(null)))),
        (with(&text, json!(null)), (In::Absent, Out::Absent)),
        (with(&text, json!("d")), value(json!(""))),
        (with(&number, json!(7)), value(json!(0))),
        (with(&json!({"dataFlowType": "BOOLEAN"}), json!(true)), value(json!(false))),
        (with(&any, json!(7)), value(json!(null))),
        // Null is a value where any is taken, and nothing for a type.
        (any.clone(), value(json!(null))),
        (any, value(json!([]))),
        (required, (In::Absent, Out::Refused("not given"))),
    ] {
        let group = |own| in_a_group(&slot, &json!({"dataFlowType": "WILDCARD"}), &given, &own, &wanted);
        let top = at_the_top(&slot, &json!({"dataFlowType": "WILDCARD"}), &given, &wanted);
        assert_eq!(top, wanted, "at the top: {slot}");
        assert_eq!(group(json!({})), wanted, "in a group: {slot}");
        assert_eq!(group(json!({"timeoutMs": 1000})), wanted, "in a group that runs as one node: {slot}");
    }
}

#[test]
fn declared_types_hold_going_in_and_coming_out() {
    let any = json!({"dataFlowType": "WILDCARD"});
    let big = 18_446_744_073_709_551_615_u64;
    for (kind, given, wanted) in [
        ("STRING", json!(null), Out::Refused("null")),
        ("INTEGER", json!(3.0), Out::Value(json!(3))),
        ("INTEGER", json!(big), Out::Value(json!(big))),
        ("INTEGER", json!(i64::MIN), Out::Value(json!(i64::MIN))),
        ("INTEGER", json!("3"), Out::Refused("takes INTEGER, but got a text")),
        ("STRING", json!(9_007_199_254_740_993_u64), Out::Value(json!("9007199254740993"))),
        ("STRING", json!({"a": 1}), Out::Refused("takes STRING, but got an object")),
        ("BOOLEAN", json!("false"), Out::Refused("takes BOOLEAN, but got a text")),
        ("ARRAY", json!({}), Out::Refused("takes ARRAY, but got an object")),
    ] {
        let typed = json!({"dataFlowType": kind});
        let given = In::Value(given);
        assert_eq!(at_the_top(&typed, &any, &given, &wanted), wanted, "into the top: {kind}");
        assert_eq!(at_the_top(&any, &typed, &given, &wanted), wanted, "out of the top: {kind}");
        // Wired straight through, and as one node.
        for own in [json!({}), json!({"timeoutMs": 1000})] {
            let group = |input, output| in_a_group(input, output, &given, &own, &wanted);
            assert_eq!(group(&typed, &any), wanted, "into a group: {kind} {own}");
            assert_eq!(group(&any, &typed), wanted, "out of a group: {kind} {own}");
        }
    }
}

#[test]
fn a_value_passes_each_border_in_order() {
    // A float becomes a whole number on its way in, and that a text on its way out.
    let (number, text) = (json!({"dataFlowType": "INTEGER"}), json!({"dataFlowType": "STRING"}));
    let any = json!({"dataFlowType": "WILDCARD"});
    let given = In::Value(json!(3.0));
    for (input, output, wanted) in
        [(&number, &text, Out::Value(json!("3"))), (&number, &any, Out::Value(json!(3)))]
    {
        for own in [json!({}), json!({"timeoutMs": 1000})] {
            assert_eq!(in_a_group(input, output, &given, &own, &wanted), wanted, "{input} {output} {own}");
        }
    }
}

#[test]
fn a_trigger_without_a_value_passes_the_border_of_a_group() {
    let trigger = json!({"dataFlowType": "STRING", "matchCategories": ["Trigger"]});
    let wanted = Out::Value(json!(null));
    let any = json!({"dataFlowType": "WILDCARD"});
    assert_eq!(in_a_group(&trigger, &any, &In::Absent, &json!({}), &wanted), wanted);
    let given = In::Value(json!({}));
    let refused = Out::Refused("takes STRING, but got an object");
    assert_eq!(in_a_group(&trigger, &any, &given, &json!({}), &refused), refused);
}

#[test]
fn a_lazy_value_passes_the_border_of_a_group() {
    let inner = through(&json!({"dataFlowType": "INTEGER"}), &json!({"dataFlowType": "WILDCARD"}));
    let project = Project(BTreeMap::from([("inner", Arc::new(inner))]));
    for (given, wanted) in [
        (json!(3.0), Out::Value(json!(3))),
        (json!("3"), Out::Refused("the input `other` takes INTEGER, but got a text")),
    ] {
        let outer = Workflow::from_value(json!({
            "nodes": [{"id": "c", "type": "t:emit", "configValues": {"v": true}},
                      {"id": "e", "type": "t:emit", "configValues": {"v": given}},
                      {"id": "G", "type": "core:NodeGroup", "configValues": {"referencedWorkflowId": "inner"}},
                      {"id": "l", "type": "t:lazy"}, {"id": "go", "type": "core:GroupOutput"}],
            "edges": [{"source": "c", "sourceHandle": "out", "target": "l", "targetHandle": "in"},
                      {"source": "e", "sourceHandle": "out", "target": "G", "targetHandle": "x"},
                      {"source": "G", "sourceHandle": "x", "target": "l", "targetHandle": "other"},
                      {"source": "l", "sourceHandle": "out", "target": "go", "targetHandle": "x"}],
            "interfaceOutputs": {"x": {"dataFlowType": "WILDCARD"}},
        }))
        .unwrap();
        let plan = Plan::new(&outer, &catalog(), &project).unwrap();
        let seen = run_plan(&plan, json!({}), RunOptions::new(), |_| async {});
        assert_eq!(seen_as(&seen, &wanted), wanted);
    }
}

#[test]
fn what_takes_an_absent_input_is_skipped_unless_it_may_be_absent() {
    let workflow = Workflow::from_value(json!({
        "nodes": [{"id": "in", "type": "core:GroupInput"}, {"id": "a", "type": "t:id"},
                  {"id": "b", "type": "t:optional"}, {"id": "go", "type": "core:GroupOutput"}],
        "edges": [{"source": "in", "sourceHandle": "x", "target": "a", "targetHandle": "in"},
                  {"source": "in", "sourceHandle": "x", "target": "b", "targetHandle": "in"},
                  {"source": "a", "sourceHandle": "out", "target": "go", "targetHandle": "a"},
                  {"source": "b", "sourceHandle": "out", "target": "go", "targetHandle": "b"}],
        "interfaceInputs": {"x": {"dataFlowType": "STRING"}},
        "interfaceOutputs": {"a": {"dataFlowType": "WILDCARD"}, "b": {"dataFlowType": "WILDCARD"}},
    }))
    .unwrap();
    let seen = run_with(&workflow, json!({}), RunOptions::new());
    assert_eq!(Value::Object(seen.outcome.outputs.clone()), json!({"b": null}));
    assert!(seen.lines().contains(&"node.skipped a cause=input:x".to_owned()), "{:?}", seen.lines());
    let plan = Plan::new(&workflow, &catalog(), &NoWorkflows).unwrap();
    assert!(plan.warnings().is_empty(), "{:?}", plan.warnings());
}
