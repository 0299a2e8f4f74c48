//! The window of a model holds: no request is larger, and nothing spins.
#![expect(
    clippy::unwrap_used,
    clippy::needless_pass_by_value,
    reason = "a test may stop at the first surprise"
)]

use std::collections::VecDeque;
use std::sync::{Arc, Mutex};

use agent_runtime::prelude::*;
use agent_runtime::{AgentProfile, AgentState, Exchange, SubAgent};
use agent_types::{EventBody, ToolDefinition};
use async_trait::async_trait;
use futures::{StreamExt, stream};
use llm_provider::{LlmError, LlmEvent, LlmProvider, LlmRequest, LlmStream, ModelInfo, StandardResponse};
use serde_json::{Value, json};
use tool_registry::Snapshot;

type Reply = Result<&'static str, LlmError>;

/// A model that notes its requests. Summaries have replies of their own.
#[derive(Debug)]
struct Noting {
    info: ModelInfo,
    replies: Mutex<VecDeque<Reply>>,
    summaries: Reply,
    seen: Mutex<Vec<LlmRequest>>,
}

impl Noting {
    fn new(window: Option<u64>, replies: impl IntoIterator<Item = Reply>, summaries: Reply) -> Arc<Self> {
        let mut info = ModelInfo::default();
        info.context_window = window;
        let replies = Mutex::new(replies.into_iter().collect());
        Arc::new(Self { info, replies, summaries, seen: Mutex::default() })
    }

    /// Sizes of the requests for replies.
    fn sizes(&self) -> Vec<usize> {
        let seen = self.seen.lock().unwrap();
        seen.iter().filter(|request| request.purpose.is_none()).map(LlmRequest::tokens).collect()
    }

    /// All that was sent, as text.
    fn sent(&self) -> String {
        let seen = self.seen.lock().unwrap();
        seen.iter().map(|request| serde_json::to_string(&*request.messages).unwrap()).collect()
    }
}

#[async_trait]
impl LlmProvider for Noting {
    fn info(&self) -> &ModelInfo {
        &self.info
    }

    async fn stream(&self, request: LlmRequest) -> Result<LlmStream, LlmError> {
        let is_summary = request.purpose.is_some();
        self.seen.lock().unwrap().push(request);
        let reply = if is_summary {
            self.summaries.clone()
        } else {
            self.replies.lock().unwrap().pop_front().unwrap_or(Ok("Done."))
        };
        let text = reply?.to_owned();
        let response = StandardResponse { text, ..StandardResponse::default() };
        Ok(stream::iter(response.into_events().into_iter().map(Ok::<LlmEvent, _>)).boxed())
    }
}

fn profile(more: Value) -> AgentProfile {
    let mut profile = json!({"id": "a", "name": "A", "version": "1", "schema_version": "1", "tool_ids_inventory": [], "skill_workflow_ids_inventory": []});
    profile.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    serde_json::from_value(profile).unwrap()
}

fn agent(model: &Arc<Noting>, more: Value) -> Agent {
    let model = Arc::clone(model) as Arc<dyn LlmProvider>;
    Agent::from_profile(profile(more), model, Snapshot::default())
}

/// Runs an agent; returns its outcome, and its events in short.
async fn run(agent: &Agent, state: AgentState, message: &str) -> (RunOutcome, Vec<String>) {
    let run = agent.start(state, message).unwrap();
    let mut events = run.subscribe(100_000);
    let (outcome, _) = run.outcome().await;
    let short = weft_harness::events(&mut events).into_iter().filter_map(|event| match event.body {
        EventBody::AgentCompacted { by } => Some(format!("compacted {by}")),
        EventBody::AgentWarning { kind, .. } => Some(format!("warning {kind}")),
        EventBody::AgentBudget { key, .. } => Some(format!("budget {key}")),
        EventBody::AgentTurnStarted {} => Some("turn".to_owned()),
        _ => None,
    });
    (outcome, short.collect())
}

fn too_long(window: Option<u64>) -> LlmError {
    LlmError::ContextTooLong { message: "too long".into(), window }
}

/// A conversation of this many messages of about 50 tokens each.
fn talk(messages: usize) -> AgentState {
    let said = (0..messages).map(|number| Exchange::user(format!("{number} {}", "word ".repeat(40))));
    AgentState::from_history(said.collect())
}

/// Gives so many bytes.
#[tool(read_only, result_limit = 1_000_000)]
fn long(bytes: usize, mark: String) -> String {
    format!("{mark} {}", "x".repeat(bytes))
}

#[tokio::test]
async fn what_does_not_fit_alone_is_not_sent() {
    let model = Noting::new(Some(500), [], Ok("Short."));
    let (outcome, events) =
        run(&agent(&model, json!({"system_prompt": "word ".repeat(600)})), talk(3), "Hi").await;
    assert_eq!(outcome.exit, ExitReason::BudgetExceeded);
    assert!(outcome.error.as_deref().unwrap().contains("`context_window`"), "{outcome:?}");
    assert_eq!(
        (model.sent(), events.as_slice()),
        (String::new(), &["turn", "budget context"].map(str::to_owned)[..])
    );
    // A message that is longer than the window leaves nothing to compact.
    let model = Noting::new(Some(500), [], Ok("Short."));
    let (outcome, events) = run(&agent(&model, json!({})), AgentState::default(), &"word ".repeat(600)).await;
    assert_eq!((outcome.exit, model.sizes().len()), (ExitReason::BudgetExceeded, 0));
    assert_eq!(events, ["turn", "budget context"]);
}

#[tokio::test]
async fn a_hundred_turns_stay_in_the_window() {
    let marks: Vec<&'static str> = (0..99)
        .map(|n| {
            let call =
                format!("<ACTION><long><bytes>{}</bytes><mark>{n}</mark></long></ACTION>", 300 + n * 10);
            &*Box::leak(call.into_boxed_str())
        })
        .collect();
    let model = Noting::new(Some(2_000), marks.into_iter().map(Ok), Ok("They looked."));
    let limits = json!({"budgets": {"turns": 200, "tool_calls": 200}});
    let (outcome, events) =
        run(&agent(&model, limits).tools(tools![long]), AgentState::default(), "Go.").await;
    assert_eq!((outcome.exit, outcome.text.as_str()), (ExitReason::Completed, "Done."), "{outcome:?}");
    let sizes = model.sizes();
    assert_eq!(sizes.len(), 100);
    assert!(sizes.iter().all(|size| *size <= 2_000), "{sizes:?}");
    let in_a_row = events.split(|event| event == "turn").map(<[String]>::len).max().unwrap();
    assert!(in_a_row <= 2, "{events:?}");
    let compactions = events.iter().filter(|event| event.starts_with("compacted")).count();
    assert!(compactions < 50, "{compactions}");
}

#[tokio::test]
async fn a_result_is_cut_to_what_fits_with_a_pointer_to_the_rest() {
    let call = "<ACTION><long><bytes>400000</bytes><mark>m</mark></long></ACTION>";
    let model = Noting::new(Some(2_000), [Ok(call)], Ok("They looked."));
    let (outcome, _) = run(&agent(&model, json!({})).tools(tools![long]), AgentState::default(), "Go.").await;
    assert_eq!(outcome.exit, ExitReason::Completed);
    let sizes = model.sizes();
    assert!(sizes.len() == 2 && sizes[1] <= 2_000 && sizes[1] > 1_000, "{sizes:?}");
    assert!(model.sent().contains("read it with system:read_blob"));
}

#[tokio::test]
async fn a_server_that_finds_it_too_long_is_believed() {
    let model = Noting::new(None, [Err(too_long(Some(600))), Ok("Hello.")], Ok("They spoke."));
    let (outcome, events) = run(&agent(&model, json!({})), talk(20), "Hi").await;
    assert_eq!((outcome.exit, outcome.text.as_str()), (ExitReason::Completed, "Hello."));
    assert_eq!(events, ["turn", "warning context_window", "compacted summary"]);
    let sizes = model.sizes();
    assert!(sizes[0] > 600 && sizes[1] <= 600, "{sizes:?}");
    // Twice is an end.
    let model = Noting::new(None, [Err(too_long(None)), Err(too_long(None))], Ok("They spoke."));
    let (outcome, _) = run(&agent(&model, json!({})), talk(20), "Hi").await;
    assert_eq!((outcome.exit, model.sizes().len()), (ExitReason::LlmFailed, 2));
}

#[tokio::test]
async fn a_summary_that_fails_is_cut_and_keeps_its_pointers() {
    let failing = Err(LlmError::Status { status: 500, message: String::new(), retry_after: None });
    let model = Noting::new(Some(1_000), [], failing);
    let mut said = talk(20).history().to_vec();
    said.insert(3, Exchange::user(format!("{} the whole is at blob:abc123, see there", "word ".repeat(60))));
    let (outcome, events) = run(&agent(&model, json!({})), AgentState::from_history(said), "Hi").await;
    assert_eq!(outcome.exit, ExitReason::Completed);
    assert!(events.contains(&"compacted fallback".to_owned()), "{events:?}");
    let last = serde_json::to_string(&*model.seen.lock().unwrap().last().unwrap().messages).unwrap();
    assert!(last.contains("blob:abc123") && last.contains("system:read_blob"), "{last}");
}

#[tokio::test]
async fn an_agent_inside_hands_over_what_it_has_at_its_limit() {
    let look = "I have found one. <ACTION><long><bytes>5</bytes><mark>m</mark></long></ACTION>";
    let inner = agent(&Noting::new(None, [Ok(look), Ok(look)], Ok("")), json!({"budgets": {"turns": 1}}));
    let schema = json!({"type": "object", "properties": {"task": {"type": "string"}}, "required": ["task"]});
    let definition = ToolDefinition::new("clerk".parse().unwrap(), "Looks.", schema);
    let clerk = SubAgent::new(inner.tools(tools![long])).into_tool(definition).unwrap();
    let model = Noting::new(None, [Ok("<ACTION><clerk><task>t</task></clerk></ACTION>"), Ok("One.")], Ok(""));
    let (outcome, _) = run(&agent(&model, json!({})).tool(clerk), AgentState::default(), "Go.").await;
    assert_eq!((outcome.exit, outcome.text.as_str()), (ExitReason::Completed, "One."));
    let sent = model.sent();
    assert!(sent.contains("Tool clerk executed successfully. Result: I have found one."), "{sent}");
    assert!(sent.contains("Note - partial: it ended with max_turns"), "{sent}");
}
