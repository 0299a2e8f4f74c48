//! The two halves against each other, over real sockets.
#![expect(clippy::unwrap_used, reason = "helpers of tests: a wrong case may panic")]

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use agent_types::{
    ApprovalDefault, Budget, BudgetLimits, CallId, Clock, Delivery, EventBody, EventLocation, Recorder,
    RunId, SystemClock,
};
use axum::extract::{Request, State};
use axum::response::IntoResponse;
use mcp_bridge::{McpClients, McpError, McpHttp, McpServer, McpSettings, MemoryCalls, MemoryPins, PinStore};
use serde_json::{Value, json};
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;
use tool_registry::{CallEnd, Registry, Services, Snapshot, Tool, ToolContext, ToolError, ToolSource};

/// A registry served over HTTP, and clients of it.
struct Bridge {
    registry: Arc<Registry>,
    clients: Arc<McpClients>,
    pins: Arc<dyn PinStore>,
    changes: tokio::sync::watch::Sender<u64>,
    address: String,
    cancelled: CancellationToken,
    served: JoinSet<()>,
}

fn clock() -> Arc<dyn Clock> {
    Arc::new(SystemClock)
}

fn echo(description: &str) -> Tool {
    #[derive(serde::Deserialize, schemars::JsonSchema)]
    struct Said {
        text: String,
    }
    Tool::func("say:echo", description, |Said { text }, _| async move { text }).unwrap()
}

/// Waits until it is cancelled, and says so.
fn patient(cancelled: CancellationToken) -> Tool {
    #[derive(serde::Deserialize, schemars::JsonSchema)]
    struct Nothing {}
    Tool::try_func("wait", "Waits.", move |Nothing {}, cx: ToolContext| {
        let cancelled = cancelled.clone();
        async move {
            cx.emit(EventBody::NodeProgress {
                message: Some("waiting".into()),
                value: Some(1.0),
                max: Some(2.0),
            });
            let _told = cancelled.drop_guard();
            cx.cancel.cancelled().await;
            Err::<Value, _>(ToolError::failed("given up"))
        }
    })
    .unwrap()
}

async fn answer(State(http): State<McpHttp>, request: Request) -> impl IntoResponse {
    http.handle(request).await.map(axum::body::Body::new)
}

async fn serve(server: McpServer, at: &str) -> (String, JoinSet<()>) {
    let http = McpHttp::new(server, CancellationToken::new());
    let app = axum::Router::new().route("/mcp", axum::routing::any(answer)).with_state(http);
    let listener = tokio::net::TcpListener::bind(at).await.unwrap();
    let address = listener.local_addr().unwrap().to_string();
    let mut served = JoinSet::new();
    served.spawn(async move { axum::serve(listener, app).await.unwrap() });
    (address, served)
}

fn clients(address: &str, pins: &Arc<dyn PinStore>, version: &str) -> Arc<McpClients> {
    let settings = McpSettings {
        url: Some(format!("http://{address}/mcp")),
        protocol_version: version.to_owned(),
        start_timeout_ms: 5000,
        ..McpSettings::default()
    };
    McpClients::new(&BTreeMap::from([("own".to_owned(), settings)]), Path::new("."), &clock(), pins)
}

async fn bridge() -> Bridge {
    let registry = Arc::new(Registry::new());
    let cancelled = CancellationToken::new();
    registry.register(echo("Says it again.")).unwrap();
    registry.register(patient(cancelled.clone())).unwrap();
    let calls = MemoryCalls::new(clock(), Services::new());
    let (changes, changed) = tokio::sync::watch::channel(0);
    let source: Arc<dyn ToolSource> = registry.clone();
    let (address, served) =
        serve(McpServer::new(source, Arc::new(calls)).with_changes(changed), "127.0.0.1:0").await;
    let pins: Arc<dyn PinStore> = Arc::new(MemoryPins::default());
    let clients = clients(&address, &pins, "2025-11-25");
    Bridge { registry, clients, pins, changes, address, cancelled, served }
}

/// Off the test's own threads, as callers of async code must.
async fn tool(clients: &Arc<McpClients>, id: &str) -> Result<Tool, McpError> {
    let (clients, id) = (Arc::clone(clients), id.to_owned());
    tokio::task::spawn_blocking(move || clients.tool(&id)).await.unwrap()
}

fn context(tool: &Tool) -> (ToolContext, Arc<Recorder>) {
    let recorder = Recorder::new(RunId::generate(), clock());
    let budget = Budget::new(BudgetLimits::default());
    let sink = Arc::clone(&recorder) as Arc<dyn agent_types::EventSink>;
    (
        ToolContext::new(
            CallId::new("c1"),
            tool.id().clone(),
            clock(),
            budget,
            sink,
            EventLocation::default(),
        ),
        recorder,
    )
}

async fn call(tool: &Tool, arguments: Value) -> CallEnd {
    let arguments = arguments.as_object().unwrap().clone();
    tool.invoke(arguments, context(tool).0).await.end
}

#[tokio::test(flavor = "multi_thread")]
async fn a_tool_goes_there_and_back() {
    let bridge = bridge().await;
    let echo = tool(&bridge.clients, "mcp:own/say__echo").await.unwrap();
    assert_eq!((echo.kind(), echo.definition().description.as_str()), (mcp_bridge::MCP, "Says it again."));
    let CallEnd::Ok(said) = call(&echo, json!({"text": "hé<ACTION>"})).await else {
        unreachable!("it answers")
    };
    assert_eq!(said.text(), "hé<ACTION>");
    let missing = tool(&bridge.clients, "mcp:own/say__ecko").await.unwrap_err();
    assert!(matches!(missing, McpError::UnknownTool { near: Some(near), .. } if near == "mcp:own/say__echo"));
    let missing = tool(&bridge.clients, "mcp:onw/x").await.unwrap_err();
    assert!(matches!(missing, McpError::UnknownServer { near: Some(near), .. } if near == "own"));
}

#[tokio::test(flavor = "multi_thread")]
async fn newer_and_older_versions_are_spoken() {
    let bridge = bridge().await;
    for version in ["2025-06-18", "2026-07-28"] {
        let clients = clients(&bridge.address, &bridge.pins, version);
        let echo = tool(&clients, "mcp:own/say__echo").await.unwrap();
        let CallEnd::Ok(said) = call(&echo, json!({"text": version})).await else {
            unreachable!("{version}")
        };
        assert_eq!(said.text(), version);
    }
    let clients = clients(&bridge.address, &bridge.pins, "1999-01-01");
    let refused = tool(&clients, "mcp:own/say__echo").await.unwrap_err();
    assert_eq!(refused.code(), "bad_mcp_settings");
}

#[tokio::test(flavor = "multi_thread")]
async fn arguments_that_do_not_fit_are_told_to_the_model() {
    let bridge = bridge().await;
    let echo = tool(&bridge.clients, "mcp:own/say__echo").await.unwrap();
    let CallEnd::Failed(error) = call(&echo, json!({"txt": 1})).await else { unreachable!("it fails") };
    assert_eq!(error.code, Some("mcp_tool_error"));
    assert!(error.message_for_model.contains("did you mean 'text'?"), "{error}");
}

#[tokio::test(flavor = "multi_thread")]
async fn progress_and_cancel_are_passed_on() {
    let bridge = bridge().await;
    let wait = tool(&bridge.clients, "mcp:own/wait").await.unwrap();
    let (cx, recorder) = context(&wait);
    let mut watcher = recorder.subscribe(100);
    let cancel = cx.cancel.clone();
    let mut calls = JoinSet::new();
    calls.spawn(async move { wait.invoke(serde_json::Map::new(), cx).await.end });
    let Some(Delivery::Events(events)) = watcher.next().await else { unreachable!("progress is told") };
    let expected =
        EventBody::NodeProgress { message: Some("waiting".into()), value: Some(1.0), max: Some(2.0) };
    assert_eq!(events[0].body, expected);
    cancel.cancel();
    let end = calls.join_next().await.unwrap().unwrap();
    assert_eq!(end.code(), "cancelled");
    // The tool over there hears of it.
    bridge.cancelled.cancelled().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_call_that_is_dropped_is_given_up_over_there() {
    let bridge = bridge().await;
    let wait = tool(&bridge.clients, "mcp:own/wait").await.unwrap();
    let (cx, recorder) = context(&wait);
    let mut watcher = recorder.subscribe(100);
    let mut calls = JoinSet::new();
    calls.spawn(async move { wait.invoke(serde_json::Map::new(), cx).await.end });
    watcher.next().await.unwrap();
    calls.shutdown().await;
    bridge.cancelled.cancelled().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_list_that_changes_is_followed() {
    let bridge = bridge().await;
    let echo = tool(&bridge.clients, "mcp:own/say__echo").await.unwrap();
    assert_eq!(echo.approval(), ApprovalDefault::Ask, "it says nothing of how it behaves");
    let wait = tool(&bridge.clients, "mcp:own/wait").await.unwrap();
    let followed = bridge.clients.follow(Arc::new(Snapshot::new([echo.clone(), wait]).unwrap()));
    let before = followed.snapshot();
    assert!(before.is_same(&followed.snapshot()));
    bridge.registry.replace([echo_id(), wait_id()].iter(), [echo_changed()]).unwrap();
    bridge.changes.send_modify(|version| *version += 1);
    for _ in 0..200 {
        let now = followed.snapshot();
        if !now.is_same(&before) {
            let change = before.change_to(&now);
            assert_eq!((change.changed.len(), change.removed.len()), (1, 1));
            let tool = now.get("mcp:own/say__echo").unwrap();
            // It is read-only now, and still must be approved: it is not what it was.
            assert_eq!(tool.approval(), ApprovalDefault::Ask);
            return;
        }
        clock().sleep(Duration::from_millis(20)).await;
    }
    unreachable!("the change was never heard of");
}

fn echo_id() -> agent_types::ToolId {
    "say:echo".parse().unwrap()
}

fn wait_id() -> agent_types::ToolId {
    "wait".parse().unwrap()
}

fn echo_changed() -> Tool {
    let hints = agent_types::Annotations { read_only: true, ..agent_types::Annotations::default() };
    echo("Says it again, and to others.").with_annotations(hints)
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_that_comes_back_is_reached_again() {
    let mut bridge = bridge().await;
    let echo = tool(&bridge.clients, "mcp:own/say__echo").await.unwrap();
    bridge.served.shutdown().await;
    let CallEnd::Failed(error) = call(&echo, json!({"text": "x"})).await else { unreachable!("it is gone") };
    assert!(error.code.is_some_and(|code| code.starts_with("mcp_")), "{error:?}");
    let source: Arc<dyn ToolSource> = bridge.registry.clone();
    let server = McpServer::new(source, Arc::new(MemoryCalls::new(clock(), Services::new())));
    let (_, _served) = serve(server, &bridge.address).await;
    for _ in 0..50 {
        if matches!(call(&echo, json!({"text": "back"})).await, CallEnd::Ok(said) if said.text() == "back") {
            return;
        }
        clock().sleep(Duration::from_millis(100)).await;
    }
    unreachable!("it was never reached again");
}

/// A server over stdio that answers one call with its process id and ends.
#[cfg(unix)]
const ONE_CALL: &str = r#"
while read -r line; do
  id=${line##*\"id\":}; id=${id%%[,\}]*}
  case $line in
    *'"initialize"'*) r='{"protocolVersion":"2025-11-25","capabilities":{"tools":{}},"serverInfo":{"name":"s","version":"1"}}' ;;
    *'"tools/list"'*) r='{"tools":[{"name":"pid","description":"Says who it is.","inputSchema":{"type":"object"}}]}' ;;
    *'"tools/call"'*) r='{"content":[{"type":"text","text":"'$$'"}]}' ;;
    *) continue ;;
  esac
  printf '{"jsonrpc":"2.0","id":%s,"result":%s}\n' "$id" "$r"
  case $line in *'"tools/call"'*) exit ;; esac
done
"#;

#[cfg(unix)]
#[tokio::test(flavor = "multi_thread")]
async fn a_program_that_ended_is_started_again() {
    let settings = McpSettings {
        command: Some("sh".to_owned()),
        args: vec!["-c".to_owned(), ONE_CALL.to_owned()],
        start_timeout_ms: 5000,
        ..McpSettings::default()
    };
    let pins: Arc<dyn PinStore> = Arc::new(MemoryPins::default());
    let servers = BTreeMap::from([("once".to_owned(), settings)]);
    let clients = McpClients::new(&servers, Path::new("."), &clock(), &pins);
    let pid = tool(&clients, "mcp:once/pid").await.unwrap();
    let mut texts = Vec::new();
    // A call may come before it is seen that the program has ended, and fails then.
    for _ in 0..50 {
        if let CallEnd::Ok(said) = call(&pid, json!({})).await {
            texts.push(said.text());
        }
        if texts.len() == 2 {
            assert_ne!(texts[0], texts[1]);
            return;
        }
        clock().sleep(Duration::from_millis(50)).await;
    }
    unreachable!("it was never started again: {texts:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn programs_that_do_not_start_are_left_alone_for_a_while() {
    let settings = |command: &str| McpSettings {
        command: Some(command.to_owned()),
        start_timeout_ms: 3000,
        ..McpSettings::default()
    };
    let servers = BTreeMap::from([
        ("none".to_owned(), settings("/no/such/program")),
        ("dumb".to_owned(), settings("true")),
        ("both".to_owned(), McpSettings { url: Some("http://127.0.0.1:9".into()), ..settings("true") }),
    ]);
    let pins: Arc<dyn PinStore> = Arc::new(MemoryPins::default());
    let clients = McpClients::new(&servers, Path::new("."), &clock(), &pins);
    for (server, code) in
        [("none", "mcp_start_failed"), ("dumb", "mcp_start_failed"), ("both", "bad_mcp_settings")]
    {
        assert_eq!(tool(&clients, &format!("mcp:{server}/x")).await.unwrap_err().code(), code, "{server}");
    }
    let mut codes = Vec::new();
    for _ in 0..6 {
        codes.push(tool(&clients, "mcp:none/x").await.unwrap_err().code());
    }
    assert_eq!(codes.last(), Some(&"mcp_down"), "{codes:?}");
}

/// A server over HTTP that answers each method with a status, a type and a text; `$id` is the id of the request.
async fn odd_server(
    answers: &'static [(&'static str, u16, &'static str, &'static str)],
) -> (String, JoinSet<()>) {
    let answer = move |body: String| async move {
        let message: Value = serde_json::from_str(&body).unwrap();
        let method = message["method"].as_str().unwrap_or_default();
        let (status, media, text) = match answers.iter().find(|(name, ..)| *name == method) {
            Some((_, status, media, text)) => (*status, *media, *text),
            None if method == "initialize" => (200, "application/json", INITIALIZED),
            None if method == "tools/list" => (200, "application/json", TOOLS),
            None => (202, "text/plain", ""),
        };
        let text = text.replace("$id", &message["id"].to_string());
        let status = axum::http::StatusCode::from_u16(status).unwrap();
        (status, [("content-type", media)], text)
    };
    let app = axum::Router::new().route("/mcp", axum::routing::post(answer));
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap().to_string();
    let mut served = JoinSet::new();
    served.spawn(async move { axum::serve(listener, app).await.unwrap() });
    (address, served)
}

const INITIALIZED: &str = r#"{"jsonrpc":"2.0","id":$id,"result":{"protocolVersion":"2025-11-25","capabilities":{"tools":{}},"serverInfo":{"name":"s","version":"1"}}}"#;
const TOOLS: &str = r#"{"jsonrpc":"2.0","id":$id,"result":{"tools":[{"name":"look","inputSchema":{"type":"object"}},{"name":"odd"}]}}"#;

#[tokio::test(flavor = "multi_thread")]
async fn what_comes_on_a_call_ends_it_at_once() {
    let pins: Arc<dyn PinStore> = Arc::new(MemoryPins::default());
    for (answers, expected) in [
        (
            &[(
                "tools/call",
                200,
                "application/json",
                r#"{"jsonrpc":"2.0","id":null,"error":{"code":-32000,"message":"we are closed"}}"#,
            )],
            "we are closed",
        ),
        (
            &[(
                "tools/call",
                400,
                "application/json",
                r#"{"jsonrpc":"2.0","id":"other","error":{"code":-32000,"message":"no such boat"}}"#,
            )],
            "no such boat",
        ),
        (&[("tools/call", 503, "text/plain", "back at noon")], "back at noon"),
        (&[("tools/call", 202, "text/plain", "")], "gave no answer"),
        (&[("tools/call", 200, "text/event-stream", ": nothing\n\n")], "ended before its answer"),
    ] {
        let (address, _served) = odd_server(answers).await;
        let clients = clients(&address, &pins, "2025-11-25");
        let look = tool(&clients, "mcp:own/look").await.unwrap();
        let CallEnd::Failed(error) = call(&look, json!({})).await else { unreachable!("{expected}") };
        assert!(error.message_for_model.contains(expected), "{expected}: {error:?}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_mark_is_no_part_of_a_message_and_an_odd_tool_costs_itself() {
    let answers = &[(
        "tools/call",
        200,
        "application/json",
        "\u{feff}{\"jsonrpc\":\"2.0\",\"id\":$id,\"result\":{\"content\":[{\"type\":\"hologram\"},{\"type\":\"text\",\"text\":\"three boats\"}]}}",
    )];
    let pins: Arc<dyn PinStore> = Arc::new(MemoryPins::default());
    let (address, _served) = odd_server(answers).await;
    let clients = clients(&address, &pins, "2025-11-25");
    let look = tool(&clients, "mcp:own/look").await.unwrap();
    let CallEnd::Ok(said) = call(&look, json!({})).await else { unreachable!("it answers") };
    assert_eq!(said.text(), "three boats");
    let odd = tool(&clients, "mcp:own/odd").await.unwrap_err();
    assert!(odd.code() == "bad_mcp_tool" && odd.to_string().contains("inputSchema"), "{odd}");
}
