//! Reading and writing calls, as another crate sees it.

mod cases;
mod common;
mod encode;
mod json;
mod laws;
mod limits;
mod prompt;
mod rules;
mod stream;
mod unread;
