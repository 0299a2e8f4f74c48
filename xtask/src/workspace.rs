//! The workspace as cargo sees it, and programs that are started in it.

use std::cell::Cell;
use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};
use cargo_metadata::{Metadata, MetadataCommand, Package};

/// The root of the workspace.
pub(crate) fn root() -> PathBuf {
    let manifest = PathBuf::from(env!("CARGO_MANIFEST_DIR"));
    manifest.parent().map(PathBuf::from).unwrap_or(manifest)
}

/// Metadata of cargo, with the resolved graph.
pub(crate) fn metadata() -> Result<Metadata> {
    MetadataCommand::new().current_dir(root()).exec().context("cargo metadata")
}

/// The members below `crates/`, in order of layer and name.
pub(crate) fn crates(metadata: &Metadata) -> Result<Vec<(u64, &Package)>> {
    let folder = metadata.workspace_root.join("crates");
    let packages = metadata.workspace_packages().into_iter();
    let members = packages.filter(|package| package.manifest_path.starts_with(&folder));
    let mut crates = members.map(|package| Ok((layer(package)?, package))).collect::<Result<Vec<_>>>()?;
    crates.sort_by(|(left_layer, left), (right_layer, right)| {
        (left_layer, &left.name).cmp(&(right_layer, &right.name))
    });
    Ok(crates)
}

fn layer(package: &Package) -> Result<u64> {
    package.metadata["weft"]["layer"]
        .as_u64()
        .with_context(|| format!("{} has no [package.metadata.weft] layer", package.name))
}

/// Program with its arguments, in the root. It does not inherit that a package is being run: programs such as
/// cargo-machete conclude from `CARGO_PKG_NAME` that cargo did not start them.
fn command(program: &Path, arguments: &[&str]) -> Command {
    let mut command = Command::new(program);
    command.args(arguments).current_dir(root()).env_remove("CARGO_PKG_NAME");
    command
}

/// Runs a program in the root and fails as it does.
pub(crate) fn run(program: impl AsRef<Path>, arguments: &[&str]) -> Result<()> {
    let program = program.as_ref();
    let child = command(program, arguments)
        .spawn()
        .with_context(|| format!("{} cannot be started", program.display()))?;
    let status = wait(child).with_context(|| format!("{} {}", program.display(), arguments.join(" ")))?;
    ensure!(status.success(), "{} {} failed", program.display(), arguments.join(" "));
    Ok(())
}

thread_local! {
    /// End of the time of the step that this thread runs.
    static DEADLINE: Cell<Option<Instant>> = const { Cell::new(None) };
}

/// Runs a task whose programs are killed when its time is over.
pub(crate) fn within<T>(limit: Duration, task: impl FnOnce() -> Result<T>) -> Result<T> {
    DEADLINE.set(Some(Instant::now() + limit));
    let result = task();
    DEADLINE.set(None);
    result
}

/// Waits for a program until the deadline of its step.
fn wait(mut child: Child) -> Result<ExitStatus> {
    let Some(deadline) = DEADLINE.get() else { return Ok(child.wait()?) };
    loop {
        if let Some(status) = child.try_wait()? {
            return Ok(status);
        }
        if Instant::now() >= deadline {
            child.kill()?;
            child.wait()?;
            bail!("killed: the time of the step is over");
        }
        std::thread::sleep(Duration::from_millis(20));
    }
}

/// Program of others that cargo installs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Tool {
    /// Licences, sources and banned crates.
    Deny,
    /// Snapshots and their review.
    Insta,
    /// Unused dependencies.
    Machete,
}

/// Installs a program of others, once.
pub(crate) fn installed(tool: Tool) -> Result<()> {
    // One that runs for a second is built fast; one that reads every file is built to be fast.
    let (name, profile): (&str, &[&str]) = match tool {
        Tool::Deny => ("deny", &["--debug"]),
        Tool::Insta => ("insta", &["--debug"]),
        Tool::Machete => ("machete", &[]),
    };
    if output("cargo", &[name, "--version"]).is_ok() {
        return Ok(());
    }
    let package = format!("cargo-{name}");
    eprintln!("installing {package}, once");
    run("cargo", &[&["install", "--locked", "--quiet", package.as_str()], profile].concat())
}

/// Runs a program in the root and gives what it prints.
pub(crate) fn output(program: impl AsRef<Path>, arguments: &[&str]) -> Result<String> {
    let program = program.as_ref();
    let output = command(program, arguments)
        .output()
        .with_context(|| format!("{} cannot be started", program.display()))?;
    if !output.status.success() {
        let stderr = String::from_utf8_lossy(&output.stderr);
        bail!("{} {} failed:\n{stderr}", program.display(), arguments.join(" "));
    }
    String::from_utf8(output.stdout).context("the output is not UTF-8")
}

/// Builds a program of the workspace and gives its path.
pub(crate) fn program(name: &str) -> Result<PathBuf> {
    built("debug", name)
}

/// Builds an example and gives its path.
pub(crate) fn example(name: &str) -> Result<PathBuf> {
    built("debug/examples", name)
}

/// Builds all programs and examples: with any less, cargo gives the libraries below them other features than the tests do,
/// and builds those anew.
fn built(folder: &str, name: &str) -> Result<PathBuf> {
    run("cargo", &["build", "--quiet", "--workspace", "--bins", "--examples"])?;
    let target = metadata()?.target_directory.into_std_path_buf();
    let path = target.join(folder).join(format!("{name}{}", std::env::consts::EXE_SUFFIX));
    ensure!(path.is_file(), "{} was not built", path.display());
    Ok(path)
}

/// Returns `true` when `cargo deny` has fetched the database of advisories before.
pub(crate) fn has_advisories() -> bool {
    let home = std::env::var_os("CARGO_HOME").map(PathBuf::from);
    let home = home.or_else(|| Some(PathBuf::from(std::env::var_os("HOME")?).join(".cargo")));
    let folder = home.map(|home| home.join("advisory-dbs"));
    folder.and_then(|folder| fs::read_dir(folder).ok()).is_some_and(|mut entries| entries.next().is_some())
}

/// Files below a folder by their paths in it. A folder that is missing holds none.
pub(crate) fn files(root: &Path) -> Result<BTreeSet<PathBuf>> {
    let mut found = BTreeSet::new();
    let mut open = vec![root.to_owned()];
    while let Some(folder) = open.pop().filter(|folder| folder.is_dir()) {
        for entry in fs::read_dir(&folder)? {
            let path = entry?.path();
            if path.is_dir() {
                open.push(path);
            } else {
                found.insert(path.strip_prefix(root)?.to_owned());
            }
        }
    }
    Ok(found)
}
