//! Parameters of a function: declared once, read at each call.

use agent_types::{ToolDefinition, ToolId};
use schemars::generate::SchemaSettings;
use schemars::{JsonSchema, SchemaGenerator};
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::{Map, Value, json};

use crate::output::{ToolError, ToolErrorKind};

/// A parameter that the model gives.
#[doc(hidden)]
#[derive(Debug)]
pub struct Parameter {
    name: &'static str,
    description: &'static str,
    required: bool,
    keywords: Map<String, Value>,
    default: Option<Value>,
}

impl Parameter {
    /// A parameter with what is said of it.
    #[must_use]
    pub fn new(name: &'static str, description: &'static str, required: bool) -> Self {
        Self { name, description, required, keywords: Map::new(), default: None }
    }

    /// A keyword of its schema beyond what its type says.
    #[must_use]
    pub fn keyword(mut self, key: &str, value: Value) -> Self {
        self.keywords.insert(key.to_owned(), value);
        self
    }

    /// Default of an optional parameter.
    #[must_use]
    pub fn default_value(mut self, value: Value) -> Self {
        self.default = Some(value);
        self
    }
}

/// The parameters of a function as a schema that grows.
#[doc(hidden)]
#[derive(Debug)]
pub struct Parameters {
    generator: SchemaGenerator,
    properties: Map<String, Value>,
    required: Vec<Value>,
    defaults: Map<String, Value>,
}

impl Default for Parameters {
    fn default() -> Self {
        Self::new()
    }
}

impl Parameters {
    /// None.
    #[must_use]
    pub fn new() -> Self {
        let generator = SchemaSettings::draft2020_12().with(|s| s.meta_schema = None).into_generator();
        Self { generator, properties: Map::new(), required: Vec::new(), defaults: Map::new() }
    }

    /// One more, of this type.
    pub fn add<T: JsonSchema>(&mut self, parameter: Parameter) {
        let mut schema = match self.generator.subschema_for::<T>().to_value() {
            Value::Object(schema) => schema,
            // `true`: any value.
            _ => Map::new(),
        };
        schema.extend(parameter.keywords);
        if !parameter.description.is_empty() {
            schema.insert("description".into(), parameter.description.into());
        }
        if parameter.required {
            self.required.push(parameter.name.into());
        }
        if let Some(default) = parameter.default {
            self.defaults.insert(parameter.name.into(), default);
        }
        self.properties.insert(parameter.name.into(), schema.into());
    }

    pub(super) fn definition(mut self, id: ToolId, description: &str) -> ToolDefinition {
        let mut schema =
            json!({"type": "object", "properties": self.properties, "additionalProperties": false});
        if !self.required.is_empty() {
            schema["required"] = self.required.into();
        }
        let definitions = self.generator.take_definitions(true);
        if !definitions.is_empty() {
            schema["$defs"] = definitions.into();
        }
        let mut definition = ToolDefinition::new(id, description, schema);
        definition.defaults = self.defaults;
        definition
    }
}

/// The arguments of one call.
#[doc(hidden)]
#[derive(Debug)]
pub struct Arguments(Map<String, Value>);

impl Arguments {
    pub(super) fn new(mut given: Map<String, Value>, defaults: &Map<String, Value>) -> Self {
        for (name, value) in defaults {
            if !given.contains_key(name) {
                given.insert(name.clone(), value.clone());
            }
        }
        Self(given)
    }

    /// The value of a parameter. One that was not given is null.
    ///
    /// # Errors
    /// It is not of this type.
    pub fn take<T: DeserializeOwned>(&mut self, name: &str) -> Result<T, ToolError> {
        serde_json::from_value(self.0.remove(name).unwrap_or_default()).map_err(|error| {
            ToolError::new(ToolErrorKind::InvalidArguments, format!("parameter '{name}': {error}"))
        })
    }
}

/// A constant of the source as a value; null if it cannot be represented as JSON.
#[doc(hidden)]
pub fn json<T: Serialize + ?Sized>(value: &T) -> Value {
    serde_json::to_value(value).unwrap_or_default()
}
