//! Request configuration of a tool file, and its possible faults.

use indexmap::IndexMap;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

/// Longest time of a call unless the file says otherwise, in milliseconds.
pub const DEFAULT_TIMEOUT_MS: u64 = 30_000;

/// Largest body that is read unless the file says otherwise, in bytes after decompression.
pub const DEFAULT_MAX_BYTES: u64 = 1024 * 1024;

/// Target and contents of a request. Texts are templates: `{param}`, `{$ctx.name}`, `{$secret.NAME}`, `{{` and `}}` for
/// braces. In path and headers an object is `name,value`, with `{param*}` `name=value`.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct EndpointConfig {
    /// The address; placeholders may stand in its path and query only.
    pub url: String,
    /// `GET` where absent; `POST` where there is a body.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub method: Option<String>,
    /// Headers by name.
    #[serde(default, skip_serializing_if = "IndexMap::is_empty")]
    pub headers: IndexMap<String, String>,
    /// Pairs of the query by name. A text that is one placeholder gives one pair, a list of it joined by commas;
    /// `["{param}"]` gives a pair for each item, and `{"value": "{param}", "style": "deepObject"}` writes a list or an
    /// object in a style of OpenAPI.
    #[serde(default, skip_serializing_if = "IndexMap::is_empty")]
    pub query_params: IndexMap<String, QueryValue>,
    /// The body: JSON, or a text that holds JSON. A text that is one placeholder keeps the type of its value,
    /// and a member whose value is absent is left out. Where all of it is absent, no body and no content type are sent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub body: Option<Value>,
    /// Longest time of the whole call, redirects, retries and the body included, in milliseconds; 30,000 where absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1))]
    pub timeout_ms: Option<u64>,
}

/// A list or an object in the query, in a style of OpenAPI.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct StyledValue {
    /// One placeholder: `{param}`.
    pub value: String,
    /// The style.
    #[serde(default)]
    pub style: QueryStyle,
    /// A pair for each item or member, instead of one pair; `true` for the style `form` where absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub explode: Option<bool>,
}

/// Style of a list or an object in the query.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub enum QueryStyle {
    /// `member=value` for each member, or `name=member,value`.
    #[default]
    Form,
    /// `name[member]=value` for each member.
    DeepObject,
    /// Items with `%20` between them.
    SpaceDelimited,
    /// Items with `|` between them.
    PipeDelimited,
    /// JSON text.
    Json,
}

impl QueryStyle {
    /// The text between items, encoded.
    pub(crate) const fn separator(self) -> &'static str {
        match self {
            Self::SpaceDelimited => "%20",
            Self::PipeDelimited => "%7C",
            Self::Form | Self::DeepObject | Self::Json => ",",
        }
    }
}

/// The value of a query pair.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
#[serde(untagged)]
pub enum QueryValue {
    /// One pair.
    One(Value),
    /// A pair for each item of each of these.
    Each(Vec<Value>),
    /// A list or an object in a style.
    Styled(StyledValue),
}

impl<'de> Deserialize<'de> for QueryValue {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        match Value::deserialize(deserializer)? {
            Value::Array(items) => Ok(Self::Each(items)),
            object @ Value::Object(_) => serde_json::from_value(object).map(Self::Styled).map_err(|error| {
                let message = "a query value is a text, a number, a boolean, a list of them, or {value, style, explode}";
                serde::de::Error::custom(format!("{message}: {error}"))
            }),
            one => Ok(Self::One(one)),
        }
    }
}

/// Authentication of a call. Values are `{$secret.NAME}`: a file never holds a secret.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "type", rename_all = "snake_case", deny_unknown_fields)]
pub enum AuthConfig {
    /// `Authorization: Bearer …`
    Bearer {
        /// The token.
        token: String,
    },
    /// `Authorization: Basic …`
    Basic {
        /// The user.
        username: String,
        /// The password.
        password: String,
    },
    /// A header of a given name.
    Header {
        /// Its name.
        name: String,
        /// Its value.
        value: String,
    },
    /// A pair of the query.
    Query {
        /// Its name.
        name: String,
        /// Its value.
        value: String,
    },
}

/// Retries of a call: after a connection that failed, and after 429, 502, 503 and 504.
/// Only idempotent methods may have it. A server's `Retry-After` is respected.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct RetryConfig {
    /// Attempts after the first.
    #[schemars(range(max = 10))]
    pub max: u32,
    /// Wait before the second attempt, doubled each time, in milliseconds; 500 where absent.
    #[serde(default = "default_backoff")]
    pub backoff_ms: u64,
}

const fn default_backoff() -> u64 {
    500
}

/// Handling of an answer.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
#[non_exhaustive]
pub struct ResponseConfig {
    /// A JSONPath (RFC 9535): a path to a single value gives that value, any other a list of the matches.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub select: Option<String>,
    /// A text over what was selected: `{result}`, `{result.name}`, `{status}`, and members by their names.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub template: Option<String>,
    /// Largest body, in bytes after decompression; 1 MiB where absent.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1))]
    pub max_bytes: Option<u64>,
}

agent_types::problem_codes! {
    /// A lone brace, or something in braces that is not a placeholder.
    BadTemplate = "bad_template",
    /// A placeholder that names nothing.
    UnknownPlaceholder = "unknown_placeholder",
    /// A placeholder in scheme, host or port.
    TemplateInAuthority = "template_in_authority",
    /// No URL.
    BadUrl = "bad_url",
    /// A scheme other than http and https.
    BadScheme = "bad_scheme",
    /// A parameter in the path that may be absent.
    OptionalInPath = "optional_in_path",
    /// An invalid method, or one that cannot have a body.
    BadMethod = "bad_method",
    /// An invalid header, or one that the client sets itself.
    BadHeader = "bad_header",
    /// A body that is not JSON.
    BadBody = "bad_body",
    /// A credential that is written out, or that an argument would choose.
    SecretInFile = "secret_in_file",
    /// An invalid JSONPath.
    BadSelect = "bad_select",
    /// A retry of a method that may not be repeated.
    BadRetry = "bad_retry",
    /// A number out of range.
    BadLimit = "bad_limit",
}
