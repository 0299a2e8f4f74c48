//! Retrying runs that failed or were cancelled.

use agent_types::RunId;

use super::LocalRuns;
use crate::error::RunsError;
use crate::handle::RunHandle;

impl LocalRuns {
    pub(super) async fn retry_run(&self, run: RunId) -> Result<RunHandle, RunsError> {
        let of = run.clone();
        let phase = self.with_project(move |project| Ok(project.required_store(&of)?.known(&of)?.state.phase)).await?;
        Err(RunsError::NotRetryable { run: run.to_string(), status: phase.as_str().to_owned() })
    }
}
