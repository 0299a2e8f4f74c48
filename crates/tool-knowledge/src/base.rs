//! Knowledge bases: text files of the project, searched in memory.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use agent_types::ToolId;
use async_trait::async_trait;
use parking_lot::Mutex;
use run_store::{MemoryIndex, Passage, TextIndex};
use schemars::JsonSchema;
use serde::{Deserialize, Deserializer, Serialize};
use tool_registry::files::{Below, PassedOver, files_below, is_safe_id, read_text};
use tool_registry::{
    BrokenTool, Reach, RegistryError, Resolution, Services, Tool, ToolError, ToolKind, ToolProvider,
    fits_pattern,
};

use crate::passages::add_passages;
use crate::tool::{self, CHINESE, KnowledgeSource, knowledge_tool};

/// Largest file that is read, in bytes.
const MAX_FILE: u64 = 16 * 1024 * 1024;

/// An entry `[kb.<name>]`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[non_exhaustive]
pub struct KnowledgeSettings {
    /// Text files, relative to the project: `docs/**`, `notes/*.md`. `*` stands for anything but a slash, `**` for folders too.
    pub path: String,
    /// Description for the model.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub description: Option<String>,
}

/// Provider of the tools `kb:<name>`, over the files of each base as they are when its tool is resolved.
#[derive(Debug)]
pub struct KnowledgeTools {
    root: PathBuf,
    bases: BTreeMap<String, KnowledgeSettings>,
    /// Bases whose passed-over files were logged.
    logged: Mutex<BTreeSet<String>>,
}

impl KnowledgeTools {
    /// The bases of a project, by name.
    #[must_use]
    pub fn new(root: &Path, bases: &BTreeMap<String, KnowledgeSettings>) -> Self {
        Self { root: root.to_owned(), bases: bases.clone(), logged: Mutex::default() }
    }

    /// The base of a name, over its files as they are now.
    #[must_use]
    pub fn source(&self, name: &str) -> Option<Arc<dyn KnowledgeSource>> {
        let passages = read(&self.root, &self.bases.get(name)?.path).passages;
        Some(Arc::new(Knowledge(MemoryIndex::new(passages))))
    }

    /// Names of the bases.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.bases.keys().map(String::as_str)
    }

    fn tool(&self, name: &str, settings: &KnowledgeSettings) -> Result<Tool, RegistryError> {
        let Found { passages, passed } = read(&self.root, &settings.path);
        let known = settings.description.clone();
        let description = known.unwrap_or_else(|| format!("Searches the documents {}.", settings.path));
        let tool = knowledge_tool(name, &description, Arc::new(Knowledge(MemoryIndex::new(passages))))?;
        let tool = match &settings.description {
            Some(_) => tool,
            None => tool.translated("zh", &format!("检索文档 {}。", settings.path), &CHINESE),
        };
        if self.logged.lock().insert(name.to_owned()) {
            for passed in passed {
                log::warn!("[kb.{name}]: {}: {}", passed.at.path.display(), passed.at.message);
            }
        }
        Ok(tool)
    }
}

impl ToolProvider for KnowledgeTools {
    fn kind(&self) -> ToolKind {
        ToolKind::NATIVE
    }

    fn namespaces(&self) -> &[&'static str] {
        &["kb"]
    }

    fn list(&self, _: Reach) -> Vec<Result<String, BrokenTool>> {
        self.bases.keys().map(|name| Ok(format!("kb:{name}"))).collect()
    }

    fn resolve(&self, id: &str, _: &Services) -> Resolution {
        let base = id.strip_prefix("kb:").and_then(|name| self.bases.get_key_value(name));
        base.map_or(Resolution::NotMine, |(name, settings)| self.tool(name, settings).into())
    }

    fn passed_over(&self) -> Vec<PassedOver> {
        let bases = self.bases.iter();
        let passed = bases.flat_map(|(name, settings)| {
            let passed = read(&self.root, &settings.path).passed.into_iter();
            passed.map(move |mut passed| {
                passed.at.message = format!("[kb.{name}]: {}", passed.at.message);
                passed
            })
        });
        passed.collect()
    }
}

/// Reads knowledge bases by name: each is the name of a tool.
///
/// # Errors
/// A name that a tool cannot have, or an entry of a wrong shape.
pub fn named<'de, D: Deserializer<'de>>(entries: D) -> Result<BTreeMap<String, KnowledgeSettings>, D::Error> {
    let entries = BTreeMap::<BaseName, KnowledgeSettings>::deserialize(entries)?;
    Ok(entries.into_iter().map(|(name, settings)| (name.0, settings)).collect())
}

#[derive(PartialEq, Eq, PartialOrd, Ord, Deserialize)]
#[serde(try_from = "String")]
struct BaseName(String);

impl TryFrom<String> for BaseName {
    type Error = String;

    fn try_from(name: String) -> Result<Self, String> {
        match format!("kb:{name}").parse::<ToolId>() {
            Ok(_) => Ok(Self(name)),
            Err(error) => Err(format!("`{name}` can be no name of a knowledge base: {error}")),
        }
    }
}

/// Content of the files of a pattern.
#[derive(Default)]
struct Found {
    passages: Vec<Passage>,
    /// Files that are named and cannot be searched.
    passed: Vec<PassedOver>,
}

#[derive(Debug)]
struct Knowledge(MemoryIndex);

#[async_trait]
impl KnowledgeSource for Knowledge {
    async fn search(&self, query: &str, limit: usize) -> Result<Vec<tool::Passage>, ToolError> {
        let hits = self.0.search(query, limit).into_iter();
        let passages = hits.map(|hit| tool::Passage { source: hit.passage.source, text: hit.passage.text });
        Ok(passages.collect())
    }
}

/// The passages of all files that a pattern names, and those files and links that none can be had of.
fn read(root: &Path, pattern: &str) -> Found {
    let mut found = Found::default();
    let settings = root.join("weft.toml");
    if !is_safe_id(pattern) {
        let message = format!("the pattern `{pattern}` leaves the project, or is not a path with `/`");
        let help = "write a path relative to the project, such as `docs/**`";
        found.passed.push(PassedOver::new("bad_pattern", &settings, message, help));
        return found;
    }
    let parts: Vec<&str> = pattern.split('/').collect();
    let plain = parts.iter().take_while(|part| !part.contains('*')).count().min(parts.len() - 1);
    let folder = parts[..plain].iter().fold(root.to_owned(), |folder, part| folder.join(part));
    let is_named = |relative: &Path| {
        let names: Option<Vec<&str>> = relative.iter().map(|part| part.to_str()).collect();
        names.is_some_and(|names| fits_pattern(&parts[plain..], &names))
    };
    let below = files_below(root, &folder, "").unwrap_or_else(|error| {
        let help = "check the permissions";
        found.passed.push(PassedOver::new("unreadable_file", &folder, error.to_string(), help));
        Below::default()
    });
    let links = below.passed.into_iter();
    found.passed.extend(links.filter(|link| link.at.path.strip_prefix(&folder).is_ok_and(is_named)));
    for relative in below.files.iter().filter(|relative| is_named(relative)) {
        let path = folder.join(relative);
        match text_of_file(&path) {
            Ok(text) => {
                let names = relative.iter().filter_map(|part| part.to_str());
                let source = parts[..plain].iter().copied().chain(names).collect::<Vec<_>>().join("/");
                add_passages(&source, &text, &mut found.passages);
            }
            Err(passed) => found.passed.push(passed),
        }
    }
    if found.passages.is_empty() && found.passed.is_empty() {
        let message = format!("the pattern `{pattern}` names no file with text");
        let help = "`*` stands for anything but a slash, `**` for folders too";
        found.passed.push(PassedOver::new("no_documents", &settings, message, help));
    }
    found
}

/// The text of a file that is searched.
fn text_of_file(path: &Path) -> Result<String, PassedOver> {
    if path.metadata().is_ok_and(|meta| meta.len() > MAX_FILE) {
        let message = format!("it is larger than {} MiB", MAX_FILE >> 20);
        return Err(PassedOver::new("large_document", path, message, "part it into smaller files"));
    }
    read_text(path).map_err(|error| {
        let help = "name only files of text in UTF-8";
        PassedOver::new(error.code(), path, error.to_string(), help)
    })
}
