//! Format of a `*.command.json` file.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use tool_registry::files::{SyntaxError, from_json};

/// A `*.command.json` file: a program that a model may run. A key that is not known is an error.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct CommandToolFile {
    /// The name of the tool; its id is `command:NAME`.
    pub name: String,
    /// Purpose of the tool, for the model.
    pub description: String,
    /// JSON Schema (2020-12) of the arguments, an object; absent, there are none. A `default` is applied before the call.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub parameters: Option<Value>,
    /// The program and its arguments, none of which a shell reads. The program is a name that PATH has, or a path from the
    /// project's folder; `[commands] allow` of `weft.toml` must list it as it stands here. `{name}` in an argument is a value
    /// of the call: a list gives an argument for each item, an absent value none.
    pub command: Vec<String>,
    /// Standard input: `json` (the arguments as a JSON object), `none`, or `{name}`, a value of the call. Default: `json`
    /// where `command` has no placeholder, else `none`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stdin: Option<String>,
    /// Format of what the program writes.
    #[serde(default)]
    pub output: OutputFormat,
    /// Working folder, from the project's folder and inside it. Default: the project's folder.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cwd: Option<String>,
    /// Variables of the environment, which is empty otherwise. `{$secret.NAME}` is a secret that `[secrets.allow]` lists for
    /// `command:PROGRAM`.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub env: BTreeMap<String, String>,
    /// Variables that are handed on: `PATH`, `HOME`, `USER`, `LANG`, `LC_ALL`, `TZ`, `TMPDIR`, `TEMP`, `TMP`, `SYSTEMROOT`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub env_from: Vec<String>,
    /// Time limit of a call, in milliseconds. Default: 30000.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub timeout_ms: Option<u64>,
    /// Limit of what the program writes, in KiB; a program that writes more is ended. Default: 256.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_output_kib: Option<u32>,
    /// Set when a call changes nothing; otherwise it is an effect that needs approval.
    #[serde(default)]
    pub read_only: bool,
}

/// Format of what a program writes.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum OutputFormat {
    /// JSON where it is an object or a list, else text.
    #[default]
    Auto,
    /// JSON; anything else is a failure.
    Json,
    /// Text.
    Text,
}

impl CommandToolFile {
    /// Reads a file.
    ///
    /// # Errors
    /// Invalid JSON, or an unknown key (with a suggestion), with line and column.
    pub fn from_json(text: &str) -> Result<Self, SyntaxError> {
        from_json(text)
    }
}
