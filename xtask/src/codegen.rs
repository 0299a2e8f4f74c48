//! Files that are written by a command and committed.

use std::fmt::Write;
use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};

use crate::workspace;

/// Treatment of a file that differs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Mode {
    /// It is written.
    Write,
    /// It is a fault.
    Check,
}

/// Markers around the crate map in ARCHITECTURE.md.
const MAP: (&str, &str) = ("<!-- crate map: cargo xtask codegen -->\n", "<!-- end of the crate map -->\n");

/// Writes or checks every generated file.
pub(crate) fn run(mode: Mode) -> Result<()> {
    let mut stale = differing(generated()?, mode)?;
    // A page that is embedded may just have been written.
    let mut own = embedded()?;
    own.push(("ARCHITECTURE.md".to_owned(), architecture()?));
    stale.extend(differing(own, mode)?);
    if !stale.is_empty() {
        bail!("{} stale: run `cargo xtask codegen`", stale.join(", "));
    }
    println!("codegen: ok");
    Ok(())
}

/// Writes files that differ, or gives their paths.
fn differing(files: Vec<(String, String)>, mode: Mode) -> Result<Vec<String>> {
    let mut stale = Vec::new();
    for (path, text) in files {
        let file = workspace::root().join(&path);
        if fs::read_to_string(&file).unwrap_or_default() == text {
            continue;
        }
        match mode {
            Mode::Check => stale.push(path),
            Mode::Write => {
                let folder = file.parent().context("a file lies in a folder")?;
                fs::create_dir_all(folder)?;
                fs::write(&file, text)?;
                println!("wrote {path}");
            }
        }
    }
    Ok(stale)
}

/// Every file that a program of ours prints.
fn generated() -> Result<Vec<(String, String)>> {
    let mut files = Vec::new();
    let printed = workspace::output(workspace::example("generated")?, &[])?;
    let parts: serde_json::Map<String, serde_json::Value> =
        serde_json::from_str(&printed).context("what the example `generated` prints")?;
    for (path, text) in parts {
        files.push((path, text.as_str().context("a file is a text")?.to_owned()));
    }
    let openapi = workspace::output(workspace::example("openapi")?, &[])?;
    files.push(("docs/schema/openapi.json".to_owned(), openapi));
    Ok(files)
}

/// Copies of the files that the program embeds, since a package holds no file outside of it.
fn embedded() -> Result<Vec<(String, String)>> {
    let root = workspace::root();
    let desk = workspace::files(&root.join("examples/desk"))?.into_iter();
    let desk = desk.filter(|path| !path.starts_with(".weft"));
    let mut copies: Vec<(PathBuf, PathBuf)> =
        desk.map(|path| (Path::new("examples/desk").join(&path), Path::new("desk").join(&path))).collect();
    copies.push(("docs/reference/codes.md".into(), "codes.md".into()));
    let copy = |(from, to): &(PathBuf, PathBuf)| -> Result<(String, String)> {
        let text = fs::read_to_string(root.join(from)).with_context(|| from.display().to_string())?;
        Ok((Path::new("crates/weft-cli/embedded").join(to).to_string_lossy().replace('\\', "/"), text))
    };
    copies.iter().map(copy).collect()
}

/// ARCHITECTURE.md with the map of crates written anew.
fn architecture() -> Result<String> {
    let path = workspace::root().join("ARCHITECTURE.md");
    let text = fs::read_to_string(&path).with_context(|| path.display().to_string())?;
    let (before, rest) = text.split_once(MAP.0).context("ARCHITECTURE.md has no crate map")?;
    let (_, after) = rest.split_once(MAP.1).context("the crate map has no end")?;
    Ok(format!("{before}{}{}{}{after}", MAP.0, map()?, MAP.1))
}

fn map() -> Result<String> {
    let metadata = workspace::metadata()?;
    let crates = workspace::crates(&metadata)?;
    let names: Vec<&str> = crates.iter().map(|(_, package)| package.name.as_str()).collect();
    let mut map = String::from("| layer | crate | one job | uses |\n| --- | --- | --- | --- |\n");
    for (layer, package) in &crates {
        let mut used: Vec<&str> = package
            .dependencies
            .iter()
            .filter(|dep| dep.kind == cargo_metadata::DependencyKind::Normal)
            .map(|dep| dep.name.as_str())
            .filter(|name| names.contains(name))
            .collect();
        used.sort_unstable();
        let about = package.description.as_deref().unwrap_or_default();
        writeln!(map, "| {layer} | `{}` | {about} | {} |", package.name, used.join(", "))?;
    }
    Ok(map)
}
