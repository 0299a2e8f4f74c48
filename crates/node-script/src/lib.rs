//! The node `core:Script`: JavaScript in a sandbox.
//!
//! The code sees its inputs and the variables of the workflow, and nothing else: no files, no network, no modules, no
//! timers. Time, memory and stack are limited, and the end of the run ends it.

#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;

mod fault;
mod node;
mod sandbox;
mod settings;
mod values;

use workflow_engine::NodeCatalog;

/// Adds `core:Script` to a catalogue.
pub fn register(catalog: &mut NodeCatalog) {
    catalog.register(node::Script::new());
}
