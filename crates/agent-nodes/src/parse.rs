//! `agent:ParseLlmDecision`: from a reply to calls that may run, or to what is wrong with them.

use std::collections::HashMap;
use std::sync::Arc;

use agent_runtime::driver::ask::read_whole;
use agent_runtime::machine::{
    CALLS_PER_DECISION, CallIds, Reading, ReadyCall, Reply, message, observed, read_reply, reply_events,
    too_many_calls, unread_events,
};
use agent_runtime::prompt::injection_guard::UntrustedTexts;
use agent_runtime::prompt::text::Protocol;
use agent_types::Observation;
use async_trait::async_trait;
use llm_provider::StandardResponse;
use serde::Deserialize;
use serde_json::{Value, json};
use workflow_engine::{Inputs, Node, NodeContext, NodeError, Outputs};
use workflow_model::NodeDefinition;

use crate::agent_env::AgentEnv;
use crate::chat;
use crate::define::{any, as_text, list, text};
use crate::request::{AFTER_UNREAD, NATIVE, Replied, ids_of};
use crate::sink::NodeSink;

/// Reads a reply against the tools that were offered.
pub(crate) struct ParseLlmDecision(NodeDefinition);

/// Outputs of a node that reads a reply.
pub(crate) fn with_outputs(definition: NodeDefinition) -> NodeDefinition {
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
        .output("reply", any("the reply as a message for the history, without text behind a block"))
}

/// A decision, ready to be given to others.
pub(crate) struct Decided {
    pub(crate) text: String,
    pub(crate) message: String,
    /// Message for the history.
    pub(crate) reply: Value,
    pub(crate) requests: Vec<Value>,
    pub(crate) errors: Vec<Value>,
    /// Observations about a faulty reply, for the model.
    pub(crate) observations: Vec<Observation>,
}

impl Decided {
    pub(crate) fn outputs(self) -> Outputs {
        Outputs::value(self.text)
            .with("tool_call_requests", self.requests)
            .with("errors", self.errors)
            .with("message", self.message)
            .with("reply", self.reply)
    }
}

/// Reads a reply and emits its contents.
pub(crate) fn read(ctx: &NodeContext, env: &AgentEnv<'_>, reply: &Replied) -> Decided {
    let sink = NodeSink::new(ctx, env, None);
    let trace = sink.trace(sink.log(false, HashMap::new()));
    let ids = CallIds { first: 1, prefix: &reply.prefix };
    let Replied { response, parsed, tools, set, suspects, protocol, .. } = reply;
    let mut decided =
        read_reply(response, parsed, &Reading { tools, set, ids, suspects, protocol: *protocol });
    trace.perform_all(reply_events(&decided));
    if let Some(unread) = decided.unread.take() {
        trace.perform_all(unread_events(&unread, reply.was_unread));
        if !reply.was_unread && !decided.message.is_empty() {
            trace.perform_all(vec![message(decided.message.clone(), false)]);
        }
        decided.turn.notes.extend((!reply.was_unread).then_some(unread));
    }
    let result = given(&decided, reply);
    trace.perform_all(result.observations.iter().map(observed));
    trace.log().resume_with_news();
    result
}

fn given(reply: &Reply, read: &Replied) -> Decided {
    let request = |(position, call): (usize, &ReadyCall)| {
        let mut value = json!({"call": call.id, "tool": call.tool, "arguments": *call.arguments});
        if position >= read.max_calls {
            value["refuse"] = too_many_calls(read.max_calls).into();
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
    let written = &read.response.text;
    // Text behind a block was written as if the results had come.
    let kept = if reply.has_calls() { &reply.turn.text } else { written };
    Decided {
        text: written.clone(),
        message: reply.message.clone(),
        reply: chat::reply(kept, &read.response.tool_calls),
        requests,
        errors: observations.iter().map(error).collect(),
        observations,
    }
}

impl ParseLlmDecision {
    pub(crate) fn new() -> Self {
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
        tool_calls: chat::native_calls(value.get("tool_calls")),
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
        let number = |value: &Value| value.as_u64().and_then(|number| usize::try_from(number).ok());
        let echoes = value.get("echoes").and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default();
        let has = |name: &str| value.get(name).and_then(Value::as_bool).unwrap_or(false);
        let reply = Replied {
            parsed: read_whole(&set, &response),
            response,
            tools,
            set,
            max_calls: value.get("maxToolCalls").and_then(number).unwrap_or(CALLS_PER_DECISION),
            echoes: echoes.iter().filter_map(number).collect(),
            suspects: UntrustedTexts::default(),
            prefix: value.get("callPrefix").map_or_else(|| env.call_prefix(), as_text),
            protocol: if has(NATIVE) { Protocol::Native } else { Protocol::Text },
            was_unread: has(AFTER_UNREAD),
        };
        Ok(read(&ctx, &env, &reply).outputs())
    }
}
