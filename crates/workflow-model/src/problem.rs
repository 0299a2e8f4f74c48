//! Problems of a workflow file that has a valid shape.

use agent_types::Severity;
use serde::Serialize;

/// Kinds of problems; the wire form is never reworded.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum ProblemCode {
    /// Nodes that wait for each other.
    Cycle,
    /// Two edges into a slot that takes one.
    DuplicateInput,
    /// Two nodes of one id.
    DuplicateNode,
    /// A required input without an edge, value or default.
    MissingInput,
    /// A carried value without a first value.
    MissingInitial,
    /// An edge, parent or mapping names a node that is not there.
    UnknownNode,
    /// An edge or value names a slot that is not there.
    UnknownSlot,
    /// A node of a type that is not registered.
    UnknownType,
    /// An edge joins slots whose types do not fit.
    TypeMismatch,
    /// A node group embeds a workflow that is not there.
    UnknownWorkflow,
    /// A tool list names a tool that is not there.
    UnknownTool,
    /// A workflow embeds itself.
    SelfReference,
    /// An edge out of the body of a loop zone.
    EdgeLeavesZone,
    /// A key with a name that the engine uses itself.
    ReservedName,
    /// A setting or value that cannot be used.
    BadValue,
    /// Offered as a tool, something has no description.
    MissingDescription,
}

impl ProblemCode {
    /// The wire form.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Cycle => "cycle",
            Self::DuplicateInput => "duplicate_input",
            Self::DuplicateNode => "duplicate_node",
            Self::MissingInput => "missing_input",
            Self::MissingInitial => "missing_initial",
            Self::UnknownNode => "unknown_node",
            Self::UnknownSlot => "unknown_slot",
            Self::UnknownType => "unknown_type",
            Self::TypeMismatch => "type_mismatch",
            Self::UnknownWorkflow => "unknown_workflow",
            Self::UnknownTool => "unknown_tool",
            Self::SelfReference => "self_reference",
            Self::EdgeLeavesZone => "edge_leaves_zone",
            Self::ReservedName => "reserved_name",
            Self::BadValue => "bad_value",
            Self::MissingDescription => "missing_description",
        }
    }
}

/// One problem.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct Problem {
    /// Code of the problem.
    pub code: ProblemCode,
    /// Severity; an error keeps the workflow from running.
    pub severity: Severity,
    /// The path of the node it is about, as in `group/inner`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub node: Option<String>,
    /// The slot or key it is about.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub slot: Option<String>,
    /// Description for the user.
    pub message: String,
    /// The name that was probably meant.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub suggest: Option<String>,
    /// The nodes of a cycle, each feeding the next and the last one the first.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub nodes: Vec<String>,
}

impl Problem {
    /// A problem that keeps the workflow from running.
    #[must_use]
    pub fn error(code: ProblemCode, message: impl Into<String>) -> Self {
        Self {
            code,
            severity: Severity::Error,
            node: None,
            slot: None,
            message: message.into(),
            suggest: None,
            nodes: Vec::new(),
        }
    }

    /// A problem that the author should know of.
    #[must_use]
    pub fn warning(code: ProblemCode, message: impl Into<String>) -> Self {
        Self { severity: Severity::Warning, ..Self::error(code, message) }
    }

    /// The same problem, about this node.
    #[must_use]
    pub fn at(mut self, node: impl Into<String>) -> Self {
        self.node = Some(node.into());
        self
    }

    /// The same problem, about this slot or key.
    #[must_use]
    pub fn slot(mut self, slot: impl Into<String>) -> Self {
        self.slot = Some(slot.into());
        self
    }

    /// The same problem with the name that was probably meant.
    #[must_use]
    pub fn suggest(mut self, name: Option<impl Into<String>>) -> Self {
        self.suggest = name.map(Into::into);
        self
    }
}

impl std::fmt::Display for Problem {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}: ", self.code.as_str())?;
        if let Some(node) = &self.node {
            write!(f, "`{node}`")?;
            if let Some(slot) = &self.slot {
                write!(f, ".`{slot}`")?;
            }
            f.write_str(": ")?;
        }
        f.write_str(&self.message)?;
        match &self.suggest {
            Some(near) => write!(f, "; did you mean `{near}`?"),
            None => Ok(()),
        }
    }
}
