//! Parameters, and the trees of elements below them.
//!
//! A frame is an open element. Under a declared object or list every child has a shape. Below an
//! element of no declared shape (its root) reading is plain XML; where that fails, the root is read
//! again as one raw value.

use std::borrow::Cow;
use std::ops::Range;

use crate::{Code, RawArgument, RawValue, ShapeId, Span, Vocabulary};

use super::between_calls::LastParameter;
use super::hidden_openers::fence_marker;
use super::lenient_tags::{Damaged, Lex, TagScan, damaged_close, is_cut, lex};
use super::output::Item;
use super::reasoning::is_think;
use super::source::{Found, Source};
use super::{Flow, Machine, State, TagKind, value_text};

/// Content that is allowed inside an element.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum FrameKind {
    /// Nothing is declared here.
    Open,
    /// A declared object, or the tool itself.
    Object(ShapeId),
    /// A declared list of this.
    List(ShapeId),
    Text,
    Scalar,
}

/// Use of an element when it closes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Role {
    Call,
    /// A parameter, field or item.
    Value,
    /// The name of a `<tool_use>`.
    ToolName,
    /// The arguments of a `<tool_use>`.
    Arguments,
}

/// An open element.
#[derive(Debug)]
pub(super) struct Frame {
    /// Byte range of its name for the close tag.
    pub(super) close: Range<usize>,
    /// Byte range of its name: the tag, or an attribute.
    pub(super) name: Range<usize>,
    pub(super) start: usize,
    pub(super) inner: usize,
    pub(super) kind: FrameKind,
    pub(super) role: Role,
    pub(super) children: Vec<RawArgument>,
    pub(super) mixed: bool,
    pub(super) declared: bool,
    /// Length of the path before it.
    pub(super) path_len: usize,
}

impl Frame {
    pub(super) fn new(
        close: Range<usize>,
        name: Range<usize>,
        start: usize,
        inner: usize,
        kind: FrameKind,
        role: Role,
    ) -> Self {
        let declared = kind != FrameKind::Open;
        Self {
            close,
            name,
            start,
            inner,
            kind,
            role,
            children: Vec::new(),
            mixed: false,
            declared,
            path_len: 0,
        }
    }

    /// Returns `true` when the vocabulary knows this name here.
    pub(super) fn is_declared(&self) -> bool {
        self.declared
    }

    /// Returns `true` while no text stands in it.
    fn is_untouched(&self) -> bool {
        !self.mixed
    }

    pub(super) fn close_in<'a>(&self, src: Source<'a>) -> &'a str {
        &src.text[self.close.clone()]
    }

    /// The name; as an attribute it may hold entities.
    pub(super) fn name_in<'a>(&self, src: Source<'a>) -> Cow<'a, str> {
        let name = &src.text[self.name.clone()];
        if self.name == self.close || !name.contains('&') {
            name.into()
        } else {
            value_text::decoded(name).into()
        }
    }
}

impl Machine {
    pub(super) fn children(&mut self, src: Source<'_>, vocabulary: &dyn Vocabulary) -> Flow {
        self.at = src.skip_blanks(self.at);
        match src.byte(self.at) {
            None => self.truncated(src),
            Some(b'<') => self.child_tag(src),
            Some(_) => match self.bare_text(src, vocabulary) {
                Some(flow) => flow,
                None => self.loose_text(src),
            },
        }
    }

    fn child_tag(&mut self, src: Source<'_>) -> Flow {
        let at = self.at;
        match lex(src, at) {
            Lex::More => Flow::Wait,
            Lex::Comment => self.pass_comment(src, at),
            Lex::Instruction => self.pass_instruction(src, at),
            Lex::Declaration => self.forbidden(src),
            Lex::CutClose { .. } => self.truncated(src),
            Lex::Data if is_cut(src, at) => self.truncated(src),
            Lex::Data => self.damaged_child_close(src),
            Lex::Section => self.section_between(src),
            Lex::Close { name, after } => self.child_close(src, name, after),
            Lex::Open { name, after } => {
                let scan = TagScan::new(at, after);
                self.state = State::Tag { scan, name_len: name.len(), kind: TagKind::Parameter };
                Flow::Go
            }
        }
    }

    /// No markup, unless it is the damaged close tag of the open element.
    fn damaged_child_close(&mut self, src: Source<'_>) -> Flow {
        let Some(frame) = self.block.frames.last() else { return Flow::Go };
        let after = match damaged_close(src, self.at, frame.close_in(src)) {
            Damaged::More => return Flow::Wait,
            Damaged::No => return self.loose_text(src),
            Damaged::Until(after) => after,
        };
        if let Some(call) = &mut self.block.call {
            call.repair(Code::MangledClose);
        }
        self.close_frame(src, after);
        Flow::Go
    }

    /// A section between elements: JSON for the whole tool, or text of the element.
    fn section_between(&mut self, src: Source<'_>) -> Flow {
        let inner = self.at + super::lenient_tags::SECTION.len();
        match self.section_ends.next(src, inner) {
            Found::NotBefore(_) => Flow::Wait,
            Found::Never => {
                self.at = src.len();
                self.truncated(src)
            }
            Found::At(end) => {
                let body = src.text[inner..end].trim();
                if self.takes_json_body() && body.starts_with('{') {
                    let start = inner + src.text[inner..end].find('{').unwrap_or(0);
                    self.at = start;
                    self.json_body(src, start, start + body.len());
                    if matches!(self.state, State::Children) {
                        self.at = end + 3;
                    }
                    return Flow::Go;
                }
                self.text_until(src, end + 3)
            }
        }
    }

    pub(super) fn takes_json_body(&self) -> bool {
        let at_tool = self.block.frames.len() == 1;
        at_tool && self.block.call.as_ref().is_some_and(|call| call.arguments.is_empty() && !call.unnamed)
    }

    fn loose_text(&mut self, src: Source<'_>) -> Flow {
        let byte = src.byte(self.at);
        // Only the beginning of the text decides: content within it is part of it.
        if self.block.frames.len() == 1 && self.block.frames[0].is_untouched() {
            if byte == Some(b'{') && self.takes_json_body() {
                return self.begin_json(super::json_calls::Purpose::Body);
            }
            match fence_marker(src, self.at) {
                Found::NotBefore(_) => return Flow::Wait,
                Found::At(after) => {
                    if let Some(call) = &mut self.block.call {
                        call.repair(Code::FencedBlock);
                    }
                    return self.go(after);
                }
                Found::Never => {}
            }
        }
        let rest = &src.bytes()[self.at + 1..];
        let end = memchr::memchr(b'<', rest).map_or(src.len(), |found| self.at + 1 + found);
        self.text_until(src, end)
    }

    fn text_until(&mut self, src: Source<'_>, end: usize) -> Flow {
        let Some(frame) = self.block.frames.last_mut() else { return Flow::Go };
        frame.mixed = true;
        if frame.role == Role::Call {
            let unknown = frame.kind == FrameKind::Open;
            if !unknown || self.block.call.as_ref().is_none_or(|call| call.unnamed) {
                let hint = "Put every value into the tag of its parameter.";
                self.fail(src, Code::MalformedXml, "text outside of a parameter", hint);
                return Flow::Go;
            }
        }
        self.go(end)
    }

    fn child_close(&mut self, src: Source<'_>, name: &str, after: usize) -> Flow {
        let Some(frame) = self.block.frames.last() else { return Flow::Go };
        let expected = frame.close_in(src);
        let exact = expected == name;
        if exact || (expected.eq_ignore_ascii_case(name) && !self.is_open(src, name)) {
            if !exact && let Some(call) = &mut self.block.call {
                call.repair(Code::MangledClose);
            }
            self.close_frame(src, after);
            return Flow::Go;
        }
        if self.block.any_root.is_some() {
            self.read_root_as_text();
            return Flow::Go;
        }
        if is_think(name) && !self.ignore_reasoning && self.blocks == 0 {
            match self.ends_line(src, after) {
                None => return Flow::Wait,
                Some(true) => return self.all_was_reasoning(after),
                Some(false) => {}
            }
        }
        let ends_block = !self.block.bare && name.eq_ignore_ascii_case("action");
        if ends_block || self.is_open(src, name) {
            let message = format!("`</{name}>` stands where `</{expected}>` is still missing");
            self.fail(src, Code::MalformedXml, message, "Close every tag, the innermost first.");
            return Flow::Go;
        }
        if let Some(call) = &mut self.block.call {
            call.repair(Code::MangledClose);
        }
        self.go(after)
    }

    pub(super) fn is_open(&self, src: Source<'_>, name: &str) -> bool {
        self.block.frames.iter().any(|frame| frame.close_in(src) == name)
    }

    /// The tree below the root is not well-formed: its value is text.
    fn read_root_as_text(&mut self) {
        let Some((root, elements)) = self.block.any_root.take() else { return };
        self.block.frames.truncate(root + 1);
        self.block.elements = elements;
        let Some(frame) = self.block.frames.last_mut() else { return };
        frame.children.clear();
        frame.mixed = false;
        self.at = frame.inner;
        self.begin_value();
    }

    /// Closes the innermost element at its close tag, whose `<` is at the cursor.
    fn close_frame(&mut self, src: Source<'_>, after: usize) {
        let Some(frame) = self.block.frames.last_mut() else { return };
        if frame.role == Role::Call {
            self.close_call(src, after);
            return;
        }
        let end = self.at;
        let root = self.block.any_root.is_some_and(|(root, _)| root + 1 == self.block.frames.len());
        let Some(frame) = self.block.frames.last_mut() else { return };
        let value = if frame.children.is_empty() {
            RawValue::Text(value_text::whole(src.text, frame.inner, end))
        } else {
            let source = if root { src.text[frame.inner..end].to_owned() } else { String::new() };
            let children = std::mem::take(&mut frame.children);
            RawValue::Elements { children, source, mixed: frame.mixed }
        };
        if root {
            self.block.any_root = None;
        }
        self.finish_value(src, value, after);
    }

    /// Stores a complete value in its parent; reading continues at `after`.
    pub(super) fn finish_value(&mut self, src: Source<'_>, value: RawValue, after: usize) {
        let Some(frame) = self.block.frames.pop() else { return };
        self.at = after;
        self.state = State::Children;
        match frame.role {
            Role::Call => {}
            Role::ToolName => self.name_call(&value),
            Role::Arguments => self.take_arguments(src, value, &frame),
            Role::Value => {
                let argument = RawArgument::new(frame.name_in(src), Span::new(frame.start, after), value);
                self.param_ends(&frame);
                let Some(parent) = self.block.frames.last_mut() else { return };
                if parent.role == Role::Call {
                    self.push_argument(argument, vec![frame.close_in(src).to_owned()]);
                } else {
                    parent.children.push(argument);
                }
            }
        }
    }

    /// Adds a parameter of the call, with the close tags from it up to the call's.
    pub(super) fn push_argument(&mut self, argument: RawArgument, tags: Vec<String>) {
        let Some(call) = &mut self.block.call else { return };
        call.last_parameter = Some(LastParameter { name: argument.name.clone(), tags });
        call.arguments.push(argument);
    }

    fn param_ends(&mut self, frame: &Frame) {
        // Below the root of an undeclared tree there are no separate events.
        if self.block.any_root.is_none() {
            self.block.path.truncate(frame.path_len);
            self.out.push(Item::ParamEnd);
        }
    }

    fn name_call(&mut self, value: &RawValue) {
        let Some(call) = &mut self.block.call else { return };
        if let RawValue::Text(name) = value {
            name.trim().clone_into(&mut call.tool);
        }
        let (number, tool) = (call.number, call.tool.clone());
        self.call_starts(number, &tool);
    }

    fn take_arguments(&mut self, src: Source<'_>, value: RawValue, frame: &Frame) {
        match value {
            RawValue::Elements { children, .. } => {
                let Some(call) = &mut self.block.call else { return };
                call.last_parameter = children.last().map(|child| {
                    let tags = vec![child.name.clone(), frame.close_in(src).to_owned()];
                    LastParameter { name: child.name.clone(), tags }
                });
                call.arguments.extend(children);
            }
            RawValue::Text(text) if text.trim().is_empty() => {}
            RawValue::Text(text) => {
                let parsed = super::json_calls::arguments(&text, self.limits.depth);
                self.add_json_arguments(src, parsed, frame.inner);
            }
            RawValue::Json(_) => {}
        }
    }
}
