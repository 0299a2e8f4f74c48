//! A real server on loopback that says what a test wrote, piece by piece.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex};

use serde_json::Value;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Notify;
use tokio::task::JoinSet;

/// Response of the server to one request.
#[derive(Debug, Clone)]
pub(crate) struct Answer {
    status: u16,
    headers: String,
    pieces: Vec<String>,
    end: End,
}

/// Behaviour after the last piece.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum End {
    Whole,
    /// The connection stays open and nothing comes.
    Stall,
    /// The connection is closed in the middle of the body.
    Cut,
}

impl Answer {
    pub(crate) fn stream<S: Into<String>>(pieces: impl IntoIterator<Item = S>) -> Self {
        let headers = "content-type: text/event-stream\r\n".to_owned();
        Self { status: 200, headers, pieces: pieces.into_iter().map(Into::into).collect(), end: End::Whole }
    }

    pub(crate) fn status(status: u16, body: &str) -> Self {
        let headers = "content-type: application/json\r\n".to_owned();
        Self { status, headers, pieces: vec![body.to_owned()], end: End::Whole }
    }

    pub(crate) fn header(mut self, name: &str, value: &str) -> Self {
        self.headers.extend([name, ": ", value, "\r\n"]);
        self
    }

    pub(crate) fn then_stalls(mut self) -> Self {
        self.end = End::Stall;
        self
    }

    pub(crate) fn then_cut(mut self) -> Self {
        self.end = End::Cut;
        self
    }
}

/// A request as it came.
#[derive(Debug, Clone)]
pub(crate) struct Seen {
    pub(crate) head: String,
    pub(crate) body: Value,
    /// The body, byte for byte.
    pub(crate) raw: String,
}

#[derive(Debug, Default)]
struct State {
    answers: Mutex<VecDeque<Answer>>,
    seen: Mutex<Vec<Seen>>,
    asked: Notify,
    closed: Notify,
}

/// The server; it is gone when this is dropped.
pub(crate) struct Stub {
    pub(crate) address: String,
    state: Arc<State>,
    _tasks: JoinSet<()>,
}

impl Stub {
    /// Answers the first request with the first answer, and so on.
    pub(crate) async fn serve(answers: impl IntoIterator<Item = Answer>) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = format!("http://{}", listener.local_addr().unwrap());
        let answers = Mutex::new(answers.into_iter().collect());
        let state = Arc::new(State { answers, ..State::default() });
        let shared = Arc::clone(&state);
        let mut tasks = JoinSet::new();
        tasks.spawn(async move {
            let mut connections = JoinSet::new();
            while let Ok((socket, _)) = listener.accept().await {
                connections.spawn(talk(socket, Arc::clone(&shared)));
            }
        });
        Self { address, state, _tasks: tasks }
    }

    pub(crate) fn seen(&self) -> Vec<Seen> {
        self.state.seen.lock().unwrap().clone()
    }

    /// Waits for a request to arrive.
    pub(crate) async fn asked(&self) {
        self.state.asked.notified().await;
    }

    /// Waits for the client to close a connection that stalls.
    pub(crate) async fn closed(&self) {
        self.state.closed.notified().await;
    }
}

async fn talk(mut socket: TcpStream, state: Arc<State>) {
    let Some(seen) = read(&mut socket).await else { return };
    state.seen.lock().unwrap().push(seen);
    state.asked.notify_one();
    let answer = state.answers.lock().unwrap().pop_front();
    let answer = answer.unwrap_or_else(|| Answer::status(418, "the test has no answer to this request"));
    let head = format!(
        "HTTP/1.1 {} Status\r\n{}transfer-encoding: chunked\r\nconnection: close\r\n\r\n",
        answer.status, answer.headers
    );
    if write(&mut socket, &head, &answer.pieces).await.is_err() {
        state.closed.notify_one();
        return;
    }
    match answer.end {
        End::Whole => {
            // The client may be gone already.
            let _ = socket.write_all(b"0\r\n\r\n").await;
        }
        End::Cut => {}
        End::Stall => {
            let mut rest = [0; 64];
            while socket.read(&mut rest).await.is_ok_and(|count| count > 0) {}
            state.closed.notify_one();
        }
    }
}

async fn write(socket: &mut TcpStream, head: &str, pieces: &[String]) -> std::io::Result<()> {
    socket.write_all(head.as_bytes()).await?;
    for piece in pieces.iter().filter(|piece| !piece.is_empty()) {
        // Each piece is a separate chunk and write, so the client receives them separately.
        socket.write_all(format!("{:x}\r\n{piece}\r\n", piece.len()).as_bytes()).await?;
        socket.flush().await?;
        tokio::task::yield_now().await;
    }
    Ok(())
}

/// Reads one request with its body.
async fn read(socket: &mut TcpStream) -> Option<Seen> {
    let mut bytes = Vec::new();
    let mut block = [0; 4096];
    let head_end = loop {
        if let Some(end) = bytes.windows(4).position(|window| window == b"\r\n\r\n") {
            break end + 4;
        }
        let count = socket.read(&mut block).await.ok().filter(|count| *count > 0)?;
        bytes.extend_from_slice(&block[..count]);
    };
    let head = String::from_utf8(bytes[..head_end].to_vec()).ok()?.to_lowercase();
    let length = head.lines().find_map(|line| line.strip_prefix("content-length:")).unwrap_or("0");
    let length: usize = length.trim().parse().ok()?;
    while bytes.len() < head_end + length {
        let count = socket.read(&mut block).await.ok().filter(|count| *count > 0)?;
        bytes.extend_from_slice(&block[..count]);
    }
    let raw = String::from_utf8(bytes[head_end..head_end + length].to_vec()).ok()?;
    let body = serde_json::from_str(&raw).unwrap_or(Value::Null);
    Some(Seen { head, body, raw })
}
