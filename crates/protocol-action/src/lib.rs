//! Model text to tool calls, and back.

mod call;
mod diagnostic;
mod event;
pub mod json;
mod options;
mod parsed;
mod vocabulary;

pub use call::{Dialect, RawArgument, RawCall, RawValue, Span};
pub use diagnostic::{Code, Diagnostic, Severity};
pub use event::Event;
pub use options::{FinishReason, Limits, NativeCall, Options};
pub use parsed::{Parsed, Segment, SegmentKind};
pub use vocabulary::{
    Declared, Fields, NoVocabulary, Shape, ShapeId, StaticVocabulary, StaticVocabularyBuilder, Vocabulary,
};
