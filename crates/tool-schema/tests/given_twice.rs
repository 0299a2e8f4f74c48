//! Arguments that a call gives twice, in every form in which a call is written.
#![expect(clippy::unwrap_used, clippy::panic, reason = "a test may stop at the first surprise")]

use protocol_action::{Decoder, FinishReason, NativeCall, Options};
use serde_json::json;
use std::sync::Arc;
use tool_schema::{CallFault, OfferedTool, ToolSet};

fn tools() -> Arc<ToolSet> {
    let schema = json!({"type": "object", "additionalProperties": false,
        "properties": {"path": {"type": "string"}, "tags": {"type": "array", "items": {"type": "string"}},
            "where": {"type": "object"}}});
    Arc::new(ToolSet::of_tools([OfferedTool::new("read", "Reads.", schema).unwrap()]).unwrap())
}

/// The arguments, or the messages about them.
fn read(text: &str, native: Option<&str>) -> Result<serde_json::Value, Vec<String>> {
    let tools = tools();
    let vocabulary: Arc<ToolSet> = Arc::clone(&tools);
    let mut decoder = Decoder::new(vocabulary, Options::default());
    let _ = decoder.push(text.as_bytes());
    decoder
        .add_native(native.map(|arguments| NativeCall { name: "read".into(), arguments: arguments.into() }));
    let parsed = decoder.finish(FinishReason::Stop);
    let errors: Vec<String> = parsed.errors().map(|error| error.message.clone()).collect();
    if !errors.is_empty() {
        return Err(errors);
    }
    let mut decision = tools.interpret(&parsed);
    assert!(!decision.results.is_empty(), "{text}{native:?}: {parsed:?}");
    match decision.results.remove(0) {
        Ok(call) => Ok(call.arguments.into()),
        Err(CallFault::Arguments { problems, .. }) => {
            assert!(problems.iter().all(|problem| problem.code == "duplicate_parameter"), "{problems:?}");
            Err(problems.iter().map(|problem| problem.message.clone()).collect())
        }
        Err(other) => panic!("{other:?}"),
    }
}

/// Every form that has its arguments in JSON.
fn forms(arguments: &str) -> Vec<(String, Option<String>)> {
    let escaped = serde_json::to_string(arguments).unwrap();
    vec![
        (format!("<ACTION>{{\"name\": \"read\", \"arguments\": {arguments}}}</ACTION>"), None),
        (
            format!("<<<TOOL_CALL>>>{{\"name\": \"read\", \"arguments\": {arguments}}}<<<END_TOOL_CALL>>>"),
            None,
        ),
        (format!("<ACTION>{{\"name\": \"read\", \"arguments\": {escaped}}}</ACTION>"), None),
        (
            format!("<ACTION>{{\"function\": {{\"name\": \"read\", \"parameters\": {arguments}}}}}</ACTION>"),
            None,
        ),
        (format!("<ACTION><read>{arguments}</read></ACTION>"), None),
        (String::new(), Some(arguments.to_owned())),
    ]
}

#[track_caller]
fn check(arguments: &str, expected: &Result<serde_json::Value, &[&str]>) {
    for (text, native) in forms(arguments) {
        let got = read(&text, native.as_deref());
        let expected =
            expected.clone().map_err(|messages| messages.iter().map(|text| (*text).to_owned()).collect());
        assert_eq!(got, expected, "{text}{native:?}");
    }
}

#[test]
fn two_different_values_are_refused_in_every_form() {
    let message = "Parameter 'path' given twice with different values";
    assert_eq!(
        read("<ACTION><read><path>a</path><path>b</path></read></ACTION>", None),
        Err(vec![message.into()])
    );
    check(r#"{"path": "a", "path": "b"}"#, &Err(&[message]));
    check(r#"{"tags": ["a"], "tags": ["b"]}"#, &Err(&["Parameter 'tags' given twice with different values"]));
    check(r#"{"where": {"x": 1, "x": 2}}"#, &Err(&["Parameter 'where.x' given twice with different values"]));
}

#[test]
fn the_same_value_twice_is_one_value() {
    check(r#"{"path": "a", "path": "a"}"#, &Ok(json!({"path": "a"})));
}

#[test]
fn a_call_that_names_two_tools_names_none() {
    let text = r#"<ACTION>{"name": "read", "name": "write", "arguments": {}}</ACTION>"#;
    let [message] = &read(text, None).unwrap_err()[..] else { panic!("one fault") };
    assert!(message.contains("`name` stands twice in a call"), "{message}");
}
