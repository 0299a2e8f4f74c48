//! Input in or after a block that belongs to no call: words, damage, and the end of bare calls.

use crate::{Code, FinishReason};

use super::between_calls::JSON_OPEN;
use super::dialects::is_bare_call;
use super::hidden_openers::fence_marker;
use super::lenient_tags::{Lex, Scanned, TagScan, lex};
use super::openers::LONGEST_OPENER;
use super::reasoning::is_think;
use super::source::{Found, Source};
use super::{Flow, Machine, State};

/// Position at which a reply was cut, if it was.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Cut {
    Here,
    Later,
}

enum Closer {
    Comes,
    /// Another block begins first.
    Opener,
    /// Not before this position.
    NotBefore(usize),
}

enum Next {
    Call,
    Skip(usize),
    Other,
}

impl Machine {
    /// Something stands between calls that belongs to none. If the block is not closed later, its close
    /// tag is missing and this is text after the block. If it is, plain words are left out, and
    /// anything that could be a damaged call is an error.
    pub(super) fn stray(&mut self, src: Source<'_>, probe: usize) -> Flow {
        let closer = self.find_block_close(src, probe);
        match closer {
            Closer::Comes => self.leave_out_words(src),
            Closer::NotBefore(_) if self.block.calls == 0 => self.stray_is_wrong(src),
            Closer::NotBefore(probe) if !src.ended() => {
                self.state = State::Stray { probe };
                Flow::Wait
            }
            Closer::NotBefore(_) if src.end.is_some_and(FinishReason::is_cut) => {
                self.ends_before_stray(src, Cut::Here)
            }
            // If the reply was cut after another opener, then after this block.
            Closer::Opener | Closer::NotBefore(_) => self.ends_before_stray(src, Cut::Later),
        }
    }

    /// Checks for the block's close tag before another opener.
    fn find_block_close(&mut self, src: Source<'_>, mut probe: usize) -> Closer {
        if self.block.close_at.is_some_and(|at| at >= self.at) {
            return Closer::Comes;
        }
        loop {
            let rest = src.bytes().get(probe..).unwrap_or_default();
            let Some(found) = memchr::memchr(b'<', rest) else { return Closer::NotBefore(src.len()) };
            probe += found;
            match lex(src, probe) {
                Lex::More => return Closer::NotBefore(probe),
                Lex::Close { name, .. } if self.ends_block(name) => {
                    self.block.close_at = Some(probe);
                    return Closer::Comes;
                }
                Lex::Open { name, .. } if name.eq_ignore_ascii_case("action") && self.block.calls > 0 => {
                    return Closer::Opener;
                }
                Lex::Open { .. }
                | Lex::Close { .. }
                | Lex::CutClose { .. }
                | Lex::Data
                | Lex::Comment
                | Lex::Section
                | Lex::Instruction
                | Lex::Declaration => probe += 1,
            }
        }
    }

    fn leave_out_words(&mut self, src: Source<'_>) -> Flow {
        let rest = &src.bytes()[self.at..];
        let len = rest.iter().position(|byte| b"<>{}[]`~".contains(byte)).unwrap_or(rest.len());
        if self.block.calls == 0 || len == 0 || rest.get(len) != Some(&b'<') {
            return self.stray_is_wrong(src);
        }
        let end = self.at + len;
        self.repair_at(src, Code::RawMarkup, end, "text between the calls was left out".to_owned());
        self.state = State::Between;
        self.go(end)
    }

    fn stray_is_wrong(&mut self, src: Source<'_>) -> Flow {
        let hint = "Put nothing but calls into the block.";
        self.fail(src, Code::MalformedXml, "text between the calls of the block", hint);
        Flow::Go
    }

    pub(super) fn ends_block(&self, name: &str) -> bool {
        match self.block.wrappers.first() {
            Some(wrapper) if self.block.bare => wrapper.eq_ignore_ascii_case(name),
            Some(_) | None => name.eq_ignore_ascii_case("action"),
        }
    }

    fn ends_before_stray(&mut self, src: Source<'_>, cut: Cut) -> Flow {
        if cut == Cut::Here || self.block.value_unclosed || self.block.section_unclosed.is_some() {
            self.fail(src, Code::Truncated, "the block was not closed", "Send the whole block again.");
            return Flow::Go;
        }
        self.repair_at(src, Code::MissingClose, self.at, "the block's close tag is missing".to_owned());
        let end = self.at;
        self.end_block(src, end)
    }

    /// After an error: looks for the end of the block.
    pub(super) fn recover(&mut self, src: Source<'_>) -> Flow {
        loop {
            let rest = src.bytes().get(self.at..).unwrap_or_default();
            let Some(found) = memchr::memchr(b'<', rest) else {
                self.at = src.len();
                return if src.ended() { self.end_block(src, src.len()) } else { Flow::Wait };
            };
            self.at += found;
            match lex(src, self.at) {
                Lex::More => return Flow::Wait,
                Lex::Close { name, after } if self.ends_block(name) => return self.end_block(src, after),
                Lex::Close { name, after }
                    if is_think(name) && !self.ignore_reasoning && self.blocks == 0 =>
                {
                    match self.ends_line(src, after) {
                        None => return Flow::Wait,
                        Some(true) => return self.all_was_reasoning(after),
                        Some(false) => self.at = after,
                    }
                }
                Lex::Open { .. }
                | Lex::Close { .. }
                | Lex::CutClose { .. }
                | Lex::Data
                | Lex::Comment
                | Lex::Section
                | Lex::Instruction
                | Lex::Declaration => self.at += 1,
            }
        }
    }

    /// After a bare call: consecutive ones are one block.
    pub(super) fn bare_next(&mut self, src: Source<'_>, end: usize) -> Flow {
        loop {
            self.at = src.skip_blanks(self.at);
            let after = match src.byte(self.at) {
                None if src.ended() => return self.end_block(src, end),
                None => return Flow::Wait,
                Some(b'`' | b'~') => match fence_marker(src, self.at) {
                    Found::NotBefore(_) => return Flow::Wait,
                    Found::Never => return self.end_block(src, end),
                    Found::At(after) => after,
                },
                Some(b'<') => match self.bare_opener(src) {
                    None => return Flow::Wait,
                    Some(Next::Call) => {
                        self.state = State::Between;
                        return Flow::Go;
                    }
                    Some(Next::Skip(after)) => after,
                    Some(Next::Other) => return self.end_block(src, end),
                },
                Some(_) => return self.end_block(src, end),
            };
            self.at = after;
        }
    }

    fn bare_opener(&mut self, src: Source<'_>) -> Option<Next> {
        let at = self.at;
        if src.begins(at, JSON_OPEN.as_bytes())? {
            let leads = self.leads_to_call(src, at + JSON_OPEN.len())?;
            return Some(if leads { Next::Call } else { Next::Other });
        }
        match lex(src, at) {
            Lex::More => None,
            Lex::Comment => match self.comments.next(src, at + 4) {
                Found::At(end) => Some(Next::Skip(end + 3)),
                Found::NotBefore(_) => None,
                Found::Never => Some(Next::Other),
            },
            Lex::Open { name, after } if is_bare_call(name) => {
                let window = src.clipped(at + LONGEST_OPENER);
                match TagScan::new(at, after).scan(window, name.len()) {
                    Scanned::More if window.len() == src.len() => None,
                    Scanned::Tag(tag) if tag.self_closed => Some(Next::Call),
                    Scanned::Tag(tag) => {
                        let leads = self.leads_to_call(src, tag.after)?;
                        Some(if leads { Next::Call } else { Next::Other })
                    }
                    Scanned::More | Scanned::Cut | Scanned::Broken(_) => Some(Next::Other),
                }
            }
            Lex::Open { .. }
            | Lex::Close { .. }
            | Lex::CutClose { .. }
            | Lex::Data
            | Lex::Section
            | Lex::Instruction
            | Lex::Declaration => Some(Next::Other),
        }
    }
}
