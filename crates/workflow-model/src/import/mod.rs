//! Graphs of other systems, read into workflow files.
//!
//! An import never fails because of a node type: foreign types are kept under the name of their system
//! (`comfyui:KSampler`), and what has no counterpart is told in [`Imported::notes`].

mod comfyui;
mod modular;

use std::fmt;

pub use comfyui::from_comfyui;
pub use modular::{from_modular, from_modular_value};
use serde_json::{Map, Value, json};

use crate::payload::Payload;
use crate::workflow::{LoadError, Workflow};

/// What came of an import.
#[derive(Debug)]
pub struct Imported {
    /// Workflows by the id under which the others name them. The first is the one that was asked for.
    pub workflows: Vec<(String, Workflow)>,
    /// What was left out or has to be looked at, in file order.
    pub notes: Vec<ImportNote>,
}

/// Something that the import could not carry over as it was.
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize)]
pub struct ImportNote {
    /// The node that it is about, by its id in the new file.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub node: Option<String>,
    /// What it is, for people.
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

/// Why a text is no graph of that system.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ImportError {
    /// It is no JSON.
    #[error("the file is no JSON: {0}")]
    Json(#[from] serde_json::Error),
    /// It is JSON of another kind.
    #[error("{0}")]
    Shape(String),
    /// What came of it is no workflow.
    #[error(transparent)]
    Load(#[from] LoadError),
}

impl ImportError {
    /// The wire form of the kind; never reworded.
    #[must_use]
    pub const fn code(&self) -> &'static str {
        match self {
            Self::Json(_) => "bad_json",
            Self::Shape(_) | Self::Load(_) => "bad_shape",
        }
    }
}

/// Reads a ComfyTavern workflow in its storage or full form, or an execution payload.
///
/// # Errors
/// The text is neither of them.
pub fn from_comfytavern(id: &str, text: &str) -> Result<Imported, ImportError> {
    let value: Value = serde_json::from_str(text)?;
    let first = value["nodes"].get(0);
    let is_payload = value.get("outputInterfaceMappings").is_some()
        || first.is_some_and(|node| node.get("fullType").is_some());
    let workflow =
        if is_payload { Payload::from_value(value)?.workflow } else { Workflow::from_value(value)? };
    let notes = crate::check::reference_notes(&workflow).into_iter();
    let notes = notes.map(|message| ImportNote { node: None, message }).collect();
    Ok(Imported { workflows: vec![(id.to_owned(), workflow)], notes })
}

/// A workflow file that grows.
#[derive(Default)]
struct Draft {
    nodes: Vec<Value>,
    edges: Vec<Value>,
    inputs: Map<String, Value>,
    outputs: Map<String, Value>,
    notes: Vec<ImportNote>,
}

impl Draft {
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
        Workflow::from_value(file)
    }
}

/// An id that other systems write as a number or a text.
fn id_text(value: &Value) -> Option<String> {
    match value {
        Value::String(text) => Some(text.clone()),
        Value::Number(number) => Some(number.to_string()),
        _ => None,
    }
}
