//! Server that records requests, resolver with fixed answers, and helpers for calls.

use std::collections::{BTreeMap, HashMap, VecDeque};
use std::net::{IpAddr, TcpListener};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use async_trait::async_trait;
use http_caller::{
    CallConfig, CallValues, Endpoint, HttpAnswer, HttpCaller, HttpError, NetworkPolicy, Resolver,
    ResponseConfig, Scope, Secret,
};
use serde_json::{Map, Value, json};
pub(crate) use weft_harness::StubServer as Server;

pub(crate) fn ok_json(body: &str) -> String {
    reply("200 OK", "content-type: application/json", body)
}

pub(crate) fn reply(status: &str, headers: &str, body: &str) -> String {
    let length = body.len();
    format!("HTTP/1.1 {status}\r\n{headers}\r\ncontent-length: {length}\r\nconnection: close\r\n\r\n{body}")
}

/// Listener that must not be connected to.
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

/// Answers of a resolver by name, in order; the last one repeats.
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

/// Parses the JSON of a tool file: `{endpoint, auth?, retry?, response?}`.
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
        Err(error) => error.problems.iter().map(|problem| problem.code).collect(),
    }
}

pub(crate) fn blocked(result: Result<HttpAnswer, HttpError>) -> (&'static str, u32) {
    match result {
        Err(HttpError::Blocked { reason, hop, .. }) => (reason.as_str(), hop),
        other => panic!("not blocked: {other:?}"),
    }
}
