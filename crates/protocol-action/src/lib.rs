//! Model text to tool calls, and back.

mod call;
mod decoder;
mod diagnostic;
mod event;
pub mod json;
mod options;
mod parsed;
mod read;
mod vocabulary;

pub use call::{Dialect, RawArgument, RawCall, RawValue, Span};
pub use decoder::{Decoder, Events, parse, parse_with};
pub use diagnostic::{Code, Diagnostic, Severity};
pub use event::Event;
pub use options::{FinishReason, Limits, NativeCall, Options};
pub use parsed::{Parsed, Segment, SegmentKind};
pub use vocabulary::{
    Declared, Fields, NoVocabulary, Shape, ShapeId, StaticVocabulary, StaticVocabularyBuilder, Vocabulary,
};
