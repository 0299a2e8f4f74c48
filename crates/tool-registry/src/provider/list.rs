//! The providers of a project.

use std::collections::{BTreeSet, HashSet};
use std::path::PathBuf;
use std::sync::Arc;

use agent_types::{Services, nearest};

use super::{BrokenTool, Changes, Fault, FilePlace, Reach, Resolution, ToolProvider};
use crate::files::PassedOver;
use crate::invoker::ToolLookupError;
use crate::registry::{ToolSource, Unresolved};
use crate::selection::beginning_of;
use crate::tool::Tool;

/// Providers in their order: where two have a tool of one id, the first counts. Cheap to clone.
#[derive(Debug, Clone, Default)]
pub struct Providers(Vec<Arc<dyn ToolProvider>>);

/// The namespace of an id or an entry.
fn namespace(id: &str) -> Option<&str> {
    id.split_once(':').map(|(namespace, _)| namespace)
}

impl Providers {
    /// No providers.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// The same with one more.
    #[must_use]
    pub fn with(self, provider: impl ToolProvider + 'static) -> Self {
        self.with_shared(Arc::new(provider))
    }

    /// The same with one more that others hold too.
    #[must_use]
    pub fn with_shared(mut self, provider: Arc<dyn ToolProvider>) -> Self {
        self.0.push(provider);
        self
    }

    /// The providers in their order.
    pub fn iter(&self) -> impl Iterator<Item = &Arc<dyn ToolProvider>> {
        self.0.iter()
    }

    /// The provider that a namespace is reserved for.
    #[must_use]
    pub fn reserved(&self, namespace: &str) -> Option<&Arc<dyn ToolProvider>> {
        self.0.iter().find(|provider| provider.namespaces().contains(&namespace))
    }

    /// Provider that an id belongs to by its namespace.
    #[must_use]
    pub fn owner(&self, id: &str) -> Option<&Arc<dyn ToolProvider>> {
        self.reserved(namespace(id)?)
    }

    /// Ids of all tools, each once, and tools that cannot be used.
    #[must_use]
    pub fn list(&self, reach: Reach) -> Vec<Result<String, BrokenTool>> {
        let mut seen = HashSet::new();
        let mut all = Vec::new();
        for provider in &self.0 {
            for listed in provider.list(reach) {
                match listed {
                    Ok(id) if seen.contains(&id) => {}
                    Ok(id) => {
                        seen.insert(id.clone());
                        all.push(self.unreserved(&**provider, id));
                    }
                    Err(broken) => all.push(Err(broken)),
                }
            }
        }
        all
    }

    /// Ids of the tools that are known in this process.
    #[must_use]
    pub fn ids(&self) -> Vec<String> {
        self.list(Reach::Local).into_iter().flatten().collect()
    }

    /// Ids of the tools that have a file of their own.
    #[must_use]
    pub fn in_files(&self) -> Vec<String> {
        let ids = self.0.iter().flat_map(|provider| {
            let listed = provider.list(Reach::Local).into_iter().flatten();
            listed.filter(|id| provider.place(id).is_some())
        });
        ids.collect()
    }

    /// File that the tool of an id comes from.
    #[must_use]
    pub fn place(&self, id: &str) -> Option<FilePlace> {
        self.0.iter().find_map(|provider| provider.place(id))
    }

    /// Files that tools come from, each once.
    #[must_use]
    pub fn files(&self) -> BTreeSet<PathBuf> {
        let places = self.0.iter().flat_map(|provider| {
            let listed = provider.list(Reach::Local).into_iter().flatten();
            listed.filter_map(|id| Some(provider.place(&id)?.path))
        });
        places.collect()
    }

    /// An id of a provider, if its namespace is not reserved for another one.
    fn unreserved(&self, provider: &dyn ToolProvider, id: String) -> Result<String, BrokenTool> {
        let Some(owner) = self.owner(&id).filter(|_| !is_own(provider, &id)) else { return Ok(id) };
        let namespace = namespace(&id).unwrap_or_default();
        let message = format!(
            "`{id}` is in the namespace `{namespace}`, which is reserved for tools of kind `{}`",
            owner.kind()
        );
        Err(BrokenTool::new("reserved_namespace", message)
            .with_place(provider.place(&id))
            .with_help("choose another name")
            .with_id(id))
    }

    /// Resolves the tool of an id.
    ///
    /// # Errors
    /// The id is unknown (the error holds a suggestion), or the tool cannot be used.
    pub fn resolve(&self, id: &str, services: &Services) -> Result<Tool, ToolLookupError> {
        let asked = match self.owner(id) {
            Some(owner) => std::slice::from_ref(owner),
            None => &self.0,
        };
        for provider in asked {
            match provider.resolve(id, services) {
                Resolution::Found(tool) => return Ok(tool),
                Resolution::Broken(broken) => return Err(ToolLookupError::Broken(broken)),
                Resolution::NotMine => {}
            }
        }
        Err(ToolLookupError::Unknown(self.unresolved(id)))
    }

    /// The error for an id that no tool has.
    #[must_use]
    pub fn unresolved(&self, id: &str) -> Unresolved {
        let known: Vec<String> = self.0.iter().flat_map(|provider| provider.suggestions()).collect();
        let near = nearest(id, known.iter().map(String::as_str));
        Unresolved { name: id.to_owned(), near: near.and_then(|near| near.parse().ok()) }
    }

    /// Canonical form of an id, a name or a wildcard as a file writes it. The first provider that knows it counts, up to the
    /// one that its namespace is reserved for; then the only tool of that name, which is its id without the namespace or
    /// its display name. Anything else is canonical as it is.
    #[must_use]
    pub fn canonical(&self, id: &str) -> String {
        let mut asked = self.0.iter().take_while(|provider| !is_own(&***provider, id));
        let short = asked.find_map(|provider| provider.canonical(id));
        short.or_else(|| self.named(id)).unwrap_or_else(|| id.to_owned())
    }

    /// Id of the only tool of a name; `None` for an id.
    fn named(&self, name: &str) -> Option<String> {
        if name.is_empty() || self.owner(name).is_some() || beginning_of(name).is_some() {
            return None;
        }
        let listed = self.list(Reach::Local);
        let mut known = listed.iter().filter_map(|listed| match listed {
            Ok(id) => Some(id),
            Err(broken) => broken.id.as_ref(),
        });
        if known.any(|id| id == name) {
            return None;
        }
        let ids = listed.into_iter().flatten();
        let is_named = |id: &String| id.split_once(':').is_some_and(|(_, own)| own == name);
        let mut named: Vec<String> = ids.filter(is_named).collect();
        if named.is_empty() {
            named = self.0.iter().flat_map(|provider| provider.titled(name)).collect();
        }
        named.pop().filter(|_| named.is_empty())
    }

    /// Ids that an entry of an inventory stands for: itself, or those of a wildcard such as `workflow:*`. What a wildcard
    /// stands for and cannot be used is a fault beside them: a program that cannot be reached, say.
    #[must_use]
    pub fn expand(&self, entry: &str) -> Vec<Result<String, BrokenTool>> {
        let Some(owner) = self.owner(entry) else { return vec![Ok(entry.to_owned())] };
        if let Some(expanded) = owner.expand(entry) {
            return expanded;
        }
        let Some(beginning) = beginning_of(entry) else { return vec![Ok(entry.to_owned())] };
        let ids = owner.list(Reach::Local).into_iter().flatten();
        ids.filter(|id| id.starts_with(beginning)).map(Ok).collect()
    }

    /// Returns `true` if a resolved tool of this id never changes.
    #[must_use]
    pub fn is_constant(&self, id: &str) -> bool {
        self.owner(id).is_some_and(|owner| owner.changes() == Changes::Never)
    }

    /// Files and folders whose changes change tools.
    #[must_use]
    pub fn watched(&self) -> Vec<PathBuf> {
        let files = self.0.iter().filter_map(|provider| match provider.changes() {
            Changes::Files(files) => Some(files),
            Changes::Never | Changes::Announced => None,
        });
        files.flatten().collect()
    }

    /// The same providers as their files are now.
    ///
    /// # Errors
    /// The files of one cannot be read.
    pub fn reloaded(&self) -> Result<Self, BrokenTool> {
        let now = self.0.iter().map(|old| old.reloaded().unwrap_or_else(|| Ok(Arc::clone(old))));
        now.collect::<Result<Vec<_>, _>>().map(Self)
    }

    /// The same tools, as other programs announce theirs.
    #[must_use]
    pub fn follow(&self, tools: Arc<dyn ToolSource>) -> Arc<dyn ToolSource> {
        self.0.iter().fold(tools, |tools, provider| provider.follow(tools))
    }

    /// Files that belong to a kind and are passed over. May read all of them.
    #[must_use]
    pub fn passed_over(&self) -> Vec<PassedOver> {
        self.0.iter().flat_map(|provider| provider.passed_over()).collect()
    }

    /// Checks that these services are all that a tool needs for a call outside of an agent's run.
    ///
    /// # Errors
    /// The first service that is missing, in the words of the tool's provider.
    pub fn check_reach(&self, tool: &Tool, services: &Services) -> Result<(), BrokenTool> {
        let missing = tool.missing(services);
        let Some(first) = missing.first() else { return Ok(()) };
        let id = tool.id().as_str();
        Err(self.owner(id).and_then(|owner| owner.out_of_reach(id)).unwrap_or_else(|| {
            let message = format!("`{id}` needs {first}, which only an agent's run has");
            BrokenTool::new("missing_dependency", message).with_fault(Fault::Unknown)
        }))
    }

    /// Values that no event and no log may show.
    #[must_use]
    pub fn secrets(&self) -> Vec<String> {
        self.0.iter().flat_map(|provider| provider.secrets()).collect()
    }
}

fn is_own(provider: &dyn ToolProvider, id: &str) -> bool {
    namespace(id).is_some_and(|namespace| provider.namespaces().contains(&namespace))
}
