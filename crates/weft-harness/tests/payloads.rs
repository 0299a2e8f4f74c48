//! Execution payloads as ComfyTavern sends them: the right answer where its own engine loses data.
#![expect(clippy::needless_pass_by_value, reason = "helpers of tests: a wrong case may panic")]

use serde_json::{Value, json};
use weft_harness::run_payload;
use workflow_engine::OnFail;

/// Result of a payload: status or codes of problems, outputs, milliseconds.
fn run(payload: Value, on_fail: OnFail) -> (String, Value, u64) {
    let result = run_payload(payload, on_fail);
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let status = match (result.get("codes"), result.get("error")) {
        (Some(codes), _) => codes.as_array().into_iter().flatten().map(text).collect::<Vec<_>>().join(" "),
        (None, Some(error)) => text(&error["message"]),
        (None, None) => text(&result["status"]),
    };
    (status, result["outputs"].clone(), result["ms"].as_u64().unwrap_or_default())
}

fn node(id: &str, full_type: &str, inputs: Value) -> Value {
    json!({"id": id, "fullType": full_type, "inputs": inputs})
}

fn edge(from: (&str, &str), to: (&str, &str)) -> Value {
    json!({"id": format!("{}{}", from.0, to.0), "sourceNodeId": from.0, "sourceHandle": from.1, "targetNodeId": to.0, "targetHandle": to.1})
}

fn payload(nodes: &[Value], edges: &[Value], results: &[(&str, &str, &str)]) -> Value {
    let mappings: serde_json::Map<String, Value> = results
        .iter()
        .map(|(name, node, slot)| ((*name).to_owned(), json!({"sourceNodeId": node, "sourceSlotKey": slot})))
        .collect();
    json!({"nodes": nodes, "edges": edges, "outputInterfaceMappings": mappings})
}

#[track_caller]
fn check(payload: Value, status: &str, outputs: Value) {
    let (got, results, _) = run(payload, OnFail::Cancel);
    assert_eq!((got.as_str(), results), (status, outputs));
}

#[test]
fn streams_reach_every_reader_and_the_result() {
    let words = node("s", "test:Streamer", json!({"text": "a b c"}));
    let collect = |id: &str| node(id, "test:Collect", json!({}));
    check(
        payload(
            &[words.clone(), collect("k"), collect("l")],
            &[edge(("s", "stream"), ("k", "stream")), edge(("s", "stream"), ("l", "stream"))],
            &[("k", "k", "text"), ("l", "l", "text"), ("live", "s", "stream"), ("full", "s", "full")],
        ),
        "ok",
        json!({"k": "a|b|c", "l": "a|b|c", "live": "abc", "full": "a b c"}),
    );
    let llm = node(
        "m",
        "core:GenericLlmRequest",
        json!({"messages": "[{\"role\":\"user\",\"content\":\"hi\"}]", "activated_model_id": "m", "stream": true}),
    );
    check(
        payload(
            &[llm, collect("k")],
            &[edge(("m", "stream_output"), ("k", "stream"))],
            &[("t", "k", "text"), ("r", "m", "responseText"), ("live", "m", "stream_output")],
        ),
        "ok",
        json!({"t": "HI| THERE|stop", "r": "HI THERE", "live": "HI THERE"}),
    );
}

#[test]
fn several_edges_into_one_slot_keep_their_order() {
    let nodes = |orders: Value| {
        let mut merge = node("m", "core:TextMerge", json!({"separator": "-"}));
        merge["inputConnectionOrders"] = orders;
        [
            node("a", "test:Const", json!({"value": "A"})),
            node("b", "test:Const", json!({"value": "B"})),
            merge,
        ]
    };
    let edges = [edge(("a", "out"), ("m", "text_inputs__0")), edge(("b", "out"), ("m", "text_inputs__1"))];
    let result = [("t", "m", "merged_text")];
    check(payload(&nodes(json!({"text_inputs": ["bm", "am"]})), &edges, &result), "ok", json!({"t": "B-A"}));
    check(payload(&nodes(json!({})), &edges, &result), "ok", json!({"t": "A-B"}));
}

#[test]
fn switched_off_nodes_hand_their_inputs_on() {
    let bypassed = |full_type: &str| {
        let mut off = node("p", full_type, json!({}));
        off["bypassed"] = json!(true);
        payload(
            &[node("c", "test:Const", json!({"value": "keep"})), off, node("u", "test:Upper", json!({}))],
            &[edge(("c", "out"), ("p", "a")), edge(("p", "x"), ("u", "text"))],
            &[("x", "p", "x"), ("n", "p", "n"), ("u", "u", "text")],
        )
    };
    check(bypassed("test:Pass"), "ok", json!({"x": "keep", "n": 0, "u": "KEEP"}));
    check(bypassed("test:PassMap"), "ok", json!({"x": "keep", "u": "KEEP"}));
    check(bypassed("test:Mute"), "ok", json!({}));
}

#[test]
fn an_object_never_becomes_text() {
    let mismatch = payload(
        &[node("c", "test:Const", json!({"value": {"o": 1}})), node("u", "test:Upper", json!({}))],
        &[edge(("c", "out"), ("u", "text"))],
        &[("t", "u", "text")],
    );
    check(mismatch, "`u`: the input `text` takes STRING, but got an object", json!({}));
}

#[test]
fn faults_are_found_before_anything_runs() {
    check(payload(&[node("u", "test:Upper", json!({}))], &[], &[]), "missing_input", Value::Null);
    check(payload(&[node("x", "nope:Missing", json!({}))], &[], &[]), "unknown_type", Value::Null);
    let constant = || node("c", "test:Const", json!({"value": 1}));
    check(payload(&[constant(), constant()], &[], &[]), "duplicate_node", Value::Null);
    check(payload(&[constant()], &[edge(("ghost", "o"), ("c", "value"))], &[]), "unknown_node", Value::Null);
}

#[test]
fn arguments_stand_in_defaults_or_beside() {
    let file = |arguments: Value| {
        json!({
            "nodes": [{"id": "gi", "fullType": "core:GroupInput"}, {"id": "u", "fullType": "test:Upper"}, {"id": "go", "fullType": "core:GroupOutput"}],
            "edges": [edge(("gi", "text"), ("u", "text")), edge(("u", "text"), ("go", "result"))],
            "interfaceInputs": {"text": {"key": "text", "dataFlowType": "STRING", "config": {"default": "hello"}}},
            "interfaceOutputs": {"result": {"key": "result", "dataFlowType": "STRING"}},
            "outputInterfaceMappings": {"result": {"sourceNodeId": "u", "sourceSlotKey": "text"}},
            "arguments": arguments
        })
    };
    check(file(json!({})), "ok", json!({"result": "HELLO"}));
    check(file(json!({"text": "given"})), "ok", json!({"result": "GIVEN"}));
}

#[test]
fn independent_nodes_take_the_time_of_one_and_others_may_finish() {
    let slow: Vec<Value> =
        (0..4).map(|n| node(&format!("n{n}"), "test:Slow", json!({"text": "x"}))).collect();
    assert_eq!(run(payload(&slow, &[], &[]), OnFail::Cancel).2, 100);
    let failing = payload(
        &[
            node("f", "test:Fail", json!({})),
            node("d", "test:Upper", json!({})),
            node("c", "test:Const", json!({"value": "side"})),
        ],
        &[edge(("f", "text"), ("d", "text"))],
        &[("side", "c", "out"), ("main", "d", "text")],
    );
    assert_eq!(run(failing, OnFail::FinishOthers), ("`f`: boom".to_owned(), json!({"side": "side"}), 0));
}

#[test]
fn an_interrupted_payload_ends_at_once() {
    let slow = payload(&[node("a", "test:Slow", json!({"text": "1"}))], &[], &[("r", "a", "text")]);
    let result = run_payload(json!({"payload": slow, "interruptAfterMs": 50}), OnFail::Cancel);
    assert_eq!(result, json!({"status": "cancelled", "outputs": {}, "ms": 50}));
}

#[test]
fn an_invalid_payload_is_reported() {
    assert_eq!(run_payload(json!({"nodes": 3}), OnFail::Cancel)["status"], "unreadable");
}
