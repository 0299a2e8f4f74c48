//! One server: it is reached when it is needed, and again when it was lost.

use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::sync::Arc;
use std::time::Duration;

use agent_types::{Backoff, Clock, Redactor};
use futures::future::{Either, select};
use http::{HeaderName, HeaderValue};
use rmcp::model::ProtocolVersion;
use rmcp::service::{ClientLifecycleMode, Peer, RunningService};
use rmcp::transport::streamable_http_client::StreamableHttpClientTransportConfig;
use rmcp::transport::{StreamableHttpClientTransport, TokioChildProcess};
use rmcp::{ClientServiceExt, RoleClient};
use tokio::io::{AsyncBufReadExt, AsyncReadExt, BufReader};
use tokio::process::{ChildStderr, Command};
use tokio_util::task::TaskTracker;
use tool_registry::process::ProcessGroup;

use super::correlated::Correlated;
use super::error::McpError;
use super::foreign::harmless;
use super::handler::Handler;
use super::listed::Listed;
use super::listing::list_tools;
use super::progress::Progress;
use super::settings::McpSettings;

/// The first pause after a failure, and the longest; each is twice as long as the one before.
const PAUSE: (Duration, Duration) = (Duration::from_millis(250), Duration::from_secs(30));

/// Longest pause that a call waits for; a longer one is reported as an error.
const SHORT: Duration = Duration::from_secs(2);

/// A server that stood so long has come up well.
const STEADY: Duration = Duration::from_secs(30);

/// Variables that programs need to run at all.
const INHERITED: [&str; 16] = [
    "PATH",
    "HOME",
    "USER",
    "LOGNAME",
    "SHELL",
    "TERM",
    "LANG",
    "LC_ALL",
    "TZ",
    "TMPDIR",
    "TEMP",
    "TMP",
    "SYSTEMROOT",
    "APPDATA",
    "USERPROFILE",
    "PROGRAMFILES",
];

/// Longest line of stderr that is kept, in characters.
const MAX_LINE: usize = 2000;

/// Bytes of a line of stderr that are held at once.
const MAX_PIECE: u64 = 16 * 1024;

/// One server.
#[derive(Debug)]
pub(super) struct Connection {
    pub(super) name: Arc<str>,
    pub(super) settings: McpSettings,
    pub(super) listed: Arc<Listed>,
    /// Takes what the server was given out of what it says.
    pub(super) masks: Redactor,
    root: PathBuf,
    clock: Arc<dyn Clock>,
    state: tokio::sync::Mutex<State>,
    /// The program that was started last.
    group: parking_lot::Mutex<Option<ProcessGroup>>,
    /// Readers of what the server writes to stderr.
    tasks: TaskTracker,
}

#[derive(Debug)]
enum State {
    /// Not reached yet, or lost.
    Down { failures: u32, since: Duration, message: String },
    /// At work since then.
    Up { running: Box<RunningService<RoleClient, Handler>>, since: Duration, failures: u32 },
}

/// A server that stands.
#[derive(Debug)]
pub(super) struct Reached {
    pub(super) peer: Peer<RoleClient>,
    /// Progress of calls. Each connection has its own, because tokens start anew with it.
    pub(super) progress: Arc<Progress>,
}

impl Reached {
    fn new(running: &RunningService<RoleClient, Handler>) -> Self {
        Self { peer: running.peer().clone(), progress: Arc::clone(&running.service().progress) }
    }
}

impl Connection {
    pub(super) fn new(
        name: &str,
        settings: McpSettings,
        listed: Arc<Listed>,
        root: &Path,
        clock: Arc<dyn Clock>,
    ) -> Self {
        Self {
            name: name.into(),
            masks: Redactor::of_any_length(settings.secrets()),
            settings,
            listed,
            root: root.to_owned(),
            clock,
            state: tokio::sync::Mutex::new(State::Down {
                failures: 0,
                since: Duration::ZERO,
                message: String::new(),
            }),
            group: parking_lot::Mutex::default(),
            tasks: TaskTracker::new(),
        }
    }

    /// The server, reached and with its tools listed. Must run where programs can be started.
    pub(super) async fn ready(&self) -> Result<Reached, McpError> {
        let mut state = self.state.lock().await;
        if let State::Up { running, since, failures } = &*state {
            // A server that ended closes the way to it; the service itself is closed only by us.
            if !running.is_closed() && !running.peer().is_transport_closed() {
                return Ok(Reached::new(running));
            }
            let now = self.clock.elapsed();
            let failures = if now.saturating_sub(*since) >= STEADY { 1 } else { failures + 1 };
            log::warn!(target: "mcp", "{}: the server has gone away", self.name);
            // What it started ends now: its number may soon be that of another program.
            drop(self.group.lock().take());
            *state = State::Down { failures, since: now, message: "it has gone away".to_owned() };
        }
        if let State::Down { failures, since, message } = &*state {
            let left = (*since + pause(*failures)).saturating_sub(self.clock.elapsed());
            if left > SHORT {
                let (server, message) = (self.name.to_string(), message.clone());
                return Err(McpError::Down { server, message, wait: left });
            }
            self.clock.sleep(left).await;
        }
        let failures = match &*state {
            State::Down { failures, .. } | State::Up { failures, .. } => *failures,
        };
        match self.reach().await {
            Ok(running) => {
                let reached = Reached::new(&running);
                *state = State::Up { running: Box::new(running), since: self.clock.elapsed(), failures };
                Ok(reached)
            }
            Err(error) => {
                let since = self.clock.elapsed();
                *state = State::Down { failures: failures + 1, since, message: error.to_string() };
                Err(error)
            }
        }
    }

    /// Ends the connection; a program that was started ends with it.
    pub(super) async fn close(&self) {
        let mut state = self.state.lock().await;
        if let State::Up { running, .. } = &mut *state {
            // It is gone either way.
            let _ = running.close().await;
        }
        drop(self.group.lock().take());
        *state = State::Down { failures: 0, since: Duration::ZERO, message: String::new() };
    }

    async fn reach(&self) -> Result<RunningService<RoleClient, Handler>, McpError> {
        let limit = Duration::from_millis(self.settings.start_timeout_ms);
        let reaching = async {
            let (handler, lifecycle) = self.handler()?;
            let running = match (&self.settings.command, &self.settings.url) {
                (Some(command), None) => {
                    let transport = self.start(command)?;
                    handler.serve_with_lifecycle(transport, lifecycle).await
                }
                (None, Some(url)) => {
                    let transport = self.address(url)?;
                    handler.serve_with_lifecycle(transport, lifecycle).await
                }
                (Some(_), Some(_)) => return Err(self.bad("it has both `command` and `url`")),
                (None, None) => return Err(self.bad("it has neither `command` nor `url`")),
            };
            let running = running.map_err(|error| self.not_started(&error))?;
            let listing = list_tools(running.peer()).await.map_err(|error| self.not_started(&error))?;
            self.listed.take(&self.name, listing);
            Ok(running)
        };
        match select(Box::pin(reaching), self.clock.sleep(limit)).await {
            Either::Left((reached, _)) => reached,
            Either::Right(((), _)) => {
                Err(self.not_started(&format!("no answer within {} ms", limit.as_millis())))
            }
        }
    }

    fn bad(&self, message: &str) -> McpError {
        McpError::Settings { server: self.name.to_string(), message: message.to_owned() }
    }

    fn not_started(&self, message: &dyn std::fmt::Display) -> McpError {
        McpError::Start {
            server: self.name.to_string(),
            message: harmless(&self.masks.mask(without_types(&message.to_string())), MAX_LINE),
        }
    }

    fn handler(&self) -> Result<(Handler, ClientLifecycleMode), McpError> {
        let text = &self.settings.protocol_version;
        let known = ProtocolVersion::KNOWN_VERSIONS.iter().find(|version| version.as_str() == text);
        let version = known.ok_or_else(|| self.bad(&format!("protocol version `{text}` is unknown")))?;
        // From this version on there is no handshake.
        let lifecycle = if version.as_str() >= ProtocolVersion::V_2026_07_28.as_str() {
            ClientLifecycleMode::Auto {
                preferred_versions: vec![version.clone()],
                legacy_version: Some(ProtocolVersion::V_2025_11_25),
            }
        } else {
            ClientLifecycleMode::Initialize
        };
        let handler = Handler {
            server: Arc::clone(&self.name),
            version: version.clone(),
            elicitation: self.settings.elicitation,
            listed: Arc::clone(&self.listed),
            progress: Arc::default(),
        };
        Ok((handler, lifecycle))
    }

    /// Starts the program. What it writes to stderr goes to the log.
    fn start(&self, program: &str) -> Result<TokioChildProcess, McpError> {
        let mut command = Command::new(program);
        let cwd = self.settings.cwd.as_ref().map_or_else(|| self.root.clone(), |cwd| self.root.join(cwd));
        command.args(&self.settings.args).current_dir(cwd).kill_on_drop(true).env_clear();
        let passed = INHERITED.into_iter().chain(self.settings.env_from.iter().map(String::as_str));
        command.envs(passed.filter_map(|name| Some((name.to_owned(), std::env::var_os(name)?))));
        command.envs(&self.settings.env);
        #[cfg(unix)]
        command.process_group(0);
        let (transport, stderr) = TokioChildProcess::builder(command)
            .stderr(Stdio::piped())
            .spawn()
            .map_err(|error| self.not_started(&format!("`{program}`: {error}")))?;
        *self.group.lock() = transport.id().map(ProcessGroup::led_by);
        if let Some(stderr) = stderr {
            self.tasks.spawn(log_stderr(Arc::clone(&self.name), stderr, self.masks.clone()));
        }
        Ok(transport)
    }

    fn address(&self, url: &str) -> Result<StreamableHttpClientTransport<Correlated>, McpError> {
        let client = Correlated::to(url).map_err(|message| self.bad(&message))?;
        let mut config = StreamableHttpClientTransportConfig::with_uri(url);
        if let Some(variable) = &self.settings.token_env {
            let token = std::env::var(variable)
                .map_err(|_| self.bad(&format!("the variable {variable} with its token is not set")))?;
            config = config.auth_header(token);
        }
        let headers = self.settings.headers.iter().map(|(name, value)| {
            let bad = || self.bad(&format!("header name `{name}` is invalid"));
            let name: HeaderName = name.parse().map_err(|_| bad())?;
            let value = HeaderValue::from_str(value).map_err(|_| bad())?;
            Ok((name, value))
        });
        let headers = headers.collect::<Result<_, McpError>>()?;
        Ok(StreamableHttpClientTransport::with_client(client, config.custom_headers(headers)))
    }
}

/// A message of the library without the names of its types.
fn without_types(message: &str) -> &str {
    match message.strip_prefix("Send message error Transport [") {
        Some(rest) => rest.split_once("] error: ").map_or(message, |(_, cause)| cause),
        None => message,
    }
}

/// Backoff of a server after consecutive failures.
fn pause(failures: u32) -> Duration {
    Backoff::new(PAUSE.0).with_max(PAUSE.1).after(failures)
}

async fn log_stderr(server: Arc<str>, stderr: ChildStderr, masks: Redactor) {
    let mut reader = BufReader::new(stderr);
    let mut line = Vec::new();
    // Whoever stops reading stops the program, so what is no text is read too, and a line without an end comes in pieces.
    while (&mut reader).take(MAX_PIECE).read_until(b'\n', &mut line).await.is_ok_and(|count| count > 0) {
        log::info!(target: "mcp", "{server}: {}", shown(&line, &masks));
        line.clear();
    }
}

/// A line of stderr as it may be shown.
fn shown(line: &[u8], masks: &Redactor) -> String {
    harmless(masks.mask(&String::from_utf8_lossy(line)).trim_end(), MAX_LINE)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn s50_what_a_server_was_given_is_not_in_the_log() {
        let pairs = |pairs: &[(&str, &str)]| {
            pairs.iter().map(|(name, value)| (name.to_string(), value.to_string())).collect()
        };
        let settings = McpSettings {
            env: pairs(&[("TOKEN", "long-enough"), ("MODE", "fast")]),
            headers: pairs(&[("X-Key", "long-enough-2")]),
            env_from: vec!["CARGO_PKG_NAME".to_owned()],
            ..McpSettings::default()
        };
        for (line, expected) in [
            ("key long-enough-2, long-enough\n", "key ***, ***"),
            ("fast and mcp-bridge", "fast and ***"),
            ("nothing", "nothing"),
        ] {
            assert_eq!(shown(line.as_bytes(), &Redactor::of_any_length(settings.secrets())), expected);
        }
    }

    #[test]
    fn a_message_names_no_types_of_the_library() {
        let message = "Send message error Transport [rmcp::Worker<a::B>>] error: refused, when send x";
        assert_eq!(without_types(message), "refused, when send x");
        assert_eq!(without_types("other [x] error: y"), "other [x] error: y");
    }

    #[test]
    fn pauses_grow_up_to_a_limit() {
        let millis: Vec<u128> = (0..10).map(|failures| pause(failures).as_millis()).collect();
        assert_eq!(millis, [0, 250, 500, 1000, 2000, 4000, 8000, 16_000, 30_000, 30_000]);
        assert_eq!(pause(u32::MAX), PAUSE.1);
    }
}
