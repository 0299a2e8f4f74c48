//! Observed events of a turn, or of all of them.

use std::time::Duration;

use agent_runtime::{Exchange, RunOutcome};
use agent_types::{OBSERVATION_PREFIX, Usage};
use executors_flow_system::Handled;
use serde_json::{Map, Value};

use super::fixtures::{Executed, Requested};

/// Position in the observed step at which a process ended.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Cut {
    pub(crate) events: usize,
    pub(crate) executed: usize,
    pub(crate) requested: usize,
}

/// Observed events and messages.
#[derive(Debug, Clone, Default)]
pub(crate) struct Seen {
    pub(crate) events: Vec<Value>,
    pub(crate) exit: Option<String>,
    pub(crate) error: Option<String>,
    pub(crate) text: Option<String>,
    pub(crate) value: Option<Value>,
    pub(crate) partial: Option<bool>,
    pub(crate) pending: Vec<Value>,
    pub(crate) executed: Vec<Executed>,
    pub(crate) requested: Vec<Requested>,
    /// Role and text of each part of the conversation.
    pub(crate) history: Vec<(&'static str, String)>,
    /// Each call of the conversation has its result.
    pub(crate) pairs: bool,
    pub(crate) took: Duration,
    /// The ends of processes within it.
    pub(crate) cuts: Vec<Cut>,
}

impl Seen {
    pub(crate) fn take_outcome(&mut self, outcome: &RunOutcome) {
        self.exit = Some(outcome.exit.as_str().to_owned());
        self.error.clone_from(&outcome.error);
        self.text = Some(outcome.text.clone()).filter(|text| !text.is_empty());
        self.value.clone_from(&outcome.value);
        self.partial = Some(outcome.partial);
        self.pending = outcome.pending.iter().filter_map(|call| serde_json::to_value(call).ok()).collect();
    }

    pub(crate) fn take_handled(&mut self, handled: &Handled) {
        self.exit = Some(handled.exit.as_str().to_owned());
        self.error.clone_from(&handled.error);
        self.text.clone_from(&handled.text);
        self.value.clone_from(&handled.value);
        self.partial = Some(handled.partial);
        self.pending = handled.pending.iter().filter_map(|call| serde_json::to_value(call).ok()).collect();
    }

    pub(crate) fn take_history(&mut self, history: &[Exchange]) {
        self.pairs = true;
        self.history.clear();
        for exchange in history {
            match exchange {
                Exchange::User { text, .. } => self.history.push(("user", text.clone())),
                Exchange::Event { name, payload } => self.history.push(("user", format!("{name} {payload}"))),
                Exchange::Observed { observations, .. } => {
                    let shown = observations.iter().map(|observation| ("observation", observation.line()));
                    self.history.extend(shown);
                }
                Exchange::Turn(turn) => {
                    let mut text = turn.text.clone();
                    for call in &turn.calls {
                        let arguments = call.edited.as_ref().unwrap_or(&call.arguments);
                        if call.native.is_some() || call.edited.is_some() {
                            text.extend([
                                "\n",
                                &call.tool,
                                " ",
                                &Value::Object(arguments.clone()).to_string(),
                            ]);
                        }
                    }
                    self.history.push(("assistant", text));
                    self.pairs &= turn.calls.iter().all(|call| call.observation.is_some());
                    let shown = turn.observations().map(|observation| ("observation", observation.line()));
                    self.history.extend(shown);
                }
                Exchange::Summary { .. } => {}
            }
        }
    }

    /// Adds what another turn saw; the state reached is the later one's.
    pub(crate) fn add(&mut self, turn: &Self) {
        self.events.extend(turn.events.iter().cloned());
        self.executed.extend(turn.executed.iter().cloned());
        self.requested.extend(turn.requested.iter().cloned());
        self.took += turn.took;
        if turn.exit.is_some() {
            self.exit.clone_from(&turn.exit);
            self.error.clone_from(&turn.error);
            self.text.clone_from(&turn.text);
            self.value.clone_from(&turn.value);
            self.partial = turn.partial;
            self.pending.clone_from(&turn.pending);
        }
        self.history.clone_from(&turn.history);
        self.pairs = turn.pairs;
    }

    /// Part that was observed in one of the lives of the process.
    pub(crate) fn life(&self, number: usize) -> Self {
        let mut part = self.clone();
        if let Some(end) = self.cuts.get(number) {
            part.events.truncate(end.events);
            part.executed.truncate(end.executed);
            part.requested.truncate(end.requested);
            part.exit = None;
        }
        if let Some(start) = number.checked_sub(1).and_then(|before| self.cuts.get(before)) {
            part.events.drain(..start.events.min(part.events.len()));
            part.executed.drain(..start.executed.min(part.executed.len()));
            part.requested.drain(..start.requested.min(part.requested.len()));
        }
        part
    }

    pub(crate) fn count_of(&self, name: &str) -> usize {
        self.events.iter().filter(|event| event["type"] == name).count()
    }

    pub(crate) fn usage(&self) -> Usage {
        let mut usage = Usage::default();
        for event in self.events.iter().filter(|event| event["type"] == "agent.llm.finished") {
            usage += serde_json::from_value(event["data"]["usage"].clone()).unwrap_or_default();
        }
        usage
    }

    /// Observations that the agent itself received, in order.
    pub(crate) fn observations(&self) -> Vec<String> {
        let own = self
            .events
            .iter()
            .filter(|event| event["type"] == "agent.observation" && event.get("depth").is_none());
        own.filter_map(|event| event["data"]["text"].as_str())
            .map(|text| match text.strip_prefix(OBSERVATION_PREFIX) {
                Some(_) => text.to_owned(),
                None => format!("{OBSERVATION_PREFIX}{text}"),
            })
            .collect()
    }

    /// The joined deltas of each request: the text, and the parameters of each call.
    pub(crate) fn deltas(&self) -> Vec<(String, Vec<Map<String, Value>>)> {
        let mut all: Vec<(String, Vec<Map<String, Value>>)> = Vec::new();
        let mut calls: Vec<String> = Vec::new();
        for event in &self.events {
            let text = event["data"]["text"].as_str().unwrap_or_default();
            match (event["type"].as_str(), all.last_mut()) {
                (Some("agent.llm.started"), _) => {
                    all.push(Default::default());
                    calls.clear();
                }
                (Some("agent.text.delta"), Some((said, _))) => said.push_str(text),
                (Some("agent.call.delta"), Some((_, parameters))) => {
                    let call = event["call"].as_str().unwrap_or_default();
                    let at = calls.iter().position(|own| own == call).unwrap_or_else(|| {
                        calls.push(call.to_owned());
                        parameters.push(Map::new());
                        calls.len() - 1
                    });
                    let path = event["data"]["path"].as_str().unwrap_or_default().trim_start_matches('/');
                    let so_far = parameters[at].get(path).and_then(Value::as_str).unwrap_or_default();
                    let joined = format!("{so_far}{text}");
                    parameters[at].insert(path.to_owned(), joined.into());
                }
                _ => {}
            }
        }
        all
    }
}
