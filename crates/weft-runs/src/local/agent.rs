//! Work of agents and of messages of sessions.

use std::sync::Arc;

use agent_runtime::{Agent, AgentState, exit_status};
use agent_types::{Clock, EventSink, ResumeLog, RunId, RunStatus};
use executors_flow_system::{
    Entry, Handled, Orchestrator, OrchestratorError, Resume, TurnContext, UserMessage, entries_of_run,
};
use run_store::{NewRun, Store};
use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;
use tool_registry::{TaskBoard, TaskCall, TaskRuns, TaskState};
use weft_project::{Project, ProjectError};

use super::conversation::extend;
use super::launch::Prepared;
use super::threads::ThreadHold;
use super::{LocalRuns, Scripts};
use crate::error::RunsError;
use crate::outcome::RunOutcome;
use crate::plan::{AgentPlan, FlowCall};
use crate::request::ThreadName;
use crate::sink::RunSink;

/// An agent's run that is opened and not executed yet.
#[derive(Debug)]
pub(super) struct OpenAgent {
    pub(super) sink: RunSink,
    /// Events that it has emitted so far.
    pub(super) log: Option<ResumeLog>,
    /// The conversation before it.
    pub(super) state: AgentState,
    pub(super) plan: AgentPlan,
    pub(super) thread: Option<String>,
}

impl OpenAgent {
    pub(super) fn turn_context(&self, cancel: &CancellationToken) -> TurnContext {
        let resume = self.log.clone().map(|log| Resume { log, before: self.plan.before });
        TurnContext::new(self.sink.sink()).resuming(resume).with_cancel(cancel.clone())
    }
}

impl LocalRuns {
    /// An agent of the project with tools that follow their files, whose tasks have runs of their own.
    pub(super) fn agent(&self, project: &Project, id: &str) -> Result<Agent, RunsError> {
        let mut agent = project.agent(id)?;
        // A script that each run has for itself has tools of its own, too.
        let is_alone = self.0.options.scripts == Scripts::OfRun && project.is_scripted();
        if !is_alone && let Some(tools) = self.0.files.live_tools(id) {
            agent = agent.with_source(project.providers().follow(tools));
        }
        Ok(match project.store().map_err(ProjectError::from)? {
            Some(store) => agent.with::<dyn TaskRuns>(Arc::new(StoredTasks {
                store: store.clone(),
                clock: Arc::clone(project.clock()),
            })),
            None => agent,
        })
    }

    /// The work of an agent's run.
    pub(super) fn agent_work(
        &self,
        project: Arc<Project>,
        agent: Agent,
        open: OpenAgent,
        hold: Option<ThreadHold>,
        cancel: CancellationToken,
    ) -> Result<Prepared, RunsError> {
        let OpenAgent { sink, log, state, plan, thread } = open;
        let before = state.history().len();
        let board = agent.tasks();
        let run = agent.with_cancel(cancel.clone()).start_in(state, plan.input(), sink.sink(), log)?;
        let (threads, name) =
            (self.0.threads.clone(), thread.map(|thread| ThreadName::new(plan.agent, thread)));
        let of = name.clone();
        let (clock, asked) = (Arc::clone(&self.0.clock), self.0.clock.now());
        let work = async move {
            let (outcome, state) = run.outcome().await;
            if let Some(name) = of.filter(|_| exit_status(outcome.exit) != RunStatus::Waiting) {
                threads.remember(&name, state);
            }
            Ok(RunOutcome::Agent(Box::new(outcome)))
        };
        let after = move |ended: &Result<RunOutcome, RunsError>| {
            // A run that waits belongs to its conversation when it has ended.
            if let (Ok(RunOutcome::Agent(outcome)), Some(name)) = (ended, name)
                && exit_status(outcome.exit) != RunStatus::Waiting
                && let added = outcome.history.get(before..).unwrap_or_default()
                && let entries = entries_of_run(added, &outcome.run, &name.agent, [asked, clock.now()])
                && let Err(error) = extend(&project, &name, &entries)
            {
                log::error!("the thread {} of {} could not be kept: {error}", name.thread, name.agent);
            }
        };
        Ok(Prepared { sink, cancel, hold, work: Box::pin(work), after: Box::new(after), board })
    }
}

/// The work of a message of a session.
pub(super) fn session_work(
    orchestrator: Orchestrator,
    open: OpenAgent,
    hold: Option<ThreadHold>,
    board: Arc<TaskBoard>,
    cancel: CancellationToken,
) -> Prepared {
    let mut context = open.turn_context(&cancel).with_tasks(Arc::clone(&board));
    let OpenAgent { sink, plan, thread, .. } = open;
    // A conversation that the client keeps is gone with the run.
    let (session, orchestrator) = if let Some(session) = thread {
        (session, orchestrator)
    } else {
        let session = sink.sink().run().to_string();
        context = context.unanswered();
        let entries = plan.history.iter().cloned().map(Entry::from).collect();
        (session.clone(), orchestrator.in_memory(session, entries))
    };
    let work = async move {
        let mut message = UserMessage::new(plan.message).with_values(plan.values);
        message.id = plan.message_id;
        let handled = match orchestrator.enter(&session).await {
            Ok(entered) => match plan.target {
                Some(FlowCall { id, kind, parameters }) => {
                    let message = message.with_parameters(parameters);
                    Box::pin(entered.run(kind, &id, message, context)).await
                }
                None => Box::pin(entered.handle(message, context)).await,
            },
            Err(error) => Err(error),
        };
        of_session(handled)
    };
    Prepared { sink, cancel, hold, work: Box::pin(work), after: Box::new(|_| ()), board: Some(board) }
}

pub(super) fn of_session(handled: Result<Handled, OrchestratorError>) -> Result<RunOutcome, RunsError> {
    let handled = handled.inspect_err(|error| log::error!("a session could not be handled: {error}"))?;
    Ok(RunOutcome::Session(Box::new(handled)))
}

/// Keeps the run of each task in the project's store.
#[derive(Debug)]
struct StoredTasks {
    store: Store,
    clock: Arc<dyn Clock>,
}

impl TaskRuns for StoredTasks {
    fn begin(&self, parent: &RunId, call: &TaskCall) -> Option<Arc<dyn EventSink>> {
        let tool = &call.tool;
        let workflow = (tool.namespace() == Some("workflow")).then(|| tool.name().to_owned());
        let (parent, plan) = (Some(parent.clone()), json!(call));
        let new = NewRun { workflow, parent, plan, ..NewRun::new(RunId::generate()) };
        let run = self.store.begin(new, Arc::clone(&self.clock)).ok()?;
        Some(run)
    }

    fn save(&self, run: &RunId, saved: &Value) {
        self.store.put(&saved_key(run), Some(saved));
    }

    fn end(&self, run: &RunId, state: TaskState, result: &Value) {
        self.store.put(&saved_key(run), None);
        self.store.put(&ended_key(run), Some(&json!({"state": state, "result": result})));
    }
}

/// Key of what the task of a run needs to resume.
pub(super) fn saved_key(run: &RunId) -> String {
    format!("tasks/{run}/saved")
}

/// Key of the outcome of the task of a run.
pub(super) fn ended_key(run: &RunId) -> String {
    format!("tasks/{run}/ended")
}
