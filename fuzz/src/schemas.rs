//! Tools whose parameters have many shapes.

use std::sync::{Arc, LazyLock};

use serde_json::{Value, json};
use tool_schema::{OfferedTool, ToolSet};

/// Schemas by the name of their tool.
pub static SCHEMAS: LazyLock<Vec<(&'static str, Value)>> = LazyLock::new(|| {
    vec![
        ("write_file", write_file()),
        ("plain", plain()),
        ("nested", nested()),
        ("open", open()),
        ("choice", choice()),
    ]
});

static TOOLS: LazyLock<Arc<ToolSet>> = LazyLock::new(|| {
    let tool = |(name, schema): &(&str, Value)| {
        OfferedTool::new(*name, "", schema.clone()).expect("the schemas above can be used")
    };
    Arc::new(ToolSet::of_tools(SCHEMAS.iter().map(tool)).expect("their names differ"))
});

/// All of them, compiled once.
pub fn tools() -> &'static Arc<ToolSet> {
    &TOOLS
}

fn object(properties: &Value) -> Value {
    json!({"type": "object", "properties": properties, "additionalProperties": false})
}

fn write_file() -> Value {
    object(&json!({"path": {"type": "string"}, "content": {"type": "string"}}))
}

fn plain() -> Value {
    object(&json!({
        "text": {"type": "string"},
        "count": {"type": "integer"},
        "ratio": {"type": "number"},
        "flag": {"type": "boolean"},
        "nothing": {"type": "null"},
        "maybe": {"type": ["string", "null"]},
        "number_or_null": {"type": ["integer", "null"]},
        "either": {"type": ["integer", "string", "boolean"]},
        "odd name": {"type": "string"},
        "名前": {"type": "string"},
    }))
}

fn nested() -> Value {
    let point = object(&json!({
        "x": {"type": "number"},
        "item": {"type": "string"},
        "tags": {"type": "array", "items": {"type": "string"}},
    }));
    object(&json!({
        "texts": {"type": "array", "items": {"type": "string"}},
        "numbers": {"type": "array", "items": {"type": "number"}},
        "matrix": {"type": "array", "items": {"type": "array", "items": {"type": "integer"}}},
        "points": {"type": "array", "items": point},
        "style": object(&json!({"text": {"type": "string"}, "width": {"type": "integer"}, "odd name": {"type": "string"}})),
    }))
}

fn open() -> Value {
    json!({
        "type": "object",
        "properties": {
            "free": {"type": "object"},
            "any": {},
            "list": {"type": "array"},
            "mixed": {"type": ["string", "array", "object"]},
            "scores": {"type": "object", "additionalProperties": {"type": "integer"}},
        },
    })
}

fn choice() -> Value {
    let circle = json!({"type": "object", "required": ["r"], "additionalProperties": false, "properties": {"r": {"type": "number"}}});
    let square = json!({"type": "object", "required": ["side"], "additionalProperties": false, "properties": {"side": {"type": "string"}}});
    object(&json!({
        "member": {"enum": ["a", "a ", "1", 1, null, true, "\"a\""]},
        "word": {"enum": ["Red", "green", "BLUE"]},
        "fixed": {"const": "<x>"},
        "shape": {"oneOf": [circle, square]},
        "text_or_list": {"anyOf": [{"type": "string"}, {"type": "array", "items": {"type": "string"}}]},
    }))
}
