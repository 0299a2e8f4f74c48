//! The description of the interface, from the table of routes and the types that they take and give.

use agent_types::TraceEvent;
use schemars::SchemaGenerator;
use schemars::generate::SchemaSettings;
use serde_json::{Map, Value, json};

use crate::api::{Operation, operations};
use crate::problem::Problem;

/// Path of the schemas that others refer to.
const SCHEMAS: &str = "/components/schemas";

/// The OpenAPI 3.1 description of the interface.
#[must_use]
pub fn document() -> Value {
    let settings = SchemaSettings::draft2020_12().with(|settings| settings.definitions_path = SCHEMAS.into());
    let mut generator = settings.into_generator();
    let problem = generator.subschema_for::<Problem>().to_value();
    // What a stream of events holds; no answer refers to it.
    generator.subschema_for::<TraceEvent>();
    let mut paths: Map<String, Value> = Map::new();
    for operation in operations() {
        let described = describe(&operation, &problem, &mut generator);
        let path = paths.entry(operation.path).or_insert_with(|| json!({}));
        path[operation.method.as_str().to_ascii_lowercase()] = described;
    }
    json!({
        "openapi": "3.1.0",
        "info": {
            "title": "weft",
            "version": env!("CARGO_PKG_VERSION"),
            "description": "A weft project over HTTP. Live events also come over the WebSocket `/ws`, agents are models under `/v1`, tools are at `/mcp`.",
        },
        "security": [{"token": []}],
        "paths": paths,
        "components": {
            "securitySchemes": {"token": {"type": "http", "scheme": "bearer"}},
            "schemas": generator.take_definitions(true),
        },
    })
}

fn describe(operation: &Operation, problem: &Value, generator: &mut SchemaGenerator) -> Value {
    let in_path = operation.path.split(['{', '}']).skip(1).step_by(2).map(|name| {
        json!({"name": name, "in": "path", "required": true, "schema": {"type": "string"},
            "description": "percent-encoded, slashes too"})
    });
    let in_query = operation.query.iter().map(
        |(name, about)| json!({"name": name, "in": "query", "schema": {"type": "string"}, "description": about}),
    );
    let parameters: Vec<Value> = in_path.chain(in_query).collect();
    let mut good = json!({"description": "done"});
    if operation.answer.is_some() || operation.media != "application/json" {
        let schema = operation.answer.map_or_else(|| json!({}), |schema| schema(generator).to_value());
        good["content"] = json!({ operation.media: {"schema": schema} });
    }
    let bad = json!({"description": "refused", "content": {"application/problem+json": {"schema": problem}}});
    let mut described = json!({
        "summary": operation.summary,
        "operationId": operation_id(operation),
        "parameters": parameters,
        "responses": {operation.status.as_str(): good, "default": bad},
    });
    if let Some(body) = operation.body {
        described["requestBody"] =
            json!({"content": {"application/json": {"schema": body(generator).to_value()}}});
    }
    if operation.path == "/api/meta" {
        described["security"] = json!([]);
    }
    described
}

/// A name for generated clients: `post_runs_run_cancel`.
fn operation_id(operation: &Operation) -> String {
    let words = operation.path.split(['/', '{', '}', '.']).filter(|word| !word.is_empty() && *word != "api");
    let method = operation.method.as_str().to_ascii_lowercase();
    [method.as_str()].into_iter().chain(words).collect::<Vec<_>>().join("_")
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The whole document is `docs/schema/openapi.json`; this is what a reviewer looks for in it.
    #[test]
    fn operations_at_a_glance() {
        let lines = operations().into_iter().map(|operation| {
            let names = operation.query.iter().map(|(name, _)| *name).collect::<Vec<_>>();
            let query = if names.is_empty() { String::new() } else { format!(" ?{}", names.join("&")) };
            let (method, path) = (operation.method.as_str(), operation.path);
            format!("{method} {path}{query} {}: {}", operation.status.as_u16(), operation.summary)
        });
        insta::assert_snapshot!(lines.collect::<Vec<_>>().join("\n"));
    }

    #[test]
    fn every_reference_leads_somewhere_and_every_name_is_one() {
        let document = document();
        let text = document.to_string();
        for reference in text.split("\"$ref\":\"#").skip(1) {
            let pointer = reference.split('"').next().unwrap();
            assert!(document.pointer(pointer).is_some(), "{pointer}");
        }
        let mut names: Vec<String> = operations().iter().map(operation_id).collect();
        let all = names.len();
        names.sort();
        names.dedup();
        assert_eq!(names.len(), all);
        for path in
            ["/api/runs", "/api/asks/{ask}", "/api/workflows/{workflow}/layout", "/api/blobs/{sha256}"]
        {
            assert!(document["paths"][path].is_object(), "{path}");
        }
    }
}
