//! Events between agents, and those that reached none.

use std::sync::Arc;
use std::time::Duration;

use agent_runtime::AgentProfile;
use agent_triggers::DeadLetter;
use agent_types::{Clock, RunId, Timestamp};
use async_trait::async_trait;
use run_store::{Store, StoreError};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use tokio::sync::Notify;
use tool_registry::{ToolError, ToolErrorKind};
use tool_system::EventPublisher;

use crate::state::failed;

/// Events that wait for one agent at most; the oldest go first.
const MAX_WAITING: usize = 1_000;

/// Key of the events that reached no agent.
pub(crate) const DEAD: &str = "events/dead";

/// Events that are kept there at most; the oldest go first.
const MAX_DEAD: usize = 200;

/// Longest chain of events, each published by a run that the one before started.
const MAX_CHAIN: u32 = 8;

/// Runs within runs that are followed to the event that started the outermost one.
const MAX_PARENTS: usize = 32;

/// An event that sets an agent to work.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct PlannedEvent {
    /// Its name.
    pub name: String,
    /// Payload of the event.
    #[serde(default)]
    pub payload: Value,
    /// Events before it in its chain.
    #[serde(default, skip_serializing_if = "is_first")]
    pub depth: u32,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde passes the field")]
const fn is_first(depth: &u32) -> bool {
    *depth == 0
}

impl PlannedEvent {
    /// An event from outside.
    #[must_use]
    pub fn new(name: impl Into<String>, payload: Value) -> Self {
        Self { name: name.into(), payload, depth: 0 }
    }
}

/// Time after which an event whose run has not begun is free again: the process that claimed it has ended.
const CLAIM: Duration = Duration::from_mins(1);

/// An event that waits for an agent.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct WaitingEvent {
    #[serde(flatten)]
    pub(crate) event: PlannedEvent,
    /// The run that is about to begin by it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    claim: Option<EventClaim>,
}

#[derive(Debug, Clone, Serialize, Deserialize)]
struct EventClaim {
    run: RunId,
    at: Timestamp,
}

impl WaitingEvent {
    pub(crate) fn is_free(&self, now: Timestamp) -> bool {
        self.claim.as_ref().is_none_or(|claim| claim.at.plus(CLAIM) <= now)
    }

    /// The run that claimed it, or was about to.
    pub(crate) fn run(&self) -> Option<&RunId> {
        self.claim.as_ref().map(|claim| &claim.run)
    }

    /// Claims it for a run.
    pub(crate) fn claim(&mut self, run: RunId, at: Timestamp) {
        self.claim = Some(EventClaim { run, at });
    }

    /// Gives it back.
    pub(crate) fn release(&mut self) {
        self.claim = None;
    }
}

/// Events of agents, kept for those that listen to them.
#[derive(Debug)]
pub(crate) struct StoredEvents {
    store: Store,
    listeners: Vec<AgentProfile>,
    clock: Arc<dyn Clock>,
    signal: Arc<Notify>,
}

impl StoredEvents {
    pub(crate) fn new(
        store: &Store,
        agents: impl Iterator<Item = AgentProfile>,
        clock: &Arc<dyn Clock>,
        signal: &Arc<Notify>,
    ) -> Self {
        let (clock, signal) = (Arc::clone(clock), Arc::clone(signal));
        Self { store: store.clone(), listeners: agents.collect(), clock, signal }
    }

    /// Depth of an event that a run publishes.
    fn depth(&self, from: &RunId) -> u32 {
        let mut run = Some(from.clone());
        for _ in 0..MAX_PARENTS {
            let Some(record) = run.and_then(|run| self.store.known(&run).ok()) else { return 0 };
            if let Some(event) = record.new.plan.get("event").filter(|event| event.is_object()) {
                let depth = event.get("depth").and_then(Value::as_u64).unwrap_or_default();
                return u32::try_from(depth).unwrap_or(u32::MAX).saturating_add(1);
            }
            run = record.new.parent;
        }
        0
    }

    fn bury(&self, event: &PlannedEvent, agent: Option<&str>, reason: String) -> Result<(), ToolError> {
        let letter = DeadLetter {
            at: self.clock.now(),
            event: event.name.clone(),
            payload: event.payload.clone(),
            agent: agent.map(str::to_owned),
            reason,
        };
        add_dead_letter(&self.store, letter).map_err(|error| failed(&error))
    }
}

/// Key of the events that wait for an agent.
pub(crate) fn waiting_key(agent: &str) -> String {
    format!("agents/{agent}/events")
}

/// The events that the store keeps under such a key.
pub(crate) fn waiting(kept: Option<Value>) -> Vec<WaitingEvent> {
    kept.and_then(|kept| serde_json::from_value(kept).ok()).unwrap_or_default()
}

#[async_trait]
impl EventPublisher for StoredEvents {
    async fn publish(&self, event: &str, payload: Value, from: &RunId) -> Result<(), ToolError> {
        let new = PlannedEvent { name: event.to_owned(), payload, depth: self.depth(from) };
        if new.depth >= MAX_CHAIN {
            let number = new.depth.saturating_add(1);
            let message = format!(
                "the event `{event}` would be number {number} of its chain, and the limit is {MAX_CHAIN}"
            );
            self.bury(&new, None, message.clone())?;
            return Err(ToolError::new(ToolErrorKind::Refused, message).with_code("event_chain_too_long"));
        }
        for agent in self.listeners.iter().filter(|agent| agent.listens_to(event, &new.payload)) {
            let (sender, receiver) = std::sync::mpsc::channel();
            let added = new.clone();
            let change = move |old| {
                let mut events = waiting(old);
                events.push(WaitingEvent { event: added, claim: None });
                let surplus = events.len().saturating_sub(MAX_WAITING);
                let unclaimed = events.extract_if(.., |event| event.claim.is_none()).take(surplus);
                let dropped: Vec<PlannedEvent> = unclaimed.map(|waiting| waiting.event).collect();
                // The caller waits for it below.
                let _ = sender.send(dropped);
                Ok::<_, ToolError>(json!(events))
            };
            self.store.update(&waiting_key(&agent.id), change).map_err(|error| failed(&error))??;
            for dropped in receiver.try_recv().unwrap_or_default() {
                let reason = format!("{MAX_WAITING} events wait for the agent, which is the limit");
                self.bury(&dropped, Some(&agent.id), reason)?;
            }
        }
        self.signal.notify_one();
        Ok(())
    }
}

/// The events that the store keeps under [`DEAD`].
pub(crate) fn letters(kept: Option<Value>) -> Vec<DeadLetter> {
    kept.and_then(|kept| serde_json::from_value(kept).ok()).unwrap_or_default()
}

/// Keeps an event that reached no agent.
pub(crate) fn add_dead_letter(store: &Store, letter: DeadLetter) -> Result<(), StoreError> {
    let change = move |old| {
        let mut all = letters(old);
        all.push(letter);
        let first = all.len().saturating_sub(MAX_DEAD);
        Ok::<_, StoreError>(json!(all[first..]))
    };
    store.update(DEAD, change)??;
    Ok(())
}
