//! A server on loopback that answers as a test says.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::{Arc, Mutex};

use serde_json::Value;

/// Request as a stub server received it.
#[derive(Debug, Clone)]
pub struct Request {
    /// Request line and headers.
    pub head: String,
    /// The body as text.
    pub body: String,
}

impl Request {
    /// The path with its query.
    ///
    /// # Panics
    /// Panics when the request line has no path.
    #[must_use]
    pub fn path(&self) -> &str {
        self.head.split(' ').nth(1).unwrap()
    }

    fn new(text: &str) -> Self {
        let (head, body) = text.split_once("\r\n\r\n").unwrap();
        Self { head: head.to_owned(), body: body.to_owned() }
    }
}

/// Reads one request: its head, and as much body as it announces.
pub(crate) fn read_request(stream: &mut TcpStream) -> Option<String> {
    let mut bytes = Vec::new();
    let mut buffer = [0; 4096];
    loop {
        let text = String::from_utf8_lossy(&bytes);
        if let Some((head, body)) = text.split_once("\r\n\r\n") {
            let length = head.lines().find_map(|line| line.strip_prefix("content-length: "));
            if body.len() >= length.map_or(0, |length| length.parse().unwrap()) {
                return Some(text.into_owned());
            }
        }
        match stream.read(&mut buffer) {
            Ok(0) | Err(_) => return None,
            Ok(read) => bytes.extend_from_slice(&buffer[..read]),
        }
    }
}

/// HTTP server on loopback that keeps the requests; it lives as long as the test's process.
#[derive(Debug, Clone)]
pub struct StubServer {
    /// The address at which it listens.
    pub address: SocketAddr,
    requests: Arc<Mutex<Vec<String>>>,
}

impl StubServer {
    /// Starts a server that leaves each connection to `answer`, with the number of the request, counted from one.
    ///
    /// # Panics
    /// Panics when loopback has no free port.
    pub fn start(answer: impl Fn(usize, &str, &mut TcpStream) + Send + 'static) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let server = Self { address: listener.local_addr().unwrap(), requests: Arc::default() };
        let requests = Arc::clone(&server.requests);
        std::thread::spawn(move || {
            for stream in listener.incoming() {
                let mut stream = stream.unwrap();
                let Some(request) = read_request(&mut stream) else { continue };
                let count = {
                    let mut requests = requests.lock().unwrap();
                    requests.push(request.clone());
                    requests.len()
                };
                answer(count, &request, &mut stream);
            }
        });
        server
    }

    /// Starts a server that answers every request with the same bytes.
    pub fn saying(answer: &str) -> Self {
        let answer = answer.to_owned();
        // The client may have gone.
        Self::start(move |_, _, stream| drop(stream.write_all(answer.as_bytes())))
    }

    /// Starts a server that answers with a status and JSON; null is an empty body.
    pub fn json(answer: impl Fn(&Request) -> (u16, Value) + Send + 'static) -> Self {
        Self::start(move |_, request, stream| {
            let (status, value) = answer(&Request::new(request));
            let body = if value.is_null() { String::new() } else { value.to_string() };
            let length = body.len();
            let head =
                format!("HTTP/1.1 {status} X\r\ncontent-type: application/json\r\ncontent-length: {length}");
            drop(write!(stream, "{head}\r\nconnection: close\r\n\r\n{body}"));
        })
    }

    /// The requests so far, as they were sent.
    ///
    /// # Panics
    /// Panics when an answer panicked.
    #[must_use]
    pub fn requests(&self) -> Vec<String> {
        self.requests.lock().unwrap().clone()
    }

    /// The only request, as it was sent.
    ///
    /// # Panics
    /// Panics when there was not exactly one.
    #[track_caller]
    #[must_use]
    pub fn only_request(&self) -> String {
        let requests = self.requests();
        let [request] = &requests[..] else { panic!("{requests:#?}") };
        request.clone()
    }

    /// Takes the oldest request out of the list.
    ///
    /// # Panics
    /// Panics when the list is empty.
    #[track_caller]
    #[must_use]
    pub fn take_request(&self) -> String {
        self.requests.lock().unwrap().remove(0)
    }

    /// The address of a path.
    #[must_use]
    pub fn url(&self, path: &str) -> String {
        format!("http://{}{path}", self.address)
    }
}
