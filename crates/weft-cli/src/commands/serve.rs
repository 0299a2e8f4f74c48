//! `weft serve`: the project over HTTP.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::time::Duration;

use agent_types::{Clock, SystemClock};
use futures::future::{Either, select};
use serde_json::json;
use weft_server::{ServeError, Server, ServerHandle, ServerOptions, Token, TokenChoice};

use super::Context;
use crate::arguments::{Output, ServeArguments};
use crate::failure::{Exit, Failure};
use crate::{follow, log_lines, output};

/// Variable of the environment that may hold the token.
const TOKEN: &str = "WEFT_TOKEN";

/// Time limit for the end of a server beyond the time of its runs.
const LATE: Duration = Duration::from_secs(5);

/// Checks in that time whether the store has taken everything.
const CHECKS: u32 = 500;

pub(super) fn run(context: &Context, arguments: &ServeArguments) -> Result<Exit, Failure> {
    log_lines::to_stderr();
    let project = context.project(None)?;
    let mut options = ServerOptions::new(project.settings().server.clone());
    options.settings.host = arguments.host.unwrap_or(options.settings.host);
    options.settings.port = arguments.port.unwrap_or(options.settings.port);
    options.token = token(arguments)?;
    let is_scripted = project.is_scripted();
    let grace = Duration::from_millis(options.settings.grace_ms);
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .build()
        .map_err(|error| Failure::new(Exit::Failed, "runtime", error.to_string()))?;
    let served = runtime.block_on(async {
        let server = Server::bind(project, options).map_err(|error| of_serve(&error))?;
        print_address(context.output, &server, is_scripted)?;
        watch_signals(server.handle(), grace)?;
        server.run().await;
        Ok(Exit::Ok)
    });
    // Blocking work that was given up does not hold the program.
    runtime.shutdown_background();
    served
}

fn token(arguments: &ServeArguments) -> Result<TokenChoice, Failure> {
    if arguments.no_token {
        return Ok(TokenChoice::Open);
    }
    let Ok(given) = std::env::var(TOKEN) else { return Ok(TokenChoice::Random) };
    Token::new(given).map(TokenChoice::Given).ok_or_else(|| {
        Failure::new(Exit::Configuration, "bad_token", format!("{TOKEN} holds no token"))
            .with_help("at least 16 letters, digits, `-`, `_`, `.` and `~`; without it a token is drawn")
    })
}

fn of_serve(error: &ServeError) -> Failure {
    let exit = match error {
        ServeError::TokenRequired { .. } | ServeError::PublicWithoutToken | ServeError::Store(_) => {
            Exit::Configuration
        }
        _ => Exit::Failed,
    };
    Failure::new(exit, error.code(), error.to_string()).with_help(error.help())
}

/// The one line that says where the server is, and what opens it.
fn print_address(form: Output, server: &Server, is_scripted: bool) -> Result<(), Failure> {
    if is_scripted {
        follow::note_script(form);
    }
    let url = format!("http://{}", reachable(server.address()));
    let token = server.token().map(Token::reveal);
    match form {
        Output::Text => {
            let fragment = token.map(|token| format!("#token={token}")).unwrap_or_default();
            output::line(&format!("{url}/{fragment}"))?;
            note!("agents are models at {url}/v1, tools at {url}/mcp; the token is the key; Ctrl-C ends it");
            Ok(())
        }
        Output::Json | Output::Jsonl => output::json(&json!({"url": url, "token": token})),
    }
}

/// An address that a browser on this machine can open.
fn reachable(address: SocketAddr) -> SocketAddr {
    let ip = match address.ip() {
        IpAddr::V4(ip) if ip.is_unspecified() => Ipv4Addr::LOCALHOST.into(),
        IpAddr::V6(ip) if ip.is_unspecified() => Ipv6Addr::LOCALHOST.into(),
        ip => ip,
    };
    SocketAddr::new(ip, address.port())
}

/// Heeds signals on a thread of its own, which hears them whatever the others do.
fn watch_signals(handle: ServerHandle, grace: Duration) -> Result<(), Failure> {
    let failed = |error: std::io::Error| Failure::new(Exit::Failed, "runtime", error.to_string());
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().map_err(failed)?;
    let watch = move || runtime.block_on(heed_signals(&handle, grace));
    std::thread::Builder::new().name("weft-signals".into()).spawn(watch).map(drop).map_err(failed)
}

/// The first wish to end lets runs finish, the second ends at once. A server that has not ended in its time is left: its
/// runs can be resumed.
async fn heed_signals(handle: &ServerHandle, grace: Duration) {
    cancel_key().await;
    note!("the server ends when its runs have; again to leave them, they can be resumed");
    handle.close();
    let late = std::pin::pin!(SystemClock.sleep(grace + LATE));
    if let Either::Left(_) = select(std::pin::pin!(cancel_key()), late).await {
        handle.abandon();
        SystemClock.sleep(LATE).await;
    }
    match unkept_at_last(handle).await {
        0 => note!("the server is left: work of a run does not end; the run can be resumed"),
        unkept => note!(
            "the server is left before the store took everything: {unkept} events or changes are not kept\nhelp: end what locks the store, or give the server more time with [server] grace_ms"
        ),
    }
    weft_project::kill_programs();
    std::process::exit(Exit::Failed as i32);
}

/// Events that the store has not taken within a short time. A store that is only slow has none at some moment, though the
/// runs that are left add to them.
async fn unkept_at_last(handle: &ServerHandle) -> usize {
    for _ in 0..CHECKS {
        if handle.unkept() == 0 {
            return 0;
        }
        SystemClock.sleep(LATE / CHECKS).await;
    }
    handle.unkept()
}

#[cfg(unix)]
async fn cancel_key() {
    use tokio::signal::unix::{SignalKind, signal};
    let Ok(mut terminate) = signal(SignalKind::terminate()) else { return std::future::pending().await };
    tokio::select! {
        interrupted = tokio::signal::ctrl_c() => if interrupted.is_err() { std::future::pending().await },
        _ = terminate.recv() => {}
    }
}

#[cfg(not(unix))]
async fn cancel_key() {
    if tokio::signal::ctrl_c().await.is_err() {
        std::future::pending().await
    }
}
