//! Retrying runs that failed or were cancelled: a new run with what stands of the old one.

use std::collections::BTreeSet;
use std::sync::Arc;

use agent_runtime::ApprovalMode;
use agent_types::{EventBody, RunId, StoredEvent};
use run_store::{RunPhase, RunRecord, Store, StoreError};
use tokio_util::sync::CancellationToken;
use weft_project::Project;
use workflow_model::{Workflow, changed_nodes};

use super::LocalRuns;
use super::agent::OpenAgent;
use super::begin::kept;
use super::conversation::{cut_behind, history_before, newest};
use super::open::{new_agent_run, new_workflow_run, skip_replies};
use super::resume::prepare_resumed;
use super::version::{plan_of, workflow_of};
use super::workflow::{OpenWorkflow, workflow_work};
use crate::error::RunsError;
use crate::handle::RunHandle;
use crate::plan::{AgentPlan, WorkflowPlan};
use crate::request::ThreadName;
use crate::sink::RunSink;

impl LocalRuns {
    pub(super) async fn retry_run(&self, run: RunId) -> Result<RunHandle, RunsError> {
        let admission = self.admit()?;
        let of = run.clone();
        let record = self.with_project(move |project| retryable(project, &of)).await?;
        let hold = match (&record.new.agent, &record.new.thread) {
            (Some(agent), Some(thread)) => Some(self.take_thread(&ThreadName::new(agent, thread)).await?),
            _ => None,
        };
        let runs = self.clone();
        let prepared = self
            .with_project(move |project| {
                let project = runs.for_one_run(project)?;
                let cancel = CancellationToken::new();
                if record.new.agent.is_none() {
                    let open = retry_workflow(&project, &record)?;
                    skip_replies(&project, open.log.as_ref());
                    return kept(workflow_work(&project, open, ApprovalMode::default(), cancel)?);
                }
                let open = runs.retry_agent(&project, &record)?;
                skip_replies(&project, open.log.as_ref());
                runs.skip_conversation(&project, &open);
                prepare_resumed(&runs, project, open, hold, cancel).and_then(kept)
            })
            .await?;
        Ok(self.launch(admission, prepared))
    }

    fn retry_agent(&self, project: &Project, record: &RunRecord) -> Result<OpenAgent, RunsError> {
        let of = &record.new.run;
        let store = project.required_store(of)?;
        let plan = AgentPlan { retry_of: Some(of.clone()), ..AgentPlan::from_record(record)? };
        if plan.in_session {
            let message = "it is a message of a session, whose flows have answered it";
            return Err(RunsError::not_resumable(of, message));
        }
        // What keeps it from running is found before anything is changed.
        project.agent(&plan.agent)?;
        let thread = record.new.thread.clone();
        let name = thread.as_ref().map(|thread| ThreadName::new(&plan.agent, thread));
        if let Some(name) = &name
            && newest(project, name)?.as_ref() != Some(of)
        {
            let message = "its conversation has continued behind it";
            return Err(RunsError::not_resumable(of, message));
        }
        let history = history_before(project, &plan, thread.as_deref(), Some(of))?;
        // It begins at once, behind what the failed run had before it.
        let plan = AgentPlan { queued: false, before: history.len(), ..plan };
        let new = new_agent_run(RunId::generate(), &plan, thread.clone());
        let clock = Arc::clone(project.clock());
        let (stored, log) = store.retry(of, new, |_| true, agent_runtime::standing, clock)?;
        if let Some(name) = &name {
            // What the failed run added is added again by its retry.
            cut_behind(project, name, history.len())?;
        }
        let state = self.0.threads.state(name.as_ref(), history);
        Ok(OpenAgent { sink: RunSink::Stored(stored, store.clone()), log: Some(log), state, plan, thread })
    }
}

/// The record of a run that can be retried: it has failed or was cancelled.
fn retryable(project: &Project, run: &RunId) -> Result<RunRecord, RunsError> {
    let store = project.required_store(run)?;
    let record = store.known(run)?;
    match record.state.phase {
        RunPhase::Error | RunPhase::Cancelled => Ok(record),
        RunPhase::Running if store.is_at_work(run) => {
            Err(StoreError::RunBusy { run: run.to_string() }.into())
        }
        phase @ (RunPhase::Ok | RunPhase::Running | RunPhase::Waiting) => {
            let status = if phase == RunPhase::Running { "interrupted" } else { phase.as_str() };
            Err(RunsError::NotRetryable { run: run.to_string(), status: status.to_owned() })
        }
    }
}

fn retry_workflow(project: &Project, record: &RunRecord) -> Result<OpenWorkflow, RunsError> {
    let of = &record.new.run;
    let store = project.required_store(of)?;
    let was = WorkflowPlan::from_record(record)?;
    let before = workflow_of(of, &was)?;
    // A file outside of the project has no version of now.
    let current = project.workflows().get(&was.id).map_or_else(|_| Arc::new(before.clone()), |found| found.1);
    check_unchanged(store, of, &before, &current)?;
    let mut kept = WorkflowPlan { workflow: current.to_value(), retry_of: Some(of.clone()), ..was };
    let plan = plan_of(project, of, &mut kept, &current)?;
    let new = new_workflow_run(&kept);
    let clock = Arc::clone(project.clock());
    let fits = |state: &str| plan.fits(state);
    let (stored, log) = store.retry(of, new, fits, workflow_engine::standing, clock)?;
    let sink = RunSink::Stored(stored, store.clone());
    Ok(OpenWorkflow { sink, log: Some(log), plan, kept })
}

/// Refuses a workflow in which a node has changed that has finished: it is not run again, so its result would be that of another node.
fn check_unchanged(store: &Store, of: &RunId, before: &Workflow, now: &Workflow) -> Result<(), RunsError> {
    let changed = changed_nodes(before, now);
    let mut nodes = BTreeSet::new();
    for group in store.groups(of).take_while(|_| !changed.is_empty()) {
        for kept in group?.iter().filter(|kept| has_finished(kept)) {
            let path = kept.event.place.path.as_deref().unwrap_or_default();
            let node = path.rsplit('/').next().unwrap_or_default();
            if changed.contains(node) {
                nodes.insert(node.to_owned());
            }
        }
    }
    if nodes.is_empty() { Ok(()) } else { Err(RunsError::PlanChanged { nodes: nodes.into_iter().collect() }) }
}

fn has_finished(kept: &StoredEvent) -> bool {
    kept.event.place.call.is_none()
        && matches!(kept.event.body, EventBody::NodeFinished { .. } | EventBody::NodeCached { .. })
}
