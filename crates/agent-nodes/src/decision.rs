//! `agent:LlmDecisionWithTools`: tools, prompt, request and reading in one.

use agent_types::Observation;
use async_trait::async_trait;
use llm_provider::Message;
use serde_json::{Map, Value};
use tool_registry::Snapshot;
use workflow_engine::{Inputs, Node, NodeContext, NodeError, Outputs, Prepared, Problem};
use workflow_model::{DataFlowType, NodeDefinition};

use crate::agent_env::AgentEnv;
use crate::chat::Said;
use crate::define::{list, made, read, setting, text};
use crate::format::{self, Form};
use crate::parse;
use crate::request::{self, LlmRequestConfig, given};
use agent_runtime::prompt::text::framed;
use protocol_action::neutralize;

/// One decision of a model: what it says, and which tools it calls.
pub(crate) struct LlmDecisionWithTools(NodeDefinition);

/// The settings.
struct Decision {
    tools: Option<Vec<String>>,
    form: Form,
    llm: LlmRequestConfig,
}

impl LlmDecisionWithTools {
    pub(crate) fn new() -> Self {
        let definition = NodeDefinition::new(
            "agent:LlmDecisionWithTools",
            "Asks a model what to do next: its tools, its prompt, the request and the reading of the reply in one node.",
        );
        let definition = parse::with_outputs(format::with_inputs(definition))
            .output("history", list("the conversation with this decision").with_category("ChatHistory"))
            .output(
                "text",
                text("the text as it comes, as the model writes it, up to the end of its calls")
                    .stream()
                    .with_category("StreamChunk"),
            )
            .config(
                "tools",
                setting(
                    DataFlowType::Array,
                    "ids of tools; absent means all that the agent or the workflow allows",
                ),
            );
        Self(request::with_settings(format::with_settings(definition)))
    }
}

#[async_trait]
impl Node for LlmDecisionWithTools {
    fn definition(&self) -> &NodeDefinition {
        &self.0
    }

    fn prepare(&self, config: &Map<String, Value>) -> Result<Prepared, Vec<Problem>> {
        let mut faults = Vec::new();
        let tools = read(config, "tools", &mut faults);
        let form = Form::read(config, &mut faults);
        let decision = Decision { tools, form, llm: LlmRequestConfig::read(config, &mut faults) };
        if faults.is_empty() { Ok(Prepared::new(decision)) } else { Err(faults) }
    }

    async fn run(&self, ctx: NodeContext, inputs: Inputs) -> Result<Outputs, NodeError> {
        let Decision { tools, form, llm } = made(&ctx)?;
        let env = AgentEnv::new(&ctx);
        let offered = match tools {
            Some(ids) => env.tools(Some(ids))?,
            None => given(&env, &inputs)?,
        };
        let offering = llm.tools(&env, offered)?;
        let taught = if llm.is_native(&ctx, &env)? { Snapshot::default() } else { offering.taught() };
        let messages = form.messages(&ctx, &env, &inputs, &taught)?;
        let replied = request::request(&ctx, &env, llm, messages.clone(), &offering).await?;
        let mut decided = parse::read(&ctx, &env, &replied);
        let said = messages.iter().filter(|said| !said.is_own_system()).map(Said::value);
        let mut history: Vec<Value> = said.collect();
        history.push(decided.reply.clone());
        history.extend(correction(&decided.observations, &env.frame()));
        for error in decided.errors.iter_mut().filter_map(Value::as_object_mut) {
            // The history has it.
            error.shift_remove("observation");
        }
        Ok(decided.outputs().with("history", history))
    }
}

/// Correction of a faulty reply, for the model.
fn correction(observations: &[Observation], frame: &str) -> Option<Value> {
    let lines: Vec<String> = observations.iter().map(|own| neutralize(&own.line()).into_owned()).collect();
    let message = Message::user(framed("results", &lines, frame));
    (!lines.is_empty()).then(|| Said::results(message).value())
}
