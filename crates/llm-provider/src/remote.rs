//! Real servers, through the client library.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use agent_types::{Clock, Usage};
use async_trait::async_trait;
use futures::future::{Either, select};
use futures::{StreamExt, stream};
use genai::adapter::AdapterKind;
use genai::chat::{
    ChatMessage, ChatOptions, ChatRequest, ChatStream, ChatStreamEvent, ContentPart, MessageContent,
    StopReason, StreamEnd, Tool, ToolCall, ToolChunk, ToolResponse,
};
use genai::resolver::{AuthData, Endpoint};
use genai::{Client, ModelIden, ServiceTarget};

use crate::{
    Finish, LlmError, LlmEvent, LlmProvider, LlmRequest, LlmStream, Message, ModelConfig, ModelError,
    ModelInfo, ModelParameters, NativeCall, ProviderKind, StandardResponse,
};

/// Longest message of a server that an error repeats, in bytes.
const MAX_MESSAGE: usize = 500;

/// Longest wait for the first token and between two, unless the entry says otherwise.
const DEFAULT_TOKEN_TIMEOUT: Duration = Duration::from_mins(2);

/// A model behind an HTTP server.
pub struct RemoteModel {
    client: Client,
    target: ServiceTarget,
    info: ModelInfo,
    parameters: ModelParameters,
    token_timeout: Duration,
    clock: Arc<dyn Clock>,
    secret: Secret,
}

impl fmt::Debug for RemoteModel {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // The target holds the key.
        f.debug_struct("RemoteModel").field("info", &self.info).finish_non_exhaustive()
    }
}

impl RemoteModel {
    /// Makes the client; `key` is kept in memory and goes nowhere but to the server.
    ///
    /// # Errors
    /// The base URL is none, or the client cannot be made.
    pub(crate) fn new(
        config: &ModelConfig,
        key: Option<String>,
        clock: Arc<dyn Clock>,
    ) -> Result<Self, ModelError> {
        // A provider that somebody installed before serves as well.
        let _ = rustls::crypto::ring::default_provider().install_default();
        let secret = Secret(key.as_deref().filter(|key| !key.is_empty()).map(Arc::from));
        let kind = match config.provider {
            ProviderKind::OpenAi => AdapterKind::OpenAI,
            ProviderKind::Anthropic => AdapterKind::Anthropic,
            ProviderKind::Gemini => AdapterKind::Gemini,
            ProviderKind::Ollama => AdapterKind::Ollama,
        };
        let client_error = |message: String| ModelError::Client { model: config.model.clone(), message };
        let http = reqwest::Client::builder()
            .connect_timeout(Duration::from_secs(10))
            .redirect(reqwest::redirect::Policy::none())
            .build()
            .map_err(|error| client_error(error.to_string()))?;
        let client =
            Client::builder().with_reqwest(http).build().map_err(|error| client_error(error.to_string()))?;
        Ok(Self {
            client,
            target: ServiceTarget {
                endpoint: endpoint(config)?,
                auth: key.map_or_else(|| AuthData::from_single(""), AuthData::from_single),
                model: ModelIden::new(kind, config.model.clone()),
            },
            info: ModelInfo {
                name: config.model.clone(),
                native_tools: config.native,
                context_window: config.context_window,
                price_in: config.price_in,
                price_out: config.price_out,
                scripted: false,
            },
            parameters: config.parameters(),
            token_timeout: config.token_timeout_ms.map_or(DEFAULT_TOKEN_TIMEOUT, Duration::from_millis),
            clock,
            secret,
        })
    }
}

/// The address that the library appends its paths to.
fn endpoint(config: &ModelConfig) -> Result<Endpoint, ModelError> {
    let versioned = match config.provider {
        ProviderKind::OpenAi | ProviderKind::Anthropic => "v1/",
        ProviderKind::Gemini => "v1beta/",
        ProviderKind::Ollama => "",
    };
    let base = match (&config.base_url, config.provider) {
        (Some(url), _) => url.as_str(),
        (None, ProviderKind::OpenAi) => "https://api.openai.com",
        (None, ProviderKind::Anthropic) => "https://api.anthropic.com",
        (None, ProviderKind::Gemini) => "https://generativelanguage.googleapis.com",
        (None, ProviderKind::Ollama) => "http://localhost:11434",
    };
    let bad = || ModelError::BadUrl { url: base.to_owned() };
    let url = reqwest::Url::parse(base).map_err(|_| bad())?;
    if !matches!(url.scheme(), "http" | "https") || !url.has_host() {
        return Err(bad());
    }
    let base = base.trim_end_matches('/');
    // A path of the user's own (`/api/openai`, `/v1`) is taken as it is.
    let versioned = if url.path() == "/" { versioned } else { "" };
    Ok(Endpoint::from_owned(format!("{base}/{versioned}")))
}

#[async_trait]
impl LlmProvider for RemoteModel {
    fn info(&self) -> &ModelInfo {
        &self.info
    }

    async fn stream(&self, request: LlmRequest) -> Result<LlmStream, LlmError> {
        let options = options(&self.parameters.clone().overridden_by(&request.parameters));
        let asked = self.client.exec_chat_stream(self.target.clone(), chat_request(request), Some(&options));
        let response = self.within(asked).await?.map_err(|error| llm_error(&error, &self.secret))?;
        let reading = Reading {
            stream: response.stream,
            answer: StandardResponse::default(),
            clock: Arc::clone(&self.clock),
            limit: self.token_timeout,
            done: false,
            secret: self.secret.clone(),
        };
        Ok(stream::unfold(reading, Reading::next).boxed())
    }
}

impl RemoteModel {
    async fn within<F: Future>(&self, future: F) -> Result<F::Output, LlmError> {
        within(&*self.clock, self.token_timeout, future).await
    }
}

/// Waits no longer than `limit`.
async fn within<F: Future>(clock: &dyn Clock, limit: Duration, future: F) -> Result<F::Output, LlmError> {
    match select(std::pin::pin!(future), clock.sleep(limit)).await {
        Either::Left((output, _)) => Ok(output),
        Either::Right(((), _)) => Err(LlmError::Timeout { limit }),
    }
}

fn options(parameters: &ModelParameters) -> ChatOptions {
    let mut options = ChatOptions::default().with_capture_usage(true);
    options.temperature = parameters.temperature;
    options.top_p = parameters.top_p;
    options.max_tokens = parameters.max_tokens;
    options.seed = parameters.seed;
    options.stop_sequences.clone_from(&parameters.stop);
    if !parameters.extra.is_empty() {
        options.extra_body = Some(parameters.extra.clone().into());
    }
    options
}

fn chat_request(request: LlmRequest) -> ChatRequest {
    let mut chat = ChatRequest::new(request.messages.into_iter().map(chat_message).collect());
    if !request.tools.is_empty() {
        chat = chat.with_tools(request.tools.into_iter().map(|tool| {
            Tool::new(tool.name).with_description(tool.description).with_schema(tool.parameters)
        }));
    }
    chat
}

fn chat_message(message: Message) -> ChatMessage {
    match message {
        Message::System { text } => ChatMessage::system(text),
        Message::User { text } => ChatMessage::user(text),
        Message::Assistant { text, calls } if calls.is_empty() => ChatMessage::assistant(text),
        Message::Assistant { text, calls } => {
            let text = (!text.is_empty()).then_some(ContentPart::Text(text));
            let calls = calls.into_iter().map(|call| {
                let arguments = serde_json::from_str(&call.arguments).unwrap_or(call.arguments.into());
                ContentPart::ToolCall(ToolCall {
                    call_id: call.id,
                    fn_name: call.name,
                    fn_arguments: arguments,
                    thought_signatures: None,
                })
            });
            ChatMessage::assistant(MessageContent::from_parts(
                text.into_iter().chain(calls).collect::<Vec<_>>(),
            ))
        }
        Message::Tool { call, name, text } => ToolResponse::new(call, text).with_fn_name(name).into(),
    }
}

/// An answer that is being read.
struct Reading {
    stream: ChatStream,
    answer: StandardResponse,
    clock: Arc<dyn Clock>,
    limit: Duration,
    done: bool,
    secret: Secret,
}

impl Reading {
    async fn next(mut self) -> Option<(Result<LlmEvent, LlmError>, Self)> {
        while !self.done {
            let next = within(&*self.clock, self.limit, self.stream.next()).await;
            let event = match next {
                Ok(Some(Ok(event))) => self.take(event).map(Ok),
                Ok(Some(Err(error))) => Some(Err(llm_error(&error, &self.secret))),
                Ok(None) => Some(Err(LlmError::Stream { message: "it ended before its last event".into() })),
                Err(timeout) => Some(Err(timeout)),
            };
            if let Some(event) = event {
                self.done = event.is_err() || matches!(event, Ok(LlmEvent::Finished(_)));
                return Some((event, self));
            }
        }
        None
    }

    fn take(&mut self, event: ChatStreamEvent) -> Option<LlmEvent> {
        match event {
            ChatStreamEvent::Start
            | ChatStreamEvent::Heartbeat
            | ChatStreamEvent::ThoughtSignatureChunk(_) => None,
            ChatStreamEvent::Chunk(chunk) => {
                self.answer.text.push_str(&chunk.content);
                Some(LlmEvent::Text(chunk.content))
            }
            ChatStreamEvent::ReasoningChunk(chunk) => {
                self.answer.reasoning.get_or_insert_default().push_str(&chunk.content);
                Some(LlmEvent::Reasoning(chunk.content))
            }
            ChatStreamEvent::ToolCallChunk(ToolChunk { tool_call }) => self.take_call(tool_call),
            ChatStreamEvent::End(end) => {
                self.finish(end);
                Some(LlmEvent::Finished(std::mem::take(&mut self.answer)))
            }
        }
    }

    /// A piece of a call: a name begins one, what has none goes on with the last.
    ///
    /// The library can also gather pieces itself, but then parses them, and what was cut off could not be told from what is wrong.
    fn take_call(&mut self, call: ToolCall) -> Option<LlmEvent> {
        let piece = match call.fn_arguments {
            serde_json::Value::String(text) => text,
            other => other.to_string(),
        };
        let same = |known: &NativeCall| known.id == call.call_id;
        let index = match self.answer.tool_calls.iter().position(same) {
            Some(index) => index,
            None if call.fn_name.is_empty() => self.continued(&call.call_id)?,
            None => {
                self.answer.tool_calls.push(NativeCall {
                    id: call.call_id,
                    name: call.fn_name,
                    arguments: String::new(),
                });
                self.answer.tool_calls.len() - 1
            }
        };
        let known = &mut self.answer.tool_calls[index];
        known.arguments.push_str(&piece);
        Some(LlmEvent::ToolCall { index, name: known.name.clone(), arguments: piece })
    }

    /// The call that a piece without a name goes on with: the library names its position when the server gave no id.
    fn continued(&self, id: &str) -> Option<usize> {
        let last = self.answer.tool_calls.len().checked_sub(1)?;
        let position = id.strip_prefix("call_").and_then(|position| position.parse::<usize>().ok());
        Some(position.filter(|&position| position <= last).unwrap_or(last))
    }

    fn finish(&mut self, end: StreamEnd) {
        if let Some(usage) = end.captured_usage {
            let count = |tokens: Option<i32>| tokens.and_then(|n| u64::try_from(n).ok()).unwrap_or(0);
            self.answer.usage = Usage::new(count(usage.prompt_tokens), count(usage.completion_tokens));
        }
        self.answer.finish = match end.captured_stop_reason {
            Some(StopReason::Completed(_) | StopReason::StopSequence(_)) => Finish::Stop,
            None if self.answer.tool_calls.is_empty() => Finish::Stop,
            None | Some(StopReason::ToolCall(_)) => Finish::ToolCalls,
            Some(StopReason::MaxTokens(_)) => Finish::Length,
            Some(StopReason::ContentFilter(_)) => Finish::ContentFilter,
            Some(StopReason::Other(word)) => Finish::Other(word),
        };
    }
}

/// The library's error in our words; the body is cut, since it may be a page of HTML.
fn llm_error(error: &genai::Error, secret: &Secret) -> LlmError {
    if let Some(status) = error.status() {
        return match status.as_u16() {
            status @ (401 | 403) => LlmError::Authentication { status },
            429 => LlmError::RateLimited { retry_after: retry_after(error) },
            status => LlmError::Status { status, message: shortened(secret, &status_message(error)) },
        };
    }
    match error {
        genai::Error::WebModelCall { webc_error, .. } | genai::Error::WebAdapterCall { webc_error, .. } => {
            LlmError::Unreachable { message: shortened(secret, &root_cause(webc_error)) }
        }
        genai::Error::WebStream { error, cause, .. } => match error.downcast_ref::<genai::Error>() {
            Some(inner) => llm_error(inner, secret),
            None if is_connect(error.as_ref()) => {
                LlmError::Unreachable { message: shortened(secret, &root_cause(error.as_ref())) }
            }
            None => LlmError::Stream { message: shortened(secret, cause) },
        },
        genai::Error::ChatResponse { body, .. } => {
            LlmError::Stream { message: shortened(secret, &body.to_string()) }
        }
        genai::Error::StreamParse { serde_error, .. } => {
            LlmError::Stream { message: shortened(secret, &serde_error.to_string()) }
        }
        other => LlmError::Request { message: shortened(secret, &other.to_string()) },
    }
}

fn is_connect(error: &(dyn std::error::Error + 'static)) -> bool {
    let mut next = Some(error);
    while let Some(error) = next {
        if error.downcast_ref::<reqwest::Error>().is_some_and(reqwest::Error::is_connect) {
            return true;
        }
        next = error.source();
    }
    false
}

/// The last cause of a chain, which says what the operating system said.
fn root_cause(error: &(dyn std::error::Error + 'static)) -> String {
    let mut last = error;
    while let Some(source) = last.source() {
        last = source;
    }
    last.to_string()
}

fn retry_after(error: &genai::Error) -> Option<Duration> {
    let headers = error.headers()?;
    let number = |name: &str| headers.get(name)?.to_str().ok()?.trim().parse::<f64>().ok();
    let seconds = number("retry-after-ms").map(|ms| ms / 1000.0).or_else(|| number("retry-after"))?;
    Duration::try_from_secs_f64(seconds).ok()
}

fn status_message(error: &genai::Error) -> String {
    let body = match error {
        genai::Error::HttpError { body, .. } => body.clone(),
        other => other.to_string(),
    };
    // Providers put the sentence into `error.message`.
    let start = body.find('{').unwrap_or(0);
    serde_json::from_str::<serde_json::Value>(&body[start..])
        .ok()
        .and_then(|value| Some(value.pointer("/error/message")?.as_str()?.to_owned()))
        .unwrap_or(body)
}

/// The key that requests carry. A server may send it back in an error, and errors are shown and kept.
#[derive(Clone)]
struct Secret(Option<Arc<str>>);

fn shortened(secret: &Secret, text: &str) -> String {
    let text = match &secret.0 {
        Some(key) => text.replace(&**key, "[key]"),
        None => text.to_owned(),
    };
    let mut end = text.len().min(MAX_MESSAGE);
    while !text.is_char_boundary(end) {
        end -= 1;
    }
    if end < text.len() { format!("{}…", &text[..end]) } else { text }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn base_urls_may_hold_the_version_or_not() {
        for (url, expected) in [
            ("http://127.0.0.1:8080", "http://127.0.0.1:8080/v1/"),
            ("http://127.0.0.1:8080/", "http://127.0.0.1:8080/v1/"),
            ("http://127.0.0.1:8080/v1", "http://127.0.0.1:8080/v1/"),
            ("https://host.example/openai/v1/", "https://host.example/openai/v1/"),
        ] {
            let config =
                ModelConfig { base_url: Some(url.into()), ..ModelConfig::new(ProviderKind::OpenAi, "m") };
            assert_eq!(endpoint(&config).unwrap().base_url(), expected);
        }
        let config =
            ModelConfig { base_url: Some("ftp://x".into()), ..ModelConfig::new(ProviderKind::OpenAi, "m") };
        assert_eq!(endpoint(&config).unwrap_err().code(), "bad_url");
    }
}
