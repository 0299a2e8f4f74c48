//! The server over HTTP.

use std::convert::Infallible;
use std::error::Error;
use std::fmt;
use std::sync::Arc;

use bytes::Bytes;
use http::StatusCode;
use http::header::{CONTENT_TYPE, HeaderValue};
use http_body_util::combinators::BoxBody;
use http_body_util::{BodyExt, Full, LengthLimitError, Limited};
use rmcp::service::{RoleServer, TxJsonRpcMessage};
use rmcp::transport::streamable_http_server::session::local::LocalSessionManager;
use rmcp::transport::streamable_http_server::{StreamableHttpServerConfig, StreamableHttpService};
use tokio_util::sync::CancellationToken;

use super::McpServer;
use super::message::{Unreadable, read_message, without_mark};

/// Longest message of a client, in bytes.
const MAX_BODY: usize = 16 * 1024 * 1024;

/// Sessions at once. One that is idle for five minutes ends; until then a client may begin as many as it likes.
const MAX_SESSIONS: usize = 256;

/// The server at one address. Cheap to clone.
#[derive(Clone)]
pub struct McpHttp {
    service: StreamableHttpService<McpServer, LocalSessionManager>,
    sessions: Arc<LocalSessionManager>,
}

impl fmt::Debug for McpHttp {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("McpHttp").finish_non_exhaustive()
    }
}

impl McpHttp {
    /// A server whose sessions end with the token. Only names of this machine are answered to.
    #[must_use]
    pub fn new(server: McpServer, closed: CancellationToken) -> Self {
        Self::configured(server, closed, |config| config)
    }

    /// The same behind a server that already checks host names and origins.
    #[must_use]
    pub fn behind_a_guard(server: McpServer, closed: CancellationToken) -> Self {
        Self::configured(server, closed, StreamableHttpServerConfig::disable_allowed_hosts)
    }

    fn configured(
        server: McpServer,
        closed: CancellationToken,
        change: impl FnOnce(StreamableHttpServerConfig) -> StreamableHttpServerConfig,
    ) -> Self {
        let mut config = StreamableHttpServerConfig::default();
        config.cancellation_token = closed;
        config.max_request_body_bytes = MAX_BODY;
        let sessions = Arc::<LocalSessionManager>::default();
        let own = Arc::clone(&sessions);
        let service = StreamableHttpService::new(move || Ok(server.clone()), own, change(config));
        Self { service, sessions }
    }

    /// Answers a request.
    pub async fn handle<B>(&self, request: http::Request<B>) -> http::Response<BoxBody<Bytes, Infallible>>
    where
        B: http_body::Body + Send + 'static,
        B::Data: Send,
        B::Error: Error + Send + Sync + 'static,
    {
        let begins = !request.headers().contains_key("mcp-session-id");
        if begins && self.sessions.sessions.read().await.len() >= MAX_SESSIONS {
            let message =
                Bytes::from_static(b"too many sessions; end one, or wait until one is idle for long");
            let mut refused = http::Response::new(Full::new(message).boxed());
            *refused.status_mut() = StatusCode::SERVICE_UNAVAILABLE;
            return refused;
        }
        if request.method() != http::Method::POST {
            return self.service.handle(request).await;
        }
        let (head, body) = request.into_parts();
        let body = match Limited::new(body, MAX_BODY).collect().await {
            Ok(body) => body.to_bytes(),
            Err(error) if error.is::<LengthLimitError>() => {
                return refused(StatusCode::PAYLOAD_TOO_LARGE, None);
            }
            Err(_) => return refused(StatusCode::BAD_REQUEST, None),
        };
        let message = body.slice_ref(without_mark(&body));
        match read_message(&message) {
            Err(fault) => refused(StatusCode::BAD_REQUEST, Some(fault)),
            Ok(_) => self.service.handle(http::Request::from_parts(head, Full::new(message))).await,
        }
    }
}

/// Refuses a request, with the protocol's error where there is one.
fn refused(status: StatusCode, fault: Option<Unreadable>) -> http::Response<BoxBody<Bytes, Infallible>> {
    let error = fault.map(|fault| TxJsonRpcMessage::<RoleServer>::error(fault.error, fault.id));
    let body = error.and_then(|error| serde_json::to_vec(&error).ok()).unwrap_or_default();
    let mut response = http::Response::new(Full::new(Bytes::from(body)).boxed());
    *response.status_mut() = status;
    response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
    response
}
