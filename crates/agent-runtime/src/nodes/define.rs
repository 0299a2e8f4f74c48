//! Short ways to say what a node is, and to read its settings.

use agent_types::EventBody;
use serde::de::DeserializeOwned;
use serde_json::{Map, Value};
use workflow_engine::{NodeContext, NodeError, SettingFault};
use workflow_model::{ConfigDefinition, DataFlowType, SlotDefinition};

pub(super) fn text(description: &str) -> SlotDefinition {
    SlotDefinition::new(DataFlowType::String, description)
}

pub(super) fn any(description: &str) -> SlotDefinition {
    SlotDefinition::new(DataFlowType::Wildcard, description)
}

pub(super) fn list(description: &str) -> SlotDefinition {
    SlotDefinition::new(DataFlowType::Array, description)
}

pub(super) fn object(description: &str) -> SlotDefinition {
    SlotDefinition::new(DataFlowType::Object, description)
}

pub(super) fn setting(kind: DataFlowType, description: &str) -> ConfigDefinition {
    ConfigDefinition::new(kind, description)
}

/// A setting read as what it is; none where it is absent or null.
pub(super) fn read<T: DeserializeOwned>(
    config: &Map<String, Value>,
    key: &str,
    faults: &mut Vec<SettingFault>,
) -> Option<T> {
    let value = config.get(key).filter(|value| !value.is_null())?;
    match serde_json::from_value(value.clone()) {
        Ok(value) => Some(value),
        Err(error) => {
            faults.push(SettingFault::new(key, error.to_string()));
            None
        }
    }
}

/// Result of `prepare`; it exists because a plan is prepared before it runs.
pub(super) fn made<T: 'static>(ctx: &NodeContext) -> Result<&T, NodeError> {
    ctx.prepared().ok_or_else(|| NodeError::fatal("the settings of the node were not prepared"))
}

/// Writes a warning to the log.
pub(super) fn warn(ctx: &NodeContext, message: impl Into<String>) {
    ctx.emit(EventBody::LogLine { level: "warn".to_owned(), message: message.into() });
}

/// A value as text: a text as it is, null as nothing, anything else as JSON.
pub(super) fn as_text(value: &Value) -> String {
    match value {
        Value::Null => String::new(),
        Value::String(text) => text.clone(),
        other => other.to_string(),
    }
}
