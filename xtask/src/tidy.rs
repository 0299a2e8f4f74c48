//! Each crate is complete, and nothing stale lies about.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};

use crate::{shape, words, workspace};

/// Longest file, in lines; a table of cases may be longer.
const MAX_LINES: usize = 550;

/// Texts that no file of ours may hold, each with the reason.
const FORBIDDEN: &[(&str, &str)] = &[
    ("#[ignore", "a test that is not run tells nothing"),
    ("todo!(", "finish it or take it out"),
    ("unimplemented!(", "finish it or take it out"),
    ("#[allow(", "write #[expect(…, reason = \"…\")]"),
    ("#![allow(", "write #![expect(…, reason = \"…\")]"),
];

/// Crates that learn kinds of tools from providers, and beginnings of ids that their code may not hold.
const KINDLESS: [&str; 2] = ["crates/tool-registry/src", "crates/executors-flow-system/src"];
const KINDS: [&str; 7] = ["\"agent:", "\"core:", "\"http:", "\"kb:", "\"mcp:", "\"node:", "\"workflow:"];

/// Writes the counts of retired words that are allowed from now on.
pub(crate) fn accept() -> Result<()> {
    println!("tidy: {} retired words are left", words::accept()?);
    Ok(())
}

/// Checks all rules and reports every fault at once.
pub(crate) fn run() -> Result<()> {
    let faults = faults()?;
    if faults.is_empty() {
        println!("tidy: ok");
        return Ok(());
    }
    bail!("tidy:\n  {}", faults.join("\n  "))
}

fn faults() -> Result<Vec<String>> {
    let metadata = workspace::metadata()?;
    let mut faults = Vec::new();
    for (_, package) in workspace::crates(&metadata)? {
        let folder = package.manifest_path.parent().context("a manifest lies in a folder")?;
        faults.extend(crate_faults(package.name.as_str(), folder.as_std_path())?);
    }
    for path in rust_files(&workspace::root())? {
        faults.extend(file_faults(&path)?);
    }
    faults.extend(shape::size_faults()?);
    faults.extend(words::faults()?);
    Ok(faults)
}

fn crate_faults(name: &str, folder: &Path) -> Result<Vec<String>> {
    let mut faults = Vec::new();
    let is_program = folder.join("src/main.rs").is_file();
    if !is_program && !folder.join("README.md").is_file() {
        faults.push(format!("{name} has no README.md"));
    }
    let manifest = fs::read_to_string(folder.join("Cargo.toml"))?;
    if !manifest.contains("[lints]\nworkspace = true") {
        faults.push(format!("{name} does not take the lints of the workspace"));
    }
    if !manifest.contains("description = ") {
        faults.push(format!("{name} has no description"));
    }
    let entry = if is_program { "src/main.rs" } else { "src/lib.rs" };
    if !fs::read_to_string(folder.join(entry))?.starts_with("//!") {
        faults.push(format!("{name}: {entry} does not begin with what the crate is for"));
    }
    Ok(faults)
}

fn file_faults(path: &Path) -> Result<Vec<String>> {
    let shown = path.strip_prefix(workspace::root()).unwrap_or(path).display();
    // This file names what it looks for.
    if path.ends_with("xtask/src/tidy.rs") {
        return Ok(Vec::new());
    }
    let text = fs::read_to_string(path).with_context(|| format!("{shown}"))?;
    let mut faults = Vec::new();
    for (number, line) in text.lines().enumerate() {
        for (word, why) in FORBIDDEN.iter().filter(|(word, _)| line.contains(word)) {
            faults.push(format!("{shown}:{}: `{word}`: {why}", number + 1));
        }
    }
    if KINDLESS.iter().any(|folder| path.starts_with(workspace::root().join(folder))) {
        let product = text.lines().take_while(|line| !line.starts_with("#[cfg(test)]"));
        let code = product.filter(|line| !line.trim_start().starts_with("//"));
        let named = code.filter(|line| KINDS.iter().any(|kind| line.contains(kind)));
        faults.extend(named.map(|line| format!("{shown}: a provider knows its kind: `{}`", line.trim())));
    }
    let lines = text.lines().count();
    let is_table = path.components().any(|part| part.as_os_str() == "tests");
    if lines > MAX_LINES && !is_table {
        faults.push(format!("{shown} has {lines} lines; split it by job"));
    }
    Ok(faults)
}

/// Every Rust file of the workspace; a snapshot that waits for review is a fault of its own.
fn rust_files(root: &Path) -> Result<Vec<PathBuf>> {
    let mut files = Vec::new();
    let mut open = vec![root.join("crates"), root.join("examples"), root.join("xtask")];
    while let Some(folder) = open.pop() {
        for entry in fs::read_dir(&folder)? {
            let path = entry?.path();
            if path.is_dir() {
                if path.file_name().is_some_and(|name| name != "target") {
                    open.push(path);
                }
            } else if path.extension().is_some_and(|extension| extension == "rs") {
                files.push(path);
            } else if path.to_string_lossy().ends_with(".snap.new") {
                bail!("{} waits for `cargo insta review`", path.display());
            }
        }
    }
    files.sort();
    Ok(files)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_workspace_is_tidy() {
        assert_eq!(faults().unwrap(), Vec::<String>::new());
    }
}
