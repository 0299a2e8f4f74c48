//! Replies without a block that look as if they should have held one.
//!
//! The reader takes a mention of a call for text: in a code fence, around another element, in a form that is
//! not its own. A model that meant it waits for a result that never comes, so the reply is searched once more
//! for what looks like an attempt. Nothing that is found here ever runs.

mod attempts;
mod dialects;
mod visible;

use serde::Serialize;

use crate::{SegmentKind, Span, Vocabulary, parse};

/// Characters of an excerpt.
const EXCERPT_CHARS: usize = 80;

/// Form of a call that was attempted and not read.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum UnreadKind {
    /// An opener of the protocol with content that was read as text.
    Opener,
    /// A call in a code fence that is the whole or the last thing of the reply.
    Fence,
    /// The tag of an offered tool with its parameters, outside of a block.
    BareTag,
    /// A call in the form of another system.
    Dialect,
    /// A JSON object with the name and the arguments of an offered tool.
    Json,
}

impl UnreadKind {
    /// Name on the wire, in logs and in tests.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Opener => "opener",
            Self::Fence => "fence",
            Self::BareTag => "bare_tag",
            Self::Dialect => "dialect",
            Self::Json => "json",
        }
    }

    /// Words for a message, as in "the reply holds …".
    pub const fn words(self) -> &'static str {
        match self {
            Self::Opener => "an opener of a block that does not begin a call",
            Self::Fence => "a call inside a code fence",
            Self::BareTag => "a call without `<ACTION>` around it",
            Self::Dialect => "a call in the form of another system",
            Self::Json => "a call as a JSON object",
        }
    }
}

/// Something that looks like an attempted call in a reply that has none.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct UnreadCall {
    /// Form of the attempt.
    pub kind: UnreadKind,
    /// Name of the offered tool as written; `None` where the attempt names none.
    pub tool: Option<String>,
    /// Byte range of the attempt in the reply.
    pub span: Span,
    /// Beginning of the attempt on one line.
    pub excerpt: String,
}

/// An attempt at a position of the text, before its form in the reply is known.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Attempt {
    kind: UnreadKind,
    tool: Option<String>,
    start: usize,
}

/// Finds the first attempted call in a whole reply that holds no block.
///
/// A reply with a block gives `None`: its calls run, or its errors are reported. Inline code, quotations, comments,
/// reasoning, JSON that is another answer, and code fences with text behind them are mentions.
///
/// ```
/// use protocol_action::{StaticVocabulary, UnreadKind, unread_call};
///
/// let tools = StaticVocabulary::builder().tool("search", |tool| tool.text("query")).build();
/// let unread = unread_call("I look.\n<search><query>dock</query></search>", &tools).unwrap();
/// assert_eq!((unread.kind, unread.tool.as_deref()), (UnreadKind::BareTag, Some("search")));
///
/// assert_eq!(unread_call("I could use `<search>`, or read the page.", &tools), None);
/// ```
pub fn unread_call(text: &str, vocabulary: &dyn Vocabulary) -> Option<UnreadCall> {
    let parsed = parse(text, vocabulary);
    let holds_block = |kind: SegmentKind| matches!(kind, SegmentKind::Block | SegmentKind::SecondBlock);
    if parsed.has_errors() || parsed.segments.iter().any(|segment| holds_block(segment.kind)) {
        return None;
    }
    let view = visible::View::new(text, &parsed.segments);
    let shown = attempts::first(&view.prose, vocabulary);
    let fenced = view.last_fence.and_then(|span| {
        let label = span.slice(text).lines().next().unwrap_or_default();
        let mut attempt = attempts::in_fence(label, span.slice(text), vocabulary)?;
        attempt.start += span.start;
        Some(Attempt { kind: UnreadKind::Fence, ..attempt })
    });
    let attempt = shown.or(fenced)?;
    let span = Span::new(attempt.start, text.trim_end().len().max(attempt.start));
    Some(UnreadCall { kind: attempt.kind, tool: attempt.tool, span, excerpt: excerpt(span.slice(text)) })
}

/// The first characters, with every run of blanks as one.
fn excerpt(text: &str) -> String {
    let mut words = text.chars().take(EXCERPT_CHARS * 2).collect::<String>();
    words = words.split_whitespace().collect::<Vec<_>>().join(" ");
    if words.chars().count() <= EXCERPT_CHARS && text.chars().nth(EXCERPT_CHARS * 2).is_none() {
        return words;
    }
    words.chars().take(EXCERPT_CHARS).chain(['…']).collect()
}
