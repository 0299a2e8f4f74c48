//! Events as they come, and what happens to those who lose the thread.

use futures::{SinkExt, StreamExt};
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio_tungstenite::tungstenite::Message;
use tokio_tungstenite::tungstenite::client::IntoClientRequest;
use tokio_tungstenite::{MaybeTlsStream, WebSocketStream};

use crate::common::{ASK, COUNT, PLAIN, Running, SLEEP, events_of, project, seqs, serve, serve_with};
use crate::http::{request, without_chunks};

/// A socket of a client.
pub(crate) struct Socket(pub(crate) WebSocketStream<MaybeTlsStream<TcpStream>>);

impl Socket {
    /// Opens one, with the headers of a browser or without.
    pub(crate) async fn open(
        server: &Running,
        headers: &[(&'static str, &str)],
    ) -> Result<Self, tokio_tungstenite::tungstenite::Error> {
        Self::open_at(server, "/ws", headers).await
    }

    /// Opens one at a path.
    pub(crate) async fn open_at(
        server: &Running,
        path: &str,
        headers: &[(&'static str, &str)],
    ) -> Result<Self, tokio_tungstenite::tungstenite::Error> {
        let mut request = format!("ws://{}{path}", server.address).into_client_request()?;
        for (name, value) in headers {
            request.headers_mut().insert(*name, value.parse().unwrap());
        }
        let (socket, _) = tokio_tungstenite::connect_async(request).await?;
        Ok(Self(socket))
    }

    /// Opens one and says hello.
    pub(crate) async fn hello(server: &Running) -> Self {
        let mut socket = Self::open(server, &[]).await.unwrap();
        socket.say(&json!({"type": "hello", "token": server.token})).await;
        assert_eq!(socket.next().await.unwrap()["type"], "hello");
        socket
    }

    pub(crate) async fn say(&mut self, frame: &Value) {
        self.0.send(Message::text(frame.to_string())).await.unwrap();
    }

    /// The next frame; none when the other side has closed.
    pub(crate) async fn next(&mut self) -> Option<Value> {
        loop {
            match self.0.next().await? {
                Ok(Message::Text(text)) => return Some(serde_json::from_str(&text).unwrap()),
                Ok(Message::Close(_)) | Err(_) => return None,
                Ok(_) => {}
            }
        }
    }

    /// Frames up to and including the first of this type, or with an event of it.
    async fn until(&mut self, kind: &str) -> Vec<Value> {
        let mut frames = Vec::new();
        while let Some(frame) = self.next().await {
            let is_it = frame["type"] == kind || frame["event"]["type"] == kind;
            frames.push(frame);
            if is_it {
                break;
            }
        }
        frames
    }
}

fn events(frames: &[Value]) -> Vec<Value> {
    frames.iter().filter(|frame| frame["type"] == "event").map(|frame| frame["event"].clone()).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn whoever_follows_a_run_that_begins_misses_nothing() {
    let server = serve(&[ASK]);
    let mut socket = Socket::hello(&server).await;
    for _ in 0..30 {
        let run = server.begin(&json!({"workflow": "ask", "inputs": {}})).await;
        socket.say(&json!({"type": "sub", "run": run})).await;
        let frames = socket.until("run.waiting").await;
        let seen = events(&frames);
        assert_eq!(seqs(&seen), (1..=seen.len() as u64).collect::<Vec<_>>());
        assert!(frames.iter().all(|frame| frame["type"] != "lag"), "{frames:?}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_socket_tells_what_was_and_then_what_happens() {
    let server = serve(&[SLEEP, COUNT]);
    let ended = server.begin(&json!({"workflow": "count", "inputs": {"n": 3}})).await;
    let whole = server.events(&ended).await;
    let at_work = server.begin(&json!({"workflow": "sleep", "inputs": {"value": "x"}})).await;
    let mut socket = Socket::hello(&server).await;
    socket.say(&json!({"type": "sub", "run": ended, "after_seq": 4})).await;
    let frames = socket.until("run.finished").await;
    assert_eq!(events(&frames), whole[4..]);
    socket.say(&json!({"type": "sub", "run": at_work})).await;
    let frames = socket.until("run.finished").await;
    let live = frames.iter().position(|frame| frame["type"] == "live").unwrap();
    assert_eq!(frames[live]["seq"], json!(live));
    assert_eq!(events(&frames), server.events(&at_work).await);
    let said = json!({"type": "say", "agent": "plain", "thread": "t", "text": "hi", "message_id": ""});
    socket.say(&said).await;
    assert_eq!(socket.next().await.unwrap()["code"], "bad_message_id");
    socket.say(&json!({"type": "sub", "run": "r1"})).await;
    let error = socket.next().await.unwrap();
    assert_eq!((&error["type"], &error["code"]), (&json!("error"), &json!("unknown_run")));
}

#[tokio::test(flavor = "multi_thread")]
async fn whoever_has_all_of_an_ended_run_hears_the_end() {
    let server = serve_with(project(&[COUNT]), |options| options.settings.max_subscriptions = 1);
    let run = server.begin(&json!({"workflow": "count", "inputs": {"n": 3}})).await;
    let last = *seqs(&server.events(&run).await).last().unwrap();
    let mut socket = Socket::hello(&server).await;
    for after in [last, last + 1, 1_000_000] {
        let answer = server.get(&format!("/api/runs/{run}/events?after_seq={after}")).await.expect(200);
        assert!(events_of(&answer.body).is_empty(), "{}", answer.body);
        let (path, last) = (format!("/api/runs/{run}/events"), after.to_string());
        server.send("GET", &path, &[("last-event-id", &last)], "").await.expect(204);
        socket.say(&json!({"type": "sub", "run": run, "after_seq": after})).await;
        assert_eq!(socket.next().await.unwrap()["type"], "live");
    }
    // What is over takes no place among the runs that a socket follows.
    let other = server.begin(&json!({"workflow": "count", "inputs": {"n": 3}})).await;
    socket.say(&json!({"type": "sub", "run": other})).await;
    let frames = socket.until("run.finished").await;
    // One that has just begun may be live before its first event.
    assert_eq!(events(&frames), server.events(&other).await);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_run_that_waits_is_followed_when_it_goes_on() {
    let server = serve(&[ASK]);
    let run = server.begin(&json!({"workflow": "ask"})).await;
    let mut socket = Socket::hello(&server).await;
    socket.say(&json!({"type": "sub", "run": run})).await;
    let mut frames = socket.until("run.waiting").await;
    let waiting = events(&frames).pop().unwrap();
    let ask = waiting["data"]["asks"][0]["ask"].as_str().unwrap();
    server.post(&format!("/api/asks/{run}.{ask}"), &json!({"answer": "red"})).await.expect(202);
    frames.extend(socket.until("run.finished").await);
    let seen = seqs(&events(&frames));
    assert_eq!(seen, (1..=seen.len() as u64).collect::<Vec<_>>());
}

/// Reads a stream of events and goes away after so many bytes.
async fn read_some(server: &Running, run: &str, after: u64, bytes: usize) -> Vec<Value> {
    let (host, bearer) = (server.host(), format!("Bearer {}", server.token));
    let last = after.to_string();
    let mut headers = vec![("host", host.as_str()), ("authorization", bearer.as_str())];
    // A browser that comes back says so in a header.
    if after > 0 {
        headers.push(("last-event-id", last.as_str()));
    }
    let mut stream = TcpStream::connect(server.address).await.unwrap();
    let asked = request("GET", &format!("/api/runs/{run}/events"), &headers, "");
    stream.write_all(&asked).await.unwrap();
    let mut answer = vec![0; bytes];
    let mut read = 0;
    while read < bytes {
        match stream.read(&mut answer[read..]).await.unwrap() {
            0 => break,
            more => read += more,
        }
    }
    drop(stream);
    answer.truncate(read);
    let Some(head) = answer.windows(4).position(|bytes| bytes == b"\r\n\r\n") else { return Vec::new() };
    let text = String::from_utf8_lossy(&without_chunks(&answer[head + 4..])).into_owned();
    // The last event may be cut.
    events_of(text.rsplit_once("\n\n").map_or("", |(whole, _)| whole))
}

/// Numbers that look random and are the same every time.
fn random(state: &mut u64) -> usize {
    *state ^= *state << 13;
    *state ^= *state >> 7;
    *state ^= *state << 17;
    usize::try_from(*state % 4000).unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_thousand_cuts_lose_and_double_nothing() {
    let server = serve(&[COUNT]);
    let run = server.begin(&json!({"workflow": "count", "inputs": {"n": 4000}})).await;
    let (mut cuts, mut state, mut seen) = (0, 7, Vec::new());
    let mut last = 0;
    // Cut while it goes on, and again from its beginning when it has ended.
    while cuts < 1000 {
        let events = read_some(&server, &run, last, 400 + random(&mut state)).await;
        cuts += 1;
        seen.extend(seqs(&events));
        last = seen.last().copied().unwrap_or(0);
        if events.iter().any(|event| event["type"] == "run.finished") {
            assert_eq!(seen, (1..=last).collect::<Vec<_>>());
            (seen, last) = (Vec::new(), 0);
        }
    }
    assert_eq!(seen, (1..=last).collect::<Vec<_>>());
    let whole = seqs(&server.events(&run).await);
    assert_eq!(whole, (1..=whole.len() as u64).collect::<Vec<_>>());
}

/// Counts slowly, so that it runs while subscribers come and go.
fn slow_count() -> String {
    let loops = r#"{"id": "add", "type": "core:Expression","#;
    let wait = r#"{"id": "wait", "type": "core:Delay", "parentNode": "loop", "configValues": {"ms": 4}}, "#;
    let edge = r#"{"source": "s", "sourceHandle": "i", "target": "add", "targetHandle": "i"}"#;
    let edges = r#"{"source": "s", "sourceHandle": "i", "target": "wait", "targetHandle": "value"},
        {"source": "wait", "sourceHandle": "value", "target": "add", "targetHandle": "i"}"#;
    COUNT.1.replace(loops, &format!("{wait}{loops}")).replace(edge, edges)
}

#[tokio::test(flavor = "multi_thread")]
async fn cuts_while_it_happens_lose_and_double_nothing() {
    let server = serve(&[("workflows/count.json", &slow_count())]);
    let run = server.begin(&json!({"workflow": "count", "inputs": {"n": 300}})).await;
    let (mut cuts, mut state, mut seen) = (0, 11, Vec::new());
    let mut is_over = false;
    while !is_over {
        let after = seen.last().copied().unwrap_or(0);
        let received = if cuts % 2 == 0 {
            read_some(&server, &run, after, 400 + random(&mut state)).await
        } else {
            let mut socket = Socket::hello(&server).await;
            socket.say(&json!({"type": "sub", "run": run, "after_seq": after})).await;
            let mut frames = Vec::new();
            for _ in 0..=random(&mut state) % 20 {
                let Some(frame) = socket.next().await else { break };
                let is_last = frame["event"]["type"] == "run.finished";
                assert_ne!(frame["type"], "lag", "whoever comes back in time has missed nothing: {frame}");
                frames.push(frame);
                if is_last {
                    break;
                }
            }
            events(&frames)
        };
        cuts += 1;
        is_over = received.iter().any(|event| event["type"] == "run.finished");
        seen.extend(seqs(&received));
    }
    assert!(cuts > 50, "{cuts} cuts");
    assert_eq!(seen, (1..=seen.len() as u64).collect::<Vec<_>>());
    assert_eq!(seen, seqs(&server.events(&run).await));
}

#[tokio::test(flavor = "multi_thread")]
async fn runs_that_end_while_somebody_comes_are_told_to_their_end() {
    let server = std::sync::Arc::new(serve(&[COUNT]));
    let mut readers = tokio::task::JoinSet::new();
    for at in 0..300 {
        let server = std::sync::Arc::clone(&server);
        readers.spawn(async move {
            let run = server.begin(&json!({"workflow": "count", "inputs": {"n": at % 7}})).await;
            let all = server.events(&run).await;
            assert_eq!(all.last().unwrap()["type"], "run.finished");
            assert_eq!(seqs(&all), (1..=all.len() as u64).collect::<Vec<_>>());
        });
        if at % 10 == 9 {
            while let Some(read) = readers.join_next().await {
                read.unwrap();
            }
        }
    }
}

/// Numbers of the events that a subscriber gets of a run; events that it lost because it was too slow are requested
/// again.
async fn watch(server: &Running, run: &str) -> Vec<u64> {
    let mut socket = Socket::hello(server).await;
    socket.say(&json!({"type": "sub", "run": run})).await;
    let mut seen: Vec<u64> = Vec::new();
    loop {
        let frame = socket.next().await.expect("the run has an end");
        if frame["type"] == "lag" {
            let last = seen.last().copied().unwrap_or(0);
            assert_eq!(frame["after_seq"], json!(last));
            socket = Socket::hello(server).await;
            socket.say(&json!({"type": "sub", "run": run, "after_seq": last})).await;
        }
        if frame["type"] == "event" {
            seen.push(frame["event"]["seq"].as_u64().unwrap());
        }
        if frame["event"]["type"] == "run.finished" {
            return seen;
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn two_hundred_watch_one_run() {
    let server = std::sync::Arc::new(serve(&[COUNT]));
    let run = server.begin(&json!({"workflow": "count", "inputs": {"n": 150}})).await;
    let mut watchers = tokio::task::JoinSet::new();
    for n in 0..200 {
        let (server, run) = (std::sync::Arc::clone(&server), run.clone());
        watchers.spawn(async move {
            if n % 2 == 0 { seqs(&server.events(&run).await) } else { watch(&server, &run).await }
        });
    }
    let whole = seqs(&server.events(&run).await);
    assert_eq!(whole, (1..=whole.len() as u64).collect::<Vec<_>>());
    while let Some(seen) = watchers.join_next().await {
        assert_eq!(seen.unwrap(), whole);
    }
}

/// Memory of this process in bytes.
#[cfg(target_os = "linux")]
fn resident() -> usize {
    let statm = std::fs::read_to_string("/proc/self/statm").unwrap();
    statm.split(' ').nth(1).unwrap().parse::<usize>().unwrap() * 4096
}

#[cfg(target_os = "linux")]
#[tokio::test(flavor = "multi_thread")]
async fn s54_a_client_that_never_reads_costs_little_and_slows_nothing() {
    let server = serve(&[COUNT, PLAIN]);
    let count = json!({"workflow": "count", "inputs": {"n": 6000}});
    // What one run takes is not what clients cost.
    let warm = server.begin(&count).await;
    server.until(&warm, "ok").await;
    let before = resident();
    let run = server.begin(&count).await;
    let (mut sockets, mut streams) = (Vec::new(), Vec::new());
    for _ in 0..15 {
        let mut socket = Socket::hello(&server).await;
        socket.say(&json!({"type": "sub", "run": run})).await;
        sockets.push(socket);
        let mut stream = TcpStream::connect(server.address).await.unwrap();
        let (host, bearer) = (server.host(), format!("Bearer {}", server.token));
        let headers = [("host", host.as_str()), ("authorization", bearer.as_str())];
        let asked = request("GET", &format!("/api/runs/{run}/events"), &headers, "");
        stream.write_all(&asked).await.unwrap();
        streams.push(stream);
    }
    // The run ends although thirty clients take nothing of it.
    let done = server.until(&run, "ok").await;
    assert_eq!(server.ask("plain", "hi").await["text"], "Hello.");
    let grown = resident().saturating_sub(before);
    assert!(grown < 30 * 2 * 1024 * 1024, "{grown} bytes for 30 clients");
    // One of them reads after all: what it missed is told, and all of it can be had.
    let mut socket = sockets.pop().unwrap();
    let (mut last, mut missed) = (0, Vec::new());
    while let Some(frame) = socket.next().await {
        if frame["type"] == "lag" {
            assert_eq!(frame["after_seq"], json!(last));
            missed.push((last, frame["missed"].as_u64().unwrap()));
            last += frame["missed"].as_u64().unwrap();
        }
        if frame["type"] == "event" {
            assert_eq!(frame["event"]["seq"], json!(last + 1));
            last += 1;
        }
        if frame["event"]["type"] == "run.finished" {
            break;
        }
    }
    assert_eq!(json!(last), done["last_seq"]);
    for (after, count) in missed {
        let mut again = Socket::hello(&server).await;
        again.say(&json!({"type": "sub", "run": run, "after_seq": after})).await;
        for seq in after + 1..=after + count {
            assert_eq!(again.next().await.unwrap()["event"]["seq"], json!(seq));
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_socket_says_something_and_follows_its_run() {
    let server = serve(&[PLAIN]);
    let mut socket = Socket::hello(&server).await;
    let frame = json!({"type": "say", "agent": "plain", "thread": "t", "text": "hi", "message_id": "m1"});
    socket.say(&frame).await;
    let frames = socket.until("run.finished").await;
    assert_eq!((&frames[0]["type"], &frames[0]["message_id"]), (&json!("accepted"), &json!("m1")));
    assert!(events(&frames).iter().any(|event| event["data"]["text"] == "Hello."), "{frames:?}");
    socket.say(&frame).await;
    let again = socket.until("run.finished").await;
    assert_eq!((&again[0]["repeated"], &again[0]["run"]), (&json!(true), &frames[0]["run"]));
    let mut bad = frame.clone();
    bad["thread"] = json!("../x");
    socket.say(&bad).await;
    assert_eq!(socket.until("error").await.last().unwrap()["code"], "bad_thread");
}
