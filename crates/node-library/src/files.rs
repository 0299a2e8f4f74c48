//! `core:ReadFile` and `core:WriteFile`: files of one folder, and nothing outside of it.

mod folder;
mod nodes;

pub use folder::{FileError, FilesFolder, WriteMode};
pub(crate) use nodes::register;
