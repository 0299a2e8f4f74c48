//! Short ways to say what a node is, and to read its settings.

use agent_types::EventBody;
use serde::de::DeserializeOwned;
use serde_json::{Map, Value};
use workflow_engine::{NodeContext, NodeError, Prepared, Problem};
use workflow_model::{ConfigDefinition, DataFlowType, SlotDefinition};

pub(crate) fn text(description: &str) -> SlotDefinition {
    SlotDefinition::new(DataFlowType::String, description)
}

pub(crate) fn any(description: &str) -> SlotDefinition {
    SlotDefinition::new(DataFlowType::Wildcard, description)
}

pub(crate) fn list(description: &str) -> SlotDefinition {
    SlotDefinition::new(DataFlowType::Array, description)
}

pub(crate) fn object(description: &str) -> SlotDefinition {
    SlotDefinition::new(DataFlowType::Object, description)
}

pub(crate) fn setting(kind: DataFlowType, description: &str) -> ConfigDefinition {
    ConfigDefinition::new(kind, description)
}

/// A setting read as what it is; none where it is absent or null.
pub(crate) fn read<T: DeserializeOwned>(
    config: &Map<String, Value>,
    key: &str,
    faults: &mut Vec<Problem>,
) -> Option<T> {
    let value = config.get(key).filter(|value| !value.is_null())?;
    match serde_json::from_value(value.clone()) {
        Ok(value) => Some(value),
        Err(error) => {
            faults.push(Problem::setting(key, error.to_string()));
            None
        }
    }
}

/// A required setting read as what it is.
pub(crate) fn required<T: DeserializeOwned>(
    config: &Map<String, Value>,
    key: &str,
    faults: &mut Vec<Problem>,
) -> Option<T> {
    if config.get(key).is_none_or(Value::is_null) {
        faults.push(Problem::setting(key, "this setting is required"));
    }
    read(config, key, faults)
}

/// Settings that were read, or their faults.
pub(crate) fn prepared<T: Send + Sync + 'static>(
    settings: Option<T>,
    faults: Vec<Problem>,
) -> Result<Prepared, Vec<Problem>> {
    match settings {
        Some(settings) if faults.is_empty() => Ok(Prepared::new(settings)),
        Some(_) | None => Err(faults),
    }
}

/// Result of `prepare`; it exists because a plan is prepared before it runs.
pub(crate) fn made<T: 'static>(ctx: &NodeContext) -> Result<&T, NodeError> {
    ctx.prepared().ok_or_else(|| NodeError::fatal("the settings of the node were not prepared"))
}

/// Writes a warning to the log.
pub(crate) fn warn(ctx: &NodeContext, message: impl Into<String>) {
    ctx.emit(EventBody::LogLine { level: "warn".to_owned(), message: message.into() });
}

/// A value as text: a text as it is, null as nothing, anything else as JSON.
pub(crate) fn as_text(value: &Value) -> String {
    match value {
        Value::Null => String::new(),
        Value::String(text) => text.clone(),
        other => other.to_string(),
    }
}
