//! Trace events: numbered facts of a run.
//!
//! On the wire an event is one flat object: the envelope's keys, then `type` and `data`.

use std::collections::BTreeMap;
use std::sync::Arc;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::{
    ApprovalState, AskKind, CallId, ExitReason, LoopEnd, NodeErrorKind, RunId, RunStatus, Timestamp, ToolId,
    ToolStatus, Usage,
};

/// Version of the envelope.
const ENVELOPE_VERSION: u8 = 1;

/// One numbered fact of a run.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct TraceEvent {
    /// Version of this form, 1.
    pub v: u8,
    /// The run it belongs to.
    pub run: RunId,
    /// From 1, without holes within a run.
    pub seq: u64,
    /// Time at which the event was numbered.
    pub ts: Timestamp,
    /// Location within the run.
    #[serde(flatten)]
    pub place: EventLocation,
    /// Kind of the event and its data.
    #[serde(flatten)]
    pub body: EventBody,
}

impl TraceEvent {
    /// Puts a fact into its envelope.
    #[must_use]
    pub fn new(run: RunId, seq: u64, ts: Timestamp, place: EventLocation, body: EventBody) -> Self {
        Self { v: ENVELOPE_VERSION, run, seq, ts, place, body }
    }
}

/// Location within a run. Absent parts do not apply.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct EventLocation {
    /// Node or zone, from the root of its workflow: `loop[3]/inner[0]/a`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub path: Option<Arc<str>>,
    /// Innermost pass, from 0.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub iteration: Option<u64>,
    /// Attempt of a node, from 1.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub attempt: Option<u32>,
    /// Turn of the agent, from 1.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub turn: Option<u32>,
    /// The tool call that this is part of.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub call: Option<CallId>,
    /// The call in which that call was made.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub parent_call: Option<CallId>,
    /// Levels of agents and workflows above; absent at the root.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub depth: Option<u32>,
    /// The span that this event starts, ends or lies in; 0 is the run itself.
    #[serde(default)]
    pub span: u64,
    /// The span around that span.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub parent: Option<u64>,
}

/// One open question of a run.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct AskSummary {
    /// Id that an answer names.
    pub ask: Arc<str>,
    /// Subject of the question.
    #[serde(default)]
    pub kind: AskKind,
    /// The tool whose call waits.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tool: Option<ToolId>,
    /// The arguments of that call.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub arguments: Option<Arc<Map<String, Value>>>,
    /// The node that asks.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub path: Option<Arc<str>>,
    /// Prompt of the question.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub prompt: Option<String>,
}

/// One call as a summary of a parsed reply holds it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct CallSummary {
    /// Its id.
    pub call: CallId,
    /// Tool to be called.
    pub tool: ToolId,
}

/// Outputs of a node beside its main output, by slot.
pub type OtherOutputs = Arc<BTreeMap<Arc<str>, Arc<Value>>>;

/// Kind of an event and its data. The wire names are those of the variants, dotted.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "type", content = "data")]
#[non_exhaustive]
#[expect(
    missing_docs,
    reason = "fields carry the words of the event's documentation in docs/reference/events.md"
)]
pub enum EventBody {
    /// Accepted, not yet started.
    #[serde(rename = "run.queued")]
    RunQueued {},
    /// The run began.
    #[serde(rename = "run.started")]
    RunStarted {
        #[serde(default, skip_serializing_if = "Option::is_none")]
        agent: Option<String>,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        workflow: Option<String>,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        message: Option<String>,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        inputs: Option<Arc<Value>>,
    },
    /// Nothing is left to do but to wait for answers.
    #[serde(rename = "run.waiting")]
    RunWaiting {
        #[serde(default, skip_serializing_if = "Option::is_none")]
        exit: Option<ExitReason>,
        asks: Vec<AskSummary>,
    },
    /// A suspended or interrupted run resumes.
    #[serde(rename = "run.resumed")]
    RunResumed {
        #[serde(default, skip_serializing_if = "Option::is_none")]
        cause: Option<String>,
    },
    /// The last event of a run.
    #[serde(rename = "run.finished")]
    RunFinished {
        status: RunStatus,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        exit: Option<ExitReason>,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        kind: Option<String>,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        partial: Option<bool>,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        message: Option<String>,
    },

    /// An attempt of a node began.
    #[serde(rename = "node.started")]
    NodeStarted {
        #[serde(default, rename = "node_type", skip_serializing_if = "Option::is_none")]
        node_type: Option<Arc<str>>,
    },
    /// A node says how far it is.
    #[serde(rename = "node.progress")]
    NodeProgress {
        #[serde(default, skip_serializing_if = "Option::is_none")]
        message: Option<String>,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        value: Option<f64>,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        max: Option<f64>,
    },
    /// A piece of a stream.
    #[serde(rename = "node.chunk")]
    NodeChunk { slot: Arc<str>, text: Arc<str> },
    /// An attempt failed and another follows.
    #[serde(rename = "node.retrying")]
    NodeRetrying { kind: NodeErrorKind, message: String, delay_ms: u64 },
    /// The value was known.
    #[serde(rename = "node.cached")]
    NodeCached {
        #[serde(default, deserialize_with = "present", skip_serializing_if = "Option::is_none")]
        value: Option<Arc<Value>>,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        outputs: Option<OtherOutputs>,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        from: Option<Arc<str>>,
    },
    /// A node gave its outputs, the main one as `value`, or its failure was handled.
    #[serde(rename = "node.finished")]
    NodeFinished {
        #[serde(default, deserialize_with = "present", skip_serializing_if = "Option::is_none")]
        value: Option<Arc<Value>>,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        outputs: Option<OtherOutputs>,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        handled: Option<Arc<str>>,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        cache: Option<Arc<str>>,
    },
    /// A node failed and nothing handled it.
    #[serde(rename = "node.failed")]
    NodeFailed {
        kind: NodeErrorKind,
        message: String,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        limit_ms: Option<u64>,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        attempts: Option<u32>,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        detached: Option<bool>,
    },
    /// No branch led here.
    #[serde(rename = "node.skipped")]
    NodeSkipped { cause: Arc<str> },
    /// The node was ended, or never began, because something else ended.
    #[serde(rename = "node.cancelled")]
    NodeCancelled { cause: Arc<str> },
    /// A node waits for an answer.
    #[serde(rename = "node.waiting")]
    NodeWaiting {
        ask: Arc<str>,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        prompt: Option<String>,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        unknown_effect: Option<bool>,
    },

    /// A loop zone began.
    #[serde(rename = "loop.entered")]
    LoopEntered { mode: Arc<str> },
    /// A pass began.
    #[serde(rename = "loop.iter.started")]
    LoopIterStarted {},
    /// A pass ended.
    #[serde(rename = "loop.iter.finished")]
    LoopIterFinished { changed: Vec<Arc<str>> },
    /// A loop zone ended.
    #[serde(rename = "loop.exited")]
    LoopExited { passes: u64, why: LoopEnd },

    /// A pass of the agent loop began.
    #[serde(rename = "agent.turn.started")]
    AgentTurnStarted {},
    /// The model is asked.
    #[serde(rename = "agent.llm.started")]
    AgentLlmStarted { model: String, messages: usize, digest: String },
    /// The model generates a reply and has not emitted any text yet.
    #[serde(rename = "agent.thinking")]
    AgentThinking {},
    /// A piece of reasoning.
    #[serde(rename = "agent.reasoning.delta")]
    AgentReasoningDelta { text: String },
    /// A piece of text.
    #[serde(rename = "agent.text.delta")]
    AgentTextDelta { offset: u64, text: String },
    /// A piece of a call's argument.
    #[serde(rename = "agent.call.delta")]
    AgentCallDelta { path: String, text: String },
    /// A call was read and its arguments fit.
    #[serde(rename = "agent.call.ready")]
    AgentCallReady { tool: ToolId, arguments: Arc<Map<String, Value>>, repairs: Vec<String> },
    /// The model's reply is complete.
    #[serde(rename = "agent.llm.finished")]
    AgentLlmFinished {
        text: String,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        reasoning: Option<String>,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        tool_calls: Option<Value>,
        finish: String,
        usage: Usage,
    },
    /// The reply was read.
    #[serde(rename = "agent.parsed")]
    AgentParsed { calls: Vec<CallSummary>, diagnostics: Vec<Value> },
    /// The reply holds a block that may not run.
    #[serde(rename = "agent.parse_failed")]
    AgentParseFailed { code: String, errors: Vec<Value> },
    /// Text for the user.
    #[serde(rename = "agent.message")]
    AgentMessage { text: String, r#final: bool },
    /// A call is about to run.
    #[serde(rename = "agent.tool.chosen")]
    AgentToolChosen {
        tool: ToolId,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        reason: Option<String>,
    },
    /// A call needs human approval, or was approved or denied.
    #[serde(rename = "agent.tool.approval")]
    AgentToolApproval {
        tool: ToolId,
        state: ApprovalState,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        reason: Option<String>,
    },
    /// A call runs.
    #[serde(rename = "agent.tool.started")]
    AgentToolStarted { tool: ToolId },
    /// A piece of a call's result.
    #[serde(rename = "agent.tool.chunk")]
    AgentToolChunk { tool: ToolId, text: String },
    /// A call ended, or was refused.
    #[serde(rename = "agent.tool.finished")]
    AgentToolFinished {
        tool: ToolId,
        status: ToolStatus,
        summary: String,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        blob: Option<String>,
        ms: u64,
    },
    /// Text that is returned to the model.
    #[serde(rename = "agent.observation")]
    AgentObservation {
        #[serde(default, skip_serializing_if = "Option::is_none")]
        tool: Option<String>,
        text: String,
    },
    /// Old exchanges were put together.
    #[serde(rename = "agent.compacted")]
    AgentCompacted { by: String },
    /// A limit is reached. Cost is counted in millionths of a dollar, time in milliseconds.
    #[serde(rename = "agent.budget")]
    AgentBudget { key: String, used: u64, limit: u64 },
    /// Warning for the operator.
    #[serde(rename = "agent.warning")]
    AgentWarning { kind: String, message: String },
    /// A pass of the agent loop ended.
    #[serde(rename = "agent.turn.finished")]
    AgentTurnFinished {},

    /// A flow's pattern matched.
    #[serde(rename = "flow.matched")]
    FlowMatched { flow: String, why: String },
    /// A flow ended.
    #[serde(rename = "flow.finished")]
    FlowFinished { flow: String, silent: bool },
    /// A flow failed.
    #[serde(rename = "flow.failed")]
    FlowFailed { flow: String, message: String },
    /// A system action ran.
    #[serde(rename = "system.action")]
    SystemAction {
        action: String,
        status: String,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        message: Option<String>,
    },
    /// A person took over.
    #[serde(rename = "system.handed_off")]
    SystemHandedOff { action: String },

    /// The offered tools changed.
    #[serde(rename = "registry.changed")]
    RegistryChanged { added: Vec<ToolId>, removed: Vec<ToolId>, changed: Vec<ToolId>, warnings: Vec<String> },
    /// A line of the developer log.
    #[serde(rename = "log.line")]
    LogLine { level: String, message: String },
}

/// A value that is there, even if it is null.
fn present<'de, D: serde::Deserializer<'de>>(deserializer: D) -> Result<Option<Arc<Value>>, D::Error> {
    Value::deserialize(deserializer).map(|value| Some(Arc::new(value)))
}

impl EventBody {
    /// A node gave its main output, or nothing.
    #[must_use]
    pub fn node_finished(value: Option<Arc<Value>>) -> Self {
        Self::NodeFinished { value, outputs: None, handled: None, cache: None }
    }

    /// The dotted name on the wire.
    #[must_use]
    pub const fn name(&self) -> &'static str {
        match self {
            Self::RunQueued { .. } => "run.queued",
            Self::RunStarted { .. } => "run.started",
            Self::RunWaiting { .. } => "run.waiting",
            Self::RunResumed { .. } => "run.resumed",
            Self::RunFinished { .. } => "run.finished",
            Self::NodeStarted { .. } => "node.started",
            Self::NodeProgress { .. } => "node.progress",
            Self::NodeChunk { .. } => "node.chunk",
            Self::NodeRetrying { .. } => "node.retrying",
            Self::NodeCached { .. } => "node.cached",
            Self::NodeFinished { .. } => "node.finished",
            Self::NodeFailed { .. } => "node.failed",
            Self::NodeSkipped { .. } => "node.skipped",
            Self::NodeCancelled { .. } => "node.cancelled",
            Self::NodeWaiting { .. } => "node.waiting",
            Self::LoopEntered { .. } => "loop.entered",
            Self::LoopIterStarted { .. } => "loop.iter.started",
            Self::LoopIterFinished { .. } => "loop.iter.finished",
            Self::LoopExited { .. } => "loop.exited",
            Self::AgentTurnStarted { .. } => "agent.turn.started",
            Self::AgentLlmStarted { .. } => "agent.llm.started",
            Self::AgentThinking { .. } => "agent.thinking",
            Self::AgentReasoningDelta { .. } => "agent.reasoning.delta",
            Self::AgentTextDelta { .. } => "agent.text.delta",
            Self::AgentCallDelta { .. } => "agent.call.delta",
            Self::AgentCallReady { .. } => "agent.call.ready",
            Self::AgentLlmFinished { .. } => "agent.llm.finished",
            Self::AgentParsed { .. } => "agent.parsed",
            Self::AgentParseFailed { .. } => "agent.parse_failed",
            Self::AgentMessage { .. } => "agent.message",
            Self::AgentToolChosen { .. } => "agent.tool.chosen",
            Self::AgentToolApproval { .. } => "agent.tool.approval",
            Self::AgentToolStarted { .. } => "agent.tool.started",
            Self::AgentToolChunk { .. } => "agent.tool.chunk",
            Self::AgentToolFinished { .. } => "agent.tool.finished",
            Self::AgentObservation { .. } => "agent.observation",
            Self::AgentCompacted { .. } => "agent.compacted",
            Self::AgentBudget { .. } => "agent.budget",
            Self::AgentWarning { .. } => "agent.warning",
            Self::AgentTurnFinished { .. } => "agent.turn.finished",
            Self::FlowMatched { .. } => "flow.matched",
            Self::FlowFinished { .. } => "flow.finished",
            Self::FlowFailed { .. } => "flow.failed",
            Self::SystemAction { .. } => "system.action",
            Self::SystemHandedOff { .. } => "system.handed_off",
            Self::RegistryChanged { .. } => "registry.changed",
            Self::LogLine { .. } => "log.line",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_event_is_one_flat_object() {
        let place =
            EventLocation { path: Some("a".into()), attempt: Some(1), span: 3, ..EventLocation::default() };
        let body = EventBody::node_finished(Some(Arc::new(1.into())));
        let event = TraceEvent::new(RunId::new("r"), 7, Timestamp::from_millis(0), place, body);
        let text = serde_json::to_string(&event).unwrap();
        assert_eq!(
            text,
            r#"{"v":1,"run":"r","seq":7,"ts":"1970-01-01T00:00:00.000Z","path":"a","attempt":1,"span":3,"type":"node.finished","data":{"value":1}}"#
        );
        assert_eq!(serde_json::from_str::<TraceEvent>(&text).unwrap(), event);
        let others = [("b".into(), Arc::new(2.into())), ("a".into(), Arc::new(Value::Null))].into();
        let text = r#"{"type":"node.finished","data":{"value":null,"outputs":{"a":null,"b":2}}}"#;
        let body = EventBody::NodeFinished {
            value: Some(Arc::default()),
            outputs: Some(Arc::new(others)),
            handled: None,
            cache: None,
        };
        assert_eq!(serde_json::to_string(&body).unwrap(), text);
        assert_eq!(serde_json::from_str::<EventBody>(text).unwrap(), body);
        assert_eq!(EventBody::RunQueued {}.name(), "run.queued");
    }
}
