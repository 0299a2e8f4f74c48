//! The short way for well-formed calls in a whole text: quick-xml reads the tags.
//!
//! It takes a call only where the long way would read the very same: no attributes, entities, comments
//! or other markup, declared names only, and no tag inside a string. At anything else it gives up, once
//! a block, and the call is read the long way from its start, so the text is looked at twice at most.

use std::ops::Range;

use memchr::memmem;
use quick_xml::Reader;
use quick_xml::events::Event;

use crate::{Code, Dialect, RawArgument, RawCall, RawValue, Shape, ShapeId, Span, Vocabulary};

use super::between_calls::LastParameter;
use super::lenient_tags::{LONGEST_NAME, starts_name};
use super::source::{Source, is_blank};
use super::value_text::Builder;
use super::{Machine, value_text};

/// A call read the short way.
pub(super) struct WellFormed {
    pub(super) call: RawCall,
    pub(super) elements: usize,
    pub(super) last_parameter: Option<LastParameter>,
}

/// An open element.
struct Open {
    name: Range<usize>,
    start: usize,
    shape: Shape,
    id: ShapeId,
    children: Vec<RawArgument>,
    /// A section stands in its text.
    section: bool,
    /// Text that is not blank stands in it.
    text: bool,
}

/// Structure that a step of the walk closed, if any.
enum Closed {
    Element,
    Call(WellFormed),
}

struct Walk<'a> {
    vocabulary: &'a dyn Vocabulary,
    text: &'a str,
    base: usize,
    stack: Vec<Open>,
    elements: usize,
    /// Layout around a string of one line was left out.
    trimmed: bool,
}

impl Machine {
    /// Reads the call at the cursor, if it is well-formed and plain.
    pub(super) fn well_formed(&self, src: Source<'_>, vocabulary: &dyn Vocabulary) -> Option<WellFormed> {
        let mut reader = Reader::from_str(src.text.get(self.at..)?);
        let config = reader.config_mut();
        config.allow_dangling_amp = true;
        config.check_end_names = true;
        let base = self.at;
        let mut walk =
            Walk { vocabulary, text: src.text, base, stack: Vec::new(), elements: 0, trimmed: false };
        let depth = self.limits.depth;
        let budget = self.limits.elements - self.block.elements.min(self.limits.elements);
        loop {
            let before = position(&reader, base);
            let event = reader.read_event().ok()?;
            let after = position(&reader, base);
            let done = match event {
                Event::Start(tag) => walk.opens(&tag, before).then_some(Closed::Element)?,
                Event::Empty(tag) => {
                    walk.opens(tag.strip_suffix('/').unwrap_or(&tag).trim_end(), before).then_some(())?;
                    walk.closes(after, after)?
                }
                Event::End(tag) if tag.len() + 3 == after - before => walk.closes(before, after)?,
                Event::Text(text) => walk.text(&text).then_some(Closed::Element)?,
                Event::CData(_) => walk.section().then_some(Closed::Element)?,
                // Entities come one by one: the long way decodes them faster.
                Event::GeneralRef(_)
                | Event::End(_)
                | Event::Comment(_)
                | Event::Decl(_)
                | Event::PI(_)
                | Event::DocType(_)
                | Event::Eof => return None,
            };
            if walk.stack.len() > depth || walk.elements > budget {
                return None;
            }
            match done {
                Closed::Element => {}
                Closed::Call(call) => return Some(call),
            }
        }
    }
}

fn position(reader: &Reader<&[u8]>, base: usize) -> usize {
    base + usize::try_from(reader.buffer_position()).unwrap_or(usize::MAX - base)
}

impl Walk<'_> {
    /// Opens an element for the tag with the text `tag`. Returns `true` for a plain tag.
    fn opens(&mut self, tag: &str, start: usize) -> bool {
        let plain = tag.bytes().all(|byte| starts_name(byte) || b"-.".contains(&byte));
        if !plain || tag.is_empty() || tag.len() > LONGEST_NAME || tag.eq_ignore_ascii_case("action") {
            return false;
        }
        let Some(id) = self.shape_of(tag) else { return false };
        let shape = self.vocabulary.shape(id);
        let name = start + 1..start + 1 + tag.len();
        // An open element of the same name makes the close tag of the inner one a question.
        if self.stack.iter().any(|open| self.text[open.name.clone()] == *tag) {
            return false;
        }
        self.elements += usize::from(!self.stack.is_empty());
        self.stack.push(Open { name, start, shape, id, children: Vec::new(), section: false, text: false });
        true
    }

    fn shape_of(&self, tag: &str) -> Option<ShapeId> {
        let Some(parent) = self.stack.last() else { return self.vocabulary.tool(tag) };
        if parent.text || parent.section {
            return None;
        }
        match parent.shape {
            Shape::Object => self.vocabulary.field(parent.id, tag),
            Shape::List { item } if tag == "item" => Some(item),
            Shape::List { .. } | Shape::Text | Shape::Scalar | Shape::Any => None,
        }
    }

    /// Adds text to the innermost element. Returns `true` when text is allowed there.
    fn text(&mut self, text: &str) -> bool {
        let blank = text.bytes().all(is_blank);
        let at_tool = self.stack.len() == 1;
        let Some(open) = self.stack.last_mut() else { return false };
        open.text |= !blank;
        blank || (!at_tool && open.children.is_empty() && memmem::find(text.as_bytes(), b"]]>").is_none())
    }

    fn section(&mut self) -> bool {
        let at_tool = self.stack.len() == 1;
        let Some(open) = self.stack.last_mut() else { return false };
        open.section = true;
        !at_tool && open.children.is_empty()
    }

    /// The innermost element closes; `None` when it is not plain.
    fn closes(&mut self, end: usize, after: usize) -> Option<Closed> {
        let open = self.stack.pop()?;
        let name = &self.text[open.name.clone()];
        let inner = self.text[open.name.end..].find('>').map_or(end, |found| open.name.end + found + 1);
        let Some(parent) = self.stack.last_mut() else {
            let mut call = RawCall::new(name, Dialect::Action, Span::new(self.base, after));
            call.arguments = open.children;
            if self.trimmed {
                call.repair(Code::ValueLayout);
            }
            let last_parameter = call.arguments.last().map(|argument| {
                let tags = vec![argument.name.clone()];
                LastParameter { name: argument.name.clone(), tags }
            });
            return Some(Closed::Call(WellFormed { call, elements: self.elements, last_parameter }));
        };
        let value = if open.children.is_empty() {
            let start = inner.min(end);
            let is_string = open.shape == Shape::Text;
            let builder = if is_string { Builder::of_string(start) } else { Builder::new(start) };
            RawValue::Text(if open.section {
                value_text::whole(self.text, start, end)
            } else {
                let read = value_text::plain(self.text, builder, end);
                self.trimmed |= read.trimmed;
                read.out
            })
        } else {
            RawValue::Elements { children: open.children, source: String::new(), mixed: false }
        };
        parent.children.push(RawArgument::new(name, Span::new(open.start, after), value));
        Some(Closed::Element)
    }
}
