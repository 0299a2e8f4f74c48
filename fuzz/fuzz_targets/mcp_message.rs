//! Any bytes as a message of a client of the Model Context Protocol: an answer, and no panic.

#![no_main]

use std::sync::Arc;

use agent_types::{Clock, SystemClock};
use http::Request;
use http_body_util::Full;
use libfuzzer_sys::fuzz_target;
use mcp_bridge::{McpHttp, McpServer, MemoryCalls};
use tokio_util::sync::CancellationToken;
use tool_registry::{Registry, Services};

fuzz_target!(|input: &[u8]| {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
    runtime.block_on(async {
        let clock: Arc<dyn Clock> = Arc::new(SystemClock);
        let calls = Arc::new(MemoryCalls::new(clock, Services::new()));
        let closed = CancellationToken::new();
        let http = McpHttp::new(McpServer::new(Arc::new(Registry::new()), calls), closed.clone());
        let request = Request::post("http://127.0.0.1/mcp")
            .header("host", "127.0.0.1")
            .header("content-type", "application/json")
            .header("accept", "application/json, text/event-stream")
            .body(Full::new(std::collections::VecDeque::from(input.to_vec())))
            .expect("a request");
        drop(http.handle(request).await);
        closed.cancel();
    });
});
