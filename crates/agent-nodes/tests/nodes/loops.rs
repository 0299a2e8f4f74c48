//! The agent as a loop of nodes does what the built-in loop does.

use std::sync::Arc;

use agent_runtime::{Agent, AgentProfile, AgentState, ApprovalMode};
use agent_types::{EventBody, TraceEvent};
use llm_provider::{LlmProvider, Message};
use serde_json::{Value, json};
use workflow_model::Workflow;

use crate::common::{Seen, World, block, line, tools};

/// The example of the desk, with the tools of these tests and no words of its own.
pub(crate) fn agent_loop() -> Workflow {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../examples/desk/workflows/agent_loop.json");
    let mut file: Value = serde_json::from_str(&std::fs::read_to_string(path).unwrap()).unwrap();
    file["availableTools"] = json!({"initial": ["say", "do_it", "pay"]});
    let nodes = file["nodes"].as_array_mut().unwrap();
    let prompt = nodes.iter_mut().find(|node| node["id"] == "prompt").unwrap();
    prompt["configValues"] = json!({"system": "Be brief."});
    Workflow::from_value(file).unwrap()
}

/// The same with one node for the decision.
fn short_loop() -> Workflow {
    let edge = |from: (&str, &str), to: (&str, &str)| json!({"source": from.0, "sourceHandle": from.1, "target": to.0, "targetHandle": to.1});
    let state = json!([{"key": "history", "dataFlowType": "ARRAY", "initial": []},
        {"key": "results", "dataFlowType": "ARRAY", "initial": []}]);
    Workflow::from_value(json!({
        "availableTools": {"initial": ["say", "do_it", "pay"]},
        "interfaceInputs": {"query": {"dataFlowType": "STRING"}},
        "interfaceOutputs": {"answer": {"dataFlowType": "STRING"}},
        "nodes": [
            {"id": "in", "type": "core:GroupInput"}, {"id": "out", "type": "core:GroupOutput"},
            {"id": "loop", "type": "core:LoopZone", "configValues": {"state": state, "mode": "until",
                "condition": "size(out.calls) == 0 && size(out.faults) == 0"}},
            {"id": "state", "type": "core:LoopState", "parentNode": "loop"},
            {"id": "decide", "type": "agent:LlmDecisionWithTools", "parentNode": "loop",
                "configValues": {"system": "Be brief."}},
            {"id": "run", "type": "agent:ExecuteTool", "parentNode": "loop"},
            {"id": "next", "type": "core:LoopNext", "parentNode": "loop"},
            {"id": "result", "type": "core:GroupOutput", "parentNode": "loop"}],
        "edges": [
            edge(("in", "query"), ("decide", "query")), edge(("state", "history"), ("decide", "history")),
            edge(("state", "results"), ("decide", "observation")),
            edge(("decide", "tool_call_requests"), ("run", "tool_call_requests")),
            edge(("decide", "history"), ("next", "history")), edge(("run", "results"), ("next", "results")),
            edge(("decide", "message"), ("result", "answer")),
            edge(("decide", "tool_call_requests"), ("result", "calls")),
            edge(("decide", "errors"), ("result", "faults")), edge(("loop", "answer"), ("out", "answer"))],
    }))
    .unwrap()
}

/// Result of the built-in loop for a script.
fn built_in(script: &[Value], native: bool) -> (World, String, Vec<TraceEvent>) {
    let world = World::on(script, native);
    let profile: AgentProfile = serde_json::from_value(json!({
        "id": "a", "system_prompt": "Be brief.", "tool_ids_inventory": ["say", "do_it", "pay"]}))
    .unwrap();
    let model = Arc::clone(&world.model) as Arc<dyn LlmProvider>;
    let agent = Agent::from_profile(profile, model, tools(&world.puppet)).with_approval(ApprovalMode::Ask);
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap();
    let (text, events) = runtime.block_on(async {
        let run = agent.start(AgentState::default(), "Go on.").unwrap();
        let mut watcher = run.subscribe(100_000);
        let (outcome, _) = run.outcome().await;
        (outcome.text, weft_harness::events(&mut watcher))
    });
    (world, text, events)
}

/// Messages without the mark of the run in which they were framed.
fn shown(world: &World) -> Vec<Vec<String>> {
    let requests = world.model.requests.lock().unwrap();
    let plain = |message: &Message| {
        let text = line(message);
        let frame =
            text.split_once("[results ").and_then(|(_, rest)| rest.split_once(':')).map(|(frame, _)| frame);
        match frame.filter(|frame| frame.len() == 8) {
            Some(frame) => text.replace(frame, "F"),
            None => text,
        }
    };
    // Instructions are the same in every request.
    let said = |own: &&Message| !matches!(own, Message::System { .. });
    requests.iter().map(|request| request.messages.iter().filter(said).map(plain).collect()).collect()
}

/// Emitted events of a run, its calls by their tools.
fn emitted(events: &[TraceEvent]) -> Vec<String> {
    let events = events.iter().filter_map(|event| match &event.body {
        EventBody::AgentCallReady { tool, arguments, .. } => {
            Some(format!("ready {tool} {}", Value::Object((**arguments).clone())))
        }
        EventBody::AgentToolStarted { tool } => Some(format!("started {tool}")),
        EventBody::AgentToolFinished { tool, status, summary, .. } => {
            Some(format!("finished {tool} {status} {summary}"))
        }
        EventBody::AgentObservation { text, .. } => Some(text.clone()),
        EventBody::AgentParseFailed { code, .. } => Some(format!("parse failed {code}")),
        EventBody::AgentMessage { text, r#final: false, .. } => Some(format!("message {text}")),
        EventBody::AgentLlmFinished { text, .. } => Some(format!("reply {text}")),
        EventBody::AgentTextDelta { text, .. } => Some(format!("delta {text}")),
        _ => None,
    });
    events.collect()
}

#[track_caller]
fn same(script: &[Value], native: bool) {
    let (wanted_world, wanted, events) = built_in(script, native);
    for workflow in [agent_loop(), short_loop()] {
        let world = World::on(script, native);
        let seen: Seen = world.run(&workflow, json!({"query": "Go on."})).ok();
        assert_eq!(seen.output("answer"), json!(wanted));
        assert_eq!(world.calls(), wanted_world.calls());
        assert_eq!(emitted(&seen.events), emitted(&events));
        if !native {
            assert_eq!(world.sent(0)[0], wanted_world.sent(0)[0], "the model is taught the same");
            for (at, (sent, wanted)) in shown(&world).iter().zip(&shown(&wanted_world)).enumerate() {
                assert_eq!(sent, wanted, "the model is sent the same in request {at}");
            }
        }
    }
}

fn say(text: &str) -> String {
    format!("<say><say>{text}</say></say>")
}

#[test]
fn one_call_after_the_other() {
    same(
        &[
            json!({"chunks": ["I look. ", "<ACT", "ION><say><say>a</say>", "</say></ACTION>"]}),
            block("<do_it><say>b</say></do_it>"),
            json!({"text": "It is b."}),
        ],
        false,
    );
}

#[test]
fn calls_that_are_wrong_unknown_and_two_at_once() {
    same(
        &[
            block(&format!("{}{}", say("1"), say("2"))),
            block("<sai><say>x</say></sai>"),
            block("<say><sya>x</sya></say>"),
            block(&say("8")),
            block(&format!("{}<nope/>", say("3"))),
            json!({"text": "<ACTION><say><say>cut"}),
            json!({"text": format!("Twice. <ACTION>{}</ACTION> <ACTION>{}</ACTION>", say("4"), say("5"))}),
            block("<say><say>6</say><do>fail</do></say>"),
            block("<say><say>7</say><do>inject</do></say>"),
            json!({"text": "I am done."}),
        ],
        false,
    );
}

#[test]
fn a_model_that_calls_in_its_own_form() {
    let call = |say: &str| json!({"name": "say", "arguments": {"say": say}});
    same(
        &[
            json!({"text": "I look.", "tool_calls": [call("1"), call("2")]}),
            json!({"tool_calls": [{"name": "sai", "arguments": {}}]}),
            json!({"text": "Done."}),
        ],
        true,
    );
}

#[test]
fn a_call_that_stands_in_a_result_needs_a_person() {
    let script = [
        block("<say><say>7</say><do>inject</do></say>"),
        block("<say><say>1</say></say>"),
        json!({"text": "Done."}),
    ];
    let world = World::new(&script);
    let seen = world.run(&agent_loop(), json!({"query": "Go on."}));
    assert_eq!(seen.outcome.status, agent_types::RunStatus::Waiting);
    let ask = &seen.outcome.asks[0];
    assert_eq!((&*ask.ask, ask.tool.as_ref().unwrap().as_str()), ("loop[1]/run", "say"));
    assert!(ask.prompt.as_deref().unwrap().starts_with("echo_of_untrusted"));
    assert_eq!(world.calls().len(), 1);
}

#[test]
fn what_a_loop_tells() {
    let script = [
        json!({"chunks": ["I look. ", "<ACTION><say><say>a</say></say>", "</ACTION>"]}),
        json!({"text": "It is a."}),
    ];
    let seen = World::new(&script).run(&agent_loop(), json!({"query": "Go on."})).ok();
    let lines = seen.events.iter().map(|event| {
        let path = event.place.path.as_deref().unwrap_or_default();
        let call = event.place.call.as_ref().map(|call| format!(" {call}")).unwrap_or_default();
        format!("{} {path}{call}", event.body.name())
    });
    insta::assert_snapshot!(lines.collect::<Vec<_>>().join("\n"));
}
