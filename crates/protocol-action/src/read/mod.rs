//! Reading a reply: one machine for the whole text and for pieces of it.
//!
//! The machine walks over the text with one cursor, [`Machine::at`]. Everything before it is decided.
//! Each step either moves on (`Flow::Go`) or says that more text is needed (`Flow::Wait`); at the end
//! of the input every question has an answer, so the same steps finish the reading. Steps decide by
//! places in the text and never by where a piece ended, which is why any chunking gives one result.
//!
//! - `prose`: text outside of blocks (rules 1 and 2), with `json_reply` for replies in JSON;
//! - `block`: calls of a block, their dialects and its end (rules 7 to 9), with `json_call`;
//! - `element`: parameters and the trees below them;
//! - `value`: where a raw value ends (rules 3 and 5), with `follow` for what may stand after it;
//! - `text`: entities, CDATA and layout of a value (rules 4 and 5);
//! - `well_formed`: the short way for plain calls of a whole text;
//! - `finish`: what can only be said at the end.

mod block;
mod element;
mod finish;
mod follow;
mod json_call;
mod json_reply;
mod lex;
mod native;
pub(crate) mod output;
mod prose;
mod source;
mod text;
mod value;
mod well_formed;

use std::ops::Range;

use crate::{Code, Diagnostic, Limits, Span, Vocabulary};

use block::Block;
use lex::TagScan;
use output::Output;
use prose::Prose;
use source::Finder;

pub(crate) use finish::read_whole;
pub(crate) use source::Source;

/// Whether a step got anywhere.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Flow {
    Go,
    /// Nothing can be decided without more text.
    Wait,
}

/// What the cursor stands in.
#[derive(Debug)]
enum State {
    Prose,
    /// In a block, between calls.
    Between,
    /// In an open tag.
    Tag {
        scan: TagScan,
        name_len: usize,
        of: TagOf,
    },
    /// After a `<tool_call>` or `<tool_use>` without a name.
    Unnamed {
        name: Range<usize>,
        start: usize,
    },
    /// In an element, between its children.
    Children,
    /// At the start of a value that may be child elements or text.
    Peek,
    Value(Box<value::Value>),
    Json(json_call::JsonScan),
    /// At something that belongs to no call.
    Stray {
        probe: usize,
    },
    /// After an error, on the way to the end of the block.
    Recover,
    /// After a bare call: another one may follow.
    BareNext {
        end: usize,
    },
    /// After the close tag of a block whose opener was written twice.
    DoubledClose {
        end: usize,
    },
}

/// What an open tag in a block begins.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum TagOf {
    Opener,
    Call,
    Parameter,
}

/// Everything that is known while reading.
#[derive(Debug)]
pub(crate) struct Machine {
    pub(crate) out: Output,
    limits: Limits,
    at: usize,
    state: State,
    prose: Prose,
    block: Block,
    /// The first block, once it is over.
    closed: Block,
    /// Blocks that count, read so far: none or one.
    blocks: usize,
    block_end: usize,
    /// Reads reasoning as text, to see what it holds.
    ignore_reasoning: bool,
    comments: Finder,
    instructions: Finder,
    section_ends: Finder,
}

impl Machine {
    pub(crate) fn new(limits: Limits) -> Self {
        Self {
            out: Output::default(),
            limits,
            at: 0,
            state: State::Prose,
            prose: Prose::default(),
            block: Block::default(),
            closed: Block::default(),
            blocks: 0,
            block_end: 0,
            ignore_reasoning: false,
            comments: Finder::new("-->"),
            instructions: Finder::new("?>"),
            section_ends: Finder::new("]]>"),
        }
    }

    /// Reads as far as the text allows.
    pub(crate) fn run(&mut self, src: Source<'_>, vocabulary: &dyn Vocabulary) {
        while self.step(src, vocabulary) == Flow::Go {}
    }

    fn step(&mut self, src: Source<'_>, vocabulary: &dyn Vocabulary) -> Flow {
        if matches!(self.state, State::Prose) {
            return self.prose_step(src);
        }
        if matches!(
            self.state,
            State::Recover | State::BareNext { .. } | State::DoubledClose { .. } | State::Stray { .. }
        ) {
            return self.block_step(src, vocabulary);
        }
        let limit = self.block.start.saturating_add(self.limits.block_bytes);
        let window = src.clipped(limit);
        let flow = self.block_step(window, vocabulary);
        if flow == Flow::Wait && window.len() < src.len() {
            self.over_limit(src, "block size", format!("{} bytes", self.limits.block_bytes));
            return Flow::Go;
        }
        flow
    }

    fn over_limit(&mut self, src: Source<'_>, name: &str, value: impl std::fmt::Display) {
        let message = format!("the {name} limit of {value} is exceeded");
        self.fail(src, Code::LimitExceeded, message, "Send less at once.");
    }

    /// Refuses the block and looks for its end.
    fn fail(&mut self, src: Source<'_>, code: Code, message: impl Into<String>, hint: &str) {
        let at = self.at.min(src.len());
        let mut diagnostic = Diagnostic::new(code, message).with_hint(hint);
        diagnostic.tool =
            self.block.call.as_ref().map(|call| call.tool.clone()).filter(|tool| !tool.is_empty());
        diagnostic.parameter = self.block.parameter(src);
        self.out.diagnose(src.text, diagnostic, Span::new(at, at));
        self.block.frames.clear();
        self.block.call = None;
        self.state = State::Recover;
    }
}
