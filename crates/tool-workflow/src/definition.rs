//! A workflow as a tool.

use agent_types::{Annotations, InvalidToolId, ToolDefinition};
use serde_json::{Map, Value, json};
use workflow_model::{DataFlowType, Slot, Workflow};

/// The tool `workflow:<id>`: its interface inputs are the parameters, its description is the workflow's.
///
/// # Errors
/// An id that no tool may have.
pub fn definition_of(id: &str, workflow: &Workflow) -> Result<ToolDefinition, InvalidToolId> {
    let mut definition = ToolDefinition::new(
        format!("workflow:{id}").parse()?,
        workflow.description.clone().unwrap_or_default(),
        parameters_of(workflow),
    );
    definition.title.clone_from(&workflow.name);
    definition.annotations = Annotations::default();
    for (name, slot) in parameter_slots(workflow) {
        if let Some(default) = slot.default_value().filter(|value| !value.is_null()) {
            definition.defaults.insert(name.clone(), default.clone());
        }
    }
    Ok(definition)
}

/// JSON Schema of a workflow's inputs, in file order. Triggers and streams are left out: a model cannot provide them.
#[must_use]
pub fn parameters_of(workflow: &Workflow) -> Value {
    let mut properties = Map::new();
    let mut required = Vec::new();
    for (name, slot) in parameter_slots(workflow) {
        properties.insert(name.clone(), Value::Object(property_of(slot)));
        if slot.is_required() && slot.default_value().is_none() {
            required.push(name.clone());
        }
    }
    json!({"type": "object", "properties": properties, "required": required})
}

fn parameter_slots(workflow: &Workflow) -> impl Iterator<Item = (&String, &Slot)> {
    workflow.interface_inputs.iter().filter(|(_, slot)| !slot.is_stream && !slot.is_trigger())
}

/// One slot as a property: type, description, members or examples, bounds.
fn property_of(slot: &Slot) -> Map<String, Value> {
    let mut property = Map::new();
    let mut put = |key: &str, value: Option<Value>| {
        if let Some(value) = value {
            property.insert(key.to_owned(), value);
        }
    };
    put("type", slot.data_flow_type.json_type().map(Value::from));
    if slot.data_flow_type == DataFlowType::Binary {
        put("contentEncoding", Some("base64".into()));
    }
    put("description", slot.description().map(Value::from));
    let suggestions: Vec<Value> = slot.suggestions().into_iter().map(|suggestion| suggestion.value).collect();
    if !suggestions.is_empty() {
        put(if slot.is_combo() { "enum" } else { "examples" }, Some(suggestions.into()));
    }
    put("minimum", slot.minimum().cloned().map(Value::Number));
    put("maximum", slot.maximum().cloned().map(Value::Number));
    property
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(slot: &Value, expected: &Value) {
        let file = json!({"nodes": [], "edges": [], "interfaceInputs": {"x": slot}}).to_string();
        let workflow = Workflow::from_json(&file).unwrap();
        assert_eq!(parameters_of(&workflow)["properties"].get("x").unwrap_or(&Value::Null), expected);
    }

    #[test]
    fn every_slot_type_has_its_schema() {
        for (kind, expected) in [
            ("STRING", json!({"type": "string"})),
            ("INTEGER", json!({"type": "integer"})),
            ("FLOAT", json!({"type": "number"})),
            ("BOOLEAN", json!({"type": "boolean"})),
            ("OBJECT", json!({"type": "object"})),
            ("ARRAY", json!({"type": "array"})),
            ("BINARY", json!({"type": "string", "contentEncoding": "base64"})),
            ("WILDCARD", json!({})),
            ("CONVERTIBLE_ANY", json!({})),
        ] {
            check(&json!({"dataFlowType": kind}), &expected);
        }
    }

    #[test]
    fn suggestions_bounds_and_hidden_slots() {
        check(
            &json!({"dataFlowType": "INTEGER", "matchCategories": ["ComboOption"], "min": 1,
                "config": {"max": 4, "suggestions": [{"value": 1, "label": "one"}, {"value": 4}]}}),
            &json!({"type": "integer", "enum": [1, 4], "minimum": 1, "maximum": 4}),
        );
        check(
            &json!({"dataFlowType": "STRING", "config": {"suggestions": ["a"], "default": "a"}}),
            &json!({"type": "string", "examples": ["a"]}),
        );
        check(&json!({"dataFlowType": "STRING", "isStream": true}), &Value::Null);
        check(&json!({"dataFlowType": "WILDCARD", "matchCategories": ["Trigger"]}), &Value::Null);
    }

    #[test]
    fn the_summary_workflow_is_the_documented_tool() {
        let file = r#"{"description": "对提供的长文本进行摘要。当需要理解大量文本的核心内容时使用。", "nodes": [], "edges": [],
            "interfaceInputs": {
                "text_to_summarize": {"description": "需要进行摘要处理的原始长文本内容。", "dataFlowType": "STRING", "required": true},
                "summary_length": {"description": "期望的摘要长度。", "dataFlowType": "STRING", "required": false,
                    "matchCategories": ["ComboOption"],
                    "config": {"default": "中等", "suggestions": [{"value": "简短"}, {"value": "中等"}, {"value": "详细"}]}}},
            "interfaceOutputs": {"summary_result": {"dataFlowType": "STRING"}}}"#;
        let definition = definition_of("summarize_text", &Workflow::from_json(file).unwrap()).unwrap();
        assert_eq!(definition.id.as_str(), "workflow:summarize_text");
        assert_eq!(definition.defaults["summary_length"], "中等");
        insta::assert_json_snapshot!(definition.parameters, @r#"
        {
          "type": "object",
          "properties": {
            "text_to_summarize": {
              "type": "string",
              "description": "需要进行摘要处理的原始长文本内容。"
            },
            "summary_length": {
              "type": "string",
              "description": "期望的摘要长度。",
              "enum": [
                "简短",
                "中等",
                "详细"
              ]
            }
          },
          "required": [
            "text_to_summarize"
          ]
        }
        "#);
    }
}
