//! The beginning of a parameter: its name, its shape, and how its value is read.

use std::ops::Range;

use crate::{Code, RawValue, Shape, ShapeId, Vocabulary};

use super::dialects::{attribute, is_arguments_child, is_name_child};
use super::element_tree::{Frame, FrameKind, Role};
use super::lenient_tags::{Lex, OpenTag, lex};
use super::output::Item;
use super::source::Source;
use super::value_close::Value;
use super::value_text::Builder;
use super::{Flow, Machine, State, value_text};

impl Machine {
    pub(super) fn begin_parameter(
        &mut self,
        src: Source<'_>,
        vocabulary: &dyn Vocabulary,
        tag: &OpenTag,
        start: usize,
    ) {
        self.at = start;
        self.block.elements += 1;
        if self.block.elements > self.limits.elements {
            return self.over_limit(src, "elements", self.limits.elements);
        }
        if self.block.frames.len() >= self.limits.depth {
            return self.over_limit(src, "depth", self.limits.depth);
        }
        self.read_list_as_item(src, vocabulary, tag);
        let Some(mut frame) = self.frame(src, vocabulary, tag, start) else { return };
        if !frame.declared && !self.block.bare && src.text[tag.name.clone()].eq_ignore_ascii_case("action") {
            let hint = "Close the call and its block before another block begins.";
            self.fail(src, Code::MalformedXml, "a block begins inside a call", hint);
            return;
        }
        self.at = tag.after;
        if frame.role == Role::Value && self.block.any_root.is_none() {
            frame.path_len = self.block.path.len();
            self.param_starts(src, &frame);
        }
        let direct = matches!(frame.kind, FrameKind::Text);
        self.block.frames.push(frame);
        if tag.self_closed {
            self.finish_value(src, RawValue::Text(String::new()), tag.after);
        } else if direct {
            self.begin_value();
        } else if self.block.any_root.is_some() {
            self.state = State::Children;
        } else {
            self.state = State::Peek;
        }
    }

    /// Reads a list written as a repeated tag: where the first child of its element is not an `item` but
    /// a field of one, the element is an item itself.
    fn read_list_as_item(&mut self, src: Source<'_>, vocabulary: &dyn Vocabulary, tag: &OpenTag) {
        let Some(list) = self.block.frames.last_mut() else { return };
        let FrameKind::List(item) = list.kind else { return };
        let name = &src.text[tag.name.clone()];
        if list.children.is_empty() && name != "item" && vocabulary.field(item, name).is_some() {
            list.kind = FrameKind::Object(item);
        }
    }

    pub(super) fn param_starts(&mut self, src: Source<'_>, frame: &Frame) {
        let Some(call) = &self.block.call else { return };
        let number = call.number;
        let in_list =
            self.block.frames.last().is_some_and(|parent| matches!(parent.kind, FrameKind::List(_)));
        self.block.path.push('/');
        if in_list {
            let index = self.block.frames.last().map_or(0, |parent| parent.children.len());
            self.block.path.push_str(&index.to_string());
        } else {
            self.block.path.push_str(&frame.name_in(src));
        }
        let path = self.out.note(&self.block.path);
        self.out.push(Item::ParamStart { call: number, path });
    }

    /// The frame of a child: its name, shape and role.
    pub(super) fn frame(
        &mut self,
        src: Source<'_>,
        vocabulary: &dyn Vocabulary,
        tag: &OpenTag,
        start: usize,
    ) -> Option<Frame> {
        let close = tag.name.clone();
        let tag_name = &src.text[close.clone()];
        let parent = self.block.frames.last()?;
        let unnamed = self.block.call.as_ref().is_some_and(|call| call.unnamed);
        if unnamed && parent.role == Role::Call {
            if is_name_child(tag_name) {
                let frame =
                    Frame::new(close.clone(), close, start, tag.after, FrameKind::Text, Role::ToolName);
                return Some(frame);
            }
            if is_arguments_child(tag_name) {
                let tool = self.block.call.as_ref().and_then(|call| vocabulary.tool(&call.tool));
                let kind = tool.map_or(FrameKind::Open, FrameKind::Object);
                return Some(Frame::new(close.clone(), close, start, tag.after, kind, Role::Arguments));
            }
        }
        let (name, declared) = child(src, vocabulary, parent, tag);
        let kind = declared.map_or(FrameKind::Open, |id| match vocabulary.shape(id) {
            Shape::Text => FrameKind::Text,
            Shape::Scalar => FrameKind::Scalar,
            Shape::Any => FrameKind::Open,
            Shape::List { item } => FrameKind::List(item),
            Shape::Object => FrameKind::Object(id),
        });
        let mut frame = Frame::new(close, name, start, tag.after, kind, Role::Value);
        frame.declared = declared.is_some();
        Some(frame)
    }

    /// Decides at the start of a value that is not a declared string: child elements or text.
    pub(super) fn peek(&mut self, src: Source<'_>, _vocabulary: &dyn Vocabulary) -> Flow {
        let at = self.blanks_from(src, self.at);
        let Some(frame) = self.block.frames.last() else { return Flow::Go };
        let kind = frame.kind;
        if src.byte(at) == Some(b'<') {
            match lex(src, at) {
                Lex::More => return Flow::Wait,
                Lex::Comment => return self.pass_comment(src, at),
                Lex::Open { .. } if kind != FrameKind::Scalar => {
                    self.at = at;
                    if kind == FrameKind::Open && frame.role == Role::Value {
                        self.block.any_root = Some((self.block.frames.len() - 1, self.block.elements));
                    }
                    self.state = State::Children;
                    return Flow::Go;
                }
                Lex::Open { .. }
                | Lex::Close { .. }
                | Lex::CutClose { .. }
                | Lex::Data
                | Lex::Section
                | Lex::Instruction
                | Lex::Declaration => {}
            }
        } else if at == src.len() && !src.ended() {
            return Flow::Wait;
        }
        self.begin_value();
        Flow::Go
    }

    /// Begins a raw value at the cursor.
    pub(super) fn begin_value(&mut self) {
        let Some(frame) = self.block.frames.last() else { return };
        let declared_text = frame.kind == FrameKind::Text && frame.role == Role::Value;
        let live = declared_text && self.out.live && !self.out.mute;
        let builder = if declared_text { Builder::of_string(self.at) } else { Builder::new(self.at) };
        self.state = State::Value(Box::new(Value::new(self.at, builder, live)));
    }
}

/// The name of a child element and its declared shape.
pub(super) fn child(
    src: Source<'_>,
    vocabulary: &dyn Vocabulary,
    parent: &Frame,
    tag: &OpenTag,
) -> (Range<usize>, Option<ShapeId>) {
    let own = tag.name.clone();
    match parent.kind {
        FrameKind::List(item) => (own, Some(item)),
        FrameKind::Object(id) => {
            let name = &src.text[own.clone()];
            match vocabulary.field(id, name) {
                Some(field) => (own, Some(field)),
                None => match name_attribute(src, tag) {
                    Some(named) => {
                        let field = vocabulary.field(id, &value_text::decoded(&src.text[named.clone()]));
                        (named, field)
                    }
                    None => (own, None),
                },
            }
        }
        FrameKind::Open => (name_attribute(src, tag).unwrap_or(own), None),
        FrameKind::Text | FrameKind::Scalar => (own, None),
    }
}

/// Byte range of the name in `<param name="…">`.
fn name_attribute(src: Source<'_>, tag: &OpenTag) -> Option<Range<usize>> {
    if !is_parameter_tag(&src.text[tag.name.clone()]) {
        return None;
    }
    attribute(src, tag, &["name"])?;
    let found = super::lenient_tags::attributes(src, tag);
    found.into_iter().find(|one| &src.text[one.name.clone()] == "name").map(|one| one.value)
}

pub(crate) fn is_parameter_tag(name: &str) -> bool {
    matches!(name, "param" | "parameter" | "arg" | "argument")
}
