//! Model text to tool calls, and back.
//!
//! A model writes text and at most one `<ACTION>` block. [`parse`] reads a whole reply, [`Decoder`] one
//! that arrives in pieces; both give the same [`Parsed`]: text, reasoning, calls, diagnostics. Parsing
//! never fails. Calls are untyped trees ([`RawCall`]); a [`Vocabulary`] gives the reader the tools and
//! parameters that exist and the values that are plain text, so that markup inside a string is data.
//!
//! ```
//! use protocol_action::{parse, Code, StaticVocabulary};
//!
//! let tools = StaticVocabulary::builder().tool("search", |tool| tool.text("query").scalar("limit")).build();
//!
//! let parsed = parse("Let me look.\n<ACTION><search><query>a < b</query></search></ACTION>", &tools);
//! assert_eq!((parsed.text_before.as_str(), parsed.runnable().len()), ("Let me look.\n", 1));
//!
//! let cut = parse("<ACTION><search><query>a", &tools);
//! assert!(cut.has(Code::Truncated) && cut.runnable().is_empty());
//! ```
//!
//! Outside of this crate: types, validation and suggestions (`tool-schema`), running tools, files, the network. The
//! parser does not recurse on the depth of the input, and reading is linear in its length, also in pieces.

mod call;
mod decoder;
mod diagnostic;
mod doubt;
pub mod encode;
mod event;
pub mod json;
mod neutralize;
mod options;
mod parsed;
mod prompt;
mod read;
mod unread;
mod vocabulary;

pub use call::{Dialect, RawArgument, RawCall, RawValue, Span};
pub use decoder::{Decoder, Events, parse, parse_with};
pub use diagnostic::{Code, Diagnostic, Severity};
pub use encode::{EncodeCall, encode, encode_trees, encode_with};
pub use event::Event;
pub use neutralize::neutralize;
pub use options::{FinishReason, Limits, NativeCall, Options};
pub use parsed::{Parsed, Segment, SegmentKind};
pub use prompt::{Lang, prompt_rules};
pub use unread::{UnreadCall, UnreadKind, unread_call};
pub use vocabulary::{
    Declared, Fields, NoVocabulary, Shape, ShapeId, StaticVocabulary, StaticVocabularyBuilder, Vocabulary,
};

/// The examples of the README run as tests.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;

/// The main types are shared between threads.
const _: () = {
    const fn is_shared<T: Send + Sync>() {}
    is_shared::<Diagnostic>();
    is_shared::<Event>();
    is_shared::<Options>();
    is_shared::<Parsed>();
    is_shared::<RawCall>();
    is_shared::<StaticVocabulary>();
};
