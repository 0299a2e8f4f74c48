//! The written form of a scenario of agents. Unknown keys are faults.

use std::collections::BTreeMap;

use agent_types::Annotations;
use indexmap::IndexMap;
use serde::Deserialize;
use serde_json::{Map, Value};
use weft_runs::RunRecording;

use super::expect::Expect;
use crate::Fault;

/// Keys of a profile that its type keeps as they are.
const FURTHER_PROFILE_KEYS: [&str; 6] = [
    "initial_private_state_schema",
    "initial_private_state_values",
    "subscribed_event_types",
    "knowledge_base_references",
    "initial_goals_reference",
    "custom_metadata",
];

/// One line of a file: a scenario, or a recorded run.
pub(crate) enum Line {
    Case(Box<Case>),
    Recorded(Box<Recorded>),
}

/// A recorded run.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Recorded {
    #[serde(rename = "id")]
    _id: String,
    #[serde(default, rename = "title")]
    _title: String,
    pub(crate) recording: RunRecording,
}

impl Line {
    pub(crate) fn read(line: Value) -> Result<Self, Fault> {
        if line.get("recording").is_none() {
            return Case::read(line).map(Box::new).map(Self::Case);
        }
        let recorded = serde_json::from_value(line).map_err(|error| error.to_string());
        recorded.map(Box::new).map(Self::Recorded)
    }
}

/// A scenario.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Case {
    #[serde(rename = "id")]
    _id: String,
    #[serde(default, rename = "title")]
    _title: String,
    #[serde(default, rename = "source")]
    _source: Vec<String>,
    /// A profile, or the name of an agent of the project.
    #[serde(default)]
    pub(crate) agent: Option<Value>,
    #[serde(default)]
    pub(crate) tools: Vec<ToolSpec>,
    #[serde(default)]
    pub(crate) flows: Option<Value>,
    #[serde(default)]
    pub(crate) workflows: IndexMap<String, Value>,
    #[serde(default)]
    pub(crate) http: Vec<HttpRule>,
    #[serde(default)]
    pub(crate) history: Vec<Said>,
    #[serde(default, rename = "expand")]
    _expand: Option<Value>,
    #[serde(default)]
    pub(crate) script: Vec<Value>,
    #[serde(default)]
    pub(crate) turns: Vec<Turn>,
    #[serde(default)]
    pub(crate) expect: Option<Expect>,
}

/// A placeholder for a long text.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Expansion {
    unit: String,
    times: usize,
}

impl Case {
    pub(crate) fn read(mut line: Value) -> Result<Self, Fault> {
        let expansions: BTreeMap<String, Expansion> = match line.get("expand") {
            Some(expand) => Deserialize::deserialize(expand).map_err(|error| format!("expand: {error}"))?,
            None => BTreeMap::new(),
        };
        if let Some(map) = line.as_object_mut().filter(|_| !expansions.is_empty()) {
            for (key, value) in map.iter_mut().filter(|(key, _)| *key != "expand") {
                let _ = key;
                expand(value, &expansions);
            }
        }
        let case: Self = serde_json::from_value(line).map_err(|error| error.to_string())?;
        if case.turns.is_empty() {
            return Err("it needs `turns`".to_owned());
        }
        let profiles = case.agent.iter().filter(|agent| agent.is_object());
        profiles.chain(case.tools.iter().flat_map(ToolSpec::profiles)).try_for_each(check_profile)?;
        Ok(case)
    }
}

fn expand(value: &mut Value, expansions: &BTreeMap<String, Expansion>) {
    match value {
        Value::String(text) => {
            for (key, Expansion { unit, times }) in expansions {
                if text.contains(key.as_str()) {
                    *text = text.replace(key.as_str(), &unit.repeat(*times));
                }
            }
        }
        Value::Array(items) => items.iter_mut().for_each(|item| expand(item, expansions)),
        Value::Object(map) => map.values_mut().for_each(|value| expand(value, expansions)),
        _ => {}
    }
}

fn check_profile(profile: &Value) -> Result<(), Fault> {
    let read = profile_of(profile)?;
    match read.extra.keys().find(|key| !FURTHER_PROFILE_KEYS.contains(&key.as_str())) {
        Some(key) => Err(format!("agent: unknown key `{key}`")),
        None => Ok(()),
    }
}

/// A profile whose id may be missing, without the tools that a case writes into it.
pub(crate) fn profile_of(profile: &Value) -> Result<agent_runtime::AgentProfile, Fault> {
    let mut profile = profile.clone();
    if let Some(map) = profile.as_object_mut() {
        map.remove("tools");
        map.remove("share");
        map.entry("id").or_insert_with(|| "agent".into());
    }
    serde_json::from_value(profile).map_err(|error| format!("agent: {error}"))
}

/// A tool of the case.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct ToolSpec {
    pub(crate) name: String,
    #[serde(default)]
    pub(crate) description: String,
    #[serde(default)]
    pub(crate) parameters: Option<Value>,
    #[serde(default)]
    pub(crate) annotations: Annotations,
    #[serde(default)]
    pub(crate) timeout_ms: Option<u64>,
    #[serde(default)]
    pub(crate) retry: Option<Retry>,
    #[serde(default)]
    pub(crate) result_limit: Option<usize>,
    #[serde(default)]
    pub(crate) long_running: bool,
    #[serde(default)]
    pub(crate) context: Vec<String>,
    /// One an execution; the last one repeats.
    #[serde(default)]
    pub(crate) reply: Vec<Answer>,
    #[serde(default)]
    pub(crate) endpoint: Option<Value>,
    #[serde(default)]
    pub(crate) response: Option<Value>,
    #[serde(default)]
    pub(crate) auth: Option<Value>,
    #[serde(default)]
    pub(crate) agent: Option<Value>,
    #[serde(default)]
    pub(crate) share: Option<Share>,
}

impl ToolSpec {
    fn profiles(&self) -> Vec<&Value> {
        self.agent.iter().collect()
    }

    /// The tools of the agent that answers.
    pub(crate) fn inner_tools(&self) -> Result<Vec<Self>, Fault> {
        let tools = self.agent.as_ref().and_then(|agent| agent.get("tools")).cloned();
        tools.map_or(Ok(Vec::new()), |tools| {
            serde_json::from_value(tools).map_err(|error| format!("tool `{}`: {error}", self.name))
        })
    }

    /// Returns `true` when the agent that answers sees the messages of the user.
    pub(crate) fn shares(&self) -> Result<bool, Fault> {
        let inner = self.agent.as_ref().and_then(|agent| agent.get("share")).cloned();
        let inner: Option<Share> = inner
            .map(serde_json::from_value)
            .transpose()
            .map_err(|error| format!("tool `{}`: {error}", self.name))?;
        Ok(self.share.is_some() || inner.is_some())
    }
}

#[derive(Debug, Clone, Copy, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Share {
    LastUserMessage,
}

#[derive(Debug, Clone, Copy, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Retry {
    pub(crate) max: u32,
}

/// Result of one execution of a tool.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub(crate) struct Answer {
    #[serde(deserialize_with = "some")]
    pub(crate) ok: Option<Value>,
    pub(crate) error: Option<String>,
    pub(crate) retryable: bool,
    pub(crate) retry_after_ms: Option<u64>,
    pub(crate) fatal: bool,
    pub(crate) panic: Option<String>,
    pub(crate) hang: bool,
    pub(crate) bytes: Option<usize>,
    pub(crate) needle: Option<Needle>,
    pub(crate) chunks: Option<Vec<String>>,
    pub(crate) parts: Option<Vec<tool_registry::Part>>,
    #[serde(deserialize_with = "some")]
    pub(crate) ends: Option<Value>,
    pub(crate) sleep_ms: u64,
}

/// A value that is there, even if it is null.
pub(crate) fn some<'de, D: serde::Deserializer<'de>>(deserializer: D) -> Result<Option<Value>, D::Error> {
    Value::deserialize(deserializer).map(Some)
}

#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Needle {
    pub(crate) at: usize,
    pub(crate) text: String,
}

/// One address of the outside world.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct HttpRule {
    pub(crate) method: String,
    pub(crate) url: String,
    pub(crate) reply: Vec<HttpReply>,
}

#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct HttpReply {
    #[serde(default)]
    pub(crate) status: Option<u16>,
    #[serde(default)]
    pub(crate) headers: BTreeMap<String, String>,
    #[serde(default, deserialize_with = "some")]
    pub(crate) json: Option<Value>,
    #[serde(default)]
    pub(crate) text: Option<String>,
    #[serde(default)]
    pub(crate) sleep_ms: u64,
}

/// Exchange of the thread before the first turn.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Said {
    #[serde(default)]
    pub(crate) user: Option<String>,
    #[serde(default)]
    pub(crate) assistant: Option<String>,
    #[serde(default)]
    pub(crate) calls: Vec<SaidCall>,
    #[serde(default, deserialize_with = "some")]
    pub(crate) result: Option<Value>,
    #[serde(default)]
    pub(crate) error: Option<String>,
    #[serde(default)]
    pub(crate) of: Option<String>,
}

#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct SaidCall {
    pub(crate) id: String,
    pub(crate) tool: String,
    #[serde(default)]
    pub(crate) arguments: Map<String, Value>,
}

/// One step of the case.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub(crate) struct Turn {
    pub(crate) user: Option<String>,
    pub(crate) event: Option<String>,
    pub(crate) payload: Value,
    pub(crate) r#do: Option<Deed>,
    /// The event at which it is done, while the turn before it executes.
    pub(crate) on: Option<Value>,
    pub(crate) tool: Option<String>,
    pub(crate) nth: usize,
    pub(crate) reason: Option<String>,
    pub(crate) arguments: Option<Map<String, Value>>,
    #[serde(deserialize_with = "some")]
    pub(crate) value: Option<Value>,
    pub(crate) add: Vec<ToolSpec>,
    pub(crate) remove: Vec<String>,
    pub(crate) ms: u64,
    pub(crate) expect: Option<Expect>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Deed {
    Cancel,
    Restart,
    Compact,
    Approve,
    Deny,
    Edit,
    Answer,
    Tools,
    GiveBack,
    AdvanceMs,
}
