//! The tools of a process, and what one turn sees of them.

use std::sync::{Arc, PoisonError, RwLock};

use agent_types::{InvalidToolId, ToolId, nearest, ranked};
use indexmap::IndexMap;
use tool_schema::{ToolSet, ToolSetError};

use crate::tool::Tool;

/// Why a tool cannot be registered.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum RegistryError {
    /// The id is none.
    #[error(transparent)]
    Id(#[from] InvalidToolId),
    /// The schema cannot be used.
    #[error(transparent)]
    Schema(#[from] ToolSetError),
    /// There is a tool of that id.
    #[error("there is a tool `{id}` already")]
    Duplicate {
        /// The id.
        id: ToolId,
    },
}

impl RegistryError {
    /// Stable code for logs, tests and the wire.
    #[must_use]
    pub const fn code(&self) -> &'static str {
        match self {
            Self::Id(error) => error.code(),
            Self::Schema(error) => error.code(),
            Self::Duplicate { .. } => "duplicate_tool",
        }
    }
}

/// A name that no tool has.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("there is no tool `{name}`")]
pub struct Unresolved {
    /// The name that was asked for.
    pub name: String,
    /// The nearest id.
    pub near: Option<ToolId>,
}

impl Unresolved {
    /// Stable code for logs, tests and the wire.
    #[must_use]
    pub const fn code(&self) -> &'static str {
        "unknown_tool"
    }
}

/// All tools of a process. Registering is rare, reading takes a snapshot.
#[derive(Debug, Default)]
pub struct ToolRegistry {
    tools: RwLock<Arc<IndexMap<ToolId, Tool>>>,
}

impl ToolRegistry {
    /// An empty registry.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds a tool.
    ///
    /// # Errors
    /// There is one of that id.
    pub fn register(&self, tool: Tool) -> Result<(), RegistryError> {
        let mut tools = self.tools.write().unwrap_or_else(PoisonError::into_inner);
        if tools.contains_key(tool.id()) {
            return Err(RegistryError::Duplicate { id: tool.id().clone() });
        }
        Arc::make_mut(&mut tools).insert(tool.id().clone(), tool);
        Ok(())
    }

    /// What there is now; later changes do not show in it.
    #[must_use]
    pub fn snapshot(&self) -> Snapshot {
        Snapshot { tools: Arc::clone(&self.tools.read().unwrap_or_else(PoisonError::into_inner)) }
    }
}

/// The tools of one moment. Cheap to clone.
#[derive(Debug, Clone, Default)]
pub struct Snapshot {
    tools: Arc<IndexMap<ToolId, Tool>>,
}

impl Snapshot {
    /// A snapshot of just these tools, in this order.
    ///
    /// # Errors
    /// Two of one id.
    pub fn of(tools: impl IntoIterator<Item = Tool>) -> Result<Self, RegistryError> {
        let registry = ToolRegistry::new();
        tools.into_iter().try_for_each(|tool| registry.register(tool))?;
        Ok(registry.snapshot())
    }

    /// The tool of a canonical id.
    #[must_use]
    pub fn get(&self, id: &str) -> Option<&Tool> {
        self.tools.get(id)
    }

    /// All tools in the order of registration.
    pub fn tools(&self) -> impl Iterator<Item = &Tool> {
        self.tools.values()
    }

    /// Whether there are none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.tools.is_empty()
    }

    /// Only the tools of these ids, in their order.
    ///
    /// # Errors
    /// Every id that no tool has, with the nearest one.
    pub fn select<'a>(&self, ids: impl IntoIterator<Item = &'a str>) -> Result<Self, Vec<Unresolved>> {
        let mut selected = IndexMap::new();
        let mut unresolved = Vec::new();
        for id in ids {
            match self.get(id) {
                Some(tool) => {
                    selected.insert(tool.id().clone(), tool.clone());
                }
                None => unresolved.push(self.unresolved(id)),
            }
        }
        if unresolved.is_empty() { Ok(Self { tools: Arc::new(selected) }) } else { Err(unresolved) }
    }

    /// What to say of a name that no tool has.
    #[must_use]
    pub fn unresolved(&self, name: &str) -> Unresolved {
        let near = nearest(name, self.tools.keys().map(ToolId::as_str));
        Unresolved { name: name.to_owned(), near: near.and_then(|near| near.parse().ok()) }
    }

    /// The ids, the nearest to `name` first.
    #[must_use]
    pub fn ranked(&self, name: &str) -> Vec<&str> {
        ranked(name, self.tools.keys().map(ToolId::as_str))
    }

    /// The same tools as the reader of replies needs them.
    ///
    /// # Errors
    /// Two tools that share a name on the wire.
    pub fn tool_set(&self) -> Result<ToolSet, ToolSetError> {
        ToolSet::of_tools(self.tools().map(|tool| tool.offered().clone()))
    }
}
