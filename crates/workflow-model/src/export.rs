//! A workflow as a picture and as a number.

use std::collections::{HashMap, HashSet};
use std::fmt::Write;

use crate::node::Node;
use crate::structural::LOOP_ZONE;
use crate::workflow::Workflow;

/// The workflow as a flowchart in Mermaid. Loop zones are boxes around their bodies.
///
/// ```
/// use workflow_model::{Workflow, to_mermaid};
/// let text = r#"{"nodes": [{"id": "a", "type": "x:A"}, {"id": "b", "type": "x:B"}],
///                "edges": [{"source": "a", "sourceHandle": "out", "target": "b", "targetHandle": "in"}]}"#;
/// let workflow = Workflow::from_json(text)?;
/// let picture = "flowchart LR\n  n0[\"a<br/>x:A\"]\n  n1[\"b<br/>x:B\"]\n  n0 -->|out → in| n1\n";
/// assert_eq!(to_mermaid(&workflow), picture);
/// # Ok::<(), workflow_model::LoadError>(())
/// ```
#[must_use]
pub fn to_mermaid(workflow: &Workflow) -> String {
    let mut names: HashMap<&str, String> = HashMap::new();
    for (index, node) in workflow.nodes.iter().enumerate() {
        names.entry(&node.id).or_insert_with(|| format!("n{index}"));
    }
    let mut out = String::from("flowchart LR\n");
    let zones: HashSet<&str> = workflow
        .nodes
        .iter()
        .filter(|node| node.node_type == LOOP_ZONE)
        .map(|node| node.id.as_str())
        .collect();
    let zone_of = |node: &Node| node.parent_node.clone().filter(|parent| zones.contains(parent.as_str()));
    let mut bodies: HashMap<String, Vec<&Node>> = HashMap::new();
    for node in &workflow.nodes {
        match zone_of(node) {
            Some(zone) => bodies.entry(zone).or_default().push(node),
            None => line(&mut out, 1, node, &names),
        }
    }
    for zone in workflow.nodes.iter().filter(|node| bodies.contains_key(&node.id)) {
        // Writing to a text cannot fail.
        let _ = writeln!(out, "  subgraph z{}[\"{}\"]", names[zone.id.as_str()], escaped(&zone.id));
        for node in &bodies[&zone.id] {
            line(&mut out, 2, node, &names);
        }
        out.push_str("  end\n");
    }
    for edge in &workflow.edges {
        let (Some(from), Some(to)) = (names.get(edge.source.as_str()), names.get(edge.target.as_str()))
        else {
            continue;
        };
        let _ = match (edge.source_slot(), edge.target_slot()) {
            (None, None) => writeln!(out, "  {from} -.-> {to}"),
            (source, target) => {
                let label = format!("{} → {}", source.unwrap_or(""), target.unwrap_or(""));
                writeln!(out, "  {from} -->|{}| {to}", escaped(label.trim()))
            }
        };
    }
    out
}

fn line(out: &mut String, depth: usize, node: &Node, names: &HashMap<&str, String>) {
    let title = node.display_name.as_deref().unwrap_or(&node.id);
    let _ = writeln!(
        out,
        "{}{}[\"{}<br/>{}\"]",
        "  ".repeat(depth),
        names[node.id.as_str()],
        escaped(title),
        escaped(&node.node_type)
    );
}

/// Escapes the characters that are special in Mermaid as entities.
fn escaped(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '"' | '|' | '<' | '>' | '[' | ']' | '{' | '}' | '#' | '&' | ';' | '`' => {
                let _ = write!(out, "#{};", u32::from(c));
            }
            c if c.is_control() => out.push(' '),
            c => out.push(c),
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn zones_are_boxes_and_signs_are_escaped() {
        let workflow = Workflow::from_value(serde_json::json!({
            "nodes": [{"id": "L", "type": "core:LoopZone"}, {"id": "a\"]", "type": "x:A", "parentNode": "L"}, {"id": "b", "type": "x:B", "displayName": "B & b"}],
            "edges": [{"source": "L", "target": "b"}, {"source": "gone", "target": "b"}]
        }))
        .unwrap();
        insta::assert_snapshot!(to_mermaid(&workflow), @r#"
        flowchart LR
          n0["L<br/>core:LoopZone"]
          n2["B #38; b<br/>x:B"]
          subgraph zn0["L"]
            n1["a#34;#93;<br/>x:A"]
          end
          n0 -.-> n2
        "#);
    }
}
