//! `agent:FormatPrompt`: what a model is sent.

use std::sync::Arc;

use agent_types::{CallId, OBSERVATION_PREFIX, Observation, ObservationCode};
use async_trait::async_trait;
use llm_provider::{Attachment, Message, NativeCall};
use node_library::Template;
use serde::Deserialize;
use serde_json::{Map, Value};
use tool_registry::Snapshot;
use workflow_engine::{Inputs, Node, NodeContext, NodeError, Outputs, Prepared, Problem};
use workflow_model::{DataFlowType, NodeDefinition};

use crate::agent_env::AgentEnv;
use crate::chat::{self, Said};
use crate::define::{any, as_text, list, made, read, setting};
use crate::request::ids_of;
use agent_runtime::prompt::text::{Protocol, result_messages, system_text};
use agent_runtime::{CallRecord, Language, Turn};

/// Puts instructions, tools, the conversation and what tools gave into messages.
pub(crate) struct FormatPrompt(NodeDefinition);

/// The settings.
#[derive(Debug, Default)]
pub(crate) struct Form {
    system: Option<String>,
    template: Option<Template>,
    language: Option<Language>,
}

/// Settings of a node that formats a prompt.
pub(crate) fn with_settings(definition: NodeDefinition) -> NodeDefinition {
    definition
        .config(
            "system",
            setting(DataFlowType::String, "instructions that come first; absent means those of the agent"),
        )
        .config(
            "template",
            setting(
                DataFlowType::String,
                "how the query is put, with `{{ query }}`, `history`, `observation`, `tools` and `vars`",
            ),
        )
        .config(
            "language",
            setting(DataFlowType::String, "language of what is said of tools").one_of(["en", "zh"]),
        )
}

/// Inputs of a node that formats a prompt.
pub(crate) fn with_inputs(definition: NodeDefinition) -> NodeDefinition {
    definition
        .input("query", any("what the user wants; in later passes it is not said again").optional())
        .input(
            "history",
            any("the conversation so far: messages {role, content}").with_category("ChatHistory").optional(),
        )
        .input(
            "observation",
            any("what came of the last calls: texts, or results with their images").multi().optional(),
        )
}

impl Form {
    pub(crate) fn read(config: &Map<String, Value>, faults: &mut Vec<Problem>) -> Self {
        let template = read::<String>(config, "template", faults);
        let template = template.and_then(|source| match Template::new(&source) {
            Ok(template) => Some(template),
            Err(error) => {
                faults.push(Problem::setting("template", error.to_string()));
                None
            }
        });
        let system = read(config, "system", faults);
        Self { system, template, language: read(config, "language", faults) }
    }

    /// Returns the messages for the model. `tools` are described in text.
    pub(crate) fn messages(
        &self,
        ctx: &NodeContext,
        env: &AgentEnv<'_>,
        inputs: &Inputs,
        tools: &Snapshot,
    ) -> Result<Vec<Said>, NodeError> {
        let mut messages = Vec::new();
        let mut profile = env.profile();
        profile.system_prompt = self.system.clone().or(profile.system_prompt);
        profile.language = self.language.or(profile.language);
        let system = system_text(&profile, tools, Protocol::Text);
        if !system.is_empty() {
            messages.push(Said::system(system));
        }
        if let Some(history) = inputs.get("history") {
            let before = chat::read(history)?.into_iter().filter(|said| !said.is_own_system());
            messages.extend(before.map(Said::ready));
        }
        let observed = observed(&inputs.all("observation"));
        if let Some(query) = self.query(ctx, inputs)? {
            // If the model has yet to react to results, the query has been sent already, unless the history lacks it.
            let is_open =
                !observed.is_empty() || messages.last().is_some_and(|said| said.foreign().is_some());
            let is_said = is_open && messages.iter().any(|said| said.says(&query));
            if !is_said {
                messages.push(Said::user(&query, Vec::new()));
            }
        }
        if !observed.is_empty() {
            append_observed(&mut messages, &observed, &env.frame());
        }
        Ok(messages)
    }

    fn query(&self, ctx: &NodeContext, inputs: &Inputs) -> Result<Option<String>, NodeError> {
        let query = inputs.get("query").map(|value| as_text(value)).filter(|text| !text.is_empty());
        let Some(template) = &self.template else { return Ok(query) };
        let mut names: Map<String, Value> = Map::new();
        names.insert("vars".to_owned(), (**ctx.variables()).clone());
        names.insert("query".to_owned(), query.unwrap_or_default().into());
        for slot in ["history", "tools"] {
            let value = inputs.get(slot).map_or_else(Value::default, |value| (**value).clone());
            names.insert(slot.to_owned(), value);
        }
        let observation: Vec<String> =
            observed(&inputs.all("observation")).into_iter().map(|own| own.text).collect();
        names.insert("observation".to_owned(), observation.join("\n").into());
        let text = template.fill(&names);
        let text = text.map_err(|error| NodeError::fatal(format!("the template: {error}")))?;
        Ok(Some(text).filter(|text| !text.is_empty()))
    }
}

/// Something that came of a call.
#[derive(Debug, Default)]
struct Observed {
    text: String,
    attachments: Vec<Attachment>,
    /// Index of the call among the native ones.
    native: Option<usize>,
}

/// Observations, one by one, without empty ones.
fn observed(values: &[Arc<Value>]) -> Vec<Observed> {
    let mut all = Vec::new();
    for value in values {
        match &**value {
            Value::Array(items) => all.extend(items.iter().map(observed_item)),
            other => all.push(observed_item(other)),
        }
    }
    all.retain(|observed| !observed.text.is_empty());
    all
}

fn observed_item(item: &Value) -> Observed {
    let Some(object) = item.as_object() else {
        return Observed { text: as_text(item), ..Observed::default() };
    };
    Observed {
        text: object.get("observation").map(as_text).unwrap_or_default(),
        attachments: object
            .get("attachments")
            .and_then(|value| Vec::deserialize(value).ok())
            .unwrap_or_default(),
        native: object.get("native").and_then(Value::as_u64).and_then(|at| usize::try_from(at).ok()),
    }
}

/// Appends the observations to the conversation: as the results of native calls if the last reply holds some.
fn append_observed(messages: &mut Vec<Said>, observed: &[Observed], frame: &str) {
    let native = match messages.last().map(|said| &said.message) {
        Some(Message::Assistant { calls, .. }) => calls.clone(),
        Some(_) | None => Vec::new(),
    };
    let position = |own: &Observed| own.native.filter(|at| *at < native.len());
    let calls = if native.is_empty() || observed.iter().any(|own| position(own).is_some()) {
        let known = observed.iter().map(|own| record(position(own), &own.text, own.attachments.clone()));
        let is_missing = |at| !observed.iter().any(|own| position(own) == Some(at));
        let missing = (0..native.len()).filter(|at| is_missing(*at)).map(|at| {
            let text = format!("Error - Tool {} was not run", native[at].name);
            record(Some(at), &text, Vec::new())
        });
        known.chain(missing).collect()
    } else {
        together(&native, observed)
    };
    let turn = Turn { native, calls, ..Turn::default() };
    let mut results = Vec::new();
    result_messages(&turn, Protocol::Native, frame, &mut results);
    messages.extend(results.into_iter().map(Said::results));
}

/// Results without a call id stand together with the last native call.
fn together(native: &[NativeCall], observed: &[Observed]) -> Vec<CallRecord> {
    let all = observed.iter().map(|own| plain(&own.text)).collect::<Vec<_>>().join("\n");
    let images = observed.iter().flat_map(|own| own.attachments.iter().cloned()).collect();
    let elsewhere =
        |at| record(Some(at), "the results of these calls stand together with the last one", Vec::new());
    let last = native.len() - 1;
    (0..last).map(elsewhere).chain([record(Some(last), &all, images)]).collect()
}

fn plain(text: &str) -> &str {
    text.strip_prefix(OBSERVATION_PREFIX).unwrap_or(text)
}

/// Record of a call of which only the result is known.
fn record(native: Option<usize>, text: &str, attachments: Vec<Attachment>) -> CallRecord {
    let text = plain(text).to_owned();
    let (call, code) = (None, ObservationCode::Note);
    CallRecord {
        id: CallId::new(""),
        tool: String::new(),
        arguments: Map::new(),
        edited: None,
        native,
        attachments,
        observation: Some(Observation { call, tool: String::new(), code, text }),
    }
}

impl FormatPrompt {
    pub(crate) fn new() -> Self {
        let definition = NodeDefinition::new(
            "agent:FormatPrompt",
            "Puts instructions, tools, the conversation and what came of calls into messages for a model.",
        );
        let definition = with_inputs(definition)
            .input("tools", list("the tools that the model is taught to call in text").optional())
            .output("messages", list("the messages").with_category("ChatHistory"));
        Self(with_settings(definition))
    }
}

#[async_trait]
impl Node for FormatPrompt {
    fn definition(&self) -> &NodeDefinition {
        &self.0
    }

    fn prepare(&self, config: &Map<String, Value>) -> Result<Prepared, Vec<Problem>> {
        let mut faults = Vec::new();
        let form = Form::read(config, &mut faults);
        if faults.is_empty() { Ok(Prepared::new(form)) } else { Err(faults) }
    }

    async fn run(&self, ctx: NodeContext, inputs: Inputs) -> Result<Outputs, NodeError> {
        let form: &Form = made(&ctx)?;
        let env = AgentEnv::new(&ctx);
        let tools = match inputs.get("tools") {
            Some(tools) => env.tools(Some(&ids_of(tools)))?,
            None => Snapshot::default(),
        };
        Ok(Outputs::value(chat::value(&form.messages(&ctx, &env, &inputs, &tools)?)))
    }
}
