//! State of agents that outlives their runs: private state, shared state, and events that wait for them.

use std::sync::Arc;

use agent_runtime::AgentProfile;
use agent_triggers::DeadLetter;
use agent_types::{Clock, RunId};
use async_trait::async_trait;
use run_store::{Store, StoreError};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};
use tokio::sync::Notify;
use tool_registry::{ToolError, ToolErrorKind};
use tool_schema::CompiledSchema;
use tool_system::{EventPublisher, PrivateState, StateSource, World, merged_state};

use crate::error::ProjectError;
use crate::project::Project;
use crate::triggers::add_dead_letter;

/// Key of what all agents of a project share.
const WORLD: &str = "world";

/// Events that wait for one agent at most; the oldest go first.
const MAX_WAITING: usize = 1_000;

/// An object in the store. Two processes that change it at once lose nothing.
#[derive(Debug)]
struct StoredState {
    store: Store,
    key: String,
    /// Value before the first change.
    initial: Value,
    schema: Option<Arc<CompiledSchema>>,
}

fn failed(error: &StoreError) -> ToolError {
    ToolError::failed(error.to_string())
}

#[async_trait]
impl StateSource for StoredState {
    async fn read(&self) -> Result<Value, ToolError> {
        let kept = self.store.value(&self.key).map_err(|error| failed(&error))?;
        Ok(kept.unwrap_or_else(|| self.initial.clone()))
    }

    async fn update(&self, changes: Value) -> Result<Value, ToolError> {
        let (initial, schema) = (self.initial.clone(), self.schema.clone());
        let change =
            move |old: Option<Value>| merged_state(old.unwrap_or(initial), changes, schema.as_deref());
        self.store.update(&self.key, change).map_err(|error| failed(&error))?
    }
}

/// State that all agents of the project share.
pub(crate) fn world(store: &Store) -> World {
    let initial = Value::Object(Map::new());
    World(Arc::new(StoredState { store: store.clone(), key: WORLD.into(), initial, schema: None }))
}

/// Private state of an agent. Errors in its profile are reported when the agent is made.
pub(crate) fn private(store: &Store, profile: &AgentProfile) -> PrivateState {
    let initial = Value::Object(profile.initial_private_state_values.clone().unwrap_or_default());
    let schema = profile.initial_private_state_schema.as_ref();
    let schema = schema.and_then(|schema| CompiledSchema::new(schema).ok());
    PrivateState(Arc::new(StoredState {
        store: store.clone(),
        key: format!("agents/{}/state", profile.id),
        initial,
        schema: schema.map(Arc::new),
    }))
}

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

fn waiting_key(agent: &str) -> String {
    format!("agents/{agent}/events")
}

fn waiting(kept: Option<Value>) -> Vec<PlannedEvent> {
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
                events.push(added);
                let surplus = events.len().saturating_sub(MAX_WAITING);
                let dropped: Vec<PlannedEvent> = events.drain(..surplus).collect();
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

impl Project {
    /// Events that were published and wait for an agent, oldest first.
    fn waiting_events(&self, agent: &str) -> Result<Vec<PlannedEvent>, ProjectError> {
        let Some(store) = self.store()? else { return Ok(Vec::new()) };
        Ok(waiting(store.value(&waiting_key(agent))?))
    }

    /// Takes the oldest event that waits for an agent, of this name where one is given. No two callers get the same.
    ///
    /// # Errors
    /// The store cannot be used.
    pub fn take_event(&self, agent: &str, name: Option<&str>) -> Result<Option<PlannedEvent>, ProjectError> {
        let Some(store) = self.store()? else { return Ok(None) };
        if self.waiting_events(agent)?.is_empty() {
            return Ok(None);
        }
        let name = name.map(str::to_owned);
        let (sender, receiver) = std::sync::mpsc::channel();
        let change = move |old| {
            let mut events = waiting(old);
            let found = events.iter().position(|event| name.as_ref().is_none_or(|name| *name == event.name));
            // Whoever asked waits for it below.
            let _ = sender.send(found.map(|index| events.remove(index)));
            Ok::<_, StoreError>(json!(events))
        };
        store.update(&waiting_key(agent), change)??;
        Ok(receiver.try_recv().ok().flatten())
    }

    /// Puts an event back that was taken and could not be seen to, before all others.
    ///
    /// # Errors
    /// The store cannot be used.
    pub fn put_event_back(&self, agent: &str, event: PlannedEvent) -> Result<(), ProjectError> {
        let Some(store) = self.store()? else { return Ok(()) };
        let change = move |old| {
            let mut events = waiting(old);
            events.insert(0, event);
            Ok::<_, StoreError>(json!(events))
        };
        store.update(&waiting_key(agent), change)??;
        Ok(())
    }
}
