//! JSON in a block: whole calls, or the arguments of a tool.

use serde_json::{Map, Value as Json};

use crate::json::{FaultKind, JsonFault, Reading, read_lenient};
use crate::{Code, Dialect, RawArgument, RawCall, RawValue, Span, Vocabulary};

use super::between_calls::LastCall;
use super::source::Source;
use super::{Flow, Machine, State};

/// Purpose of the JSON text.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Purpose {
    /// `{"name": …, "arguments": …}`, or an array of such.
    Calls,
    /// The arguments of the tool whose element is open.
    Body,
}

/// A walk to the end of JSON text: to the bracket that closes the first one.
#[derive(Debug)]
pub(super) struct JsonScan {
    start: usize,
    at: usize,
    depth: usize,
    in_string: bool,
    escaped: bool,
    purpose: Purpose,
}

impl JsonScan {
    /// One past the closing bracket, once it is there.
    fn end(&mut self, src: Source<'_>) -> Option<usize> {
        while let Some(byte) = src.byte(self.at) {
            self.at += 1;
            match byte {
                _ if self.escaped => self.escaped = false,
                b'\\' if self.in_string => self.escaped = true,
                b'"' => self.in_string = !self.in_string,
                _ if self.in_string => {}
                b'{' | b'[' => self.depth += 1,
                b'}' | b']' => {
                    self.depth -= 1;
                    if self.depth == 0 {
                        return Some(self.at);
                    }
                }
                _other => {}
            }
        }
        None
    }
}

impl Machine {
    pub(super) fn begin_json(&mut self, purpose: Purpose) -> Flow {
        self.state = State::Json(JsonScan {
            start: self.at,
            at: self.at,
            depth: 0,
            in_string: false,
            escaped: false,
            purpose,
        });
        Flow::Go
    }

    pub(super) fn json_text(&mut self, src: Source<'_>, _vocabulary: &dyn Vocabulary) -> Flow {
        let State::Json(scan) = &mut self.state else { return Flow::Go };
        let (start, purpose) = (scan.start, scan.purpose);
        let Some(end) = scan.end(src) else { return self.json_without_end(src, start) };
        self.at = start;
        match purpose {
            Purpose::Calls => self.json_calls(src, start, end),
            Purpose::Body => {
                self.state = State::Children;
                self.json_body(src, start, end);
                if matches!(self.state, State::Children) {
                    self.at = end;
                }
            }
        }
        Flow::Go
    }

    /// The input ended inside JSON text: cut, or with a bracket or quote missing before a close tag.
    fn json_without_end(&mut self, src: Source<'_>, start: usize) -> Flow {
        if !src.ended() {
            return Flow::Wait;
        }
        let closed = memchr::memmem::find(&src.bytes()[start..], b"</").is_some()
            || memchr::memmem::find(&src.bytes()[start..], b"<<<END").is_some();
        if closed {
            self.json_fault(src, "a bracket or a quote of the JSON text is not closed");
            return Flow::Go;
        }
        self.truncated(src)
    }

    fn json_fault(&mut self, src: Source<'_>, message: &str) {
        self.fail(src, Code::MalformedXml, message, "Write exact JSON, or elements instead.");
    }

    fn json_calls(&mut self, src: Source<'_>, start: usize, end: usize) {
        let reading = match read_lenient(&src.text[start..end], self.limits.depth) {
            Ok(reading) => reading,
            Err(fault) => return self.report_fault(src, &fault, start),
        };
        let Reading { value, repaired, conflicts } = reading;
        let (values, in_list) = match value {
            Json::Array(values) => (values, true),
            single => (vec![single], false),
        };
        for (index, value) in values.into_iter().enumerate() {
            if self.block.calls >= self.limits.calls {
                return self.over_limit(src, "calls", self.limits.calls);
            }
            let own = if in_list { below(&conflicts, &format!("/{index}")) } else { conflicts.clone() };
            let mut call = match call(value, &own, self.limits.depth, Span::new(start, end)) {
                Ok(call) => call,
                Err(message) => return self.json_fault(src, &message),
            };
            for code in std::mem::take(&mut self.block.repairs) {
                call.repair(code);
            }
            if repaired {
                call.repair(Code::JsonRepaired);
            }
            self.call_starts(self.block.calls, &call.tool.clone());
            let (tool, tag) = (call.tool.clone(), call.tool.clone());
            self.block.last = Some(LastCall { tool, tag, json: true, parameter: None });
            self.push_call(call);
        }
        self.at = end;
        self.state = State::Between;
    }

    fn report_fault(&mut self, src: Source<'_>, fault: &JsonFault, start: usize) {
        self.at = start + fault.offset;
        if fault.kind == FaultKind::TooDeep {
            return self.over_limit(src, "depth", self.limits.depth);
        }
        self.json_fault(src, &format!("the JSON text is wrong: {}", fault.message));
    }

    /// The arguments of the open tool as JSON text.
    pub(super) fn json_body(&mut self, src: Source<'_>, start: usize, end: usize) {
        let parsed = arguments(&src.text[start..end], self.limits.depth);
        self.add_json_arguments(src, parsed, start);
    }

    pub(super) fn add_json_arguments(
        &mut self,
        src: Source<'_>,
        parsed: Result<Arguments, JsonFault>,
        start: usize,
    ) {
        match parsed {
            Ok(arguments) => {
                let Some(call) = &mut self.block.call else { return };
                if arguments.repaired {
                    call.repair(Code::JsonRepaired);
                }
                call.arguments.extend(named(arguments.members));
                call.conflicts.extend(arguments.conflicts);
            }
            Err(fault) => self.report_fault(src, &fault, start),
        }
    }
}

/// The arguments of a call out of JSON text.
pub(super) struct Arguments {
    members: Map<String, Json>,
    repaired: bool,
    conflicts: Vec<String>,
}

impl Arguments {
    pub(super) fn add_to(self, call: &mut RawCall) {
        if self.repaired {
            call.repair(Code::JsonRepaired);
        }
        call.arguments.extend(named(self.members));
        call.conflicts.extend(self.conflicts);
    }
}

/// Reads JSON text that must be an object.
pub(super) fn arguments(text: &str, depth: usize) -> Result<Arguments, JsonFault> {
    let Reading { value, repaired, conflicts } = read_lenient(text, depth)?;
    match value {
        Json::Object(members) => Ok(Arguments { members, repaired, conflicts }),
        _other => Err(JsonFault {
            kind: FaultKind::Broken,
            offset: 0,
            message: "the arguments are not a JSON object".into(),
        }),
    }
}

fn named(members: Map<String, Json>) -> impl Iterator<Item = RawArgument> {
    members.into_iter().map(|(name, value)| RawArgument::new(name, Span::default(), RawValue::Json(value)))
}

/// Returns the conflicts below a pointer, as pointers relative to it.
fn below(conflicts: &[String], base: &str) -> Vec<String> {
    let inside = conflicts.iter().filter_map(|pointer| pointer.strip_prefix(base));
    inside.filter(|rest| rest.starts_with('/')).map(str::to_owned).collect()
}

const NAMES: [&str; 4] = ["name", "tool", "tool_name", "function"];
const ARGUMENTS: [&str; 5] = ["arguments", "parameters", "params", "args", "input"];

/// Refuses a call whose name or arguments are given twice with different values: the intended one is unknown.
fn refuse_twice(conflicts: &[String]) -> Result<(), String> {
    let is_twice = |key: &&&str| conflicts.iter().any(|pointer| pointer.strip_prefix('/') == Some(**key));
    match NAMES.iter().chain(&ARGUMENTS).find(is_twice) {
        Some(key) => Err(format!("`{key}` stands twice in a call, with different values")),
        None => Ok(()),
    }
}

/// A call out of JSON, with the pointers of what stands twice in it; the message says what is wrong with it.
fn call(value: Json, conflicts: &[String], depth: usize, span: Span) -> Result<RawCall, String> {
    let Json::Object(mut members) = value else { return Err("a call in JSON must be an object".into()) };
    let mut conflicts = conflicts.to_vec();
    refuse_twice(&conflicts)?;
    if let Some(Json::Object(inner)) = members.get_mut("function") {
        members = std::mem::take(inner);
        conflicts = below(&conflicts, "/function");
        refuse_twice(&conflicts)?;
    }
    let name = NAMES.iter().find_map(|key| members.get(*key)).and_then(Json::as_str);
    let Some(name) = name.map(str::to_owned) else {
        return Err("a call in JSON needs a `name` and `arguments`".into());
    };
    let mut call = RawCall::new(name, Dialect::Json, span);
    let found = ARGUMENTS.iter().find_map(|key| Some((key, members.shift_remove(*key)?)));
    match found {
        None | Some((_, Json::Null)) => {}
        Some((key, Json::Object(members))) => {
            let conflicts = below(&conflicts, &format!("/{key}"));
            Arguments { members, repaired: false, conflicts }.add_to(&mut call);
        }
        Some((_, Json::String(text))) if text.trim().is_empty() => {}
        Some((_, Json::String(text))) => {
            arguments(&text, depth).map_err(|fault| fault.message)?.add_to(&mut call);
        }
        Some((_, Json::Bool(_) | Json::Number(_) | Json::Array(_))) => {
            return Err(format!("the arguments of `{}` must be a JSON object", call.tool));
        }
    }
    Ok(call)
}
