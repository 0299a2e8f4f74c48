//! The node that sends requests, over a real socket on loopback.
#![expect(clippy::unwrap_used, reason = "a test may stop at the first surprise")]

use std::sync::Arc;

use agent_types::ContextValues;
use http_caller::{HttpCaller, NetworkPolicy};
use serde_json::{Map, Value, json};
use weft_harness::StubServer;
use workflow_engine::{Plan, PlanError, RunOptions, RunOutcome, Services};
use workflow_model::{NoWorkflows, Workflow};

fn server(answer: &str) -> (String, StubServer) {
    let server = StubServer::saying(answer);
    (server.address.to_string(), server)
}

fn plan(config: &Value) -> Result<Plan, PlanError> {
    let slot = json!({"dataFlowType": "WILDCARD"});
    let edge =
        |slot: &str| json!({"source": "n", "sourceHandle": slot, "target": "out", "targetHandle": slot});
    let workflow = Workflow::from_value(json!({
        "nodes": [{"id": "n", "type": "core:Http", "configValues": config, "inputValues": {"values": {"id": "a/b", "n": 7}}},
                  {"id": "out", "type": "core:GroupOutput"}],
        "edges": [edge("body"), edge("status"), edge("headers")],
        "interfaceOutputs": {"body": slot, "status": slot, "headers": slot},
    }))
    .unwrap();
    Plan::new(&workflow, &node_library::catalog(), &NoWorkflows)
}

fn run(config: &Value, open: &str) -> RunOutcome {
    let policy = NetworkPolicy::public_only().allowing([open.parse().unwrap()]);
    let context = Map::from_iter([("tenant".to_owned(), json!("t1"))]);
    let services = Services::new()
        .with(Arc::new(HttpCaller::builder(policy).build()))
        .with(Arc::new(ContextValues(Arc::new(context))));
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let options = RunOptions::new().with_services(services);
    runtime.block_on(async { plan(config).unwrap().run(Map::new(), options).outcome().await })
}

#[test]
fn only_requests_that_change_something_are_effects() {
    let has_effect = |endpoint: Value| {
        let mut given = json!({"url": "https://host.example/"});
        given.as_object_mut().unwrap().extend(endpoint.as_object().unwrap().clone());
        plan(&json!({"endpoint": given})).unwrap().has_effect()
    };
    for reads in [json!({}), json!({"method": "GET"}), json!({"method": "head"})] {
        assert!(!has_effect(reads.clone()), "{reads}");
    }
    for changes in [json!({"method": "POST"}), json!({"method": "DELETE"}), json!({"body": {"a": 1}})] {
        assert!(has_effect(changes.clone()), "{changes}");
    }
}

#[test]
fn a_request_is_sent_and_its_answer_read() {
    let (address, sent) = server("HTTP/1.1 201 Created\r\nx-id: 9\r\ncontent-length: 8\r\n\r\n{\"id\":9}");
    let config = json!({"endpoint": {"url": format!("http://{address}/{{$ctx.tenant}}/{{id}}"), "body": {"n": "{n}"}}});
    let outcome = run(&config, &address);
    assert_eq!(outcome.error, None);
    assert_eq!(outcome.outputs["body"], json!({"id": 9}));
    assert_eq!(outcome.outputs["status"], json!(201));
    assert_eq!(outcome.outputs["headers"]["x-id"], "9");
    let request = sent.take_request();
    assert!(
        request.starts_with("POST /t1/a%2Fb HTTP/1.1\r\n") && request.ends_with("{\"n\":7}"),
        "{request}"
    );
}

#[test]
fn a_status_from_400_fails_the_node() {
    let (address, _sent) = server("HTTP/1.1 404 Gone\r\ncontent-length: 4\r\n\r\nnope");
    let outcome = run(&json!({"endpoint": {"url": format!("http://{address}/")}}), &address);
    let error = outcome.error.unwrap();
    assert_eq!((error.code.as_deref(), error.message.as_str()), (Some("http_status"), "HTTP 404: nope"));
}

#[test]
fn what_the_policy_refuses_is_not_sent() {
    let outcome = run(&json!({"endpoint": {"url": "http://127.0.0.1:9/"}}), "127.0.0.1:8");
    assert_eq!(outcome.error.unwrap().code.as_deref(), Some("http_blocked"));
}

#[test]
fn a_bad_endpoint_is_a_problem_of_the_plan() {
    let problems = |config: Value| plan(&config).unwrap_err().to_string();
    let authority = problems(json!({"endpoint": {"url": "https://{host}/"}}));
    assert!(authority.contains("scheme, host and port cannot hold a placeholder"), "{authority}");
    let unknown = problems(json!({"endpoint": {"url": "https://a.test/", "metod": "GET"}}));
    assert!(unknown.contains("unknown field `metod`"), "{unknown}");
    let missing = problems(json!({}));
    assert!(missing.contains("endpoint"), "{missing}");
}
