//! A server that records what it was sent, a resolver that says what it is told, and short ways to call.

use std::collections::{BTreeMap, HashMap, VecDeque};
use std::io::{Read, Write};
use std::net::{IpAddr, SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use async_trait::async_trait;
use http_caller::{
    CallConfig, CallValues, Endpoint, HttpAnswer, HttpCaller, HttpError, NetworkPolicy, Resolver,
    ResponseConfig, Scope, Secret,
};
use serde_json::{Map, Value, json};

/// A listener on loopback that answers every request as it is told and keeps what it was sent.
pub(crate) struct Server {
    pub(crate) address: SocketAddr,
    requests: Arc<Mutex<Vec<String>>>,
}

/// What the server does with the n-th request.
pub(crate) type Answer = Box<dyn Fn(usize, &str, &mut TcpStream) + Send>;

impl Server {
    pub(crate) fn start(answer: Answer) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let requests = Arc::new(Mutex::new(Vec::new()));
        let known = Arc::clone(&requests);
        std::thread::spawn(move || {
            for stream in listener.incoming() {
                let mut stream = stream.unwrap();
                let Some(request) = read_request(&mut stream) else { continue };
                let count = {
                    let mut known: std::sync::MutexGuard<'_, Vec<String>> = known.lock().unwrap();
                    known.push(request.clone());
                    known.len()
                };
                answer(count, &request, &mut stream);
            }
        });
        Self { address, requests }
    }

    /// Answers every request with the same text.
    pub(crate) fn saying(reply: &str) -> Self {
        let reply = reply.to_owned();
        // The client may have gone.
        Self::start(Box::new(move |_, _, stream| drop(stream.write_all(reply.as_bytes()))))
    }

    pub(crate) fn requests(&self) -> Vec<String> {
        self.requests.lock().unwrap().clone()
    }

    #[track_caller]
    pub(crate) fn only_request(&self) -> String {
        let requests = self.requests();
        let [request] = &requests[..] else { panic!("{requests:#?}") };
        request.clone()
    }

    pub(crate) fn url(&self, path: &str) -> String {
        format!("http://{}{path}", self.address)
    }
}

/// One request: its head, and as much body as it says.
fn read_request(stream: &mut TcpStream) -> Option<String> {
    let mut bytes = Vec::new();
    let mut buffer = [0; 4096];
    loop {
        let text = String::from_utf8_lossy(&bytes).into_owned();
        if let Some((head, body)) = text.split_once("\r\n\r\n") {
            let length = head.lines().find_map(|line| line.strip_prefix("content-length: "));
            if body.len() >= length.map_or(0, |length| length.parse().unwrap()) {
                return Some(text);
            }
        }
        match stream.read(&mut buffer) {
            Ok(0) | Err(_) => return None,
            Ok(read) => bytes.extend_from_slice(&buffer[..read]),
        }
    }
}

pub(crate) fn ok_json(body: &str) -> String {
    reply("200 OK", "content-type: application/json", body)
}

pub(crate) fn reply(status: &str, headers: &str, body: &str) -> String {
    let length = body.len();
    format!("HTTP/1.1 {status}\r\n{headers}\r\ncontent-length: {length}\r\nconnection: close\r\n\r\n{body}")
}

/// A listener that nobody may connect to.
pub(crate) struct Closed(TcpListener);

impl Closed {
    pub(crate) fn new(address: &str) -> Self {
        let listener = TcpListener::bind(address).unwrap();
        listener.set_nonblocking(true).unwrap();
        Self(listener)
    }

    pub(crate) fn port(&self) -> u16 {
        self.0.local_addr().unwrap().port()
    }

    /// A connection to loopback waits in the listener's queue from the moment it is made.
    #[track_caller]
    pub(crate) fn assert_untouched(&self) {
        let accepted = self.0.accept();
        assert_eq!(accepted.unwrap_err().kind(), std::io::ErrorKind::WouldBlock);
    }
}

/// Answers of a resolver by name: one after the other, the last again and again.
#[derive(Debug, Default)]
pub(crate) struct Names {
    answers: Mutex<HashMap<String, VecDeque<Vec<IpAddr>>>>,
    pub(crate) asked: AtomicUsize,
}

impl Names {
    pub(crate) fn new(name: &str, answers: &[&[&str]]) -> Arc<Self> {
        let answers = answers.iter().map(|ips| ips.iter().map(|ip| ip.parse().unwrap()).collect()).collect();
        Arc::new(Self {
            answers: Mutex::new([(name.to_owned(), answers)].into()),
            asked: AtomicUsize::new(0),
        })
    }

    pub(crate) fn count(&self) -> usize {
        self.asked.load(Ordering::SeqCst)
    }
}

#[async_trait]
impl Resolver for Names {
    async fn resolve(&self, host: &str) -> std::io::Result<Vec<IpAddr>> {
        self.asked.fetch_add(1, Ordering::SeqCst);
        let mut all = self.answers.lock().unwrap();
        let Some(answers) = all.get_mut(host) else { return Err(std::io::ErrorKind::NotFound.into()) };
        Ok(if answers.len() > 1 { answers.pop_front().unwrap() } else { answers[0].clone() })
    }
}

/// A policy that opens these hosts.
pub(crate) fn open(hosts: &[&str]) -> NetworkPolicy {
    NetworkPolicy::public_only().allowing(hosts.iter().map(|host| host.parse().unwrap()))
}

/// A client that may call this server.
pub(crate) fn caller(server: &Server) -> HttpCaller {
    HttpCaller::builder(open(&[&server.address.to_string()])).secrets(secrets()).build()
}

pub(crate) const SECRET: &str = "S3CR3T/k+y";

pub(crate) fn secrets() -> Arc<BTreeMap<String, Secret>> {
    Arc::new([("KEY".to_owned(), Secret::new(SECRET))].into())
}

/// What a file says, as JSON: `{endpoint, auth?, retry?, response?}`.
pub(crate) fn config(value: &Value) -> CallConfig {
    let part = |key: &str| value.get(key).cloned().filter(|part| !part.is_null());
    CallConfig {
        endpoint: serde_json::from_value(value["endpoint"].clone()).unwrap(),
        auth: part("auth").map(|auth| serde_json::from_value(auth).unwrap()),
        retry: part("retry").map(|retry| serde_json::from_value(retry).unwrap()),
        response: part("response")
            .map_or_else(ResponseConfig::default, |part| serde_json::from_value(part).unwrap()),
    }
}

/// An endpoint whose placeholders may have any name.
pub(crate) fn endpoint(value: &Value) -> Endpoint {
    Endpoint::new(&config(value), &Scope::open()).unwrap()
}

pub(crate) fn get(url: &str) -> Endpoint {
    endpoint(&json!({"endpoint": {"url": url}}))
}

pub(crate) async fn call(
    caller: &HttpCaller,
    endpoint: &Endpoint,
    arguments: &Value,
) -> Result<HttpAnswer, HttpError> {
    call_in(caller, endpoint, arguments, &json!({})).await
}

pub(crate) async fn call_in(
    caller: &HttpCaller,
    endpoint: &Endpoint,
    arguments: &Value,
    context: &Value,
) -> Result<HttpAnswer, HttpError> {
    let none = Map::new();
    let object = |value: &'_ Value| value.as_object().cloned().unwrap_or_else(|| none.clone());
    let (arguments, context) = (object(arguments), object(context));
    caller.call(endpoint, CallValues { arguments: &arguments, context: &context }).await
}

/// Codes of what is wrong with an endpoint.
pub(crate) fn faults(value: &Value, scope: &Scope) -> Vec<&'static str> {
    match Endpoint::new(&config(value), scope) {
        Ok(_) => Vec::new(),
        Err(error) => error.problems.iter().map(|problem| problem.code.as_str()).collect(),
    }
}

pub(crate) fn blocked(result: Result<HttpAnswer, HttpError>) -> (&'static str, u32) {
    match result {
        Err(HttpError::Blocked { reason, hop, .. }) => (reason.as_str(), hop),
        other => panic!("not blocked: {other:?}"),
    }
}
