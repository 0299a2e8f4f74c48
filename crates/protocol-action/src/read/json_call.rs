//! JSON in a block: whole calls, or the arguments of a tool.

use serde_json::{Map, Value as Json};

use crate::json::{FaultKind, JsonFault, parse_lenient_within};
use crate::{Code, Dialect, RawArgument, RawCall, RawValue, Span, Vocabulary};

use super::source::Source;
use super::{Flow, Machine, State};

/// What the JSON text is.
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
        let (value, repaired) = match parse_lenient_within(&src.text[start..end], self.limits.depth) {
            Ok(parsed) => parsed,
            Err(fault) => return self.report_fault(src, &fault, start),
        };
        let values = match value {
            Json::Array(values) => values,
            single => vec![single],
        };
        for value in values {
            if self.block.calls >= self.limits.calls {
                return self.over_limit(src, "calls", self.limits.calls);
            }
            let mut call = match call(value, self.limits.depth, Span::new(start, end)) {
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
            self.block.last = Some((call.tool.clone(), None));
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
        parsed: Result<(Map<String, Json>, bool), JsonFault>,
        start: usize,
    ) {
        match parsed {
            Ok((members, repaired)) => {
                let Some(call) = &mut self.block.call else { return };
                if repaired {
                    call.repair(Code::JsonRepaired);
                }
                call.arguments.extend(named(members));
            }
            Err(fault) => self.report_fault(src, &fault, start),
        }
    }
}

/// Reads JSON text that must be an object.
pub(super) fn arguments(text: &str, depth: usize) -> Result<(Map<String, Json>, bool), JsonFault> {
    match parse_lenient_within(text, depth)? {
        (Json::Object(members), repaired) => Ok((members, repaired)),
        (_other, _repaired) => Err(JsonFault {
            kind: FaultKind::Broken,
            offset: 0,
            message: "the arguments are no JSON object".into(),
        }),
    }
}

pub(super) fn named(members: Map<String, Json>) -> impl Iterator<Item = RawArgument> {
    members.into_iter().map(|(name, value)| RawArgument::new(name, Span::default(), RawValue::Json(value)))
}

const NAMES: [&str; 4] = ["name", "tool", "tool_name", "function"];
const ARGUMENTS: [&str; 5] = ["arguments", "parameters", "params", "args", "input"];

/// A call out of JSON; the message says what is wrong with it.
fn call(value: Json, depth: usize, span: Span) -> Result<RawCall, String> {
    let Json::Object(mut members) = value else { return Err("a call in JSON must be an object".into()) };
    if let Some(Json::Object(inner)) = members.get_mut("function") {
        members = std::mem::take(inner);
    }
    let name = NAMES.iter().find_map(|key| members.get(*key)).and_then(Json::as_str);
    let Some(name) = name.map(str::to_owned) else {
        return Err("a call in JSON needs a `name` and `arguments`".into());
    };
    let mut call = RawCall::new(name, Dialect::Json, span);
    let found = ARGUMENTS.iter().find_map(|key| members.shift_remove(*key));
    match found {
        None | Some(Json::Null) => {}
        Some(Json::Object(members)) => call.arguments.extend(named(members)),
        Some(Json::String(text)) if text.trim().is_empty() => {}
        Some(Json::String(text)) => {
            let (members, repaired) = arguments(&text, depth).map_err(|fault| fault.message)?;
            call.arguments.extend(named(members));
            if repaired {
                call.repair(Code::JsonRepaired);
            }
        }
        Some(Json::Bool(_) | Json::Number(_) | Json::Array(_)) => {
            return Err(format!("the arguments of `{}` must be a JSON object", call.tool));
        }
    }
    Ok(call)
}
