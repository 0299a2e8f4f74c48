//! Typed slots of a workflow's interface.

use schemars::JsonSchema;
use serde::Serialize;
use serde_json::{Map, Number, Value};

use crate::file::field::Scalar;
use crate::file::object::{KeyOrder, ObjectReader, ObjectWriter};
use crate::file::report::Report;

/// Data type of a slot.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, JsonSchema)]
#[serde(rename_all = "SCREAMING_SNAKE_CASE")]
pub enum DataFlowType {
    /// Text.
    String,
    /// A whole number.
    Integer,
    /// A number.
    Float,
    /// True or false.
    Boolean,
    /// A JSON object.
    Object,
    /// A JSON list.
    Array,
    /// Bytes, as base64 text.
    Binary,
    /// Any value.
    Wildcard,
    /// Any value, which takes the type of what it is joined to.
    ConvertibleAny,
}

impl DataFlowType {
    /// All of them, in the order of the reference.
    pub const ALL: [Self; 9] = [
        Self::String,
        Self::Integer,
        Self::Float,
        Self::Boolean,
        Self::Object,
        Self::Array,
        Self::Binary,
        Self::Wildcard,
        Self::ConvertibleAny,
    ];

    /// The name in a file.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::String => "STRING",
            Self::Integer => "INTEGER",
            Self::Float => "FLOAT",
            Self::Boolean => "BOOLEAN",
            Self::Object => "OBJECT",
            Self::Array => "ARRAY",
            Self::Binary => "BINARY",
            Self::Wildcard => "WILDCARD",
            Self::ConvertibleAny => "CONVERTIBLE_ANY",
        }
    }

    /// The type of that name, letters exactly as in a file.
    #[must_use]
    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|kind| kind.as_str() == name)
    }

    /// JSON Schema type of the values, `None` if every type fits.
    #[must_use]
    pub const fn json_type(self) -> Option<&'static str> {
        match self {
            Self::String | Self::Binary => Some("string"),
            Self::Integer => Some("integer"),
            Self::Float => Some("number"),
            Self::Boolean => Some("boolean"),
            Self::Object => Some("object"),
            Self::Array => Some("array"),
            Self::Wildcard | Self::ConvertibleAny => None,
        }
    }

    /// Returns `true` if the slot accepts values of every type.
    #[must_use]
    pub const fn is_any(self) -> bool {
        matches!(self, Self::Wildcard | Self::ConvertibleAny)
    }
}

impl std::fmt::Display for DataFlowType {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.as_str())
    }
}

impl Scalar for DataFlowType {
    const EXPECTED: &'static str =
        "one of STRING, INTEGER, FLOAT, BOOLEAN, OBJECT, ARRAY, BINARY, WILDCARD, CONVERTIBLE_ANY";

    fn from_json(value: &Value) -> Option<Self> {
        Self::from_name(value.as_str()?)
    }

    fn to_json(&self) -> Value {
        Value::from(self.as_str())
    }
}

/// A value that a slot proposes.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct Suggestion {
    /// The value itself, with its own type.
    pub value: Value,
    /// Label displayed instead of the key.
    pub label: Option<String>,
}

/// One named input or output of a workflow.
///
/// The key in the interface map is the slot's name; a `key` inside the slot is kept, but not needed.
#[derive(Debug, Clone, PartialEq, JsonSchema)]
#[schemars(rename_all = "camelCase")]
#[non_exhaustive]
pub struct Slot {
    /// The name once more, as the reference writes it.
    pub key: Option<String>,
    /// Data type.
    pub data_flow_type: DataFlowType,
    /// Display name.
    pub display_name: Option<String>,
    pub(crate) description: Option<String>,
    pub(crate) custom_description: Option<String>,
    /// Set if a value is required; `false` by default.
    pub required: Option<bool>,
    /// `default`, `suggestions`, `min`, `max` and keys of editors.
    pub config: Map<String, Value>,
    /// Tags such as `ComboOption`, `Trigger` or `StreamChunk`; free texts are allowed.
    pub match_categories: Vec<String>,
    /// Set if the slot carries a stream of chunks.
    pub is_stream: bool,
    /// Set if several edges may end here.
    pub multi: bool,
    /// The least value; `config.min` counts where this is absent.
    #[schemars(with = "Option<f64>")]
    pub min: Option<Number>,
    /// The greatest value; `config.max` counts where this is absent.
    #[schemars(with = "Option<f64>")]
    pub max: Option<Number>,
    /// Keys that weft does not know, kept on saving.
    #[schemars(skip)]
    pub extra: Map<String, Value>,
    #[schemars(skip)]
    pub(crate) order: KeyOrder,
}

impl Slot {
    /// A slot of that type, optional, without a default.
    #[must_use]
    pub fn new(data_flow_type: DataFlowType) -> Self {
        Self {
            key: None,
            data_flow_type,
            display_name: None,
            description: None,
            custom_description: None,
            required: None,
            config: Map::new(),
            match_categories: Vec::new(),
            is_stream: false,
            multi: false,
            min: None,
            max: None,
            extra: Map::new(),
            order: KeyOrder::default(),
        }
    }

    /// The same slot with a description.
    #[must_use]
    pub fn with_description(mut self, text: impl Into<String>) -> Self {
        self.custom_description = Some(text.into());
        self
    }

    /// The same slot, which must be given a value.
    #[must_use]
    pub fn required(mut self) -> Self {
        self.required = Some(true);
        self
    }

    /// The same slot with a default.
    #[must_use]
    pub fn with_default(mut self, value: impl Into<Value>) -> Self {
        self.config.insert("default".to_owned(), value.into());
        self
    }

    /// The same slot as a stream.
    #[must_use]
    pub fn stream(mut self) -> Self {
        self.is_stream = true;
        self
    }

    /// Description of the slot: `customDescription`, else `description`. Blank texts do not count.
    #[must_use]
    pub fn description(&self) -> Option<&str> {
        [&self.custom_description, &self.description]
            .into_iter()
            .filter_map(|text| text.as_deref())
            .find(|text| !text.trim().is_empty())
    }

    /// Returns `true` if a value is required.
    #[must_use]
    pub fn is_required(&self) -> bool {
        self.required == Some(true)
    }

    /// The default, as the file states it. Null is the default of a slot of any type alone: a typed one takes no null.
    #[must_use]
    pub fn default_value(&self) -> Option<&Value> {
        self.config.get("default").filter(|value| !value.is_null() || self.data_flow_type.is_any())
    }

    /// The value of an input that nothing gives: its default; null for a trigger, which has no value; else none.
    #[must_use]
    pub fn absent_value(&self) -> Option<Value> {
        self.default_value().cloned().or_else(|| self.is_trigger().then_some(Value::Null))
    }

    /// The values the slot proposes, in file order. A bare value is its own suggestion.
    #[must_use]
    pub fn suggestions(&self) -> Vec<Suggestion> {
        suggestions_of(&self.config)
    }

    /// Returns `true` if only the suggested values are valid.
    #[must_use]
    pub fn is_combo(&self) -> bool {
        self.has_category("ComboOption")
    }

    /// Returns `true` if the slot is a trigger and carries no data.
    #[must_use]
    pub fn is_trigger(&self) -> bool {
        self.has_category("Trigger")
    }

    /// Returns `true` if the slot has this tag.
    #[must_use]
    pub fn has_category(&self, category: &str) -> bool {
        self.match_categories.iter().any(|own| own == category)
    }

    /// The least legal value.
    #[must_use]
    pub fn minimum(&self) -> Option<&Number> {
        self.min.as_ref().or_else(|| self.config.get("min")?.as_number())
    }

    /// The greatest legal value.
    #[must_use]
    pub fn maximum(&self) -> Option<&Number> {
        self.max.as_ref().or_else(|| self.config.get("max")?.as_number())
    }

    pub(crate) fn read(value: Value, report: &mut Report) -> Option<Self> {
        let mut from = ObjectReader::new(value, report)?;
        let key = from.optional("key");
        let kind: Option<DataFlowType> = from.required("dataFlowType", DataFlowType::EXPECTED);
        let mut slot = Self::new(kind.unwrap_or(DataFlowType::Wildcard));
        slot.key = key;
        slot.display_name = from.optional("displayName");
        slot.description = from.optional("description");
        slot.custom_description = from.optional("customDescription");
        slot.required = from.optional("required");
        slot.config = from.free_map("config");
        slot.match_categories = from.optional("matchCategories");
        slot.is_stream = from.optional("isStream");
        slot.multi = from.optional("multi");
        slot.min = from.optional("min");
        slot.max = from.optional("max");
        from.check::<Option<bool>>("allowDynamicType");
        from.check::<Option<bool>>("hideHandle");
        (slot.extra, slot.order) = from.finish();
        Some(slot)
    }

    pub(crate) fn write(&self) -> Value {
        let mut to = ObjectWriter::new(&self.order);
        to.put("key", &self.key);
        to.put("displayName", &self.display_name);
        to.put("dataFlowType", &Some(self.data_flow_type));
        to.put("description", &self.description);
        to.put("customDescription", &self.custom_description);
        to.put("required", &self.required);
        to.put_part("config", Value::Object(self.config.clone()), self.config.is_empty());
        to.put("matchCategories", &self.match_categories);
        to.put("isStream", &self.is_stream);
        to.put("multi", &self.multi);
        to.put("min", &self.min);
        to.put("max", &self.max);
        to.finish(&self.extra)
    }
}

/// `suggestions` of a slot's `config`: `{value, label}` objects or bare values.
pub(crate) fn suggestions_of(config: &Map<String, Value>) -> Vec<Suggestion> {
    let Some(items) = config.get("suggestions").and_then(Value::as_array) else { return Vec::new() };
    items
        .iter()
        .map(|item| match item.as_object().and_then(|map| Some((map, map.get("value")?))) {
            Some((map, value)) => Suggestion {
                value: value.clone(),
                label: map.get("label").and_then(Value::as_str).map(str::to_owned),
            },
            None => Suggestion { value: item.clone(), label: None },
        })
        .collect()
}
