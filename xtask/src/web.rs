//! The page: its types, its built files, its pictures.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;

use anyhow::{Context, Result, bail, ensure};

use crate::workspace;

/// Folder of the page's sources.
const WEB: &str = "crates/weft-server/web";

/// Files that are built and committed.
const BUILT: [&str; 2] = ["dist", "src/api/types.gen.ts"];

/// Builds the page, or says whether what is committed is what would be built.
pub(crate) fn run(options: &[String]) -> Result<()> {
    let words: Vec<&str> = options.iter().map(String::as_str).collect();
    match words.as_slice() {
        [] => build(),
        ["--check"] => check(),
        ["--test"] => in_browser(&["test"]),
        ["--screenshots"] => in_browser(&["run", "screenshots"]),
        _ => bail!("cargo xtask web [--check | --test | --screenshots]"),
    }
}

fn install() -> Result<()> {
    npm(&["ci", "--no-audit", "--no-fund"])
}

/// Runs something that opens the page of the program in a browser.
fn in_browser(arguments: &[&str]) -> Result<()> {
    install()?;
    workspace::program("weft")?;
    npm(arguments)
}

fn build() -> Result<()> {
    install()?;
    npm(&["run", "types"])?;
    npm(&["run", "check"])?;
    npm(&["run", "build"])
}

fn check() -> Result<()> {
    let lock = fs::read_to_string(workspace::root().join(WEB).join("package-lock.json"))?;
    let foreign = lock
        .lines()
        .find(|line| line.contains("\"resolved\"") && !line.contains("https://registry.npmjs.org/"));
    if let Some(line) = foreign {
        bail!("package-lock.json holds the address of another registry:{line}");
    }
    let before = committed()?;
    build()?;
    let after = committed()?;
    let names: BTreeSet<&String> = before.keys().chain(after.keys()).collect();
    let stale: Vec<&String> =
        names.into_iter().filter(|name| before.get(*name) != after.get(*name)).collect();
    ensure!(stale.is_empty(), "the page was stale, and is built now; commit {stale:?}");
    println!("web: ok");
    Ok(())
}

/// The built files with what they hold.
fn committed() -> Result<BTreeMap<String, Vec<u8>>> {
    let mut files = BTreeMap::new();
    let web = workspace::root().join(WEB);
    for name in BUILT {
        read(&web.join(name), &mut files)?;
    }
    Ok(files)
}

fn read(path: &Path, files: &mut BTreeMap<String, Vec<u8>>) -> Result<()> {
    if path.is_dir() {
        for entry in fs::read_dir(path)? {
            read(&entry?.path(), files)?;
        }
    } else if path.is_file() {
        files.insert(path.display().to_string(), fs::read(path)?);
    }
    Ok(())
}

/// Runs npm in the folder of the page.
fn npm(arguments: &[&str]) -> Result<()> {
    let all = [&["--prefix", WEB][..], arguments].concat();
    workspace::run("npm", &all).context("is Node.js with npm installed?")
}
