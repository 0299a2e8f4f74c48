//! Reasoning (reading rule 2).

use crate::{SegmentKind, Span};

use super::lenient_tags::{Lex, lex};
use super::openers::Mode;
use super::output::Item;
use super::source::Source;
use super::{Flow, Machine};

pub(super) enum Closed {
    At(Span),
    NotBefore(usize),
    Never,
}

impl ThinkCloses {
    pub(super) fn next(&mut self, src: Source<'_>, from: usize) -> Closed {
        loop {
            let index = self.hits.partition_point(|hit| hit.start < from);
            if let Some(&hit) = self.hits.get(index) {
                return Closed::At(hit);
            }
            let start = self.scanned.min(src.len());
            let Some(found) = memchr::memchr(b'<', &src.bytes()[start..]) else {
                self.scanned = src.len();
                break;
            };
            let at = start + found;
            match lex(src, at) {
                Lex::More => {
                    self.scanned = at;
                    break;
                }
                Lex::Close { name, after } => {
                    if is_think(name) {
                        self.hits.push(Span::new(at, after));
                    }
                    self.scanned = after;
                }
                Lex::Open { .. }
                | Lex::Data
                | Lex::CutClose { .. }
                | Lex::Comment
                | Lex::Section
                | Lex::Instruction
                | Lex::Declaration => self.scanned = at + 1,
            }
        }
        if src.ended() { Closed::Never } else { Closed::NotBefore(self.scanned.max(from)) }
    }
}

/// Close tags of reasoning, found once.
#[derive(Debug, Default)]
pub(super) struct ThinkCloses {
    pub(super) scanned: usize,
    pub(super) hits: Vec<Span>,
}

impl Machine {
    pub(super) fn think_tag(&mut self, src: Source<'_>, after: usize) -> Flow {
        let end = self.blanks_from(src, after);
        match src.byte(end) {
            None if !src.ended() => return Flow::Wait,
            Some(b'>') => {}
            None | Some(_) => return self.pass(after),
        }
        let inner = end + 1;
        if self.at != self.prose.line_text {
            match self.prose.think_closes.next(src, inner) {
                Closed::At(_) => {}
                Closed::NotBefore(_) => return Flow::Wait,
                Closed::Never => return self.pass(inner),
            }
        }
        self.flush_text();
        self.at = inner;
        self.out.segment(SegmentKind::Reasoning, inner);
        self.prose.mode = Mode::Think { inner };
        Flow::Go
    }

    pub(super) fn think(&mut self, src: Source<'_>, inner: usize) -> Flow {
        let (to, after) = match self.prose.think_closes.next(src, inner) {
            Closed::At(tag) => (tag.start, Some(tag.end)),
            Closed::NotBefore(at) => (at.max(inner), None),
            Closed::Never => (src.len(), None),
        };
        if to > self.at {
            self.out.push(Item::Reasoning(Span::new(self.at, to)));
            self.out.segment(SegmentKind::Reasoning, to);
            self.at = to;
        }
        if let Some(after) = after {
            self.out.reasoning.push(Span::new(inner, to));
            self.out.segment(SegmentKind::Reasoning, after);
            self.prose.mode = Mode::Plain;
            self.prose.line_start = true;
            return self.pass(after);
        }
        if src.ended() {
            self.out.reasoning.push(Span::new(inner, to));
            self.prose.unclosed_think = Some(inner);
            self.prose.probation = None;
            self.out.release();
            self.prose.mode = Mode::Plain;
        }
        Flow::Wait
    }

    /// A close tag without an open one ends reasoning only at the end of a line.
    pub(super) fn think_without_open(&mut self, src: Source<'_>, after: usize) -> Flow {
        match self.ends_line(src, after) {
            None => Flow::Wait,
            Some(false) => self.pass(after),
            Some(true) => self.all_was_reasoning(after),
        }
    }

    /// Takes back everything: it was reasoning that ends at the close tag at the cursor.
    pub(super) fn all_was_reasoning(&mut self, after: usize) -> Flow {
        let inner = self.at;
        self.out.mute = false;
        self.out.retract(inner, after);
        self.blocks = 0;
        self.prose.elements.clear();
        self.prose.probation = None;
        self.resume_prose(after);
        self.prose.line_start = true;
        self.prose.begun = false;
        Flow::Go
    }
}

pub(super) fn is_think(name: &str) -> bool {
    name.eq_ignore_ascii_case("think") || name.eq_ignore_ascii_case("thinking")
}
