//! The JSON Schema test suite against compiled schemas.

use std::path::Path;

use anyhow::Result;
use serde_json::{Value, json};

use super::{Case, Program, Set, lines, text};

/// Tests of drafts 2020-12 and 7. Those that need documents from elsewhere are left out: nothing is fetched.
pub(super) fn suite(folder: &Path) -> Result<Set> {
    let mut cases = Vec::new();
    for case in lines(&folder.join("json_schema_test_suite.jsonl"))? {
        if case["remote"] == Value::Bool(true) {
            continue;
        }
        let id = text(&case, "id")?.to_owned();
        let mut schema = case["schema"].clone();
        if let (Some(object), "draft7") = (schema.as_object_mut(), text(&case, "draft")?) {
            object.entry("$schema").or_insert_with(|| "http://json-schema.org/draft-07/schema#".into());
        }
        cases.push(Case {
            request: json!({"id": id, "schema": schema, "data": case["data"]}),
            wanted: vec![json!({"valid": case["valid"]})],
            id,
        });
    }
    Ok(Set { name: "json schema test suite".into(), program: Program::Validate, cases })
}
