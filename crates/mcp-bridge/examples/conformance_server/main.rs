//! A server with the tools, prompts and resources that the official conformance suite asks for.
//!
//! Prints its address and serves until it is killed; `cargo xtask clients` runs the suite against it.

#![expect(clippy::print_stdout, reason = "a program tells where it is")]

mod sources;
mod tools;

use std::sync::Arc;

use agent_types::SystemClock;
use axum::extract::{Request, State};
use axum::response::IntoResponse;
use axum::routing::any;
use mcp_bridge::{McpHttp, McpServer, MemoryCalls};
use tokio_util::sync::CancellationToken;
use tool_registry::{Services, Snapshot};

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let calls = MemoryCalls::new(Arc::new(SystemClock), Services::new());
    // Lists that never change, and clients are told that they could.
    let (_changes, changed) = tokio::sync::watch::channel(0);
    let server = McpServer::new(Arc::new(Snapshot::new(tools::all()?)?), Arc::new(calls))
        .with_prompts(Arc::new(sources::Fixtures))
        .with_resources(Arc::new(sources::Fixtures))
        .with_changes(changed);
    let http = McpHttp::new(server, CancellationToken::new());
    let app = axum::Router::new().route("/mcp", any(answer)).with_state(http);
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await?;
    println!("http://{}/mcp", listener.local_addr()?);
    axum::serve(listener, app).await?;
    Ok(())
}

async fn answer(State(http): State<McpHttp>, request: Request) -> impl IntoResponse {
    http.handle(request).await.map(axum::body::Body::new)
}
