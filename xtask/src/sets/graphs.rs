//! Graphs of other systems: imported, expanded, put in order.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use serde_json::{Value, json};

use super::{Outcome, check, lines};
use crate::workspace;

/// Graphs of `ComfyUI`: nodes and longest way after expansion, and whether there is a cycle.
///
/// How nodes are switched is left out: the data count what a switched-off subgraph holds, and weft does not expand it.
pub(crate) fn comfyui(folder: &Path, weft: &Path) -> Result<Outcome> {
    let scratch = Scratch::new("comfyui")?;
    judge(&lines(&folder.join("graphs.jsonl"))?, |case| {
        let saved = scratch.write("saved/graph.json", &editor_file(case))?;
        let to = scratch.0.display().to_string();
        workspace::output(weft, &["import", "comfyui", &saved, "--to", &to, "--force"])?;
        let graph = graph(weft, &scratch.0.join("graph.json").display().to_string())?;
        let wanted = json!({"nodes": case["expect"]["flat_nodes"], "acyclic": case["expect"]["flat_acyclic"],
            "depth": case["expect"]["flat_depth"]});
        let got = json!({"nodes": list(&graph["nodes"]).count(), "depth": graph["depth"],
            "acyclic": graph["cycles"].as_array().is_some_and(Vec::is_empty)});
        Ok((wanted, got))
    })
}

/// Graphs of n8n, Dify, Langflow and Node-RED: cycles exactly where they have some, else the longest way.
pub(crate) fn others(folder: &Path, weft: &Path) -> Result<Outcome> {
    let scratch = Scratch::new("others")?;
    judge(&lines(&folder.join("other_graphs.jsonl"))?, |case| {
        let nodes: Vec<Value> = list(&case["nodes"])
            .map(|node| json!({"id": node["id"], "type": format!("other:{}", node["type"].as_str().unwrap_or_default())}))
            .collect();
        let edges: Vec<Value> =
            list(&case["edges"]).map(|edge| json!({"source": edge[0], "target": edge[1]})).collect();
        let file = scratch.write("graph.json", &json!({"nodes": nodes, "edges": edges}))?;
        let graph = graph(weft, &file)?;
        let knots: Vec<&Value> = list(&case["expect"]["cycles"]).collect();
        // One cycle of each knot of nodes is reported.
        let is_inside = |cycle: &Value| {
            knots.iter().any(|knot| list(cycle).all(|node| list(knot).any(|own| own == node)))
        };
        let cycles: Vec<&Value> = list(&graph["cycles"]).filter(|cycle| is_inside(cycle)).collect();
        let depth = |depth: &Value| if knots.is_empty() { depth.clone() } else { Value::Null };
        let wanted =
            json!({"nodes": nodes.len(), "cycles": knots.len(), "depth": depth(&case["expect"]["depth"])});
        let got = json!({"nodes": list(&graph["nodes"]).count(), "cycles": cycles.len(), "depth": depth(&graph["depth"])});
        Ok((wanted, got))
    })
}

fn judge(cases: &[Value], run: impl Fn(&Value) -> Result<(Value, Value)>) -> Result<Outcome> {
    let mut outcome = Outcome::default();
    for case in cases {
        let id = case["id"].as_str().unwrap_or_default().to_owned();
        let (wanted, got) = run(case).with_context(|| id.clone())?;
        check(&mut outcome, &id, &wanted, &got);
    }
    Ok(outcome)
}

/// Output of `weft workflow graph`. With a cycle it ends with 7 and prints the graph all the same.
fn graph(weft: &Path, file: &str) -> Result<Value> {
    let output =
        std::process::Command::new(weft).args(["workflow", "graph", file, "--output", "json"]).output()?;
    serde_json::from_slice(&output.stdout)
        .with_context(|| String::from_utf8_lossy(&output.stderr).into_owned())
}

/// The file that the editor of `ComfyUI` would save.
fn editor_file(case: &Value) -> Value {
    let slots = |side: &Value| -> Vec<Value> {
        list(side).map(|slot| json!({"name": slot[0], "type": slot[1]})).collect()
    };
    let nodes = |graph: &Value| -> Vec<Value> {
        let written = |node: &Value| {
            json!({"id": node["id"], "type": node["type"], "mode": 0,
            "inputs": slots(&node["in"]), "outputs": slots(&node["out"])})
        };
        list(&graph["nodes"]).map(written).collect()
    };
    let subgraphs = case["subgraphs"].as_object().into_iter().flatten();
    let subgraphs: Vec<Value> = subgraphs
        .map(|(id, graph)| {
            let links: Vec<Value> = list(&graph["edges"])
                .map(|edge| {
                    json!({"origin_id": edge[0], "origin_slot": edge[1], "target_id": edge[2],
                    "target_slot": edge[3], "type": edge[4]})
                })
                .collect();
            json!({"id": id, "name": graph["name"], "nodes": nodes(graph), "links": links,
                "inputs": slots(&graph["inputs"]), "outputs": slots(&graph["outputs"])})
        })
        .collect();
    let links: Vec<Value> = (0_u64..)
        .zip(list(&case["edges"]))
        .map(|(id, edge)| json!([id, edge[0], edge[1], edge[2], edge[3], edge[4]]))
        .collect();
    json!({"nodes": nodes(case), "links": links, "definitions": {"subgraphs": subgraphs}})
}

fn list(value: &Value) -> impl Iterator<Item = &Value> {
    value.as_array().into_iter().flatten()
}

/// A project in a folder of its own, gone at the end.
pub(super) struct Scratch(pub(super) PathBuf);

impl Scratch {
    pub(super) fn new(name: &str) -> Result<Self> {
        let folder = std::env::temp_dir().join(format!("weft-conformance-{}-{name}", std::process::id()));
        fs::create_dir_all(folder.join("saved"))?;
        Ok(Self(folder))
    }

    fn write(&self, name: &str, value: &Value) -> Result<String> {
        let path = self.0.join(name);
        fs::write(&path, value.to_string())?;
        Ok(path.display().to_string())
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        // What is left of it harms nobody.
        let _ = fs::remove_dir_all(&self.0);
    }
}
