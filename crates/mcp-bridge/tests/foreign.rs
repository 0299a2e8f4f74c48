//! Messages that no client should send: each has an answer.
#![expect(clippy::unwrap_used, reason = "helpers of tests: a wrong case may panic")]

use std::collections::VecDeque;
use std::sync::Arc;

use agent_types::{Clock, SystemClock};
use http::Request;
use http_body_util::Full;
use mcp_bridge::{McpHttp, McpServer, MemoryCalls};
use proptest::prelude::*;
use tokio_util::sync::CancellationToken;
use tool_registry::{Registry, Services};

fn server(closed: CancellationToken) -> McpHttp {
    let clock: Arc<dyn Clock> = Arc::new(SystemClock);
    let calls = Arc::new(MemoryCalls::new(clock, Services::new()));
    McpHttp::new(McpServer::new(Arc::new(Registry::new()), calls), closed)
}

fn request(body: &[u8]) -> Request<Full<VecDeque<u8>>> {
    Request::post("http://127.0.0.1/mcp")
        .header("host", "127.0.0.1")
        .header("content-type", "application/json")
        .header("accept", "application/json, text/event-stream")
        .body(Full::new(VecDeque::from(body.to_vec())))
        .unwrap()
}

fn ask(body: &[u8]) -> u16 {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(async {
        let closed = CancellationToken::new();
        let http = server(closed.clone());
        let status = http.handle(request(body)).await.status().as_u16();
        closed.cancel();
        status
    })
}

fn message() -> impl Strategy<Value = String> {
    let method = prop::sample::select(vec![
        "initialize",
        "tools/call",
        "tools/list",
        "ping",
        "notifications/cancelled",
        "notifications/progress",
        "resources/read",
        "prompts/get",
        "x",
    ]);
    let id = prop::sample::select(vec![
        "1",
        "-1",
        "4294967296",
        "18446744073709551616",
        "1e300",
        "\"a\"",
        "null",
        "{}",
    ]);
    let params = prop::sample::select(vec![
        "{}",
        "[]",
        "null",
        "{\"name\":\"x\",\"arguments\":{}}",
        "{\"requestId\":4294967295}",
        "{\"progressToken\":1e300,\"progress\":-1,\"total\":1e308}",
        "{\"uri\":\"\"}",
        "{\"protocolVersion\":\"2025-06-18\",\"capabilities\":{},\"clientInfo\":{\"name\":\"t\",\"version\":\"1\"}}",
    ]);
    (method, id, params).prop_map(|(method, id, params)| {
        format!("{{\"jsonrpc\":\"2.0\",\"id\":{id},\"method\":\"{method}\",\"params\":{params}}}")
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn n02_any_bytes_have_an_answer(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
        prop_assert!(ask(&bytes) >= 200);
    }

    #[test]
    fn n02_any_message_has_an_answer(message in message()) {
        prop_assert!(ask(message.as_bytes()) >= 200);
    }
}

#[test]
fn n15_sessions_are_bounded() {
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build().unwrap();
    let hello = r#"{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-06-18","capabilities":{},"clientInfo":{"name":"t","version":"1"}}}"#;
    let http = server(CancellationToken::new());
    runtime.block_on(async {
        let mut last = 0;
        for _ in 0..300 {
            last = http.handle(request(hello.as_bytes())).await.status().as_u16();
        }
        assert_eq!(last, 503);
    });
}
