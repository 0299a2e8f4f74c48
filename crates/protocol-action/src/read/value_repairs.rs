//! End of a raw value: its selection, and the repairs made there.

use crate::{Code, RawValue, Span};

use super::element_tree::FrameKind;
use super::lenient_tags::{Lex, lex};
use super::output::Item;
use super::source::Source;
use super::value_close::{EndCandidate, EndKind, Foreign, Part, Value, Walk};
use super::value_text::Builder;
use super::{Flow, Machine};

impl Machine {
    /// Ends the value at the first candidate if it is known that no close tag fits.
    pub(super) fn known_not_to_fit(&self, src: Source<'_>, value: &mut Value) -> Walk {
        let Some(first) = value.scene.first else { return Walk::On };
        let known = *value.known_not_to_fit.get_or_insert_with(|| {
            let known = if self.no_fit.is_empty() { None } else { self.no_fit.get(&self.place_key(src)) };
            known.is_some_and(|&(from, to)| (from..to).contains(&value.start))
        });
        if known { Walk::Ends(first) } else { Walk::On }
    }

    /// The tool's close tag and then another open tag of the parameter: the close tag is missing.
    pub(super) fn resolve_before(&mut self, src: Source<'_>, value: &Value, _at: usize) -> Walk {
        let key = self.place_key(src);
        let until = value.scene.tool_closed.unwrap_or(value.start).max(value.start + 1);
        let known = self.no_fit.entry(key).or_default();
        if known.1 < until {
            *known = (value.start, until);
        }
        match value.scene.first {
            Some(first) => Walk::Ends(first),
            None => Walk::On,
        }
    }

    /// Key of a value's position in the tree: nothing else determines what may follow it.
    pub(super) fn place_key(&self, src: Source<'_>) -> String {
        let mut key = if self.block.bare { "bare".to_owned() } else { String::new() };
        for frame in &self.block.frames {
            if let FrameKind::Object(id) | FrameKind::List(id) = frame.kind {
                key.push_str(&id.0.to_string());
            }
            key.push('/');
            key.push_str(frame.close_in(src));
        }
        key
    }

    pub(super) fn input_ends_in_value(&mut self, src: Source<'_>, value: &mut Value) -> Flow {
        let key = self.place_key(src);
        let place = match value.part {
            Part::Section => value.in_section,
            Part::Text | Part::After { .. } => {
                self.no_fit.insert(key, (value.start, usize::MAX));
                value.scene.first
            }
        };
        match place {
            Some(place) => {
                if value.part == Part::Section {
                    self.section_was_unclosed(src, value);
                }
                self.end_value(src, value, place);
                Flow::Go
            }
            None => self.truncated(src),
        }
    }

    pub(super) fn section_was_unclosed(&mut self, src: Source<'_>, value: &Value) {
        let tool = self.block.call.as_ref().map(|call| call.tool.clone()).unwrap_or_default();
        let parameter = self.block.parameter(src).unwrap_or_default();
        self.block.section_unclosed.get_or_insert((value.start, tool, parameter));
        if let Some(call) = &mut self.block.call {
            call.repair(Code::UnclosedCdata);
        }
    }

    pub(super) fn end_value(&mut self, src: Source<'_>, value: &mut Value, place: EndCandidate) {
        if let Part::After { end, .. } = value.part
            && place.end >= end
        {
            value.builder.leave(end);
        }
        let mut end = place.end;
        let mut repair = None;
        match place.kind {
            EndKind::Loose { .. } => return self.text_behind(src, place),
            EndKind::Closed => {}
            EndKind::ClosedTwice => repair = Some(Code::MangledClose),
            EndKind::Missing { foreign } => {
                repair = Some(Code::MissingClose);
                self.block.value_unclosed = true;
                self.block.unclosed_name = self.block.parameter(src);
                if let Some(foreign) = foreign
                    && closes_nothing(src, value.start, foreign)
                {
                    end = foreign.solid_before.max(value.start);
                }
            }
        }
        if let Some(call) = &mut self.block.call {
            if let Some(code) = repair {
                call.repair(code);
            }
            if value.scene.markup.is_some_and(|at| at < end)
                && self.block.frames.last().is_some_and(|frame| frame.kind == FrameKind::Text)
            {
                call.repair(Code::RawMarkup);
            }
        }
        self.take(value, |builder| builder.end(src.text, end));
        if let Some(call) = self.block.call.as_mut().filter(|_| value.builder.trimmed) {
            call.repair(Code::ValueLayout);
        }
        let text = std::mem::take(&mut value.builder.out);
        self.finish_value(src, RawValue::Text(text), place.resume);
    }

    /// Refuses a value whose only close tag has text behind it.
    fn text_behind(&mut self, src: Source<'_>, place: EndCandidate) {
        let name = self.block.frames.last().map(|frame| frame.close_in(src)).unwrap_or_default();
        self.at = src.skip_blanks(place.resume);
        let message = format!("text behind `</{name}>`, outside of a parameter");
        let hint = "Put the whole value before its close tag; in `<![CDATA[` and `]]>` if it holds that tag.";
        self.fail(src, Code::MalformedXml, message, hint);
    }

    /// Lets the builder take text, and emits the text that became final.
    pub(super) fn take(&mut self, value: &mut Value, take: impl FnOnce(&mut Builder)) {
        let before = value.builder.out.len();
        take(&mut value.builder);
        if value.live && value.builder.out.len() > before {
            let delta: Span = self.out.note(&value.builder.out[before..]);
            self.out.push(Item::ParamDelta(delta));
        }
    }
}

/// Returns `true` for a close tag without an open tag between `start` and itself.
fn closes_nothing(src: Source<'_>, start: usize, foreign: Foreign) -> bool {
    let tag = &src.text[foreign.start..foreign.after];
    let name = tag.trim_start_matches("</").trim_end_matches('>').trim();
    let mut open = 0_usize;
    let mut at = start;
    while let Some(found) = memchr::memchr(b'<', &src.bytes()[at..foreign.start]) {
        at += found;
        match lex(src, at) {
            Lex::Open { name: other, .. } if other == name => open += 1,
            Lex::Close { name: other, .. } if other == name => open = open.saturating_sub(1),
            Lex::Open { .. }
            | Lex::Close { .. }
            | Lex::More
            | Lex::Data
            | Lex::CutClose { .. }
            | Lex::Comment
            | Lex::Section
            | Lex::Instruction
            | Lex::Declaration => {}
        }
        at += 1;
    }
    open == 0
}
