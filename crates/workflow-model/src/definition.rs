//! Definitions of node types: inputs, outputs, settings and behaviour.

use std::sync::Arc;

use indexmap::IndexMap;
use serde::Serialize;
use serde_json::{Map, Value};

use crate::slot::{DataFlowType, Slot};
use crate::workflow::Workflow;

/// An input or output slot of a type of node.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
#[expect(clippy::struct_excessive_bools, reason = "each is a promise or property of its own")]
pub struct SlotDefinition {
    /// Data type of the slot.
    pub data_flow_type: DataFlowType,
    /// Name for the user in another language than that of the files.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub display_name: Option<String>,
    /// Description for the user.
    pub description: String,
    /// For an input: a value must come from an edge, from the file or from the default.
    pub required: bool,
    /// For an input: the node makes sense without a value, so that it runs although every edge to the slot comes from a
    /// branch that was not taken. A default has the same effect.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub optional: bool,
    /// For an input: the default.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub default: Option<Value>,
    /// For an input: several edges may lead here; the node gets the list of their values.
    pub multi: bool,
    /// Set if the slot carries a stream of chunks.
    pub is_stream: bool,
    /// For an input: its source runs only when the node asks for the value.
    pub lazy: bool,
    /// Tags such as `ChatMessage` or `BehaviorWildcard`.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub match_categories: Vec<String>,
}

impl SlotDefinition {
    /// An optional slot for single values.
    #[must_use]
    pub fn new(data_flow_type: DataFlowType, description: impl Into<String>) -> Self {
        Self {
            data_flow_type,
            display_name: None,
            description: description.into(),
            required: false,
            optional: false,
            default: None,
            multi: false,
            is_stream: false,
            lazy: false,
            match_categories: Vec::new(),
        }
    }

    /// The same slot, which must be given a value.
    #[must_use]
    pub fn required(mut self) -> Self {
        self.required = true;
        self
    }

    /// The same slot, without which the node makes sense.
    #[must_use]
    pub fn optional(mut self) -> Self {
        self.optional = true;
        self
    }

    /// The same slot with a default.
    #[must_use]
    pub fn with_default(mut self, value: impl Into<Value>) -> Self {
        self.default = Some(value.into());
        self
    }

    /// The same slot for several edges.
    #[must_use]
    pub fn multi(mut self) -> Self {
        self.multi = true;
        self
    }

    /// The same slot as a stream.
    #[must_use]
    pub fn stream(mut self) -> Self {
        self.is_stream = true;
        self
    }

    /// The same slot, whose source runs only when asked for.
    #[must_use]
    pub fn lazy(mut self) -> Self {
        self.lazy = true;
        self
    }

    /// The same slot with a tag.
    #[must_use]
    pub fn with_category(mut self, category: impl Into<String>) -> Self {
        self.match_categories.push(category.into());
        self
    }
}

impl From<&Slot> for SlotDefinition {
    fn from(slot: &Slot) -> Self {
        Self {
            data_flow_type: slot.data_flow_type,
            display_name: None,
            description: slot.description().unwrap_or_default().to_owned(),
            required: slot.is_required(),
            optional: slot.required == Some(false),
            default: slot.default_value().cloned(),
            multi: slot.multi,
            is_stream: slot.is_stream,
            lazy: false,
            match_categories: slot.match_categories.clone(),
        }
    }
}

/// One key of `configValues`.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct ConfigDefinition {
    /// Data type of the setting.
    pub data_flow_type: DataFlowType,
    /// Name for the user in another language than that of the files.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub display_name: Option<String>,
    /// Description for the user.
    pub description: String,
    /// Set if the setting is required.
    pub required: bool,
    /// The value that counts when the file has none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub default: Option<Value>,
    /// The only legal values, where there are few.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub allowed: Vec<Value>,
}

impl ConfigDefinition {
    /// An optional key.
    #[must_use]
    pub fn new(data_flow_type: DataFlowType, description: impl Into<String>) -> Self {
        Self {
            data_flow_type,
            display_name: None,
            description: description.into(),
            required: false,
            default: None,
            allowed: Vec::new(),
        }
    }

    /// Marks the key as required.
    #[must_use]
    pub fn required(mut self) -> Self {
        self.required = true;
        self
    }

    /// The same key with a value for when the file has none.
    #[must_use]
    pub fn with_default(mut self, value: impl Into<Value>) -> Self {
        self.default = Some(value.into());
        self
    }

    /// The same key with its only legal values.
    #[must_use]
    pub fn one_of<V: Into<Value>>(mut self, values: impl IntoIterator<Item = V>) -> Self {
        self.allowed = values.into_iter().map(Into::into).collect();
        self
    }
}

/// Slots beyond the declared ones.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Default)]
#[serde(rename_all = "camelCase")]
pub enum DynamicSlots {
    /// There are none: any other name is a problem.
    #[default]
    None,
    /// Any name is a slot of type WILDCARD.
    Any,
    /// Any name that stands in the text of this configuration key is one.
    NamedIn(&'static str),
    /// As [`NamedIn`](Self::NamedIn), and the slots are streams.
    StreamsNamedIn(&'static str),
    /// The keys of this configuration object are slots, or the texts of this list.
    KeysOf(&'static str),
}

/// Outputs of a bypassed node.
#[derive(Debug, Clone, PartialEq, Serialize, Default)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub enum BypassBehavior {
    /// Each output gives the input of its own name if the type fits, else the first input of a fitting type.
    #[default]
    ByType,
    /// The node is skipped.
    Mute,
    /// Outputs from inputs, and values for the other outputs.
    #[non_exhaustive]
    Map {
        /// Output → input.
        pass_through: IndexMap<String, String>,
        /// Output → value.
        defaults: IndexMap<String, Value>,
    },
}

impl BypassBehavior {
    /// Hands these inputs to these outputs.
    #[must_use]
    pub fn map<I, O>(outputs_from_inputs: impl IntoIterator<Item = (O, I)>) -> Self
    where
        I: Into<String>,
        O: Into<String>,
    {
        let pairs = outputs_from_inputs.into_iter();
        Self::Map {
            pass_through: pairs.map(|(output, input)| (output.into(), input.into())).collect(),
            defaults: IndexMap::new(),
        }
    }
}

/// Inputs and outputs of one mode of a node.
#[derive(Debug, Clone, PartialEq, Serialize, Default)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct ModeDefinition {
    /// Display name.
    pub display_name: String,
    /// Input slots in this mode.
    pub inputs: IndexMap<String, SlotDefinition>,
    /// Output slots in this mode.
    pub outputs: IndexMap<String, SlotDefinition>,
}

impl ModeDefinition {
    /// A mode without slots.
    #[must_use]
    pub fn new(display_name: impl Into<String>) -> Self {
        Self { display_name: display_name.into(), ..Self::default() }
    }

    /// The same mode with one more input.
    #[must_use]
    pub fn input(mut self, name: impl Into<String>, slot: SlotDefinition) -> Self {
        self.inputs.insert(name.into(), slot);
        self
    }

    /// The same mode with one more output.
    #[must_use]
    pub fn output(mut self, name: impl Into<String>, slot: SlotDefinition) -> Self {
        self.outputs.insert(name.into(), slot);
        self
    }
}

/// Several ways in which one type of node works, chosen by a configuration key.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct Modes {
    /// The configuration key that chooses.
    pub config_key: String,
    /// The mode where the key is absent.
    pub default: String,
    /// The modes by name.
    pub modes: IndexMap<String, ModeDefinition>,
}

impl Modes {
    /// Modes that this configuration key chooses from.
    #[must_use]
    pub fn new(config_key: impl Into<String>, default: impl Into<String>) -> Self {
        Self { config_key: config_key.into(), default: default.into(), modes: IndexMap::new() }
    }

    /// One more mode.
    #[must_use]
    pub fn mode(mut self, name: impl Into<String>, mode: ModeDefinition) -> Self {
        self.modes.insert(name.into(), mode);
        self
    }

    /// The name of the mode that these settings choose.
    #[must_use]
    pub fn chosen<'a>(&'a self, config: &'a Map<String, Value>) -> &'a str {
        config.get(&self.config_key).and_then(Value::as_str).unwrap_or(&self.default)
    }
}

/// A type of node: its slots, settings and promises.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
#[expect(clippy::struct_excessive_bools, reason = "each is a promise or property of its own")]
pub struct NodeDefinition {
    /// The full type, `namespace:Type`.
    #[serde(rename = "type")]
    pub node_type: String,
    /// Changes when equal inputs no longer give equal outputs; part of the cache key.
    pub version: String,
    /// Display name.
    pub display_name: String,
    /// Description of the node type.
    pub description: String,
    /// Input slots, the main one first.
    pub inputs: IndexMap<String, SlotDefinition>,
    /// Output slots, the main one first.
    pub outputs: IndexMap<String, SlotDefinition>,
    /// Input slots beyond the declared ones.
    pub dynamic_inputs: DynamicSlots,
    /// Output slots beyond the declared ones.
    pub dynamic_outputs: DynamicSlots,
    /// Settings by key.
    pub config: IndexMap<String, ConfigDefinition>,
    /// The ways it can work, where there are several; their slots come after the common ones.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub modes: Option<Modes>,
    /// Equal inputs always give equal outputs and nothing else happens.
    pub pure: bool,
    /// Each run gives exactly one of its outputs, so that what hangs on different ones never runs together.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub routes: bool,
    /// It changes something outside.
    pub effect: bool,
    /// It runs even where no result of the workflow needs it.
    pub always: bool,
    /// It holds a thread while it runs.
    pub blocking: bool,
    /// A second start after a crash does no harm.
    pub idempotent: bool,
    /// Outputs of the node while it is bypassed.
    pub bypass: BypassBehavior,
}

impl NodeDefinition {
    /// A type without slots or settings.
    #[must_use]
    pub fn new(node_type: impl Into<String>, description: impl Into<String>) -> Self {
        let node_type = node_type.into();
        Self {
            display_name: node_type.rsplit(':').next().unwrap_or_default().to_owned(),
            node_type,
            version: "1".to_owned(),
            description: description.into(),
            inputs: IndexMap::new(),
            outputs: IndexMap::new(),
            dynamic_inputs: DynamicSlots::None,
            dynamic_outputs: DynamicSlots::None,
            config: IndexMap::new(),
            modes: None,
            pure: false,
            routes: false,
            effect: false,
            always: false,
            blocking: false,
            idempotent: false,
            bypass: BypassBehavior::default(),
        }
    }

    /// The same type with one more input.
    #[must_use]
    pub fn input(mut self, name: impl Into<String>, slot: SlotDefinition) -> Self {
        self.inputs.insert(name.into(), slot);
        self
    }

    /// The same type with one more output.
    #[must_use]
    pub fn output(mut self, name: impl Into<String>, slot: SlotDefinition) -> Self {
        self.outputs.insert(name.into(), slot);
        self
    }

    /// The same type with one more setting.
    #[must_use]
    pub fn config(mut self, key: impl Into<String>, config: ConfigDefinition) -> Self {
        self.config.insert(key.into(), config);
        self
    }

    /// The same type, pure.
    #[must_use]
    pub fn pure(mut self) -> Self {
        self.pure = true;
        self
    }

    /// The same type, each run of which gives exactly one of its outputs.
    #[must_use]
    pub fn routes(mut self) -> Self {
        self.routes = true;
        self
    }

    /// The same type, with an effect outside.
    #[must_use]
    pub fn effect(mut self) -> Self {
        self.effect = true;
        self
    }

    /// The same type, which runs even where no result needs it.
    #[must_use]
    pub fn always(mut self) -> Self {
        self.always = true;
        self
    }

    /// The same type, which does no harm when it is started a second time after a crash: it passes the idempotency
    /// key on, or looks at what it did before.
    #[must_use]
    pub fn idempotent(mut self) -> Self {
        self.idempotent = true;
        self
    }

    /// The same type, which holds a thread.
    #[must_use]
    pub fn blocking(mut self) -> Self {
        self.blocking = true;
        self
    }

    /// The same type with inputs beyond the declared ones.
    #[must_use]
    pub fn dynamic_inputs(mut self, slots: DynamicSlots) -> Self {
        self.dynamic_inputs = slots;
        self
    }

    /// The same type with outputs beyond the declared ones.
    #[must_use]
    pub fn dynamic_outputs(mut self, slots: DynamicSlots) -> Self {
        self.dynamic_outputs = slots;
        self
    }

    /// The same type with several ways to work.
    #[must_use]
    pub fn modes(mut self, modes: Modes) -> Self {
        self.modes = Some(modes);
        self
    }

    /// The same type with its own way of being switched off.
    #[must_use]
    pub fn bypass(mut self, bypass: BypassBehavior) -> Self {
        self.bypass = bypass;
        self
    }
}

/// Source of node types for the check.
pub trait Definitions {
    /// The type of that full name.
    fn definition(&self, node_type: &str) -> Option<&NodeDefinition>;

    /// Returns all full names, for suggestions in messages.
    fn type_names(&self) -> Vec<&str>;
}

/// Source of the workflows that node groups embed.
pub trait WorkflowSource {
    /// The workflow of that id.
    fn workflow(&self, id: &str) -> Option<Arc<Workflow>>;

    /// Returns all ids, for suggestions in messages.
    fn workflow_ids(&self) -> Vec<String>;
}

/// No other workflows.
#[derive(Debug, Clone, Copy, Default)]
pub struct NoWorkflows;

impl WorkflowSource for NoWorkflows {
    fn workflow(&self, _id: &str) -> Option<Arc<Workflow>> {
        None
    }

    fn workflow_ids(&self) -> Vec<String> {
        Vec::new()
    }
}
