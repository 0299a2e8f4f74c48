//! Tools that are known and cannot be used.

use std::fmt;
use std::path::PathBuf;

use crate::files::SyntaxError;
use crate::registry::RegistryError;

/// A place in a file.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct FilePlace {
    /// The file.
    pub path: PathBuf,
    /// Line from 1.
    pub line: Option<usize>,
    /// Column from 1.
    pub column: Option<usize>,
}

impl FilePlace {
    /// A file.
    #[must_use]
    pub fn new(path: impl Into<PathBuf>) -> Self {
        Self { path: path.into(), line: None, column: None }
    }

    /// The place of a syntax error in a file whose path is added by those who read it.
    #[must_use]
    pub fn inside(error: &SyntaxError) -> Self {
        Self::new(PathBuf::new()).at(Some(error.line), Some(error.column))
    }

    /// The same with a line and a column from 1.
    #[must_use]
    pub const fn at(mut self, line: Option<usize>, column: Option<usize>) -> Self {
        (self.line, self.column) = (line, column);
        self
    }
}

/// Class of a fault, by which a program chooses an exit code or a status.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Fault {
    /// The definition of the tool is invalid.
    #[default]
    Invalid,
    /// The id leads to something that does not exist.
    Unknown,
    /// Settings of the provider are invalid.
    Settings,
    /// Another program cannot be reached.
    Unreachable,
}

/// A tool that a provider knows and cannot give.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct BrokenTool {
    /// The id that it would have, as far as it is known.
    pub id: Option<String>,
    /// Stable code for logs, tests and the wire.
    pub code: &'static str,
    /// The fact.
    pub message: String,
    /// File that the fault is in.
    pub place: Option<FilePlace>,
    /// Suggested fix, for the user.
    pub help: Option<String>,
    /// Class of the fault.
    pub fault: Fault,
}

impl BrokenTool {
    /// A fault with its stable code.
    #[must_use]
    pub fn new(code: &'static str, message: impl Into<String>) -> Self {
        Self { id: None, code, message: message.into(), place: None, help: None, fault: Fault::default() }
    }

    /// The same with the id of the tool.
    #[must_use]
    pub fn with_id(mut self, id: impl Into<String>) -> Self {
        self.id = Some(id.into());
        self
    }

    /// The same with the place of the fault.
    #[must_use]
    pub fn with_place(mut self, place: impl Into<Option<FilePlace>>) -> Self {
        self.place = place.into();
        self
    }

    /// The same with a fix.
    #[must_use]
    pub fn with_help(mut self, help: impl Into<String>) -> Self {
        self.help = Some(help.into());
        self
    }

    /// The same with the class of the fault.
    #[must_use]
    pub const fn with_fault(mut self, fault: Fault) -> Self {
        self.fault = fault;
        self
    }
}

impl fmt::Display for BrokenTool {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

impl std::error::Error for BrokenTool {}

impl From<RegistryError> for BrokenTool {
    fn from(error: RegistryError) -> Self {
        Self::new(error.code(), error.to_string())
    }
}

#[cfg(feature = "schema")]
impl From<tool_schema::ToolSetError> for BrokenTool {
    fn from(error: tool_schema::ToolSetError) -> Self {
        Self::new(error.code(), error.to_string())
    }
}
