//! Where workflows come from.

use std::path::PathBuf;
use std::sync::Arc;

use tool_registry::BrokenTool;
use workflow_model::{Workflow, WorkflowSource};

/// The workflows that are tools, with the faults of those that cannot be loaded.
pub trait WorkflowLibrary: WorkflowSource + Send + Sync + std::fmt::Debug {
    /// The workflow of an id; `None` where there is no such workflow.
    ///
    /// # Errors
    /// Its file holds none.
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
