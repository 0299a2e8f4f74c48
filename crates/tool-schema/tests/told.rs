//! Repairs and messages of whole calls.
#![expect(clippy::unwrap_used, reason = "a test may stop at the first surprise")]

use protocol_action::{NativeCall, Options, parse, parse_with};
use serde_json::{Value, json};
use tool_schema::{CallFault, OfferedTool, ToolSet};

fn tools() -> ToolSet {
    let tool = |name: &str, schema: Value| OfferedTool::new(name, "", schema).unwrap();
    ToolSet::of_tools([
        tool("ping", json!({"type": "object", "properties": {}})),
        tool("find", json!({"type": "object", "properties": {"query": {"type": "string"}, "n": {"type": "integer"}},
            "required": ["query"]})),
        tool("order", json!({"type": "object", "properties": {"summary": {"type": "string"}, "items": {"type": "string"}},
            "required": ["summary", "items"]})),
        tool("weather", json!({"type": "object", "properties": {"城市": {"type": "string"}, "user.name": {"type": "string"},
            "$filter": {"type": "string"}, "city name": {"type": "string"}}, "required": ["城市"]})),
    ])
    .unwrap()
}

/// The arguments with the repairs, or the messages.
#[track_caller]
fn check(text: &str, expected: &str) {
    let tools = tools();
    let decision = tools.interpret(&parse(text, &tools));
    assert_eq!(words(&decision.results[0]), expected, "{text}");
}

#[track_caller]
fn check_native(name: &str, arguments: &str, expected: &str) {
    let tools = tools();
    let native = NativeCall { name: name.into(), arguments: arguments.into() };
    let parsed = parse_with("", &tools, &Options::default().with_native(vec![native]));
    assert_eq!(words(&tools.interpret(&parsed).results[0]), expected, "{name} {arguments}");
}

fn words(result: &Result<tool_schema::TypedCall, CallFault>) -> String {
    match result {
        Ok(call) => {
            let repairs: Vec<&str> = call.repairs.iter().map(|code| code.as_str()).collect();
            format!("{} {}", Value::Object(call.arguments.clone()), repairs.join(" ")).trim_end().to_owned()
        }
        Err(CallFault::Arguments { problems, .. }) => {
            problems.iter().map(|problem| problem.message.as_str()).collect::<Vec<_>>().join("; ")
        }
        Err(other) => other.code().to_owned(),
    }
}

#[test]
fn extra_parameters_of_a_tool_that_has_none_are_left_out() {
    check("<ACTION><ping><reason>test</reason></ping></ACTION>", "{} extra_parameter");
    check("<ACTION><find><query>a</query><reason>b</reason></find></ACTION>", "Unknown parameter 'reason'");
    check_native("ping", r#"{"reason": "test"}"#, "{} extra_parameter");
}

#[test]
fn text_alone_is_the_one_required_string() {
    check("<ACTION><find>dock</find></ACTION>", r#"{"query":"dock"} bare_text"#);
}

#[test]
fn a_missing_parameter_is_told_where_it_stands() {
    check(
        "<ACTION><order><summary>two <items>a, b</items></summary></order></ACTION>",
        "Missing parameter 'items' (`items` stands inside `summary`)",
    );
    check("<ACTION><order><summary>two</summary></order></ACTION>", "Missing parameter 'items'");
}

#[test]
fn names_are_those_that_the_model_was_shown() {
    let tools = tools();
    let arguments = json!({"城市": "上海", "user.name": "a", "$filter": "b", "city name": "c"});
    let written = tools.encode(&[("weather", arguments.as_object().unwrap())]).unwrap();
    for tag in ["<城市>", "<user.name>", "<$filter>", "<param name=\"city name\">"] {
        assert!(written.contains(tag), "{written}");
    }
    check(&written, &arguments.to_string());
    check("<ACTION><weather><user.name>a</user.name></weather></ACTION>", "Missing parameter '城市'");
    let wire = tool_schema::wire_name("城市");
    check_native("weather", "{}", &format!("Missing parameter '{wire}'"));
    check_native(
        "weather",
        &format!(r#"{{"{wire}": 5}}"#),
        &format!("Parameter '{wire}' must be string, got 5"),
    );
}
