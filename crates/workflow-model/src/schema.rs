//! The JSON Schema of a workflow file, for editors and the documentation.

use schemars::{JsonSchema, Schema, SchemaGenerator, generate::SchemaSettings};
use serde_json::{Value, json};

use crate::workflow::Workflow;

/// What must be there, by definition; everything else may be absent.
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

/// How a file writes [`Cache`](crate::Cache).
#[derive(JsonSchema)]
#[schemars(untagged)]
#[expect(dead_code, reason = "only its schema is used")]
pub(crate) enum CacheForm {
    /// Whether the result is kept.
    Flag(bool),
    /// Which inputs make the key.
    Key {
        /// Input slots.
        key: Vec<String>,
    },
}
