//! Snapshots of grammars.

use serde_json::json;
use tool_schema::{CallChoice, GrammarFormat, GrammarOptions, GrammarScope, ToolSet, grammar, grammar_with};

fn two_tools() -> ToolSet {
    super::tools(&[
        (
            "find",
            json!({"type": "object", "required": ["city"], "properties": {
                "city": {"type": "string", "maxLength": 40},
                "unit": {"enum": ["c", "f"]},
                "days": {"type": "integer", "minimum": 1, "maximum": 14},
                "tags": {"type": "array", "items": {"type": "string"}, "maxItems": 3}}}),
        ),
        (
            "kb:Query",
            json!({"type": "object", "properties": {"near": {"type": "object", "required": ["x"], "properties": {
            "x": {"type": "number"}, "exact": {"type": "boolean"}}}}}),
        ),
    ])
}

#[test]
fn lark() {
    insta::assert_snapshot!(grammar(&two_tools(), GrammarFormat::Lark).text);
}

#[test]
fn lark_for_a_small_model_that_must_call() {
    let options = GrammarOptions { scope: GrammarScope::Narrow, call: CallChoice::Required };
    insta::assert_snapshot!(grammar_with(&two_tools(), GrammarFormat::Lark, options).text);
}

#[test]
fn gbnf() {
    insta::assert_snapshot!(grammar(&two_tools(), GrammarFormat::Gbnf).text);
}

#[test]
fn structural_tag() {
    let made = grammar(&two_tools(), GrammarFormat::StructuralTag);
    insta::assert_json_snapshot!(serde_json::from_str::<serde_json::Value>(&made.text).unwrap());
}

#[test]
fn tools_without_a_legal_call_are_reported() {
    let tools = super::tools(&[
        ("fine", json!({"type": "object", "properties": {"a": {"type": "string", "pattern": "^a"}}})),
        (
            "odd",
            json!({"type": "object", "required": ["on"], "properties": {
            "on": {"type": "boolean", "enum": ["yes", "no"]}}}),
        ),
        ("gone", json!({"type": "object", "required": ["hidden"], "properties": {"a": {"type": "string"}}})),
        (
            "none",
            json!({"type": "object", "required": ["n"], "properties": {
            "n": {"type": "integer", "minimum": 3, "maximum": 2}}}),
        ),
        ("endless", json!({"type": "object", "required": ["next"], "properties": {"next": {"$ref": "#"}}})),
    ]);
    let made = grammar(&tools, GrammarFormat::Lark);
    let refused: Vec<String> =
        made.refused.iter().map(|tool| format!("{} {}: {}", tool.tool, tool.path, tool.why)).collect();
    insta::assert_snapshot!(refused.join("\n"));
    assert_eq!(made.tools, 1);
    assert_eq!((made.loose[0].path.as_str(), made.loose[0].keyword.as_str()), ("/a", "pattern"));
}
