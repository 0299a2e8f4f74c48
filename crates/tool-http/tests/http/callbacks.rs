//! Calls whose results come to an address of their own.

use std::sync::Arc;
use std::time::Duration;

use agent_types::Services;
use async_trait::async_trait;
use parking_lot::Mutex;
use serde_json::{Value, json};
use tool_http::{CallbackRequest, Callbacks, OpenCallback};
use tool_registry::{Answer, CallEnd, Tool, ToolError, ToolErrorKind};
use weft_harness::StubServer;

use crate::tools::{call_with, error, tool};

/// Addresses of which each is sent the same body.
#[derive(Debug, Default)]
struct CallbackBook {
    body: Value,
    opened: Mutex<Vec<CallbackRequest>>,
    closed: Mutex<Vec<String>>,
}

#[async_trait]
impl Callbacks for CallbackBook {
    async fn open(&self, request: CallbackRequest) -> Result<OpenCallback, ToolError> {
        self.opened.lock().push(request);
        Ok(OpenCallback { id: "one".into(), url: "https://weft.example/hooks/calls/one/secret".into() })
    }

    async fn body(&self, id: &str) -> Result<Value, ToolError> {
        assert_eq!(id, "one");
        if self.body.is_null() {
            return Err(ToolError::new(ToolErrorKind::Timeout, "late").with_code("callback_expired"));
        }
        Ok(self.body.clone())
    }

    async fn flush(&self) -> Result<(), ToolError> {
        Ok(())
    }

    async fn close(&self, id: &str) {
        self.closed.lock().push(id.to_owned());
    }
}

fn file(address: &str, later: &Value) -> Value {
    json!({"name": "t", "description": "", "parameters": {"type": "object", "properties": {"callback_url": {"type": "string"}}},
        "endpoint": {"url": format!("http://{address}/"), "method": "POST", "body": {"to": "{callback_url}"}},
        "response": {"select": "$.report"}, "async": later})
}

/// A tool whose call waits for its result in place of a task.
fn at_once(file: &Value, open: &str) -> Tool {
    let tool = tool(file, open);
    let settings = tool.settings().clone().with_answer(Answer::Whole);
    tool.with_settings(settings)
}

/// The end of a call, what the other system was sent, and the addresses that were closed.
async fn call(answer: (u16, Value), body: Value, later: &Value) -> (CallEnd, String, Vec<String>) {
    let (status, value) = answer;
    let other = StubServer::json(move |_| (status, value.clone()));
    let address = other.address.to_string();
    let desk = Arc::new(CallbackBook { body, ..CallbackBook::default() });
    let services = Services::new().with::<dyn Callbacks>(Arc::clone(&desk) as Arc<dyn Callbacks>);
    let tool = at_once(&file(&address, later), &address);
    assert_eq!(tool.definition().parameters["properties"], json!({}));
    let end = call_with(&tool, json!({}), json!({}), services).await;
    let opened = desk.opened.lock().pop().unwrap();
    assert_eq!((opened.call.as_str(), opened.limit, opened.max_body), ("c", Duration::from_secs(9), 2048));
    let closed = desk.closed.lock().clone();
    (end, other.only_request(), closed)
}

#[tokio::test]
async fn the_report_of_accepted_work_is_its_result() {
    let later = json!({"callback": {"max_body_kib": 2}, "limit_ms": 9000});
    let (end, sent, closed) = call((202, Value::Null), json!({"report": "done"}), &later).await;
    let CallEnd::Ok(output) = end else { panic!("{end:?}") };
    assert_eq!(output.text(), "done");
    assert!(sent.ends_with(r#"{"to":"https://weft.example/hooks/calls/one/secret"}"#), "{sent}");
    assert_eq!(closed, [""; 0]);
}

#[tokio::test]
async fn an_answer_at_once_closes_the_address() {
    let later = json!({"callback": {"max_body_kib": 2}, "limit_ms": 9000, "failed": {"path": "$.state", "values": ["bad"]}});
    let (end, _, closed) = call((200, json!({"report": "at once"})), Value::Null, &later).await;
    let CallEnd::Ok(output) = end else { panic!("{end:?}") };
    assert_eq!((output.text().as_ref(), closed), ("at once", vec!["one".to_owned()]));
    let (end, _, closed) = call((400, Value::Null), Value::Null, &later).await;
    let CallEnd::Failed(error) = end else { panic!("{end:?}") };
    assert_eq!((error.code, closed), (Some("http_status"), vec!["one".to_owned()]));
    let (end, ..) = call((202, Value::Null), json!({"state": "bad"}), &later).await;
    let CallEnd::Failed(error) = end else { panic!("{end:?}") };
    assert_eq!(error.code, Some("http_work_failed"));
}

#[tokio::test]
async fn after_an_answer_that_is_missing_the_report_counts() {
    let later = json!({"callback": {"max_body_kib": 2}, "limit_ms": 9000});
    for status in [502, 504] {
        let (end, _, closed) = call((status, Value::Null), json!({"report": "done"}), &later).await;
        let CallEnd::Ok(output) = end else { panic!("{end:?}") };
        assert_eq!((output.text().as_ref(), closed), ("done", Vec::new()));
        let (end, _, closed) = call((status, Value::Null), Value::Null, &later).await;
        let CallEnd::Failed(error) = end else { panic!("{end:?}") };
        assert_eq!((error.code, closed), (Some("unknown_outcome"), Vec::new()));
    }
    let (end, _, closed) = call((500, Value::Null), json!({"report": "done"}), &later).await;
    let CallEnd::Ok(output) = end else { panic!("{end:?}") };
    assert_eq!((output.text().as_ref(), closed), ("done", vec!["one".to_owned()]));
    for (status, code) in [(202, "callback_expired"), (500, "http_status")] {
        let (end, ..) = call((status, Value::Null), Value::Null, &later).await;
        let CallEnd::Failed(error) = end else { panic!("{end:?}") };
        assert_eq!(error.code, Some(code));
    }
}

#[tokio::test]
async fn a_callback_needs_a_server_and_a_place_in_the_request() {
    let tool = at_once(&file("a.test", &json!({"callback": {}})), "a.test");
    let CallEnd::Failed(failed) = call_with(&tool, json!({}), json!({}), Services::new()).await else {
        panic!()
    };
    assert_eq!((failed.kind, failed.code), (ToolErrorKind::Refused, Some("no_callback_server")));
    for (later, expected) in [
        (
            json!({"callback": {"name": "reply_to"}}),
            "async.callback: the request does not carry the address; add `{reply_to}` to it",
        ),
        (
            json!({"callback": {}, "poll": "$.url"}),
            "async.callback: `poll` and `interval_ms` are of work that is polled; remove them",
        ),
    ] {
        let mut file = file("a.test", &later);
        file["endpoint"]["body"] = json!({"to": "{callback_url}"});
        if later["callback"]["name"].is_string() {
            file["endpoint"]["body"] = Value::Null;
        }
        assert_eq!(error(&file).to_string(), expected);
    }
}
