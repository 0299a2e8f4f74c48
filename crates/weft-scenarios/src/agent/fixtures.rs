//! State outside of the runs of one case: executions of its tools, and the servers that answer requests.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use agent_types::Clock;
use async_trait::async_trait;
use http_caller::{Transport, WireAnswer, WireRequest};
use llm_provider::{LlmError, LlmProvider, LlmRequest, LlmStream, ModelInfo};
use parking_lot::{Mutex, MutexGuard};
use serde_json::{Map, Value, json};

use super::case::HttpRule;

/// An execution of a tool.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Executed {
    pub(crate) tool: String,
    pub(crate) arguments: Map<String, Value>,
}

/// A request that went out.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Requested {
    pub(crate) method: String,
    pub(crate) url: String,
    pub(crate) query: Map<String, Value>,
    pub(crate) json: Option<Value>,
}

/// All that happened outside.
#[derive(Debug, Default)]
pub(crate) struct World(Mutex<State>);

#[derive(Debug, Default)]
struct State {
    executed: Vec<Executed>,
    requested: Vec<Requested>,
    /// Messages of each request to the model.
    asked: Vec<Vec<String>>,
    /// Processes that have died.
    deaths: usize,
    /// The process is dead, but for what its last event set off.
    dead: Option<Begins>,
}

/// Work that the last event of a process begins.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Begins {
    Nothing,
    /// This call.
    Call(String),
    /// A request to the model.
    Model,
}

/// Permission for work.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Pulse {
    /// It may, in the life after so many deaths.
    Alive(usize),
    /// It begins, and is never heard of again.
    Last,
    /// Nothing is begun.
    Dead,
}

impl World {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.0.lock()
    }

    pub(crate) fn executed(&self, tool: &str, arguments: &Map<String, Value>) {
        self.lock().executed.push(Executed { tool: tool.to_owned(), arguments: arguments.clone() });
    }

    /// The process ends; all that still begins is what its last event set off.
    pub(crate) fn die(&self, begins: Begins) {
        let mut state = self.lock();
        state.deaths += 1;
        state.dead = Some(begins);
    }

    /// The next process begins.
    pub(crate) fn revive(&self) {
        self.lock().dead = None;
    }

    /// Returns the permission for this work.
    pub(crate) fn pulse(&self, work: &Begins) -> Pulse {
        let mut state = self.lock();
        match &state.dead {
            None => Pulse::Alive(state.deaths),
            Some(begins) if begins == work => {
                state.dead = Some(Begins::Nothing);
                Pulse::Last
            }
            Some(_) => Pulse::Dead,
        }
    }

    /// Waits for ever where the process that began it has died meanwhile.
    pub(crate) async fn outlive(&self, pulse: Pulse) {
        let lives = |deaths| {
            let state = self.lock();
            state.deaths == deaths && state.dead.is_none()
        };
        if !matches!(pulse, Pulse::Alive(deaths) if lives(deaths)) {
            std::future::pending::<()>().await;
        }
    }

    /// Executions and requests after so many of each.
    pub(crate) fn since(&self, at: (usize, usize)) -> (Vec<Executed>, Vec<Requested>) {
        let state = self.lock();
        (state.executed[at.0..].to_vec(), state.requested[at.1..].to_vec())
    }

    /// Messages of each request to the model.
    pub(crate) fn asked(&self) -> Vec<Vec<String>> {
        self.lock().asked.clone()
    }

    pub(crate) fn now(&self) -> (usize, usize) {
        let state = self.lock();
        (state.executed.len(), state.requested.len())
    }
}

/// Answers requests as the case says.
#[derive(Debug)]
pub(crate) struct Outside {
    world: Arc<World>,
    rules: Vec<HttpRule>,
    used: Mutex<HashMap<usize, usize>>,
    clock: Arc<dyn Clock>,
}

impl Outside {
    pub(crate) fn new(world: Arc<World>, rules: Vec<HttpRule>, clock: Arc<dyn Clock>) -> Self {
        Self { world, rules, used: Mutex::default(), clock }
    }
}

#[async_trait]
impl Transport for Outside {
    async fn send(&self, request: WireRequest) -> std::io::Result<WireAnswer> {
        let pulse = self.world.pulse(&Begins::Nothing);
        self.world.outlive(pulse).await;
        let whole = request.uri().to_string();
        let (url, query) = whole.split_once('?').unwrap_or((&whole, ""));
        let method = request.method().as_str();
        self.world.lock().requested.push(Requested {
            method: method.to_owned(),
            url: url.to_owned(),
            query: query_of(query),
            json: serde_json::from_slice(request.body()).ok(),
        });
        let same = |rule: &&HttpRule| rule.method.eq_ignore_ascii_case(method) && rule.url == url;
        let found = self.rules.iter().position(|rule| same(&rule));
        let Some(index) = found else {
            return Err(std::io::Error::other(format!("the case has no answer to {method} {url}")));
        };
        let at = {
            let mut used = self.used.lock();
            let count = used.entry(index).or_default();
            *count += 1;
            *count - 1
        };
        let replies = &self.rules[index].reply;
        let reply = replies.get(at).or(replies.last());
        let reply = reply.ok_or_else(|| std::io::Error::other("the case has an address without replies"))?;
        if reply.sleep_ms > 0 {
            self.clock.sleep(Duration::from_millis(reply.sleep_ms)).await;
        }
        let mut answer = http::Response::builder().status(reply.status.unwrap_or(200));
        for (name, value) in &reply.headers {
            answer = answer.header(name, value);
        }
        let body = match (&reply.json, &reply.text) {
            (Some(json), _) => {
                answer = answer.header("content-type", "application/json");
                json.to_string()
            }
            (None, text) => text.clone().unwrap_or_default(),
        };
        answer.body(body.into_bytes()).map_err(std::io::Error::other)
    }
}

/// A model that dies with its process.
#[derive(Debug)]
pub(crate) struct Mortal<M> {
    pub(crate) model: M,
    pub(crate) world: Arc<World>,
}

#[async_trait]
impl<M: LlmProvider> LlmProvider for Mortal<M> {
    fn info(&self) -> &ModelInfo {
        self.model.info()
    }

    async fn stream(&self, request: LlmRequest) -> Result<LlmStream, LlmError> {
        let pulse = self.world.pulse(&Begins::Model);
        if pulse == Pulse::Last {
            // The reply is lost with whoever asked for it.
            let _lost = futures::poll!(self.model.stream(request.clone()));
        }
        self.world.outlive(pulse).await;
        let messages = request.messages.iter().map(|message| format!("{message:?}"));
        self.world.lock().asked.push(messages.collect());
        self.model.stream(request).await
    }
}

/// The pairs of a query, decoded; a name that comes again makes a list.
fn query_of(query: &str) -> Map<String, Value> {
    let mut pairs: Map<String, Value> = Map::new();
    for (name, value) in form_urlencoded::parse(query.as_bytes()) {
        match pairs.get_mut(&*name) {
            None => {
                pairs.insert(name.into_owned(), value.into_owned().into());
            }
            Some(Value::Array(values)) => values.push(value.into_owned().into()),
            Some(first) => *first = json!([first.clone(), value]),
        }
    }
    pairs
}
