//! Reading and writing calls, as another crate sees it.

mod cases;
mod common;
mod encode;
mod json;
mod laws;
mod limits;
mod mended;
mod prompt;
mod rules;
mod stream;
mod swallowed;
mod unread;
