//! Flows and system actions in front of a case's agent.

use std::sync::Arc;

use agent_runtime::{Agent, Exchange};
use agent_types::{Clock, EventSink, ResumeLog};
use executors_flow_system::{
    Entry, Flows, FlowsBuilder, FlowsFile, Handled, NoTool, Orchestrator, Phase, Resume, SeatAction,
    SessionStart, SessionState, SessionStore, StoredSessions, ToolLookup, TurnContext, UserMessage,
};
use run_store::Store;
use serde_json::Value;
use tokio_util::sync::CancellationToken;
use tool_registry::{Snapshot, Tool};

use super::tools::Workshop;
use crate::Fault;

/// The one session of a case.
const SESSION: &str = "case";

/// Finds tools of the case, and those that come with weft.
struct Lookup<'w> {
    workshop: &'w Workshop,
    own: &'w Snapshot,
}

impl ToolLookup for Lookup<'_> {
    fn lookup(&self, id: &str) -> Result<Tool, NoTool> {
        if let Some(tool) = self.own.get(id) {
            return Ok(tool.clone());
        }
        let known = self.workshop.known(id).map_err(|fault| NoTool::new(fault, None))?;
        known.ok_or_else(|| NoTool::new(format!("unknown tool `{id}`"), None))
    }
}

/// The flows of a case, checked.
pub(crate) fn flows(value: &Value, workshop: &Workshop, own: &Snapshot) -> Result<Flows, Fault> {
    let file = FlowsFile::from_json(&value.to_string()).map_err(|error| format!("flows: {error}"))?;
    let lookup = Lookup { workshop, own };
    let built = FlowsBuilder::new(&file).tools(&lookup).caller(workshop.caller.clone()).build();
    built.map_err(|error| format!("flows: {error}"))
}

/// Flows, actions and timers in front of the agent.
pub(crate) struct Front {
    orchestrator: Orchestrator,
    sessions: Arc<StoredSessions>,
}

impl Front {
    pub(crate) fn new(flows: Flows, agent: Agent, store: Store, clock: Arc<dyn Clock>) -> Self {
        let sessions = Arc::new(StoredSessions::new(store, agent.profile().id.clone()));
        let kept = Arc::clone(&sessions) as Arc<dyn SessionStore>;
        Self { orchestrator: Orchestrator::new(flows, agent, kept).with_clock(clock), sessions }
    }

    /// Handles a message, or resumes a run that stopped, whose log is given.
    pub(crate) async fn handle(
        &self,
        text: &str,
        sink: Arc<dyn EventSink>,
        log: Option<(ResumeLog, usize)>,
        cancel: CancellationToken,
    ) -> Result<Handled, Fault> {
        let resume = log.map(|(log, before)| Resume { log, before });
        let desk = TurnContext::new(sink).resuming(resume).with_cancel(cancel);
        let entered = self.orchestrator.enter(SESSION).await.map_err(|error| error.to_string())?;
        entered.handle(UserMessage::new(text), desk).await.map_err(|error| error.to_string())
    }

    /// Resumes the run of a timer.
    pub(crate) async fn resume_timer(
        &self,
        start: &SessionStart,
        sink: Arc<dyn EventSink>,
        (log, before): (ResumeLog, usize),
        cancel: CancellationToken,
    ) -> Result<Option<Handled>, Fault> {
        let context = TurnContext::new(sink).resuming(Some(Resume { log, before })).with_cancel(cancel);
        let entered = self.orchestrator.enter(SESSION).await.map_err(|error| error.to_string())?;
        let timer = start.timer.as_deref().unwrap_or_default();
        entered.resume_timer(timer, context).await.map_err(|error| error.to_string())
    }

    /// Puts a state in the place of that of a new session.
    pub(crate) async fn put_state(&self, state: &SessionState) -> Result<(), Fault> {
        let put = self.sessions.swap(SESSION, &SessionState::default(), state).await;
        put.map(drop).map_err(|error| error.to_string())
    }

    /// Lets the timers go off that are due.
    pub(crate) async fn fire(&self, sink: Arc<dyn EventSink>) -> Result<Option<Handled>, Fault> {
        let entered = self.orchestrator.enter(SESSION).await.map_err(|error| error.to_string())?;
        entered.fire(TurnContext::new(sink)).await.map_err(|error| error.to_string())
    }

    /// Returns `true` when a timer is due.
    pub(crate) async fn is_due(&self) -> Result<bool, Fault> {
        let entered = self.orchestrator.enter(SESSION).await.map_err(|error| error.to_string())?;
        Ok(entered.is_due())
    }

    pub(crate) async fn give_back(&self) -> Result<(), Fault> {
        let given = self.orchestrator.act(SESSION, "person", &SeatAction::GiveBack).await;
        given.map(drop).map_err(|error| error.to_string())
    }

    /// Puts what the thread holds before the first turn where the session is.
    pub(crate) async fn begin(&self, history: &[Exchange]) -> Result<(), Fault> {
        let entries: Vec<Entry> = history.iter().cloned().map(Entry::from).collect();
        self.sessions.append(SESSION, &entries).await.map_err(|error| error.to_string())
    }

    /// Exchanges so far.
    pub(crate) async fn history(&self) -> Result<Vec<Exchange>, Fault> {
        Ok(self.sessions.load(SESSION).await.map_err(|error| error.to_string())?.history())
    }

    /// Exit of a session that accepts no messages.
    pub(crate) async fn standing(&self) -> Result<Option<&'static str>, Fault> {
        let session = self.sessions.load(SESSION).await.map_err(|error| error.to_string())?;
        Ok(match session.state.phase() {
            Phase::HandedOver { .. } => Some("handed_off"),
            Phase::Closed { .. } => Some("closed"),
            _ => None,
        })
    }
}
