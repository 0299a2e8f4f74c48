//! The JSON Schema of a workflow file, for editors and the documentation.

use schemars::{JsonSchema, Schema, SchemaGenerator, generate::SchemaSettings};
use serde_json::{Value, json};

use crate::workflow::Workflow;

/// Required keys by definition; all others are optional.
const REQUIRED: [(&str, &[&str]); 6] = [
    ("Node", &["id", "type"]),
    ("Edge", &["source", "target"]),
    ("Slot", &["dataFlowType"]),
    ("Variable", &["name"]),
    ("AvailableTools", &[]),
    ("Retry", &[]),
];

/// The JSON Schema (2020-12) of a workflow file. Keys that it does not name are legal and kept.
#[must_use]
pub fn workflow_schema() -> Schema {
    let generator: SchemaGenerator = SchemaSettings::draft2020_12().into();
    let mut schema = generator.into_root_schema_for::<Workflow>();
    schema.insert("required".to_owned(), json!(["nodes", "edges"]));
    if let Some(Value::Object(definitions)) = schema.get_mut("$defs") {
        for (name, required) in REQUIRED {
            if let Some(Value::Object(definition)) = definitions.get_mut(name) {
                definition.insert("required".to_owned(), json!(required));
            }
        }
    }
    schema
}

/// Form of [`Cache`](crate::Cache) in a file.
#[derive(JsonSchema)]
#[schemars(untagged)]
#[expect(dead_code, reason = "only its schema is used")]
pub(crate) enum CacheForm {
    /// Turns caching on or off.
    Flag(bool),
    /// Inputs that make up the key.
    Key {
        /// Input slots.
        key: Vec<String>,
    },
}
