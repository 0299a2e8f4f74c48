//! Folders of the process in messages of failures: the model is shown paths of the project only.

use std::path::Path;

use crate::output::ToolError;

/// Folders that no message for a model names, each with its stand-in; one of the services of calls.
///
/// ```
/// use tool_registry::OwnFolders;
///
/// let folders = OwnFolders::default().with("/srv/shop".as_ref(), "").with("/srv".as_ref(), "~");
/// assert_eq!(folders.relative("/srv/shop/kb/a.md: no access"), "kb/a.md: no access");
/// assert_eq!(folders.relative("not in /srv/shop, /srv/shops or /srv/keys"), "not in ., ~/shops or ~/keys");
/// ```
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct OwnFolders(Vec<(String, &'static str)>);

impl OwnFolders {
    /// The same with a folder, behind those that are in it; an empty stand-in makes paths in it relative.
    #[must_use]
    pub fn with(mut self, folder: &Path, stand_in: &'static str) -> Self {
        let name = folder.to_string_lossy();
        let name = name.trim_end_matches(['/', '\\']);
        if !name.is_empty() && folder.is_absolute() {
            self.0.push((name.to_owned(), stand_in));
        }
        self
    }

    /// A message with relative paths in place of those in the folders.
    #[must_use]
    pub fn relative(&self, message: &str) -> String {
        self.0.iter().fold(message.to_owned(), |message, (folder, stand_in)| {
            if message.contains(folder.as_str()) { without(&message, folder, stand_in) } else { message }
        })
    }

    /// An error with relative paths in its message; the whole message is its detail.
    #[must_use]
    pub fn in_error(&self, mut error: ToolError) -> ToolError {
        let shown = self.relative(&error.message_for_model);
        if shown != error.message_for_model {
            let whole = std::mem::replace(&mut error.message_for_model, shown);
            error.detail.get_or_insert(whole);
        }
        error
    }
}

fn without(message: &str, folder: &str, stand_in: &str) -> String {
    let mut shown = String::with_capacity(message.len());
    let mut pieces = message.split(folder);
    shown.push_str(pieces.next().unwrap_or_default());
    for piece in pieces {
        match (piece.chars().next(), stand_in) {
            // Another folder, whose name goes on.
            (Some(next), _) if next.is_alphanumeric() || matches!(next, '_' | '-') => shown.push_str(folder),
            (Some('/' | '\\'), "") => {
                shown.push_str(&piece[1..]);
                continue;
            }
            (_, "") => shown.push('.'),
            (_, stand_in) => shown.push_str(stand_in),
        }
        shown.push_str(piece);
    }
    shown
}
