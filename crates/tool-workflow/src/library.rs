//! Source of workflows.

use std::path::PathBuf;
use std::sync::Arc;

use tool_registry::BrokenTool;
use workflow_model::{Workflow, WorkflowSource};

/// The workflows that are tools, with the faults of those that cannot be loaded.
pub trait WorkflowLibrary: WorkflowSource + Send + Sync + std::fmt::Debug {
    /// Loads the workflow of an id; `None` if the id is unknown.
    ///
    /// # Errors
    /// The file does not hold a valid workflow.
    fn load(&self, id: &str) -> Option<Result<Arc<Workflow>, BrokenTool>> {
        self.workflow(id).map(Ok)
    }

    /// Folders of the files.
    fn folders(&self) -> Vec<PathBuf> {
        Vec::new()
    }

    /// Values of the secrets that the files name.
    fn secrets(&self) -> Vec<String> {
        Vec::new()
    }
}
