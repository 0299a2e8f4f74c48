//! Tools of a process, and their snapshots for single turns.

use std::collections::HashSet;
use std::sync::Arc;

use agent_types::{EventBody, InvalidToolId, ToolId, nearest, ranked};
use indexmap::IndexMap;
use indexmap::map::Entry;
use parking_lot::RwLock;

use crate::function::IntoTool;
use crate::tool::Tool;

/// Reason for which a tool cannot be registered.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum RegistryError {
    /// The id is invalid.
    #[error(transparent)]
    Id(#[from] InvalidToolId),
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
            Self::Duplicate { .. } => "duplicate_tool",
        }
    }
}

/// An unknown name of a tool.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("unknown tool `{name}`")]
pub struct Unresolved {
    /// The requested name.
    pub name: String,
    /// Suggested id.
    pub near: Option<ToolId>,
}

impl Unresolved {
    /// Stable code for logs, tests and the wire.
    #[must_use]
    pub const fn code(&self) -> &'static str {
        "unknown_tool"
    }
}

/// Difference between the tools of two snapshots. Ids are in order.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct RegistryChange {
    /// Tools that are new.
    pub added: Vec<ToolId>,
    /// Tools that are gone.
    pub removed: Vec<ToolId>,
    /// Tools whose definition is another one.
    pub changed: Vec<ToolId>,
    /// Warnings for the operator.
    pub warnings: Vec<String>,
}

impl RegistryChange {
    /// Returns `true` if nothing changed.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.added.is_empty()
            && self.removed.is_empty()
            && self.changed.is_empty()
            && self.warnings.is_empty()
    }

    /// Event that reports the change.
    #[must_use]
    pub fn into_event(self) -> EventBody {
        let Self { added, removed, changed, warnings } = self;
        EventBody::RegistryChanged { added, removed, changed, warnings }
    }
}

/// Source of a turn's tools. A turn keeps its snapshot; the next turn takes a new one.
pub trait ToolSource: Send + Sync + std::fmt::Debug {
    /// Snapshot of the present tools.
    fn snapshot(&self) -> Snapshot;
}

impl ToolSource for Snapshot {
    fn snapshot(&self) -> Snapshot {
        self.clone()
    }
}

impl ToolSource for Registry {
    fn snapshot(&self) -> Snapshot {
        Self::snapshot(self)
    }
}

/// All tools of a process. Registering is rare, reading takes a snapshot.
#[derive(Debug, Default)]
pub struct Registry {
    tools: RwLock<Arc<IndexMap<ToolId, Tool>>>,
}

impl Registry {
    /// An empty registry.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds a tool.
    ///
    /// # Errors
    /// There is one of that id.
    pub fn register(&self, tool: impl IntoTool) -> Result<(), RegistryError> {
        let tool = tool.into_tool()?;
        let mut tools = self.tools.write();
        insert(Arc::make_mut(&mut tools), tool)
    }

    /// Puts tools in the place of those of these ids, all at once or not at all: what a reload of a file or a server does.
    ///
    /// # Errors
    /// Those of [`register`](Self::register); then nothing has changed.
    pub fn replace<'a, T: IntoTool>(
        &self,
        old: impl IntoIterator<Item = &'a ToolId>,
        new: impl IntoIterator<Item = T>,
    ) -> Result<RegistryChange, RegistryError> {
        let mut tools = self.tools.write();
        let before = Snapshot::from(Arc::clone(&tools));
        let old: HashSet<&ToolId> = old.into_iter().collect();
        let mut next: IndexMap<ToolId, Tool> = IndexMap::with_capacity(tools.len());
        next.extend(
            tools.iter().filter(|(id, _)| !old.contains(id)).map(|(id, tool)| (id.clone(), tool.clone())),
        );
        for tool in new {
            insert(&mut next, tool.into_tool()?)?;
        }
        *tools = Arc::new(next);
        Ok(before.change_to(&Snapshot::from(Arc::clone(&tools))))
    }

    /// Snapshot of the present tools; later changes do not show in it.
    #[must_use]
    pub fn snapshot(&self) -> Snapshot {
        Snapshot::from(Arc::clone(&self.tools.read()))
    }
}

fn insert(tools: &mut IndexMap<ToolId, Tool>, tool: Tool) -> Result<(), RegistryError> {
    match tools.entry(tool.id().clone()) {
        Entry::Occupied(there) => Err(RegistryError::Duplicate { id: there.key().clone() }),
        Entry::Vacant(free) => {
            free.insert(tool);
            Ok(())
        }
    }
}

/// The tools of one moment. Cheap to clone.
#[derive(Debug, Clone, Default)]
pub struct Snapshot {
    tools: Arc<IndexMap<ToolId, Tool>>,
    /// Warnings of the source of the tools.
    warnings: Arc<[String]>,
}

impl From<Arc<IndexMap<ToolId, Tool>>> for Snapshot {
    fn from(tools: Arc<IndexMap<ToolId, Tool>>) -> Self {
        Self { tools, warnings: Arc::default() }
    }
}

impl Snapshot {
    /// A snapshot of just these tools, in this order.
    ///
    /// # Errors
    /// Two of one id.
    pub fn new(tools: impl IntoIterator<Item = Tool>) -> Result<Self, RegistryError> {
        let mut all = IndexMap::new();
        tools.into_iter().try_for_each(|tool| insert(&mut all, tool))?;
        Ok(Self::from(Arc::new(all)))
    }

    /// A snapshot of tools whose ids are known to differ.
    pub(crate) fn of_distinct(tools: impl IntoIterator<Item = Tool>) -> Self {
        Self::from(Arc::new(
            tools.into_iter().map(|tool| (tool.id().clone(), tool)).collect::<IndexMap<_, _>>(),
        ))
    }

    /// Those of the tools that are read-only.
    #[must_use]
    pub fn read_only(&self) -> Self {
        Self::of_distinct(self.tools().filter(|tool| tool.definition().annotations.read_only).cloned())
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

    /// The same tools, with what is wrong where they come from: a file that cannot be read, whose old tool stays.
    #[must_use]
    pub fn with_warnings(mut self, warnings: Vec<String>) -> Self {
        self.warnings = warnings.into();
        self
    }

    /// Warnings of the source of the tools.
    #[must_use]
    pub fn warnings(&self) -> &[String] {
        &self.warnings
    }

    /// Returns `true` if both are the same snapshot of the same registry; cheap.
    #[must_use]
    pub fn is_same(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.tools, &other.tools) && self.warnings == other.warnings
    }

    /// Difference from this snapshot to a newer one, with the warnings that are new. A changed description is a warning
    /// too, because it changes what the model reads without the user's knowledge.
    #[must_use]
    pub fn change_to(&self, newer: &Self) -> RegistryChange {
        let mut change = RegistryChange::default();
        for (id, tool) in &*newer.tools {
            match self.tools.get(id) {
                None => change.added.push(id.clone()),
                Some(old) if old.definition() != tool.definition() => {
                    if old.definition().description != tool.definition().description {
                        change.warnings.push(format!("the description of `{id}` is another one"));
                    }
                    change.changed.push(id.clone());
                }
                Some(_) => {}
            }
        }
        change.warnings.extend(newer.warnings.iter().filter(|new| !self.warnings.contains(new)).cloned());
        change.removed.extend(self.tools.keys().filter(|id| !newer.tools.contains_key(*id)).cloned());
        change.added.sort();
        change.removed.sort();
        change.changed.sort();
        change
    }

    /// Returns `true` if the snapshot is empty.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.tools.is_empty()
    }

    /// Selects the tools of these ids, in their order.
    ///
    /// # Errors
    /// Every unknown id, with a suggestion.
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
        if unresolved.is_empty() { Ok(Self::from(Arc::new(selected))) } else { Err(unresolved) }
    }

    /// Error for an unknown name, with a suggestion.
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
}
