//! A project over HTTP: REST, live events by WebSocket and SSE, an OpenAI-compatible endpoint, and the page.
//!
//! [`Server::bind`] takes a project and an address, [`Server::run`] serves until it is asked to shut down.
//! It is meant for the machine it runs on: it binds the loopback, requires a token, and checks Host and Origin.
//!
//! It executes nothing itself: `weft-runs` starts runs, `run-store` persists their events.

#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;

mod access;
mod api;
mod app;
mod body;
mod callbacks;
mod channels;
mod clock_timer;
mod connection;
mod hooks;
mod layout;
mod live;
mod mcp;
mod openai;
mod openapi;
mod options;
mod page;
mod problem;
mod runs;
mod runs_runtime;
mod serve;
mod signature;
mod token;
mod widget;

pub use openapi::document as openapi_document;
pub use options::{ServeError, ServerOptions};
pub use serve::{Server, ServerHandle};
pub use token::{Token, TokenChoice};

/// The main types are shared between threads.
const _: () = {
    const fn is_shared<T: Send + Sync>() {}
    is_shared::<Server>();
    is_shared::<ServerHandle>();
    is_shared::<ServerOptions>();
    is_shared::<Token>();
};
