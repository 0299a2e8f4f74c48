//! Policies of a node: retries, failures, timeouts, bypass and caching.

use schemars::JsonSchema;
use serde_json::{Map, Value};

use crate::file::field::Scalar;

/// Members of a node that say how it runs, whatever its type is.
pub(crate) const RULES: [&str; 13] = [
    "bypass",
    "cache",
    "cancelRest",
    "effect",
    "first",
    "group",
    "idleMs",
    "lazy",
    "onError",
    "retry",
    "skipIf",
    "timeoutMs",
    "totalMs",
];

/// Number of attempts and the backoff between them.
#[derive(Debug, Clone, PartialEq, JsonSchema)]
#[schemars(rename_all = "camelCase")]
pub struct Retry {
    /// Attempts after the first.
    pub max: u32,
    /// Milliseconds before the second attempt; doubled before each later one.
    pub backoff_ms: u64,
    /// The longest such wait in milliseconds.
    pub max_backoff_ms: Option<u64>,
}

impl Scalar for Retry {
    const EXPECTED: &'static str = "{`max`, `backoffMs`?, `maxBackoffMs`?} with whole numbers";

    fn from_json(value: &Value) -> Option<Self> {
        let map = value.as_object()?;
        Some(Self {
            max: whole(map, "max")?.unwrap_or(0).try_into().ok()?,
            backoff_ms: whole(map, "backoffMs")?.unwrap_or(0),
            max_backoff_ms: whole(map, "maxBackoffMs")?,
        })
    }

    fn to_json(&self) -> Value {
        let mut map = Map::new();
        map.insert("max".to_owned(), self.max.into());
        map.insert("backoffMs".to_owned(), self.backoff_ms.into());
        if let Some(limit) = self.max_backoff_ms {
            map.insert("maxBackoffMs".to_owned(), limit.into());
        }
        Value::Object(map)
    }
}

/// Reads an optional number; `None` if the value is not a number.
#[expect(clippy::option_option, reason = "absent and wrong are two things")]
fn whole(map: &Map<String, Value>, key: &str) -> Option<Option<u64>> {
    match map.get(key) {
        None | Some(Value::Null) => Some(None),
        Some(value) => value.as_u64().map(Some),
    }
}

/// Effect of a node's final failure.
#[derive(Debug, Clone, PartialEq, Default, JsonSchema)]
#[schemars(rename_all = "camelCase")]
pub enum OnError {
    /// The run fails.
    #[default]
    Fail,
    /// The slot `error` gives `{message, code, node, attempt}`; the other outputs are skipped.
    Branch,
    /// All outputs are skipped.
    Skip,
    /// The main output gives this value.
    Default(Value),
}

impl Scalar for OnError {
    const EXPECTED: &'static str = "`fail`, `branch`, `skip` or {`default`: value}";

    fn from_json(value: &Value) -> Option<Self> {
        match value {
            Value::String(text) => match text.as_str() {
                "fail" => Some(Self::Fail),
                "branch" => Some(Self::Branch),
                "skip" => Some(Self::Skip),
                _ => None,
            },
            Value::Object(map) => map.get("default").cloned().map(Self::Default),
            Value::Null | Value::Bool(_) | Value::Number(_) | Value::Array(_) => None,
        }
    }

    fn to_json(&self) -> Value {
        match self {
            Self::Fail => "fail".into(),
            Self::Branch => "branch".into(),
            Self::Skip => "skip".into(),
            Self::Default(value) => serde_json::json!({ "default": value }),
        }
    }
}

/// Behaviour of a bypassed node.
#[derive(Debug, Clone, Copy, PartialEq, Eq, JsonSchema)]
#[schemars(rename_all = "camelCase")]
pub enum Bypass {
    /// Inputs are handed to outputs of a fitting type.
    Pass,
    /// The node is skipped.
    Mute,
}

impl Scalar for Bypass {
    const EXPECTED: &'static str = "`pass` or `mute`";

    fn from_json(value: &Value) -> Option<Self> {
        match value.as_str()? {
            "pass" => Some(Self::Pass),
            "mute" => Some(Self::Mute),
            _ => None,
        }
    }

    fn to_json(&self) -> Value {
        match self {
            Self::Pass => "pass".into(),
            Self::Mute => "mute".into(),
        }
    }
}

/// Caching of a node's result by its inputs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Cache {
    /// Always run.
    Off,
    /// All inputs make the key.
    ByInputs,
    /// Only these input slots make the key.
    ByKey(Vec<String>),
}

impl Scalar for Cache {
    const EXPECTED: &'static str = "`true`, `false` or {`key`: [input slots]}";

    fn from_json(value: &Value) -> Option<Self> {
        match value {
            Value::Bool(true) => Some(Self::ByInputs),
            Value::Bool(false) => Some(Self::Off),
            Value::Object(map) => match map.get("key") {
                None => Some(Self::ByInputs),
                Some(Value::Array(keys)) => {
                    keys.iter().map(String::from_json).collect::<Option<_>>().map(Self::ByKey)
                }
                Some(_) => None,
            },
            Value::Null | Value::Number(_) | Value::String(_) | Value::Array(_) => None,
        }
    }

    fn to_json(&self) -> Value {
        match self {
            Self::Off => false.into(),
            Self::ByInputs => true.into(),
            Self::ByKey(keys) => serde_json::json!({ "key": keys }),
        }
    }
}
