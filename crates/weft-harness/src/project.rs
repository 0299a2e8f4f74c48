//! Files of projects.

use std::path::{Path, PathBuf};

/// Writes a file of a folder, with the folders above it, and gives its path.
///
/// # Panics
/// Panics when it cannot be written.
pub fn write(folder: &Path, name: &str, text: &str) -> PathBuf {
    let path = folder.join(name);
    std::fs::create_dir_all(path.parent().unwrap()).unwrap();
    std::fs::write(&path, text).unwrap();
    path
}

/// Workflow `count`: it counts to its input `n`.
pub const COUNT: &str = include_str!("project/count.json");

/// Workflow `ask`: it asks the user for a colour.
pub const ASK: &str = include_str!("project/ask.json");
