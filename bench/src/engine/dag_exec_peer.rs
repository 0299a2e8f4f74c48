//! The peer `dag_exec`: synchronous, here on the calling thread, which is its cheapest way.

use anyhow::{Result, anyhow};
use dag_exec::{Dag, DagBuilder, Executor, ExecutorConfig};

use super::shape::Shape;

/// A shape ready to run.
pub(crate) struct Prepared {
    dag: Dag<usize, usize, ()>,
    ends: Vec<usize>,
}

impl Prepared {
    pub(crate) fn new(shape: &Shape) -> Result<Self> {
        let mut builder = DagBuilder::new();
        for (at, before) in shape.sources().into_iter().enumerate() {
            let added = if before.is_empty() {
                builder.add_source(at, at)
            } else {
                builder.add_task(at, before, |inputs| Ok(inputs.len()))
            };
            added.map_err(|error| anyhow!("{error:?}"))?;
        }
        let dag = builder.build().map_err(|error| anyhow!("{error:?}"))?;
        Ok(Self { dag, ends: shape.ends() })
    }

    /// Runs what the ends need; the number of ends.
    pub(crate) fn run(&self) -> usize {
        let executor = Executor::new(ExecutorConfig::default());
        executor.run_sequential(&self.dag, self.ends.iter().copied()).map_or(0, |outputs| outputs.len())
    }
}
