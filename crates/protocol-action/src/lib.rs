//! Model text to tool calls, and back.

mod call;
mod decoder;
mod diagnostic;
pub mod encode;
mod event;
pub mod json;
mod neutralize;
mod options;
mod parsed;
mod prompt;
mod read;
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
pub use vocabulary::{
    Declared, Fields, NoVocabulary, Shape, ShapeId, StaticVocabulary, StaticVocabularyBuilder, Vocabulary,
};
