//! Reading a reply: one machine for the whole text and for pieces of it.
//!
//! The machine walks over the text with one cursor, [`Machine::at`]. Everything before it is decided.
//! Each step either moves on (`Flow::Go`) or says that more text is needed (`Flow::Wait`); at the end
//! of the input every question has an answer, so the same steps finish the reading. Steps decide by
//! places in the text and never by where a piece ended, which is why any chunking gives one result.
//!
//! The states of the machine lead to each other by design, so its methods are spread over files by what
//! they repair. The rules are those of reading a reply, 1 to 9:
//!
//! | rule | what is decided or repaired | file |
//! | --- | --- | --- |
//! | 1 | which openers count, and text outside of blocks | `openers` |
//! | 1 | openers that fences, inline code and quotations hide | `hidden_openers` |
//! | 1 | openers in the strings of a reply in JSON | `json_openers` |
//! | 2 | reasoning, and reasoning that lacks its close or open tag | `reasoning` |
//! | 3, 5 | the close tag that ends a raw value | `value_close` |
//! | 3 | tags that may follow a value | `value_followers` |
//! | 3, 5 | close tags of values that are missing or mangled, sections without an end | `value_repairs` |
//! | 4, 5 | entities, CDATA and layout of a value | `value_text` |
//! | 6 | the beginning of a parameter: child elements, text or a list | `parameter` |
//! | 6 | text alone in a call of a tool with one required string | `bare_text` |
//! | 6 | trees of elements, and mangled close tags in them | `element_tree` |
//! | 6 | JSON in place of calls and of arguments | `json_calls` |
//! | 7 | the end of a block that is missing or cut | `block_end` |
//! | 7 | checks that need the end of the input | `input_end` |
//! | 7 | text, fences and forbidden markup between calls | `between_calls` |
//! | 7, 9 | raw markup and damage that belong to no call | `strays` |
//! | 8 | second blocks, and the results so far | `output` |
//! | 9 | calls of other dialects, bare or without a name | `dialects` |
//! | all | lenient tags: odd names, blanks, attributes of any kind | `lenient_tags` |
//! | all | the fast path for plain calls of a whole text | `well_formed` |
//! | all | native calls beside the text, of which the text wins | `native` |

mod bare_text;
mod between_calls;
mod block_end;
mod dialects;
mod element_tree;
mod hidden_openers;
mod input_end;
mod json_calls;
mod json_openers;
pub(crate) mod lenient_tags;
mod native;
mod openers;
pub(crate) mod output;
mod parameter;
mod reasoning;
mod source;
mod strays;
#[cfg(test)]
mod tests;
mod value_close;
mod value_followers;
mod value_repairs;
mod value_text;
mod well_formed;

use std::collections::HashMap;
use std::ops::Range;

use crate::{Code, Diagnostic, Limits, Span, Vocabulary};

use between_calls::Block;
use lenient_tags::TagScan;
use openers::Prose;
use output::Output;
use source::{Finder, Probe};

pub(crate) use dialects::is_arguments_child;
pub(crate) use input_end::read_whole;
pub(crate) use parameter::is_parameter_tag;
pub(crate) use source::Source;

/// Result of a step: progress, or a need for more text.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Flow {
    Go,
    /// Nothing can be decided without more text.
    Wait,
}

/// Context of the cursor.
#[derive(Debug)]
enum State {
    Prose,
    /// In a block, between calls.
    Between,
    /// In an open tag.
    Tag {
        scan: TagScan,
        name_len: usize,
        kind: TagKind,
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
    Value(Box<value_close::Value>),
    Json(json_calls::JsonScan),
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

/// Structure that an open tag in a block begins.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum TagKind {
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
    /// A search beyond the cursor.
    probe: Probe,
    /// The same for a run of one byte.
    run_probe: Probe,
    /// The same for a run that may close the one that stands there.
    closing_probe: Probe,
    /// Distance that the cursors moved, back and forth; tests compare it with the length of the text.
    work: usize,
    /// Reads reasoning as text, to see what it holds.
    ignore_reasoning: bool,
    /// Values that were found to have no fitting close tag: for each position, the range of the search. Nothing
    /// else determines what may follow a value, so this holds for later blocks too.
    no_fit: HashMap<String, (usize, usize)>,
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
            probe: Probe::default(),
            run_probe: Probe::default(),
            closing_probe: Probe::default(),
            work: 0,
            ignore_reasoning: false,
            no_fit: HashMap::new(),
            comments: Finder::new("-->"),
            instructions: Finder::new("?>"),
            section_ends: Finder::new("]]>"),
        }
    }

    /// Reads as far as the text allows.
    pub(crate) fn run(&mut self, src: Source<'_>, vocabulary: &dyn Vocabulary) {
        loop {
            let before = self.at;
            let flow = self.step(src, vocabulary);
            self.work += self.at.abs_diff(before) + 1;
            if flow == Flow::Wait {
                return;
            }
        }
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

/// Returns `true` once a block has ended.
pub(crate) const fn has_block(machine: &Machine) -> bool {
    machine.blocks > 0
}

/// End of the part of the text that is certain to stand before the end of the block.
pub(crate) fn settled(machine: &Machine) -> usize {
    let certain = match &machine.state {
        _ if machine.blocks > 0 => machine.block_end,
        State::Value(value) => value.limit(),
        State::BareNext { end } | State::DoubledClose { end } => *end,
        _ => machine.at,
    };
    machine.out.settled(certain)
}
