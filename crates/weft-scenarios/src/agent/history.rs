//! The agent and the conversation that a case begins with.

use std::sync::Arc;

use agent_runtime::{Agent, AgentProfile, CallRecord, Exchange, Turn as Said};
use agent_types::{CallId, Observation, ObservationCode};
use tool_registry::{Registry, Snapshot, TaskBoard};
use tool_system::BlobSource;

use super::case;
use super::session::Lasting;
use super::tools::Workshop;
use crate::Fault;

/// Exchanges of the thread before the first turn.
pub(super) fn history(said: &[case::Said]) -> Result<Vec<Exchange>, Fault> {
    let mut history: Vec<Exchange> = Vec::new();
    for said in said {
        if let Some(text) = &said.user {
            history.push(Exchange::user(text.clone()));
        } else if let Some(text) = &said.assistant {
            let mut turn = Said { text: text.clone(), ..Said::default() };
            turn.calls.extend(said.calls.iter().map(|call| CallRecord {
                id: CallId::new(call.id.as_str()),
                tool: call.tool.clone(),
                arguments: call.arguments.clone(),
                edited: None,
                attachments: Vec::new(),
                native: None,
                observation: None,
            }));
            history.push(Exchange::Turn(turn));
        } else {
            let of = said.of.as_deref().ok_or("a result needs `of`")?;
            let turns = history.iter_mut().rev().filter_map(|exchange| match exchange {
                Exchange::Turn(turn) => Some(turn),
                _ => None,
            });
            let call = turns.flat_map(|turn| &mut turn.calls).find(|call| call.id.as_str() == of);
            let call = call.ok_or_else(|| format!("the result names an unknown call `{of}`"))?;
            let (code, text) = if let Some(error) = &said.error {
                let code = ObservationCode::Failed;
                (code, code.text(&[("name", &call.tool), ("message", error)]))
            } else {
                let value = said.result.clone().unwrap_or_default();
                let result = value.as_str().map_or_else(|| value.to_string(), str::to_owned);
                let code = ObservationCode::Ok;
                (code, code.text(&[("name", &call.tool), ("result", &result)]))
            };
            call.observation =
                Some(Observation { call: Some(call.id.clone()), tool: call.tool.clone(), code, text });
        }
    }
    Ok(history)
}

/// The agent of a case in a process.
pub(super) fn agent_of(
    profile: &AgentProfile,
    workshop: &Workshop,
    registry: &Arc<Registry>,
    lasting: &Lasting,
    board: &Arc<TaskBoard>,
) -> Agent {
    let source: Arc<Registry> = Arc::clone(registry);
    let mut agent = Agent::from_profile(profile.clone(), Arc::clone(&workshop.model), Snapshot::default())
        .with_source(source)
        .with_clock(Arc::clone(&workshop.clock))
        .with::<dyn BlobSource>(Arc::clone(&lasting.blobs))
        .with(Arc::clone(board));
    if let Some(private) = &lasting.private {
        agent = agent.with(Arc::clone(private));
    }
    if let Some(shared) = &lasting.shared {
        agent = agent.with(Arc::clone(shared));
    }
    agent
}
