//! `agent:ParseLlmDecision`.

use serde_json::{Value, json};

use crate::common::{World, one};

/// Expected reading of a reply: message, calls, codes of errors.
#[track_caller]
fn check(response: Value, message: &str, calls: &[(&str, Value)], errors: &[&str]) {
    let world = World::new(&[]);
    let mut response = response;
    if response.is_object() {
        response["tools"] = json!(["say", "pay"]);
    }
    let seen =
        world.run(&one("agent:ParseLlmDecision", &json!({"response": response}), &json!({})), json!({})).ok();
    assert_eq!(seen.output("message"), json!(message), "{response}");
    let requests = seen.output("tool_call_requests");
    let got: Vec<(&str, Value)> = requests
        .as_array()
        .unwrap()
        .iter()
        .map(|request| (request["tool"].as_str().unwrap(), request["arguments"].clone()))
        .collect();
    assert_eq!(got, calls, "{response}");
    let found = seen.output("errors");
    let codes: Vec<&str> =
        found.as_array().unwrap().iter().map(|error| error["code"].as_str().unwrap()).collect();
    assert_eq!(codes, errors, "{response}: {found}");
    assert_eq!(seen.observations().len(), errors.len(), "each error is observed");
    let failed = seen.names().contains(&"agent.parse_failed");
    assert_eq!(failed, !errors.is_empty(), "{response}");
}

fn text(text: &str) -> Value {
    json!({"text": text, "finish": "stop", "usage": {"input": 1, "output": 1, "total": 2}})
}

#[test]
fn replies_are_read_as_the_loop_reads_them() {
    check(json!("plain"), "plain", &[], &[]);
    check(text("Hello."), "Hello.", &[], &[]);
    check(
        text("I look.\n<ACTION><say><say>x</say></say></ACTION>"),
        "I look.",
        &[("say", json!({"say": "x"}))],
        &[],
    );
    let two = "<ACTION><say><say>a</say></say><pay><say>b</say><n>3</n></pay></ACTION>";
    check(text(two), "", &[("say", json!({"say": "a"})), ("pay", json!({"say": "b", "n": 3}))], &[]);
    check(text("<ACTION><sai><say>x</say></sai></ACTION>"), "", &[], &["unknown_tool"]);
    check(text("<ACTION><say><sya>x</sya></say></ACTION>"), "", &[], &["unknown_parameter"]);
    // A block runs whole or not at all.
    check(text("<ACTION><say><say>x</say></say><nope/></ACTION>"), "", &[], &["refused", "unknown_tool"]);
    check(text("<ACTION><say><say>x"), "", &[], &["malformed_xml"]);
    check(text("<say><say>x</say></say>"), "<say><say>x</say></say>", &[], &["unread_call"]);
    let second = "<ACTION><say><say>x</say></say></ACTION> then <ACTION><say><say>y</say></say></ACTION>";
    check(text(second), "", &[("say", json!({"say": "x"}))], &[]);
    let native = json!({"text": "", "finish": "tool_calls", "usage": {"input": 1, "output": 1, "total": 2},
        "tool_calls": [{"id": "1", "name": "say", "arguments": "{\"say\": \"x\"}"}]});
    check(native, "", &[("say", json!({"say": "x"}))], &[]);
    check(json!({"content": "from elsewhere"}), "from elsewhere", &[], &[]);
}

#[test]
fn requests_carry_what_was_noticed() {
    let world = World::new(&[]);
    let inner = "<say><say>1</say></say>".repeat(3);
    let mut response = text(&format!("<ACTION>{inner}</ACTION>"));
    response["tools"] = json!(["say"]);
    response["maxToolCalls"] = json!(2);
    response["echoes"] = json!([1]);
    response["text"] = format!("{} <ACTION>{inner}</ACTION>", response["text"].as_str().unwrap()).into();
    let seen =
        world.run(&one("agent:ParseLlmDecision", &json!({"response": response}), &json!({})), json!({})).ok();
    let requests = seen.output("tool_call_requests");
    assert_eq!(requests[0], json!({"call": "node:1", "tool": "say", "arguments": {"say": "1"}}));
    assert_eq!(requests[1]["echo"], json!(true));
    assert_eq!(requests[2]["refuse"], json!("limit of 2 calls in one decision reached"));
    assert_eq!(requests[2]["notes"], json!(["Note - a second block was not run"]));
    assert_eq!(seen.names(), ["agent.parsed", "agent.call.ready", "agent.call.ready", "agent.call.ready"]);
}

#[test]
fn a_call_that_is_not_read_again_is_the_answer() {
    let mut again = text("<say><say>x</say></say>");
    again["afterUnread"] = true.into();
    again["tools"] = json!(["say", "pay"]);
    let world = World::new(&[]);
    let seen =
        world.run(&one("agent:ParseLlmDecision", &json!({"response": again}), &json!({})), json!({})).ok();
    assert_eq!((seen.output("errors"), seen.observations().len()), (json!([]), 0));
    assert!(seen.names().contains(&"agent.warning"));
}
