//! Configurations of another system: the members that are mapped, those that are reported, and a run of the result.
#![expect(clippy::unwrap_used, reason = "a test may stop at the first surprise")]

use std::sync::{Arc, Mutex};

use agent_runtime::{Agent, AgentProfile, ApprovalMode};
use agent_types::{ExitReason, Recorder, RunId, SystemClock};
use executors_flow_system::{
    FlowsBuilder, FlowsFile, Handled, MemorySessions, Orchestrator, TurnContext, UserMessage,
};
use http_caller::{HttpCaller, NetworkPolicy};
use llm_provider::{LlmProvider, ScriptedModel};
use serde_json::{Value, json};
use tool_registry::Snapshot;
use weft_harness::StubServer;
use weft_import::{from_bu, is_bu_configuration};

/// All that a configuration of theirs may hold, in small.
fn configuration(base: &str) -> Value {
    let url = |path: &str| format!("{base}{path}");
    json!({
        "basic_settings": {"name": "Tea House", "description": "Helps people who buy tea.", "background": "A shop by the sea.", "language": "English",
            "tone": "Calm", "chatbot_id": "tea-1", "avatar": "leaf.png"},
        "instructions": "Find the order first.",
        "constraints": "Promise nothing.",
        "need_greeting": "Good day!",
        "max_iterations": 3,
        "iteration_strategy": "sop_driven",
        "retrieve_knowledge_url": url("/kb"),
        "action_books": [{"condition": "Somebody asks for a sample", "action": "Ask for an address", "tools": ["save"], "weight": 2}],
        "skills": [
            {"skill_id": "poet", "execution_mode": "agent", "description": "Writes verse", "system_prompt": "You rhyme."},
            {"skill_id": "mood", "execution_mode": "function", "description": "Mood of a text", "endpoint": {"url": url("/mood"), "method": "POST", "body": {"text": "{text}"}}},
            {"condition": "Somebody is angry", "action": "Stay calm"}
        ],
        "tools": [
            {"name": "save", "description": "Keeps an address", "parameters": {"type": "object", "properties": {"mail": {"type": "string"}, "note": {"type": "string", "default": "-"}}, "required": ["mail"]},
                "endpoint": {"url": url("/save/{mail}"), "method": "POST", "headers": {"Content-Type": "application/json"},
                    "body": {"note": "{note}", "bot": "{chatbotId}", "tenant": "{tenantId}", "dialog": "#dialogId#", "phone": "todo_autofill_by_system"}, "timeout": 5}},
            {"name": "contact", "description": "Who it is", "endpoint": {"url": url("/contact"), "method": "GET", "body": {"bot": "{chatbotId}"}}},
            {"name": "close_conversation", "description": "Ends it", "endpoint": {"url": url("/close"), "method": "POST", "body": {}}},
            {"name": "flow_executor", "description": "Runs a flow", "parameters": {"type": "object", "properties": {"flow_id": {"type": "string"}}, "required": ["flow_id"]},
                "endpoint": {"url": url("/flow"), "method": "POST", "body": {"flow": "{flow_id}", "said": "{user_message}"}}},
            {"name": "broken", "description": "No request"}
        ],
        "system_actions": ["contact", "close_conversation", "nothing"],
        "agent_actions": ["save"],
        "flows": [
            {"flow_id": "leave", "name": "Leave", "type": "keyword", "match_type": "regex", "trigger_patterns": ["leave for (?<days>\\d+)"],
                "response_template": "{{$contact.name}}: {result.id}"},
            {"flow_id": "bad", "type": "keyword", "match_type": "regex", "trigger_patterns": ["(?=x)"]},
            {"flow_id": "hello", "type": "intent", "description": "Somebody says hello"}
        ],
        "timers": [{"timer_id": "idle", "delay_seconds": 60, "max_triggers": 2, "tool_name": "generate_response", "message": "Still there, {{$contact.name}}?"},
            {"timer_id": "job", "tool_name": "save", "tool_params": {}}]
    })
}

#[test]
fn every_field_is_mapped_or_reported() {
    let imported = from_bu(&configuration("http://shop.test").to_string()).unwrap();
    let warnings: Vec<String> = imported
        .report
        .notable()
        .map(|entry| format!("{} {entry}", entry.code.unwrap_or_default()))
        .collect();
    insta::assert_snapshot!("warnings", warnings.join("\n"));
    insta::assert_snapshot!("flows", imported.flows.to_json().unwrap());
    insta::assert_snapshot!("agent", serde_json::to_string_pretty(&imported.agent).unwrap());
}

#[test]
fn the_form_of_the_document_stays_as_it_is() {
    let file = json!({
        "skills": [{"skill_id": "blog_writer", "execution_mode": "agent", "system_prompt": "你是专业博客写手", "tools": ["search_kb", "save_draft"]},
            {"skill_id": "sentiment_analysis", "execution_mode": "function", "endpoint": {"url": "http://api.example.com/sentiment", "method": "POST"}}],
        "tools": [{"name": "save_customer_information", "description": "保存客户信息", "parameters": {"type": "object", "properties": {}, "required": []},
            "endpoint": {"url": "http://api.example.com/customers", "method": "POST"}}],
        "flows": [{"flow_id": "leave_request", "trigger_patterns": ["我要请假"], "endpoint": {"url": "http://api.example.com/leave", "method": "POST"}}],
        "system_actions": [{"action_id": "transfer_human", "handler": "handoff"}, {"action_id": "update_profile", "handler": "update_profile", "silent": true}]
    });
    let imported = from_bu(&file.to_string()).unwrap();
    assert_eq!(serde_json::to_value(&imported.flows).unwrap(), file);
    assert_eq!(imported.agent, None);
    let codes: Vec<&str> = imported.report.notable().filter_map(|entry| entry.code).collect();
    assert_eq!(codes, ["never_fires", "never_fires", "missing_description", "missing_description"]);
}

#[test]
fn lists_of_tools_are_none() {
    assert!(!is_bu_configuration(&json!([{"name": "a"}])));
    assert!(!is_bu_configuration(&json!({"tools": [{"name": "a"}]})));
    assert!(is_bu_configuration(&json!({"tools": [], "basic_settings": {}})));
    assert!(from_bu("[]").is_err() && from_bu("{").is_err());
}

/// Sessions of imported flows, around a model that plays a script.
fn orchestrator(flows: &FlowsFile, server: &StubServer, script: &[Value]) -> Orchestrator {
    let policy = NetworkPolicy::public_only().allowing([server.address.to_string().parse().unwrap()]);
    let flows = FlowsBuilder::new(flows).caller(HttpCaller::builder(policy).build()).build().unwrap();
    let lines: Vec<String> = script.iter().map(Value::to_string).collect();
    let model: Arc<dyn LlmProvider> = Arc::new(ScriptedModel::from_jsonl(&lines.join("\n")).unwrap());
    let profile = AgentProfile::new("desk");
    let tools = Snapshot::new(flows.offered(&model, profile.language).unwrap()).unwrap();
    let agent = Agent::from_profile(profile, model, tools).with_approval(ApprovalMode::All);
    Orchestrator::new(flows, agent, MemorySessions::new())
}

async fn say(orchestrator: &Orchestrator, message: impl Into<UserMessage>) -> Handled {
    let context = TurnContext::new(Recorder::new(RunId::generate(), Arc::new(SystemClock)));
    orchestrator.enter("s").await.unwrap().handle(message.into(), context).await.unwrap()
}

#[tokio::test]
async fn what_was_imported_runs() {
    let asked = Arc::new(Mutex::new(Vec::new()));
    let answered = Arc::clone(&asked);
    let server = StubServer::json(move |request| {
        let (path, query) = request.path().split_once('?').unwrap_or((request.path(), ""));
        let body: Value = serde_json::from_str(&request.body).unwrap_or_default();
        answered.lock().unwrap().push((path.to_owned(), query.to_owned(), body));
        let answer = match path {
            "/contact" => json!({"name": "Ann"}),
            "/flow" => json!({"id": 7}),
            _ => json!("kept"),
        };
        (200, answer)
    });
    let mut config = configuration(&format!("http://{}", server.address));
    // One request at a time, so that the server's answers have an order.
    config.as_object_mut().unwrap().remove("retrieve_knowledge_url");
    let imported = from_bu(&config.to_string()).unwrap();
    let script = [
        json!({"text": "<ACTION><save><mail>a@b.c</mail></save></ACTION>", "request": {"lacks": ["flow_executor", "close_flow", "/flow"]}}),
        json!({"text": "Kept."}),
    ];
    let sessions = orchestrator(&imported.flows, &server, &script);
    let handled = say(&sessions, "I want leave for 3 days").await;
    assert_eq!((handled.text.as_deref(), handled.exit), (Some("Ann: 7"), ExitReason::FlowCompleted));
    let values = json!({"tenantId": "t", "dialogId": "d"}).as_object().unwrap().clone();
    let handled = say(&sessions, UserMessage::new("Keep my address").with_values(values)).await;
    assert_eq!(handled.text.as_deref(), Some("Kept."));
    assert_eq!(
        *asked.lock().unwrap(),
        [
            ("/contact".to_owned(), String::new(), json!({"bot": "tea-1"})),
            ("/flow".to_owned(), String::new(), json!({"flow": "leave", "said": "I want leave for 3 days"})),
            ("/contact".to_owned(), String::new(), json!({"bot": "tea-1"})),
            (
                "/save/a%40b.c".to_owned(),
                String::new(),
                json!({"note": "-", "bot": "tea-1", "tenant": "t", "dialog": "d"})
            ),
        ]
    );
}
