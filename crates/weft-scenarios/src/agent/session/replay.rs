//! Replays of the runs of a case.

use std::sync::Arc;

use agent_runtime::{AgentInput, AgentState};
use agent_types::{EventSink, Redactor, RunStatus};
use executors_flow_system::SessionStart;
use run_store::{RunPhase, Store};
use tool_registry::{Registry, TaskBoard};
use weft_runs::{ReplayDifference, RunReplay};

use super::super::history::agent_of;
use super::{Begun, Lasting, Session, front_of};
use crate::Fault;

impl Session {
    /// Replays a run of the case that has ended or waits. Gives the first difference.
    pub(crate) async fn replay(&self, begun: &Begun) -> Result<Option<ReplayDifference>, Fault> {
        let Begun { run, base, input, tools } = begun;
        let store = &self.lasting.store;
        let failed = |error: run_store::StoreError| error.to_string();
        if store.known(run).map_err(failed)?.state.phase == RunPhase::Running {
            return Ok(None);
        }
        let mut events = store.events(run, 0, usize::MAX).map_err(failed)?;
        store.put_values_back(&mut events).map_err(failed)?;
        let answered = |ask: run_store::AskRecord| Some((ask.summary.ask.to_string(), ask.answer?.0));
        let answers: Vec<_> = store.asks(run).map_err(failed)?.into_iter().filter_map(answered).collect();
        let start = SessionStart::from_events(&events);
        let replay = RunReplay::new(events, answers, Redactor::new(Vec::new()));
        let registry = Arc::new(Registry::new());
        for tool in tools.tools() {
            registry.register(tool.clone()).map_err(|error| error.to_string())?;
        }
        let board = Arc::new(TaskBoard::new());
        let agent = agent_of(&self.profile, &self.workshop, &registry, &self.lasting, &board);
        let (log, cancel) = (replay.log.clone(), replay.cancel());
        let sink = Arc::clone(&replay.sink) as Arc<dyn EventSink>;
        let exit = match (&self.flows, input) {
            (Some(flows), input) if !matches!(input, Some(AgentInput::Event { .. })) => {
                let store = Store::memory().map_err(failed)?;
                let lasting = Lasting { store, ..self.lasting.clone() };
                let front = front_of(flows, &agent, &self.workshop, &lasting);
                front.begin(base).await?;
                let start = start.ok_or("the start of the run has no session")?;
                front.put_state(&start.state).await?;
                let log = (log, base.len());
                match input {
                    Some(input) => Some(front.handle(&input.text(), sink, Some(log), cancel).await?.exit),
                    None => front.resume_timer(&start, sink, log, cancel).await?.map(|handled| handled.exit),
                }
            }
            (_, Some(input)) => {
                let base = AgentState::from_history(base.clone());
                let started = agent.with_cancel(cancel).start_in(base, input.clone(), sink, Some(log));
                Some(started.map_err(|error| error.to_string())?.outcome().await.0.exit)
            }
            (_, None) => None,
        };
        let status = exit.map_or(RunStatus::Ok, agent_runtime::exit_status);
        Ok(replay.difference(status, exit))
    }
}
