//! The configuration of document 004 §4.3, with an endpoint where it has `{…}`, and the six rows of its §3.1.

use agent_types::{EventBody, ExitReason};
use executors_flow_system::{FlowsBuilder, FlowsFile, Severity};
use serde_json::{Value, json};
use tool_registry::{Snapshot, Tool, tool, tools};

use crate::common::{Observed, Setup, Stub, World};

/// Finds posts.
#[tool(read_only, name = "search_kb")]
fn search_kb(query: String) -> String {
    format!("three posts about {query}")
}

/// Keeps a draft.
#[tool(name = "save_draft")]
fn save_draft(text: String) -> String {
    format!("kept {} letters", text.chars().count())
}

fn example(stub: &Stub) -> Value {
    json!({
        "skills": [
            {"skill_id": "blog_writer", "execution_mode": "agent", "system_prompt": "你是专业博客写手", "tools": ["search_kb", "save_draft"]},
            {"skill_id": "sentiment_analysis", "execution_mode": "function", "endpoint": {"url": stub.url("/sentiment"), "method": "POST"}}
        ],
        "tools": [{"name": "save_customer_information", "description": "保存客户信息", "endpoint": {"url": stub.url("/customers"), "method": "POST"}}],
        "flows": [{"flow_id": "leave_request", "trigger_patterns": ["我要请假"], "endpoint": {"url": stub.url("/leave"), "method": "POST"}, "silent": false}],
        "system_actions": [
            {"action_id": "transfer_human", "handler": "handoff", "silent": false},
            {"action_id": "update_profile", "handler": "update_profile", "silent": true}
        ]
    })
}

fn world(stub: &Stub, file: Value, script: Vec<Value>) -> World {
    let tools: Vec<Tool> = tools![search_kb, save_draft].into_iter().map(Result::unwrap).collect();
    let mut setup = Setup::new(file).with(stub);
    setup.tools = Snapshot::new(tools).unwrap();
    setup.script = script;
    setup.build()
}

fn observations(observed: &Observed) -> Vec<&str> {
    let texts = observed.events.iter().filter_map(|event| match &event.body {
        // Those of a sub-agent belong to the call that it is.
        EventBody::AgentObservation { text, .. }
            if event.place.parent_call.is_none() && event.place.depth.is_none() =>
        {
            Some(text.as_str())
        }
        _ => None,
    });
    texts.collect()
}

fn call(tool: &str, parameters: &str) -> Value {
    json!({"text": format!("<ACTION><{tool}>{parameters}</{tool}></ACTION>")})
}

#[tokio::test]
async fn the_example_loads_unchanged() {
    let stub = Stub::new(&[]).await;
    let file = FlowsFile::from_value(example(&stub)).unwrap();
    let flows = FlowsBuilder::new(&file).build().unwrap();
    let observed: Vec<String> =
        flows.warnings().iter().map(|warning| format!("{} {warning}", warning.code)).collect();
    assert!(flows.warnings().iter().all(|warning| warning.severity == Severity::Warning));
    insta::assert_snapshot!(observed.join("\n"));
    let offered: Vec<&str> = flows.offered_ids().map(agent_types::ToolId::as_str).collect();
    assert_eq!(offered, ["save_customer_information", "skill:sentiment_analysis", "skill:blog_writer"]);
}

#[tokio::test]
async fn row_1_an_agent_skill_is_a_tool_that_runs_a_sub_agent() {
    let stub = Stub::new(&[]).await;
    let script = vec![
        json!({"text": "<ACTION><skill__blog_writer><task>Write about tea</task></skill__blog_writer></ACTION>",
            "request": {"contains": ["## Skills", "skill__blog_writer"]}}),
        json!({"text": "<ACTION><search_kb><query>tea</query></search_kb></ACTION>",
            "request": {"contains": ["你是专业博客写手", "Write about tea", "save_draft"], "lacks": ["skill__blog_writer", "user's question"]}}),
        call("system__done", "<result>A post about tea.</result>"),
        json!({"text": "Here it is: A post about tea.", "request": {"contains": ["A post about tea."], "lacks": ["three posts"]}}),
    ];
    let world = world(&stub, example(&stub), script);
    let observed = world.say("s", "user's question").await;
    assert_eq!(
        (observed.text(), observed.handled.exit),
        (Some("Here it is: A post about tea."), ExitReason::Completed)
    );
    assert_eq!(observed.llm_calls(), 4);
    assert!(
        observed
            .events
            .iter()
            .any(|event| event.place.call.is_some()
                && matches!(&event.body, EventBody::AgentLlmStarted { .. })),
        "events of the sub-agent lie inside the call"
    );
}

#[tokio::test]
async fn row_2_a_function_skill_is_a_tool_that_sends_a_request() {
    let stub = Stub::new(&[(200, json!({"mood": "fine"}))]).await;
    let mut file = example(&stub);
    file["skills"][1]["endpoint"]["body"] = json!({"text": "{text}"});
    let script = vec![
        call("skill__sentiment_analysis", "<text>what a day</text>"),
        json!({"text": "Fine.", "request": {"contains": ["{\"mood\":\"fine\"}"]}}),
    ];
    let observed = world(&stub, file, script).say("s", "How do I sound?").await;
    assert_eq!(observed.text(), Some("Fine."));
    assert_eq!(stub.asked()[0].body, json!({"text": "what a day"}));
}

#[tokio::test]
async fn row_3_a_tool_is_offered_and_its_result_is_read() {
    let stub = Stub::new(&[(200, json!("saved as 7"))]).await;
    let script = vec![
        call("save_customer_information", ""),
        json!({"text": "Saved.", "request": {"contains": ["saved as 7"]}}),
    ];
    let observed = world(&stub, example(&stub), script).say("s", "Save me").await;
    assert_eq!(observed.text(), Some("Saved."));
    assert_eq!(
        observations(&observed),
        ["Observation: Tool save_customer_information executed successfully. Result: saved as 7"]
    );
}

#[tokio::test]
async fn row_4_a_flow_is_unseen_and_its_result_leaves_no_trace() {
    let stub = Stub::new(&[(200, json!({"id": 7}))]).await;
    let script =
        vec![json!({"text": "您好。", "request": {"lacks": ["请假", "leave_request", "/leave", "\"id\""]}})];
    let world = world(&stub, example(&stub), script);
    let observed = world.say("s", "你好，我要请假三天").await;
    assert_eq!((observed.text(), observed.handled.exit), (Some("{\"id\":7}"), ExitReason::FlowCompleted));
    assert_eq!((observed.llm_calls(), world.history("s").await.len()), (0, 0));
    assert_eq!(world.say("s", "在吗？").await.text(), Some("您好。"));
}

#[tokio::test]
async fn row_5_a_system_action_is_unseen() {
    let stub = Stub::new(&[]).await;
    let mut file = example(&stub);
    file["system_actions"][0]["trigger_patterns"] = json!(["转人工"]);
    file["system_actions"][1]["trigger_patterns"] = json!(["我叫"]);
    let script = vec![
        json!({"text": "好的。", "request": {"lacks": ["transfer_human", "update_profile", "handoff", "我叫"]}}),
    ];
    let world = world(&stub, file, script);
    let silent = world.say("s", "我叫小明").await;
    assert_eq!((silent.text(), silent.handled.exit), (None, ExitReason::FlowSilent));
    assert_eq!(world.say("s", "天气不错").await.text(), Some("好的。"));
    let over = world.say("s", "转人工").await;
    assert_eq!((over.handled.exit, over.llm_calls()), (ExitReason::HandedOff, 0));
    assert!(over.text().is_some());
}

#[tokio::test]
async fn row_6_knowledge_is_a_tool_that_the_model_may_ask() {
    let stub = Stub::new(&[(200, json!("Two weeks."))]).await;
    let mut file = example(&stub);
    file["retrieve_knowledge"] = json!({"endpoint": {"url": stub.url("/retrieve"), "method": "GET",
        "query_params": {"chatbotId": "{$ctx.chatbotId}", "keywords": "{keywords}"}}});
    let script = vec![
        call("retrieve_knowledge", "<keywords>returns</keywords>"),
        json!({"text": "Two weeks.", "request": {"lacks": ["chatbotId"]}}),
    ];
    let world = world(&stub, file, script);
    let values = json!({"chatbotId": "123"}).as_object().unwrap().clone();
    let message = executors_flow_system::UserMessage::new("How long may I return it?").with_values(values);
    assert_eq!(world.say("s", message).await.text(), Some("Two weeks."));
    assert_eq!(stub.asked()[0].query, "chatbotId=123&keywords=returns");
}
