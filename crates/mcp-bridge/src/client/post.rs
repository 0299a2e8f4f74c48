//! Answers of a server over HTTP to a message that was posted.

use std::borrow::Cow;
use std::io;

use bytes::Bytes;
use futures::stream::{self, BoxStream};
use futures::{Stream, StreamExt};
use http::StatusCode;
use http::header::{CONTENT_TYPE, HeaderMap, WWW_AUTHENTICATE};
use reqwest::Response;
use rmcp::model::{ClientJsonRpcMessage, ClientRequest, ErrorData, RequestId, ServerJsonRpcMessage};
use rmcp::transport::streamable_http_client::{
    AuthRequiredError, InsufficientScopeError, SseError, StreamableHttpError, StreamableHttpPostResponse,
    StreamableHttpResponseLimits,
};
use sse_stream::{Sse, SseStream};

/// Longest part of a server's words in an error, in characters.
const MAX_WORDS: usize = 300;

type Failed = StreamableHttpError<reqwest::Error>;

/// Answer that a message waits for.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Awaited {
    /// Notifications and answers wait for nothing.
    Nothing,
    /// The answer to a request.
    Answer,
    /// The answer to `server/discover`, which older servers refuse.
    Discovery(RequestId),
}

impl Awaited {
    pub(super) fn from_message(message: &ClientJsonRpcMessage) -> Self {
        match message {
            ClientJsonRpcMessage::Request(request) => match request.request {
                ClientRequest::DiscoverRequest(_) => Self::Discovery(request.id.clone()),
                _ => Self::Answer,
            },
            _ => Self::Nothing,
        }
    }
}

/// Reads what came on a message. `attached` says that the message belonged to a session.
pub(super) async fn answer(
    response: Response,
    awaited: Awaited,
    attached: bool,
    limits: StreamableHttpResponseLimits,
) -> Result<StreamableHttpPostResponse, Failed> {
    let status = response.status();
    if let Some(challenge) = word(response.headers(), &WWW_AUTHENTICATE) {
        match status {
            StatusCode::UNAUTHORIZED => return Err(Failed::AuthRequired(AuthRequiredError::new(challenge))),
            StatusCode::FORBIDDEN => {
                return Err(Failed::InsufficientScope(InsufficientScopeError::new(challenge, None)));
            }
            _ => {}
        }
    }
    match status {
        StatusCode::ACCEPTED | StatusCode::NO_CONTENT => return Ok(StreamableHttpPostResponse::Accepted),
        StatusCode::NOT_FOUND if attached => return Err(Failed::SessionExpired),
        _ => {}
    }
    let session = response.headers().get("mcp-session-id").and_then(|id| Some(id.to_str().ok()?.to_owned()));
    let media = word(response.headers(), &CONTENT_TYPE).unwrap_or_default();
    let media = media.split(';').next().unwrap_or_default().trim().to_ascii_lowercase();
    if status.is_success() && media == "text/event-stream" {
        return Ok(StreamableHttpPostResponse::Sse(events(response, limits.max_sse_event_size), session));
    }
    let body = body(response, limits.max_json_response_size).await?;
    // A byte order mark is no part of JSON.
    let text = body.strip_prefix(b"\xef\xbb\xbf").unwrap_or(&body);
    let is_denied = matches!(status, StatusCode::UNAUTHORIZED | StatusCode::FORBIDDEN);
    match agent_types::read_json::<ServerJsonRpcMessage>(text) {
        Ok(read @ ServerJsonRpcMessage::Error(_)) if !is_denied => {
            Ok(StreamableHttpPostResponse::Json(read, session))
        }
        Ok(read) if status.is_success() => Ok(StreamableHttpPostResponse::Json(read, session)),
        Ok(_) | Err(_) if !status.is_success() => refused(awaited, status, text),
        Ok(_) | Err(_) if awaited == Awaited::Nothing => Ok(StreamableHttpPostResponse::Accepted),
        Ok(_) | Err(_) if media != "application/json" => Err(Failed::UnexpectedContentType(Some(media))),
        Ok(_) => Err(unexpected(format!("the answer is not a message: {}", words(text)))),
        Err(error) => Err(unexpected(format!("the answer is not a message: {error}: {}", words(text)))),
    }
}

/// A refusal, with the server's words. One of `server/discover` is an answer: older servers do not know it.
fn refused(awaited: Awaited, status: StatusCode, text: &[u8]) -> Result<StreamableHttpPostResponse, Failed> {
    let is_denied = matches!(status, StatusCode::UNAUTHORIZED | StatusCode::FORBIDDEN);
    let said = format!("HTTP {status}: {}", words(text));
    match awaited {
        Awaited::Discovery(id) if status.is_client_error() && !is_denied => {
            let error = ErrorData::invalid_request(format!("server/discover rejected with {said}"), None);
            let answer = ServerJsonRpcMessage::error(error, Some(id));
            Ok(StreamableHttpPostResponse::Json(answer, None))
        }
        _ => Err(unexpected(said)),
    }
}

fn unexpected(message: String) -> Failed {
    Failed::UnexpectedServerResponse(Cow::Owned(message))
}

fn word(headers: &HeaderMap, name: &http::HeaderName) -> Option<String> {
    Some(headers.get(name)?.to_str().ok()?.to_owned())
}

/// The beginning of a body, for people.
fn words(text: &[u8]) -> String {
    let text = String::from_utf8_lossy(text);
    text.trim().chars().take(MAX_WORDS).collect()
}

/// The whole body, if it is not too long.
async fn body(mut response: Response, max_size: usize) -> Result<Vec<u8>, Failed> {
    let mut body = Vec::new();
    while let Some(chunk) = response.chunk().await? {
        if chunk.len() > max_size.saturating_sub(body.len()) {
            return Err(Failed::ResponseBodyTooLarge { max_size });
        }
        body.extend_from_slice(&chunk);
    }
    Ok(body)
}

/// The events of a response. One that is too long ends them with an error.
fn events(response: Response, max_size: usize) -> BoxStream<'static, Result<Sse, SseError>> {
    let chunks = stream::unfold(Some(response), |response| async move {
        let mut response = response?;
        match response.chunk().await {
            Ok(chunk) => Some((Ok(chunk?), Some(response))),
            Err(error) => Some((Err(io::Error::other(error)), None)),
        }
    });
    SseStream::from_bytes_stream(bounded(chunks, max_size)).boxed()
}

/// The same bytes, until an event is longer than the limit.
fn bounded(
    chunks: impl Stream<Item = io::Result<Bytes>> + Send + 'static,
    max_size: usize,
) -> impl Stream<Item = io::Result<Bytes>> + Send + 'static {
    let mut event = EventSize::default();
    chunks.map(move |chunk| {
        let chunk = chunk?;
        if chunk.iter().any(|byte| event.with(*byte) > max_size) {
            return Err(io::Error::other(format!("an event is longer than {max_size} bytes")));
        }
        Ok(chunk)
    })
}

/// Size of the event that is being read.
#[derive(Debug, Default)]
struct EventSize {
    bytes: usize,
    /// The line that is being read has something in it.
    is_in_line: bool,
    last: u8,
}

impl EventSize {
    /// The size with one more byte; a blank line ends the event.
    fn with(&mut self, byte: u8) -> usize {
        let is_second_of_pair = byte == b'\n' && self.last == b'\r';
        self.last = byte;
        self.bytes += 1;
        match byte {
            b'\n' if is_second_of_pair => {}
            b'\n' | b'\r' if self.is_in_line => self.is_in_line = false,
            b'\n' | b'\r' => self.bytes = 0,
            _ => self.is_in_line = true,
        }
        self.bytes
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_event_ends_with_a_blank_line() {
        let largest = |text: &str| {
            let mut size = EventSize::default();
            text.bytes().map(|byte| size.with(byte)).max()
        };
        assert_eq!(largest("data: a\n\ndata: b\n\n"), Some(8));
        assert_eq!(largest("data: a\r\ndata: b\r\n\r\ndata: c\r\n"), Some(18));
        assert_eq!(largest("data: aaaa"), Some(10));
    }
}
