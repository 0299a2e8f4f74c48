//! The server over HTTP.

use std::convert::Infallible;
use std::error::Error;
use std::fmt;
use std::sync::Arc;

use bytes::Bytes;
use http_body_util::combinators::BoxBody;
use rmcp::transport::streamable_http_server::session::local::LocalSessionManager;
use rmcp::transport::streamable_http_server::{StreamableHttpServerConfig, StreamableHttpService};
use tokio_util::sync::CancellationToken;

use super::McpServer;

/// The server at one address. Cheap to clone.
#[derive(Clone)]
pub struct McpHttp(StreamableHttpService<McpServer, LocalSessionManager>);

impl fmt::Debug for McpHttp {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("McpHttp").finish_non_exhaustive()
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
        let service = StreamableHttpService::new(move || Ok(server.clone()), Arc::default(), change(config));
        Self(service)
    }

    /// Answers a request.
    pub async fn handle<B>(&self, request: http::Request<B>) -> http::Response<BoxBody<Bytes, Infallible>>
    where
        B: http_body::Body + Send + 'static,
        B::Data: Send,
        B::Error: Error + Send + Sync + 'static,
    {
        self.0.handle(request).await
    }
}
