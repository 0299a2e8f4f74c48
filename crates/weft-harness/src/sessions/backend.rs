//! Model and endpoint behind HTTP, which count what they are asked.

use std::collections::HashMap;
use std::io::Write;
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use serde_json::{Value, json};

use super::Fault;
use crate::stub_server::read_request;

/// Time that the model takes.
const THINKS: Duration = Duration::from_millis(30);

/// Requests by the message that they are about.
#[derive(Debug, Default)]
pub(super) struct Counts {
    /// Questions to the model.
    pub(super) asked: HashMap<String, u64>,
    /// Calls of the endpoint of a flow.
    pub(super) called: HashMap<String, u64>,
    pub(super) faults: Vec<Fault>,
}

/// Model and endpoint; a thread for each connection.
pub(super) struct Backend {
    address: SocketAddr,
    counts: Arc<Mutex<Counts>>,
}

impl Backend {
    pub(super) fn start() -> std::io::Result<Self> {
        let listener = TcpListener::bind("127.0.0.1:0")?;
        let backend = Self { address: listener.local_addr()?, counts: Arc::default() };
        let counts = Arc::clone(&backend.counts);
        std::thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                let counts = Arc::clone(&counts);
                std::thread::spawn(move || answer(stream, &counts));
            }
        });
        Ok(backend)
    }

    pub(super) const fn address(&self) -> SocketAddr {
        self.address
    }

    pub(super) fn counts(&self) -> MutexGuard<'_, Counts> {
        self.counts.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn answer(mut stream: TcpStream, counts: &Mutex<Counts>) {
    let Some(request) = read_request(&mut stream) else { return };
    let (head, body) = request.split_once("\r\n\r\n").unwrap_or_default();
    let body: Value = serde_json::from_str(body).unwrap_or_default();
    let mut counts = counts.lock().unwrap_or_else(PoisonError::into_inner);
    // The client may be gone.
    if head.starts_with("POST /leave") {
        let message = body["message"].as_str().unwrap_or_default().to_owned();
        let name = names_in(&message).pop().unwrap_or(message);
        *counts.called.entry(name).or_default() += 1;
        drop(counts);
        let answer = json!({"id": 7}).to_string();
        let _ = write!(
            stream,
            "HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: {}\r\nconnection: close\r\n\r\n{answer}",
            answer.len()
        );
        return;
    }
    let asked = counts.ask(&body["messages"]);
    drop(counts);
    std::thread::sleep(THINKS);
    let delta = json!({"choices": [{"index": 0, "delta": {"role": "assistant", "content": format!("Answer to {asked}.")}}]});
    let end = json!({"choices": [{"index": 0, "delta": {}, "finish_reason": "stop"}]});
    let head = "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\nconnection: close\r\n\r\n";
    let _ = write!(stream, "{head}data: {delta}\n\ndata: {end}\n\ndata: [DONE]\n\n");
}

impl Counts {
    /// Counts a question to the model, and checks the order of the messages before it; gives the name of the message.
    fn ask(&mut self, messages: &Value) -> String {
        let users = messages.as_array().into_iter().flatten().filter(|message| message["role"] == "user");
        // What users said one after the other is one message of the model.
        let names: Vec<String> = users.flat_map(|message| names_in(&text_of(&message["content"]))).collect();
        let numbers: Vec<u64> = names.iter().filter_map(|name| number_of(name)).collect();
        if !numbers.is_sorted_by(|one, next| one < next) {
            self.faults.push(format!("the model read {names:?}"));
        }
        let asked = names.last().cloned().unwrap_or_default();
        *self.asked.entry(asked.clone()).or_default() += 1;
        asked
    }
}

/// The text of a message's content, which may have parts.
fn text_of(content: &Value) -> String {
    let parts = content.as_array().into_iter().flatten().filter_map(|part| part["text"].as_str());
    content.as_str().into_iter().chain(parts).collect::<Vec<_>>().join("\n")
}

/// The names of messages in a text: `m3 of s5`.
fn names_in(text: &str) -> Vec<String> {
    let words: Vec<&str> = text.split(|c: char| !c.is_ascii_alphanumeric()).collect();
    let is_number =
        |word: &str, letter| word.strip_prefix(letter).is_some_and(|rest| rest.parse::<u64>().is_ok());
    let is_name = |words: &&[&str]| is_number(words[0], 'm') && words[1] == "of" && is_number(words[2], 's');
    words.windows(3).filter(is_name).map(|words| words.join(" ")).collect()
}

fn number_of(name: &str) -> Option<u64> {
    name.strip_prefix('m')?.split(' ').next()?.parse().ok()
}
