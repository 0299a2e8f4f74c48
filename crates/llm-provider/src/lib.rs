//! One trait for language models.
//!
//! [`OpenAiCompatible`] and [`ModelConfig`] reach real servers in their five dialects,
//! [`ScriptedModel`] plays a written script for tests and demos, [`ReplayProvider`] returns recorded answers.
//! [`GuardedModel`] puts any of them behind limits: attempts, timeouts, concurrent requests.
//! The crate knows nothing of tools beyond their schemas: interpreting a reply is left to the layers above.
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

mod attachment;
mod capabilities;
mod constraint;
mod error;
mod guarded;
mod message;
mod model_error;
mod policy;
mod provider;
pub mod recorded;
mod remote;
mod remote_config;
mod replay;
mod response;
mod script;
mod script_request;
mod scripted;

pub use attachment::{Attachment, AttachmentSource};
pub use capabilities::Capabilities;
pub use constraint::{Constraint, GrammarForm};
pub use error::{LlmError, Wait};
pub use guarded::GuardedModel;
pub use message::{LlmRequest, Message, ModelParameters, NativeCall, tokens_of_tools};
pub use model_error::ModelError;
pub use policy::CallPolicy;
pub use provider::{LlmProvider, LlmStream, ModelInfo, ModelSource, SingleModel, complete};
pub use remote::read_body;
pub use remote_config::{ModelConfig, OpenAiCompatible, ProviderKind};
pub use replay::ReplayProvider;
pub use response::{Finish, LlmEvent, StandardResponse, retry_message};
pub use script::{Reply, ScriptError};
pub use scripted::ScriptedModel;

/// The main types are shared between threads.
const _: () = {
    const fn is_shared<T: Send + Sync>() {}
    is_shared::<GuardedModel>();
    is_shared::<LlmError>();
    is_shared::<LlmRequest>();
    is_shared::<ModelConfig>();
    is_shared::<ScriptedModel>();
    is_shared::<StandardResponse>();
};
