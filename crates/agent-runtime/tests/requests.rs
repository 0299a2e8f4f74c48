//! The log of a run has the request of each turn, as the model was sent it.
#![expect(clippy::unwrap_used, reason = "a test may stop at the first surprise")]

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex};

use agent_runtime::prelude::*;
use agent_runtime::requests::{RecordedRequest, RequestPlace, RequestReader};
use agent_runtime::{AgentState, SubAgent};
use agent_types::{EventSink, ResumeLog, RunId, StoredEvent, SystemClock, ToolDefinition};
use async_trait::async_trait;
use llm_provider::{LlmError, LlmProvider, LlmRequest, LlmStream, ModelInfo};
use run_store::{NewRun, Store, StoredRun};
use serde_json::{Value, json};
use weft_harness::{Cut, Cuts, replies};

/// A scripted model that notes its requests.
#[derive(Debug)]
struct Noting {
    script: ScriptedModel,
    info: ModelInfo,
    seen: Mutex<Vec<LlmRequest>>,
}

impl Noting {
    fn new(lines: &[&str]) -> Arc<Self> {
        Self::with_window(lines, None)
    }

    fn with_window(lines: &[&str], window: Option<u64>) -> Arc<Self> {
        let lines: Vec<String> = lines.iter().map(|line| json!({"text": line}).to_string()).collect();
        let script = ScriptedModel::from_jsonl(&lines.join("\n")).unwrap();
        let mut info = script.info().clone();
        info.context_window = window;
        Arc::new(Self { script, info, seen: Mutex::default() })
    }

    /// The requests as values, oldest first.
    fn seen(&self) -> Vec<Value> {
        self.seen.lock().unwrap().iter().map(|request| serde_json::to_value(request).unwrap()).collect()
    }
}

#[async_trait]
impl LlmProvider for Noting {
    fn info(&self) -> &ModelInfo {
        &self.info
    }

    async fn stream(&self, request: LlmRequest) -> Result<LlmStream, LlmError> {
        if request.purpose.is_some() {
            let message = "no summaries".to_owned();
            return Err(LlmError::Stream { message });
        }
        self.seen.lock().unwrap().push(request.clone());
        self.script.stream(request).await
    }
}

/// Looks at a place.
#[tool]
fn look(at: String) -> String {
    format!("seen: {at} {}", "far ".repeat(1000))
}

/// Four turns, of which the third asks nothing that exists.
const SCRIPT: [&str; 4] = [
    "<ACTION><look><at>a</at></look></ACTION>",
    "<ACTION><look><at>b</at></look></ACTION>",
    "<ACTION><wrong/></ACTION>",
    "All is seen.",
];

fn agent(model: &Arc<Noting>) -> Agent {
    Agent::from_profile(
        serde_json::from_value(json!({"id": "a", "name": "A", "version": "1", "schema_version": "1"}))
            .unwrap(),
        Arc::clone(model) as Arc<dyn LlmProvider>,
        tool_registry::Snapshot::default(),
    )
    .tools(tools![look])
}

async fn run(
    agent: &Agent,
    stored: &Arc<StoredRun>,
    state: AgentState,
    log: Option<ResumeLog>,
) -> AgentState {
    let sink = Arc::clone(stored) as Arc<dyn EventSink>;
    let (_, state) = agent.start_in(state, "Look.", sink, log).unwrap().outcome().await;
    stored.close().await.unwrap();
    state
}

fn begin(store: &Store, run: &str) -> Arc<StoredRun> {
    store.begin(NewRun::new(RunId::new(run)), Arc::new(SystemClock)).unwrap()
}

fn read(
    store: &Store,
    run: &str,
    call: Option<&str>,
    turn: u32,
) -> Result<RecordedRequest, BTreeSet<RequestPlace>> {
    read_at(store, run, RequestPlace { call: call.map(str::to_owned), turn, ..RequestPlace::default() })
}

fn read_at(store: &Store, run: &str, place: RequestPlace) -> Result<RecordedRequest, BTreeSet<RequestPlace>> {
    let mut reader = RequestReader::new(place);
    let mut events = store.events(&RunId::new(run), 0, usize::MAX).unwrap();
    store.put_values_back(&mut events).unwrap();
    for kept in &events {
        if reader.needs(kept) {
            reader.add(kept);
        }
    }
    reader.finish()
}

/// The recorded request of a turn, as the value that was sent.
fn sent(store: &Store, run: &str, turn: u32) -> Value {
    Value::Object(read(store, run, None, turn).unwrap().request)
}

/// Values of a name that are recorded with the requests of a log.
fn recorded<'e>(events: &'e [StoredEvent], name: &str) -> Vec<&'e Value> {
    let values = events.iter().filter(|kept| kept.event.body.name() == "agent.llm.started");
    let values = values.filter_map(|kept| kept.record.as_ref()).flat_map(|record| &record.values);
    values.filter(|(own, _)| **own == *name).map(|(_, value)| &**value).collect()
}

#[tokio::test]
async fn each_turn_has_its_request_and_what_they_share_is_kept_once() {
    let store = Store::memory().unwrap();
    let model = Noting::new(&SCRIPT);
    let state = run(&agent(&model), &begin(&store, "r"), AgentState::default(), None).await;
    let seen = model.seen();
    assert_eq!(seen.len(), 4);
    for (turn, request) in (1..).zip(&seen) {
        assert_eq!(sent(&store, "r", turn), *request, "turn {turn}");
    }
    let second = sent(&store, "r", 2)["messages"].to_string();
    assert!(second.contains("seen: a") && !second.contains("seen: b"), "the observation of turn 1: {second}");
    let places = read(&store, "r", None, 5).unwrap_err();
    assert_eq!(places.iter().map(ToString::to_string).next_back().unwrap(), "turn 4");
    let events = store.events(&RunId::new("r"), 0, usize::MAX).unwrap();
    let messages = recorded(&events, "message");
    assert_eq!(messages.len(), seen[3]["messages"].as_array().unwrap().len(), "each message once");
    assert_eq!(recorded(&events, "settings").len(), 1);
    let blobs: Vec<&str> = messages.iter().filter_map(|message| message["$blob"].as_str()).collect();
    assert!(blobs.len() >= 2, "long observations are blobs: {messages:?}");
    assert!(blobs.iter().all(|sha| store.blob(sha).unwrap().is_some()));
    // Another run of the conversation has a log of its own, in which its requests are whole.
    let model = Noting::new(&["Again."]);
    run(&agent(&model), &begin(&store, "next"), state, None).await;
    assert_eq!(sent(&store, "next", 1), model.seen()[0]);
}

#[tokio::test]
async fn a_resumed_run_has_each_request_once() {
    let store = Store::memory().unwrap();
    run(&agent(&Noting::new(&SCRIPT)), &begin(&store, "whole"), AgentState::default(), None).await;
    for Cut { upto, id, run: stored, log } in Cuts::new(&store, "whole") {
        let before = recorded(&log.events, "shared").len();
        let model = Noting::new(&SCRIPT[replies(&log)..]);
        run(&agent(&model), &stored, AgentState::default(), Some(log)).await;
        drop(stored);
        let events = store.events(&id, 0, usize::MAX).unwrap();
        assert_eq!(recorded(&events, "shared").len(), 4, "cut at {upto}");
        // What was sent before the cut has the frame of the other run.
        for (turn, request) in (1..=4).rev().zip(model.seen().iter().rev()).filter(|(turn, _)| *turn > before)
        {
            let turn = u32::try_from(turn).unwrap();
            assert_eq!(sent(&store, id.as_str(), turn), *request, "cut at {upto}, turn {turn}");
        }
    }
}

#[tokio::test]
async fn a_request_behind_a_compaction_is_whole() {
    let store = Store::memory().unwrap();
    let look = |at: &str| format!("<ACTION><look><at>{at}</at></look></ACTION>");
    let script = [look("a"), look("b"), look("c"), look("d"), "Done.".to_owned()];
    let model = Noting::with_window(&script.each_ref().map(String::as_str), Some(3500));
    run(&agent(&model), &begin(&store, "r"), AgentState::default(), None).await;
    let seen = model.seen();
    assert_eq!(seen.len(), 5);
    for (turn, request) in (1..).zip(&seen) {
        assert_eq!(sent(&store, "r", turn), *request, "turn {turn}");
    }
    let events = store.events(&RunId::new("r"), 0, usize::MAX).unwrap();
    assert!(events.iter().any(|kept| kept.event.body.name() == "agent.compacted"));
    assert!(recorded(&events, "shared").iter().filter(|shared| ***shared == 0).count() > 1);
    let places = read(&store, "r", None, 9).unwrap_err();
    let asked = places.iter().find(|place| place.summary).expect("the place of the summary");
    assert!(asked.to_string().starts_with("the summary in turn "), "{asked}");
    let summary = read_at(&store, "r", asked.clone()).unwrap();
    let said = summary.request["messages"].to_string();
    assert!(said.contains("Sum up the conversation") && said.contains("seen: a"), "{said}");
    assert_eq!((summary.model.as_str(), summary.digest.len()), ("scripted", 16));
}

#[tokio::test]
async fn an_agent_inside_a_call_has_its_requests_too() {
    let store = Store::memory().unwrap();
    let inner = Noting::new(&SCRIPT);
    let schema = json!({"type": "object", "properties": {"task": {"type": "string"}}, "required": ["task"]});
    let definition = ToolDefinition::new("clerk".parse().unwrap(), "Looks.", schema);
    let clerk = SubAgent::new(agent(&inner)).into_tool(definition).unwrap();
    let outer = Noting::new(&["<ACTION><clerk><task>t</task></clerk></ACTION>", "Done."]);
    run(&agent(&outer).tool(clerk), &begin(&store, "r"), AgentState::default(), None).await;
    for (turn, request) in (1..).zip(inner.seen()) {
        let recorded = read(&store, "r", Some("c1"), turn).unwrap();
        assert_eq!(Value::Object(recorded.request), request, "turn {turn}");
    }
    assert_eq!(sent(&store, "r", 2), outer.seen()[1]);
}
