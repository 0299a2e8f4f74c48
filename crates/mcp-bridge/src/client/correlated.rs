//! HTTP client of a server whose answers are matched to the request that they came on.

use std::collections::HashMap;
use std::sync::Arc;

use futures::StreamExt;
use futures::future::{Either, select};
use futures::stream::{self, BoxStream};
use http::header::{ACCEPT, CONTENT_TYPE};
use http::{HeaderMap, HeaderName, HeaderValue, StatusCode};
use reqwest::redirect::{Attempt, Policy};
use rmcp::model::{ClientJsonRpcMessage, ErrorData, RequestId, ServerJsonRpcMessage};
use rmcp::transport::streamable_http_client::{
    SseError, StreamableHttpClient, StreamableHttpError, StreamableHttpPostResponse,
    StreamableHttpResponseLimits,
};
use serde::de::IgnoredAny;
use sse_stream::Sse;

use super::in_flight::{InFlight, Waiting};
use super::post::{self, Awaited};

/// Most redirects that a request follows.
const MAX_REDIRECTS: usize = 10;

/// Client that ends each request at once with what came on it: an answer without an id or with one that was never sent, an
/// acknowledgement without an answer, events that end before the answer. An answer to another request goes to that one.
#[derive(Debug, Clone)]
pub(super) struct Correlated {
    client: reqwest::Client,
    in_flight: InFlight,
}

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
        let client = client.map_err(|error| error.to_string())?;
        Ok(Self { client, in_flight: InFlight::default() })
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
        let waiting = match &message {
            ClientJsonRpcMessage::Request(request) => Some(self.in_flight.open(request.id.clone())),
            _ => None,
        };
        let (awaited, attached) = (Awaited::from_message(&message), session.is_some());
        let request = request_of(self.client.post(&*uri), &message, session, auth, headers)?;
        let response = request.send().await?;
        let answer = post::answer(response, awaited, attached, limits).await?;
        Ok(match waiting {
            Some(waiting) => correlated(answer, waiting),
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
        self.client.delete_session(uri, session, auth, headers).await
    }

    async fn get_stream(
        &self,
        uri: Arc<str>,
        session: Option<Arc<str>>,
        last_event: Option<String>,
        auth: Option<String>,
        headers: HashMap<HeaderName, HeaderValue>,
    ) -> Result<BoxStream<'static, Result<Sse, SseError>>, Failed> {
        self.client.get_stream(uri, session, last_event, auth, headers).await
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
        self.client.get_stream_with_max_sse_event_size(uri, session, last_event, auth, headers, max).await
    }
}

/// The answer that came on a request, as the answer to that request.
fn correlated(answer: StreamableHttpPostResponse, waiting: Waiting) -> StreamableHttpPostResponse {
    match answer {
        StreamableHttpPostResponse::Json(message, session) => {
            let id = waiting.id.clone();
            match waiting.in_flight.own_in_body(message, &id) {
                Some(message) => StreamableHttpPostResponse::Json(answer_to(message, id), session),
                None => StreamableHttpPostResponse::Sse(elsewhere(waiting, NO_ANSWER), session),
            }
        }
        StreamableHttpPostResponse::Sse(events, session) => {
            StreamableHttpPostResponse::Sse(events_of(events, waiting), session)
        }
        StreamableHttpPostResponse::Accepted => {
            StreamableHttpPostResponse::Sse(elsewhere(waiting, NO_ANSWER), None)
        }
        other => other,
    }
}

const NO_ANSWER: &str = "the server took the request and gave no answer";
const ENDED: &str = "the server's events ended before its answer";

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

/// An answer that came as this text, or a failure where a whole number of it would be rounded.
fn exact(message: ServerJsonRpcMessage, text: &str) -> ServerJsonRpcMessage {
    match (agent_types::read_json::<IgnoredAny>(text.as_bytes()), message) {
        (Err(error), ServerJsonRpcMessage::Response(response)) => {
            let message = format!("the server's answer cannot be read: {error}");
            ServerJsonRpcMessage::error(ErrorData::internal_error(message, None), Some(response.id))
        }
        (_, message) => message,
    }
}

fn event_of(answer: &ServerJsonRpcMessage) -> Sse {
    Sse::default().data(serde_json::to_string(answer).unwrap_or_default())
}

/// The answer to a request on which nothing more comes: it may come on another one.
fn elsewhere(waiting: Waiting, reason: &'static str) -> Events {
    stream::once(answered_elsewhere(waiting, reason)).boxed()
}

async fn answered_elsewhere(mut waiting: Waiting, reason: &'static str) -> Result<Sse, SseError> {
    waiting.set_idle();
    let id = waiting.id.clone();
    Ok(event_of(&match (&mut waiting.elsewhere).await {
        Ok(answer) => answer_to(answer, id),
        Err(_) => unanswered(reason, id),
    }))
}

/// Events that came on a request. The first answer to it ends the wait, on whichever request it comes; the end of the events
/// without one is reported, unless they can be continued.
fn events_of(events: Events, waiting: Waiting) -> Events {
    let (id, in_flight) = (waiting.id.clone(), waiting.in_flight.clone());
    let reading = Reading { events, id, in_flight, waiting: Some(waiting), can_continue: false };
    stream::unfold(reading, |mut reading| async move { Some((reading.next().await?, reading)) }).boxed()
}

type Events = BoxStream<'static, Result<Sse, SseError>>;

/// Events of a request.
struct Reading {
    events: Events,
    id: RequestId,
    in_flight: InFlight,
    /// The request, until its answer has come.
    waiting: Option<Waiting>,
    /// An event had an id, after which the events can be asked for again.
    can_continue: bool,
}

impl Reading {
    async fn next(&mut self) -> Option<Result<Sse, SseError>> {
        loop {
            let Some(waiting) = &mut self.waiting else {
                // Answers to other requests may follow.
                let event = match self.events.next().await? {
                    Ok(event) => self.matched(event).map(Ok),
                    Err(error) => Some(Err(error)),
                };
                if event.is_some() {
                    return event;
                }
                continue;
            };
            let event = match select(self.events.next(), &mut waiting.elsewhere).await {
                Either::Left((event, _)) => event,
                Either::Right((Ok(answer), _)) => {
                    self.waiting = None;
                    return Some(Ok(event_of(&answer_to(answer, self.id.clone()))));
                }
                // The same request was sent again, and its answer comes there.
                Either::Right((Err(_), _)) => {
                    self.waiting = None;
                    continue;
                }
            };
            match event {
                Some(Ok(event)) => {
                    if let Some(event) = self.matched(event) {
                        return Some(Ok(event));
                    }
                }
                None if !self.can_continue => {
                    return Some(answered_elsewhere(self.waiting.take()?, ENDED).await);
                }
                Some(Err(_)) | None => return event,
            }
        }
    }

    /// The event as one of this request; nothing for the answer of another one.
    fn matched(&mut self, mut event: Sse) -> Option<Sse> {
        self.can_continue |= event.id.is_some();
        let text = event.data.as_deref().unwrap_or_default();
        let text = text.trim_start_matches('\u{feff}');
        let Ok(message @ (ServerJsonRpcMessage::Response(_) | ServerJsonRpcMessage::Error(_))) =
            serde_json::from_str(text)
        else {
            return Some(event);
        };
        let own = self.in_flight.own(exact(message, text), &self.id)?;
        // One more answer to the same request says nothing.
        drop(self.waiting.take()?);
        event.data = serde_json::to_string(&answer_to(own, self.id.clone())).ok();
        Some(event)
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    const MINE: RequestId = RequestId::Number(7);

    fn events(events: Vec<Sse>) -> Events {
        stream::iter(events.into_iter().map(Ok)).boxed()
    }

    async fn all(events: Events) -> Vec<Value> {
        let read: Vec<_> = events.collect().await;
        read.into_iter().map(|event| serde_json::from_str(&event.unwrap().data.unwrap()).unwrap()).collect()
    }

    async fn read(sent: Vec<Sse>) -> Vec<Value> {
        all(events_of(events(sent), InFlight::default().open(MINE))).await
    }

    fn event(message: &Value) -> Sse {
        Sse::default().data(message.to_string())
    }

    fn note() -> Value {
        json!({"jsonrpc": "2.0", "method": "notifications/message", "params": {"level": "info", "data": 1}})
    }

    fn failed(id: &Value, words: &str) -> Value {
        json!({"jsonrpc": "2.0", "id": id, "error": {"code": -32000, "message": words}})
    }

    fn said(events: &[Value]) -> Vec<(i64, &str)> {
        let answers = events.iter().filter(|event| event["error"].is_object());
        answers
            .map(|event| (event["id"].as_i64().unwrap(), event["error"]["message"].as_str().unwrap()))
            .collect()
    }

    #[tokio::test]
    async fn an_answer_whose_number_would_be_rounded_is_a_failure() {
        let text = r#"{"jsonrpc": "2.0", "id": 7, "result": {"n": 18446744073709551616}}"#;
        let read = read(vec![Sse::default().data(text)]).await;
        let [(7, message)] = said(&read)[..] else { panic!("{read:?}") };
        assert!(message.contains("does not fit 64 bits"), "{message}");
    }

    #[tokio::test]
    async fn an_answer_on_a_request_is_its_answer() {
        for stray in [json!(null), json!("server-error"), json!(8), json!(-1)] {
            let read = read(vec![event(&note()), event(&failed(&stray, "no")), event(&note())]).await;
            assert_eq!((read.len(), said(&read)), (3, vec![(7, "no")]));
        }
    }

    #[tokio::test]
    async fn events_that_end_without_an_answer_are_one() {
        assert_eq!(said(&read(vec![]).await), [(7, ENDED)]);
        let mut continued = event(&note());
        continued.id = Some("1".to_owned());
        assert_eq!(read(vec![continued]).await.len(), 1, "its client asks for the rest");
    }

    #[tokio::test]
    async fn an_acknowledgement_is_not_an_answer() {
        let waiting = InFlight::default().open(MINE);
        let StreamableHttpPostResponse::Sse(events, None) =
            correlated(StreamableHttpPostResponse::Accepted, waiting)
        else {
            unreachable!("it is answered")
        };
        assert_eq!(said(&all(events).await), [(7, NO_ANSWER)]);
    }

    #[tokio::test]
    async fn answers_to_several_requests_on_one_stream_go_where_they_belong() {
        let in_flight = InFlight::default();
        let (six, seven, eight) = (
            in_flight.open(RequestId::Number(6)),
            in_flight.open(MINE),
            in_flight.open(RequestId::Number(8)),
        );
        drop(six);
        let sent = [(json!("8"), "eight"), (json!(6), "six"), (json!(7), "seven"), (json!(8), "again")];
        let sent = sent.iter().map(|(id, words)| event(&failed(id, words))).collect();
        let seven = all(events_of(events(sent), seven));
        let eight = all(elsewhere(eight, NO_ANSWER));
        let (eight, seven) = futures::join!(eight, seven);
        assert_eq!(said(&eight), [(8, "eight")]);
        assert_eq!(said(&seven), [(7, "seven")]);
    }

    #[tokio::test]
    async fn a_request_without_an_answer_waits_for_no_stream_that_has_ended() {
        let in_flight = InFlight::default();
        let (seven, eight) = (in_flight.open(MINE), in_flight.open(RequestId::Number(8)));
        let eight = all(events_of(events(vec![]), eight));
        let body = serde_json::from_value(failed(&json!(8), "eight")).unwrap();
        let StreamableHttpPostResponse::Sse(seven, None) =
            correlated(StreamableHttpPostResponse::Json(body, None), seven)
        else {
            unreachable!("the body is the answer to another request")
        };
        let (eight, seven) = futures::join!(eight, all(seven));
        assert_eq!((said(&eight), said(&seven)), (vec![(8, "eight")], vec![(7, NO_ANSWER)]));
    }
}
