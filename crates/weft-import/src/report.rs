//! The account of an import: each member of the foreign file, and its fate.

use std::collections::BTreeMap;
use std::fmt;

use serde::Serialize;

/// Code of members that no part of an import took.
pub const LEFT_OUT: &str = "left_out";

/// The fate of a member of the foreign file.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum What {
    /// It has a counterpart in the written files.
    Mapped,
    /// It stands unread in the written files, under the name of its system.
    #[serde(rename = "kept")]
    Preserved,
    /// The feature is unsupported and is left out.
    Unsupported,
    /// It has a counterpart that works in another way.
    Changed,
}

/// A member of the foreign file, or a whole subtree whose members share their fate.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct Entry {
    /// Place in the foreign file, as a JSON pointer.
    pub path: String,
    /// Its fate.
    pub what: What,
    /// Stable code for logs, tests and the wire; absent where nothing has to be looked at.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub code: Option<&'static str>,
    /// Explanation for the user.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub message: Option<String>,
    /// The fix, where there is one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub help: Option<&'static str>,
}

impl fmt::Display for Entry {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.path, self.message.as_deref().unwrap_or_default())
    }
}

/// All entries of an import, notes first, then the members in file order.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
#[serde(transparent)]
pub struct Report {
    entries: Vec<Entry>,
}

impl Report {
    pub(crate) fn new(entries: Vec<Entry>) -> Self {
        Self { entries }
    }

    /// All entries.
    #[must_use]
    pub fn entries(&self) -> &[Entry] {
        &self.entries
    }

    /// Entries that the user should look at: unsupported and changed members.
    pub fn notable(&self) -> impl Iterator<Item = &Entry> {
        self.entries.iter().filter(|entry| matches!(entry.what, What::Unsupported | What::Changed))
    }

    /// Lines for the user about members that no part of the import took: one for each place but for its list indexes and for the
    /// names of the operations of a description.
    #[must_use]
    pub fn left_out(&self) -> Vec<String> {
        let mut groups: BTreeMap<(String, Option<&str>), Vec<&Entry>> = BTreeMap::new();
        for entry in self.entries.iter().filter(|entry| entry.code == Some(LEFT_OUT)) {
            groups.entry((general(&entry.path), entry.message.as_deref())).or_default().push(entry);
        }
        let line = |entries: Vec<&Entry>| match entries.as_slice() {
            [one] => one.to_string(),
            [first, ..] => format!("{first} (and {} more like it)", entries.len() - 1),
            [] => String::new(),
        };
        groups.into_values().map(line).collect()
    }
}

/// A path without the indexes in it, so that equal entries of lists are reported once.
fn general(path: &str) -> String {
    let steps: Vec<&str> = path.split('/').collect();
    let is_name = |at: usize| matches!(steps.get(1), Some(&"paths")) && (at == 2 || at == 3);
    let plain = steps.iter().enumerate().map(|(at, step)| {
        let is_index = !step.is_empty() && step.bytes().all(|byte| byte.is_ascii_digit());
        if is_index || is_name(at) { "*" } else { step }
    });
    plain.collect::<Vec<_>>().join("/")
}
