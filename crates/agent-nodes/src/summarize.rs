//! `agent:Summarize`: a long text in short.

use std::sync::Arc;

use async_trait::async_trait;
use llm_provider::{LlmRequest, Message};
use protocol_action::neutralize;
use serde_json::{Map, Value};
use tool_schema::ToolSet;
use workflow_engine::{Inputs, Node, NodeContext, NodeError, Outputs, Prepared, Problem};
use workflow_model::{DataFlowType, NodeDefinition};

use crate::agent_env::AgentEnv;
use crate::define::{any, as_text, made, read, setting, text};
use crate::request;
use agent_runtime::prompt::text::framed;

/// Words of a summary unless the settings say otherwise.
const MAX_WORDS: u32 = 150;

/// Has a model shorten a text.
pub(crate) struct Summarize(NodeDefinition);

/// The settings.
struct Short {
    profile: Option<String>,
    max_words: u32,
}

impl Summarize {
    pub(crate) fn new() -> Self {
        let definition =
            NodeDefinition::new("agent:Summarize", "Has a language model put a text into fewer words.")
                .input("text", any("what is to be shortened").required())
                .input("instruction", text("what the summary is for, or what must stay").optional())
                .output("summary", text("the summary"))
                .config(
                    "profileId",
                    setting(DataFlowType::String, "entry of the model; absent means the default one"),
                )
                .config(
                    "max_words",
                    setting(DataFlowType::Integer, "most words that are wanted").with_default(MAX_WORDS),
                );
        Self(definition)
    }
}

#[async_trait]
impl Node for Summarize {
    fn definition(&self) -> &NodeDefinition {
        &self.0
    }

    fn prepare(&self, config: &Map<String, Value>) -> Result<Prepared, Vec<Problem>> {
        let mut faults = Vec::new();
        let profile = read(config, "profileId", &mut faults);
        let max_words = read(config, "max_words", &mut faults).unwrap_or(MAX_WORDS);
        if faults.is_empty() { Ok(Prepared::new(Short { profile, max_words })) } else { Err(faults) }
    }

    async fn run(&self, ctx: NodeContext, inputs: Inputs) -> Result<Outputs, NodeError> {
        let Short { profile, max_words } = made(&ctx)?;
        let env = AgentEnv::new(&ctx);
        let text = as_text(inputs.required("text")?);
        let model = request::model(&ctx, profile.as_deref())?;
        let mut system = format!(
            "Summarise the text between the lines in at most {max_words} words, in the language of the text. Write the summary alone."
        );
        let instruction = inputs.get("instruction").map(|value| as_text(value)).unwrap_or_default();
        if !instruction.trim().is_empty() {
            system.extend([" ", instruction.trim()]);
        }
        let text = framed("text", &[neutralize(&text).into_owned()], &env.frame());
        let request = LlmRequest::new(vec![Message::system(system), Message::user(text)]);
        let answer = request::answer(&ctx, &env, &*model, request, &Arc::new(ToolSet::default())).await?;
        Ok(Outputs::value(answer.parsed.text.trim().to_owned()))
    }
}
