//! Each crate builds from what its package holds, so that no file is reached outside of it.
//!
//! All packages are unpacked into one workspace that patches them in for one another, and are checked at once.

use std::fmt::Write;
use std::fs;
use std::path::Path;

use anyhow::{Context, Result, ensure};

use crate::workspace;

/// Crates that are for this repository alone.
const ONLY_HERE: [&str; 4] = ["xtask", "weft-guide", "weft-harness", "shell-tools"];

/// Packs, unpacks and checks the crates that others may take.
pub(crate) fn run() -> Result<()> {
    let metadata = workspace::metadata()?;
    let target = metadata.target_directory.as_std_path();
    let skipped = ONLY_HERE.iter().flat_map(|name| ["--exclude", name]);
    let how = ["--no-verify", "--allow-dirty", "--exclude-lockfile", "--offline", "--quiet"];
    let pack: Vec<&str> = ["package", "--workspace"].into_iter().chain(skipped).chain(how).collect();
    workspace::run("cargo", &pack)?;
    let folder = target.join("packages");
    let crates = workspace::crates(&metadata)?;
    let mut names = Vec::new();
    for (_, package) in crates.iter().filter(|(_, package)| !ONLY_HERE.contains(&package.name.as_str())) {
        let packed = format!("{}-{}", package.name, package.version);
        unpack(&target.join("package").join(format!("{packed}.crate")), &folder, &packed)?;
        names.push((package.name.to_string(), packed));
    }
    write_if_changed(&folder.join("Cargo.toml"), manifest(&names)?.as_bytes())?;
    write_if_changed(&folder.join("Cargo.lock"), &fs::read(workspace::root().join("Cargo.lock"))?)?;
    let manifest = folder.join("Cargo.toml").display().to_string();
    let target = target.display().to_string();
    let check =
        ["check", "--workspace", "--quiet", "--offline", "--manifest-path", &manifest, "--target-dir"];
    workspace::run("cargo", &[&check[..], &[&target]].concat())
}

/// Manifest of the workspace of packages, with the profiles of ours, which stand last there, so that what is built serves both.
fn manifest(packages: &[(String, String)]) -> Result<String> {
    let ours = fs::read_to_string(workspace::root().join("Cargo.toml"))?;
    let profiles = ours.find("[profile.").context("the workspace has no profiles")?;
    let mut text = String::from("[workspace]\nresolver = \"3\"\nmembers = [\n");
    for (_, packed) in packages {
        writeln!(text, "    \"{packed}\",")?;
    }
    text.push_str("]\n\n[patch.crates-io]\n");
    for (name, packed) in packages {
        writeln!(text, "{name} = {{ path = \"{packed}\" }}")?;
    }
    write!(text, "\n{}", &ours[profiles..])?;
    Ok(text)
}

/// Unpacks a package. Files that are as they were keep their times, so that what is built of them counts.
fn unpack(archive: &Path, folder: &Path, packed: &str) -> Result<()> {
    let staging = folder.join(".unpacked");
    fs::create_dir_all(&staging)?;
    let (from, to) = (archive.display().to_string(), staging.display().to_string());
    workspace::run("tar", &["-xzf", &from, "-C", &to])?;
    let (new, old) = (staging.join(packed), folder.join(packed));
    let files = workspace::files(&new)?;
    for gone in workspace::files(&old)?.difference(&files) {
        fs::remove_file(old.join(gone))?;
    }
    // The lock file of a package is for installing it alone.
    for file in files.iter().filter(|file| !file.ends_with("Cargo.lock")) {
        write_if_changed(&old.join(file), &fs::read(new.join(file))?)?;
    }
    fs::remove_dir_all(&staging)?;
    ensure!(old.join("Cargo.toml").is_file(), "{} holds no manifest", archive.display());
    Ok(())
}

fn write_if_changed(path: &Path, content: &[u8]) -> Result<()> {
    if fs::read(path).is_ok_and(|current| current == content) {
        return Ok(());
    }
    fs::create_dir_all(path.parent().context("a file lies in a folder")?)?;
    fs::write(path, content).with_context(|| path.display().to_string())
}
