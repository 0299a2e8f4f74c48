//! A hundred sessions at once, and nothing of one in another.

use std::sync::Arc;

use agent_runtime::{Agent, AgentProfile};
use agent_types::{ExitReason, SystemClock};
use async_trait::async_trait;
use executors_flow_system::{FlowsBuilder, FlowsFile, Orchestrator, StoredSessions, UserMessage};
use futures::stream;
use llm_provider::{
    LlmError, LlmEvent, LlmProvider, LlmRequest, LlmStream, Message, ModelInfo, StandardResponse,
};
use run_store::Store;
use serde_json::json;
use tool_registry::Snapshot;

use crate::common::Stub;

const SESSIONS: usize = 100;
const ROUNDS: usize = 10;

/// Says how often it was asked in this conversation, and fails where it sees two of them.
#[derive(Debug)]
struct Echo(ModelInfo);

/// Words of the form `<session-…>` in a text.
fn marks(text: &str) -> Vec<&str> {
    let pieces = text.split("<session-").skip(1);
    pieces.filter_map(|piece| piece.split('>').next()).collect()
}

#[async_trait]
impl LlmProvider for Echo {
    fn info(&self) -> &ModelInfo {
        &self.0
    }

    async fn stream(&self, request: LlmRequest) -> Result<LlmStream, LlmError> {
        let texts: Vec<&str> = request.messages.iter().map(Message::text).collect();
        let mut marks: Vec<&str> = texts.iter().flat_map(|text| marks(text)).collect();
        marks.dedup();
        let [mark] = marks[..] else {
            return Err(LlmError::Stream { message: format!("several sessions in one request: {marks:?}") });
        };
        for _ in 0..3 {
            tokio::task::yield_now().await;
        }
        let asked = texts.iter().filter(|text| text.starts_with("question")).count();
        let text = format!("<session-{mark}> answer {asked}");
        let response = StandardResponse { text: text.clone(), ..StandardResponse::default() };
        Ok(Box::pin(stream::iter([Ok(LlmEvent::Text(text)), Ok(LlmEvent::Finished(response))])))
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn nothing_crosses_sessions() {
    let stub = Stub::new(&[(200, json!("noted"))]).await;
    let file = FlowsFile::from_value(json!({
        "flows": [{"flow_id": "note", "trigger_patterns": ["note"], "response_template": "{$ctx.profile.name}: {$ctx.session}",
            "endpoint": {"url": stub.url("/{$ctx.session}"), "method": "POST", "body": {"text": "{user_message}", "who": "{$ctx.profile.name}"}}}],
        "system_actions": [{"action_id": "name", "handler": "update_profile", "match": "regex", "trigger_patterns": ["i am (?<name>.*)"],
                "parameters": {"name": "$group.name"}, "silent": true},
            {"action_id": "human", "handler": "handoff", "trigger_patterns": ["person"]}]}))
    .unwrap();
    let flows = FlowsBuilder::new(&file).caller(stub.caller()).build().unwrap();
    let agent = Agent::from_profile(
        AgentProfile::new("desk"),
        Arc::new(Echo(ModelInfo::default())),
        Snapshot::default(),
    );
    let store = Store::memory().unwrap();
    let sessions = Arc::new(StoredSessions::new(store.clone(), "desk"));
    let orchestrator = Orchestrator::new(flows, agent, sessions).with_clock(Arc::new(SystemClock));
    let mut all = tokio::task::JoinSet::new();
    for number in 0..SESSIONS {
        let orchestrator = orchestrator.clone();
        all.spawn(async move {
            let session = format!("s{number}");
            let say = |text: String| {
                let (orchestrator, session) = (orchestrator.clone(), session.clone());
                async move { orchestrator.handle(&session, UserMessage::new(text)).await.unwrap() }
            };
            assert_eq!(say(format!("I am <session-{number}>")).await.exit, ExitReason::FlowSilent);
            for round in 1..=ROUNDS {
                let answer = say(format!("question {round} <session-{number}>")).await;
                assert_eq!(
                    answer.text,
                    Some(format!("<session-{number}> answer {round}")),
                    "{:?}",
                    answer.error
                );
                let noted = say(format!("note {round} <session-{number}>")).await;
                assert_eq!(noted.text, Some(format!("<session-{number}>: {session}")));
            }
            if number % 2 == 0 {
                assert_eq!(say("a person".into()).await.exit, ExitReason::HandedOff);
            }
            let last = say(format!("question 0 <session-{number}>")).await;
            assert_eq!(
                last.exit,
                if number % 2 == 0 { ExitReason::HandedOff } else { ExitReason::Completed }
            );
        });
    }
    while let Some(done) = all.join_next().await {
        done.unwrap();
    }
    for number in 0..SESSIONS {
        let mut thread = store.messages(&format!("desk/s{number}")).unwrap();
        assert_eq!(thread.len(), 4 * ROUNDS + 4 - number % 2, "{number}: nothing that was said is missing");
        // What the model does not read.
        thread.retain(|message| message["kind"] != "said");
        let text: String = thread.iter().map(ToString::to_string).collect();
        assert!(marks(&text).iter().all(|mark| *mark == number.to_string()), "{number}: {text}");
        assert_eq!(thread.len(), 2 * ROUNDS + 1 + number % 2, "{number}");
    }
    let asked = stub.asked();
    assert_eq!(asked.len(), SESSIONS * ROUNDS);
    for one in asked {
        let number = one.path.trim_start_matches("/s").to_owned();
        assert_eq!(marks(one.body["text"].as_str().unwrap()), [number.as_str()]);
        assert_eq!(one.body["who"], format!("<session-{number}>"));
    }
}
