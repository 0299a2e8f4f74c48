//! An agent with the tools that come with the registry: what is listed, what changes, what is long.
#![expect(clippy::unwrap_used, reason = "a test may stop at the first surprise")]

use std::sync::Arc;

use agent_runtime::prelude::*;
use agent_runtime::{AgentError, AgentState};
use agent_types::{EventBody, TraceEvent};
use serde_json::{Value, json};
use tool_registry::{Registry, Snapshot, ToolSettings, Visibility};
use tool_system::system_tools;

fn model(replies: &[Value]) -> ScriptedModel {
    let lines: Vec<String> = replies.iter().map(Value::to_string).collect();
    ScriptedModel::from_jsonl(&lines.join("\n")).unwrap()
}

fn block(inner: &str) -> Value {
    json!({"text": format!("<ACTION>{inner}</ACTION>")})
}

fn profile(keys: Value) -> AgentProfile {
    let mut keys = keys;
    keys["id"] = "tester".into();
    serde_json::from_value(keys).unwrap()
}

/// Runs an agent and gives its outcome, its observations and its events.
async fn play(agent: &Agent) -> (RunOutcome, Vec<String>, Vec<TraceEvent>) {
    let run = agent.start(AgentState::default(), "Go.").unwrap();
    let mut watcher = run.subscribe(100_000);
    let (outcome, _) = run.outcome().await;
    let events = weft_harness::events(&mut watcher);
    let observations = events.iter().filter_map(|event| match &event.body {
        EventBody::AgentObservation { text, .. } => Some(text.clone()),
        _ => None,
    });
    (outcome, observations.collect(), events)
}

/// Reads a page of 20 MB.
#[tool(read_only)]
fn read_page() -> String {
    "页".repeat(7_000_000)
}

/// Writes a page.
#[tool]
fn write_page(text: String) -> usize {
    text.len()
}

#[tokio::test]
async fn s46_a_long_result_is_cut_and_kept_whole() {
    let system = system_tools().unwrap();
    let read_blob = system.into_iter().find(|tool| tool.id().as_str() == "system:read_blob").unwrap();
    let agent =
        Agent::new(model(&[block("<read_page/>"), json!({"text": "Done."})])).tools(tools![read_page]);
    let (_, observations, events) = play(&agent).await;
    assert!(observations[0].len() <= 9 * 1024, "{}", observations[0].len());
    assert!(observations[0].starts_with("Observation: Tool read_page executed successfully. Result: 页页"));
    let (shown, note) = observations[0].split_once('\n').unwrap();
    assert!(shown.ends_with("页页"), "the end is shown too");
    let blob = note
        .strip_prefix("Note - the whole result is at ")
        .and_then(|rest| rest.strip_suffix(", read it with system:read_blob"))
        .unwrap();
    let is_emitted = events.iter().any(|event| {
        matches!(&event.body, EventBody::AgentToolFinished { blob: Some(of_event), .. } if blob.ends_with(of_event.as_str()))
    });
    assert!(is_emitted);

    // The same agent keeps it, for itself only.
    let read =
        block(&format!("<system:read_blob><ref>{blob}</ref><offset>20999994</offset></system:read_blob>"));
    let again = Agent::new(model(&[block("<read_page/>"), read, json!({"text": "Done."})]))
        .tools(tools![read_page])
        .tool(read_blob);
    let (_, observations, _) = play(&again).await;
    assert_eq!(
        observations[1],
        "Observation: Tool system:read_blob executed successfully. Result: [bytes 20999994 to 21000000 of 21000000]\n页页"
    );
}

#[tokio::test]
async fn s35_a_tool_that_is_not_listed_is_unknown() {
    let all = Snapshot::new(tools![read_page, write_page].map(|tool| tool.unwrap())).unwrap();
    let profile = profile(json!({"tool_ids_inventory": ["write_page"]}));
    let mine = profile.selection().from(&all).tools;
    let script = model(&[block("<read_page/>"), json!({"text": "I cannot."})]);
    let agent = Agent::from_profile(profile, Arc::new(script), mine);
    let (outcome, observations, _) = play(&agent).await;
    assert_eq!(outcome.exit, ExitReason::Completed);
    assert_eq!(
        observations,
        ["Observation: Error - Unknown tool 'read_page', did you mean 'write_page'? Available: write_page"]
    );
}

#[tokio::test]
async fn a_turn_sees_the_tools_of_its_beginning() {
    /// Adds a tool to the registry that the agent takes its tools from.
    #[tool]
    fn learn(registry: Dep<Registry>) -> &'static str {
        registry.register(tools![write_page].into_iter().next().unwrap()).unwrap();
        "learned"
    }
    let registry = Arc::new(Registry::new());
    let [learn] = tools![learn];
    registry.register(learn).unwrap();
    let both = block("<learn/><write_page><text>a</text></write_page>");
    let replies = [
        both,
        block("<learn/>"),
        block("<write_page><text>abc</text></write_page>"),
        json!({"text": "Done."}),
    ];
    let source: Arc<Registry> = Arc::clone(&registry);
    let agent = Agent::new(model(&replies)).with_source(source).with(registry);
    let (_, observations, events) = play(&agent).await;
    assert!(observations[1].contains("Unknown tool 'write_page'"), "{observations:#?}");
    assert_eq!(observations[3], "Observation: Tool write_page executed successfully. Result: 3");
    let changes: Vec<_> = events
        .iter()
        .filter_map(|event| match &event.body {
            EventBody::RegistryChanged { added, .. } => Some((event.place.turn, added.clone())),
            _ => None,
        })
        .collect();
    assert_eq!(changes, [(Some(3), vec!["write_page".parse().unwrap()])]);
}

#[tokio::test]
async fn an_agent_keeps_its_state_within_its_schema() {
    let profile = profile(json!({
        "initial_private_state_schema": {"type": "object", "properties": {"mood": {"enum": ["good", "bad"]}}},
        "initial_private_state_values": {"mood": "good"}
    }));
    let update = |mood: &str| {
        block(&format!("<system:update_state><changes><mood>{mood}</mood></changes></system:update_state>"))
    };
    let replies = [
        update("bad"),
        update("odd"),
        block("<system:read_state><key>mood</key></system:read_state>"),
        block("<system:done><result>over</result></system:done>"),
    ];
    let agent = Agent::from_profile(profile, Arc::new(model(&replies)), Snapshot::default());
    let known = ["system:update_state", "system:read_state", "system:done"];
    let system = system_tools().unwrap().into_iter().filter(|tool| known.contains(&tool.id().as_str()));
    let agent = agent.tools(system);
    let (outcome, observations, _) = play(&agent).await;
    assert_eq!(
        observations[0],
        r#"Observation: Tool system:update_state executed successfully. Result: {"mood":"bad"}"#
    );
    assert!(observations[1].contains("failed: the state stays as it was"), "{}", observations[1]);
    assert_eq!(observations[2], "Observation: Tool system:read_state executed successfully. Result: bad");
    assert_eq!((outcome.exit, outcome.text.as_str()), (ExitReason::Completed, "over"));
}

#[test]
fn what_is_missing_is_found_before_anything_runs() {
    struct Printer;
    /// Prints.
    #[tool]
    fn print(printer: Dep<Printer>) -> usize {
        std::mem::size_of_val(&*printer)
    }
    let agent = || Agent::new(model(&[json!({"text": "Done."})])).tools(tools![print]);
    let error = agent().check().unwrap_err();
    assert_eq!(error.code(), "missing_dependency");
    assert!(error.to_string().starts_with("the tool `print` needs "), "{error}");
    assert!(agent().with(Arc::new(Printer)).check().is_ok());
    let twice = agent().tools(tools![print]).check().unwrap_err();
    assert_eq!(twice.code(), "duplicate_tool");
    let state = profile(json!({"initial_private_state_schema": {"required": ["x"]}}));
    let error = Agent::from_profile(state, Arc::new(model(&[json!({"text": "x"})])), Snapshot::default())
        .check()
        .unwrap_err();
    assert!(matches!(error, AgentError::State { .. }), "{error}");
}

#[tokio::test]
async fn a_discoverable_tool_is_named_and_explained_when_called() {
    let [write] = tools![write_page].map(|tool| tool.unwrap());
    let write = write.with_settings(ToolSettings::default().with_visibility(Visibility::Discoverable));
    let expect = json!({"contains": ["- <write_page>: Writes a page."]});
    let call = |inner: &str| json!({"text": format!("<ACTION>{inner}</ACTION>"), "request": expect});
    let replies =
        [call("<write_page/>"), call("<write_page><text>ab</text></write_page>"), json!({"text": "Done."})];
    let (outcome, observations, _) = play(&Agent::new(model(&replies)).tool(write)).await;
    assert_eq!(outcome.exit, ExitReason::Completed, "{:?}", outcome.error);
    assert!(observations[0].ends_with("Missing parameter 'text'"), "{}", observations[0]);
    assert_eq!(observations[1], "Observation: Tool write_page executed successfully. Result: 2");
}
