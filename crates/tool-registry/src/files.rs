//! Files that providers read: text, found below a folder of a project and never outside of it.

use std::collections::BTreeSet;
use std::io::{ErrorKind, Read};
use std::path::{Path, PathBuf};

use agent_types::{nearest, read_json};
use serde::de::DeserializeOwned;

use crate::provider::{BrokenTool, Fault, FilePlace};

/// Deepest folder that is searched.
const MAX_DEPTH: usize = 32;

/// Beginning of the name of a secret in a template.
const SECRET: &str = "{$secret.";

/// A fault in a file, with its place.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FileError {
    /// The file, as the user would name it.
    pub path: PathBuf,
    /// Line from 1, where there is one.
    pub line: Option<usize>,
    /// Column from 1, where there is one.
    pub column: Option<usize>,
    /// The fault.
    pub message: String,
}

/// A text that is not the JSON that a file needs, with the place of the fault.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{message}{}", .suggest.as_deref().map(|near| format!("; did you mean `{near}`?")).unwrap_or_default())]
#[non_exhaustive]
pub struct SyntaxError {
    /// Line from 1.
    pub line: usize,
    /// Column from 1.
    pub column: usize,
    /// Message.
    pub message: String,
    /// The key that was probably meant.
    pub suggest: Option<String>,
}

/// Reads JSON that a user wrote.
///
/// # Errors
/// Invalid JSON, a part of the wrong type, or an unknown key (with a suggestion), with line and column.
pub fn from_json<T: DeserializeOwned>(text: &str) -> Result<T, SyntaxError> {
    read_json(text.as_bytes()).map_err(|error| {
        let message = error.to_string();
        let message = message.rsplit_once(" at line ").map_or(message.as_str(), |(before, _)| before);
        SyntaxError {
            line: error.line(),
            column: error.column(),
            suggest: near_key(message),
            message: message.to_owned(),
        }
    })
}

/// The reader's message about an unknown key lists those that it knows.
fn near_key(message: &str) -> Option<String> {
    let rest =
        message.strip_prefix("unknown field `").or_else(|| message.strip_prefix("unknown variant `"))?;
    let (key, known) = rest.split_once('`')?;
    nearest(key, known.split('`').skip(1).step_by(2)).map(str::to_owned)
}

/// A file that cannot be read as text.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ReadError {
    /// It does not exist.
    #[error("the file {} does not exist", .0.display())]
    Missing(PathBuf),
    /// The system refuses.
    #[error("{} cannot be read: {}", .0.path.display(), .0.message)]
    Unreadable(FileError),
    /// It is not UTF-8.
    #[error("{}", .0.message)]
    NotText(FileError),
}

impl ReadError {
    /// Stable code for logs, tests and the wire.
    #[must_use]
    pub const fn code(&self) -> &'static str {
        match self {
            Self::Missing(_) => "missing_file",
            Self::Unreadable(_) => "unreadable_file",
            Self::NotText(_) => "bad_text",
        }
    }
}

impl From<ReadError> for BrokenTool {
    fn from(error: ReadError) -> Self {
        let broken = Self::new(error.code(), error.to_string());
        match error {
            ReadError::NotText(at) => {
                let place = FilePlace::new(at.path).at(at.line, at.column);
                broken.with_place(place).with_help("save it as UTF-8")
            }
            ReadError::Missing(_) => broken.with_fault(Fault::Unknown).with_help("check the path"),
            ReadError::Unreadable(_) => broken.with_help("check the permissions"),
        }
    }
}

/// Largest file of a project that is read, in bytes.
pub const MAX_FILE: u64 = 64 << 20;

/// The text of a file.
///
/// # Errors
/// It does not exist, cannot be read, is not a file, is larger than [`MAX_FILE`], or is not UTF-8.
pub fn read_text(path: &Path) -> Result<String, ReadError> {
    match read_bytes(path) {
        Ok(bytes) => text_of(path, bytes),
        Err(error) if error.kind() == ErrorKind::NotFound => Err(ReadError::Missing(path.to_owned())),
        Err(error) => Err(unreadable(path, &error)),
    }
}

/// The bytes of a file. A pipe or a device is refused: reading it may never end.
///
/// # Errors
/// It cannot be read, is something else than a file, or is larger than [`MAX_FILE`].
pub fn read_bytes(path: &Path) -> std::io::Result<Vec<u8>> {
    // Before it is opened: opening a pipe waits for its writer.
    let data = std::fs::metadata(path)?;
    if !data.is_file() {
        return Err(std::io::Error::other("it is not a file"));
    }
    let too_large = || std::io::Error::other(format!("it is larger than {} MiB", MAX_FILE >> 20));
    if data.len() > MAX_FILE {
        return Err(too_large());
    }
    let mut bytes = Vec::new();
    std::fs::File::open(path)?.take(MAX_FILE + 1).read_to_end(&mut bytes)?;
    if bytes.len() as u64 > MAX_FILE { Err(too_large()) } else { Ok(bytes) }
}

/// The text of a file's bytes, without the byte order mark that some editors begin it with.
///
/// # Errors
/// They are not UTF-8; the error has the place of the first byte that is not.
pub fn text_of(path: &Path, bytes: Vec<u8>) -> Result<String, ReadError> {
    let mut text = String::from_utf8(bytes).map_err(|error| {
        let at = error.utf8_error().valid_up_to();
        let before = String::from_utf8_lossy(&error.as_bytes()[..at]);
        ReadError::NotText(FileError {
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

fn unreadable(path: &Path, error: &std::io::Error) -> ReadError {
    let (path, message) = (path.to_owned(), error.to_string());
    ReadError::Unreadable(FileError { path, line: None, column: None, message })
}

/// A file or a link of a project that is passed over.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct PassedOver {
    /// Stable code.
    pub code: &'static str,
    /// The file, and the reason.
    pub at: FileError,
    /// The fix, for the user.
    pub help: &'static str,
}

impl PassedOver {
    /// A file that is passed over as a whole.
    #[must_use]
    pub fn new(code: &'static str, path: &Path, message: String, help: &'static str) -> Self {
        let at = FileError { path: path.to_owned(), line: None, column: None, message };
        Self { code, at, help }
    }
}

/// The content of a folder.
#[derive(Debug, Default)]
#[non_exhaustive]
pub struct Below {
    /// Files, by their paths relative to it; in order of name.
    pub files: Vec<PathBuf>,
    /// Links that leave the project.
    pub passed: Vec<PassedOver>,
}

/// The files of a folder whose names end with `suffix`. A folder that does not exist is empty.
///
/// Links are followed only where they stay inside `root`.
///
/// # Errors
/// A folder that cannot be read.
pub fn files_below(root: &Path, folder: &Path, suffix: &str) -> Result<Below, ReadError> {
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

/// Returns `true` if an id may name a file: no empty, `.` or `..` part, no absolute path, no other root.
#[must_use]
pub fn is_safe_id(id: &str) -> bool {
    !id.is_empty()
        && !id.contains(['\\', ':', '\0'])
        && id.split('/').all(|part| !part.is_empty() && part != "." && part != "..")
}

/// Values of the secrets that the files of a folder name. A file that cannot be read sends nothing.
#[must_use]
pub fn secrets_below(root: &Path, folder: &str, suffix: &str) -> Vec<String> {
    let folder = root.join(folder);
    let below = files_below(root, &folder, suffix).unwrap_or_default();
    below.files.into_iter().flat_map(|file| secrets_in(&folder.join(file))).collect()
}

/// Values of the secrets that a file names.
#[must_use]
pub fn secrets_in(path: &Path) -> Vec<String> {
    let text = read_text(path).unwrap_or_default();
    let names: BTreeSet<&str> = names_in(&text).collect();
    names.into_iter().filter_map(|name| std::env::var(name).ok()).collect()
}

fn names_in(text: &str) -> impl Iterator<Item = &str> {
    let is_part = |c: char| c.is_ascii_alphanumeric() || c == '_';
    text.split(SECRET).skip(1).filter_map(move |rest| {
        let (name, _) = rest.split_once('}')?;
        (!name.is_empty() && name.chars().all(is_part)).then_some(name)
    })
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

    #[cfg(unix)]
    #[test]
    fn what_may_never_end_is_not_read() {
        let folder = std::env::temp_dir().join(format!("weft-files-{}", std::process::id()));
        std::fs::create_dir_all(&folder).unwrap();
        let (pipe, large) = (folder.join("pipe"), folder.join("large"));
        assert!(std::process::Command::new("mkfifo").arg(&pipe).status().unwrap().success());
        std::fs::File::create(&large).unwrap().set_len(MAX_FILE + 1).unwrap();
        for (path, why) in [(&pipe, "it is not a file"), (&large, "it is larger than 64 MiB")] {
            let error = read_text(path).unwrap_err();
            assert!(matches!(&error, ReadError::Unreadable(at) if at.message == why), "{error:?}");
        }
        std::fs::remove_dir_all(&folder).unwrap();
    }

    #[test]
    fn names_of_secrets_are_found_where_they_stand() {
        for (text, found) in [
            ("no secret", &[] as &[&str]),
            ("{$secret.}{$secret.A-B}{$secret.A", &[]),
            (r#"{"auth": "Bearer {$secret.KEY}", "x": "{$ctx.a}{$secret.B_2}"}"#, &["KEY", "B_2"]),
        ] {
            assert_eq!(names_in(text).collect::<Vec<_>>(), found, "{text}");
        }
    }
}
