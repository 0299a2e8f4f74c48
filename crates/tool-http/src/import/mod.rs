//! Descriptions of HTTP operations by other systems, as tool files.
//!
//! What cannot be used is refused with the reason, operation by operation; what was changed is noted.

mod foreign;
mod openapi;
mod operation;
mod schema;
mod security;

use agent_types::ToolId;
use serde::Serialize;

pub use foreign::{from_bu, from_comfytavern_tool};
pub use openapi::{OpenApiOptions, from_openapi, from_openapi_value};

use crate::file::HttpToolFile;

/// An operation that is no tool, and why.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct RefusedOperation {
    /// The operation, as its description names it.
    pub operation: String,
    /// Why it cannot be used.
    pub reason: String,
}

/// Tools that were read, with all that could not be taken over.
#[derive(Debug, Clone, Default, PartialEq)]
#[non_exhaustive]
pub struct ImportedTools {
    /// The tools, and the operation that each was made of.
    pub tools: Vec<(String, HttpToolFile)>,
    /// What is no tool.
    pub refused: Vec<RefusedOperation>,
    /// What was changed or left out, each with its operation.
    pub notes: Vec<String>,
}

impl ImportedTools {
    fn refuse(&mut self, operation: impl Into<String>, reason: impl Into<String>) {
        self.refused.push(RefusedOperation { operation: operation.into(), reason: reason.into() });
    }
}

/// Why a file cannot be imported at all.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ToolImportError {
    /// No JSON.
    #[error("the file is no JSON: {0}")]
    Json(#[from] serde_json::Error),
    /// Another kind of file, or another version.
    #[error("{message}")]
    Kind {
        /// What was expected.
        message: String,
    },
}

impl ToolImportError {
    /// Stable code for logs, tests and the wire.
    #[must_use]
    pub const fn code(&self) -> &'static str {
        match self {
            Self::Json(_) => "bad_json",
            Self::Kind { .. } => "bad_import",
        }
    }

    fn kind(message: impl Into<String>) -> Self {
        Self::Kind { message: message.into() }
    }
}

/// Longest name of an imported tool, in bytes: it is the name of a file, too.
const MAX_NAME: usize = 120;

/// A text as the name of a tool and its file: letters, digits, `_`, `.`, `-`.
fn tool_name(text: &str) -> String {
    let mut name = String::new();
    for c in text.chars() {
        let kept = if c.is_alphanumeric() || matches!(c, '_' | '.' | '-') { c } else { '_' };
        if kept != '_' || !name.ends_with('_') {
            name.push(kept);
        }
    }
    let mut end = name.len().min(MAX_NAME);
    while !name.is_char_boundary(end) {
        end -= 1;
    }
    let name = name[..end].trim_matches(['_', '.']).to_owned();
    if name.parse::<ToolId>().is_ok() { name } else { "tool".to_owned() }
}

/// The name, or one with a number behind it that nobody has. Names differ in more than the case of their letters.
fn unique(name: String, is_taken: impl Fn(&str) -> bool) -> String {
    if !is_taken(&name) {
        return name;
    }
    let mut number = 2_u32;
    loop {
        let numbered = format!("{name}_{number}");
        if !is_taken(&numbered) {
            return numbered;
        }
        number += 1;
    }
}
