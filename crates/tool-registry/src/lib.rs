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

#[cfg(doctest)]
#[doc = include_str!("../../../docs/guide/rust-tools.md")]
struct RustTools;

// The macro names this crate as others do.
extern crate self as tool_registry;

mod context;
mod dependency;
mod end;
#[doc(hidden)]
pub mod function;
mod http;
pub mod import;
mod invoke;
mod invoker;
mod meter;
mod node;
mod output;
mod registry;
mod selection;
mod system;
mod tasks;
mod tool;
mod workflow;

pub use context::{ChunkLimit, ToolContext};
pub use dependency::{Dep, Requirement};
pub use function::{FunctionTool, IntoTool, IntoToolError, IntoToolResult, stuck_threads};
pub use http::{HttpToolError, HttpToolFile, http_tool};
pub use invoke::{CallEnd, CallOutcome};
pub use invoker::{EnclosingCall, ToolInvoker, ToolLookupError};
pub use meter::UsageMeter;
pub use node::node_tool;
pub use output::{Part, ToolError, ToolErrorKind, ToolOutput};
pub use registry::{RegistryChange, RegistryError, Snapshot, ToolRegistry, ToolSource, Unresolved};
pub use selection::{DynamicTools, Selected, Selection, canonical_id};
pub use system::{
    BlobPart, BlobSource, EventPublisher, KnowledgeSource, MemoryBlobs, MemoryEvents, MemoryState, Passage,
    PrivateState, Published, StateSource, World, knowledge_tool, merged_state, system_tools,
};
pub use tasks::{TaskBoard, TaskResult, TaskRuns, TaskState, TaskStatus};
pub use tool::{Answer, Tool, ToolHandler, ToolKind, ToolRetry, ToolSettings, Visibility};
pub use tool_macros::tool;
pub use workflow::{WorkflowRuntime, WorkflowToolError, workflow_tool};
pub use workflow_engine::Services;
