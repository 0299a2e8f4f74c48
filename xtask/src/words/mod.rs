//! Retired words: they do not come back into docs, messages and names.
//!
//! `retired-words.toml` is the table, `retired-words.txt` the counts that are still allowed.

mod allowed;
mod masks;
mod table;

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};

use crate::workspace;
use allowed::Counts;
use masks::Masks;
use table::{Scope, Table};

const TABLE: &str = "xtask/retired-words.toml";
const ALLOWED: &str = "xtask/retired-words.txt";
/// Most places that are reported at once.
const SHOWN: usize = 80;
/// Folders without text of ours.
const SKIPPED: &[&str] = &["target", "node_modules", "dist", "embedded", ".git", ".weft"];

/// One place of a retired word.
struct Hit {
    path: String,
    word: String,
    shown: String,
}

/// Faults: each place of a word that stands more often in a file than is allowed.
pub(crate) fn faults() -> Result<Vec<String>> {
    let hits = hits()?;
    let list = fs::read_to_string(workspace::root().join(ALLOWED)).context(ALLOWED)?;
    let risen = allowed::risen(&allowed::parse(&list)?, &counts(&hits));
    let over = hits.iter().filter_map(|hit| {
        let limit = risen.get(&(hit.path.clone(), hit.word.clone()))?;
        Some(format!("{} ({limit} allowed in this file)", hit.shown))
    });
    let mut faults: Vec<String> = over.collect();
    let left = faults.len().saturating_sub(SHOWN);
    if left > 0 {
        faults.truncate(SHOWN);
        faults.push(format!("and {left} more retired words"));
    }
    Ok(faults)
}

/// Writes the counts of today as the allowed ones, and gives how many places are left.
pub(crate) fn accept() -> Result<usize> {
    let hits = hits()?;
    fs::write(workspace::root().join(ALLOWED), allowed::render(&counts(&hits)))?;
    Ok(hits.len())
}

fn counts(hits: &[Hit]) -> Counts {
    let mut counts = Counts::new();
    for hit in hits {
        *counts.entry((hit.path.clone(), hit.word.clone())).or_default() += 1;
    }
    counts
}

/// All places of retired words, in the order of files.
fn hits() -> Result<Vec<Hit>> {
    let root = workspace::root();
    let table = Table::parse(&fs::read_to_string(root.join(TABLE)).context(TABLE)?)?;
    let mut hits = Vec::new();
    for file in files(&root)? {
        let path = file.strip_prefix(&root)?.to_string_lossy().replace('\\', "/");
        let text = fs::read_to_string(&file).with_context(|| path.clone())?;
        for (scope, part) in parts(&path, text) {
            for found in table.matches(&path, scope, &part) {
                let line = part[..found.offset].matches('\n').count() + 1;
                let shown = format!("{path}:{line}: `{}`: write {}", found.found, found.word.instead);
                hits.push(Hit { path: path.clone(), word: found.word.name.clone(), shown });
            }
        }
    }
    Ok(hits)
}

/// Parts of a file that count.
fn parts(path: &str, text: String) -> Vec<(Scope, String)> {
    let extension = Path::new(path).extension().and_then(|extension| extension.to_str());
    if extension == Some("md") {
        // Generated pages repeat doc comments.
        let generated = text.starts_with("<!-- written by");
        return if generated { Vec::new() } else { vec![(Scope::Docs, text)] };
    }
    let masks = Masks::new(&text);
    if extension == Some("ts") {
        return vec![(Scope::Messages, masks.strings)];
    }
    let mut parts = vec![(Scope::Docs, masks.docs), (Scope::Code, masks.code)];
    if path.starts_with("crates/") && path.contains("/src/") {
        let product = text.find("\n#[cfg(test)]\nmod tests {").unwrap_or(text.len());
        parts.push((Scope::Messages, masks.strings[..product].to_owned()));
    }
    parts
}

/// Files with text of ours: Rust sources, Markdown, the strings of the page.
fn files(root: &Path) -> Result<Vec<PathBuf>> {
    let mut files = BTreeSet::new();
    let mut open: Vec<PathBuf> = ["crates", "docs", "examples", "xtask"].map(|name| root.join(name)).into();
    for name in ["README.md", "ARCHITECTURE.md", "CONTRIBUTING.md", "CHANGELOG.md"] {
        files.insert(root.join(name));
    }
    while let Some(folder) = open.pop() {
        for entry in fs::read_dir(&folder).with_context(|| folder.display().to_string())? {
            let path = entry?.path();
            if path.is_dir() {
                let skipped = path.file_name().is_some_and(|name| SKIPPED.iter().any(|skip| name == *skip));
                open.extend((!skipped).then_some(path));
            } else if counts_as_text(&path) {
                files.insert(path);
            }
        }
    }
    Ok(files.into_iter().collect())
}

fn counts_as_text(path: &Path) -> bool {
    match path.extension().and_then(|extension| extension.to_str()) {
        // The cases of tests are texts of their own.
        Some("md") => !path.components().any(|part| part.as_os_str() == "tests"),
        Some("rs") => true,
        Some("ts") => path.components().any(|part| part.as_os_str() == "i18n"),
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn table() -> Table {
        Table::parse(include_str!("../../retired-words.toml")).unwrap()
    }

    #[track_caller]
    fn check(path: &str, text: &str, expected: &[&str]) {
        let table = table();
        let mut found = Vec::new();
        for (scope, part) in parts(path, text.to_owned()) {
            found.extend(table.matches(path, scope, &part).into_iter().map(|found| found.word.name.clone()));
        }
        assert_eq!(found, expected, "{text}");
    }

    #[test]
    fn words_are_found_where_they_are_retired() {
        check("crates/a/src/b.rs", "/// What a call is.\n/// When it ends.\nfn a() {}", &["question"]);
        check("crates/a/src/b.rs", "/// A call.\n/// What it is.\nfn a() {}", &[]);
        check("crates/a/src/b.rs", "f(\"`x` is no tool\"); // is no word", &["is-no"]);
        check("crates/a/src/b.rs", "f(\"it is no longer there\")", &[]);
        check("crates/a/tests/b.rs", "f(\"`x` is no tool\")", &[]);
        check("crates/a/src/b.rs", "f();\n#[cfg(test)]\nmod tests {\n f(\"is no tool\") }", &[]);
        check("docs/a.md", "The engine tells it.", &["tell"]);
        check("docs/a.md", "<!-- written by x -->\nThe engine tells it.", &[]);
        check("crates/a/src/b.rs", "fn tell_all() {}", &["name-telling"]);
        check("crates/a/src/b.rs", "take_up();", &["name-take-up"]);
        check("crates/a/src/b.rs", "retake_up();", &[]);
    }

    #[test]
    fn names_of_the_table_are_unique() {
        let table = table();
        let names: Vec<&str> = table.words.iter().map(|word| word.name.as_str()).collect();
        assert_eq!(names.iter().collect::<BTreeSet<_>>().len(), names.len());
    }
}
