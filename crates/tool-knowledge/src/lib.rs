//! Knowledge bases as tools.
//!
//! [`KnowledgeTools`] provides `kb:<name>` for each base of a project: text files that a pattern names, parted into passages and searched
//! in memory. [`knowledge_tool`] is the tool over any [`KnowledgeSource`].

#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;

mod base;
mod passages;
mod tool;

pub use base::{KnowledgeSettings, KnowledgeTools, named};
pub use tool::{KnowledgeSource, Passage, knowledge_tool};
