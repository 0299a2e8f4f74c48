//! State of agents that outlives their runs: private state, and shared state.

use std::sync::Arc;

use agent_runtime::AgentProfile;
use async_trait::async_trait;
use run_store::{Store, StoreError, UnblockedStore};
use serde_json::{Map, Value};
use tool_registry::ToolError;
use tool_schema::CompiledSchema;
use tool_system::{PrivateState, StateSource, World, merged_state};

/// Key of what all agents of a project share.
const WORLD: &str = "world";

/// An object in the store. Two processes that change it at once lose nothing.
#[derive(Debug)]
struct StoredState {
    store: Store,
    key: String,
    /// Value before the first change.
    initial: Value,
    schema: Option<Arc<CompiledSchema>>,
}

/// A fault of the store, for the agent whose tool needs it.
pub(crate) fn failed(error: &StoreError) -> ToolError {
    ToolError::failed(error.to_string())
}

#[async_trait]
impl StateSource for StoredState {
    async fn read(&self) -> Result<Value, ToolError> {
        let kept =
            UnblockedStore::from(&self.store).value(&self.key).await.map_err(|error| failed(&error))?;
        Ok(kept.unwrap_or_else(|| self.initial.clone()))
    }

    async fn update(&self, changes: Value) -> Result<Value, ToolError> {
        let (initial, schema) = (self.initial.clone(), self.schema.clone());
        let change =
            move |old: Option<Value>| merged_state(old.unwrap_or(initial), changes, schema.as_deref());
        UnblockedStore::from(&self.store).update(&self.key, change).await.map_err(|error| failed(&error))?
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
