//! The printed examples of the documents that the program answers to, each as a project that runs.
//!
//! `canvas`: an agent as nodes. `offered`: tools of a workflow and of its nodes. `protocol`: calls as XML in a reply.
#![expect(clippy::unwrap_used, clippy::panic, reason = "a test may stop at the first surprise")]

mod canvas;
mod common;
mod offered;
mod protocol;
