//! Values that nobody may see: what files of the project name, and what `weft.toml` gives to servers.

use std::collections::BTreeSet;
use std::path::Path;

use mcp_bridge::McpSettings;

use crate::files::{files_below, read_file};
use crate::project::Project;

/// What stands before the name of a secret in a template.
const BEFORE: &str = "{$secret.";

/// Folders with files whose requests may need secrets, with their endings.
const FOLDERS: [(&str, &str); 2] = [("tools", ".tool.json"), ("workflows", ".json")];

impl Project {
    /// The values of the secrets that HTTP tools, flows and workflows name, and of what servers are given.
    pub(crate) fn named_secrets(&self) -> impl Iterator<Item = String> {
        let named = names_below(self.root()).into_iter().filter_map(|name| std::env::var(name).ok());
        named.chain(self.settings().mcp.values().flat_map(McpSettings::secrets))
    }
}

/// The names of secrets in the files of a project. A file that cannot be read sends nothing.
fn names_below(root: &Path) -> BTreeSet<String> {
    let files = FOLDERS.into_iter().flat_map(|(folder, suffix)| {
        let folder = root.join(folder);
        let below = files_below(root, &folder, suffix).unwrap_or_default();
        below.files.into_iter().map(move |file| folder.join(file))
    });
    let texts = files.chain([root.join("flows.json")]).filter_map(|path| read_file(&path).ok());
    texts.flat_map(|text| names_in(&text).map(str::to_owned).collect::<Vec<_>>()).collect()
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
