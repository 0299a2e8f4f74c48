//! Descriptions of HTTP operations by other systems, as tool files.
//!
//! What cannot be used is refused with the reason, operation by operation; what was changed is noted.

mod beside;
mod foreign;
mod openapi;
mod operation;
mod reference;
mod schema;
mod security;
mod style;
mod swagger;

use agent_types::ToolId;
use serde::Serialize;
use tool_http::HttpToolFile;

pub use beside::with_files_beside;
pub(crate) use foreign::{endpoint_config, read_tool, tool_config};
pub use foreign::{from_bu_tools, from_comfytavern_tool};
pub use openapi::{OpenApiOptions, from_openapi, from_openapi_value};

use crate::fields::Ledger;
use crate::report::Report;

/// An operation that cannot be a tool, with the reason.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct RefusedOperation {
    /// The operation, as its description names it.
    pub operation: String,
    /// Reason for the refusal.
    pub reason: String,
}

/// Tools that were read, with all that could not be taken over.
#[derive(Debug, Clone, Default, PartialEq)]
#[non_exhaustive]
pub struct ImportedTools {
    /// The tools, and the operation that each was made of.
    pub tools: Vec<(String, HttpToolFile)>,
    /// Operations that cannot be tools.
    pub refused: Vec<RefusedOperation>,
    /// Changes and omissions, each with its operation.
    pub notes: Vec<String>,
    /// The fate of every member of the file.
    pub report: Report,
}

impl ImportedTools {
    fn refuse(&mut self, operation: impl Into<String>, reason: impl Into<String>) {
        self.refused.push(RefusedOperation { operation: operation.into(), reason: reason.into() });
    }

    /// Adds a tool with its notes, or the reason why it is not one, and reports either at the place of the operation.
    fn add(
        &mut self,
        ledger: &Ledger<'_>,
        (label, path): (&str, &str),
        read: Result<(HttpToolFile, Vec<String>), String>,
    ) {
        match read {
            Ok((tool, notes)) => {
                for note in notes {
                    ledger.changed(path, "changed", note.clone());
                    self.notes.push(format!("{label}: {note}"));
                }
                self.tools.push((label.to_owned(), tool));
            }
            Err(reason) => {
                ledger.unsupported(path, "unusable", reason.clone());
                self.refuse(label, reason);
            }
        }
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

/// The name, with a number behind it where it is taken. Names differ in more than the case of their letters.
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
