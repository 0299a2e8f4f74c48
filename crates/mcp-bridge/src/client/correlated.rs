//! HTTP client of a server whose answers are matched to the request that they came on.

use std::collections::HashMap;
use std::sync::Arc;

use futures::StreamExt;
use futures::stream::{self, BoxStream};
use http::header::{ACCEPT, CONTENT_TYPE};
use http::{HeaderMap, HeaderName, HeaderValue, StatusCode};
use reqwest::redirect::{Attempt, Policy};
use rmcp::model::{ClientJsonRpcMessage, ErrorData, RequestId, ServerJsonRpcMessage};
use rmcp::transport::streamable_http_client::{
    SseError, StreamableHttpClient, StreamableHttpError, StreamableHttpPostResponse,
    StreamableHttpResponseLimits,
};
use sse_stream::Sse;

use super::post::{self, Awaited};

/// Most redirects that a request follows.
const MAX_REDIRECTS: usize = 10;

/// Client that ends each request at once with what came on it: an answer without an id or with another one, an
/// acknowledgement without an answer, events that end before the answer.
#[derive(Debug, Clone)]
pub(super) struct Correlated(reqwest::Client);

impl Correlated {
    /// A client that follows redirects only within a server, and only those that keep the message.
    ///
    /// # Errors
    /// The address is invalid, or the client cannot be made.
    pub(super) fn to(url: &str) -> Result<Self, String> {
        let client = http_caller::builder_of_peer(url)?
            .pool_max_idle_per_host(0)
            .redirect(Policy::custom(redirect))
            .build();
        client.map(Self).map_err(|error| error.to_string())
    }
}

fn redirect(attempt: Attempt<'_>) -> reqwest::redirect::Action {
    let keeps_message =
        matches!(attempt.status(), StatusCode::TEMPORARY_REDIRECT | StatusCode::PERMANENT_REDIRECT);
    let is_same_server =
        attempt.previous().last().is_some_and(|from| from.origin() == attempt.url().origin());
    if keeps_message && is_same_server && attempt.previous().len() <= MAX_REDIRECTS {
        attempt.follow()
    } else {
        attempt.stop()
    }
}

type Failed = StreamableHttpError<reqwest::Error>;

/// The request that carries a message.
fn request_of(
    request: reqwest::RequestBuilder,
    message: &ClientJsonRpcMessage,
    session: Option<Arc<str>>,
    auth: Option<String>,
    headers: HashMap<HeaderName, HeaderValue>,
) -> Result<reqwest::RequestBuilder, Failed> {
    let mut all: HeaderMap = headers.into_iter().collect();
    all.insert(ACCEPT, HeaderValue::from_static("application/json, text/event-stream"));
    all.insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
    if let Some(session) = session {
        let value = HeaderValue::from_str(&session)
            .map_err(|_| Failed::UnexpectedServerResponse("the id of the session is invalid".into()))?;
        all.insert(HeaderName::from_static("mcp-session-id"), value);
    }
    let request = request.headers(all).body(serde_json::to_vec(message)?);
    Ok(match auth {
        Some(token) => request.bearer_auth(token),
        None => request,
    })
}

impl StreamableHttpClient for Correlated {
    type Error = reqwest::Error;

    async fn post_message(
        &self,
        uri: Arc<str>,
        message: ClientJsonRpcMessage,
        session: Option<Arc<str>>,
        auth: Option<String>,
        headers: HashMap<HeaderName, HeaderValue>,
    ) -> Result<StreamableHttpPostResponse, Failed> {
        let limits = StreamableHttpResponseLimits::default();
        self.post_message_with_response_limits(uri, message, session, auth, headers, limits).await
    }

    async fn post_message_with_response_limits(
        &self,
        uri: Arc<str>,
        message: ClientJsonRpcMessage,
        session: Option<Arc<str>>,
        auth: Option<String>,
        headers: HashMap<HeaderName, HeaderValue>,
        limits: StreamableHttpResponseLimits,
    ) -> Result<StreamableHttpPostResponse, Failed> {
        let id = match &message {
            ClientJsonRpcMessage::Request(request) => Some(request.id.clone()),
            _ => None,
        };
        let (awaited, attached) = (Awaited::from_message(&message), session.is_some());
        let request = request_of(self.0.post(&*uri), &message, session, auth, headers)?;
        let response = request.send().await?;
        let answer = post::answer(response, awaited, attached, limits).await?;
        Ok(match id {
            Some(id) => correlated(answer, id),
            None => answer,
        })
    }

    async fn delete_session(
        &self,
        uri: Arc<str>,
        session: Arc<str>,
        auth: Option<String>,
        headers: HashMap<HeaderName, HeaderValue>,
    ) -> Result<(), Failed> {
        self.0.delete_session(uri, session, auth, headers).await
    }

    async fn get_stream(
        &self,
        uri: Arc<str>,
        session: Option<Arc<str>>,
        last_event: Option<String>,
        auth: Option<String>,
        headers: HashMap<HeaderName, HeaderValue>,
    ) -> Result<BoxStream<'static, Result<Sse, SseError>>, Failed> {
        self.0.get_stream(uri, session, last_event, auth, headers).await
    }

    async fn get_stream_with_max_sse_event_size(
        &self,
        uri: Arc<str>,
        session: Option<Arc<str>>,
        last_event: Option<String>,
        auth: Option<String>,
        headers: HashMap<HeaderName, HeaderValue>,
        max: usize,
    ) -> Result<BoxStream<'static, Result<Sse, SseError>>, Failed> {
        self.0.get_stream_with_max_sse_event_size(uri, session, last_event, auth, headers, max).await
    }
}

/// The answer that came on a request, as the answer to that request.
fn correlated(answer: StreamableHttpPostResponse, id: RequestId) -> StreamableHttpPostResponse {
    match answer {
        StreamableHttpPostResponse::Json(message, session) => {
            StreamableHttpPostResponse::Json(answer_to(message, id), session)
        }
        StreamableHttpPostResponse::Sse(events, session) => {
            StreamableHttpPostResponse::Sse(events_of(events, id), session)
        }
        StreamableHttpPostResponse::Accepted => StreamableHttpPostResponse::Json(
            unanswered("the server took the request and gave no answer", id),
            None,
        ),
        other => other,
    }
}

fn unanswered(reason: &'static str, id: RequestId) -> ServerJsonRpcMessage {
    ServerJsonRpcMessage::error(ErrorData::internal_error(reason, None), Some(id))
}

/// The only message that came on a request.
fn answer_to(message: ServerJsonRpcMessage, id: RequestId) -> ServerJsonRpcMessage {
    match message {
        ServerJsonRpcMessage::Response(response) => ServerJsonRpcMessage::response(response.result, id),
        ServerJsonRpcMessage::Error(error) => ServerJsonRpcMessage::error(error.error, Some(id)),
        _ => unanswered("the server answered with a message that is not an answer", id),
    }
}

/// Events that came on a request. The first answer among them is that of the request, and their end without one is reported,
/// unless they can be continued.
fn events_of(events: Events, id: RequestId) -> Events {
    let state = Some(Waiting { id, can_continue: false });
    let next = |(mut events, mut waiting): (Events, Option<Waiting>)| async move {
        let event = match (events.next().await, &mut waiting) {
            (Some(Ok(event)), Some(request)) => {
                let (event, is_answer) = request.matched(event);
                if is_answer {
                    waiting = None;
                }
                Ok(event)
            }
            (Some(event), _) => event,
            (None, Some(request)) if !request.can_continue => {
                let end = unanswered("the server's events ended before its answer", request.id.clone());
                waiting = None;
                Ok(Sse::default().data(serde_json::to_string(&end).unwrap_or_default()))
            }
            (None, _) => return None,
        };
        Some((event, (events, waiting)))
    };
    stream::unfold((events, state), next).boxed()
}

type Events = BoxStream<'static, Result<Sse, SseError>>;

/// A request whose answer has not come.
struct Waiting {
    id: RequestId,
    /// An event had an id, after which the events can be asked for again.
    can_continue: bool,
}

impl Waiting {
    /// The event with the id of this request, and true if it is its answer.
    fn matched(&mut self, mut event: Sse) -> (Sse, bool) {
        self.can_continue |= event.id.is_some();
        let text = event.data.as_deref().unwrap_or_default();
        let text = text.trim_start_matches('\u{feff}');
        let Ok(message @ (ServerJsonRpcMessage::Response(_) | ServerJsonRpcMessage::Error(_))) =
            serde_json::from_str(text)
        else {
            return (event, false);
        };
        event.data = serde_json::to_string(&answer_to(message, self.id.clone())).ok();
        (event, true)
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn id() -> RequestId {
        RequestId::Number(7)
    }

    async fn read(events: Vec<Sse>) -> Vec<Value> {
        let events = stream::iter(events.into_iter().map(Ok)).boxed();
        let read: Vec<_> = events_of(events, id()).collect().await;
        read.into_iter().map(|event| serde_json::from_str(&event.unwrap().data.unwrap()).unwrap()).collect()
    }

    fn event(message: &Value) -> Sse {
        Sse::default().data(message.to_string())
    }

    #[tokio::test]
    async fn an_answer_on_a_request_is_its_answer() {
        let note = json!({"jsonrpc": "2.0", "method": "notifications/message", "params": {"level": "info", "data": 1}});
        for stray in [json!(null), json!("server-error"), json!(8)] {
            let answer = json!({"jsonrpc": "2.0", "id": stray, "error": {"code": -32000, "message": "no"}});
            let read = read(vec![event(&note), event(&answer), event(&note)]).await;
            assert_eq!(read.len(), 3);
            assert_eq!((&read[1]["id"], &read[1]["error"]["message"]), (&json!(7), &json!("no")));
        }
    }

    #[tokio::test]
    async fn events_that_end_without_an_answer_are_one() {
        let ended = read(vec![]).await;
        assert_eq!((ended.len(), &ended[0]["id"]), (1, &json!(7)));
        let note = json!({"jsonrpc": "2.0", "method": "notifications/message", "params": {"level": "info", "data": 1}});
        let mut continued = event(&note);
        continued.id = Some("1".to_owned());
        assert_eq!(read(vec![continued]).await.len(), 1, "its client asks for the rest");
    }

    #[test]
    fn an_acknowledgement_is_not_an_answer() {
        let StreamableHttpPostResponse::Json(message, None) =
            correlated(StreamableHttpPostResponse::Accepted, id())
        else {
            unreachable!("it is answered")
        };
        assert_eq!(message.into_error().unwrap().1, Some(id()));
    }
}
