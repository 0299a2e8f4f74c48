//! The engine against a tokio task a node, `dag_exec` and `dagrs`.

mod dag_exec_peer;
mod dagrs_peer;
mod graphs;
mod memory;
pub(crate) mod ours;
mod parts;
pub(crate) mod runtime;
pub(crate) mod shape;
mod spawn;

use anyhow::Result;

pub(crate) use memory::measure as measure_memory;

/// All tables of the engine.
pub(crate) fn run() -> Result<()> {
    graphs::run()?;
    parts::run()?;
    memory::run()
}
