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

    /// A message with relative paths in place of those in the folders, and without positions in the sources of
    /// libraries that the program is built from.
    #[must_use]
    pub fn relative(&self, message: &str) -> String {
        self.0.iter().fold(without_positions(message), |message, (folder, stand_in)| {
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

/// A message without positions in the sources of libraries, and without a word that leads to one.
fn without_positions(message: &str) -> String {
    if !message.contains(".rs:") {
        return message.to_owned();
    }
    let mut shown = String::with_capacity(message.len());
    for word in message.split_inclusive(char::is_whitespace) {
        let is_mark = |c: char| c.is_whitespace() || "()[]<>,;:'\"`".contains(c);
        if !is_own_position(word.trim_matches(is_mark)) {
            shown.push_str(word);
            continue;
        }
        let kept =
            shown.trim_end().trim_end_matches(" at").trim_end_matches(" in").trim_end_matches([',', ':']);
        shown.truncate(kept.len());
        shown.extend(word.chars().rev().take_while(|c| c.is_whitespace()));
    }
    shown.trim_end().to_owned()
}

/// Returns `true` for `FILE.rs:LINE:COLUMN` of a library that the program is built from.
fn is_own_position(word: &str) -> bool {
    let Some((file, line)) = word.split_once(".rs:") else { return false };
    let is_own = ["/rustc/", "/.cargo/registry/", "/.rustup/"].iter().any(|own| file.contains(own));
    is_own && line.starts_with(|c: char| c.is_ascii_digit())
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn positions_in_the_sources_of_libraries_are_left_out() {
        let own = OwnFolders::default().with("/srv/shop".as_ref(), "");
        for (message, shown) in [
            ("index out of range at /rustc/1a2b/library/core/src/slice.rs:12:5", "index out of range"),
            ("broken, /rustc/1a2b/library/std/src/fs.rs:7:1 said", "broken said"),
            ("oops in /home/u/.cargo/registry/src/i/x-1.0/src/a.rs:3", "oops"),
            ("src/main.rs:12: unused variable", "src/main.rs:12: unused variable"),
            ("--> crates/a/src/b.rs:1:2 unused", "--> crates/a/src/b.rs:1:2 unused"),
            ("/srv/shop/src/main.rs:12:4: unused", "src/main.rs:12:4: unused"),
        ] {
            assert_eq!(own.relative(message), shown);
        }
        let error = own.in_error(ToolError::failed("no, at /rustc/1/a.rs:1:2"));
        assert_eq!(error.message_for_model, "no");
        assert_eq!(error.detail.as_deref(), Some("no, at /rustc/1/a.rs:1:2"), "the log has the rest");
    }
}
