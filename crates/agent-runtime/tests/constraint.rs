//! The grammar that requests carry for models that ask for one.

#![expect(clippy::unwrap_used, reason = "a test may stop at the first surprise")]

use std::sync::{Arc, Mutex};

use agent_runtime::{Agent, AgentProfile, AgentState};
use agent_types::EventBody;
use agent_types::ToolDefinition;
use async_trait::async_trait;
use llm_provider::{
    Constraint, GrammarForm, LlmError, LlmProvider, LlmRequest, LlmStream, ModelInfo, ScriptedModel,
};
use serde_json::{Map, Value, json};
use tool_registry::{
    Snapshot, Tool, ToolContext, ToolError, ToolHandler, ToolKind, ToolOutput, ToolSettings, Visibility,
};

/// A model that keeps the grammars of its requests.
#[derive(Debug)]
struct Constrained {
    model: ScriptedModel,
    info: ModelInfo,
    seen: Mutex<Vec<Option<Constraint>>>,
}

impl Constrained {
    fn new(form: Option<GrammarForm>, small: bool) -> Arc<Self> {
        let script = "{\"text\": \"<ACTION><find><q>1</q></find></ACTION>\"}\n{\"text\": \"It is 1.\"}";
        let mut info = ModelInfo::default();
        info.grammar = form;
        info.small = small;
        Arc::new(Self { model: ScriptedModel::from_jsonl(script).unwrap(), info, seen: Mutex::default() })
    }
}

#[async_trait]
impl LlmProvider for Constrained {
    fn info(&self) -> &ModelInfo {
        &self.info
    }

    async fn stream(&self, request: LlmRequest) -> Result<LlmStream, LlmError> {
        self.seen.lock().unwrap().push(request.constraint.clone());
        self.model.stream(request).await
    }
}

struct Says;

#[async_trait]
impl ToolHandler for Says {
    async fn call(&self, arguments: Map<String, Value>, _: &ToolContext) -> Result<ToolOutput, ToolError> {
        Ok(ToolOutput::Json(arguments.into()))
    }
}

fn tool(id: &str, parameters: Value, visibility: Visibility) -> Tool {
    let definition = ToolDefinition::new(id.parse().unwrap(), "Does it.", parameters);
    let settings = ToolSettings::default().with_visibility(visibility);
    Tool::new(definition, ToolKind::NATIVE, Says).with_settings(settings)
}

fn tools() -> Snapshot {
    let number = json!({"type": "object", "required": ["q"], "properties": {"q": {"type": "integer"}}});
    let odd = json!({"type": "object", "required": ["on"], "properties": {"on": {"type": "boolean", "enum": ["yes"]}}});
    Snapshot::new([
        tool("find", number.clone(), Visibility::Direct),
        tool("far", number.clone(), Visibility::Discoverable),
        tool("gone", number, Visibility::Hidden),
        tool("odd", odd, Visibility::Direct),
    ])
    .unwrap()
}

/// Grammars of the requests of a run, and its warnings.
async fn run(model: &Arc<Constrained>) -> (Vec<Option<Constraint>>, Vec<String>) {
    let agent =
        Agent::from_profile(AgentProfile::new("a"), Arc::clone(model) as Arc<dyn LlmProvider>, tools());
    let run = agent.start(AgentState::default(), "Find 1.").unwrap();
    let mut subscription = run.subscribe(1_000);
    run.outcome().await;
    let events = weft_harness::events(&mut subscription);
    let warnings = events.iter().filter_map(|event| match &event.body {
        EventBody::AgentWarning { kind, message } => Some(format!("{kind}: {message}")),
        _ => None,
    });
    (model.seen.lock().unwrap().clone(), warnings.collect())
}

#[tokio::test]
async fn a_model_that_asks_for_a_grammar_is_sent_one_with_each_request() {
    let model = Constrained::new(Some(GrammarForm::Gbnf), false);
    let (seen, warnings) = run(&model).await;
    assert_eq!(seen.len(), 2);
    assert_eq!(seen[0], seen[1]);
    let grammar = seen[0].as_ref().unwrap();
    assert_eq!(grammar.form, GrammarForm::Gbnf);
    assert!(grammar.text.contains(r#""\n  <find>\n    <q>""#), "{}", grammar.text);
    // A tool that is only named may be called for its parameters; a hidden one may not be called.
    assert!(grammar.text.contains(r#""\n  <far>" ("#), "{}", grammar.text);
    assert!(!grammar.text.contains("gone") && !grammar.text.contains("odd"), "{}", grammar.text);
    let expected = "not_in_grammar: no call of odd can be written under its grammar: /on: no legal value is of type boolean";
    assert_eq!(warnings, [expected]);
}

#[tokio::test]
async fn a_small_model_has_tight_bounds_and_a_free_one_none() {
    let (wide, _) = run(&Constrained::new(Some(GrammarForm::Lark), false)).await;
    let (narrow, _) = run(&Constrained::new(Some(GrammarForm::Lark), true)).await;
    assert!(wide[0].as_ref().unwrap().text.contains("{1,16}"));
    assert!(!narrow[0].as_ref().unwrap().text.contains("{1,16}"));
    let (free, warnings) = run(&Constrained::new(None, true)).await;
    assert_eq!((free, warnings), (vec![None, None], vec![]));
}
