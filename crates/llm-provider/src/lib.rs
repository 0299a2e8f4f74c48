//! One trait for language models.
//!
//! [`OpenAiCompatible`] and [`RemoteModel`] speak to real servers through a client library that no other crate names,
//! [`ScriptedModel`] plays a written script for tests and demos.
//! The crate knows nothing of tools beyond their schemas: what a reply means is for the layers above.
//!
//! ```
//! use llm_provider::{LlmProvider, LlmRequest, Message, ScriptedModel};
//!
//! # futures::executor::block_on(async {
//! let model = ScriptedModel::from_jsonl(r#"{"text": "Hello."}"#)?;
//! let request = LlmRequest::new(vec![Message::user("Hi")]);
//! let response = llm_provider::complete(&model, request).await?;
//! assert_eq!(response.text, "Hello.");
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! # }).unwrap();
//! ```

#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;

mod error;
mod message;
mod provider;
mod remote;
mod remote_config;
mod response;
mod script;
mod script_request;
mod scripted;

pub use error::LlmError;
pub use message::{LlmRequest, Message, ModelParameters, NativeCall};
pub use provider::{LlmProvider, LlmStream, ModelInfo, ModelSource, SingleModel, complete};
pub use remote::RemoteModel;
pub use remote_config::{ModelConfig, ModelError, OpenAiCompatible, ProviderKind};
pub use response::{Finish, LlmEvent, StandardResponse};
pub use script::{Reply, ScriptError};
pub use scripted::ScriptedModel;
