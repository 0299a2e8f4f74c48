//! Projects of others: a `weft.toml` above the working folder that another user owns starts nothing before it is trusted.
//!
//! A folder that everybody may write to, such as one for temporary files, could else decide what a command below it starts.

use std::io::{ErrorKind, Write};
use std::path::{Path, PathBuf};

use crate::error::ProjectError;
use crate::files::root_of;

/// The user's list of trusted folders.
///
/// # Errors
/// The environment names no home folder.
fn list() -> Result<PathBuf, String> {
    let variable = |name: &str| std::env::var_os(name).filter(|value| !value.is_empty()).map(PathBuf::from);
    let settings = variable("XDG_CONFIG_HOME")
        .filter(|path| path.is_absolute())
        .or_else(|| Some(variable("HOME").or_else(|| variable("USERPROFILE"))?.join(".config")));
    Ok(settings.ok_or("HOME is not set")?.join("weft").join("trusted"))
}

/// Refuses a settings file that another user owns, unless its folder is trusted.
///
/// # Errors
/// [`ProjectError::NotTrusted`].
pub(crate) fn check(root: &Path, settings: &Path) -> Result<(), ProjectError> {
    match foreign_owner(root, settings) {
        Some(owner) if !is_trusted(root) => Err(ProjectError::NotTrusted { root: root.to_owned(), owner }),
        Some(_) | None => Ok(()),
    }
}

/// The user that owns a project, where that is another user.
#[cfg(unix)]
fn foreign_owner(root: &Path, settings: &Path) -> Option<u32> {
    use std::os::unix::fs::MetadataExt;
    let own = rustix::process::geteuid().as_raw();
    let owners = [settings, root].map(|path| std::fs::symlink_metadata(path).map(|meta| meta.uid()));
    // Who owns the machine owns what it runs anyway.
    owners.into_iter().flatten().find(|owner| *owner != own && *owner != 0)
}

/// The user that owns a project: other systems have no such number.
#[cfg(not(unix))]
const fn foreign_owner(_: &Path, _: &Path) -> Option<u32> {
    None
}

fn is_trusted(root: &Path) -> bool {
    let (Ok(list), Ok(root)) = (list(), root.canonicalize()) else { return false };
    let text = std::fs::read_to_string(list).unwrap_or_default();
    text.lines().any(|line| Path::new(line) == root)
}

/// Trusts the project of a folder, or of the closest folder above it. Gives the folder of the project.
///
/// # Errors
/// The project is missing, or the list of trusted folders cannot be written.
pub fn trust(start: &Path) -> Result<PathBuf, ProjectError> {
    let root = root_of(start)?;
    let list = list().map_err(|message| ProjectError::NotWritten { path: "trusted".into(), message })?;
    let failed =
        |error: std::io::Error| ProjectError::NotWritten { path: list.clone(), message: error.to_string() };
    let root = root.canonicalize().map_err(failed)?;
    // A line is a folder.
    if root.to_str().is_none_or(|text| text.contains(['\n', '\r'])) {
        return Err(failed(std::io::Error::new(
            ErrorKind::InvalidInput,
            "the name of the folder is not one line of text",
        )));
    }
    if !is_trusted(&root) {
        std::fs::create_dir_all(list.parent().unwrap_or(Path::new("."))).map_err(failed)?;
        let mut open = std::fs::OpenOptions::new().create(true).append(true).open(&list).map_err(failed)?;
        writeln!(open, "{}", root.display()).map_err(failed)?;
    }
    Ok(root)
}
