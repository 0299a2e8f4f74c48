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

#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;

mod changes;
mod check;
mod definition;
mod edge;
mod export;
mod file;
pub mod graph;
mod node;
mod payload;
mod policy;
mod problem;
mod schema;
mod slot;
pub mod structural;
mod types;
mod workflow;
mod zone;

pub use agent_types::{Problem, Severity};
pub use changes::changed_nodes;
pub use check::{check, check_as_tool, reference_notes};
pub use definition::{
    BypassBehavior, ConfigDefinition, Definitions, DynamicSlots, ModeDefinition, Modes, NoWorkflows,
    NodeDefinition, SlotDefinition, WorkflowSource,
};
pub use edge::Edge;
pub use export::to_mermaid;
pub use file::report::ShapeFault;
pub use graph::{Analysis, Graph, World, analyze};
pub use node::{Node, Position};
pub use payload::Payload;
pub use policy::{Bypass, Cache, OnError, Retry};
pub use problem::ProblemCode;
pub use schema::workflow_schema;
pub use slot::{DataFlowType, Slot, Suggestion};
pub use types::{FormerDefaults, type_default, write_former_defaults, write_implied_defaults};
pub use workflow::{AvailableTools, LoadError, NamedTool, Variable, Workflow};
pub use zone::{
    DEFAULT_MAX_ITERATIONS, OnItemError, OnMax, OnPassError, StateKey, TestAt, ZoneMode, ZoneSpec,
};

/// The main types are shared between threads.
const _: () = {
    const fn is_shared<T: Send + Sync>() {}
    is_shared::<Graph<'static>>();
    is_shared::<NodeDefinition>();
    is_shared::<Problem>();
    is_shared::<Workflow>();
};
