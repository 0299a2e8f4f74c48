//! State of agents that outlives their runs: private state, shared state, and events that wait for them.

use std::sync::Arc;

use agent_runtime::AgentProfile;
use async_trait::async_trait;
use run_store::{Store, StoreError};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};
use tool_registry::ToolError;
use tool_schema::CompiledSchema;
use tool_system::{EventPublisher, PrivateState, StateSource, World, merged_state};

use crate::error::ProjectError;
use crate::project::Project;

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

/// An event that sets an agent to work.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct PlannedEvent {
    /// Its name.
    pub name: String,
    /// Payload of the event.
    #[serde(default)]
    pub payload: Value,
}

/// Events of agents, kept for those that listen to them.
#[derive(Debug)]
pub(crate) struct StoredEvents {
    store: Store,
    listeners: Vec<AgentProfile>,
}

impl StoredEvents {
    pub(crate) fn new(store: &Store, agents: impl Iterator<Item = AgentProfile>) -> Self {
        Self { store: store.clone(), listeners: agents.collect() }
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
    async fn publish(&self, event: &str, payload: Value) -> Result<(), ToolError> {
        for agent in self.listeners.iter().filter(|agent| agent.listens_to(event, &payload)) {
            let new = PlannedEvent { name: event.to_owned(), payload: payload.clone() };
            let change = move |old| {
                let mut events = waiting(old);
                events.push(new);
                let first = events.len().saturating_sub(MAX_WAITING);
                Ok::<_, ToolError>(json!(events[first..]))
            };
            self.store.update(&waiting_key(&agent.id), change).map_err(|error| failed(&error))??;
        }
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
}
