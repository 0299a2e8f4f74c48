//! Places that a secret may go to.

use std::borrow::Cow;
use std::fmt;

use http_caller::HostRule;
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// Beginning of a rule for a program.
const COMMAND: &str = "command:";

/// A place that a secret may go to.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum SecretRule {
    /// A host, in requests.
    Host(HostRule),
    /// A program, in its environment.
    Command(String),
}

impl fmt::Display for SecretRule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Host(host) => host.fmt(f),
            Self::Command(program) => write!(f, "{COMMAND}{program}"),
        }
    }
}

impl Serialize for SecretRule {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for SecretRule {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        match text.strip_prefix(COMMAND) {
            Some(program) => Ok(Self::Command(program.to_owned())),
            None => text.parse().map(Self::Host).map_err(serde::de::Error::custom),
        }
    }
}

impl JsonSchema for SecretRule {
    fn schema_name() -> Cow<'static, str> {
        "SecretRule".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({
            "type": "string",
            "description": "A host as `host` or `host:port`, or a program as `command:PROGRAM`."
        })
    }
}
