//! Short ways to say what a node is.

use async_trait::async_trait;
use serde_json::{Map, Value};
use workflow_engine::{Inputs, Node, NodeContext, NodeError, Outputs, Prepared, Problem};
use workflow_model::{ConfigDefinition, DataFlowType, NodeDefinition, SlotDefinition};

/// Function that validates the settings of a node.
pub(crate) type Prepare = fn(&Map<String, Value>) -> Result<Prepared, Vec<Problem>>;
/// Computation of a node that never waits.
pub(crate) type Compute = fn(&NodeContext, &Inputs) -> Result<Outputs, NodeError>;

/// A node that never waits.
pub(crate) struct Computed {
    definition: NodeDefinition,
    prepare: Prepare,
    compute: Compute,
}

impl Computed {
    pub(crate) fn new(definition: NodeDefinition, compute: Compute) -> Self {
        Self { definition, prepare: |_| Ok(Prepared::none()), compute }
    }

    pub(crate) fn prepared(mut self, prepare: Prepare) -> Self {
        self.prepare = prepare;
        self
    }
}

#[async_trait]
impl Node for Computed {
    fn definition(&self) -> &NodeDefinition {
        &self.definition
    }

    fn prepare(&self, config: &Map<String, Value>) -> Result<Prepared, Vec<Problem>> {
        (self.prepare)(config)
    }

    fn compute(&self, ctx: &NodeContext, inputs: &Inputs) -> Option<Result<Outputs, NodeError>> {
        Some((self.compute)(ctx, inputs))
    }

    async fn run(&self, ctx: NodeContext, inputs: Inputs) -> Result<Outputs, NodeError> {
        (self.compute)(&ctx, &inputs)
    }
}

pub(crate) fn text(description: &str) -> SlotDefinition {
    SlotDefinition::new(DataFlowType::String, description)
}

pub(crate) fn any(description: &str) -> SlotDefinition {
    SlotDefinition::new(DataFlowType::Wildcard, description)
}

pub(crate) fn list(description: &str) -> SlotDefinition {
    SlotDefinition::new(DataFlowType::Array, description)
}

pub(crate) fn number(description: &str) -> SlotDefinition {
    SlotDefinition::new(DataFlowType::Float, description)
}

pub(crate) fn setting(kind: DataFlowType, description: &str) -> ConfigDefinition {
    ConfigDefinition::new(kind, description)
}

/// A text among the settings; a fault where something else stands there.
pub(crate) fn text_setting(config: &Map<String, Value>, key: &str) -> Result<Option<String>, Vec<Problem>> {
    match config.get(key) {
        None | Some(Value::Null) => Ok(None),
        Some(Value::String(text)) => Ok(Some(text.clone())),
        Some(other) => Err(vec![Problem::setting(key, format!("expected a text, found {other}"))]),
    }
}

/// A required text setting.
pub(crate) fn required_text(config: &Map<String, Value>, key: &str) -> Result<String, Vec<Problem>> {
    text_setting(config, key)?.ok_or_else(|| vec![Problem::setting(key, "this setting is required")])
}

/// Returns the value made by `prepare`, which runs when the plan is made.
pub(crate) fn made<T: 'static>(ctx: &NodeContext) -> Result<&T, NodeError> {
    ctx.prepared().ok_or_else(|| NodeError::fatal("the settings of the node were not prepared"))
}

/// A value as text: a text as it is, anything else as JSON.
pub(crate) fn as_text(value: &Value) -> String {
    value.as_str().map_or_else(|| value.to_string(), str::to_owned)
}
