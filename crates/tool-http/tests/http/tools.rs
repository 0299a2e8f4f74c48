//! Tools of files, called.

use std::sync::Arc;

use agent_types::{
    ApprovalDefault, Budget, BudgetLimits, CallId, Clock, EventLocation, Recorder, RunId, Services,
    SystemClock,
};
use http_caller::{HttpCaller, NetworkPolicy};
use serde_json::{Value, json};
use tool_http::{HttpToolError, HttpToolFile, http_tool};
use tool_registry::{CallEnd, Tool, ToolContext, ToolErrorKind};
use weft_harness::StubServer;

fn server(answer: &str) -> (String, StubServer) {
    let server = StubServer::saying(answer);
    (server.address.to_string(), server)
}

pub(crate) fn tool(file: &Value, open: &str) -> Tool {
    let policy = NetworkPolicy::public_only().allowing([open.parse().unwrap()]);
    let caller = HttpCaller::builder(policy).build();
    http_tool(&HttpToolFile::from_json(&file.to_string()).unwrap(), &caller).unwrap()
}

pub(crate) fn error(file: &Value) -> HttpToolError {
    let caller = HttpCaller::builder(NetworkPolicy::public_only()).build();
    match HttpToolFile::from_json(&file.to_string()) {
        Ok(file) => http_tool(&file, &caller).unwrap_err(),
        Err(error) => error,
    }
}

async fn call(tool: &Tool, arguments: Value, values: Value) -> CallEnd {
    call_with(tool, arguments, values, Services::new()).await
}

pub(crate) async fn call_with(tool: &Tool, arguments: Value, values: Value, services: Services) -> CallEnd {
    let clock: Arc<dyn Clock> = Arc::new(SystemClock);
    let sink = Recorder::new(RunId::new("r"), Arc::clone(&clock));
    let budget = Budget::new(BudgetLimits::default());
    let cx =
        ToolContext::new(CallId::new("c"), tool.id().clone(), clock, budget, sink, EventLocation::default());
    let cx = cx.with_services(services);
    let cx = cx.with_values(Arc::new(values.as_object().unwrap().clone()));
    tool.invoke(arguments.as_object().unwrap().clone(), cx).await.end
}

fn weather(address: &str) -> Value {
    json!({
        "name": "get_weather",
        "description": "Weather of a city.",
        "parameters": {"type": "object", "properties": {"city": {"type": "string"}, "unit": {"enum": ["c", "f"], "default": "c"},
            "tenant": {"type": "string"}}, "required": ["city", "tenant"]},
        "endpoint": {"url": format!("http://{address}/{{tenant}}/{{city}}"), "query_params": {"unit": "{unit}"}},
        "context": ["tenant"],
        "response": {"select": "$.now", "template": "{result.temp} degrees"},
    })
}

#[tokio::test]
async fn a_file_is_a_tool() {
    let (address, sent) = server("HTTP/1.1 200 OK\r\ncontent-length: 21\r\n\r\n{\"now\": {\"temp\": 21}}");
    let tool = tool(&weather(&address), &address);
    assert_eq!(tool.id().as_str(), "get_weather");
    let definition = tool.definition();
    // Neither context values nor defaults are shown to the model.
    assert_eq!(
        definition.parameters,
        json!({"type": "object", "properties": {"city": {"type": "string"}, "unit": {"enum": ["c", "f"]}}, "required": ["city"]})
    );
    assert_eq!(Value::from(definition.defaults.clone()), json!({"unit": "c"}));
    assert!(definition.annotations.read_only && tool.approval() == ApprovalDefault::Auto);
    let end = call(&tool, json!({"city": "São Paulo"}), json!({"tenant": "t1"})).await;
    let CallEnd::Ok(output) = end else { panic!("{end:?}") };
    assert_eq!(output.text(), "21 degrees");
    assert!(sent.take_request().starts_with("GET /t1/S%C3%A3o%20Paulo?unit=c HTTP/1.1\r\n"));
}

#[tokio::test]
async fn an_http_error_is_a_failed_call_with_status_and_body() {
    let (address, _sent) =
        server("HTTP/1.1 503 Busy\r\nretry-after: 5\r\ncontent-length: 10\r\n\r\ncome later");
    let tool = tool(&weather(&address), &address);
    let CallEnd::Failed(error) = call(&tool, json!({"city": "x"}), json!({"tenant": "t"})).await else {
        panic!()
    };
    assert_eq!(error.message_for_model, "HTTP 503: come later");
    assert_eq!((error.kind, error.code, error.retryable), (ToolErrorKind::Failed, Some("http_status"), true));
    assert_eq!(error.retry_after, Some(std::time::Duration::from_secs(5)));
    let CallEnd::Failed(error) = call(&tool, json!({"city": "x"}), json!({})).await else { panic!() };
    assert_eq!(error.message_for_model, "the context value `tenant` is not set");
    assert_eq!((error.kind, error.code), (ToolErrorKind::Refused, Some("missing_context")));
}

#[test]
fn methods_other_than_reading_ask() {
    for (method, read_only, idempotent) in [
        ("GET", true, true),
        ("HEAD", true, true),
        ("POST", false, false),
        ("PUT", false, true),
        ("DELETE", false, true),
        ("PATCH", false, false),
    ] {
        let file =
            json!({"name": "t", "description": "", "endpoint": {"url": "https://a.test/", "method": method}});
        let tool = tool(&file, "a.test");
        let annotations = &tool.definition().annotations;
        assert_eq!(
            (annotations.read_only, annotations.effect, annotations.idempotent),
            (read_only, !read_only, idempotent)
        );
        assert_eq!(tool.approval() == ApprovalDefault::Ask, !read_only, "{method}");
    }
}

#[test]
fn what_is_wrong_with_a_file_is_told_with_a_way_out() {
    let with = |change: fn(&mut Value)| {
        let mut file = weather("a.test");
        change(&mut file);
        let error = error(&file);
        format!("{}: {error}", error.code())
    };
    for (change, expected) in [
        (
            (|file| file["endpoint"]["metod"] = "GET".into()) as fn(&mut Value),
            "bad_tool_file: unknown field `metod`, expected one of `url`, `method`, `headers`, `query_params`, `body`, `timeout_ms`; did you mean `method`?",
        ),
        (
            |file| file["retri"] = 1.into(),
            "bad_tool_file: unknown field `retri`, expected one of `name`, `description`, `parameters`, `endpoint`, `context`, `response`, `auth`, `retry`, `async`; did you mean `retry`?",
        ),
        (
            |file| file["endpoint"]["url"] = "https://a.test/{citty}".into(),
            "unknown_placeholder: endpoint.url: `{citty}` names no parameter and no context value; did you mean `city`?",
        ),
        (
            |file| file["name"] = "a b".into(),
            "invalid_tool_id: tool id `a b` holds ` `, which no id may hold",
        ),
        (
            |file| file["parameters"] = json!({"type": "array"}),
            "bad_schema: `parameters` must be the JSON Schema of an object",
        ),
        (
            |file| file["parameters"]["required"] = json!(["city", "citty"]),
            "bad_schema: `parameters` require `citty`, which `properties` do not declare; did you mean `city`?",
        ),
        (
            |file| file["auth"] = json!({"type": "barer", "token": "{$secret.T}"}),
            "bad_tool_file: unknown variant `barer`, expected one of `bearer`, `basic`, `header`, `query`; did you mean `bearer`?",
        ),
    ] {
        assert_eq!(with(change), expected);
    }
}

#[test]
fn a_file_is_written_as_it_was_read() {
    let file = HttpToolFile::from_json(&weather("a.test").to_string()).unwrap();
    assert_eq!(HttpToolFile::from_json(&file.to_json().unwrap()).unwrap(), file);
}
