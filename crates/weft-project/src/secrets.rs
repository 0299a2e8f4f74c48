//! Values that no event and no log may show: those of the secrets that files of the project name.

use std::collections::BTreeSet;
use std::path::Path;

use crate::files::{files_below, read_file};

/// Prefix of the name of a secret in a template.
const BEFORE: &str = "{$secret.";

/// Values of the secrets that files of a folder name. A file that cannot be read sends nothing.
pub(crate) fn named_below(root: &Path, folder: &str, suffix: &str) -> Vec<String> {
    let folder = root.join(folder);
    let below = files_below(root, &folder, suffix).unwrap_or_default();
    below.files.into_iter().flat_map(|file| named_in_file(&folder.join(file))).collect()
}

/// Values of the secrets that a file names.
pub(crate) fn named_in_file(path: &Path) -> Vec<String> {
    let text = read_file(path).unwrap_or_default();
    let names: BTreeSet<&str> = names_in(&text).collect();
    names.into_iter().filter_map(|name| std::env::var(name).ok()).collect()
}

fn names_in(text: &str) -> impl Iterator<Item = &str> {
    let is_part = |c: char| c.is_ascii_alphanumeric() || c == '_';
    text.split(BEFORE).skip(1).filter_map(move |rest| {
        let (name, _) = rest.split_once('}')?;
        (!name.is_empty() && name.chars().all(is_part)).then_some(name)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_found_where_they_stand() {
        for (text, found) in [
            ("no secret", &[] as &[&str]),
            ("{$secret.}{$secret.A-B}{$secret.A", &[]),
            (r#"{"auth": "Bearer {$secret.KEY}", "x": "{$ctx.a}{$secret.B_2}"}"#, &["KEY", "B_2"]),
        ] {
            assert_eq!(names_in(text).collect::<Vec<_>>(), found, "{text}");
        }
    }
}
