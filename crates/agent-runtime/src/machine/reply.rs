//! From a model's reply to calls that may run, or to observations of their faults.

use std::sync::Arc;

use agent_types::{ApprovalDefault, CallId, Observation, ToolId};
use llm_provider::{Finish, NativeCall, StandardResponse};
use protocol_action::{Code, Diagnostic, Dialect, Parsed, SegmentKind, unread_call};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};
use tool_registry::{Snapshot, Tool};
use tool_schema::{CallFault, ToolSet, TypedCall};

use super::observe;
use crate::history::{CallRecord, Turn};
use crate::prompt::injection_guard::UntrustedTexts;
use crate::prompt::text::Protocol;

/// Code of the note on text that was written behind a call.
const DROPPED_TEXT: &str = "dropped_text";

/// A reply, read and typed.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Reply {
    /// The turn as history keeps it; the calls have no results yet unless the block is refused.
    pub turn: Turn,
    /// Text for the user: before the calls, or all of it.
    pub message: String,
    /// The calls that may run, by their position in the turn; empty when the block is refused.
    pub ready: Vec<ReadyCall>,
    /// Reason for refusing the block.
    pub refusal: Option<Refusal>,
    /// The way in which the reply ended.
    pub finish: Finish,
    /// Everything that was found, for events.
    pub diagnostics: Vec<Value>,
    /// Observation about what looks like a call in a reply without calls.
    #[serde(default)]
    pub unread: Option<Observation>,
}

/// A call that fits.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ReadyCall {
    /// Position in the turn.
    pub index: usize,
    /// Its id.
    pub id: CallId,
    /// The tool.
    pub tool: ToolId,
    /// Typed arguments.
    pub arguments: Arc<Map<String, Value>>,
    /// Codes of what was repaired to read it.
    pub repairs: Vec<String>,
    /// The same call stands in a foreign text.
    pub is_echo: bool,
    /// Facts about its tool.
    pub facts: CallFacts,
}

/// Facts about the tool of a call that decide when it runs.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct CallFacts {
    /// Decision on calls unless the profile says otherwise.
    pub approval: ApprovalDefault,
    /// A call has no visible effect.
    pub is_read_only: bool,
    /// A call that may have run already can run again without a decision.
    pub is_repeatable: bool,
}

/// Ids of the calls of a reply.
#[derive(Debug, Clone, Copy)]
pub struct CallIds<'i> {
    /// Number of the first one.
    pub first: u64,
    /// Prefix: the id of the call that the agent answers, if it runs inside another.
    pub prefix: &'i str,
}

impl CallIds<'_> {
    /// The id of the call at a position.
    #[must_use]
    pub fn at(&self, index: usize) -> CallId {
        CallId::new(format!("{}{}", self.prefix, self.first + index as u64))
    }
}

/// Refusal of a block.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Refusal {
    /// Code of the first fault.
    pub code: String,
    /// All faults.
    pub errors: Vec<Value>,
}

impl Reply {
    /// Returns `true` when the reply calls tools, rightly or wrongly.
    #[must_use]
    pub fn has_calls(&self) -> bool {
        self.refusal.is_some() || !self.turn.calls.is_empty()
    }

    /// Returns `true` when there is nothing in it: no text for the user, no call, no fault of one.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.message.is_empty() && !self.has_calls()
    }
}

impl CallFacts {
    /// Facts about a tool.
    #[must_use]
    pub fn from_tool(tool: &Tool) -> Self {
        let annotations = &tool.definition().annotations;
        Self {
            approval: tool.approval(),
            is_read_only: annotations.read_only,
            // An agent or a workflow resumes inside; interrupted calls there are asked about.
            is_repeatable: !annotations.effect || annotations.idempotent || tool.has_inner_run(),
        }
    }
}

/// Context for reading a reply.
#[derive(Debug, Clone, Copy)]
pub struct Reading<'r> {
    /// Offered tools.
    pub tools: &'r Snapshot,
    /// The same for the reader of calls.
    pub set: &'r ToolSet,
    /// Ids of its calls.
    pub ids: CallIds<'r>,
    /// Foreign texts that look like calls.
    pub suspects: &'r UntrustedTexts,
    /// Form in which the tools are offered.
    pub protocol: Protocol,
}

/// Reads a reply against the offered tools.
#[must_use]
pub fn read_reply(response: &StandardResponse, parsed: &Parsed, reading: &Reading<'_>) -> Reply {
    let decision = reading.set.interpret(parsed);
    let is_cut = !parsed.calls.is_empty() && !response.finish.is_whole();
    let refusal =
        refusal(parsed, decision.faults()).or_else(|| is_cut.then(|| Refusal::cut(&response.finish)));
    let reason = others_reason(parsed, &response.finish);
    let mut natives = NativeMatcher::new(&response.tool_calls);
    let mut turn = Turn {
        text: kept_text(&response.text, parsed),
        native: response.tool_calls.clone(),
        ..Turn::default()
    };
    let mut ready = Vec::new();
    for (index, result) in decision.results.iter().enumerate() {
        let id = reading.ids.at(index);
        let mut record = record(&id, result, parsed.calls[index].tool.as_str());
        record.native = natives.position(&parsed.calls[index].tool, parsed.calls[index].dialect, true);
        match (result, &refusal) {
            (Err(fault), _) => record.observation = Some(observe::of_fault(&id, fault)),
            (Ok(call), Some(_)) => {
                record.observation = Some(observe::refused(&id, &call.tool, &reason));
            }
            (Ok(call), None) => {
                let raw = &parsed.calls[index];
                let written = response.text.get(raw.span.start..raw.span.end).unwrap_or_default();
                let is_echo = raw.dialect != Dialect::Native && reading.suspects.contains(written);
                let tool = reading.tools.get(&call.tool);
                ready.extend(tool.and_then(|tool| ready_call(index, id, call, is_echo, tool)));
            }
        }
        turn.calls.push(record);
    }
    for error in parsed.errors() {
        // A native call that cannot be read is a call all the same, and has its result.
        let native = error.tool.as_deref().filter(|_| error.line == 0);
        match native.and_then(|tool| natives.position(tool, Dialect::Native, false)) {
            Some(position) => {
                let id = reading.ids.at(turn.calls.len());
                turn.calls.push(unreadable(id, position, error));
            }
            None => turn.notes.push(observe::of_diagnostic(error)),
        }
    }
    if parsed.has(Code::SecondBlock) {
        turn.notes.push(observe::note("a second block was not run"));
    }
    let has_calls = !turn.calls.is_empty() || refusal.is_some();
    let message = if has_calls { &parsed.text_before } else { &parsed.text };
    let unread =
        (!has_calls && response.finish.is_whole()).then(|| unread(&response.text, reading)).flatten();
    Reply {
        message: message.trim().to_owned(),
        turn,
        ready,
        refusal,
        finish: response.finish.clone(),
        diagnostics: parsed
            .diagnostics
            .iter()
            .map(|found| json!(found))
            .chain(dropped(parsed, has_calls))
            .collect(),
        unread,
    }
}

/// The observation about an attempted call, where tools are offered.
fn unread(text: &str, reading: &Reading<'_>) -> Option<Observation> {
    let Reading { set, protocol, .. } = reading;
    if set.tools().is_empty() {
        return None;
    }
    let found = unread_call(text, *set)?;
    let tool = found.tool.as_deref().and_then(|name| set.get(name));
    Some(observe::unread(&found, tool, *protocol))
}

/// A note on text behind the calls: it was written before their results were known, so it is not shown.
fn dropped(parsed: &Parsed, has_calls: bool) -> Option<Value> {
    let text = parsed.text_after.trim();
    let message = format!("{} bytes of text behind the block were dropped", text.len());
    (has_calls && !text.is_empty())
        .then(|| json!({"code": DROPPED_TEXT, "severity": "note", "message": message}))
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

/// A native call whose arguments cannot be read.
fn unreadable(id: CallId, native: usize, error: &Diagnostic) -> CallRecord {
    let tool = error.tool.clone().unwrap_or_default();
    CallRecord {
        observation: Some(observe::of_native(&id, &tool, &error.message)),
        id,
        tool,
        arguments: Map::new(),
        edited: None,
        native: Some(native),
        attachments: Vec::new(),
    }
}

/// The reply as history keeps it: without its reasoning, and without what the model wrote behind its block, as if
/// the results had come.
fn kept_text(text: &str, parsed: &Parsed) -> String {
    let end = parsed.segments.iter().rposition(|segment| segment.kind == SegmentKind::Block);
    let kept = parsed.segments.iter().take(end.map_or(usize::MAX, |end| end + 1));
    let kept = kept.filter(|segment| segment.kind != SegmentKind::Reasoning);
    kept.filter_map(|segment| text.get(segment.span.start..segment.span.end)).collect()
}

/// The reason for which a call that fits is not run.
fn others_reason(parsed: &Parsed, finish: &Finish) -> String {
    let is_native = parsed.calls.iter().all(|call| call.dialect == Dialect::Native);
    match (finish.is_whole(), is_native) {
        (false, _) => format!("the reply did not reach its end ({})", finish.as_str()),
        (true, true) => "another call of the reply is wrong".to_owned(),
        (true, false) => "another call in this block is wrong".to_owned(),
    }
}

impl Refusal {
    /// The calls of a reply that did not reach its end.
    fn cut(finish: &Finish) -> Self {
        let code = Code::Truncated.as_str().to_owned();
        Self { errors: vec![json!({"code": code, "finish": finish.as_str()})], code }
    }
}

fn ready_call(index: usize, id: CallId, call: &TypedCall, is_echo: bool, tool: &Tool) -> Option<ReadyCall> {
    Some(ReadyCall {
        index,
        id,
        tool: call.tool.parse().ok()?,
        arguments: Arc::new(call.arguments.clone()),
        repairs: call.repairs.iter().map(|code| code.as_str().to_owned()).collect(),
        is_echo,
        facts: CallFacts::from_tool(tool),
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

/// Matches calls to native calls: the next one of the same name, if possible one whose arguments can be read as those of
/// the call could.
struct NativeMatcher<'r> {
    natives: &'r [NativeCall],
    taken: Vec<bool>,
}

impl<'r> NativeMatcher<'r> {
    fn new(natives: &'r [NativeCall]) -> Self {
        Self { natives, taken: vec![false; natives.len()] }
    }

    fn position(&mut self, name: &str, dialect: Dialect, was_read: bool) -> Option<usize> {
        let same = |native: &NativeCall| {
            native.name == name || (dialect != Dialect::Native && native.name == tool_schema::wire_name(name))
        };
        let mut free = (0..self.natives.len()).filter(|&at| !self.taken[at] && same(&self.natives[at]));
        let first = free.next()?;
        let alike = |at: &usize| can_be_read(&self.natives[*at]) == was_read;
        let position = std::iter::once(first).chain(free).find(alike).unwrap_or(first);
        self.taken[position] = true;
        Some(position)
    }
}

fn can_be_read(call: &NativeCall) -> bool {
    let arguments = call.arguments.trim();
    arguments.is_empty() || serde_json::from_str::<Value>(arguments).is_ok()
}
