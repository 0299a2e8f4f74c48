//! Sessions as the people see them who answer in place of the agent.

use std::cmp::Reverse;

use agent_types::Timestamp;
use executors_flow_system::{Author, Entry, Orchestrator, Phase, SessionState};

use super::LocalRuns;
use super::sessions::orchestration;
use crate::error::RunsError;
use crate::request::{SessionInfo, SessionParty, SessionRequest};

pub(super) async fn read(runs: &LocalRuns, session: &str) -> Result<SessionInfo, RunsError> {
    let (_, orchestrator) = orchestration(runs).await?;
    let kept = orchestrator.session(session).await?;
    Ok(info(&orchestrator, session, &kept.state, &kept.entries, runs.0.clock.now()))
}

pub(super) async fn list(runs: &LocalRuns) -> Result<Vec<SessionInfo>, RunsError> {
    let (_, orchestrator) = orchestration(runs).await?;
    let now = runs.0.clock.now();
    let mut infos = Vec::new();
    for (session, state) in orchestrator.sessions().await? {
        let is_waiting = matches!(state.phase(), Phase::HandedOver { .. });
        // Only where a person answers does it count how long the user has waited.
        let entries = if is_waiting { orchestrator.session(&session).await?.entries } else { Vec::new() };
        infos.push(info(&orchestrator, &session, &state, &entries, now));
    }
    infos.sort_by_key(|info| Reverse(info.waiting_ms));
    Ok(infos)
}

pub(super) async fn act(runs: &LocalRuns, request: SessionRequest) -> Result<SessionInfo, RunsError> {
    let SessionRequest { session, person, action } = request;
    let (_, orchestrator) = orchestration(runs).await?;
    let kept = orchestrator.act(&session, &person, &action).await?;
    let info = info(&orchestrator, &session, &kept.state, &kept.entries, runs.0.clock.now());
    runs.with_project(move |project| {
        if let Some(store) = project.store()? {
            store.flush()?;
        }
        Ok(info)
    })
    .await
}

fn info(
    orchestrator: &Orchestrator,
    session: &str,
    state: &SessionState,
    entries: &[Entry],
    now: Timestamp,
) -> SessionInfo {
    let mut info = SessionInfo {
        session: session.to_owned(),
        agent: orchestrator.agent().profile().id.clone(),
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
