//! Messages and requests to a model.

use std::sync::Arc;

use agent_types::{ToolSpec, estimate_tokens};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::{Attachment, Constraint};

/// A tool call in the provider's own form.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct NativeCall {
    /// Id that the result must name.
    pub id: String,
    /// Wire name of the tool.
    pub name: String,
    /// Argument text as the model wrote it; may be cut off.
    pub arguments: String,
    /// Opaque reasoning signatures that the provider needs again with the call.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub signatures: Vec<String>,
    /// Reasoning that stood before the call, in the form in which the provider needs it again.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub reasoning: Vec<Value>,
    /// Provider and model of signatures and reasoning: no other one is sent them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub source: Option<String>,
}

impl NativeCall {
    /// A call without marks.
    #[must_use]
    pub fn new(id: impl Into<String>, name: impl Into<String>, arguments: impl Into<String>) -> Self {
        let (id, name, arguments) = (id.into(), name.into(), arguments.into());
        Self { id, name, arguments, signatures: Vec::new(), reasoning: Vec::new(), source: None }
    }

    fn tokens(&self) -> usize {
        let marks = self.signatures.iter().map(String::len).sum::<usize>();
        let reasoning = self.reasoning.iter().map(|kept| kept.to_string().len()).sum::<usize>();
        estimate_tokens(&self.name) + estimate_tokens(&self.arguments) + (marks + reasoning).div_ceil(4)
    }
}

/// Tokens that an image or a file is taken for.
const ATTACHMENT_TOKENS: usize = 1_000;

/// One message of a conversation.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "role", rename_all = "snake_case")]
pub enum Message {
    /// Instructions.
    System {
        /// The text.
        text: String,
    },
    /// Message of the user, or an observation in the text protocol.
    User {
        /// The text.
        text: String,
        /// Images and files that go with it, behind the text.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        attachments: Vec<Attachment>,
    },
    /// Message of the model.
    Assistant {
        /// The text, with blocks as they were written.
        text: String,
        /// Native calls that came with it.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        calls: Vec<NativeCall>,
    },
    /// The result of a native call.
    Tool {
        /// Id of the call.
        call: String,
        /// Wire name of the tool.
        name: String,
        /// The observation.
        text: String,
    },
}

impl Message {
    /// Instructions.
    #[must_use]
    pub fn system(text: impl Into<String>) -> Self {
        Self::System { text: text.into() }
    }

    /// Creates a message of the user.
    #[must_use]
    pub fn user(text: impl Into<String>) -> Self {
        Self::User { text: text.into(), attachments: Vec::new() }
    }

    /// Creates a message of the user with images and files.
    #[must_use]
    pub fn user_with(text: impl Into<String>, attachments: Vec<Attachment>) -> Self {
        Self::User { text: text.into(), attachments }
    }

    /// Creates a message of the model without native calls.
    #[must_use]
    pub fn assistant(text: impl Into<String>) -> Self {
        Self::Assistant { text: text.into(), calls: Vec::new() }
    }

    /// The text of the message.
    #[must_use]
    pub fn text(&self) -> &str {
        match self {
            Self::System { text }
            | Self::User { text, .. }
            | Self::Assistant { text, .. }
            | Self::Tool { text, .. } => text,
        }
    }

    /// Tokens of the message, roughly: its text, its calls with their reasoning, and its attachments.
    #[must_use]
    pub fn tokens(&self) -> usize {
        let beside = match self {
            Self::User { attachments, .. } => attachments.len() * ATTACHMENT_TOKENS,
            Self::Assistant { calls, .. } => calls.iter().map(NativeCall::tokens).sum(),
            Self::System { .. } | Self::Tool { .. } => 0,
        };
        estimate_tokens(self.text()) + beside
    }
}

/// Settings of one request; absent ones are the provider's.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct ModelParameters {
    /// Randomness of the choice of tokens.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub temperature: Option<f64>,
    /// Share of probability that tokens are chosen from.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub top_p: Option<f64>,
    /// Most tokens that the model may write.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_tokens: Option<u32>,
    /// Seed of the choice, where the provider takes one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub seed: Option<u64>,
    /// Texts at which the model stops.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub stop: Vec<String>,
    /// Further fields of the provider's body, passed unchanged.
    #[serde(flatten)]
    pub extra: Map<String, Value>,
}

impl ModelParameters {
    /// Returns these settings, overridden by those that `over` has.
    #[must_use]
    pub fn overridden_by(mut self, over: &Self) -> Self {
        self.temperature = over.temperature.or(self.temperature);
        self.top_p = over.top_p.or(self.top_p);
        self.max_tokens = over.max_tokens.or(self.max_tokens);
        self.seed = over.seed.or(self.seed);
        if !over.stop.is_empty() {
            self.stop.clone_from(&over.stop);
        }
        self.extra.extend(over.extra.clone());
        self
    }
}

/// One question to a model.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub struct LlmRequest {
    /// The conversation, oldest first. Shared, so that repeated requests do not copy it.
    pub messages: Arc<Vec<Message>>,
    /// Tools in the provider's own form; empty in the text protocol.
    pub tools: Vec<ToolSpec>,
    /// Settings that differ from the model's own.
    pub parameters: ModelParameters,
    /// JSON Schema that the answer's text should fit. Providers that know no such thing pass it over.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub response_schema: Option<Value>,
    /// Grammar that the answer must fit. Only models that ask for one in their [`ModelInfo`](crate::ModelInfo) are sent one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub constraint: Option<Constraint>,
    /// Text at which an answer ends besides those of the settings, where the server takes one and the model does not
    /// reason before it answers.
    #[serde(skip)]
    pub stop_at: Option<&'static str>,
    /// Purpose of the request, such as `summary`; scripts distinguish requests by it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub purpose: Option<&'static str>,
}

impl LlmRequest {
    /// A request with nothing but messages.
    #[must_use]
    pub fn new(messages: impl Into<Arc<Vec<Message>>>) -> Self {
        Self { messages: messages.into(), ..Self::default() }
    }

    /// Tokens of the request, roughly.
    #[must_use]
    pub fn tokens(&self) -> usize {
        self.messages.iter().map(Message::tokens).sum::<usize>() + tokens_of_tools(&self.tools)
    }

    /// Offers tools in the provider's own form.
    #[must_use]
    pub fn with_tools(mut self, tools: Vec<ToolSpec>) -> Self {
        self.tools = tools;
        self
    }

    /// Sets what differs from the model's own settings.
    #[must_use]
    pub fn with_parameters(mut self, parameters: ModelParameters) -> Self {
        self.parameters = parameters;
        self
    }

    /// Holds the answer to a grammar.
    #[must_use]
    pub fn with_constraint(mut self, constraint: Option<Constraint>) -> Self {
        self.constraint = constraint;
        self
    }

    /// Asks for a text that fits a JSON Schema, where the provider can.
    #[must_use]
    pub fn with_response_schema(mut self, schema: Value) -> Self {
        self.response_schema = Some(schema);
        self
    }
}

/// Tokens of tools in the provider's own form, roughly.
#[must_use]
pub fn tokens_of_tools(tools: &[ToolSpec]) -> usize {
    let bytes = tools.iter().map(|tool| tool.description.len() + tool.parameters.to_string().len());
    bytes.sum::<usize>().div_ceil(4)
}
