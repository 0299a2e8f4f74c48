//! Runs of tasks, kept beside those of the agents that began them.

use std::sync::Arc;

use agent_types::{Clock, EventSink, RunId, ToolId};
use run_store::{NewRun, Store};
use tool_registry::TaskRuns;

/// Keeps the run of each task in the project's store.
#[derive(Debug)]
pub(crate) struct StoredTasks {
    pub(crate) store: Store,
    pub(crate) clock: Arc<dyn Clock>,
}

impl TaskRuns for StoredTasks {
    fn begin(&self, parent: &RunId, tool: &ToolId) -> Option<Arc<dyn EventSink>> {
        let workflow = (tool.namespace() == Some("workflow")).then(|| tool.name().to_owned());
        let new = NewRun { workflow, parent: Some(parent.clone()), ..NewRun::new(RunId::generate()) };
        let run = self.store.begin(new, Arc::clone(&self.clock)).ok()?;
        Some(run)
    }
}
