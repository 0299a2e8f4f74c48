//! Sessions as the people see them who answer in place of the agent.

use std::cmp::Reverse;

use agent_types::Timestamp;
use executors_flow_system::{Author, Entry, Orchestrator, Phase, SessionState};

use super::LocalRuns;
use crate::error::RunsError;
use crate::request::{SessionInfo, SessionParty, SessionRequest};

impl LocalRuns {
    pub(super) async fn read_session(&self, session: &str) -> Result<SessionInfo, RunsError> {
        let (_, orchestrator) = self.orchestration().await?;
        let kept = orchestrator.session(session).await?;
        Ok(self.info(&orchestrator, session, &kept.state, &kept.entries))
    }

    pub(super) async fn read_sessions(&self) -> Result<Vec<SessionInfo>, RunsError> {
        let (_, orchestrator) = self.orchestration().await?;
        let mut infos = Vec::new();
        for (session, state) in orchestrator.sessions().await? {
            let is_waiting = matches!(state.phase(), Phase::HandedOver { .. });
            // Only where a person answers does it count how long the user has waited.
            let entries = if is_waiting { orchestrator.session(&session).await?.entries } else { Vec::new() };
            infos.push(self.info(&orchestrator, &session, &state, &entries));
        }
        infos.sort_by_key(|info| Reverse(info.waiting_ms));
        Ok(infos)
    }

    pub(super) async fn act_in_session(&self, request: SessionRequest) -> Result<SessionInfo, RunsError> {
        let SessionRequest { session, person, action } = request;
        let (_, orchestrator) = self.orchestration().await?;
        let kept = orchestrator.act(&session, &person, &action).await?;
        let info = self.info(&orchestrator, &session, &kept.state, &kept.entries);
        self.with_project(move |project| {
            if let Some(store) = project.store()? {
                store.flush()?;
            }
            Ok(info)
        })
        .await
    }

    fn info(
        &self,
        orchestrator: &Orchestrator,
        session: &str,
        state: &SessionState,
        entries: &[Entry],
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
                let waited = asked.map(|asked| self.0.clock.now().as_millis() - asked.as_millis());
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
}

/// Time of the first message of the user, since the handoff, that no person has answered.
fn unanswered(entries: &[Entry], since: Timestamp) -> Option<Timestamp> {
    let said = entries.iter().rev().filter_map(|entry| entry.said.as_ref());
    let newest = said.take_while(|said| said.author != Author::Person && said.at >= since);
    newest.filter(|said| said.author == Author::User).last().map(|said| said.at)
}
