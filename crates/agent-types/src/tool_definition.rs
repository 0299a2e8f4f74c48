//! Definition of a tool: its name, its description, the schema of its arguments.

use std::borrow::Cow;
use std::collections::BTreeMap;

use schemars::{JsonSchema, generate::SchemaSettings};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};

use crate::call::{Annotations, ApprovalDefault};
use crate::id::ToolId;

/// Descriptions of a tool and of its parameters in one language.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ToolWords {
    /// Description of the tool.
    pub description: String,
    /// Descriptions of parameters, by name.
    pub parameters: BTreeMap<String, String>,
}

/// Digests of the parts of what a tool does, by their names; empty where its code alone defines it.
pub type DefinitionDigests = BTreeMap<String, String>;

/// Definition of a tool: its name, description and parameters.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct ToolDefinition {
    /// Canonical id.
    pub id: ToolId,
    /// Display name.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub title: Option<String>,
    /// Description for the model.
    pub description: String,
    /// JSON Schema (2020-12) of the arguments, an object.
    pub parameters: Value,
    /// JSON Schema of the result, where it is known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub output: Option<Value>,
    /// Declared behaviour of the tool.
    #[serde(default)]
    pub annotations: Annotations,
    /// Default for human approval; when absent, the kind of tool decides.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub approval: Option<ApprovalDefault>,
    /// Values of parameters that are absent, by name: shown in the catalogue and applied before the call.
    #[serde(default, skip_serializing_if = "Map::is_empty")]
    pub defaults: Map<String, Value>,
    /// Descriptions in other languages, by their code: shown to models that are taught in them.
    #[serde(skip)]
    pub translations: BTreeMap<String, ToolWords>,
}

impl ToolDefinition {
    /// A tool with the schema of its arguments.
    #[must_use]
    pub fn new(id: ToolId, description: impl Into<String>, parameters: Value) -> Self {
        Self {
            id,
            title: None,
            description: description.into(),
            parameters,
            output: None,
            annotations: Annotations::default(),
            approval: None,
            defaults: Map::new(),
            translations: BTreeMap::new(),
        }
    }

    /// A tool whose arguments are the Rust type `T`: doc comments become descriptions, `Option` becomes optional.
    #[must_use]
    pub fn of_type<T: JsonSchema>(id: ToolId, description: impl Into<String>) -> Self {
        let mut generator = SchemaSettings::draft2020_12().with(|s| s.meta_schema = None).into_generator();
        let mut schema = generator.root_schema_for::<T>().to_value();
        if let Some(object) = schema.as_object_mut() {
            object.remove("title");
            object.remove("description");
        }
        if schema.get("type").is_none_or(Value::is_null) {
            schema = json!({"type": "object", "properties": {}});
        }
        Self::new(id, description, schema)
    }

    /// The same with annotations.
    #[must_use]
    pub fn with_annotations(mut self, annotations: Annotations) -> Self {
        self.annotations = annotations;
        self
    }

    /// The same with descriptions in another language: of the tool, and of parameters by name.
    #[must_use]
    pub fn translated(mut self, code: &str, description: &str, parameters: &[(&str, &str)]) -> Self {
        let parameters = parameters.iter().map(|(name, text)| ((*name).to_owned(), (*text).to_owned()));
        let words = ToolWords { description: description.to_owned(), parameters: parameters.collect() };
        self.translations.insert(code.to_owned(), words);
        self
    }

    /// The definition with its descriptions in a language, where it has them in it.
    #[must_use]
    pub fn in_language(&self, code: &str) -> Cow<'_, Self> {
        let Some(words) = self.translations.get(code) else { return Cow::Borrowed(self) };
        let mut definition = self.clone();
        definition.description.clone_from(&words.description);
        if let Some(Value::Object(properties)) = definition.parameters.get_mut("properties") {
            for (name, text) in &words.parameters {
                if let Some(Value::Object(property)) = properties.get_mut(name) {
                    property.insert("description".to_owned(), text.as_str().into());
                }
            }
        }
        Cow::Owned(definition)
    }

    /// The same with a display name.
    #[must_use]
    pub fn with_title(mut self, title: impl Into<String>) -> Self {
        self.title = Some(title.into());
        self
    }
}
