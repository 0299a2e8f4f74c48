//! The version of its workflow that a run is resumed with.

use std::collections::BTreeSet;
use std::sync::Arc;

use agent_types::RunId;
use run_store::Store;
use weft_project::Project;
use workflow_engine::Plan;
use workflow_model::{Workflow, changed_nodes, write_former_defaults};

use crate::error::RunsError;
use crate::plan::WorkflowPlan;
use crate::request::Version;

/// The workflow of a run, as it is now or as it was; refused where it has changed in what the run did up to an event.
pub(super) fn version(
    project: &Project,
    store: &Store,
    kept: &WorkflowPlan,
    (run, upto): (&RunId, u64),
    wanted: Version,
) -> Result<Arc<Workflow>, RunsError> {
    let was = workflow_of(run, kept)?;
    // A file outside of the project has no version of now.
    let Ok((_, current)) = project.workflows().get(&kept.id) else { return Ok(Arc::new(was)) };
    if wanted == Version::AsItWas {
        return Ok(Arc::new(was));
    }
    let changed = changed_nodes(&was, &current);
    let mut nodes = BTreeSet::new();
    for group in store.groups(run).take_while(|_| !changed.is_empty()) {
        let group = group?;
        let done = group.iter().filter(|kept| kept.event.seq <= upto);
        let paths = done.filter_map(|kept| kept.event.place.path.as_deref());
        let touched = paths.filter_map(|path| path.split(['[', '/']).next());
        nodes.extend(touched.filter(|node| changed.contains(*node)).map(str::to_owned));
    }
    if nodes.is_empty() {
        Ok(current)
    } else {
        Err(RunsError::PlanChanged { nodes: nodes.into_iter().collect() })
    }
}

/// The plan of a run that is resumed. A run of an earlier version keeps the values that its absent inputs had.
pub(super) fn plan_of(
    project: &Project,
    run: &RunId,
    kept: &mut WorkflowPlan,
    workflow: &Workflow,
) -> Result<Plan, RunsError> {
    if !kept.former_inputs {
        return Ok(project.plan(&kept.id, workflow)?);
    }
    workflow.drop_nulls(&mut kept.inputs);
    let mut former = workflow.clone();
    write_former_defaults(&mut former);
    let lost = former.interface_inputs.iter().find(|(name, slot)| {
        !slot.is_required() && slot.absent_value().is_none() && !kept.inputs.contains_key(*name)
    });
    if let Some((name, _)) = lost {
        let message = format!("its input `{name}` was empty, which is absent in this version");
        return Err(RunsError::not_resumable(run, message));
    }
    Ok(project.plan_with_former_defaults(&kept.id, workflow)?)
}

/// The workflow as it was.
pub(super) fn workflow_of(run: &RunId, kept: &WorkflowPlan) -> Result<Workflow, RunsError> {
    Workflow::from_value(kept.workflow.clone())
        .map_err(|error| RunsError::not_resumable(run, error.to_string()))
}
