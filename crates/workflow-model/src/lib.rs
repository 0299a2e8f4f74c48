//! Workflows as files say them: load, check, expand, save without loss.
//!
//! ```
//! use workflow_model::{DataFlowType, Workflow};
//!
//! let workflow = Workflow::from_json(
//!     r#"{"nodes": [], "edges": [],
//!         "interfaceInputs": {"city": {"dataFlowType": "STRING", "customDescription": "where"}}}"#,
//! )?;
//! let city = &workflow.interface_inputs["city"];
//! assert_eq!(city.data_flow_type, DataFlowType::String);
//! assert_eq!(city.description(), Some("where"));
//! # Ok::<(), workflow_model::LoadError>(())
//! ```

mod definition;
mod edge;
mod file;
mod node;
mod policy;
mod problem;
mod slot;
mod workflow;

pub use definition::{
    BypassBehavior, ConfigDefinition, Definitions, DynamicSlots, ModeDefinition, Modes, NoWorkflows,
    NodeDefinition, SlotDefinition, WorkflowSource,
};
pub use edge::Edge;
pub use file::report::ShapeFault;
pub use node::{Node, Position};
pub use policy::{Bypass, Cache, OnError, Retry};
pub use problem::{Problem, ProblemCode, Severity};
pub use slot::{DataFlowType, Slot, Suggestion};
pub use workflow::{AvailableTools, LoadError, Variable, Workflow};
