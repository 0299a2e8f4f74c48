//! Shape of the code of a crate: sizes of its types, and circles among its files.

mod circles;
mod exceptions;
mod imports;
mod modules;
mod sizes;

use std::fs;

use anyhow::{Context, Result};
use cargo_metadata::{Package, TargetKind};

use crate::workspace;
use exceptions::Exceptions;
use modules::Modules;

const EXCEPTIONS: &str = "xtask/tidy-exceptions.toml";

/// Types with too many methods or shared fields, and exceptions that are not needed.
pub(crate) fn size_faults() -> Result<Vec<String>> {
    let exceptions = exceptions()?;
    let mut sizes = Vec::new();
    for (name, modules) in libraries()? {
        sizes.extend(sizes::sizes(&name, &modules));
    }
    Ok(sizes::faults(&sizes, &exceptions))
}

/// Circles among files that are too large, and exceptions that are not needed.
pub(crate) fn circle_faults() -> Result<Vec<String>> {
    let exceptions = exceptions()?;
    Ok(circles::faults(&all_circles()?, &exceptions.circle))
}

/// Report of every circle among files, the largest first.
pub(crate) fn circle_report() -> Result<Vec<String>> {
    Ok(all_circles()?.iter().map(ToString::to_string).collect())
}

fn all_circles() -> Result<Vec<circles::Circle>> {
    let mut found = Vec::new();
    for (name, modules) in libraries()? {
        found.extend(circles::circles(&name, modules.files(), &imports::imports(&modules)));
    }
    found.sort_by_key(|circle| std::cmp::Reverse(circle.files.len()));
    Ok(found)
}

fn exceptions() -> Result<Exceptions> {
    let text = fs::read_to_string(workspace::root().join(EXCEPTIONS)).context(EXCEPTIONS)?;
    toml::from_str(&text).context(EXCEPTIONS)
}

/// The modules of every crate by its name: those of its library, or of its program where it has none.
fn libraries() -> Result<Vec<(String, Modules)>> {
    let metadata = workspace::metadata()?;
    let crates = workspace::crates(&metadata)?;
    crates.into_iter().map(|(_, package)| Ok((package.name.to_string(), of_package(package)?))).collect()
}

fn of_package(package: &Package) -> Result<Modules> {
    let kinds = [TargetKind::Lib, TargetKind::ProcMacro, TargetKind::Bin];
    let target =
        kinds.iter().find_map(|kind| package.targets.iter().find(|target| target.kind.contains(kind)));
    let target = target.with_context(|| format!("{} has no sources", package.name))?;
    Modules::read(target.src_path.as_std_path())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn types_keep_their_sizes() {
        assert_eq!(size_faults().unwrap(), Vec::<String>::new());
    }

    #[test]
    fn files_keep_out_of_circles() {
        assert_eq!(circle_faults().unwrap(), Vec::<String>::new());
    }
}
