//! A call in a block: its tag, its dialect, and its end.

use std::ops::Range;

use crate::{Code, Dialect, RawArgument, RawCall, ShapeId, Span, Vocabulary};

use super::between_calls::{CallBuild, LastCall};
use super::element_tree::{Frame, FrameKind, Role};
use super::lenient_tags::{Lex, OpenTag, attributes, lex};
use super::output::Item;
use super::source::Source;
use super::{Flow, Machine, State, value_text};

impl Machine {
    /// Takes the call at the cursor the short way: in a whole text, when it is well-formed and plain.
    pub(super) fn take_well_formed(&mut self, src: Source<'_>, vocabulary: &dyn Vocabulary) -> bool {
        if !src.ended() || self.out.live || self.block.long_way || self.block.calls >= self.limits.calls {
            return false;
        }
        let Some(read) = self.well_formed(src, vocabulary) else {
            self.block.long_way = true;
            return false;
        };
        let mut call = read.call;
        for code in std::mem::take(&mut self.block.repairs) {
            call.repair(code);
        }
        self.at = call.span.end;
        self.block.elements += read.elements;
        self.block.unclosed_name = None;
        let (tool, tag) = (call.tool.clone(), call.tool.clone());
        self.block.last = Some(LastCall { tool, tag, json: false, parameter: read.last_parameter });
        self.push_call(call);
        self.after_call();
        true
    }

    pub(super) fn begin_call(
        &mut self,
        src: Source<'_>,
        vocabulary: &dyn Vocabulary,
        tag: &OpenTag,
        start: usize,
    ) {
        self.at = tag.after;
        let name = &src.text[tag.name.clone()];
        let known = vocabulary.tool(name);
        let generic = known.is_none().then(|| generic(name)).flatten();
        let named = generic.and_then(|_| attribute(src, tag, &["name", "tool", "tool_name"]));
        if let (Some(dialect), Some(tool)) = (generic, named) {
            let parameters = vocabulary.tool(&tool);
            self.open_call(src, tool, dialect, tag.name.clone(), start, parameters);
        } else if generic.is_some() && is_bare_call(name) && !tag.self_closed {
            self.state = State::Unnamed { name: tag.name.clone(), start };
            return;
        } else {
            self.open_call(src, name.to_owned(), Dialect::Action, tag.name.clone(), start, known);
            self.attribute_parameters(src, vocabulary, tag, known);
        }
        if tag.self_closed && matches!(self.state, State::Children) {
            self.close_call(src, tag.after);
        }
    }

    /// Declared parameters may be attributes of the tool's own tag; of an unknown tool all of them.
    pub(super) fn attribute_parameters(
        &mut self,
        src: Source<'_>,
        vocabulary: &dyn Vocabulary,
        tag: &OpenTag,
        known: Option<ShapeId>,
    ) {
        for found in attributes(src, tag) {
            if self.block.elements >= self.limits.elements {
                self.over_limit(src, "elements", self.limits.elements);
                return;
            }
            let Some(call) = &mut self.block.call else { return };
            let name = &src.text[found.name.clone()];
            if known.is_some_and(|tool| vocabulary.field(tool, name).is_none()) {
                continue;
            }
            let value = crate::RawValue::Text(value_text::decoded(&src.text[found.value.clone()]));
            call.arguments.push(RawArgument::new(name, Span::new(found.name.start, found.value.end), value));
            self.block.elements += 1;
        }
    }

    pub(super) fn open_call(
        &mut self,
        src: Source<'_>,
        tool: String,
        dialect: Dialect,
        close: Range<usize>,
        start: usize,
        parameters: Option<ShapeId>,
    ) {
        if self.block.calls >= self.limits.calls {
            self.at = start;
            self.over_limit(src, "calls", self.limits.calls);
            return;
        }
        let number = self.block.calls;
        if !tool.is_empty() {
            self.call_starts(number, &tool);
        }
        self.block.path.clear();
        self.block.unclosed_name = None;
        let kind = parameters.map_or(FrameKind::Open, FrameKind::Object);
        self.block.frames.push(Frame::new(close.clone(), close, start, self.at, kind, Role::Call));
        self.block.call = Some(CallBuild {
            unnamed: tool.is_empty(),
            tool,
            dialect,
            start,
            number,
            arguments: Vec::new(),
            repairs: std::mem::take(&mut self.block.repairs),
            conflicts: Vec::new(),
            last_parameter: None,
        });
        self.state = State::Children;
    }

    pub(super) fn call_starts(&mut self, call: usize, tool: &str) {
        let name = self.out.note(tool);
        self.out.push(Item::CallStart { call, name });
    }

    /// After `<tool_call>` without a name: JSON, a name in a child, or whole calls.
    pub(super) fn unnamed(&mut self, src: Source<'_>, name: Range<usize>, start: usize) -> Flow {
        self.at = src.skip_blanks(self.at);
        let tag = &src.text[name.clone()];
        let child = match src.byte(self.at) {
            None => return self.truncated(src),
            Some(b'<') => match lex(src, self.at) {
                Lex::More => return Flow::Wait,
                Lex::Comment => return self.pass_comment(src, self.at),
                Lex::Open { name, .. } => Some(name),
                Lex::Close { .. }
                | Lex::CutClose { .. }
                | Lex::Data
                | Lex::Section
                | Lex::Instruction
                | Lex::Declaration => None,
            },
            Some(_) => None,
        };
        if child.is_some_and(|child| is_name_child(child) || is_arguments_child(child)) {
            let dialect = generic(tag).unwrap_or(Dialect::ToolCall);
            self.open_call(src, String::new(), dialect, name, start, None);
        } else {
            self.block.wrappers.push(tag.to_owned());
            self.state = State::Between;
        }
        Flow::Go
    }

    /// The call whose frame is open ends before `after`.
    pub(super) fn close_call(&mut self, src: Source<'_>, after: usize) {
        let Some(frame) = self.block.frames.pop() else { return };
        let Some(build) = self.block.call.take() else { return };
        let inner = src.text.get(frame.inner..self.at).filter(|_| frame.mixed && build.arguments.is_empty());
        self.at = after;
        if build.tool.is_empty() {
            self.at = frame.start;
            let hint = "Put the tool's name into the tag or into a `<tool_name>`.";
            self.fail(src, Code::MalformedXml, "a call without the name of a tool", hint);
            return;
        }
        let mut call = RawCall::new(build.tool, build.dialect, Span::new(build.start, after));
        call.arguments = build.arguments;
        call.repairs = build.repairs;
        call.conflicts = build.conflicts;
        inner.unwrap_or_default().trim().clone_into(&mut call.text);
        let tag = src.text[frame.close].to_owned();
        self.block.last =
            Some(LastCall { tool: call.tool.clone(), tag, json: false, parameter: build.last_parameter });
        self.push_call(call);
        self.after_call();
    }

    pub(super) fn push_call(&mut self, call: RawCall) {
        self.block.calls += 1;
        if self.out.mute {
            return;
        }
        self.out.calls.push(call);
        self.out.push(Item::CallEnd(self.out.calls.len() - 1));
    }
}

/// The dialect of an element that stands for a call and not for a tool of that name.
fn generic(name: &str) -> Option<Dialect> {
    let known = [
        ("tool_call", Dialect::ToolCall),
        ("tool_use", Dialect::ToolUse),
        ("tool", Dialect::Action),
        ("invoke", Dialect::Action),
    ];
    known.into_iter().find(|(tag, _)| name.eq_ignore_ascii_case(tag)).map(|(_, dialect)| dialect)
}

/// Returns `true` for an element that is a call of another dialect also without a block around it.
pub(super) fn is_bare_call(name: &str) -> bool {
    matches!(generic(name), Some(Dialect::ToolCall | Dialect::ToolUse))
}

pub(super) fn is_name_child(name: &str) -> bool {
    matches!(name, "tool_name" | "name")
}

pub(crate) fn is_arguments_child(name: &str) -> bool {
    matches!(name, "parameters" | "arguments" | "params" | "args" | "input")
}

/// The decoded value of the first attribute that has one of these names.
pub(super) fn attribute(src: Source<'_>, tag: &OpenTag, names: &[&str]) -> Option<String> {
    let found = attributes(src, tag);
    let value =
        names.iter().find_map(|name| found.iter().find(|one| &src.text[one.name.clone()] == *name))?;
    Some(value_text::decoded(&src.text[value.value.clone()])).filter(|value| !value.is_empty())
}
