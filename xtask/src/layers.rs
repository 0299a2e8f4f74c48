//! Crates use crates of strictly lower layers; heavy outside crates have owners; low layers stay free of the runtime.

use std::collections::{BTreeMap, BTreeSet};

use anyhow::{Result, bail};
use cargo_metadata::{DependencyKind, Metadata, Package};

use crate::{shape, workspace};

/// Crates that may use a heavy outside crate. ARCHITECTURE.md gives the reason for each.
const OWNERS: &[(&str, &[&str])] = &[
    ("axum", &["weft-server"]),
    ("candle-core", &["llm-local"]),
    ("candle-nn", &["llm-local"]),
    ("clap", &["weft-cli"]),
    ("encoding_rs", &["http-caller"]),
    ("llguidance", &["llm-local"]),
    ("notify", &["weft-project"]),
    ("petgraph", &["workflow-engine", "workflow-model"]),
    ("quick-xml", &["protocol-action"]),
    ("reqwest", &["http-caller", "llm-provider", "mcp-bridge"]),
    ("rmcp", &["mcp-bridge"]),
    ("rquickjs", &["node-script"]),
    ("rusqlite", &["run-store"]),
    ("rustls", &["http-caller", "llm-provider"]),
    ("serde-saphyr", &["weft-cli"]),
    ("tokenizers", &["llm-local"]),
];

/// The crate of helpers of tests: a dependency of tests alone.
const HARNESS: &str = "weft-harness";

/// Outside crates that `agent-types` may use.
const BASE: &[&str] = &[
    "aho-corasick",
    "base64",
    "parking_lot",
    "schemars",
    "serde",
    "serde_json",
    "strsim",
    "thiserror",
    "unicode-normalization",
];

/// Crates that no crate of the first two layers may reach, not even through others.
const NOT_BELOW: &[&str] = &["tokio", "reqwest", "hyper"];

/// The highest layer that stays free of them.
const FREE_LAYERS: u64 = 1;

/// Crates that a crate must not reach by its default features: a function tool stays cheap to compile.
const UNREACHED: &[(&str, &[&str])] = &[(
    "tool-registry",
    &["cel", "http-caller", "jsonschema", "reqwest", "workflow-engine", "workflow-model"],
)];

/// Checks all rules and reports every fault at once.
pub(crate) fn run() -> Result<()> {
    let metadata = workspace::metadata()?;
    let mut faults = faults(&metadata)?;
    faults.extend(shape::circle_faults()?);
    for circle in shape::circle_report()? {
        println!("circle of {circle}");
    }
    if faults.is_empty() {
        println!("layers: ok");
        return Ok(());
    }
    bail!("layers:\n  {}", faults.join("\n  "))
}

fn faults(metadata: &Metadata) -> Result<Vec<String>> {
    let crates = workspace::crates(metadata)?;
    let layers: BTreeMap<&str, u64> =
        crates.iter().map(|(layer, package)| (package.name.as_str(), *layer)).collect();
    let mut faults = Vec::new();
    for (layer, package) in &crates {
        faults.extend(direct(*layer, package, &layers));
        if *layer <= FREE_LAYERS {
            faults.extend(below(metadata, package));
        }
    }
    for (name, forbidden) in UNREACHED {
        let reached = workspace::output("cargo", &["tree", "-p", name, "-e", "normal", "--prefix", "none"])?;
        let reached: BTreeSet<&str> = reached.lines().filter_map(|line| line.split(' ').next()).collect();
        let faulty = forbidden.iter().filter(|other| reached.contains(*other));
        faults.extend(faulty.map(|other| format!("{name} must not reach {other}")));
    }
    Ok(faults)
}

/// Faults of a crate's own dependencies; those of its tests are free.
fn direct(upper: u64, package: &Package, layers: &BTreeMap<&str, u64>) -> Vec<String> {
    let name = package.name.as_str();
    let mut faults = Vec::new();
    for dependency in package.dependencies.iter().filter(|dep| dep.kind != DependencyKind::Development) {
        let used = dependency.name.as_str();
        if let Some(&lower) = layers.get(used)
            && lower >= upper
        {
            faults.push(format!("{name} (layer {upper}) must not use {used} (layer {lower})"));
        }
        if let Some((_, owners)) = OWNERS.iter().find(|(owned, _)| *owned == used)
            && !owners.contains(&name)
        {
            faults.push(format!("only {} may use {used}, not {name}", owners.join(" and ")));
        }
        if used == HARNESS {
            faults.push(format!("{name} must not use {HARNESS} outside its tests"));
        }
        if name == "agent-types" && !BASE.contains(&used) {
            faults.push(format!("agent-types must not use {used}"));
        }
    }
    faults
}

/// Faults of everything that a crate reaches without its tests.
fn below(metadata: &Metadata, package: &Package) -> Vec<String> {
    let Some(resolve) = &metadata.resolve else { return vec!["cargo gave no graph".into()] };
    let nodes: BTreeMap<_, _> = resolve.nodes.iter().map(|node| (&node.id, node)).collect();
    let mut seen = BTreeSet::new();
    let mut open = vec![&package.id];
    while let Some(id) = open.pop() {
        if !seen.insert(id) {
            continue;
        }
        let Some(node) = nodes.get(id) else { continue };
        let normal = node
            .deps
            .iter()
            .filter(|dep| dep.dep_kinds.iter().any(|kind| kind.kind == DependencyKind::Normal));
        open.extend(normal.map(|dep| &dep.pkg));
    }
    let reached = seen.into_iter().map(|id| metadata[id].name.as_str());
    reached
        .filter(|name| NOT_BELOW.contains(name))
        .map(|name| format!("{} must not reach {name}", package.name))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_workspace_keeps_its_layers() {
        let metadata = workspace::metadata().unwrap();
        assert_eq!(faults(&metadata).unwrap(), Vec::<String>::new());
    }

    #[test]
    fn a_crate_that_looks_up_is_a_fault() {
        let metadata = workspace::metadata().unwrap();
        let crates = workspace::crates(&metadata).unwrap();
        let layers: BTreeMap<&str, u64> =
            crates.iter().map(|(layer, package)| (package.name.as_str(), *layer)).collect();
        let (_, schema) = crates.iter().find(|(_, package)| package.name.as_str() == "tool-schema").unwrap();
        let faults = direct(1, schema, &layers);
        assert!(
            faults.contains(&"tool-schema (layer 1) must not use protocol-action (layer 1)".into()),
            "{faults:?}"
        );
    }
}
