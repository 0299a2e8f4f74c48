//! Small language model in the process, on the CPU, constrained by a grammar token by token.
//!
//! `LocalModel` loads a GGUF file and implements the trait of all models. Its callers need no special case:
//! it receives the same prompt, and its replies are read by the same reader.
//! Without the feature `local-llm` this crate is empty.

#![cfg(feature = "local-llm")]

#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;

mod error;
mod forward;
mod gguf;
mod grammar_guard;
mod known;
mod prompt;
mod provider;
mod sample;
mod vocabulary;
mod worker;
mod write;

pub use error::LocalError;
pub use known::{KnownModel, Weights, known_models, models_folder, weights};
pub use provider::{LocalModel, LocalOptions};
pub use write::Figures;

/// The main types are shared between threads.
const _: () = {
    const fn is_shared<T: Send + Sync>() {}
    is_shared::<LocalError>();
    is_shared::<LocalModel>();
};
