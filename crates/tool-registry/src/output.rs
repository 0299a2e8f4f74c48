//! Results and errors of tool calls.

use std::borrow::Cow;
use std::time::Duration;

use agent_types::AskSummary;
use serde::{Deserialize, Serialize};
use serde_json::Value;

/// Words about a failure inside this process: what it says of itself is for developers.
pub const INTERNAL_ERROR: &str = "internal error (panicked)";

/// A piece of a result that has several.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(untagged)]
pub enum Part {
    /// Text.
    Text {
        /// The text.
        text: String,
    },
    /// An image, as base64.
    Image {
        /// Its bytes in base64.
        image: String,
        /// Its media type, such as `image/png`.
        mime: String,
    },
    /// A sound, as base64.
    Audio {
        /// Its bytes in base64.
        audio: String,
        /// Its media type, such as `audio/wav`.
        mime: String,
    },
    /// Something that has an address.
    Resource {
        /// The address.
        uri: String,
        /// Content of a text resource.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        content: Option<String>,
        /// Content of a binary resource, in base64.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        blob: Option<String>,
        /// Its media type.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        mime: Option<String>,
    },
}

impl Part {
    /// Text of the part: a text as it is, other media by their type.
    #[must_use]
    pub fn text(&self) -> Cow<'_, str> {
        match self {
            Self::Text { text } => text.into(),
            Self::Image { mime, .. } | Self::Audio { mime, .. } => format!("[{mime}]").into(),
            Self::Resource { uri, content: Some(content), .. } => format!("[{uri}]\n{content}").into(),
            Self::Resource { uri, content: None, mime, .. } => match mime {
                Some(mime) => format!("[{uri}, {mime}]").into(),
                None => format!("[{uri}]").into(),
            },
        }
    }
}

/// The result of a call that succeeded.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub enum ToolOutput {
    /// A text, shown to the model as it is.
    Text(String),
    /// A value, shown as compact JSON; a string as it is.
    Json(Value),
    /// Several pieces, images among them.
    Parts(Vec<Part>),
    /// The run ends with this value.
    Ended(Value),
}

impl ToolOutput {
    /// The result as the model reads it: strings raw, other values compact JSON.
    #[must_use]
    pub fn text(&self) -> String {
        match self {
            Self::Text(text) => text.clone(),
            Self::Json(value) | Self::Ended(value) => value_text(value),
            Self::Parts(parts) => {
                let texts = parts.iter().map(Part::text);
                texts.collect::<Vec<_>>().join("\n")
            }
        }
    }

    /// The same without a copy where there is a text already.
    #[must_use]
    pub fn shown(&self) -> Cow<'_, str> {
        match self {
            Self::Text(text) | Self::Json(Value::String(text)) | Self::Ended(Value::String(text)) => {
                text.into()
            }
            Self::Json(_) | Self::Ended(_) | Self::Parts(_) => self.text().into(),
        }
    }

    /// The same, taken out.
    #[must_use]
    pub fn into_text(self) -> String {
        match self {
            Self::Text(text) | Self::Json(Value::String(text)) | Self::Ended(Value::String(text)) => text,
            Self::Json(_) | Self::Ended(_) | Self::Parts(_) => self.text(),
        }
    }

    /// The result as a value.
    #[must_use]
    pub fn value(&self) -> Value {
        match self {
            Self::Text(text) => text.as_str().into(),
            Self::Json(value) | Self::Ended(value) => value.clone(),
            Self::Parts(parts) => serde_json::to_value(parts).unwrap_or_default(),
        }
    }
}

impl Serialize for ToolOutput {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            Self::Text(text) => text.serialize(serializer),
            Self::Json(value) | Self::Ended(value) => value.serialize(serializer),
            Self::Parts(parts) => parts.serialize(serializer),
        }
    }
}

fn value_text(value: &Value) -> String {
    match value {
        Value::String(text) => text.clone(),
        other => other.to_string(),
    }
}

/// The kind of a failure.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum ToolErrorKind {
    /// The tool tried and failed.
    Failed,
    /// The arguments do not fit.
    InvalidArguments,
    /// The tool gave up waiting.
    Timeout,
    /// The call was cancelled.
    Cancelled,
    /// The tool may not do that.
    Refused,
}

/// Failure of a call, as the tool describes it.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{message_for_model}")]
#[non_exhaustive]
pub struct ToolError {
    /// The kind.
    pub kind: ToolErrorKind,
    /// Finer code for programs, such as `http_status`.
    pub code: Option<&'static str>,
    /// Message for the model. Holds no secrets.
    pub message_for_model: String,
    /// Detail for developers.
    pub detail: Option<String>,
    /// `true` if the same call may succeed later.
    pub retryable: bool,
    /// Time to wait before a retry.
    pub retry_after: Option<Duration>,
    /// `true` if the failure ends the run that made the call.
    pub fatal: bool,
    /// Questions that users must answer before the call can continue. A caller that cannot ask treats it as a failure.
    pub asks: Vec<AskSummary>,
    /// Place of the failure inside the tool, where it is known.
    pub origin: Option<Box<FaultOrigin>>,
}

/// Place of a failure inside a tool.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct FaultOrigin {
    /// Kind of the inner failure.
    pub kind: Option<String>,
    /// Code of the inner failure.
    pub code: Option<String>,
    /// Node of a workflow that failed.
    pub node: Option<String>,
    /// HTTP status that a server answered with.
    pub status: Option<u16>,
}

impl ToolError {
    /// A failure that a retry may fix.
    #[must_use]
    pub fn failed(message: impl Into<String>) -> Self {
        Self::new(ToolErrorKind::Failed, message).retryable(true)
    }

    /// A failure that ends the run, because no further call of the model could succeed.
    #[must_use]
    pub fn fatal(message: impl Into<String>) -> Self {
        Self { fatal: true, ..Self::new(ToolErrorKind::Failed, message) }
    }

    /// A failure of a kind; not retryable unless said.
    #[must_use]
    pub fn new(kind: ToolErrorKind, message: impl Into<String>) -> Self {
        Self {
            kind,
            code: None,
            message_for_model: message.into(),
            detail: None,
            retryable: false,
            retry_after: None,
            fatal: false,
            asks: Vec::new(),
            origin: None,
        }
    }

    /// The same with a finer code for programs.
    #[must_use]
    pub const fn with_code(mut self, code: &'static str) -> Self {
        self.code = Some(code);
        self
    }

    /// The same with what a developer should know.
    #[must_use]
    pub fn with_detail(mut self, detail: impl Into<String>) -> Self {
        self.detail = Some(detail.into());
        self
    }

    /// The same with the place of the failure inside the tool.
    #[must_use]
    pub fn with_origin(mut self, origin: FaultOrigin) -> Self {
        self.origin = Some(Box::new(origin));
        self
    }

    /// The same, suspended until users have answered these questions.
    #[must_use]
    pub fn asking(mut self, asks: Vec<AskSummary>) -> Self {
        self.asks = asks;
        self
    }

    /// The same, which is tried again after this long at the earliest.
    #[must_use]
    pub const fn after(mut self, wait: Duration) -> Self {
        self.retry_after = Some(wait);
        self
    }

    /// The same, retryable or not.
    #[must_use]
    pub const fn retryable(mut self, retryable: bool) -> Self {
        self.retryable = retryable;
        self
    }
}
