//! Beginning runs.

use std::sync::Arc;

use agent_runtime::{Agent, ApprovalMode, Exchange, RunOutcome, exit_status};
use agent_types::{ResumeLog, RunId, RunStatus};
use executors_flow_system::{Handled, Orchestrator, OrchestratorError, UserMessage};
use http::StatusCode;
use serde_json::{Map, Value};
use tokio_util::sync::CancellationToken;
use tool_registry::TaskBoard;
use tool_schema::CompiledSchema;
use tool_workflow::parameters_of;
use weft_project::{AgentPlan, AgentStart, Project, ProjectError, RunSink};
use workflow_engine::{OnWaiting, Plan, RunOptions};
use workflow_model::Workflow;

use super::threads::take_thread;
use super::{AgentEnd, Begun, Ended, Prepared, ThreadHold, admit, launch};
use crate::app::App;
use crate::problem::Problem;

/// A run of an agent that somebody asks for.
#[derive(Debug, Default)]
pub(crate) struct AgentRequest {
    pub(crate) plan: AgentPlan,
    pub(crate) thread: Option<String>,
    pub(crate) approval: ApprovalMode,
}

/// Begins a run of an agent.
pub(crate) async fn begin_agent(app: &Arc<App>, request: AgentRequest) -> Result<Begun, Problem> {
    let admission = admit(app)?;
    let hold = match &request.thread {
        Some(thread) => {
            check_thread(thread)?;
            Some(take_thread(app, &request.plan.agent, thread).await?)
        }
        None => None,
    };
    let owner = Arc::clone(app);
    let prepare = move |project: &Arc<Project>| kept(&owner, prepare_agent(&owner, project, request, hold)?);
    let prepared = app.with_project(prepare).await?;
    Ok(launch(app, admission, prepared))
}

/// What has begun, once its record is safe: whoever is told of a run finds it again after a crash.
pub(super) fn kept(app: &App, prepared: Prepared) -> Result<Prepared, Problem> {
    app.store.flush()?;
    Ok(prepared)
}

fn prepare_agent(
    app: &App,
    project: &Arc<Project>,
    request: AgentRequest,
    mut hold: Option<ThreadHold>,
) -> Result<Prepared, Problem> {
    let AgentRequest { mut plan, mut thread, approval } = request;
    let cancel = CancellationToken::new();
    let project = project.for_one_run()?;
    if let Some(thread) = &thread
        && let Some(run) = project.waiting_run(&plan.agent, thread)?
    {
        return Err(Problem::conflict("run_waiting", "a run of this conversation waits for a person")
            .with("run", run.as_str())
            .with_help("answer what it asks, or cancel it"));
    }
    if is_session(&project, &plan)? {
        plan.in_session = true;
        // A conversation that the client keeps becomes a session of its own.
        if thread.is_none() {
            let session = RunId::generate().to_string();
            project.extend_thread(&plan.agent, &session, &plan.history)?;
            plan.history.clear();
            // Nobody else knows its name yet.
            hold = app.runs.threads.take(&plan.agent, &session).ok();
            thread = Some(session);
        }
        let orchestrator = app.sessions.of(&project, approval)?;
        let start = project.begin_agent(plan, thread.as_deref())?;
        project.skip_conversation(&start);
        return Ok(session_work(orchestrator, start, hold, Arc::default(), cancel));
    }
    let agent =
        plan.prepared(with_live_tools(app, &project, project.agent(&plan.agent)?)?).with_approval(approval);
    agent.check().map_err(ProjectError::from)?;
    if let Some(event) = &plan.event
        && !agent.listens_to(&event.name, &event.payload)
    {
        let detail = format!("the agent `{}` does not listen to `{}`", plan.agent, event.name);
        return Err(Problem::new(StatusCode::UNPROCESSABLE_ENTITY, "not_subscribed", detail)
            .with_help("name it in `subscribed_event_types` of its profile"));
    }
    let start = project.begin_agent(plan, thread.as_deref())?;
    project.skip_conversation(&start);
    agent_work(project, agent, start, hold, cancel)
}

/// The agent with tools that follow their files and servers while it runs. A script has models of its own, and stays as it is.
pub(super) fn with_live_tools(app: &App, project: &Project, agent: Agent) -> Result<Agent, Problem> {
    let live = if project.is_scripted() { None } else { app.live_tools(&agent.profile().id) };
    match live {
        Some(tools) => Ok(agent.with_source(project.following(tools))),
        None => Ok(agent),
    }
}

/// Whether flows and system actions stand around the agent. They take messages, not events.
fn is_session(project: &Project, plan: &AgentPlan) -> Result<bool, Problem> {
    Ok(plan.event.is_none() && project.flows_file()?.is_some() && project.flows_agent()? == plan.agent)
}

/// The work of an agent's run that begins or goes on.
pub(super) fn agent_work(
    project: Arc<Project>,
    agent: Agent,
    start: AgentStart,
    hold: Option<ThreadHold>,
    cancel: CancellationToken,
) -> Result<Prepared, Problem> {
    let AgentStart { desk, log, state, plan, thread } = start;
    let before = state.history().len();
    let board = agent.tasks();
    let run = agent
        .with_cancel(cancel.clone())
        .start_in(state, plan.input(), desk.sink(), log)
        .map_err(ProjectError::from)?;
    let agent = plan.agent;
    let work = async move {
        let (mut outcome, _) = run.outcome().await;
        // A run that waits belongs to its conversation when it has ended.
        let waits = exit_status(outcome.exit) == RunStatus::Waiting;
        let added =
            if waits { Vec::new() } else { outcome.history.split_off(before.min(outcome.history.len())) };
        Ended::Agent(Box::new(end_of(outcome, added)))
    };
    let after = move |ended: &Ended| {
        if let (Ended::Agent(end), Some(thread)) = (ended, thread) {
            keep(&project, &agent, &thread, &end.added);
        }
    };
    Ok(Prepared { desk, cancel, hold, work: Box::pin(work), after: Box::new(after), board })
}

fn end_of(outcome: RunOutcome, added: Vec<Exchange>) -> AgentEnd {
    let RunOutcome { exit, text, usage, pending, error, .. } = outcome;
    AgentEnd { exit, text, usage, pending, error, added }
}

/// The work of a message of a session that begins or goes on.
pub(super) fn session_work(
    orchestrator: Orchestrator,
    start: AgentStart,
    hold: Option<ThreadHold>,
    board: Arc<TaskBoard>,
    cancel: CancellationToken,
) -> Prepared {
    let desk = start.desk_of_session().with_cancel(cancel.clone());
    let AgentStart { desk: kept, plan, thread, .. } = start;
    let session = thread.unwrap_or_default();
    let (desk, board) = (desk.with_tasks(Arc::clone(&board)), Some(board));
    let work = async move {
        let message = UserMessage::new(plan.message).with_values(plan.values);
        let handled = match orchestrator.enter(&session).await {
            Ok(entered) => Box::pin(entered.handle(message, desk)).await,
            Err(error) => Err(error),
        };
        of_session(handled)
    };
    Prepared { desk: kept, cancel, hold, work: Box::pin(work), after: Box::new(|_| ()), board }
}

pub(super) fn of_session(handled: Result<Handled, OrchestratorError>) -> Ended {
    match handled {
        Ok(Handled { exit, text, usage, pending, error, .. }) => {
            let text = text.unwrap_or_default();
            Ended::Agent(Box::new(AgentEnd { exit, text, usage, pending, error, added: Vec::new() }))
        }
        Err(error) => {
            log::error!("a message of a session could not be handled: {error}");
            Ended::Failed { code: error.code(), message: error.to_string() }
        }
    }
}

fn keep(project: &Project, agent: &str, thread: &str, exchanges: &[Exchange]) {
    if let Err(error) = project.extend_thread(agent, thread, exchanges) {
        log::error!("the thread {thread} of {agent} could not be kept: {error}");
    }
}

/// Names of threads are names: short, and nothing that means something elsewhere.
fn check_thread(thread: &str) -> Result<(), Problem> {
    let is_fine = |c: char| c.is_alphanumeric() || matches!(c, '_' | '-' | '.' | ':' | '@');
    if !thread.is_empty() && thread.len() <= 128 && thread.chars().all(is_fine) && !thread.starts_with('.') {
        return Ok(());
    }
    Err(Problem::bad_request("bad_thread", "this is no name of a conversation")
        .with_help("up to 128 letters, digits, `_`, `-`, `.`, `:` and `@`"))
}

/// Begins a run of a workflow.
pub(crate) async fn begin_workflow(
    app: &Arc<App>,
    id: String,
    inputs: Map<String, Value>,
    values: Map<String, Value>,
    approval: ApprovalMode,
) -> Result<Begun, Problem> {
    let admission = admit(app)?;
    let owner = Arc::clone(app);
    let prepared = app
        .with_project(move |project| {
            let project = project.for_one_run()?;
            let (_, workflow) = project.workflows().get(&id)?;
            let plan = project.plan(&id, &workflow)?;
            let inputs = typed(inputs, &workflow)?;
            let desk = project.begin_workflow(&id, &workflow, &inputs, &values)?;
            let work = WorkflowWork {
                id,
                plan,
                inputs,
                values,
                approval,
                desk,
                resume: None,
                cancel: CancellationToken::new(),
            };
            kept(&owner, work.prepared(&project))
        })
        .await?;
    Ok(launch(app, admission, prepared))
}

/// The inputs by the types of the workflow's interface.
fn typed(inputs: Map<String, Value>, workflow: &Workflow) -> Result<Map<String, Value>, Problem> {
    let schema = CompiledSchema::new(&parameters_of(workflow))
        .map_err(|error| Problem::new(StatusCode::UNPROCESSABLE_ENTITY, error.code(), error.to_string()))?;
    let typed = schema.type_json(Value::Object(inputs));
    let Some(first) = typed.problems.first() else { return Ok(typed.arguments) };
    let messages: Vec<&str> = typed.problems.iter().map(|problem| problem.message.as_str()).collect();
    let problems = serde_json::to_value(&typed.problems).unwrap_or_default();
    Err(Problem::new(StatusCode::UNPROCESSABLE_ENTITY, first.code.as_str(), messages.join("; "))
        .with("problems", problems))
}

/// The work of a workflow's run that begins or goes on.
pub(super) struct WorkflowWork {
    pub(super) id: String,
    pub(super) plan: Plan,
    pub(super) inputs: Map<String, Value>,
    pub(super) values: Map<String, Value>,
    pub(super) approval: ApprovalMode,
    pub(super) desk: RunSink,
    pub(super) resume: Option<ResumeLog>,
    pub(super) cancel: CancellationToken,
}

impl WorkflowWork {
    pub(super) fn prepared(self, project: &Project) -> Prepared {
        let Self { id, plan, inputs, values, approval, desk, resume, cancel } = self;
        // A store that cannot be used is told by the desk.
        let services = project.workflow_services(values, approval);
        let mut options = RunOptions::new()
            .with_services(services.unwrap_or_else(|_| project.services()))
            .with_clock(Arc::clone(project.clock()))
            .with_sink(desk.sink());
        options.workflow = Some(id);
        options.on_waiting = OnWaiting::End;
        options.cancel = Some(cancel.clone());
        options.resume = resume.map(Box::new);
        let work = async move {
            workflow_engine::run(&plan, inputs, options).outcome().await;
            Ended::Workflow
        };
        Prepared { desk, cancel, hold: None, work: Box::pin(work), after: Box::new(|_| ()), board: None }
    }
}
