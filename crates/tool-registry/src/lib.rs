//! Tools behind one trait.
//!
//! A [`Tool`] is a definition and a [`ToolHandler`]; a [`Registry`] holds the tools of a process, and a [`Snapshot`] is what one turn sees of it.
//! [`Tool::invoke`] runs one call with its time limit, cancellation and a guard against panics, and always gives a [`CallOutcome`].
//! Who may call what, and what the model reads of it, is decided above.
//!
//! ```
//! use schemars::JsonSchema;
//! use serde::Deserialize;
//! use tool_registry::{Tool, Registry};
//!
//! #[derive(Deserialize, JsonSchema)]
//! struct Add {
//!     a: i64,
//!     b: i64,
//! }
//!
//! let registry = Registry::new();
//! registry.register(Tool::func("math:add", "Adds two integers.", |Add { a, b }, _| async move { a + b })?)?;
//! assert!(registry.snapshot().get("math:add").is_some());
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;

// The macro names this crate as others do.
extern crate self as tool_registry;

mod context;
mod dependency;
mod end;
pub mod files;
#[doc(hidden)]
pub mod function;
mod invoke;
mod invoker;
mod kind;
mod meter;
mod output;
mod own_folders;
mod pattern;
#[cfg(feature = "process")]
pub mod process;
mod provider;
mod registry;
#[cfg(feature = "schema")]
mod schema;
mod selection;
mod tasks;
mod tool;

pub use agent_types::{Services, ToolDefinition};
pub use context::{ChunkLimit, ToolContext};
pub use dependency::{Dep, Requirement};
pub use function::{FunctionTool, IntoTool, IntoToolError, IntoToolResult, stuck_threads};
pub use invoke::{CallEnd, CallOutcome};
pub use invoker::{EnclosingCall, ToolInvoker, ToolLookupError};
pub use kind::ToolKind;
pub use meter::UsageMeter;
pub use output::{FaultOrigin, INTERNAL_ERROR, Part, ToolError, ToolErrorKind, ToolOutput};
pub use own_folders::OwnFolders;
pub use pattern::fits_pattern;
pub use provider::{
    BrokenTool, Changes, Fault, FilePlace, FileTools, Providers, Reach, Resolution, ToolFormat, ToolProvider,
};
pub use registry::{Registry, RegistryChange, RegistryError, Snapshot, ToolSource, Unresolved};
pub use selection::{DynamicTools, Selected, Selection};
pub use tasks::{TaskBoard, TaskCall, TaskResult, TaskRuns, TaskState, TaskStatus};
pub use tool::{Answer, Tool, ToolHandler, ToolRetry, ToolSettings, Visibility};
pub use tool_macros::tool;

/// The main types are shared between threads.
const _: () = {
    const fn is_shared<T: Send + Sync>() {}
    is_shared::<Registry>();
    is_shared::<Selection>();
    is_shared::<Snapshot>();
    is_shared::<TaskBoard>();
    is_shared::<ToolContext>();
    is_shared::<ToolError>();
    is_shared::<ToolOutput>();
    is_shared::<Tool>();
};
