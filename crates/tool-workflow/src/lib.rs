//! Workflows and single nodes as tools.
//!
//! [`workflow_tool`] plans a workflow once; each call is a run of the engine inside the run that calls it, with its events under the call.

#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;

mod definition;
mod library;
mod node;
mod provider;
mod workflow;

pub use definition::{definition_of, parameters_of};
pub use library::WorkflowLibrary;
pub use node::{NODE, NodeToolSettings, node_tool, node_tool_with};
pub use provider::{NodeTools, WorkflowTools};
pub use workflow::{WORKFLOW, WorkflowRuntime, WorkflowToolError, workflow_tool};

/// The main types are shared between threads.
const _: () = {
    const fn is_shared<T: Send + Sync>() {}
    is_shared::<WorkflowRuntime>();
    is_shared::<WorkflowToolError>();
};
