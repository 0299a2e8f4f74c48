//! Any JSON and any text under many schemas: no panic, and typing twice is typing once.

#![no_main]

use arbitrary::{Result, Unstructured};
use libfuzzer_sys::fuzz_target;
use protocol_action::parse;
use serde_json::{Map, Value};
use tool_schema::OfferedTool;
use weft_fuzz::{SCHEMAS, any_json, tools};

fuzz_target!(|input: &[u8]| {
    let Some((choice, rest)) = input.split_first() else { return };
    let (name, schema) = &SCHEMAS[usize::from(choice >> 2) % SCHEMAS.len()];
    let tool = tools().get(name).expect("the tool exists");
    match choice & 3 {
        0 => {
            if let Ok(value) = serde_json::from_slice(rest) {
                once(tool, value);
            }
        }
        // Bytes that do not suffice for a value are no finding.
        1 => drop(by_name(tool, schema, &mut Unstructured::new(rest))),
        _ => reply(&format!("<ACTION><{name}>{}</{name}></ACTION>", String::from_utf8_lossy(rest))),
    }
});

/// Any JSON under the names that the schema declares.
fn by_name(tool: &OfferedTool, schema: &Value, bytes: &mut Unstructured<'_>) -> Result<()> {
    let mut arguments = Map::new();
    for name in schema["properties"].as_object().into_iter().flat_map(Map::keys) {
        if bytes.ratio(1, 3)? {
            arguments.insert(name.clone(), any_json(bytes)?);
        }
    }
    once(tool, Value::Object(arguments));
    Ok(())
}

fn once(tool: &OfferedTool, value: Value) {
    let typed = tool.schema.type_json(value);
    if typed.problems.is_empty() {
        settled(tool, &typed.arguments);
    }
}

/// The same by way of a reply.
fn reply(text: &str) {
    let decision = tools().interpret(&parse(text, tools().as_ref()));
    for call in decision.calls() {
        let tool = tools().get(&call.tool).expect("calls name a tool");
        settled(tool, &call.arguments);
    }
}

/// What was typed fits, and stays as it is.
fn settled(tool: &OfferedTool, arguments: &Map<String, Value>) {
    let value = Value::Object(arguments.clone());
    assert!(tool.schema.is_valid(&value), "typed, but it does not fit: {value}");
    let again = tool.schema.type_json(value);
    assert_eq!(again.problems, []);
    assert_eq!(again.coercions, []);
    assert_eq!(again.arguments, *arguments);
}
