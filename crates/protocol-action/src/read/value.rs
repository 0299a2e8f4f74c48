//! Where a raw value ends (reading rules 3 and 5), decided while it arrives.
//!
//! A value is walked from `<` to `<`. At each one its *role* is asked: an open or close tag that can
//! follow a parameter here is a **boundary**; the value's own close tag is a **candidate**; anything
//! else is data.
//!
//! ```text
//! candidate, then (after blanks, comments and further own close tags)
//!     a boundary or the end of input   the value ends here
//!     another tag                      remembered as a cut: an undeclared tag follows
//!     anything else                    data
//! boundary                             remembered as a missing close tag
//! ```
//!
//! Only the *first* cut or missing close tag is remembered. It decides when no candidate fits: at the
//! end of input, or when the tool's close tag and then another open tag of the parameter come. What
//! stands after it is held back until then; everything before it is final, except blanks (layout)
//! and a close tag of another name (dropped right before a boundary) at the end.
//!
//! A CDATA section ends at a `]]>` from which text without another `]]>` leads to the end of the
//! value or to another section; until that is known, everything from the `]]>` on is held.

use std::collections::HashMap;

use crate::{Code, RawValue, Span, Vocabulary};

use super::element::FrameKind;
use super::follow::{Ahead, Follow, Tag};
use super::lex::{Damaged, Lex, SECTION, damaged_close, lex};
use super::output::Item;
use super::source::{Found, Source, is_blank};
use super::text::Builder;
use super::{Flow, Machine, State};

/// A raw value that is being read.
#[derive(Debug)]
pub(super) struct Value {
    pub(super) start: usize,
    /// The walk stands here.
    at: usize,
    /// One past the last byte before `at` that is not blank.
    solid: usize,
    builder: Builder,
    /// Whether its pieces are events.
    live: bool,
    part: Part,
    scene: Scene,
    /// The state before the section that is being read.
    before_section: Scene,
    /// The first fitting close tag inside a section that may have no end.
    in_section: Option<Place>,
    ahead: Option<Ahead>,
    pub(super) memo: HashMap<usize, Follow>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Part {
    Text,
    Section,
    /// After a `]]>` at `end` that may not be the section's end; text is certain up to `hold`.
    After {
        end: usize,
        hold: usize,
    },
}

/// What the walk remembers of the text so far.
#[derive(Debug, Clone, Copy, Default)]
struct Scene {
    first: Option<Place>,
    /// Open tags of its own name that were not closed.
    own_open: usize,
    tool_closed: Option<usize>,
    foreign: Option<Foreign>,
    /// Where markup that is data begins.
    markup: Option<usize>,
}

/// A place where the value may end.
#[derive(Debug, Clone, Copy)]
struct Place {
    end: usize,
    /// Up to here the text is certain in any case.
    hold: usize,
    /// Where reading goes on.
    resume: usize,
    kind: PlaceKind,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum PlaceKind {
    /// At its close tag.
    Closed,
    /// At its close tag, written more than once.
    ClosedTwice,
    /// At a boundary without a close tag.
    Missing { foreign: Option<Foreign> },
}

/// A close tag of another name, with blanks before it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Foreign {
    solid_before: usize,
    start: usize,
    after: usize,
}

impl Value {
    pub(super) fn new(start: usize, live: bool) -> Self {
        Self {
            start,
            at: start,
            solid: start,
            builder: Builder::new(start),
            live,
            part: Part::Text,
            scene: Scene::default(),
            before_section: Scene::default(),
            in_section: None,
            ahead: None,
            memo: HashMap::new(),
        }
    }

    /// Walks on to `to`, over data.
    fn walk(&mut self, src: Source<'_>, to: usize) {
        if let Some(last) = src.bytes()[self.at..to].iter().rposition(|&byte| !is_blank(byte)) {
            self.solid = self.at + last + 1;
        }
        self.at = to;
    }

    /// Walks over a tag.
    fn walk_tag(&mut self, after: usize) {
        self.at = after;
        self.solid = after;
    }

    /// Up to where the text is certain.
    fn limit(&self) -> usize {
        let near = match self.part {
            Part::After { hold, .. } => hold,
            Part::Section => self.in_section.map_or(self.solid, |place| place.hold),
            Part::Text => match self.scene.foreign {
                Some(foreign) if foreign.after == self.solid => foreign.solid_before,
                Some(_) | None => self.solid,
            },
        };
        self.scene.first.map_or(near, |first| first.hold.min(near))
    }
}

impl Machine {
    pub(super) fn value(&mut self, src: Source<'_>, vocabulary: &dyn Vocabulary) -> Flow {
        let State::Value(mut value) = std::mem::replace(&mut self.state, State::Children) else {
            return Flow::Go;
        };
        loop {
            match self.value_step(src, vocabulary, &mut value) {
                Walk::On => {}
                Walk::Ends(place) => {
                    self.end_value(src, &mut value, place);
                    return Flow::Go;
                }
                Walk::Wait => {
                    if value.live {
                        let limit = value.limit();
                        self.take(&mut value, |builder| builder.take(src.text, limit));
                    }
                    self.state = State::Value(value);
                    return Flow::Wait;
                }
                Walk::InputEnds => return self.input_ends_in_value(src, &mut value),
            }
        }
    }

    fn value_step(&mut self, src: Source<'_>, vocabulary: &dyn Vocabulary, value: &mut Value) -> Walk {
        if let Some(mut ahead) = value.ahead.take() {
            return match self.look_ahead(src, vocabulary, value, &mut ahead) {
                None => {
                    value.ahead = Some(ahead);
                    Walk::Wait
                }
                Some(follow) => self.after_candidate(src, value, &ahead, follow),
            };
        }
        let rest = &src.bytes()[value.at..];
        let found = match value.part {
            Part::Text => memchr::memchr(b'<', rest),
            Part::Section | Part::After { .. } => memchr::memchr2(b'<', b']', rest),
        };
        let Some(found) = found else {
            value.walk(src, src.len());
            return if src.ended() { Walk::InputEnds } else { Walk::Wait };
        };
        value.walk(src, value.at + found);
        if rest[found] == b']' {
            return Self::section_may_end(src, value);
        }
        match value.part {
            Part::Section => self.angle_in_section(src, value),
            Part::Text | Part::After { .. } => self.angle_in_text(src, vocabulary, value),
        }
    }

    fn section_may_end(src: Source<'_>, value: &mut Value) -> Walk {
        match src.begins(value.at, b"]]>") {
            None => return Walk::Wait,
            Some(false) => {
                let to = value.at + 1;
                value.walk(src, to);
                return Walk::On;
            }
            Some(true) => {}
        }
        if let Part::After { .. } = value.part {
            value.scene = value.before_section;
        }
        value.in_section = None;
        value.part = Part::After { end: value.at, hold: value.solid };
        value.walk_tag(value.at + 3);
        Walk::On
    }

    /// In a section only the value's own close tag matters, in case the section has no end.
    fn angle_in_section(&mut self, src: Source<'_>, value: &mut Value) -> Walk {
        if value.in_section.is_none() {
            match lex(src, value.at) {
                Lex::More => return Walk::Wait,
                Lex::Close { name, after } if self.is_own(src, name) => {
                    value.ahead = Some(Ahead::new(value.at, after));
                    return Walk::On;
                }
                Lex::Close { .. }
                | Lex::Open { .. }
                | Lex::Data
                | Lex::CutClose { .. }
                | Lex::Comment
                | Lex::Section
                | Lex::Instruction
                | Lex::Declaration => {}
            }
        } else if src.ended() && self.section_ends.next(src, value.at) == Found::Never {
            return Walk::InputEnds;
        }
        let to = value.at + 1;
        value.walk(src, to);
        Walk::On
    }

    fn angle_in_text(&mut self, src: Source<'_>, vocabulary: &dyn Vocabulary, value: &mut Value) -> Walk {
        let at = value.at;
        match self.tag_at(src, vocabulary, at, false) {
            Tag::More => return Walk::Wait,
            Tag::Data => {
                let own = self.block.frames.last().map(|frame| damaged_close(src, at, frame.close_in(src)));
                match own {
                    Some(Damaged::More) => return Walk::Wait,
                    Some(Damaged::Until(after)) => {
                        let solid_before = value.solid;
                        value.walk_tag(after);
                        value.scene.foreign = Some(Foreign { solid_before, start: at, after });
                    }
                    Some(Damaged::No) | None => value.walk(src, at + 1),
                }
            }
            Tag::Section => {
                if let Part::After { end, .. } = value.part {
                    value.builder.leave(end);
                }
                value.builder.enter(at);
                value.part = Part::Section;
                value.before_section = value.scene;
                value.walk_tag(at + SECTION.len());
            }
            Tag::OwnClose { after } => value.ahead = Some(Ahead::new(at, after)),
            Tag::Comment { after } => {
                value.scene.markup.get_or_insert(value.at);
                value.walk_tag(after);
            }
            Tag::OtherOpen { after } => {
                value.scene.markup.get_or_insert(value.at);
                value.walk_tag(after);
            }
            Tag::OwnOpen { after } => {
                value.scene.markup.get_or_insert(value.at);
                value.scene.own_open += 1;
                value.walk_tag(after);
            }
            Tag::OtherClose { after } => {
                value.scene.markup.get_or_insert(value.at);
                let solid_before = value.solid;
                value.walk_tag(after);
                value.scene.foreign = Some(Foreign { solid_before, start: at, after });
            }
            Tag::FitOpen { after, own } => {
                self.boundary(value, at);
                if own && value.scene.tool_closed.is_some() {
                    return self.resolve_before(src, value, at);
                }
                value.scene.markup.get_or_insert(value.at);
                value.scene.own_open += usize::from(own);
                value.walk_tag(after);
            }
            Tag::FitClose { after, tool } => {
                self.boundary(value, at);
                value.scene.markup.get_or_insert(value.at);
                if tool && value.scene.tool_closed.is_none() {
                    value.scene.tool_closed = Some(at);
                }
                value.walk_tag(after);
            }
        }
        self.known_not_to_fit(src, value)
    }

    /// What can follow a parameter stands at `at`: the close tag may be missing before it.
    fn boundary(&self, value: &mut Value, at: usize) {
        if value.scene.first.is_some() {
            return;
        }
        let foreign = value.scene.foreign.filter(|foreign| foreign.after == value.solid);
        let end = value.solid.max(value.start);
        let hold = foreign.map_or(end, |foreign| foreign.solid_before);
        let kind = PlaceKind::Missing { foreign };
        value.scene.first = Some(Place { end, hold, resume: at, kind });
    }

    fn after_candidate(&mut self, src: Source<'_>, value: &mut Value, ahead: &Ahead, follow: Follow) -> Walk {
        let closes = &ahead.closes;
        let last = closes[closes.len() - 1].end;
        let own_open = value.scene.own_open;
        let chosen = closes[own_open.min(closes.len() - 1)];
        let twice = own_open + 1 < closes.len();
        let kind = if twice { PlaceKind::ClosedTwice } else { PlaceKind::Closed };
        let place = Place { end: chosen.start, hold: value.solid, resume: last, kind };
        if value.part == Part::Section {
            if matches!(follow, Follow::Fits) {
                let first = closes[0];
                value.in_section =
                    Some(Place { end: first.start, resume: first.end, kind: PlaceKind::Closed, ..place });
            }
            value.walk_tag(closes[0].end);
            return Walk::On;
        }
        match follow {
            Follow::Fits => return Walk::Ends(place),
            Follow::OtherTag => {
                if value.scene.first.is_none() {
                    value.scene.first = Some(place);
                }
            }
            Follow::Data => {}
        }
        value.scene.markup.get_or_insert(value.at);
        value.scene.own_open = own_open.saturating_sub(closes.len());
        value.walk_tag(last);
        self.known_not_to_fit(src, value)
    }

    /// Ends the value at the first place if it is known that no close tag fits.
    fn known_not_to_fit(&self, src: Source<'_>, value: &Value) -> Walk {
        let Some(first) = value.scene.first else { return Walk::On };
        if self.block.no_fit.is_empty() {
            return Walk::On;
        }
        match self.block.no_fit.get(&self.place_key(src)) {
            Some(&(from, to)) if (from..to).contains(&value.start) => Walk::Ends(first),
            Some(_) | None => Walk::On,
        }
    }

    /// The tool's close tag and then another open tag of the parameter: the close tag is missing.
    fn resolve_before(&mut self, src: Source<'_>, value: &Value, _at: usize) -> Walk {
        let key = self.place_key(src);
        let until = value.scene.tool_closed.unwrap_or(value.start);
        self.block.no_fit.insert(key, (value.start, until.max(value.start + 1)));
        match value.scene.first {
            Some(first) => Walk::Ends(first),
            None => Walk::On,
        }
    }

    /// Names the place of a value: what may follow it depends on nothing else.
    fn place_key(&self, src: Source<'_>) -> String {
        let mut key = String::new();
        for frame in &self.block.frames {
            key.push('/');
            key.push_str(frame.close_in(src));
        }
        key
    }

    fn input_ends_in_value(&mut self, src: Source<'_>, value: &mut Value) -> Flow {
        let key = self.place_key(src);
        let place = match value.part {
            Part::Section => value.in_section,
            Part::Text | Part::After { .. } => {
                self.block.no_fit.insert(key, (value.start, usize::MAX));
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

    fn section_was_unclosed(&mut self, src: Source<'_>, value: &Value) {
        let tool = self.block.call.as_ref().map(|call| call.tool.clone()).unwrap_or_default();
        let parameter = self.block.parameter(src).unwrap_or_default();
        self.block.section_unclosed.get_or_insert((value.start, tool, parameter));
        if let Some(call) = &mut self.block.call {
            call.repair(Code::UnclosedCdata);
        }
    }

    fn end_value(&mut self, src: Source<'_>, value: &mut Value, place: Place) {
        if let Part::After { end, .. } = value.part
            && place.end >= end
        {
            value.builder.leave(end);
        }
        let mut end = place.end;
        let mut repair = None;
        match place.kind {
            PlaceKind::Closed => {}
            PlaceKind::ClosedTwice => repair = Some(Code::MangledClose),
            PlaceKind::Missing { foreign } => {
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
        let text = std::mem::take(&mut value.builder.out);
        self.finish_value(src, RawValue::Text(text), place.resume);
    }

    /// Lets the builder take text and tells what came out.
    fn take(&mut self, value: &mut Value, take: impl FnOnce(&mut Builder)) {
        let before = value.builder.out.len();
        take(&mut value.builder);
        if value.live && value.builder.out.len() > before {
            let delta: Span = self.out.note(&value.builder.out[before..]);
            self.out.push(Item::ParamDelta(delta));
        }
    }
}

enum Walk {
    On,
    Wait,
    Ends(Place),
    InputEnds,
}

/// Whether a close tag closes no open tag between `start` and itself.
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
