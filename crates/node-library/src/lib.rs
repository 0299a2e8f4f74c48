//! The core nodes: text, JSON, lists, expressions and branches, time, files, questions, arithmetic, models.
//!
//! ```
//! use workflow_engine::{Plan, RunOptions};
//! use workflow_model::{NoWorkflows, Workflow};
//!
//! let workflow = Workflow::from_json(
//!     r#"{"nodes": [
//!            {"id": "hello", "type": "core:TextTemplate", "configValues": {"template": "Hello {{ name }}!"},
//!             "inputValues": {"name": "Ada"}},
//!            {"id": "out", "type": "core:GroupOutput"}],
//!         "edges": [{"source": "hello", "sourceHandle": "text", "target": "out", "targetHandle": "said"}],
//!         "interfaceOutputs": {"said": {"dataFlowType": "STRING"}}}"#,
//! )?;
//! let plan = Plan::new(&workflow, &node_library::catalog(), &NoWorkflows)?;
//! let runtime = tokio::runtime::Builder::new_current_thread().build()?;
//! let outcome = runtime.block_on(async { plan.run(Default::default(), RunOptions::new()).outcome().await });
//! assert_eq!(outcome.outputs["said"], "Hello Ada!");
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;

mod chat;
mod chinese;
mod datetime;
mod define;
mod files;
mod flow;
mod http;
mod json;
mod lists;
mod llm;
mod logic;
mod math;
mod stream;
mod template;
mod text;

pub use files::{FileError, FilesFolder, WriteMode};
pub use template::{Template, TemplateError};
use workflow_engine::NodeCatalog;
use workflow_model::NodeDefinition;

/// All core nodes that run code. The wiring types are known without being registered.
#[must_use]
pub fn catalog() -> NodeCatalog {
    let mut catalog = NodeCatalog::new();
    text::register(&mut catalog);
    json::register(&mut catalog);
    logic::register(&mut catalog);
    flow::register(&mut catalog);
    math::register(&mut catalog);
    llm::register(&mut catalog);
    stream::register(&mut catalog);
    chat::register(&mut catalog);
    http::register(&mut catalog);
    lists::register(&mut catalog);
    datetime::register(&mut catalog);
    files::register(&mut catalog);
    catalog.describe("zh", &chinese::WORDS);
    catalog
}

/// Every definition for the reference: core nodes and wiring types, by name.
#[must_use]
pub fn definitions() -> Vec<NodeDefinition> {
    let mut all: Vec<NodeDefinition> = catalog().definitions().cloned().collect();
    all.extend(workflow_model::structural::structural_definitions());
    all.sort_by(|left, right| left.node_type.cmp(&right.node_type));
    all
}

/// The main types are shared between threads.
const _: () = {
    const fn is_shared<T: Send + Sync>() {}
    is_shared::<FilesFolder>();
    is_shared::<Template>();
    is_shared::<TemplateError>();
};
