//! Tags that may follow a value: their roles, and lookahead beyond a close tag.

use crate::{Span, Vocabulary};

use super::Machine;
use super::element_tree::FrameKind;
use super::lenient_tags::{Damaged, Lex, Scanned, TagScan, damaged_close, lex};
use super::parameter::{child, is_parameter_tag};
use super::source::{Found, Source};
use super::value_close::Value;

/// Longer tags of generic parameters are not recognised as ones that may follow.
const LONGEST_TAG: usize = 512;

/// The role of what stands at a `<`, seen from a value.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Tag {
    More,
    Data,
    Section,
    Comment {
        after: usize,
    },
    OwnClose {
        after: usize,
    },
    /// An open tag with the parameter's name where no such parameter may follow.
    OwnOpen {
        after: usize,
    },
    OtherClose {
        after: usize,
    },
    OtherOpen {
        after: usize,
    },
    /// A parameter that may follow.
    FitOpen {
        after: usize,
        own: bool,
    },
    /// A close tag of the tool, of something between, or of the block.
    FitClose {
        after: usize,
        tool: bool,
    },
}

/// Classification of the input after a close tag.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Follow {
    Fits,
    /// A tag that cannot follow a parameter.
    OtherTag,
    Data,
}

/// A look beyond a close tag, resumed when more text arrives.
#[derive(Debug)]
pub(super) struct Ahead {
    /// The value's own close tags in a row.
    pub(super) closes: Vec<Span>,
    cursor: usize,
    /// Ends of comments passed, after how many close tags.
    passed: Vec<usize>,
    pub(super) met_comment: bool,
}

impl Ahead {
    pub(super) fn new(start: usize, after: usize) -> Self {
        Self { closes: vec![Span::new(start, after)], cursor: after, passed: Vec::new(), met_comment: false }
    }
}

impl Machine {
    pub(super) fn is_own(&self, src: Source<'_>, name: &str) -> bool {
        self.block.frames.last().is_some_and(|frame| frame.close_in(src) == name)
    }

    /// Returns `true` for a value of a declared object or list, where text outside of a value is an error.
    pub(super) fn is_in_declared(&self) -> bool {
        let [.., parent, _own] = self.block.frames.as_slice() else { return false };
        parent.kind != FrameKind::Open
    }

    /// Looks on until it is clear what follows; `None` while it is not.
    pub(super) fn look_ahead(
        &mut self,
        src: Source<'_>,
        vocabulary: &dyn Vocabulary,
        value: &mut Value,
        ahead: &mut Ahead,
    ) -> Option<Follow> {
        let follow = loop {
            let cursor = src.skip_blanks(ahead.cursor);
            self.work += cursor - ahead.cursor + 1;
            ahead.cursor = cursor;
            match src.byte(ahead.cursor) {
                None if src.ended() => break Follow::Fits,
                None => return None,
                Some(b'<') => {}
                Some(_) => break Follow::Data,
            }
            match self.tag_at(src, vocabulary, ahead.cursor, true) {
                Tag::More => return None,
                Tag::Comment { .. } => match self.comments.next(src, ahead.cursor + 4) {
                    Found::NotBefore(_) => return None,
                    Found::Never => break Follow::Data,
                    Found::At(end) => {
                        ahead.met_comment = true;
                        if let Some(&known) = value.memo.get(&end) {
                            break known;
                        }
                        ahead.passed.push(end);
                        ahead.cursor = end + 3;
                    }
                },
                Tag::OwnClose { after } => {
                    ahead.closes.push(Span::new(ahead.cursor, after));
                    ahead.cursor = after;
                }
                Tag::FitOpen { .. } | Tag::FitClose { .. } => break Follow::Fits,
                Tag::OtherOpen { .. } | Tag::OtherClose { .. } | Tag::OwnOpen { .. } => {
                    break Follow::OtherTag;
                }
                Tag::Data | Tag::Section => break Follow::Data,
            }
        };
        for end in ahead.passed.drain(..) {
            value.memo.insert(end, follow);
        }
        Some(follow)
    }

    /// The role of what stands at `at`; after a close tag a parent of the same name goes first.
    pub(super) fn tag_at(
        &self,
        src: Source<'_>,
        vocabulary: &dyn Vocabulary,
        at: usize,
        following: bool,
    ) -> Tag {
        match lex(src, at) {
            Lex::More => Tag::More,
            Lex::Data if following => self.damaged_close(src, at),
            Lex::Data | Lex::CutClose { .. } | Lex::Instruction | Lex::Declaration => Tag::Data,
            Lex::Section => Tag::Section,
            Lex::Comment => Tag::Comment { after: at + 4 },
            Lex::Close { name, after } => self.close_tag_role(src, name, after, following),
            Lex::Open { name, after } => self.open_tag_role(src, vocabulary, at, name, after),
        }
    }

    /// No markup, unless it is the damaged close tag of an open element.
    fn damaged_close(&self, src: Source<'_>, at: usize) -> Tag {
        let Some((_, parents)) = self.block.frames.split_last() else { return Tag::Data };
        for (depth, frame) in parents.iter().enumerate() {
            match damaged_close(src, at, frame.close_in(src)) {
                Damaged::More => return Tag::More,
                Damaged::Until(after) => return Tag::FitClose { after, tool: depth == 0 },
                Damaged::No => {}
            }
        }
        Tag::Data
    }

    fn close_tag_role(&self, src: Source<'_>, name: &str, after: usize, following: bool) -> Tag {
        let own = self.is_own(src, name);
        if own && !following {
            return Tag::OwnClose { after };
        }
        let parents = self.block.frames.len() - 1;
        if let Some(parent) =
            self.block.frames[..parents].iter().position(|frame| frame.close_in(src) == name)
        {
            return Tag::FitClose { after, tool: parent == 0 };
        }
        if own {
            return Tag::OwnClose { after };
        }
        let block = !self.block.bare && name.eq_ignore_ascii_case("action");
        if block || self.block.wrappers.iter().any(|wrapper| wrapper == name) {
            return Tag::FitClose { after, tool: false };
        }
        Tag::OtherClose { after }
    }

    fn open_tag_role(
        &self,
        src: Source<'_>,
        vocabulary: &dyn Vocabulary,
        at: usize,
        name: &str,
        after: usize,
    ) -> Tag {
        let own = self.is_own(src, name);
        let [.., parent, frame] = self.block.frames.as_slice() else { return Tag::Data };
        let fits = match parent.kind {
            // Where nothing is declared, or the parameter itself is not, any tag may follow.
            _ if frame.kind == FrameKind::Open && !frame.is_declared() => true,
            FrameKind::Open => true,
            FrameKind::List(_) => own || name == "item",
            FrameKind::Text | FrameKind::Scalar => false,
            FrameKind::Object(id) => {
                if vocabulary.field(id, name).is_some() {
                    true
                } else if is_parameter_tag(name) {
                    // Beside `<param name="…">` another one is a parameter, declared or not: all of
                    // them close with the same tag, so the first would swallow the others.
                    let window = src.clipped(at + LONGEST_TAG);
                    match TagScan::new(at, after).scan(window, name.len()) {
                        Scanned::Tag(tag) => own || child(src, vocabulary, parent, &tag).1.is_some(),
                        Scanned::More if window.len() == src.len() => return Tag::More,
                        Scanned::More | Scanned::Cut | Scanned::Broken(_) => false,
                    }
                } else {
                    false
                }
            }
        };
        match (fits, own) {
            (true, own) => Tag::FitOpen { after, own },
            (false, true) => Tag::OwnOpen { after },
            (false, false) => Tag::OtherOpen { after },
        }
    }
}
