//! Sessions as the people see them who answer in place of the agent.

use std::cmp::Reverse;
use std::sync::Arc;

use agent_types::Timestamp;
use executors_flow_system::{
    Author, Entry, MemorySessions, OrchestratorError, Phase, SessionState, SessionStore, StoredSessions,
};

use super::LocalRuns;
use super::sessions::orchestration;
use crate::error::RunsError;
use crate::request::{SessionInfo, SessionParty, SessionRequest, ThreadName};

pub(super) async fn read(runs: &LocalRuns, session: &str) -> Result<SessionInfo, RunsError> {
    let (agent, store) = stored(runs).await?;
    let kept = store.load(session).await.map_err(OrchestratorError::from)?;
    Ok(info(&agent, session, &kept.state, &kept.entries, runs.0.clock.now()))
}

pub(super) async fn list(runs: &LocalRuns) -> Result<Vec<SessionInfo>, RunsError> {
    let (agent, store) = stored(runs).await?;
    let now = runs.0.clock.now();
    let mut infos = Vec::new();
    for (session, state) in store.list().await.map_err(OrchestratorError::from)? {
        let entries = match state.phase() {
            // Only where a person answers does it count how long the user has waited.
            Phase::HandedOver { .. } => store.load(&session).await.map_err(OrchestratorError::from)?.entries,
            _ => Vec::new(),
        };
        infos.push(info(&agent, &session, &state, &entries, now));
    }
    infos.sort_by_key(|info| Reverse(info.waiting_ms));
    Ok(infos)
}

/// The agent of the sessions, and their store. Reading them needs no model.
async fn stored(runs: &LocalRuns) -> Result<(String, Arc<dyn SessionStore>), RunsError> {
    runs.with_project(|project| {
        let agent = project.flows_agent()?.to_owned();
        let store: Arc<dyn SessionStore> = match project.store()? {
            Some(store) => Arc::new(StoredSessions::new(store.clone(), agent.as_str())),
            None => MemorySessions::new(),
        };
        Ok((agent, store))
    })
    .await
}

pub(super) async fn act(runs: &LocalRuns, request: SessionRequest) -> Result<SessionInfo, RunsError> {
    let SessionRequest { session, person, action } = request;
    let (_, orchestrator) = orchestration(runs).await?;
    let kept = orchestrator.act(&session, &person, &action).await?;
    let agent = orchestrator.agent().profile().id.as_str();
    let info = info(agent, &session, &kept.state, &kept.entries, runs.0.clock.now());
    let kept = runs.with_project(move |project| {
        if let Some(store) = project.store()? {
            store.flush()?;
        }
        Ok(())
    });
    kept.await?;
    runs.0.threads.notify_readers(&ThreadName::new(agent, session));
    Ok(info)
}

fn info(agent: &str, session: &str, state: &SessionState, entries: &[Entry], now: Timestamp) -> SessionInfo {
    let mut info = SessionInfo {
        session: session.to_owned(),
        agent: agent.to_owned(),
        with: SessionParty::Agent,
        since: None,
        action: None,
        reason: None,
        person: None,
        waiting_ms: None,
        profile: state.profile().clone(),
    };
    match state.phase() {
        Phase::HandedOver { since, action, reason, person } => {
            info.with = SessionParty::Person;
            info.since = Some(since.to_string());
            info.action = Some(action.clone());
            info.reason.clone_from(reason);
            info.person.clone_from(person);
            let asked = if person.is_none() { Some(*since) } else { unanswered(entries, *since) };
            let waited = asked.map(|asked| now.as_millis() - asked.as_millis());
            info.waiting_ms = waited.map(|waited| u64::try_from(waited).unwrap_or(0));
        }
        Phase::Closed { since, action } => {
            info.with = SessionParty::Closed;
            info.since = Some(since.to_string());
            info.action = Some(action.clone());
        }
        _ => {}
    }
    info
}

/// Time of the first message of the user, since the handoff, that no person has answered.
fn unanswered(entries: &[Entry], since: Timestamp) -> Option<Timestamp> {
    let said = entries.iter().rev().filter_map(|entry| entry.said.as_ref());
    let newest = said.take_while(|said| said.author != Author::Person && said.at >= since);
    newest.filter(|said| said.author == Author::User).last().map(|said| said.at)
}
