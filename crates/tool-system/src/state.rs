//! Values that live longer than a call: what an agent keeps for itself, and what all agents of a project share.

use std::fmt;
use std::sync::Arc;

use agent_types::Problem;
use async_trait::async_trait;
use parking_lot::Mutex;
use serde_json::{Map, Value, json};
use tool_registry::{Dep, RegistryError, Tool, ToolError, ToolErrorKind, tool};
use tool_schema::{CompiledSchema, SchemaError};

/// An object that is read and changed, by several at once.
#[async_trait]
pub trait StateSource: Send + Sync + fmt::Debug {
    /// The whole object.
    ///
    /// # Errors
    /// It cannot be read.
    async fn read(&self) -> Result<Value, ToolError>;

    /// Changes it, wholly or not at all: members replace those of that name, null takes one away, objects are changed in the same way
    /// (JSON Merge Patch). Gives the new object.
    ///
    /// # Errors
    /// What came of it does not fit its schema, or cannot be kept.
    async fn update(&self, changes: Value) -> Result<Value, ToolError>;
}

/// Private state of an agent.
#[derive(Debug, Clone)]
pub struct PrivateState(pub Arc<dyn StateSource>);

/// State that all agents of a project share.
#[derive(Debug, Clone)]
pub struct World(pub Arc<dyn StateSource>);

/// An object in memory.
pub struct MemoryState {
    value: Mutex<Value>,
    schema: Option<CompiledSchema>,
}

impl fmt::Debug for MemoryState {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("MemoryState").finish_non_exhaustive()
    }
}

impl MemoryState {
    /// An object that begins with these values.
    #[must_use]
    pub fn new(initial: Map<String, Value>) -> Self {
        Self { value: Mutex::new(Value::Object(initial)), schema: None }
    }

    /// The same, whose values must fit a schema after each change.
    ///
    /// # Errors
    /// A schema that cannot be used.
    pub fn with_schema(mut self, schema: &Value) -> Result<Self, SchemaError> {
        self.schema = Some(CompiledSchema::new(schema)?);
        Ok(self)
    }
}

#[async_trait]
impl StateSource for MemoryState {
    async fn read(&self) -> Result<Value, ToolError> {
        Ok(self.value.lock().clone())
    }

    async fn update(&self, changes: Value) -> Result<Value, ToolError> {
        let mut value = self.value.lock();
        let next = merged_state(value.clone(), changes, self.schema.as_ref())?;
        value.clone_from(&next);
        Ok(next)
    }
}

/// A state with changes as [`StateSource::update`] makes them, for sources of one's own.
///
/// # Errors
/// What came of it does not fit the schema.
pub fn merged_state(
    mut state: Value,
    changes: Value,
    schema: Option<&CompiledSchema>,
) -> Result<Value, ToolError> {
    merge(&mut state, changes, 0);
    let Some(schema) = schema.filter(|schema| !schema.is_valid(&state)) else { return Ok(state) };
    let problems = schema.type_json(state).problems;
    let faults =
        if problems.is_empty() { "it does not fit its schema".into() } else { Problem::messages(&problems) };
    let message = format!("the state stays as it was: {faults}");
    Err(ToolError::new(ToolErrorKind::InvalidArguments, message))
}

/// Deepest object that is merged into; what lies deeper is replaced whole.
const MAX_DEPTH: usize = 64;

fn merge(into: &mut Value, changes: Value, depth: usize) {
    match (into, changes) {
        (Value::Object(into), Value::Object(changes)) if depth < MAX_DEPTH => {
            for (key, change) in changes {
                if change.is_null() {
                    into.shift_remove(&key);
                } else if change.is_object() {
                    merge(into.entry(key).or_insert_with(|| Map::new().into()), change, depth + 1);
                } else {
                    into.insert(key, change);
                }
            }
        }
        (into, changes) => *into = changes,
    }
}

/// The part that a plain key, a pointer or a path of dots names.
fn found<'v>(value: &'v Value, key: &str) -> Option<&'v Value> {
    if key.starts_with('/') {
        return value.pointer(key);
    }
    let step = |value: &'v Value, step: &str| match value {
        Value::Object(members) => members.get(step),
        Value::Array(items) => items.get(step.parse::<usize>().ok()?),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => None,
    };
    value.get(key).or_else(|| key.split('.').try_fold(value, step))
}

/// The whole, or the part that is named; the default where there is none.
fn part(value: Value, key: Option<&str>, default: Option<Value>) -> Result<Value, ToolError> {
    let Some(key) = key.filter(|key| !key.is_empty()) else { return Ok(value) };
    found(&value, key).cloned().or(default).ok_or_else(|| {
        let keys: Vec<&str> = value.as_object().into_iter().flatten().map(|(key, _)| key.as_str()).collect();
        let there = if keys.is_empty() { "nothing".to_owned() } else { keys.join(", ") };
        ToolError::new(
            ToolErrorKind::InvalidArguments,
            format!("nothing is kept at '{key}'; there is {there}"),
        )
    })
}

/// Reads your private state.
/// * `key` - one value, by its name, by a path such as `cart.0` or by a JSON pointer such as `/cart/0`; all of them when absent
/// * `default_value` - the value when nothing is kept there
#[tool(name = "system:read_state", read_only)]
async fn read_state(
    key: Option<String>,
    default_value: Option<Value>,
    state: Dep<PrivateState>,
) -> Result<Value, ToolError> {
    part(state.0.read().await?, key.as_deref(), default_value)
}

/// Reads a value of your private state.
/// * `path` - the path to the value, with dots (such as `cart.0`)
/// * `default_value` - the value when nothing is kept there
#[tool(name = "ReadPrivateStateTool", read_only)]
async fn read_private_value(
    path: String,
    default_value: Option<Value>,
    state: Dep<PrivateState>,
) -> Result<Value, ToolError> {
    part(state.0.read().await?, Some(&path), default_value)
}

/// Updates a value of your private state.
/// * `key` - the name of the value
/// * `value` - the new value; null takes it away
#[tool(name = "UpdatePrivateStateTool")]
async fn update_private_value(
    key: String,
    value: Value,
    state: Dep<PrivateState>,
) -> Result<Value, ToolError> {
    state.0.update(json!({key: value})).await
}

/// Changes your private state. Members replace those of the same name, null takes one away.
/// * `changes` - the new values by name
#[tool(name = "system:update_state")]
async fn update_state(changes: Map<String, Value>, state: Dep<PrivateState>) -> Result<Value, ToolError> {
    state.0.update(changes.into()).await
}

/// Reads the state that all agents share.
/// * `key` - one value, by its name, by a path such as `doors.north` or by a JSON pointer such as `/doors/north`; all of them when absent
/// * `default_value` - the value when nothing is kept there
#[tool(name = "system:read_world", read_only)]
async fn read_world(
    key: Option<String>,
    default_value: Option<Value>,
    world: Dep<World>,
) -> Result<Value, ToolError> {
    part(world.0.read().await?, key.as_deref(), default_value)
}

/// Reads a value of the state that all agents share.
/// * `path` - the path to the value, with dots (such as `environment.time.hour`)
/// * `default_value` - the value when nothing is kept there
#[tool(name = "ReadWorldStateTool", read_only)]
async fn read_world_value(
    path: String,
    default_value: Option<Value>,
    world: Dep<World>,
) -> Result<Value, ToolError> {
    part(world.0.read().await?, Some(&path), default_value)
}

/// Changes the state that all agents share. Members replace those of the same name, null takes one away.
/// * `changes` - the new values by name
#[tool(name = "system:update_world")]
async fn update_world(changes: Map<String, Value>, world: Dep<World>) -> Result<Value, ToolError> {
    world.0.update(changes.into()).await
}

/// Tools of what one agent keeps.
pub(super) fn private_tools() -> [Result<Tool, RegistryError>; 2] {
    tool_registry::tools![read_state, update_state]
}

/// The same under the names of the tool invocation protocol.
pub(super) fn named_private_tools() -> [Result<Tool, RegistryError>; 2] {
    tool_registry::tools![read_private_value, update_private_value]
}

/// Reader of the shared state under the name of the tool invocation protocol.
pub(super) fn named_world_tools() -> [Result<Tool, RegistryError>; 1] {
    tool_registry::tools![read_world_value]
}

/// Tools of what all agents share.
pub(super) fn world_tools() -> [Result<Tool, RegistryError>; 2] {
    tool_registry::tools![read_world, update_world]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn changes_are_merged_and_checked_as_a_whole() {
        let schema = json!({"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"]});
        let initial = json!({"n": 1, "a": {"x": 1, "y": 2}}).as_object().unwrap().clone();
        let state = MemoryState::new(initial).with_schema(&schema).unwrap();
        let changed = state.update(json!({"a": {"x": null, "z": [1]}, "b": {"c": null}})).await.unwrap();
        assert_eq!(changed, json!({"n": 1, "a": {"y": 2, "z": [1]}, "b": {}}));
        let error = state.update(json!({"n": "two", "b": null})).await.unwrap_err();
        assert!(error.message_for_model.starts_with("the state stays as it was: "), "{error}");
        assert_eq!(state.read().await.unwrap(), changed);
        assert!(state.update(json!({"n": null})).await.is_err());
    }

    #[test]
    fn parts_are_named_by_key_path_or_pointer() {
        let check = |key: Option<&str>, expected: Result<Value, &str>| {
            let state = json!({"a": {"b": [1]}, "x.y": 2});
            let got = part(state, key, None).map_err(|error| error.message_for_model);
            assert_eq!(got, expected.map_err(str::to_owned));
        };
        check(None, Ok(json!({"a": {"b": [1]}, "x.y": 2})));
        check(Some("a"), Ok(json!({"b": [1]})));
        check(Some("/a/b/0"), Ok(json!(1)));
        check(Some("a.b.0"), Ok(json!(1)));
        check(Some("x.y"), Ok(json!(2)));
        check(Some("c"), Err("nothing is kept at 'c'; there is a, x.y"));
        assert_eq!(part(json!({"a": null}), Some("a.b"), Some(json!("unknown"))), Ok(json!("unknown")));
        assert_eq!(part(json!({"a": null}), Some("a"), Some(json!(1))), Ok(json!(null)));
    }
}
