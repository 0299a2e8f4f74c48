//! HTTP tools: files, calls over real sockets, imports.

#![expect(clippy::unwrap_used, reason = "a test may stop at the first surprise")]

mod callbacks;
mod tools;
