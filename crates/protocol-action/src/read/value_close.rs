//! End of a raw value (reading rules 3 and 5), decided while it arrives.
//!
//! A value is walked from `<` to `<`. At each one its *role* is asked: an open or close tag that can
//! follow a parameter here is a **boundary**; the value's own close tag is a **candidate**; anything
//! else is data.
//!
//! ```text
//! candidate, then (after blanks, comments and further own close tags)
//!     a boundary or the end of input   the value ends here
//!     another tag                      remembered as a cut: an undeclared tag follows
//!     anything else                    remembered as loose: data only if a later candidate ends the value
//! boundary                             remembered as a missing close tag
//! ```
//!
//! Only the *first* cut, loose or missing close tag is remembered; a cut right behind a loose one counts instead
//! of it. It decides when no candidate fits: at the end of input, or when the tool's close tag and then another
//! open tag of the parameter come. Behind a loose close tag, one that belongs to a later open tag of the same name
//! does not fit: two items never become one. A value that ends at a loose close tag refuses the block. What
//! stands after it is held back until then; everything before it is final, except blanks (layout)
//! and a close tag of another name (dropped right before a boundary) at the end.
//!
//! A CDATA section ends at a `]]>` from which text without another `]]>` leads to the end of the
//! value or to another section; until that is known, everything from the `]]>` on is held.

use std::collections::HashMap;

use crate::Vocabulary;

use super::lenient_tags::{Damaged, Lex, SECTION, damaged_close, lex};
use super::source::{Found, Source, is_blank};
use super::value_followers::{Ahead, Follow, Tag};
use super::value_text::Builder;
use super::{Flow, Machine, State};

/// A raw value that is being read.
#[derive(Debug)]
pub(super) struct Value {
    pub(super) start: usize,
    /// The walk stands here.
    pub(super) at: usize,
    /// Position after the last byte before `at` that is not blank.
    pub(super) solid: usize,
    pub(super) builder: Builder,
    /// Flag that its pieces are emitted as events.
    pub(super) live: bool,
    pub(super) part: Part,
    pub(super) scene: Scene,
    /// The state before the section that is being read.
    pub(super) before_section: Scene,
    /// The first fitting close tag inside a section that may have no end.
    pub(super) in_section: Option<EndCandidate>,
    pub(super) ahead: Option<Ahead>,
    pub(super) memo: HashMap<usize, Follow>,
    /// Cached result of an earlier value that no close tag fits here.
    pub(super) known_not_to_fit: Option<bool>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Part {
    Text,
    Section,
    /// After a `]]>` at `end` that may not be the section's end; text is certain up to `hold`.
    After {
        end: usize,
        hold: usize,
    },
}

/// State of the walk over the text so far.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Scene {
    pub(super) first: Option<EndCandidate>,
    /// Open tags with the value's name that were not closed.
    pub(super) own_open: usize,
    pub(super) tool_closed: Option<usize>,
    pub(super) foreign: Option<Foreign>,
    /// Start of markup that is data.
    pub(super) markup: Option<usize>,
}

/// Candidate position for the end of the value.
#[derive(Debug, Clone, Copy)]
pub(super) struct EndCandidate {
    pub(super) end: usize,
    /// Up to here the text is certain in any case.
    pub(super) hold: usize,
    /// Position at which reading continues.
    pub(super) resume: usize,
    pub(super) kind: EndKind,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum EndKind {
    /// At its close tag.
    Closed,
    /// At its close tag, written more than once.
    ClosedTwice,
    /// At its close tag, with text behind it; `bounded` once a boundary came too.
    Loose { bounded: bool },
    /// At a boundary without a close tag.
    Missing { foreign: Option<Foreign> },
}

/// A close tag of another name, with blanks before it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Foreign {
    pub(super) solid_before: usize,
    pub(super) start: usize,
    pub(super) after: usize,
}

impl Value {
    pub(super) fn new(start: usize, builder: Builder, live: bool) -> Self {
        Self {
            start,
            at: start,
            solid: start,
            builder,
            live,
            part: Part::Text,
            scene: Scene::default(),
            before_section: Scene::default(),
            in_section: None,
            ahead: None,
            memo: HashMap::new(),
            known_not_to_fit: None,
        }
    }

    /// Walks on to `to`, over data.
    pub(super) fn walk(&mut self, src: Source<'_>, to: usize) {
        if let Some(last) = src.bytes()[self.at..to].iter().rposition(|&byte| !is_blank(byte)) {
            self.solid = self.at + last + 1;
        }
        self.at = to;
    }

    /// Walks over a tag.
    pub(super) fn walk_tag(&mut self, after: usize) {
        self.at = after;
        self.solid = after;
    }

    /// Up to where the text is certain.
    pub(super) fn limit(&self) -> usize {
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
            let before = value.at;
            let walk = self.value_step(src, vocabulary, &mut value);
            self.work += value.at - before + 1;
            match walk {
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
            Tag::Data => return self.data_in_text(src, value),
            Tag::Section => Self::enter_section(value),
            Tag::OwnClose { after } => value.ahead = Some(Ahead::new(at, after)),
            Tag::Comment { after } | Tag::OtherOpen { after } => {
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
                Self::boundary(value, at);
                if own && value.scene.tool_closed.is_some() {
                    return self.resolve_before(src, value, at);
                }
                value.scene.markup.get_or_insert(value.at);
                value.scene.own_open += usize::from(own);
                value.walk_tag(after);
            }
            Tag::FitClose { after, tool } => {
                Self::boundary(value, at);
                value.scene.markup.get_or_insert(value.at);
                if tool && value.scene.tool_closed.is_none() {
                    value.scene.tool_closed = Some(at);
                }
                value.walk_tag(after);
            }
        }
        self.known_not_to_fit(src, value)
    }

    /// Reads a `<` that is not markup, unless it begins a damaged close tag of the value.
    fn data_in_text(&mut self, src: Source<'_>, value: &mut Value) -> Walk {
        let at = value.at;
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
        self.known_not_to_fit(src, value)
    }

    fn enter_section(value: &mut Value) {
        if let Part::After { end, .. } = value.part {
            value.builder.leave(end);
        }
        value.builder.enter(value.at);
        value.part = Part::Section;
        value.before_section = value.scene;
        value.walk_tag(value.at + SECTION.len());
    }

    /// Notes a tag at `at` that can follow a parameter: the close tag may be missing before it.
    fn boundary(value: &mut Value, at: usize) {
        match &mut value.scene.first {
            Some(EndCandidate { kind: EndKind::Loose { bounded }, .. }) => *bounded = true,
            Some(_) => {}
            None => value.scene.first = Some(Self::missing_close(value, at)),
        }
    }

    fn missing_close(value: &Value, at: usize) -> EndCandidate {
        let foreign = value.scene.foreign.filter(|foreign| foreign.after == value.solid);
        let end = value.solid.max(value.start);
        let hold = foreign.map_or(end, |foreign| foreign.solid_before);
        EndCandidate { end, hold, resume: at, kind: EndKind::Missing { foreign } }
    }

    fn after_candidate(&mut self, src: Source<'_>, value: &mut Value, ahead: &Ahead, follow: Follow) -> Walk {
        let closes = &ahead.closes;
        let last = closes[closes.len() - 1].end;
        let own_open = value.scene.own_open;
        let chosen = closes[own_open.min(closes.len() - 1)];
        let twice = own_open + 1 < closes.len();
        let kind = if twice { EndKind::ClosedTwice } else { EndKind::Closed };
        let place = EndCandidate { end: chosen.start, hold: value.solid, resume: last, kind };
        if value.part == Part::Section {
            if matches!(follow, Follow::Fits) {
                let first = closes[0];
                value.in_section = Some(EndCandidate {
                    end: first.start,
                    resume: first.end,
                    kind: EndKind::Closed,
                    ..place
                });
            }
            // A comment between them may hold the section's end.
            value.walk_tag(if ahead.met_comment { closes[0].end } else { last });
            return Walk::On;
        }
        let is_loose = |first: EndCandidate| matches!(first.kind, EndKind::Loose { .. });
        let belongs_to_another = value.scene.first.is_some_and(is_loose) && own_open >= closes.len();
        match (follow, value.scene.first.map(|first| first.kind)) {
            (_, _) if belongs_to_another => {}
            (Follow::Fits, _) => return Walk::Ends(place),
            (Follow::OtherTag, None | Some(EndKind::Loose { bounded: false })) => {
                value.scene.first = Some(place);
            }
            (Follow::Data, None) if self.is_in_declared() => {
                value.scene.first = Some(EndCandidate { kind: EndKind::Loose { bounded: false }, ..place });
            }
            (Follow::OtherTag | Follow::Data, _) => {}
        }
        value.scene.markup.get_or_insert(value.at);
        value.scene.own_open = own_open.saturating_sub(closes.len());
        value.walk_tag(last);
        self.known_not_to_fit(src, value)
    }
}

pub(super) enum Walk {
    On,
    Wait,
    Ends(EndCandidate),
    InputEnds,
}
