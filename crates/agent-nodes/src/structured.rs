//! `agent:Extract`, and what it shares with `agent:Classify`: answers that fit a JSON Schema.

use std::sync::Arc;

use agent_runtime::driver::answer_schema::AnswerSchema;
use agent_runtime::prompt::text::framed;
use async_trait::async_trait;
use llm_provider::{LlmRequest, Message, ModelParameters};
use protocol_action::neutralize;
use serde_json::{Map, Value};
use tool_schema::ToolSet;
use workflow_engine::{Inputs, Node, NodeContext, NodeError, Outputs, Prepared, Problem};
use workflow_model::{DataFlowType, NodeDefinition};

use crate::agent_env::AgentEnv;
use crate::define::{any, as_text, made, prepared, read, required, setting, text};
use crate::request::{answer_within, log_of, model};

/// Answers that are asked for: the first, and a correction of it.
const ANSWERS: usize = 2;

/// A request for a value.
pub(crate) struct ValueRequest {
    profile: Option<String>,
    parameters: ModelParameters,
    schema: Value,
    answers: AnswerSchema,
}

/// Settings of a node that asks for a value.
pub(crate) fn with_settings(definition: NodeDefinition) -> NodeDefinition {
    definition
        .config(
            "profileId",
            setting(DataFlowType::String, "entry of the model; absent means the default one"),
        )
        .config("parameters", setting(DataFlowType::Object, "settings of the request, such as `temperature`"))
}

impl ValueRequest {
    /// Reads the settings beside the schema; a schema that cannot be used is a fault of the setting of that key.
    pub(crate) fn read(
        config: &Map<String, Value>,
        (key, schema): (&str, Value),
        faults: &mut Vec<Problem>,
    ) -> Option<Self> {
        let profile = read(config, "profileId", faults);
        let parameters = read(config, "parameters", faults).unwrap_or_default();
        match AnswerSchema::new(&schema) {
            Ok(answers) => Some(Self { profile, parameters, schema, answers }),
            Err(error) => {
                faults.push(Problem::setting(key, format!("it is not a usable JSON Schema: {error}")));
                None
            }
        }
    }

    /// Asks for the value. Where the provider knows structured output, the model is held to the schema; the answer is
    /// checked in any case, and corrected once.
    pub(crate) async fn ask(
        &self,
        ctx: &NodeContext,
        env: &AgentEnv<'_>,
        instructions: String,
        subject: &Value,
    ) -> Result<Value, NodeError> {
        let model = model(ctx, self.profile.as_deref())?;
        let system = format!(
            "{instructions}\nWrite nothing but one JSON value that fits this JSON Schema: {}",
            self.schema
        );
        let subject = framed("text", &[neutralize(&as_text(subject)).into_owned()], &env.frame());
        let mut messages = vec![Message::system(system), Message::user(subject)];
        let (log, no_tools) = (log_of(ctx, env), Arc::new(ToolSet::default()));
        let mut fault = String::new();
        for _ in 0..ANSWERS {
            let request = LlmRequest::new(messages.clone())
                .with_parameters(self.parameters.clone())
                .with_response_schema(self.schema.clone());
            let answer = answer_within(ctx, env, &log, (&*model, request), &no_tools).await?;
            match self.answers.read(&answer.parsed.text) {
                Ok(value) => return Ok(value),
                Err(wrong) => fault = wrong,
            }
            messages.push(Message::assistant(answer.response.text));
            let correction = format!("This is not the value: {fault}. Write the corrected JSON value alone.");
            messages.push(Message::user(correction));
        }
        let message = format!("the model's answer does not fit the schema: {fault}");
        Err(NodeError::new(message).with_code("output_schema"))
    }
}

/// Takes a value out of a text.
pub(crate) struct Extract(NodeDefinition);

/// The settings.
struct Extraction {
    request: ValueRequest,
    instruction: Option<String>,
}

impl Extract {
    pub(crate) fn new() -> Self {
        let definition = NodeDefinition::new(
            "agent:Extract",
            "Has a language model take a value of a JSON Schema out of a text. The answer is checked, and corrected once.",
        )
        .input("text", any("the text; a value that is not a text is written as JSON").required())
        .input("instruction", text("what to look for, beside the setting").optional())
        .output("value", any("the value"))
        .config("schema", setting(DataFlowType::Object, "JSON Schema of the value; descriptions in it help the model").required())
        .config("instruction", setting(DataFlowType::String, "what to look for, and how to write it"));
        Self(with_settings(definition))
    }
}

#[async_trait]
impl Node for Extract {
    fn definition(&self) -> &NodeDefinition {
        &self.0
    }

    fn prepare(&self, config: &Map<String, Value>) -> Result<Prepared, Vec<Problem>> {
        let mut faults = Vec::new();
        let instruction = read(config, "instruction", &mut faults);
        let schema: Map<String, Value> = required(config, "schema", &mut faults).unwrap_or_default();
        let request = ValueRequest::read(config, ("schema", schema.into()), &mut faults);
        prepared(request.map(|request| Extraction { request, instruction }), faults)
    }

    async fn run(&self, ctx: NodeContext, inputs: Inputs) -> Result<Outputs, NodeError> {
        let Extraction { request, instruction } = made(&ctx)?;
        let env = AgentEnv::new(&ctx);
        let mut instructions =
            "Take the value out of the text between the lines. What the text does not say is left out, or null where the schema requires it.".to_owned();
        let more = inputs.get("instruction").map(|value| as_text(value));
        for more in instruction.iter().chain(&more).filter(|text| !text.trim().is_empty()) {
            instructions.extend([" ", more.trim()]);
        }
        let value = request.ask(&ctx, &env, instructions, inputs.required("text")?).await?;
        Ok(Outputs::value(value))
    }
}
