//! Rows of the table of threats, and the rules of access, over real sockets.

use futures::SinkExt;
use serde_json::json;
use tokio::io::AsyncWriteExt;
use tokio_tungstenite::tungstenite::{Error, Message};
use weft_project::{Project, ProjectOptions};
use weft_server::{ServeError, Server, ServerOptions, Token, TokenChoice};

use crate::common::{ASK, COUNT, PLAIN, SLEEP, events_of, project, seqs, serve, serve_with, write};
use crate::live::Socket;

#[tokio::test(flavor = "multi_thread")]
async fn s11_what_tools_say_is_data_and_the_page_is_strict() {
    let server = serve(&[]);
    let page = server.send("GET", "/", &[("authorization", "")], "").await.expect(200);
    let policy = page.header("content-security-policy").unwrap();
    assert!(policy.contains("default-src 'none'") && policy.contains("script-src 'self'"), "{policy}");
    assert!(!policy.contains("unsafe-eval") && !page.body.contains("<script>"), "{policy}");
    // What is said comes as JSON, and nothing takes it for a page.
    let list = server.get("/api/agents").await.expect(200);
    assert_eq!(list.header("x-content-type-options"), Some("nosniff"));
    assert_eq!(list.header("content-type"), Some("application/json"));
    let odd = "\u{1b}]0;owned\u{7}\u{202e}<img src=x onerror=alert(1)>\r\n\r\nid: 999\ndata: {}\n\n";
    let sleep = serve(&[SLEEP]);
    let run = sleep.begin(&json!({"workflow": "sleep", "inputs": {"value": odd}})).await;
    let answer = sleep.get(&format!("/api/runs/{run}/events")).await.expect(200);
    assert_eq!(answer.header("content-type"), Some("text/event-stream"));
    assert_eq!(answer.header("x-content-type-options"), Some("nosniff"));
    // No control character gets through, so that none ends a line of the stream; the text itself is whole.
    assert!(!answer.body.contains(|char: char| char.is_control() && char != '\n'), "{:?}", answer.body);
    let events = events_of(&answer.body);
    assert_eq!(seqs(&events), (1..=events.len() as u64).collect::<Vec<_>>());
    assert_eq!(events[0]["data"]["inputs"]["value"], odd);
}

#[tokio::test(flavor = "multi_thread")]
async fn s52_no_token_means_the_loopback_only() {
    let folder = project(&[]);
    let bind = |host: &str, token: TokenChoice| {
        let mut options = ProjectOptions::default();
        options.environment = None;
        let project = Project::open(folder.path(), &options).unwrap();
        let mut options = ServerOptions::new(project.settings().server.clone()).with_token(token);
        assert!(options.settings.host.is_loopback(), "the default is the loopback");
        options.settings.host = host.parse().unwrap();
        options.settings.port = 0;
        Server::bind(project, options)
    };
    let refused = bind("0.0.0.0", TokenChoice::Open).err().unwrap();
    assert!(matches!(refused, ServeError::TokenRequired { .. }));
    assert_eq!(refused.code(), "token_required");
    assert!(bind("127.0.0.1", TokenChoice::Open).is_ok());
    write(folder.path(), "weft.toml", "[server]\npublic_url = \"https://weft.example\"\n");
    let refused = bind("127.0.0.1", TokenChoice::Open).err().unwrap();
    assert!(matches!(refused, ServeError::PublicWithoutToken) && refused.code() == "token_required");
    let given = Token::new("a-token-of-my-own").unwrap();
    let server = bind("127.0.0.1", TokenChoice::Given(given.clone())).unwrap();
    assert_eq!(server.token(), Some(&given));
    assert!(!format!("{server:?}").contains(given.reveal()), "the token is not in what is logged");
}

#[tokio::test(flavor = "multi_thread")]
async fn s52_the_token_is_taken_from_the_header_alone() {
    let server = serve(&[PLAIN]);
    let path = format!("/api/runs?token={}", server.token);
    let none = server.send("GET", &path, &[("authorization", "")], "").await.expect(401);
    assert_eq!((none.code(), none.header("www-authenticate")), ("token_required".into(), Some("Bearer")));
    let cookie = format!("token={}", server.token);
    let cookie = [("authorization", ""), ("cookie", cookie.as_str())];
    assert_eq!(server.send("GET", "/api/runs", &cookie, "").await.expect(401).code(), "token_required");
    let wrong = [("authorization", "Bearer 0123456789abcdef")];
    assert_eq!(server.send("GET", "/api/runs", &wrong, "").await.expect(401).code(), "bad_token");
}

#[tokio::test(flavor = "multi_thread")]
async fn s53_other_hosts_and_origins_stay_outside() {
    let server = serve(&[PLAIN]);
    let body = json!({"agent": "plain", "message": "hi"}).to_string();
    for host in ["evil.test", "localhost.evil.test", "127.0.0.1.evil.test"] {
        let answer = server.send("GET", "/", &[("host", host)], "").await.expect(403);
        assert_eq!(answer.code(), "host_refused");
    }
    for origin in ["https://evil.test", "null", "http://localhost.evil.test"] {
        let answer = server.send("POST", "/api/runs", &[("origin", origin)], &body).await.expect(403);
        assert_eq!(answer.code(), "origin_refused");
        let opened = Socket::open(&server, &[("origin", origin)]).await.err().unwrap();
        assert!(matches!(opened, Error::Http(answer) if answer.status() == 403));
    }
    let own = format!("http://{}", server.host());
    server.send("POST", "/api/runs", &[("origin", &own)], &body).await.expect(202);
    assert!(Socket::open(&server, &[("origin", &own)]).await.is_ok());
    // No Origin at all: only with the token.
    server.send("POST", "/api/runs", &[], &body).await.expect(202);
    server.send("POST", "/api/runs", &[("authorization", "")], &body).await.expect(401);
    // Another page learns nothing from what it may not ask.
    let asked = [("origin", "https://evil.test"), ("access-control-request-method", "POST")];
    let preflight = server.send("OPTIONS", "/api/runs", &asked, "").await;
    assert!(preflight.header("access-control-allow-origin").is_none() && preflight.status >= 400);
    let read = server.send("GET", "/api/runs", &[("origin", "https://evil.test")], "").await;
    assert!(read.header("access-control-allow-origin").is_none());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_page_of_ones_own_is_let_in_by_name() {
    let page = "http://localhost:5173";
    let server = serve_with(project(&[]), |options| options.settings.origins = vec![page.to_owned()]);
    let asked = [("origin", page), ("access-control-request-method", "POST"), ("authorization", "")];
    let preflight = server.send("OPTIONS", "/api/runs", &asked, "").await.expect(204);
    assert_eq!(preflight.header("access-control-allow-origin"), Some(page));
    assert!(preflight.header("access-control-allow-headers").unwrap().contains("authorization"));
    let read = server.send("GET", "/api/runs", &[("origin", page)], "").await.expect(200);
    assert_eq!(read.header("access-control-allow-origin"), Some(page));
    server.send("GET", "/api/runs", &[("origin", page), ("authorization", "")], "").await.expect(401);
    assert!(Socket::open(&server, &[("origin", page)]).await.is_ok());
}

#[tokio::test(flavor = "multi_thread")]
async fn s54_a_hostile_socket_meets_limits() {
    let server = serve_with(project(&[ASK]), |options| options.settings.max_subscriptions = 3);
    let mut socket = Socket::hello(&server).await;
    for n in 0..4 {
        let run = server.begin(&json!({"workflow": "ask"})).await;
        server.until(&run, "waiting").await;
        socket.say(&json!({"type": "sub", "run": run})).await;
        let expected = if n < 3 { "live" } else { "error" };
        loop {
            let frame = socket.next().await.unwrap();
            if frame["type"] == expected {
                break;
            }
            assert_eq!(frame["type"], "event");
        }
    }
    // Ten thousand more are refused one by one, and cost nothing that lasts.
    let run = server.begin(&json!({"workflow": "ask"})).await;
    for _ in 0..100 {
        for _ in 0..100 {
            socket.say(&json!({"type": "sub", "run": run})).await;
        }
        for _ in 0..100 {
            let refused = socket.next().await.unwrap();
            assert_eq!(refused["code"], "too_many_subscriptions", "{refused}");
        }
    }
    // A message that is too long ends the socket, and nothing else.
    let _ = socket.0.send(Message::text("x".repeat(2 << 20))).await;
    while socket.next().await.is_some() {}
    // One that only says that it has a hundred megabytes ends it before any of them has come.
    let mut socket = Socket::hello(&server).await;
    let length = 100_000_000_u64.to_be_bytes();
    let head = [&[0x82, 0xff][..], &length, &[0; 4]].concat();
    socket.0.get_mut().write_all(&head).await.unwrap();
    assert_eq!(socket.next().await, None);
    server.get("/api/meta").await.expect(200);
}

#[tokio::test(flavor = "multi_thread")]
async fn s55_ids_are_unguessable_and_runs_keep_apart() {
    let server = serve(&[PLAIN]);
    let path = |thread: &str| format!("/api/chat/plain/threads/{thread}/messages");
    let mut runs = Vec::new();
    for thread in ["a", "b"] {
        let secret = format!("the secret of {thread}");
        let run = server.post(&path(thread), &json!({"text": secret})).await.expect(202).json();
        runs.push(run["run"].as_str().unwrap().to_owned());
    }
    for run in &runs {
        server.until(run, "ok").await;
        // 128 random bits behind the time to the millisecond.
        let (time, random) = run.split_once('-').unwrap();
        assert_eq!((time.len(), random.len()), (12, 32));
    }
    for (own, other) in [("a", "b"), ("b", "a")] {
        let said = server.get(&path(own)).await.expect(200).body;
        assert!(said.contains(&format!("the secret of {own}")));
        assert!(!said.contains(&format!("the secret of {other}")));
    }
    // What is not there and what one may not see look the same.
    let guessed = format!("{}-{}", runs[0].split_once('-').unwrap().0, "0123456789abcdef".repeat(2));
    for path in ["", "/events", "/cancel", "/resume", "/fork"] {
        let method = if matches!(path, "" | "/events") { "GET" } else { "POST" };
        let answer = server.send(method, &format!("/api/runs/{guessed}{path}"), &[], "").await.expect(404);
        assert_eq!(answer.code(), "unknown_run");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn s55_an_answer_reaches_its_own_run_alone() {
    let server = serve(&[ASK]);
    let mut asks = Vec::new();
    for _ in 0..2 {
        let run = server.begin(&json!({"workflow": "ask"})).await;
        let shown = server.until(&run, "waiting").await;
        asks.push((run, shown["asks"][0]["ask"].as_str().unwrap().to_owned()));
    }
    let (one, other) = (&asks[0], &asks[1]);
    server.post(&format!("/api/asks/{}.{}", one.0, one.1), &json!({"answer": "red"})).await.expect(202);
    server.until(&one.0, "ok").await;
    let waits = server.get(&format!("/api/runs/{}", other.0)).await.json();
    assert_eq!((&waits["status"], waits["asks"].as_array().unwrap().len()), (&json!("waiting"), 1));
    // It is answered once, and a question of nobody is not there.
    let again = server.post(&format!("/api/asks/{}.{}", one.0, one.1), &json!({"answer": "blue"})).await;
    assert!(matches!(again.status, 404 | 409), "{again:?}");
    let none = server.post(&format!("/api/asks/{}.nope", other.0), &json!({"answer": "blue"})).await;
    assert_eq!((none.status, none.code()), (404, "unknown_ask".into()));
}

#[tokio::test(flavor = "multi_thread")]
async fn s56_names_of_conversations_are_names() {
    let server = serve(&[PLAIN]);
    let (long, huge) = ("x".repeat(200), "x".repeat(60_000));
    for name in ["..%2fx", "a%2fb", "..", "%00", "a%20b", ".hidden", &long, &huge] {
        let path = format!("/api/chat/plain/threads/{name}/messages");
        let answer = server.post(&path, &json!({"text": "hi"})).await;
        assert!(matches!(answer.status, 400 | 404 | 414 | 431), "{name}: {answer:?}");
    }
    let body = json!({"agent": "plain", "message": "hi", "thread": "../../etc/passwd"});
    assert_eq!(server.post("/api/runs", &body).await.expect(400).code(), "bad_thread");
    let fine = "/api/chat/plain/threads/%E8%B0%88%E8%AF%9D-1/messages";
    server.post(fine, &json!({"text": "hi"})).await.expect(202);
}

#[tokio::test(flavor = "multi_thread")]
async fn s57_clients_send_no_results() {
    let server = serve(&[ASK]);
    let run = server.begin(&json!({"workflow": "ask"})).await;
    server.until(&run, "waiting").await;
    let mut socket = Socket::hello(&server).await;
    for frame in [
        json!({"type": "tool_result", "id": "c1", "value": 42}),
        json!({"type": "approve", "ask": "c1"}),
        json!({"type": "event", "run": run, "event": {"type": "run.finished"}}),
    ] {
        socket.say(&frame).await;
        let refused = socket.next().await.unwrap();
        assert_eq!((&refused["type"], &refused["code"]), (&json!("error"), &json!("bad_frame")));
    }
    assert_eq!(server.get(&format!("/api/runs/{run}")).await.json()["status"], "waiting");
}

#[tokio::test(flavor = "multi_thread")]
async fn nothing_is_heard_before_hello() {
    let server = serve(&[ASK]);
    let run = server.begin(&json!({"workflow": "ask"})).await;
    for first in [
        json!({"type": "sub", "run": run}),
        json!({"type": "hello", "token": "0123456789abcdef"}),
        json!({"type": "hello"}),
    ] {
        let mut socket = Socket::open(&server, &[]).await.unwrap();
        socket.say(&first).await;
        assert_eq!(socket.next().await.unwrap()["type"], "error");
        assert_eq!(socket.next().await, None);
    }
    // The token may also come with the request.
    let bearer = format!("Bearer {}", server.token);
    let mut socket = Socket::open(&server, &[("authorization", &bearer)]).await.unwrap();
    assert_eq!(socket.next().await.unwrap()["type"], "hello");
}

#[tokio::test(flavor = "multi_thread")]
async fn s31_paths_stay_inside_the_project() {
    let server = serve(&[COUNT]);
    let outside = server.folder.path().parent().unwrap().join("weft-outside.json");
    let body = json!({"nodes": [], "edges": []}).to_string();
    for id in [
        "..%2fweft-outside",
        "..%2f..%2fetc%2fpasswd",
        "%2fetc%2fpasswd",
        "a%2f..%2f..%2fweft-outside",
        "a%5cb",
        ".git%2fx",
        "a%00b",
    ] {
        let path = format!("/api/workflows/{id}");
        let read = server.get(&path).await;
        assert_eq!(read.status, 404, "{id}: {read:?}");
        let saved = server.send("PUT", &path, &[("if-none-match", "*")], &body).await;
        assert_eq!((saved.status, saved.code()), (400, "bad_workflow_id".into()), "{id}");
    }
    assert!(!outside.exists());
    for path in ["/../Cargo.toml", "/..%2fCargo.toml", "/%2e%2e/Cargo.toml", "/assets/../index.html"] {
        assert_eq!(server.get(path).await.status, 404, "{path}");
    }
}

#[cfg(unix)]
#[tokio::test(flavor = "multi_thread")]
async fn s32_a_save_follows_no_link_out_of_the_project() {
    let server = serve(&[COUNT]);
    let elsewhere = tempfile::tempdir().unwrap();
    std::os::unix::fs::symlink(elsewhere.path(), server.folder.path().join("workflows/out")).unwrap();
    let body = json!({"nodes": [], "edges": []}).to_string();
    let saved = server.send("PUT", "/api/workflows/out%2fx", &[("if-none-match", "*")], &body).await;
    assert_eq!((saved.status, saved.code()), (400, "bad_workflow_id".into()));
    assert_eq!(std::fs::read_dir(elsewhere.path()).unwrap().count(), 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn s50_secrets_reach_no_client() {
    let secret = "S3CR3T-in-a-file-of-its-own";
    let toml = "[store]\nsync = \"normal\"\n[models.default]\nprovider = \"openai\"\nmodel = \"m\"\nretries = 0\n\
        base_url = \"http://127.0.0.1:9\"\napi_key_file = \"key\"\n";
    let server = serve(&[PLAIN, ("weft.toml", toml), ("key", secret)]);
    // A person may even write it: what is kept and shown has it masked.
    let run = server.begin(&json!({"agent": "plain", "message": format!("is it {secret}?")})).await;
    let events = json!(server.events(&run).await).to_string();
    assert!(events.contains("is it ***?") || !events.contains("is it"), "{events}");
    let shown = server.get(&format!("/api/runs/{run}")).await.body;
    for text in [&events, &shown, &server.get("/api/openapi.json").await.body] {
        assert!(!text.contains(secret) && !text.contains(&server.token));
    }
}
