//! `weft serve`: the project over HTTP.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

use serde_json::json;
use weft_server::{ServeError, Server, ServerHandle, ServerOptions, Token, TokenChoice};

use super::Context;
use crate::arguments::{Output, ServeArguments};
use crate::failure::{Exit, Failure};
use crate::{follow, log_lines, output};

/// Variable of the environment that may hold the token.
const TOKEN: &str = "WEFT_TOKEN";

pub(super) fn run(context: &Context, arguments: &ServeArguments) -> Result<Exit, Failure> {
    log_lines::to_stderr();
    let project = context.project(None)?;
    let mut options = ServerOptions::new(project.settings().server.clone());
    options.settings.host = arguments.host.unwrap_or(options.settings.host);
    options.settings.port = arguments.port.unwrap_or(options.settings.port);
    options.token = token(arguments)?;
    let is_scripted = project.is_scripted();
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .build()
        .map_err(|error| Failure::new(Exit::Failed, "runtime", error.to_string()))?;
    let served = runtime.block_on(async {
        let server = Server::bind(project, options).map_err(|error| of_serve(&error))?;
        print_address(context.output, &server, is_scripted)?;
        let handle = server.handle();
        tokio::select! {
            () = server.run() => {}
            () = heed_signals(handle) => {}
        }
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
        ServeError::TokenRequired { .. } | ServeError::Store(_) => Exit::Configuration,
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

/// The first wish to end lets runs finish, the second ends at once. Never resolves.
async fn heed_signals(handle: ServerHandle) {
    cancel_key().await;
    note!("the server ends when its runs have; again to leave them, they can be resumed");
    handle.close();
    cancel_key().await;
    handle.abandon();
    std::future::pending::<()>().await;
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
