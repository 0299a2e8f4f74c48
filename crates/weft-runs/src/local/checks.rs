//! Checks of a message before its run begins.

use std::sync::Arc;

use agent_runtime::{Agent, SubscribedEvent};
use agent_types::nearest;
use executors_flow_system::{Orchestrator, OrchestratorError};
use weft_project::{Project, ProjectError};

use super::LocalRuns;
use crate::error::RunsError;
use crate::plan::{AgentPlan, FlowCall};
use crate::request::{AgentRequest, RunEnv, WhenBusy};

/// Finds what keeps a message from being queued, and completes its record.
pub(super) fn check_queued(
    runs: &LocalRuns,
    project: &Arc<Project>,
    request: &mut AgentRequest,
) -> Result<(), RunsError> {
    let AgentRequest { plan, surroundings, approval, busy, .. } = request;
    plan.in_session = is_session(project, plan, *surroundings)?;
    plan.queued = true;
    plan.steers = *busy == WhenBusy::Steer;
    let agent = plan.prepared(runs.agent(project, &plan.agent)?);
    agent.check().map_err(ProjectError::from)?;
    if plan.target.is_some() {
        let project = runs.for_one_run(project)?;
        check_target(&runs.orchestrator(&project, *approval)?, plan)?;
    }
    check_event(&agent, plan)
}

/// Returns `true` when flows and system actions surround the agent. They take messages, not events.
pub(super) fn is_session(
    project: &Project,
    plan: &AgentPlan,
    surroundings: RunEnv,
) -> Result<bool, RunsError> {
    if plan.target.is_some() {
        return Ok(true);
    }
    match surroundings {
        RunEnv::Session => Ok(true),
        RunEnv::AgentOnly => Ok(false),
        RunEnv::OfProject => Ok(plan.event.is_none()
            && project.flows_file()?.is_some()
            && project.flows_agent()? == plan.agent),
    }
}

/// Refuses a flow or system action that cannot be run by its id, before its run begins.
pub(super) fn check_target(orchestrator: &Orchestrator, plan: &AgentPlan) -> Result<(), RunsError> {
    let Some(FlowCall { id, kind, parameters }) = &plan.target else { return Ok(()) };
    let checked = orchestrator.flows().check_call(*kind, id, parameters);
    Ok(checked.map_err(OrchestratorError::from)?)
}

/// Refuses an event that does not start the agent.
pub(super) fn check_event(agent: &Agent, plan: &AgentPlan) -> Result<(), RunsError> {
    let Some(event) = &plan.event else { return Ok(()) };
    // A trigger names its agent itself.
    if plan.trigger.is_some() || agent.listens_to(&event.name, &event.payload) {
        return Ok(());
    }
    let subscribed = &agent.profile().subscribed_event_types;
    let names: Vec<&str> = subscribed.iter().map(SubscribedEvent::name).collect();
    Err(RunsError::NotSubscribed {
        agent: plan.agent.clone(),
        event: event.name.clone(),
        listed: names.contains(&event.name.as_str()),
        near: nearest(&event.name, names.iter().copied()).map(str::to_owned),
    })
}
