//! Plans: checked workflows in flat arrays, and the code of their nodes.

mod compile;
pub(crate) mod csr;
pub(crate) mod data;
mod layout;
mod order;
pub(crate) mod policy;
pub(crate) mod prepared;
mod reach;
pub(crate) mod zone;

use std::fmt;
use std::sync::Arc;

use workflow_model::{Problem, Workflow, WorkflowSource, World, analyze};

use self::data::PlanData;
use crate::error::PlanError;
use crate::node::{Node, NodeCatalog};

/// A workflow ready to run, any number of times and side by side.
#[derive(Clone)]
pub struct Plan {
    data: Arc<PlanData>,
    /// The code of each type of node.
    nodes: Arc<[Arc<dyn Node>]>,
}

impl fmt::Debug for Plan {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let nodes: usize = self.data.scopes.iter().map(|scope| scope.nodes.len()).sum();
        f.debug_struct("Plan")
            .field("scopes", &self.data.scopes.len())
            .field("nodes", &nodes)
            .finish_non_exhaustive()
    }
}

impl Plan {
    /// Checks and compiles a workflow.
    ///
    /// # Errors
    /// Every problem at once, warnings included, where one of them is an error.
    pub fn new(
        workflow: &Workflow,
        catalog: &NodeCatalog,
        workflows: &dyn WorkflowSource,
    ) -> Result<Self, PlanError> {
        Self::in_world(workflow, catalog, &World::new(catalog, workflows))
    }

    /// Checks and compiles a workflow in a world that knows more: its own id, the tools that exist.
    ///
    /// # Errors
    /// As [`new`](Self::new).
    pub fn in_world(
        workflow: &Workflow,
        catalog: &NodeCatalog,
        world: &World<'_>,
    ) -> Result<Self, PlanError> {
        let analysis = analyze(workflow, world);
        let (data, nodes) = compile::compile(analysis, catalog)?;
        Ok(Self { data: Arc::new(data), nodes: nodes.into() })
    }

    /// Everything that is wrong with a workflow, settings of nodes and expressions included. Tests in the settings are
    /// run where nothing else is wrong.
    #[must_use]
    pub fn check(workflow: &Workflow, catalog: &NodeCatalog, world: &World<'_>) -> Vec<Problem> {
        match Self::in_world(workflow, catalog, world) {
            Ok(plan) => {
                let failed = compile::self_tests(&analyze(workflow, world).graph, catalog);
                plan.data.warnings.iter().cloned().chain(failed).collect()
            }
            Err(error) => error.problems,
        }
    }

    /// Returns the warnings, which do not keep the workflow from running.
    #[must_use]
    pub fn warnings(&self) -> &[Problem] {
        &self.data.warnings
    }

    /// Returns `true` if a node of the plan has an effect outside of the run.
    #[must_use]
    pub fn has_effect(&self) -> bool {
        self.data.has_effect
    }

    /// The nodes whose chunks are those of a streamed result: path and slot of each.
    #[must_use]
    pub fn stream_sources(&self, result: &str) -> Vec<(Arc<str>, Arc<str>)> {
        let Some(root) = self.data.scopes.first() else { return Vec::new() };
        let result = root.results.iter().find(|own| &*own.name == result);
        let origins = result.map_or(&[][..], |result| &result.origins);
        origins.iter().filter_map(|origin| self.data.stream_source(root, origin)).collect()
    }

    pub(crate) fn data(&self) -> &Arc<PlanData> {
        &self.data
    }

    pub(crate) fn nodes(&self) -> &Arc<[Arc<dyn Node>]> {
        &self.nodes
    }
}
