//! Reading files, and ids that stay inside the project.

use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use serde_json::Value;

use crate::error::{FileError, ProjectError};

/// Deepest folder below `workflows/` that is looked into.
const MAX_DEPTH: usize = 32;

/// Reads the text of a file.
///
/// # Errors
/// The file is missing, cannot be read, or is not UTF-8.
pub fn read_file(path: &Path) -> Result<String, ProjectError> {
    match std::fs::read(path) {
        Ok(bytes) => text_of(path, bytes),
        Err(error) if error.kind() == ErrorKind::NotFound => {
            Err(ProjectError::MissingFile { path: path.to_owned() })
        }
        Err(error) => Err(unreadable(path, &error)),
    }
}

/// Decodes the text of a file, without the byte order mark that some editors write.
///
/// # Errors
/// The bytes are not UTF-8; the error names the place of the first invalid byte.
pub fn text_of(path: &Path, bytes: Vec<u8>) -> Result<String, ProjectError> {
    let mut text = String::from_utf8(bytes).map_err(|error| {
        let at = error.utf8_error().valid_up_to();
        let before = String::from_utf8_lossy(&error.as_bytes()[..at]);
        ProjectError::NotText(FileError {
            path: path.to_owned(),
            line: Some(before.matches('\n').count() + 1),
            column: Some(before.rsplit('\n').next().unwrap_or_default().chars().count() + 1),
            message: format!("it is not UTF-8 (byte {})", at + 1),
        })
    })?;
    if text.starts_with('\u{feff}') {
        text.drain(..'\u{feff}'.len_utf8());
    }
    Ok(text)
}

fn unreadable(path: &Path, error: &std::io::Error) -> ProjectError {
    ProjectError::Unreadable { path: path.to_owned(), message: error.to_string() }
}

/// Reads the JSON value of a file.
///
/// # Errors
/// Those of [`read_file`], and invalid JSON, with line and column.
pub fn read_json(path: &Path) -> Result<Value, ProjectError> {
    let text = read_file(path)?;
    serde_json::from_str(&text).map_err(|error| ProjectError::Json(json_error(path, &error)))
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

/// A file or a link of a project that is passed over.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct PassedOver {
    /// Stable code.
    pub code: &'static str,
    /// Path, and the reason.
    pub at: FileError,
    /// Suggested fix, for the user.
    pub help: &'static str,
}

impl PassedOver {
    pub(crate) fn new(code: &'static str, path: &Path, message: String, help: &'static str) -> Self {
        let at = FileError { path: path.to_owned(), line: None, column: None, message };
        Self { code, at, help }
    }
}

/// Contents of a folder.
#[derive(Debug, Default)]
pub(crate) struct Below {
    /// Files, by their paths relative to it; in order of name.
    pub(crate) files: Vec<PathBuf>,
    /// Links that leave the project.
    pub(crate) passed: Vec<PassedOver>,
}

/// The files of a folder whose names end so. A folder that is not there is empty.
///
/// Links are followed only where they stay inside `root`.
///
/// # Errors
/// A folder that cannot be read.
pub(crate) fn files_below(root: &Path, folder: &Path, suffix: &str) -> Result<Below, ProjectError> {
    let mut found = Below::default();
    let root = root.canonicalize().map_err(|error| unreadable(root, &error))?;
    let mut open = vec![(folder.to_owned(), 0)];
    while let Some((directory, depth)) = open.pop() {
        let entries = match std::fs::read_dir(&directory) {
            Ok(entries) => entries,
            Err(error) if error.kind() == ErrorKind::NotFound => continue,
            Err(error) => return Err(unreadable(&directory, &error)),
        };
        for entry in entries {
            let path = entry.map_err(|error| unreadable(&directory, &error))?.path();
            let is_meant = path.to_string_lossy().ends_with(suffix);
            let real = path.canonicalize();
            if !real.as_ref().is_ok_and(|real| real.starts_with(&root)) {
                if real.is_ok() && (is_meant || path.is_dir()) {
                    found.passed.push(PassedOver::new(
                        "link_outside",
                        &path,
                        "it is a link that leaves the project".into(),
                        "copy what it leads to into the project",
                    ));
                }
            } else if path.is_dir() && depth < MAX_DEPTH {
                open.push((path, depth + 1));
            } else if path.is_file() && is_meant {
                found.files.extend(path.strip_prefix(folder).map(Path::to_owned));
            }
        }
    }
    found.files.sort();
    Ok(found)
}

/// A relative path as an id: parts joined by `/`, without the suffix.
pub(crate) fn id_of(relative: &Path, suffix: &str) -> Option<String> {
    let parts: Option<Vec<&str>> = relative.iter().map(|part| part.to_str()).collect();
    parts?.join("/").strip_suffix(suffix).map(str::to_owned)
}

/// Returns `true` if an id may name a file: no empty, `.` or `..` part, no absolute path, no other root.
pub(crate) fn is_safe_id(id: &str) -> bool {
    !id.is_empty()
        && !id.contains(['\\', ':', '\0'])
        && id.split('/').all(|part| !part.is_empty() && part != "." && part != "..")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_stay_inside() {
        for id in ["summarize_text", "skills/greet", "摘要"] {
            assert!(is_safe_id(id), "{id}");
        }
        for id in ["", "..", "../x", "a/../b", "/abs", "a//b", "C:\\x", "a\\b", "./a"] {
            assert!(!is_safe_id(id), "{id}");
        }
    }
}
