//! From a model's reply to calls that may run, or to observations of what is wrong.

use agent_types::{CallId, ToolId};
use llm_provider::{Finish, NativeCall, StandardResponse};
use protocol_action::{Code, Dialect, FinishReason, Parsed, SegmentKind};
use serde_json::{Map, Value, json};
use tool_schema::{CallFault, ToolSet, TypedCall};

use crate::ask::{Question, call_id};
use crate::history::{CallRecord, Turn};
use crate::injection_guard::UntrustedTexts;
use crate::observe;

/// A reply, read and typed.
#[derive(Debug)]
pub(crate) struct Reply {
    /// The turn as history keeps it; the calls have no results yet unless the block is refused.
    pub(crate) turn: Turn,
    /// Text for the user: before the calls, or all of it.
    pub(crate) message: String,
    /// The calls that may run, by their position in the turn; empty when the block is refused.
    pub(crate) ready: Vec<ReadyCall>,
    /// Reason for refusing the block.
    pub(crate) refusal: Option<Refusal>,
    /// Everything that was found, for events.
    pub(crate) diagnostics: Vec<Value>,
}

/// A call that fits.
#[derive(Debug, Clone)]
pub(crate) struct ReadyCall {
    pub(crate) index: usize,
    pub(crate) id: CallId,
    pub(crate) tool: ToolId,
    pub(crate) arguments: Map<String, Value>,
    pub(crate) repairs: Vec<String>,
    /// The same call stands in a foreign text.
    pub(crate) is_echo: bool,
}

/// Refusal of a block.
#[derive(Debug)]
pub(crate) struct Refusal {
    pub(crate) code: String,
    pub(crate) errors: Vec<Value>,
}

/// Finish reason for the reader of the reply.
pub(crate) fn finish_reason(finish: &Finish) -> FinishReason {
    match finish {
        Finish::Length => FinishReason::Length,
        Finish::ContentFilter => FinishReason::ContentFilter,
        Finish::ToolCalls => FinishReason::ToolCalls,
        Finish::Stop | Finish::Other(_) => FinishReason::Stop,
    }
}

/// Reads a reply against the offered tools.
pub(crate) fn decide(
    response: &StandardResponse,
    parsed: &Parsed,
    question: &Question<'_>,
    suspects: &UntrustedTexts,
) -> Reply {
    let tools: &ToolSet = question.tools;
    let decision = tools.interpret(parsed);
    let refusal = refusal(parsed, decision.faults());
    let mut natives = NativeMatcher::new(&response.tool_calls);
    let mut turn = Turn {
        text: without_reasoning(&response.text, parsed),
        native: response.tool_calls.clone(),
        ..Turn::default()
    };
    let mut ready = Vec::new();
    for (index, result) in decision.results.iter().enumerate() {
        let id = call_id(question, index);
        let mut record = record(&id, result, parsed.calls[index].tool.as_str());
        record.native = natives.position(&parsed.calls[index].tool, parsed.calls[index].dialect);
        match (result, &refusal) {
            (Err(fault), _) => record.observation = Some(observe::of_fault(&id, fault)),
            (Ok(call), Some(_)) => {
                record.observation =
                    Some(observe::refused(&id, &call.tool, "another call in this block is wrong"));
            }
            (Ok(call), None) => {
                let raw = &parsed.calls[index];
                let written = response.text.get(raw.span.start..raw.span.end).unwrap_or_default();
                let is_echo = raw.dialect != Dialect::Native && suspects.contains(written);
                ready.extend(ready_call(index, id, call, is_echo));
            }
        }
        turn.calls.push(record);
    }
    turn.notes.extend(parsed.errors().map(observe::of_diagnostic));
    if parsed.has(Code::SecondBlock) {
        turn.notes.push(observe::note("a second block was not run"));
    }
    let has_calls = !turn.calls.is_empty() || refusal.is_some();
    let message = if has_calls { &parsed.text_before } else { &parsed.text };
    Reply {
        message: message.trim().to_owned(),
        turn,
        ready,
        refusal,
        diagnostics: parsed.diagnostics.iter().map(|found| json!(found)).collect(),
    }
}

fn record(id: &CallId, result: &Result<TypedCall, CallFault>, written: &str) -> CallRecord {
    let (tool, arguments) = match result {
        Ok(call) => (call.tool.clone(), call.arguments.clone()),
        Err(CallFault::Arguments { tool, .. }) => (tool.clone(), Map::new()),
        Err(_) => (written.to_owned(), Map::new()),
    };
    CallRecord {
        id: id.clone(),
        tool,
        arguments,
        edited: None,
        native: None,
        attachments: Vec::new(),
        observation: None,
    }
}

/// The reply as history keeps it.
fn without_reasoning(text: &str, parsed: &Parsed) -> String {
    if parsed.segments.iter().all(|segment| segment.kind != SegmentKind::Reasoning) {
        return text.to_owned();
    }
    let kept = parsed.segments.iter().filter(|segment| segment.kind != SegmentKind::Reasoning);
    kept.filter_map(|segment| text.get(segment.span.start..segment.span.end)).collect()
}

fn ready_call(index: usize, id: CallId, call: &TypedCall, is_echo: bool) -> Option<ReadyCall> {
    Some(ReadyCall {
        index,
        id,
        tool: call.tool.parse().ok()?,
        arguments: call.arguments.clone(),
        repairs: call.repairs.iter().map(|code| code.as_str().to_owned()).collect(),
        is_echo,
    })
}

/// All faults of the reader and of the schema; `None` when the block may run.
fn refusal<'f>(parsed: &Parsed, faults: impl Iterator<Item = &'f CallFault>) -> Option<Refusal> {
    let read = parsed.errors().map(|error| (error.code.as_str().to_owned(), json!(error)));
    let typed = faults.map(|fault| {
        let errors = match fault {
            CallFault::Arguments { tool, problems, .. } => json!({"tool": tool, "problems": problems}),
            CallFault::UnknownTool { name, near, .. } => json!({"tool": name, "suggest": near}),
            other => json!({"code": other.code()}),
        };
        (fault.code().to_owned(), errors)
    });
    let (codes, errors): (Vec<String>, Vec<Value>) = read.chain(typed).unzip();
    Some(Refusal { code: codes.into_iter().next()?, errors })
}

/// Matches calls to native calls: the next one of the same name.
struct NativeMatcher<'r> {
    natives: &'r [NativeCall],
    taken: Vec<bool>,
}

impl<'r> NativeMatcher<'r> {
    fn new(natives: &'r [NativeCall]) -> Self {
        Self { natives, taken: vec![false; natives.len()] }
    }

    fn position(&mut self, name: &str, dialect: Dialect) -> Option<usize> {
        let same = |native: &NativeCall| {
            native.name == name || (dialect != Dialect::Native && native.name == tool_schema::wire_name(name))
        };
        let position =
            (0..self.natives.len()).find(|&index| !self.taken[index] && same(&self.natives[index]))?;
        self.taken[position] = true;
        Some(position)
    }
}
