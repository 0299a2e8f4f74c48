//! A folder of files that nodes may read and write.

use std::collections::HashMap;
use std::fs::{self, File};
use std::io::{ErrorKind, Read, Write};
use std::path::{Path, PathBuf};
use std::sync::{Arc, LazyLock, Mutex, PoisonError, Weak};

/// Largest file that is written, in bytes, what stood there before included.
const MAX_WRITTEN: u64 = 64 * 1024 * 1024;

/// Treatment of a file that exists by a write.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum WriteMode {
    /// It is left alone, and the write fails.
    Create,
    /// It is replaced.
    Overwrite,
    /// The content is added to its end.
    Append,
}

/// Reason why a file cannot be used.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum FileError {
    /// The path does not stay inside the folder.
    #[error("`{path}` is not a path inside the folder of files: {reason}")]
    Path {
        /// The path.
        path: String,
        /// Rule that it breaks.
        reason: &'static str,
    },
    /// The file is missing.
    #[error("the file `{0}` does not exist")]
    Missing(String),
    /// The file exists, and must not.
    #[error("the file `{0}` exists; set `mode` to `overwrite` or `append`, or take another name")]
    Exists(String),
    /// The file is too large.
    #[error("`{path}` has more than {limit} bytes")]
    TooLarge {
        /// The path.
        path: String,
        /// Most bytes that it may have.
        limit: u64,
    },
    /// The operating system refuses.
    #[error("`{path}`: {source}")]
    Io {
        /// The path.
        path: String,
        /// Its reason.
        source: std::io::Error,
    },
}

impl FileError {
    /// Stable code for logs, tests and the wire.
    #[must_use]
    pub const fn code(&self) -> &'static str {
        match self {
            Self::Path { .. } => "bad_file_path",
            Self::Missing(_) => "file_missing",
            Self::Exists(_) => "file_exists",
            Self::TooLarge { .. } => "file_too_large",
            Self::Io { .. } => "file_failed",
        }
    }
}

/// The folder whose files nodes may read and write: a service of their runs.
///
/// A path is relative, with `/` between its parts. Links are refused at every part of it.
///
/// ```
/// use node_library::{FilesFolder, WriteMode};
///
/// let project = tempfile::tempdir()?;
/// let files = FilesFolder::new(project.path().join("files"));
/// files.write("notes/a.txt", b"one", WriteMode::Create)?;
/// files.write("notes/a.txt", b", two", WriteMode::Append)?;
/// assert_eq!(files.read("notes/a.txt", 100)?, b"one, two");
/// assert_eq!(files.read("../weft.toml", 100).unwrap_err().code(), "bad_file_path");
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug, Clone)]
pub struct FilesFolder(PathBuf);

impl FilesFolder {
    /// The files below this folder. It is made when something is written.
    #[must_use]
    pub fn new(folder: impl Into<PathBuf>) -> Self {
        Self(folder.into())
    }

    /// The content of a file.
    ///
    /// # Errors
    /// A path that leaves the folder, a file that is missing or has more bytes than the limit.
    pub fn read(&self, path: &str, limit: u64) -> Result<Vec<u8>, FileError> {
        let file = self.place(path)?;
        let io = |source| failed(path, source);
        if !fs::metadata(&file).map_err(io)?.is_file() {
            return Err(wrong(path, "it names a folder"));
        }
        let mut content = Vec::new();
        File::open(&file).map_err(io)?.take(limit + 1).read_to_end(&mut content).map_err(io)?;
        if content.len() as u64 > limit {
            return Err(FileError::TooLarge { path: path.to_owned(), limit });
        }
        Ok(content)
    }

    /// Writes a file: into a temporary one beside it, which then takes its name. A reader sees the old content or the new
    /// one. Returns the bytes that the file has.
    ///
    /// # Errors
    /// A path that leaves the folder, a file that exists where it must not, too many bytes.
    pub fn write(&self, path: &str, content: &[u8], mode: WriteMode) -> Result<u64, FileError> {
        let file = self.place(path)?;
        let turn = turn_of(&file);
        // A write that failed left the file whole.
        let _turn = turn.lock().unwrap_or_else(PoisonError::into_inner);
        let io = |source| failed(path, source);
        let too_large = || FileError::TooLarge { path: path.to_owned(), limit: MAX_WRITTEN };
        let before = match mode {
            WriteMode::Create if file.exists() => return Err(FileError::Exists(path.to_owned())),
            WriteMode::Create | WriteMode::Overwrite => Vec::new(),
            WriteMode::Append => match self.read(path, MAX_WRITTEN) {
                Err(FileError::Missing(_)) => Vec::new(),
                before => before?,
            },
        };
        let bytes = before.len() as u64 + content.len() as u64;
        if bytes > MAX_WRITTEN {
            return Err(too_large());
        }
        let folder = file.parent().unwrap_or(&self.0);
        fs::create_dir_all(folder).map_err(io)?;
        let mut written = temporary(folder).map_err(io)?;
        written.write_all(&before).and_then(|()| written.write_all(content)).map_err(io)?;
        if let Some(before) = fs::metadata(&file).ok().filter(fs::Metadata::is_file) {
            written.as_file().set_permissions(before.permissions()).map_err(io)?;
        }
        written.as_file().sync_all().map_err(io)?;
        let kept =
            if mode == WriteMode::Create { written.persist_noclobber(&file) } else { written.persist(&file) };
        match kept {
            Ok(_) => Ok(bytes),
            Err(error) if error.error.kind() == ErrorKind::AlreadyExists => {
                Err(FileError::Exists(path.to_owned()))
            }
            Err(error) => Err(io(error.error)),
        }
    }

    /// The place of a path, with no link on the way to it.
    fn place(&self, path: &str) -> Result<PathBuf, FileError> {
        if path.is_empty() || path.contains(['\\', '\0', ':']) {
            return Err(wrong(path, "write parts with `/` between them, without `\\` and `:`"));
        }
        let mut place = self.0.clone();
        refuse_link(path, &place)?;
        for part in path.split('/') {
            if matches!(part, "" | "." | "..") {
                return Err(wrong(path, "it must be relative, without empty parts, `.` and `..`"));
            }
            place.push(part);
            refuse_link(path, &place)?;
        }
        Ok(place)
    }
}

/// The turn of writing a file: one write of it at a time in this process, so that none is lost between reading and replacing.
fn turn_of(file: &Path) -> Arc<Mutex<()>> {
    static TURNS: LazyLock<Mutex<HashMap<PathBuf, Weak<Mutex<()>>>>> = LazyLock::new(Mutex::default);
    let file = std::path::absolute(file).unwrap_or_else(|_| file.to_owned());
    let mut turns = TURNS.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some(turn) = turns.get(&file).and_then(Weak::upgrade) {
        return turn;
    }
    turns.retain(|_, turn| turn.strong_count() > 0);
    let turn = Arc::default();
    turns.insert(file, Arc::downgrade(&turn));
    turn
}

fn refuse_link(path: &str, place: &Path) -> Result<(), FileError> {
    if place.is_symlink() { Err(wrong(path, "a part of it is a link")) } else { Ok(()) }
}

fn wrong(path: &str, reason: &'static str) -> FileError {
    FileError::Path { path: path.to_owned(), reason }
}

fn failed(path: &str, source: std::io::Error) -> FileError {
    match source.kind() {
        ErrorKind::NotFound => FileError::Missing(path.to_owned()),
        _ => FileError::Io { path: path.to_owned(), source },
    }
}

fn temporary(folder: &Path) -> std::io::Result<tempfile::NamedTempFile> {
    let mut builder = tempfile::Builder::new();
    builder.prefix(".weft-");
    #[cfg(unix)]
    builder.permissions(std::os::unix::fs::PermissionsExt::from_mode(0o666));
    builder.tempfile_in(folder)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_stay_inside() {
        let outside = tempfile::tempdir().unwrap();
        fs::write(outside.path().join("secret"), "s").unwrap();
        let files = FilesFolder::new(outside.path().join("files"));
        files.write("a/b.txt", b"b", WriteMode::Create).unwrap();
        for path in [
            "",
            "/etc/passwd",
            "../secret",
            "a/../../secret",
            "a//b.txt",
            "./a",
            "a/",
            "a\\b",
            "C:/x",
            "a/b.txt\0",
        ] {
            for code in [
                files.read(path, 10).unwrap_err().code(),
                files.write(path, b"x", WriteMode::Overwrite).unwrap_err().code(),
            ] {
                assert_eq!(code, "bad_file_path", "{path:?}");
            }
        }
        assert_eq!(files.read("a", 10).unwrap_err().code(), "bad_file_path");
        assert_eq!(files.read("a/c.txt", 10).unwrap_err().code(), "file_missing");
        assert_eq!(fs::read_to_string(outside.path().join("secret")).unwrap(), "s");
    }

    #[cfg(unix)]
    #[test]
    fn links_are_refused() {
        use std::os::unix::fs::symlink;

        let outside = tempfile::tempdir().unwrap();
        fs::write(outside.path().join("secret"), "s").unwrap();
        let folder = outside.path().join("files");
        fs::create_dir(&folder).unwrap();
        symlink(outside.path(), folder.join("up")).unwrap();
        symlink(outside.path().join("secret"), folder.join("link")).unwrap();
        symlink(outside.path().join("new"), folder.join("dangling")).unwrap();
        let files = FilesFolder::new(&folder);
        for path in ["up/secret", "link", "dangling", "up/new"] {
            assert_eq!(files.read(path, 10).unwrap_err().code(), "bad_file_path", "{path}");
            let written = files.write(path, b"x", WriteMode::Overwrite);
            assert_eq!(written.unwrap_err().code(), "bad_file_path", "{path}");
        }
        assert!(!outside.path().join("new").exists());
        let link = outside.path().join("linked");
        symlink(&folder, &link).unwrap();
        assert_eq!(FilesFolder::new(&link).read("x", 10).unwrap_err().code(), "bad_file_path");
    }

    #[test]
    fn modes_and_sizes() {
        let folder = tempfile::tempdir().unwrap();
        let files = FilesFolder::new(folder.path());
        assert_eq!(files.write("a", b"12", WriteMode::Append).unwrap(), 2);
        assert_eq!(files.write("a", b"345", WriteMode::Append).unwrap(), 5);
        assert_eq!(files.write("a", b"x", WriteMode::Create).unwrap_err().code(), "file_exists");
        assert_eq!(files.read("a", 5).unwrap(), b"12345");
        assert_eq!(files.read("a", 4).unwrap_err().code(), "file_too_large");
        assert_eq!(files.write("a", b"", WriteMode::Overwrite).unwrap(), 0);
        let left: Vec<_> =
            fs::read_dir(folder.path()).unwrap().map(|entry| entry.unwrap().file_name()).collect();
        assert_eq!(left, ["a"]);
    }

    #[test]
    fn appends_at_once_are_all_kept() {
        let folder = tempfile::tempdir().unwrap();
        std::thread::scope(|scope| {
            for _ in 0..8 {
                let files = FilesFolder::new(folder.path());
                scope.spawn(move || {
                    for _ in 0..10 {
                        files.write("log", b"line\n", WriteMode::Append).unwrap();
                    }
                });
            }
        });
        assert_eq!(fs::read_to_string(folder.path().join("log")).unwrap(), "line\n".repeat(80));
    }

    #[cfg(unix)]
    #[test]
    fn a_file_keeps_its_permissions() {
        use std::os::unix::fs::PermissionsExt;

        let folder = tempfile::tempdir().unwrap();
        let files = FilesFolder::new(folder.path());
        files.write("a", b"1", WriteMode::Create).unwrap();
        let mode = || fs::metadata(folder.path().join("a")).unwrap().permissions().mode() & 0o777;
        for wanted in [0o600, 0o755] {
            fs::set_permissions(folder.path().join("a"), PermissionsExt::from_mode(wanted)).unwrap();
            for how in [WriteMode::Append, WriteMode::Overwrite] {
                files.write("a", b"2", how).unwrap();
                assert_eq!(mode(), wanted, "{how:?}");
            }
        }
    }
}
