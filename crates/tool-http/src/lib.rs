//! HTTP endpoints as tools.
//!
//! A `*.tool.json` file states what the model sees and what is sent; [`http_tool`] checks all of it when the tool is made.
//! Namespaces are not checked here: they belong to the providers of a project.

#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;

mod async_config;
mod callback;
mod error;
mod failure;
mod file;
mod polling;
mod progress;
mod provider;
mod tool;

pub use async_config::{AsyncConfig, CallbackConfig, StateConfig};
pub use callback::{CallbackRequest, Callbacks, OpenCallback};
pub use error::HttpToolError;
pub use file::HttpToolFile;
pub use provider::{HttpFormat, HttpTools};
pub use tool::{HTTP, http_tool};

/// The main types are shared between threads.
const _: () = {
    const fn is_shared<T: Send + Sync>() {}
    is_shared::<HttpToolError>();
    is_shared::<HttpToolFile>();
};
