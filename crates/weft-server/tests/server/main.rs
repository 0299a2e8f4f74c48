//! A server over real sockets.

mod common;
mod http;
mod limits;
mod live;
mod openai;
mod rest;
mod rows;
