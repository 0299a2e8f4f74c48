//! A server over real sockets.

#![expect(clippy::unwrap_used, clippy::panic, reason = "a test may stop at the first surprise")]

mod callbacks;
mod channels;
mod common;
mod conversations;
mod http;
mod limits;
mod live;
mod openai;
mod rest;
mod rows;
mod stuck;
mod tasks;
mod triggers;
mod widget;
