//! What a whole reply was read as.

use crate::{Code, Diagnostic, RawCall, Severity, Span};

/// A reply, read. Parsing never fails: there are calls, diagnostics, or plain text.
///
/// **Which calls may run:** all of `calls` when [`Parsed::has_errors`] is false, none otherwise. A
/// block is atomic: with an error the calls that were closed are kept only so that messages can name
/// them. Use [`Parsed::runnable`] to get that right.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct Parsed {
    /// Text before the block, reasoning taken out; all text when there is no block.
    pub text_before: String,
    /// Text after the block, reasoning and further blocks taken out.
    pub text_after: String,
    /// Both, one after the other.
    pub text: String,
    /// Reasoning, in order, without its tags; `None` when there was none.
    pub reasoning: Option<String>,
    /// The closed calls of the first block, or the native ones.
    pub calls: Vec<RawCall>,
    /// Findings in the order of their places, those about native calls last.
    pub diagnostics: Vec<Diagnostic>,
    /// What each byte was read as: touching, ordered, covering the whole reply.
    pub segments: Vec<Segment>,
}

/// A stretch of the reply and what it was read as.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Segment {
    /// What it is.
    pub kind: SegmentKind,
    /// Where it is.
    pub span: Span,
}

/// What a stretch of the reply was read as.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum SegmentKind {
    /// Text for the user.
    Text,
    /// Reasoning, its tags included.
    Reasoning,
    /// The block: its calls, and the diagnostics of what is no call.
    Block,
    /// A later block, covered by a `second_block`.
    SecondBlock,
}

impl Parsed {
    /// Whether the block is refused.
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

    /// Whether a code was found.
    pub fn has(&self, code: Code) -> bool {
        self.diagnostics.iter().any(|diagnostic| diagnostic.code == code)
    }
}
