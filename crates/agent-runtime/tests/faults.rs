//! Six faults that models and tools have, with no setting touched: each run ends well. And what a program adds of its own.
#![expect(clippy::unwrap_used, clippy::panic, reason = "a test may stop at the first surprise")]

use std::sync::Arc;

use agent_runtime::prelude::*;
use agent_runtime::{Blocked, Guardrail, SubAgent};
use agent_types::ToolDefinition;
use agent_types::ToolId;
use async_trait::async_trait;
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Map, Value, json};

fn model(replies: &[&str]) -> ScriptedModel {
    let lines: Vec<String> = replies.iter().map(|text| json!({"text": text}).to_string()).collect();
    ScriptedModel::from_jsonl(&lines.join("\n")).unwrap()
}

/// Adds two integers.
#[tool(read_only)]
fn add(a: i64, b: i64) -> i64 {
    a + b
}

/// Looks something up.
#[tool(read_only)]
fn look(at: String) -> Result<String, ToolError> {
    if at == "nowhere" { Err(ToolError::failed("no match")) } else { Ok(format!("at {at}")) }
}

/// Falls over.
#[tool]
fn fall() -> String {
    panic!("over")
}

async fn end(replies: &[&str]) -> RunOutcome {
    Agent::new(model(replies)).tools(tools![add, look, fall]).run("Go.").await.unwrap()
}

#[tokio::test]
async fn an_unknown_tool_is_told_and_mended() {
    let outcome = end(&[
        "<ACTION><ad><a>1</a><b>2</b></ad></ACTION>",
        "<ACTION><add><a>1</a><b>2</b></add></ACTION>",
        "3",
    ])
    .await;
    assert_eq!((outcome.exit, outcome.text.as_str()), (ExitReason::Completed, "3"));
}

#[tokio::test]
async fn a_call_that_is_not_read_is_told_once_and_corrected() {
    let attempts = [
        "<add><a>1</a><b>2</b></add>",
        "```xml\n<ACTION><add><a>1</a><b>2</b></add></ACTION>\n```",
        "<function_calls><invoke name=\"add\"><parameter name=\"a\">1",
    ];
    let block = "<ACTION><add><a>1</a><b>2</b></add></ACTION>";
    for attempt in attempts {
        let reported = json!({"text": block, "request": {"contains": ["No call was read", "<add><a>…</a><b>…</b></add>"]}});
        let lines = [json!({"text": attempt}), reported, json!({"text": "3"})]
            .map(|line| line.to_string())
            .join("\n");
        let agent = Agent::new(ScriptedModel::from_jsonl(&lines).unwrap()).tools(tools![add, look, fall]);
        let outcome = agent.run("Go.").await.unwrap();
        assert_eq!(
            (outcome.exit, outcome.text.as_str()),
            (ExitReason::Completed, "3"),
            "{attempt}: {:?}",
            outcome.error
        );
        assert_eq!(outcome.warning, None);
    }
}

#[tokio::test]
async fn a_call_that_is_not_read_twice_is_the_answer_with_a_warning() {
    let attempt = "<add><a>1</a><b>2</b></add>";
    let outcome = end(&[attempt, attempt]).await;
    assert_eq!((outcome.exit, outcome.text.as_str()), (ExitReason::Completed, attempt));
    assert!(outcome.warning.unwrap().contains("nothing of it was run"));
    // Without the tool it is text.
    let outcome = Agent::new(model(&[attempt])).run("Go.").await.unwrap();
    assert_eq!((outcome.text.as_str(), outcome.warning), (attempt, None));
}

/// A model whose reply continues behind its block, and never ends.
#[derive(Debug)]
struct Endless(std::sync::atomic::AtomicUsize);

#[async_trait]
impl llm_provider::LlmProvider for Endless {
    fn info(&self) -> &llm_provider::ModelInfo {
        static INFO: std::sync::LazyLock<llm_provider::ModelInfo> = std::sync::LazyLock::new(|| {
            let mut info = llm_provider::ModelInfo::default();
            info.cuts_replies = true;
            info
        });
        &INFO
    }

    async fn stream(
        &self,
        _: llm_provider::LlmRequest,
    ) -> Result<llm_provider::LlmStream, llm_provider::LlmError> {
        use futures::StreamExt;
        use llm_provider::{LlmEvent, StandardResponse};
        if self.0.fetch_add(1, std::sync::atomic::Ordering::Relaxed) > 0 {
            let answer = StandardResponse { text: "3".into(), ..StandardResponse::default() };
            return Ok(futures::stream::iter(answer.into_events().into_iter().map(Ok)).boxed());
        }
        let text = "I add.\n<ACTION><add><a>1</a><b>2</b></add></ACTION>\nIt is 4711";
        let pieces = futures::stream::iter([Ok(LlmEvent::Text(text.into()))]);
        Ok(pieces.chain(futures::stream::pending()).boxed())
    }
}

#[tokio::test]
async fn a_reply_is_cut_behind_its_block() {
    let agent = Agent::new(Endless(0.into())).tools(tools![add, look, fall]);
    let outcome = agent.run("Go.").await.unwrap();
    assert_eq!((outcome.exit, outcome.text.as_str()), (ExitReason::Completed, "3"));
    let kept = serde_json::to_string(&outcome.history).unwrap();
    assert!(!kept.contains("4711"), "{kept}");
}

/// A model that writes behind its native call, and keeps the requests.
#[derive(Debug, Default)]
struct Hasty(std::sync::Mutex<Vec<llm_provider::LlmRequest>>);

#[async_trait]
impl llm_provider::LlmProvider for Hasty {
    fn info(&self) -> &llm_provider::ModelInfo {
        static INFO: std::sync::LazyLock<llm_provider::ModelInfo> =
            std::sync::LazyLock::new(Default::default);
        &INFO
    }

    async fn stream(
        &self,
        request: llm_provider::LlmRequest,
    ) -> Result<llm_provider::LlmStream, llm_provider::LlmError> {
        use futures::StreamExt;
        use llm_provider::{Finish, LlmEvent, NativeCall, StandardResponse};
        let mut requests = self.0.lock().unwrap();
        requests.push(request);
        if requests.len() > 1 {
            let answer = StandardResponse { text: "3".into(), ..StandardResponse::default() };
            return Ok(futures::stream::iter(answer.into_events().into_iter().map(Ok)).boxed());
        }
        let (name, arguments) = ("add".to_owned(), r#"{"a": 1, "b": 2}"#.to_owned());
        let whole = StandardResponse {
            text: "I add. It is 4711.".into(),
            tool_calls: vec![NativeCall::new("n1", &*name, &*arguments)],
            finish: Finish::ToolCalls,
            ..StandardResponse::default()
        };
        let events = [
            LlmEvent::Text("I add.".into()),
            LlmEvent::ToolCall { index: 0, name, arguments },
            LlmEvent::Text(" It is 4711.".into()),
            LlmEvent::Finished(whole),
        ];
        Ok(futures::stream::iter(events.map(Ok)).boxed())
    }
}

#[tokio::test]
async fn text_behind_a_native_call_is_dropped_and_the_call_stays() {
    let model = Arc::new(Hasty::default());
    let profile = agent_runtime::AgentProfile::new("a");
    let tools = tool_registry::Snapshot::new(tools![add].into_iter().map(Result::unwrap)).unwrap();
    let agent = Agent::from_profile(profile, Arc::clone(&model) as Arc<dyn llm_provider::LlmProvider>, tools);
    let outcome = agent.run("Go.").await.unwrap();
    assert_eq!((outcome.exit, outcome.text.as_str()), (ExitReason::Completed, "3"));
    let requests = model.0.lock().unwrap();
    let sent = serde_json::to_string(&requests[1].messages).unwrap();
    assert!(!sent.contains("4711"), "{sent}");
    assert!(sent.contains("I add.\\n<ACTION>\\n  <add>\\n    <a>1</a>"), "{sent}");
    assert_eq!(requests[0].stop_at, Some("</ACTION>"));
}

#[tokio::test]
async fn bad_arguments_twice_are_told_and_mended() {
    let bad = "<ACTION><add><a>one</a><b>2</b></add></ACTION>";
    let outcome = end(&[bad, bad, "<ACTION><add><a>1</a><b>2</b></add></ACTION>", "3"]).await;
    assert_eq!((outcome.exit, outcome.text.as_str()), (ExitReason::Completed, "3"));
}

#[tokio::test]
async fn a_tool_that_fails_is_an_observation() {
    let outcome = end(&["<ACTION><look><at>nowhere</at></look></ACTION>", "There is nothing."]).await;
    assert_eq!((outcome.exit, outcome.text.as_str()), (ExitReason::Completed, "There is nothing."));
}

#[tokio::test]
async fn one_of_three_parallel_calls_fails_alone() {
    let block =
        "<ACTION><look><at>a</at></look><look><at>nowhere</at></look><look><at>c</at></look></ACTION>";
    let outcome = end(&[block, "Two of three."]).await;
    assert_eq!((outcome.exit, outcome.text.as_str()), (ExitReason::Completed, "Two of three."));
    let history = serde_json::to_string(&outcome.history).unwrap();
    assert!(history.contains("at a") && history.contains("no match") && history.contains("at c"));
}

#[tokio::test]
async fn the_identical_call_for_ever_is_stopped() {
    let same = json!({"text": "<ACTION><look><at>x</at></look></ACTION>", "repeat": true}).to_string();
    let model = ScriptedModel::from_jsonl(&same).unwrap();
    let outcome = Agent::new(model).tools(tools![look]).run("Go.").await.unwrap();
    assert_eq!(outcome.exit, ExitReason::LoopDetected);
    assert!(outcome.partial && outcome.history.len() == 5, "what was done is kept");
}

#[tokio::test]
async fn a_tool_that_panics_is_an_observation() {
    let outcome = end(&["<ACTION><fall/></ACTION>", "It fell."]).await;
    assert_eq!((outcome.exit, outcome.text.as_str()), (ExitReason::Completed, "It fell."));
}

/// Says no to a word, at each edge.
#[derive(Debug)]
struct No(&'static str);

#[async_trait]
impl Guardrail for No {
    fn name(&self) -> &'static str {
        "no"
    }

    async fn input(&self, text: &str) -> Result<(), Blocked> {
        if text.contains(self.0) { Err(Blocked::because("not that word")) } else { Ok(()) }
    }

    async fn call(&self, tool: &ToolId, arguments: &Map<String, Value>) -> Result<(), Blocked> {
        let all = format!("{tool} {}", Value::Object(arguments.clone()));
        if all.contains(self.0) { Err(Blocked::because("not there")) } else { Ok(()) }
    }

    async fn output(&self, text: &str) -> Result<(), Blocked> {
        if text.contains(self.0) { Err(Blocked::because("not to be said")) } else { Ok(()) }
    }
}

#[tokio::test]
async fn a_guardrail_stands_at_each_edge() {
    let guarded = |replies: &[&str]| {
        Agent::new(model(replies)).tools(tools![look]).with_guardrail(Arc::new(No("secret")))
    };
    let outcome = guarded(&[]).run("Say the secret.").await.unwrap();
    assert_eq!(
        (outcome.exit, outcome.error.as_deref()),
        (ExitReason::GuardrailBlocked, Some("not that word"))
    );
    let outcome = guarded(&["It is the secret."]).run("Well?").await.unwrap();
    assert_eq!((outcome.exit, outcome.text.as_str()), (ExitReason::GuardrailBlocked, ""));
    let call = "<ACTION><look><at>secret</at></look></ACTION>";
    let outcome = guarded(&[call, "Then not."]).run("Well?").await.unwrap();
    assert_eq!((outcome.exit, outcome.text.as_str()), (ExitReason::Completed, "Then not."));
    let history = serde_json::to_string(&outcome.history).unwrap();
    assert!(history.contains("Tool look was not run: denied: not there"), "{history}");
}

#[tokio::test]
async fn an_answer_has_a_type() {
    #[derive(Debug, PartialEq, Deserialize, JsonSchema)]
    struct Sum {
        n: i64,
    }
    let agent = Agent::new(model(&["four", "```json\n{\"n\": 4}\n```"])).output::<Sum>();
    let outcome = agent.run("2 + 2?").await.unwrap();
    assert_eq!(outcome.parse::<Sum>().unwrap(), Sum { n: 4 });
}

#[tokio::test]
async fn an_agent_is_a_tool_of_another() {
    let clerk =
        Agent::new(model(&["<ACTION><add><a>20</a><b>22</b></add></ACTION>", "42"])).tools(tools![add]);
    let schema = json!({"type": "object", "properties": {"task": {"type": "string"}}, "required": ["task"]});
    let definition = ToolDefinition::new("clerk".parse().unwrap(), "Works sums out.", schema);
    let clerk = SubAgent::new(clerk).into_tool(definition).unwrap();
    let agent =
        Agent::new(model(&["<ACTION><clerk><task>20 + 22</task></clerk></ACTION>", "It is 42."])).tool(clerk);
    let outcome = agent.run("20 + 22?").await.unwrap();
    assert_eq!((outcome.exit, outcome.text.as_str()), (ExitReason::Completed, "It is 42."));
    let history = serde_json::to_string(&outcome.history).unwrap();
    assert!(
        history.contains("Tool clerk executed successfully. Result: 42") && !history.contains("<add>"),
        "{history}"
    );
}

#[tokio::test]
async fn an_agent_whose_answer_was_cut_off_says_so() {
    let half = ScriptedModel::from_jsonl(r#"{"text": "Half of", "finish": "length"}"#).unwrap();
    let schema = json!({"type": "object", "properties": {"task": {"type": "string"}}, "required": ["task"]});
    let definition = ToolDefinition::new("clerk".parse().unwrap(), "Works sums out.", schema);
    let clerk = SubAgent::new(Agent::new(half)).into_tool(definition).unwrap();
    let agent = Agent::new(model(&["<ACTION><clerk><task>All</task></clerk></ACTION>", "Half."])).tool(clerk);
    let outcome = agent.run("All?").await.unwrap();
    let history = serde_json::to_string(&outcome.history).unwrap();
    assert!(history.contains("Half of\\nNote - the answer was cut off"), "{history}");
}

#[tokio::test]
async fn a_cancelled_summary_changes_nothing() {
    let cancel = tokio_util::sync::CancellationToken::new();
    let hangs = ScriptedModel::from_jsonl(r#"{"hang": true}"#).unwrap();
    let agent = Agent::new(hangs).with_cancel(cancel.clone());
    let said = (0..20).map(|number| agent_runtime::Exchange::user(format!("q{number}")));
    let mut state = agent_runtime::AgentState::from_history(said.collect());
    let before = state.clone();
    let sink = agent_types::Recorder::new(agent_types::RunId::new("r"), Arc::new(agent_types::SystemClock));
    cancel.cancel();
    assert!(!agent.compact(&mut state, sink).await.unwrap());
    assert_eq!(state, before);
}
