//! Tools behind one trait.
//!
//! A [`Tool`] is a definition and a [`ToolHandler`]; a [`ToolRegistry`] holds the tools of a process, and a [`Snapshot`] is what one turn sees of it.
//! [`Tool::invoke`] runs one call with its time limit, cancellation and a guard against panics, and always gives a [`CallOutcome`].
//! Who may call what, and what the model reads of it, is decided above.
//!
//! ```
//! use schemars::JsonSchema;
//! use serde::Deserialize;
//! use tool_registry::{Tool, ToolRegistry};
//!
//! #[derive(Deserialize, JsonSchema)]
//! struct Add {
//!     a: i64,
//!     b: i64,
//! }
//!
//! let registry = ToolRegistry::new();
//! registry.register(Tool::func("math:add", "Adds two integers.", |Add { a, b }, _| async move { a + b })?)?;
//! assert!(registry.snapshot().get("math:add").is_some());
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;

mod context;
mod func;
mod http;
pub mod import;
mod invoke;
mod output;
mod registry;
mod system;
mod tool;
mod workflow;

pub use context::ToolContext;
pub use func::IntoToolResult;
pub use http::{HttpToolError, HttpToolFile, http_tool};
pub use invoke::{CallEnd, CallOutcome};
pub use output::{Part, ToolError, ToolErrorKind, ToolOutput};
pub use registry::{RegistryError, Snapshot, ToolRegistry, Unresolved};
pub use system::system_tools;
pub use tool::{Tool, ToolHandler, ToolKind, ToolSettings};
pub use workflow::{WorkflowRuntime, WorkflowToolError, workflow_tool};
