//! Arguments that fit a schema, encoded and read again, are the same.

#![no_main]

use arbitrary::{Result, Unstructured};
use libfuzzer_sys::fuzz_target;
use protocol_action::parse;
use serde_json::{Map, Value};
use weft_fuzz::{SCHEMAS, same, tools, value_of};

fuzz_target!(|input: &[u8]| {
    // Bytes that do not suffice for a value are no finding.
    let _ = round_trip(&mut Unstructured::new(input));
});

fn round_trip(bytes: &mut Unstructured<'_>) -> Result<()> {
    let mut calls = Vec::new();
    for _ in 0..bytes.int_in_range(1..=3)? {
        let (name, schema) = bytes.choose(&SCHEMAS)?;
        if let Some(arguments) = fitting(name, value_of(schema, bytes)?) {
            calls.push((*name, arguments));
        }
    }
    check(&calls);
    Ok(())
}

fn fitting(name: &str, value: Value) -> Option<Map<String, Value>> {
    let tool = tools().get(name)?;
    match value {
        Value::Object(arguments) if tool.schema.is_valid(&Value::Object(arguments.clone())) => Some(arguments),
        _ => None,
    }
}

fn check(calls: &[(&str, Map<String, Value>)]) {
    if calls.is_empty() {
        return;
    }
    let borrowed: Vec<_> = calls.iter().map(|(name, arguments)| (*name, arguments)).collect();
    let text = tools().encode(&borrowed).expect("the tools exist");
    let parsed = parse(&format!("Here.\n{text}"), tools().as_ref());
    assert!(!parsed.has_errors(), "{:?}\n{text}", parsed.diagnostics);
    let decision = tools().interpret(&parsed);
    assert_eq!(decision.results.len(), calls.len(), "{text}");
    for (result, (name, arguments)) in decision.results.into_iter().zip(calls) {
        let call = result.unwrap_or_else(|fault| panic!("{fault:?}\n{text}"));
        assert_eq!(call.tool, *name);
        let (read, written) = (Value::Object(call.arguments), Value::Object(arguments.clone()));
        assert!(same(&read, &written), "read {read}\nwritten {written}\n{text}");
    }
}
