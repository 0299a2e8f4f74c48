//! Services of the system tools, by default.

use std::sync::Arc;

use agent_types::Problem;
use serde_json::{Map, Value};
use tool_registry::{Services, TaskBoard};
use tool_system::{BlobSource, MemoryBlobs, MemoryState, PrivateState, StateSource, World};

use crate::error::AgentError;
use crate::profile::AgentProfile;

/// All of it in memory.
pub fn in_memory(profile: &AgentProfile) -> Result<Services, AgentError> {
    let private: Arc<dyn StateSource> = Arc::new(private_state(profile)?);
    let world: Arc<dyn StateSource> = Arc::new(MemoryState::new(Map::new()));
    Ok(Services::new()
        .with(Arc::new(PrivateState(private)))
        .with(Arc::new(World(world)))
        .with(Arc::new(TaskBoard::new()))
        .with::<dyn BlobSource>(Arc::new(MemoryBlobs::default())))
}

fn private_state(profile: &AgentProfile) -> Result<MemoryState, AgentError> {
    let wrong = |message: String| AgentError::State { message };
    let values = profile.initial_private_state_values.clone().unwrap_or_default();
    let Some(schema) = &profile.initial_private_state_schema else {
        return Ok(MemoryState::new(values));
    };
    let compiled = tool_schema::CompiledSchema::new(schema).map_err(|error| wrong(error.to_string()))?;
    if !compiled.is_valid(&Value::Object(values.clone())) {
        let problems = compiled.type_json(values.into()).problems;
        return Err(wrong(format!(
            "`initial_private_state_values` do not fit the schema: {}",
            Problem::messages(&problems)
        )));
    }
    MemoryState::new(values).with_schema(schema).map_err(|error| wrong(error.to_string()))
}
