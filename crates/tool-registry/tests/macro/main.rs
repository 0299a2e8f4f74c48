//! `#[tool]` in a program that depends on this crate only.
#![expect(clippy::unwrap_used, reason = "helpers of tests: a wrong case may panic")]

use std::sync::Arc;

use agent_types::{Budget, BudgetLimits, CallId, EventLocation, Recorder, RunId, SystemClock};
use futures::Stream;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use tool_registry::{
    CallEnd, Dep, Services, Tool, ToolContext, ToolError, ToolOutput, Visibility, tool, tools,
};

// Above the other tools, so that only one is in sight in it.
mod inner {
    /// Says hello.
    #[tool_registry::tool]
    pub(super) fn hello() -> &'static str {
        "hello"
    }

    pub(super) fn by_name() -> String {
        tool!(hello).map(|tool| tool.id().to_string()).unwrap_or_default()
    }
}

/// A place.
#[derive(Debug, Deserialize, Serialize, JsonSchema)]
struct Place2 {
    x: i64,
    y: Option<i64>,
}

struct Prefix(&'static str);

/// Everything that a parameter can be.
///
/// Of several lines.
/// * `text` - a text
/// * `limit` - how many,
///   at most
#[tool(
    name = "test:many",
    title = "Many",
    read_only,
    idempotent,
    timeout = "1500ms",
    result_limit = 100,
    concurrency = 2,
    approval = "ask",
    visibility = "discoverable"
)]
async fn many(
    text: String,
    #[arg(default = 5, range = 1..=9)] limit: u8,
    #[arg(choices("short", "long"))] size: Option<String>,
    /// where it is
    place: Option<Place2>,
    #[arg(name = "type")] kind: Value,
    prefix: Dep<Prefix>,
    cx: &ToolContext,
) -> Result<String, String> {
    if text == "bad" {
        return Err(format!("no {text}"));
    }
    Ok(format!("{}{text} {limit} {size:?} {place:?} {kind} {}", prefix.0, cx.tool))
}

/// Adds.
#[tool]
fn add(a: i64, b: i64) -> i64 {
    a + b
}

/// Counts.
#[tool]
fn count(to: usize) -> impl Stream<Item = String> {
    futures::stream::iter((1..=to).map(|n| n.to_string()))
}

/// Ends the run.
#[tool]
async fn end(cx: ToolContext) -> Result<ToolOutput, ToolError> {
    Ok(ToolOutput::Ended(json!(cx.call.as_str())))
}

async fn call(tool: &Tool, arguments: Value, services: Services) -> CallEnd {
    let clock = Arc::new(SystemClock);
    let sink = Recorder::new(RunId::new("r"), clock.clone());
    let budget = Budget::new(BudgetLimits::default());
    let cx =
        ToolContext::new(CallId::new("c1"), tool.id().clone(), clock, budget, sink, EventLocation::default())
            .with_services(services);
    tool.invoke(arguments.as_object().unwrap().clone(), cx).await.end
}

#[test]
fn the_signature_is_the_schema() {
    let [tool] = tools![many];
    let tool = tool.unwrap();
    let definition = tool.definition();
    assert_eq!(definition.description, "Everything that a parameter can be.\n\nOf several lines.");
    assert_eq!(definition.title.as_deref(), Some("Many"));
    assert_eq!(
        definition.parameters,
        json!({
            "type": "object",
            "properties": {
                "text": {"type": "string", "description": "a text"},
                "limit": {"type": "integer", "format": "uint8", "minimum": 1, "maximum": 9, "description": "how many, at most"},
                "size": {"type": "string", "enum": ["short", "long"]},
                "place": {"$ref": "#/$defs/Place2", "description": "where it is"},
                "type": {}
            },
            "additionalProperties": false,
            "required": ["text", "type"],
            "$defs": {"Place2": {
                "description": "A place.", "type": "object",
                "properties": {"x": {"type": "integer", "format": "int64"}, "y": {"type": ["integer", "null"], "format": "int64"}},
                "required": ["x"]
            }}
        })
    );
    assert_eq!(Value::Object(definition.defaults.clone()), json!({"limit": 5}));
    assert!(definition.annotations.read_only && definition.annotations.idempotent);
    assert_eq!(tool.approval(), agent_types::ApprovalDefault::Ask);
    let settings = tool.settings();
    assert_eq!((settings.timeout.as_millis(), settings.result_limit), (1500, 100));
    assert_eq!((settings.concurrency, settings.visibility), (Some(2), Visibility::Discoverable));
}

#[tokio::test]
async fn the_model_gives_some_and_the_context_the_rest() {
    let [tool] = tools![many];
    let tool = tool.unwrap();
    assert_eq!(tool.missing(&Services::new()).len(), 1, "found before any call");
    let services = || Services::new().with(Arc::new(Prefix("> ")));
    assert!(tool.missing(&services()).is_empty());
    let arguments = json!({"text": "t", "type": [1], "place": {"x": 1}});
    let text = "> t 5 None Some(Place2 { x: 1, y: None }) [1] test:many";
    assert_eq!(call(&tool, arguments.clone(), services()).await, CallEnd::Ok(ToolOutput::Text(text.into())));
    let CallEnd::Failed(error) = call(&tool, json!({"text": "bad", "type": 1}), services()).await else {
        unreachable!("it fails")
    };
    assert_eq!(error.message_for_model, "no bad");
    let CallEnd::Failed(error) = call(&tool, arguments, Services::new()).await else {
        unreachable!("it fails")
    };
    assert_eq!(error.message_for_model, "the tool is not set up");
    assert!(error.detail.unwrap().contains("Prefix"));
}

#[tokio::test]
async fn whatever_a_function_returns_is_a_result() {
    let [add, count, end, hello] = tools![add, count, end, inner::hello].map(Result::unwrap);
    let none = Services::new;
    assert_eq!(call(&add, json!({"a": 2, "b": 3}), none()).await, CallEnd::Ok(ToolOutput::Json(json!(5))));
    assert_eq!(call(&count, json!({"to": 3}), none()).await, CallEnd::Ok(ToolOutput::Text("123".into())));
    assert_eq!(call(&end, json!({}), none()).await, CallEnd::Ok(ToolOutput::Ended(json!("c1"))));
    assert_eq!(call(&hello, json!({}), none()).await, CallEnd::Ok(ToolOutput::Text("hello".into())));
    assert_eq!(inner::by_name(), "hello");
}

#[test]
fn the_function_stays_as_it_is() {
    assert_eq!(add(2, 3), 5);
    assert_eq!(inner::hello(), "hello");
}

#[test]
fn what_no_model_could_use_does_not_compile() {
    trybuild::TestCases::new().compile_fail("tests/macro/refused/*.rs");
}
