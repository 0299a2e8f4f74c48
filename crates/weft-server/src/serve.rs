//! Serving: connections, their limits, and the end.

use std::net::SocketAddr;
use std::sync::Arc;

use axum::extract::{Request, State, WebSocketUpgrade};
use axum::handler::Handler;
use axum::middleware::from_fn_with_state;
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use axum::{Extension, Router};
use futures::future::select;
use http::{StatusCode, Uri};
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper_util::rt::TokioIo;
use hyper_util::service::TowerToHyperService;
use run_store::{Store, StoreError};
use tokio::io::AsyncWriteExt;
use tokio::net::{TcpListener, TcpSocket, TcpStream};
use tokio_util::sync::CancellationToken;
use tower_http::compression::CompressionLayer;
use weft_project::Project;

use crate::access::{Access, bearer, guard};
use crate::app::App;
use crate::clock_timer::ClockTimer;
use crate::connection::{Connection, Connections};
use crate::options::{ServeError, ServerOptions};
use crate::problem::Problem;
use crate::runs_runtime::RunsRuntime;
use crate::token::{Token, TokenChoice};
use crate::{api, callbacks, channels, hooks, live, mcp, openai, page, widget};

/// Longest head of a request, in bytes.
const MAX_HEAD: usize = 64 * 1024;

/// Longest message of a socket, in bytes.
const MAX_MESSAGE: usize = 1 << 20;

/// Bytes that the system may hold for a client that takes nothing.
const SEND_BUFFER: u32 = 256 * 1024;

/// Time in which answers are sent after the runs were left.
const LAST_WORDS: std::time::Duration = std::time::Duration::from_millis(500);

/// Connections that wait to be taken.
const BACKLOG: u32 = 1024;

/// A server that is bound and not served yet.
#[derive(Debug)]
pub struct Server {
    listener: TcpListener,
    address: SocketAddr,
    app: Arc<App>,
    token: Option<Token>,
}

/// Ends a server from elsewhere.
#[derive(Debug, Clone)]
pub struct ServerHandle {
    closing: CancellationToken,
    closed: CancellationToken,
    store: Store,
}

impl ServerHandle {
    /// Asks the server to end: no new connections and runs; runs at work have the time that the settings give.
    pub fn close(&self) {
        self.closing.cancel();
    }

    /// Ends it at once: runs at work are left as they stand, and can be resumed.
    pub fn abandon(&self) {
        self.closing.cancel();
        self.closed.cancel();
    }

    /// Events and other changes that the store does not keep yet.
    #[must_use]
    pub fn unkept(&self) -> usize {
        self.store.unkept()
    }
}

impl Server {
    /// Binds the address of the options.
    ///
    /// # Errors
    /// An address or a `public_url` that others reach and no token, an address that is taken, a project without a store.
    pub fn bind(project: Project, options: ServerOptions) -> Result<Self, ServeError> {
        let host = options.settings.host;
        let token = match &options.token {
            TokenChoice::Random => {
                let random = Token::random();
                Some(random.map_err(|error| ServeError::NoRandomness { message: error.to_string() })?)
            }
            TokenChoice::Given(token) => Some(token.clone()),
            TokenChoice::Open if !host.is_loopback() => return Err(ServeError::TokenRequired { host }),
            TokenChoice::Open if options.settings.public_url.is_some() => {
                return Err(ServeError::PublicWithoutToken);
            }
            TokenChoice::Open => None,
        };
        let wanted = SocketAddr::new(host, options.settings.port);
        let listener = listen(wanted).map_err(|source| ServeError::Bind { address: wanted, source })?;
        let address = listener.local_addr().map_err(|source| ServeError::Bind { address: wanted, source })?;
        let none = || StoreError::Io { message: "the project keeps no runs".into() };
        let store = project.store()?.ok_or_else(none)?.clone();
        store.sweep_locks()?;
        let access = Access::new(address, &options.settings, token.clone());
        let runtime = RunsRuntime::start().map_err(|source| ServeError::NoThreads { source })?;
        let project = project.served(&options.settings);
        let app = App::new(project, store, options, access, CancellationToken::new(), runtime);
        Ok(Self { listener, address, app: Arc::new(app), token })
    }

    /// The address that is bound, with its port.
    #[must_use]
    pub const fn address(&self) -> SocketAddr {
        self.address
    }

    /// The token that requests need.
    #[must_use]
    pub const fn token(&self) -> Option<&Token> {
        self.token.as_ref()
    }

    /// Ends the server from elsewhere.
    #[must_use]
    pub fn handle(&self) -> ServerHandle {
        ServerHandle {
            closing: self.app.closing.clone(),
            closed: self.app.closed.clone(),
            store: self.app.store.clone(),
        }
    }

    /// Serves until it is asked to shut down; then drains: waits for running runs, as long as the settings allow.
    pub async fn run(self) {
        let Self { listener, app, .. } = self;
        app.tasks.spawn(Arc::clone(&app).notify_changes());
        let timers = app.runs.clone();
        app.tasks.spawn(async move { timers.fire_timers().await });
        let sessions = app.runs.clone();
        app.tasks.spawn(async move { sessions.resume_sessions().await });
        let triggers = app.runs.clone();
        app.tasks.spawn(async move {
            triggers.resume_waiting().await;
            triggers.run_triggers().await;
        });
        app.tasks.spawn(channels::deliver_all(Arc::clone(&app)));
        let router = router(&app);
        let connections = Connections::new(app.options.settings.max_connections);
        loop {
            let accepted = tokio::select! {
                accepted = listener.accept() => accepted,
                () = app.closing.cancelled() => break,
            };
            match accepted {
                Ok((stream, _)) => match connections.enter(app.clock.elapsed()) {
                    Some(connection) => {
                        app.tasks.spawn(serve(Arc::clone(&app), router.clone(), stream, connection));
                    }
                    None => {
                        app.tasks.spawn(turn_away(Arc::clone(&app), stream));
                    }
                },
                // Too many open files, a client that is gone already: the next one may do better.
                Err(error) => {
                    log::warn!("a connection could not be taken: {error}");
                    app.clock.sleep(std::time::Duration::from_millis(50)).await;
                }
            }
        }
        drop(listener);
        close(&app).await;
    }
}

/// Gives runs at work their time, then leaves them, and waits until all is kept.
async fn close(app: &App) {
    app.tasks.close();
    let grace = std::time::Duration::from_millis(app.options.settings.grace_ms);
    let idle = async {
        let mut looks = 0;
        // Twice in a row: what has just ended may still have to tell its client.
        while looks < 2 {
            looks = if app.runs.is_idle() { looks + 1 } else { 0 };
            app.clock.sleep(std::time::Duration::from_millis(20)).await;
        }
    };
    let patience = select(app.clock.sleep(grace), Box::pin(app.closed.cancelled()));
    select(Box::pin(idle), patience).await;
    app.closed.cancel();
    app.tasks.wait().await;
    app.runs.drained().await;
    let store = app.store.clone();
    let flushed = app.blocking(move || Ok(store.flush()?)).await;
    if let Err(problem) = flushed {
        log::error!("the last events could not be kept: {}", problem.detail);
    }
}

fn listen(address: SocketAddr) -> std::io::Result<TcpListener> {
    let socket = if address.is_ipv4() { TcpSocket::new_v4() } else { TcpSocket::new_v6() }?;
    // As other servers do: a restart need not wait for old connections.
    #[cfg(unix)]
    socket.set_reuseaddr(true)?;
    // Connections inherit it: what a client does not take must not pile up here.
    socket.set_send_buffer_size(SEND_BUFFER)?;
    socket.bind(address)?;
    socket.listen(BACKLOG)
}

fn router(app: &Arc<App>) -> Router {
    Router::new()
        .merge(api::router())
        .merge(openai::router())
        .merge(mcp::router())
        .merge(widget::router())
        .merge(hooks::router())
        .merge(callbacks::router())
        .merge(channels::router())
        .route("/ws", get(socket))
        .fallback(page::file.layer(CompressionLayer::new()))
        .method_not_allowed_fallback(wrong_method)
        .layer(from_fn_with_state(Arc::clone(app), guard))
        .with_state(Arc::clone(app))
}

async fn wrong_method(address: Uri) -> Response {
    let detail = "this address takes other methods";
    let problem = Problem::new(StatusCode::METHOD_NOT_ALLOWED, "method_not_allowed", detail);
    if openai::is_below(address.path()) { openai::refusal(&problem) } else { problem.into_response() }
}

async fn socket(
    State(app): State<Arc<App>>,
    Extension(connection): Extension<Arc<Connection>>,
    headers: http::HeaderMap,
    upgrade: WebSocketUpgrade,
) -> Response {
    let given = bearer(&headers).map(str::to_owned);
    let is_known = given.is_some_and(|token| app.access.opens(Some(&token)));
    let upgrade = upgrade.max_message_size(MAX_MESSAGE).max_frame_size(MAX_MESSAGE);
    // What is written waits for the client, not in memory.
    let upgrade = upgrade.write_buffer_size(0).max_write_buffer_size(4 * MAX_MESSAGE);
    upgrade.on_upgrade(move |socket| live::open_socket(app, socket, connection, is_known)).into_response()
}

/// Serves one connection.
async fn serve(app: Arc<App>, router: Router, stream: TcpStream, place: Arc<Connection>) {
    let _ = stream.set_nodelay(true);
    let own = Arc::clone(&place);
    let service = tower::ServiceExt::map_request(router, move |mut request: Request<Incoming>| {
        request.extensions_mut().insert(Arc::clone(&own));
        request.map(axum::body::Body::new)
    });
    let mut connection = std::pin::pin!(
        http1::Builder::new()
            .timer(ClockTimer(Arc::clone(&app.clock)))
            .header_read_timeout(app.options.slow)
            .max_buf_size(MAX_HEAD)
            .serve_connection(TokioIo::new(stream), TowerToHyperService::new(service))
            .with_upgrades()
    );
    // A client that goes away or writes nonsense ends its own connection and nothing else.
    tokio::select! {
        _ = connection.as_mut() => {}
        () = place.evicted() => {}
        () = app.closing.cancelled() => {
            connection.as_mut().graceful_shutdown();
            let end = async {
                app.closed.cancelled().await;
                // Clients that wait are sent what became of their runs.
                app.clock.sleep(LAST_WORDS).await;
            };
            select(connection, Box::pin(end)).await;
        }
    }
}

/// Says that there are too many connections.
async fn turn_away(app: Arc<App>, mut stream: TcpStream) {
    let body = format!(
        r#"{{"type":"about:blank","title":"Service Unavailable","status":503,"code":"too_many_connections","detail":"{} connections are open, which is the limit"}}"#,
        app.options.settings.max_connections
    );
    let answer = format!(
        "HTTP/1.1 503 Service Unavailable\r\ncontent-type: application/problem+json\r\nretry-after: 1\r\nconnection: close\r\ncontent-length: {}\r\n\r\n{body}",
        body.len()
    );
    let answers = async {
        // What it asked is read, or the answer would be lost with the connection.
        let mut asked = [0; 4096];
        let _ = stream.readable().await;
        let _ = stream.try_read(&mut asked);
        let _ = stream.write_all(answer.as_bytes()).await;
        let _ = stream.shutdown().await;
    };
    select(Box::pin(answers), app.clock.sleep(std::time::Duration::from_secs(1))).await;
}
