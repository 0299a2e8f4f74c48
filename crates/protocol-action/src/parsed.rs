//! Result of reading a whole reply.

use crate::{Code, Diagnostic, RawCall, Severity, Span};

/// A reply, read. Parsing never fails: there are calls, diagnostics, or plain text.
///
/// **Which calls may run:** all of `calls` when [`Parsed::has_errors`] is false, none otherwise. A
/// block is atomic: with an error the complete calls are stored only so that messages can name
/// them. Use [`Parsed::runnable`] to get that right.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct Parsed {
    /// Text before the block, without reasoning; all text if the reply has no block.
    pub text_before: String,
    /// Text after the block, reasoning and further blocks taken out.
    pub text_after: String,
    /// Both, one after the other.
    pub text: String,
    /// Reasoning, in order, without its tags; `None` when there was none.
    pub reasoning: Option<String>,
    /// The closed calls of the first block, or the native ones.
    pub calls: Vec<RawCall>,
    /// Findings in the order of their positions, those about native calls last.
    pub diagnostics: Vec<Diagnostic>,
    /// Classification of each byte: touching, ordered segments that cover the whole reply.
    pub segments: Vec<Segment>,
}

/// A stretch of the reply and what it was read as.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Segment {
    /// Kind of the segment.
    pub kind: SegmentKind,
    /// Byte range of the segment.
    pub span: Span,
}

/// Kind of a stretch of the reply.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum SegmentKind {
    /// Text for the user.
    Text,
    /// Reasoning, its tags included.
    Reasoning,
    /// The block: its calls, and the diagnostics of everything else in it.
    Block,
    /// A later block, covered by a `second_block`.
    SecondBlock,
    /// A byte-order mark at the start.
    ByteOrderMark,
}

impl Parsed {
    /// Returns `true` when the block is refused.
    pub fn has_errors(&self) -> bool {
        self.diagnostics.iter().any(|diagnostic| diagnostic.severity == Severity::Error)
    }

    /// The errors.
    pub fn errors(&self) -> impl Iterator<Item = &Diagnostic> {
        self.diagnostics.iter().filter(|diagnostic| diagnostic.severity == Severity::Error)
    }

    /// The calls that may run: all or none.
    pub fn runnable(&self) -> &[RawCall] {
        if self.has_errors() { &[] } else { &self.calls }
    }

    /// Returns `true` when a code was found.
    pub fn has(&self, code: Code) -> bool {
        self.diagnostics.iter().any(|diagnostic| diagnostic.code == code)
    }
}
