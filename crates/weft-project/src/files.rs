//! Reading files as the project does.

use std::path::{Path, PathBuf};

use serde_json::Value;
use tool_registry::files::{FileError, ReadError, read_text};

use crate::error::ProjectError;

/// Name of the settings file, which makes a folder a project.
pub(crate) const SETTINGS: &str = "weft.toml";

/// Reads the text of a file.
///
/// # Errors
/// It does not exist, cannot be read, or is not UTF-8.
pub fn read_file(path: &Path) -> Result<String, ProjectError> {
    Ok(read_text(path)?)
}

impl From<ReadError> for ProjectError {
    fn from(error: ReadError) -> Self {
        match error {
            ReadError::Missing(path) => Self::MissingFile { path },
            ReadError::Unreadable(at) => Self::Unreadable { path: at.path, message: at.message },
            ReadError::NotText(at) => Self::NotText(at),
            other => Self::Tool(Box::new(other.into())),
        }
    }
}

/// The JSON value of a file.
///
/// # Errors
/// Those of [`read_file`], and invalid JSON, with line and column.
pub fn read_json(path: &Path) -> Result<Value, ProjectError> {
    let text = read_file(path)?;
    agent_types::read_json(text.as_bytes()).map_err(|error| ProjectError::Json(json_error(path, &error)))
}

/// The folder of a project: this one, or the closest one above it.
///
/// # Errors
/// None of them is a project.
pub(crate) fn root_of(start: &Path) -> Result<PathBuf, ProjectError> {
    let absolute = std::path::absolute(start).unwrap_or_else(|_| start.to_owned());
    let root = absolute.ancestors().find(|folder| folder.join(SETTINGS).is_file());
    root.map(Path::to_owned).ok_or_else(|| ProjectError::NoProject { start: start.to_owned() })
}

pub(crate) fn json_error(path: &Path, error: &serde_json::Error) -> FileError {
    let message = error.to_string();
    let message = message.rsplit_once(" at line ").map_or(message.as_str(), |(before, _)| before);
    FileError {
        path: path.to_owned(),
        line: Some(error.line()),
        column: Some(error.column()),
        message: message.to_owned(),
    }
}

/// A relative path as an id: parts joined by `/`, without the suffix.
pub(crate) fn id_of(relative: &Path, suffix: &str) -> Option<String> {
    let parts: Option<Vec<&str>> = relative.iter().map(|part| part.to_str()).collect();
    parts?.join("/").strip_suffix(suffix).map(str::to_owned)
}
