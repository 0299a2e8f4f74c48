//! Each feature of a crate alone, and the crate without any: what the whole workspace turns on hides what a crate lacks.

use anyhow::Result;
use cargo_metadata::Package;

use crate::workspace;

/// Checks every crate that has features.
pub(crate) fn run() -> Result<()> {
    let metadata = workspace::metadata()?;
    for (_, package) in workspace::crates(&metadata)? {
        for feature in alone(package) {
            println!("   {} {}", package.name, feature.map_or("without features", String::as_str));
            let check = ["check", "--quiet", "--no-default-features", "--package", package.name.as_str()];
            let with = feature.map(|feature| ["--features", feature.as_str()]);
            workspace::run("cargo", &[&check[..], with.as_ref().map_or(&[][..], |with| &with[..])].concat())?;
        }
    }
    Ok(())
}

/// None and then each feature of a crate that has some.
fn alone(package: &Package) -> Vec<Option<&String>> {
    let mut features: Vec<&String> = package.features.keys().filter(|name| *name != "default").collect();
    features.sort();
    let none = (!features.is_empty()).then_some(None);
    none.into_iter().chain(features.into_iter().map(Some)).collect()
}
