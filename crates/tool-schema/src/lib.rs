//! JSON Schema of tools: typing what a model wrote, validating it, naming and rendering tools.
//!
//! `protocol-action` reads a reply into untyped trees; this crate knows what the offered tools declare and turns the trees into arguments.
//! A value is never changed by guessing: a value that does not fit is a [`Problem`] with its location, the expected
//! type and a suggestion; all problems are reported at once.
//!
//! ```
//! use protocol_action::{Options, parse};
//! use serde_json::json;
//! use agent_types::ToolDefinition;
//! use tool_schema::ToolSet;
//!
//! let tool = ToolDefinition::new("read_file".parse()?, "Reads a file.", json!({
//!     "type": "object",
//!     "properties": {"path": {"type": "string"}, "limit": {"type": "integer"}},
//!     "required": ["path"],
//!     "additionalProperties": false,
//! }));
//! let tools = ToolSet::new([tool])?;
//! let parsed = parse("<ACTION><read_file><path>a.rs</path><limit>5</limit></read_file></ACTION>", &tools);
//! let decision = tools.interpret(&parsed);
//! assert_eq!(decision.calls().next().unwrap().arguments["limit"], json!(5));
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;

mod catalogue;
mod coerce;
mod compiled;
mod encode;
mod foreign;
mod grammar;
mod interpret;
mod node;
mod parameters;
mod problem;
mod render;
mod scalar;
mod toolset;
mod weight;
mod wire;

pub use agent_types::Problem;
pub use agent_types::ToolDefinition;
pub use catalogue::{Catalogue, CatalogueSize};
pub use compiled::{Coercion, CompiledSchema, SchemaError, Typed};
pub use foreign::{Mapped, SchemaNote, map_schema};
pub use grammar::{
    CallChoice, Grammar, GrammarFormat, GrammarOptions, GrammarScope, LooseKeyword, RefusedTool, grammar,
    grammar_with,
};
pub use interpret::{CallFault, Decision, TypedCall};
pub use parameters::{OfferedParameters, ParametersError, no_parameters};
pub use problem::parameter;
pub use render::{SchemaDialect, render, tool_spec};
pub use toolset::{OfferedTool, ToolSet, ToolSetError, tool_tag};
pub use wire::{is_wire_name, wire_name};

/// The main types are shared between threads.
const _: () = {
    const fn is_shared<T: Send + Sync>() {}
    is_shared::<Catalogue>();
    is_shared::<CompiledSchema>();
    is_shared::<Grammar>();
    is_shared::<Problem>();
    is_shared::<ToolSet>();
};
