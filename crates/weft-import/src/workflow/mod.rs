//! Graphs of other systems, read into workflow files.
//!
//! An import never fails because of a node type: foreign types are kept under the name of their system
//! (`comfyui:KSampler`), and members of nodes and graphs without a counterpart are kept in a member of that name.

mod comfyui;
mod modular;

use std::fmt;

use serde_json::{Map, Value, json};
use workflow_model::{LoadError, Payload, Workflow, reference_notes, write_implied_defaults};

use crate::error::ImportError;
use crate::fields::{Fields, Ledger};
use crate::report::Report;

/// Workflows that were read from a foreign graph.
#[derive(Debug)]
#[non_exhaustive]
pub struct ImportedWorkflows {
    /// Workflows by the id under which the others name them. The first is the one that was asked for.
    pub workflows: Vec<(String, Workflow)>,
    /// Parts that were left out or need a look, in file order.
    pub notes: Vec<ImportNote>,
    /// The fate of every member of the file.
    pub report: Report,
}

/// Something that the import could not carry over as it was.
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize)]
#[non_exhaustive]
pub struct ImportNote {
    /// The node that it is about, by its id in the new file.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub node: Option<String>,
    /// Explanation for the user.
    pub message: String,
}

impl fmt::Display for ImportNote {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.node {
            Some(node) => write!(f, "`{node}`: {}", self.message),
            None => f.write_str(&self.message),
        }
    }
}

/// Workflows and notes, before the ledger is closed.
type Mapped = (Vec<(String, Workflow)>, Vec<ImportNote>);

/// Reads a document, maps it, and closes its ledger.
fn import(
    document: &Value,
    map: impl for<'d> FnOnce(Fields<'d>) -> Result<Mapped, ImportError>,
) -> Result<ImportedWorkflows, ImportError> {
    let ledger = Ledger::new(document);
    let (workflows, notes) = map(ledger.root())?;
    Ok(ImportedWorkflows { workflows, notes, report: ledger.close() })
}

/// Reads a graph of `ComfyUI`. Each subgraph becomes a workflow of its own, named `ID/SUBGRAPH`.
///
/// Muted nodes are muted, bypassed ones hand their inputs on. Links that lead nowhere are left out and reported.
///
/// # Errors
/// The text is not JSON, or not a graph of `ComfyUI`.
pub fn from_comfyui(id: &str, text: &str) -> Result<ImportedWorkflows, ImportError> {
    import(&serde_json::from_str(text)?, |file| comfyui::read(id, file))
}

/// Reads the structure of a modular-agent workflow.
///
/// A `LOOP_START` and its `LOOP_END` become a loop zone around what lies between them, `START` and `END` the ends of
/// the workflow, `SUBGRAPH` a node group; all edges are order only. Other nodes keep their type as `modular:TYPE` and
/// their settings. Conditions on edges, routes, forks and loops that cross each other are unsupported and reported.
///
/// Files that wrap the workflow in `workflow`, name the ends of edges `from` and `to`, or write types in small letters
/// are of older generations and are read as well.
///
/// # Errors
/// The text is not JSON, or has no `nodes`.
pub fn from_modular(id: &str, text: &str) -> Result<ImportedWorkflows, ImportError> {
    from_modular_value(id, &serde_json::from_str(text)?)
}

/// Reads a modular-agent workflow that was parsed already, such as one in TOML.
///
/// # Errors
/// It has no `nodes`.
pub fn from_modular_value(id: &str, file: &Value) -> Result<ImportedWorkflows, ImportError> {
    import(file, |file| modular::read(id, file))
}

/// Reads a `ComfyTavern` workflow in its storage or full form, which stays whole, or an execution payload. The defaults that
/// it implies for inputs which nothing gives are written into the interface.
///
/// # Errors
/// The text is neither of them.
pub fn from_comfytavern(id: &str, text: &str) -> Result<ImportedWorkflows, ImportError> {
    import(&serde_json::from_str(text)?, |file| {
        let value = file.peek();
        let first = value["nodes"].get(0);
        let is_payload = value.get("outputInterfaceMappings").is_some()
            || first.is_some_and(|node| node.get("fullType").is_some());
        let (workflow, written) = if is_payload {
            take_payload(file);
            (Payload::from_value(value.clone())?.workflow, Vec::new())
        } else {
            file.take();
            let mut workflow = Workflow::from_value(value.clone())?;
            let written = write_implied_defaults(&mut workflow);
            (workflow, written)
        };
        let written = written.into_iter().map(|name| {
            format!("interfaceInputs.{name} had no default; the one that ComfyTavern implies is written")
        });
        let notes = reference_notes(&workflow).into_iter().chain(written);
        let notes = notes.map(|message| ImportNote { node: None, message }).collect();
        Ok((vec![(id.to_owned(), workflow)], notes))
    })
}

/// Takes the members of a payload that [`Payload`] reads.
fn take_payload(file: Fields<'_>) {
    const NODE: &[&str] = &["id", "fullType", "inputs", "configValues", "bypassed"];
    const EDGE: &[&str] = &["id", "sourceNodeId", "sourceHandle", "targetNodeId", "targetHandle"];
    let whole = ["workflowId", "interfaceInputs", "interfaceOutputs", "outputInterfaceMappings"];
    whole.iter().filter_map(|name| file.get(name)).for_each(|member| {
        member.take();
    });
    for (list, names) in [("nodes", NODE), ("edges", EDGE)] {
        for item in file.get(list).into_iter().flat_map(Fields::items) {
            names.iter().filter_map(|name| item.get(name)).for_each(|member| {
                member.take();
            });
        }
    }
}

/// A workflow file that grows.
#[derive(Default)]
struct WorkflowDraft {
    nodes: Vec<Value>,
    edges: Vec<Value>,
    inputs: Map<String, Value>,
    outputs: Map<String, Value>,
    /// Members of the graph that are kept unread, and the name under which they are.
    kept: Option<(&'static str, Map<String, Value>)>,
    notes: Vec<ImportNote>,
}

impl WorkflowDraft {
    fn note(&mut self, node: impl Into<String>, message: impl Into<String>) {
        self.notes.push(ImportNote { node: Some(node.into()), message: message.into() });
    }

    /// An edge; without slots it only says what comes first.
    fn edge(&mut self, source: (&str, Option<&str>), target: (&str, Option<&str>)) {
        let mut edge =
            json!({"id": format!("e{}", self.edges.len()), "source": source.0, "target": target.0});
        for (key, slot) in [("sourceHandle", source.1), ("targetHandle", target.1)] {
            if let Some(slot) = slot {
                edge[key] = slot.into();
            }
        }
        self.edges.push(edge);
    }

    fn finish(
        self,
        id: &str,
        name: Option<&str>,
        notes: &mut Vec<ImportNote>,
    ) -> Result<Workflow, LoadError> {
        notes.extend(self.notes);
        let mut file =
            json!({"id": id, "name": name.unwrap_or(id), "nodes": self.nodes, "edges": self.edges});
        for (key, slots) in [("interfaceInputs", self.inputs), ("interfaceOutputs", self.outputs)] {
            if !slots.is_empty() {
                file[key] = slots.into();
            }
        }
        if let Some((system, rest)) = self.kept.filter(|(_, rest)| !rest.is_empty()) {
            file[system] = rest.into();
        }
        Workflow::from_value(file)
    }
}
