//! An agent as nodes: the reading of replies, the running of tools, and the loop around both.

use agent_types::TraceEvent;
use serde_json::{Value, json};

use crate::common::{echo, edge, observations, project, run};

/// Weather of a city, as a tool.
fn weather() -> Value {
    echo(
        "Weather of a city.",
        &[("city", "STRING", true)],
        "{{ city }}: 21 degrees, clear, wind from the west",
    )
}

/// A workflow that reads a reply and runs what it calls.
fn reading() -> Value {
    json!({
        "nodes": [{"id": "in", "type": "core:GroupInput"}, {"id": "read", "type": "agent:ParseLlmDecision"},
            {"id": "run", "type": "agent:ExecuteTool"}, {"id": "out", "type": "core:GroupOutput"}],
        "edges": [edge(("in", "response"), ("read", "response")), edge(("read", "llm_text_output"), ("out", "text")),
            edge(("read", "tool_call_requests"), ("out", "requests")),
            edge(("read", "tool_call_requests"), ("run", "tool_call_requests")), edge(("run", "results"), ("out", "results"))],
        "interfaceInputs": {"response": {"dataFlowType": "WILDCARD"}},
        "interfaceOutputs": {"text": {"dataFlowType": "STRING"}, "requests": {"dataFlowType": "ARRAY"}, "results": {"dataFlowType": "ARRAY"}},
        "availableTools": {"initial": ["workflow:weather"]},
    })
}

/// Text, calls and results of one reply.
#[track_caller]
fn check(response: &Value, cities: &[&str]) {
    let folder = tempfile::tempdir().unwrap();
    let project = project(
        folder.path(),
        &[("workflows/read.json", reading()), ("workflows/weather.json", weather())],
        &[],
    );
    let text = response["text"].clone();
    let (outputs, _) = run(&project, "read", &json!({"response": response}));
    assert_eq!(outputs["text"], text, "the text stays whole");
    let calls = outputs["requests"].as_array().unwrap();
    let asked: Vec<&str> = calls.iter().map(|call| call["arguments"]["city"].as_str().unwrap()).collect();
    assert_eq!(asked, cities, "{outputs}");
    assert!(calls.iter().all(|call| call["tool"] == "workflow:weather"), "{outputs}");
    let results = outputs["results"].as_array().unwrap();
    assert_eq!(results.len(), cities.len(), "{outputs}");
    for (result, city) in results.iter().zip(cities) {
        assert_eq!(result["status"], "ok", "{result}");
        let seen = result["observation"].as_str().unwrap();
        assert!(
            seen.ends_with(&format!("Result: {city}: 21 degrees, clear, wind from the west")),
            "{result}"
        );
    }
}

#[test]
fn a_reply_is_text_and_calls_at_once() {
    let call = "<tool_call name=\"workflow:weather\"><param name=\"city\">Oslo</param></tool_call>";
    let native = json!([{"id": "c1", "name": "workflow__weather", "arguments": "{\"city\": \"Bergen\"}"}]);
    check(&json!({"text": format!("I look it up. {call}")}), &["Oslo"]);
    check(&json!({"text": "I look it up.", "tool_calls": native}), &["Bergen"]);
    let inside = json!([{"id": "c1", "type": "function", "function": {"name": "workflow__weather", "arguments": "{\"city\": \"Moss\"}"}}]);
    check(&json!({"text": "I look it up.", "tool_calls": inside}), &["Moss"]);
    check(&json!({"text": "It is warm."}), &[]);
}

/// The sketch of the document: history, the last observation and the query go round; results are processed first.
fn sketch() -> Value {
    json!({
        "interfaceInputs": {"query": {"dataFlowType": "STRING", "required": true}, "history": {"dataFlowType": "ARRAY"}},
        "interfaceOutputs": {"reply": {"dataFlowType": "STRING", "isStream": false}},
        "availableTools": {"initial": ["workflow:weather"]},
        "nodes": [{"id": "in", "type": "core:GroupInput"},
            {"id": "loop", "type": "core:LoopZone", "configValues": {"mode": "until", "maxIterations": 5,
                "condition": "size(out.calls) == 0 && size(out.errors) == 0",
                "state": [{"key": "history", "dataFlowType": "ARRAY", "initial": []},
                    {"key": "observation", "dataFlowType": "STRING", "initial": ""},
                    {"key": "query", "dataFlowType": "STRING", "initial": ""}]}},
            {"id": "pass", "type": "core:LoopState", "parentNode": "loop"},
            {"id": "decide", "type": "agent:LlmDecisionWithTools", "parentNode": "loop"},
            {"id": "run", "type": "agent:ExecuteTool", "parentNode": "loop"},
            {"id": "short", "type": "core:TextReplace", "parentNode": "loop", "configValues": {"pattern": ", wind.*", "with": ""}},
            {"id": "result", "type": "core:GroupOutput", "parentNode": "loop"},
            {"id": "next", "type": "core:LoopNext", "parentNode": "loop"},
            {"id": "out", "type": "core:GroupOutput"}],
        "edges": [edge(("in", "query"), ("loop", "query")), edge(("in", "history"), ("loop", "history")),
            edge(("pass", "query"), ("decide", "query")), edge(("pass", "history"), ("decide", "history")),
            edge(("pass", "observation"), ("decide", "observation")),
            edge(("decide", "tool_call_requests"), ("run", "tool_call_requests")),
            edge(("run", "observation"), ("short", "text")), edge(("short", "text"), ("next", "observation")),
            edge(("decide", "history"), ("next", "history")),
            edge(("decide", "tool_call_requests"), ("result", "calls")), edge(("decide", "errors"), ("result", "errors")),
            edge(("decide", "message"), ("result", "message")), edge(("loop", "message"), ("out", "reply"))],
    })
}

/// Names of the events in order, those of one node after the other.
fn names(events: &[TraceEvent], wanted: &[&str]) -> Vec<&'static str> {
    events.iter().map(|event| event.body.name()).filter(|name| wanted.contains(name)).collect()
}

#[test]
fn the_sketched_loop_observes_processed_results_and_ends_with_a_reply() {
    let script = [
        json!({"text": "I look it up. <ACTION><workflow__weather><city>Oslo</city></workflow__weather></ACTION>",
            "request": {"contains": ["Weather of a city."], "once": ["How is Oslo?"]}}),
        json!({"text": "It is 21 degrees in Oslo.",
            "request": {"contains": ["Result: Oslo: 21 degrees, clear"], "lacks": ["wind from the west"], "once": ["How is Oslo?"]}}),
    ];
    let folder = tempfile::tempdir().unwrap();
    let files = [("workflows/agent.json", sketch()), ("workflows/weather.json", weather())];
    let project = project(folder.path(), &files, &script);
    let (outputs, events) = run(&project, "agent", &json!({"query": "How is Oslo?", "history": []}));
    assert_eq!(outputs, json!({"reply": "It is 21 degrees in Oslo."}));
    assert_eq!(
        observations(&events),
        ["Tool workflow:weather executed successfully. Result: Oslo: 21 degrees, clear, wind from the west"],
        "the log has the raw result"
    );
    let steps = [
        "loop.iter.started",
        "agent.llm.started",
        "agent.tool.chosen",
        "agent.tool.started",
        "agent.tool.finished",
        "loop.exited",
    ];
    assert_eq!(
        names(&events, &steps),
        [
            "loop.iter.started",
            "agent.llm.started",
            "agent.tool.chosen",
            "agent.tool.started",
            "agent.tool.finished",
            "loop.iter.started",
            "agent.llm.started",
            "loop.exited"
        ]
    );
    assert!(events.iter().any(|event| event.body.name() == "agent.text.delta"), "the reply comes in pieces");
}
