//! Table of the events: a row has the name, the subject, the effect on it, the label and the data of an event.
//!
//! A new event is a row here and the place that emits it. `cargo xtask codegen` writes the reference pages and the labels
//! of the page from the rows, `cargo xtask web` the types of the page.

use std::sync::Arc;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::event_info::{EventInfo, EventRole, EventSubject, events};
use crate::{
    ApprovalState, AskSummary, CallSummary, ExitReason, LoopEnd, NodeErrorKind, OtherOutputs, PassDecision,
    RunStatus, ToolFault, ToolId, ToolStatus, Usage,
};

events! {
    /// The run is accepted and has not started.
    #[event("run.queued", Run, Fact, zh = "运行已排队")]
    RunQueued {
        /// Messages before it in its conversation, the one that is answered included.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        place: Option<u64>,
    },
    /// The run began.
    #[event("run.started", Run, Opens, zh = "运行开始")]
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
    /// Nothing is left to do but to wait for answers; `asks` lists the questions.
    #[event("run.waiting", Run, Fact, zh = "运行等待回答")]
    RunWaiting {
        #[serde(default, skip_serializing_if = "Option::is_none")]
        exit: Option<ExitReason>,
        asks: Vec<AskSummary>,
    },
    /// A suspended or interrupted run resumes.
    #[event("run.resumed", Run, Fact, zh = "运行继续")]
    RunResumed {
        #[serde(default, skip_serializing_if = "Option::is_none")]
        cause: Option<String>,
    },
    /// The last event of a run; `status`, `exit` and `kind` say how it ended.
    #[event("run.finished", Run, Closes, zh = "运行结束")]
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
    #[event("node.started", Node, Opens, zh = "节点开始")]
    NodeStarted {
        #[serde(default, skip_serializing_if = "Option::is_none")]
        node_type: Option<Arc<str>>,
    },
    /// A node reports its progress.
    #[event("node.progress", Node, Fact, zh = "节点进度")]
    NodeProgress {
        #[serde(default, skip_serializing_if = "Option::is_none")]
        message: Option<String>,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        value: Option<f64>,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        max: Option<f64>,
    },
    /// A piece of a stream.
    #[event("node.chunk", Node, Piece, zh = "数据流片段")]
    NodeChunk { slot: Arc<str>, text: Arc<str> },
    /// An attempt failed and another follows.
    #[event("node.retrying", Node, Fact, zh = "节点重试")]
    NodeRetrying { kind: NodeErrorKind, message: String, delay_ms: u64 },
    /// The value of a node was in the cache.
    #[event("node.cached", Node, Closes, zh = "节点值来自缓存")]
    NodeCached {
        #[serde(default, deserialize_with = "present", skip_serializing_if = "Option::is_none")]
        value: Option<Arc<Value>>,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        outputs: Option<OtherOutputs>,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        from: Option<Arc<str>>,
    },
    /// A node gave its outputs, the main one as `value`, or its failure was handled.
    #[event("node.finished", Node, Closes, zh = "节点完成")]
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
    /// A node failed and nothing handled it; `kind` says why.
    #[event("node.failed", Node, Closes, zh = "节点失败")]
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
    /// A node does not run, as no branch led to it; `cause` says why.
    #[event("node.skipped", Node, Closes, zh = "节点被跳过")]
    NodeSkipped { cause: Arc<str> },
    /// A node was ended, or never began, because something else ended.
    #[event("node.cancelled", Node, Closes, zh = "节点被取消")]
    NodeCancelled { cause: Arc<str> },
    /// A node waits for an answer.
    #[event("node.waiting", Node, Fact, zh = "节点等待回答")]
    NodeWaiting {
        ask: Arc<str>,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        prompt: Option<String>,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        unknown_effect: Option<bool>,
    },

    /// A loop zone began; `state` has its first carried values.
    #[event("loop.entered", Loop, Opens, zh = "循环开始")]
    LoopEntered {
        mode: Arc<str>,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        state: Option<OtherOutputs>,
    },
    /// A pass of a loop zone began; `item` is its item of mode `each`.
    #[event("loop.iter.started", Pass, Opens, zh = "循环的一轮开始")]
    LoopIterStarted {
        #[serde(default, deserialize_with = "present", skip_serializing_if = "Option::is_none")]
        item: Option<Arc<Value>>,
    },
    /// A pass of a loop zone ended; `changed` lists the carried values that it changed, `values` what they are now, in
    /// the same order.
    #[event("loop.iter.finished", Pass, Closes, zh = "循环的一轮结束")]
    LoopIterFinished {
        changed: Vec<Arc<str>>,
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        values: Vec<Arc<Value>>,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        decision: Option<PassDecision>,
    },
    /// A loop zone ended; `why` says how.
    #[event("loop.exited", Loop, Closes, zh = "循环结束")]
    LoopExited { passes: u64, why: LoopEnd },

    /// A pass of the agent loop began.
    #[event("agent.turn.started", Turn, Opens, zh = "助手的一轮开始")]
    AgentTurnStarted {},
    /// The model is asked.
    #[event("agent.llm.started", Model, Opens, zh = "询问模型")]
    AgentLlmStarted { model: String, messages: usize, digest: String },
    /// The model generates a reply and has not emitted any text yet.
    #[event("agent.thinking", Model, Fact, zh = "模型正在思考")]
    AgentThinking {},
    /// A piece of the model's reasoning.
    #[event("agent.reasoning.delta", Model, Piece, zh = "模型推理片段")]
    AgentReasoningDelta { text: String },
    /// A piece of the model's text.
    #[event("agent.text.delta", Model, Piece, zh = "模型文字片段")]
    AgentTextDelta { offset: u64, text: String },
    /// A piece of a call's argument.
    #[event("agent.call.delta", Call, Piece, zh = "调用参数片段")]
    AgentCallDelta { path: String, text: String },
    /// A call was read and its arguments fit.
    #[event("agent.call.ready", Call, Fact, zh = "调用已读取")]
    AgentCallReady { tool: ToolId, arguments: Arc<Map<String, Value>>, repairs: Vec<String> },
    /// The model's reply is complete; `usage` says what it cost.
    #[event("agent.llm.finished", Model, Closes, zh = "模型答复完成")]
    AgentLlmFinished {
        text: String,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        reasoning: Option<String>,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        tool_calls: Option<Arc<Value>>,
        finish: String,
        usage: Usage,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        dropped: Option<String>,
    },
    /// The reply was read.
    #[event("agent.parsed", Turn, Fact, zh = "答复已解析")]
    AgentParsed { calls: Vec<CallSummary>, diagnostics: Vec<Value> },
    /// The reply holds a block that may not run; `errors` say why.
    #[event("agent.parse_failed", Turn, Fact, zh = "答复无法使用")]
    AgentParseFailed { code: String, errors: Vec<Value> },
    /// Text for the user.
    #[event("agent.message", Turn, Fact, zh = "给用户的消息")]
    AgentMessage {
        text: String,
        r#final: bool,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        warning: Option<String>,
    },
    /// A call is about to run.
    #[event("agent.tool.chosen", Call, Fact, zh = "已选择工具")]
    AgentToolChosen {
        tool: ToolId,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        reason: Option<String>,
    },
    /// A call needs human approval, or was approved or denied.
    #[event("agent.tool.approval", Call, Fact, zh = "调用审批")]
    AgentToolApproval {
        tool: ToolId,
        state: ApprovalState,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        reason: Option<String>,
    },
    /// A call runs.
    #[event("agent.tool.started", Call, Opens, zh = "工具开始执行")]
    AgentToolStarted { tool: ToolId },
    /// A piece of a call's result.
    #[event("agent.tool.chunk", Call, Piece, zh = "工具结果片段")]
    AgentToolChunk { tool: ToolId, text: String },
    /// A call ended, or was refused; `status` says how.
    #[event("agent.tool.finished", Call, Closes, zh = "工具执行结束")]
    AgentToolFinished {
        tool: ToolId,
        status: ToolStatus,
        summary: String,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        blob: Option<String>,
        ms: u64,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        error: Option<Box<ToolFault>>,
    },
    /// Text that is returned to the model.
    #[event("agent.observation", Call, Fact, zh = "返回给模型的文字")]
    AgentObservation {
        #[serde(default, skip_serializing_if = "Option::is_none")]
        tool: Option<String>,
        text: String,
    },
    /// Old exchanges were replaced by a summary.
    #[event("agent.compacted", Turn, Fact, zh = "较早的消息已压缩")]
    AgentCompacted { by: String },
    /// A limit is reached. Cost is counted in millionths of a dollar, time in milliseconds.
    #[event("agent.budget", Turn, Fact, zh = "达到上限")]
    AgentBudget { key: String, used: u64, limit: u64 },
    /// Warning for the operator, which stops nothing; `kind` says which.
    #[event("agent.warning", Turn, Fact, zh = "警告")]
    AgentWarning { kind: String, message: String },
    /// A pass of the agent loop ended.
    #[event("agent.turn.finished", Turn, Closes, zh = "助手的一轮结束")]
    AgentTurnFinished {},

    /// A flow's pattern matched.
    #[event("flow.matched", Session, Fact, zh = "固定回复匹配")]
    FlowMatched { flow: String, why: String },
    /// A flow ended.
    #[event("flow.finished", Session, Fact, zh = "固定回复结束")]
    FlowFinished { flow: String, silent: bool },
    /// A flow failed; the user may see a reply all the same.
    #[event("flow.failed", Session, Fact, zh = "固定回复失败")]
    FlowFailed { flow: String, message: String },
    /// A system action ran; `status` says how it ended.
    #[event("system.action", Session, Fact, zh = "系统动作")]
    SystemAction {
        action: String,
        status: String,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        message: Option<String>,
    },
    /// A person took over the session.
    #[event("system.handed_off", Session, Fact, zh = "由人接手")]
    SystemHandedOff { action: String },

    /// The offered tools changed.
    #[event("registry.changed", Project, Fact, zh = "工具有变化")]
    RegistryChanged { added: Vec<ToolId>, removed: Vec<ToolId>, changed: Vec<ToolId>, warnings: Vec<String> },
    /// A line of the developer log.
    #[event("log.line", Run, Fact, zh = "日志")]
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
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;
    use crate::EventRole;

    #[test]
    fn rows_have_the_names_of_the_wire() {
        let schema = schemars::schema_for!(EventBody).to_value();
        let variants = schema["oneOf"].as_array().unwrap();
        let wire: Vec<&str> =
            variants.iter().map(|variant| variant["properties"]["type"]["const"].as_str().unwrap()).collect();
        let rows: Vec<&str> = EventBody::TABLE.iter().map(|row| row.name).collect();
        assert_eq!(rows, wire);
        assert_eq!(rows.iter().collect::<BTreeSet<_>>().len(), rows.len());
        let first = EventBody::RunQueued { place: None };
        assert_eq!((first.name(), first.info()), ("run.queued", &EventBody::TABLE[0]));
    }

    #[test]
    fn what_is_opened_is_closed() {
        let subjects = |role| -> BTreeSet<String> {
            let rows = EventBody::TABLE.iter().filter(|row| row.role == role);
            rows.map(|row| format!("{:?}", row.subject)).collect()
        };
        assert_eq!(subjects(EventRole::Opens), subjects(EventRole::Closes));
    }

    #[test]
    fn rows_are_sentences_and_labels() {
        for row in EventBody::TABLE {
            assert!(row.about.ends_with('.') && !row.zh.is_empty(), "{row:?}");
            assert!(!row.label().contains(['`', '.']), "{row:?}");
        }
    }
}
