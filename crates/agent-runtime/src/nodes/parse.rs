//! `agent:ParseLlmDecision`: from a reply to calls that may run, or to what is wrong with them.

use std::collections::HashSet;
use std::sync::Arc;

use agent_types::{EventBody, Observation};
use async_trait::async_trait;
use llm_provider::StandardResponse;
use protocol_action::Parsed;
use serde::Deserialize;
use serde_json::{Value, json};
use workflow_engine::{Inputs, Node, NodeContext, NodeError, Outputs};
use workflow_model::NodeDefinition;

use super::agent_env::AgentEnv;
use super::define::{any, as_text, list, text};
use super::request::ids_of;
use super::sink::NodeSink;
use crate::ask::{Question, read_whole};
use crate::calls::emit_observation;
use crate::decide::{Reply, decide};
use crate::driver::Driver;
use crate::injection_guard::UntrustedTexts;
use crate::plan::{CALLS_PER_DECISION, limit_of};
use crate::trace::Trace;
use tool_schema::ToolSet;

/// Reads a reply against the tools that were offered.
pub(super) struct ParseLlmDecision(NodeDefinition);

/// Outputs of a node that reads a reply.
pub(super) fn with_outputs(definition: NodeDefinition) -> NodeDefinition {
    definition
        .output("llm_text_output", text("the whole text of the reply, as it was written"))
        .output(
            "tool_call_requests",
            list("the calls that may run: {call, tool, arguments}; empty where there are none"),
        )
        .output(
            "errors",
            list("what is wrong with the calls: {code, message, observation}; then none of them may run"),
        )
        .output("message", text("the text for the user: before the calls, or all of it"))
}

/// A decision, ready to be given to others.
pub(super) struct Decided {
    pub(super) text: String,
    pub(super) message: String,
    pub(super) requests: Vec<Value>,
    pub(super) errors: Vec<Value>,
    /// Observations about a faulty reply, for the model.
    pub(super) observations: Vec<Observation>,
}

impl Decided {
    pub(super) fn outputs(self) -> Outputs {
        Outputs::value(self.text)
            .with("tool_call_requests", self.requests)
            .with("errors", self.errors)
            .with("message", self.message)
    }
}

/// A reply with the options for reading it.
pub(super) struct ToRead<'r> {
    pub(super) response: &'r StandardResponse,
    pub(super) parsed: &'r Parsed,
    pub(super) max_calls: usize,
    /// Places of calls that stand in foreign texts.
    pub(super) echoes: HashSet<usize>,
    pub(super) suspects: &'r UntrustedTexts,
    /// Prefix of the ids of its calls.
    pub(super) prefix: &'r str,
}

/// Reads a reply and emits its contents.
pub(super) fn read(ctx: &NodeContext, env: &AgentEnv<'_>, set: &Arc<ToolSet>, reply: &ToRead<'_>) -> Decided {
    let sink = NodeSink::new(ctx, env, None);
    let trace = sink.trace(sink.log(false, std::collections::HashMap::new()));
    let question = Question { tools: set, first_call: 1, prefix: reply.prefix };
    let decided = decide(reply.response, reply.parsed, &question, reply.suspects);
    Driver::emit_reply(&trace, &decided);
    let has_calls = decided.refusal.is_some() || !decided.ready.is_empty();
    if has_calls && !decided.message.is_empty() {
        trace.emit(EventBody::AgentMessage { text: decided.message.clone(), r#final: false });
    }
    let result = given(&decided, reply);
    emit_all(&trace, &result.observations);
    trace.log().resume_with_news();
    result
}

fn emit_all(trace: &Trace, observations: &[Observation]) {
    for observation in observations {
        emit_observation(observation, trace);
    }
}

fn given(reply: &Reply, read: &ToRead<'_>) -> Decided {
    let request = |(position, call): (usize, &crate::decide::ReadyCall)| {
        let mut value = json!({"call": call.id, "tool": call.tool, "arguments": call.arguments});
        if position >= read.max_calls {
            value["refuse"] = limit_of(read.max_calls).into();
        }
        if call.is_echo || read.echoes.contains(&call.index) {
            value["echo"] = true.into();
        }
        if let Some(native) = reply.turn.calls.get(call.index).and_then(|own| own.native) {
            value["native"] = native.into();
        }
        value
    };
    let mut requests: Vec<Value> = reply.ready.iter().enumerate().map(request).collect();
    let mut observations: Vec<Observation> = reply.turn.observations().cloned().collect();
    if let Some(last) = requests.last_mut().filter(|_| !observations.is_empty()) {
        // The block runs: further notes for the model follow its results.
        last["notes"] = observations.drain(..).map(|note| Value::from(note.text)).collect();
    }
    let error = |observation: &Observation| {
        let native = reply.turn.calls.iter().find(|call| call.observation.as_ref() == Some(observation));
        let mut value = json!({
            "code": observation.code, "message": observation.text, "observation": observation.line(),
        });
        if let Some(call) = &observation.call {
            value["call"] = call.as_str().into();
        }
        if !observation.tool.is_empty() {
            value["tool"] = observation.tool.as_str().into();
        }
        if let Some(native) = native.and_then(|call| call.native) {
            value["native"] = native.into();
        }
        value
    };
    Decided {
        text: read.response.text.clone(),
        message: reply.message.clone(),
        requests,
        errors: observations.iter().map(error).collect(),
        observations,
    }
}

impl ParseLlmDecision {
    pub(super) fn new() -> Self {
        let definition = NodeDefinition::new(
            "agent:ParseLlmDecision",
            "Reads a model's reply: its text, the tools that it calls, and what is wrong with that.",
        )
        .input("response", any("the reply of a model, or its text").required().with_category("LlmOutput"));
        Self(with_outputs(definition))
    }
}

/// A reply in any of the forms in which nodes give it.
fn response_of(value: &Value) -> StandardResponse {
    StandardResponse::deserialize(value).unwrap_or_else(|_| StandardResponse {
        text: match value {
            Value::Object(object) => {
                object.get("text").or_else(|| object.get("content")).map(as_text).unwrap_or_default()
            }
            other => as_text(other),
        },
        ..StandardResponse::default()
    })
}

#[async_trait]
impl Node for ParseLlmDecision {
    fn definition(&self) -> &NodeDefinition {
        &self.0
    }

    async fn run(&self, ctx: NodeContext, inputs: Inputs) -> Result<Outputs, NodeError> {
        let env = AgentEnv::new(&ctx);
        let value = inputs.required("response")?;
        let tools = match value.get("tools") {
            Some(offered) => env.tools(Some(&ids_of(offered)))?,
            None => env.tools(None)?,
        };
        let set = Arc::new(tools.tool_set().map_err(|error| NodeError::fatal(error.to_string()))?);
        let response = response_of(value);
        let parsed = read_whole(&set, &response);
        let number = |value: &Value| value.as_u64().and_then(|number| usize::try_from(number).ok());
        let echoes = value.get("echoes").and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default();
        let prefix = env.call_prefix();
        let reply = ToRead {
            response: &response,
            parsed: &parsed,
            max_calls: value.get("maxToolCalls").and_then(number).unwrap_or(CALLS_PER_DECISION),
            echoes: echoes.iter().filter_map(number).collect(),
            suspects: &UntrustedTexts::default(),
            prefix: value.get("callPrefix").and_then(Value::as_str).unwrap_or(&prefix),
        };
        Ok(read(&ctx, &env, &set, &reply).outputs())
    }
}
