//! Rust examples of the guide, as doctests.
//!
//! The crate has nothing else. It is for this repository alone: the pages are outside of its package.

#[cfg(doctest)]
#[doc = include_str!("../../../docs/guide/nodes.md")]
struct Nodes;

#[cfg(doctest)]
#[doc = include_str!("../../../docs/guide/nodes.zh.md")]
struct NodesInChinese;

#[cfg(doctest)]
#[doc = include_str!("../../../docs/guide/own-agent.md")]
struct OwnAgent;

#[cfg(doctest)]
#[doc = include_str!("../../../docs/guide/rust-tools.md")]
struct RustTools;
