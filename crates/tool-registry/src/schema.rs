//! Compiled schemas of tools, made when they are first needed.

use std::sync::{Arc, OnceLock};

use tool_schema::{CompiledSchema, OfferedTool, ToolSet, ToolSetError};

use crate::registry::Snapshot;
use crate::tool::Tool;

/// The compiled form of a definition, shared by the copies of a tool.
#[derive(Clone, Default)]
pub(crate) struct Offered(Arc<OnceLock<Result<OfferedTool, ToolSetError>>>);

impl Tool {
    /// The form in which the reader of replies and the catalogue take the tool.
    ///
    /// # Errors
    /// The schema of the arguments is invalid.
    pub fn offered(&self) -> Result<&OfferedTool, ToolSetError> {
        let made =
            self.offered_cell().0.get_or_init(|| OfferedTool::from_definition(self.definition().clone()));
        made.as_ref().map_err(Clone::clone)
    }

    /// The compiled schema of the arguments.
    ///
    /// # Errors
    /// The schema is invalid.
    pub fn schema(&self) -> Result<&CompiledSchema, ToolSetError> {
        Ok(&self.offered()?.schema)
    }

    /// The same tool, if the schema of its arguments is valid.
    ///
    /// # Errors
    /// The schema is invalid.
    pub fn checked(self) -> Result<Self, ToolSetError> {
        self.offered()?;
        Ok(self)
    }
}

impl Snapshot {
    /// The tools as one set: the vocabulary of the reader of replies.
    ///
    /// # Errors
    /// Two tools share a name on the wire, or the schema of one is invalid.
    pub fn tool_set(&self) -> Result<ToolSet, ToolSetError> {
        let tools: Result<Vec<_>, _> = self.tools().map(|tool| tool.offered().cloned()).collect();
        ToolSet::of_tools(tools?)
    }
}
