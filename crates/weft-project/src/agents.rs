//! The agents of a project.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use agent_runtime::{AgentProfile, InventoryEntry, ProfileError};
use agent_types::{ToolId, nearest};
use serde_json::Value;
use tool_registry::files::{FileError, PassedOver, files_below};

use crate::error::ProjectError;
use crate::files::read_file;

/// Folder of the agents.
pub(crate) const FOLDER: &str = "agents";

/// Ending of the files of triggers, which stand beside those of agents.
pub(crate) const TRIGGERS: &str = ".triggers.json";

/// Beginning of the ids of nodes.
pub(crate) const NODE: &str = "node:";

/// Key of the name that an entry is offered under.
const NAME: &str = "name";

/// A profile and its file.
#[derive(Debug, Clone, PartialEq)]
pub struct AgentFile {
    /// The file.
    pub path: PathBuf,
    /// Profile in the file, with canonical ids of tools.
    pub profile: AgentProfile,
}

impl AgentFile {
    /// Names of entries that are ignored, as warnings.
    pub fn ignored_names(&self) -> impl Iterator<Item = String> {
        self.profile.tool_ids_inventory.iter().filter_map(|entry| {
            let InventoryEntry::Detailed { id, extra, .. } = entry else { return None };
            let name = extra.get(NAME).and_then(Value::as_str)?;
            Some(format!("the name `{name}` of `{id}` is ignored: it cannot be the id of a tool"))
        })
    }
}

/// Agents by id. A file that is broken is known by its path and reported when it is needed.
#[derive(Debug, Default)]
pub(crate) struct ProjectAgents {
    agents: BTreeMap<String, AgentFile>,
    broken: Vec<FileError>,
    passed: Vec<PassedOver>,
}

impl ProjectAgents {
    /// Reads `agents/<id>/agent_profile.json` and `agents/<id>.json`; the id in the file counts.
    pub(crate) fn read(root: &Path) -> Result<Self, ProjectError> {
        let folder = root.join(FOLDER);
        let mut found = Self::default();
        let below = files_below(root, &folder, ".json")?;
        found.passed = below.passed;
        let is_agent = |file: &PathBuf| !file.to_string_lossy().ends_with(TRIGGERS);
        for relative in below.files.into_iter().filter(is_agent) {
            let in_folder = relative.file_name().is_some_and(|name| name == "agent_profile.json");
            let depth = relative.components().count();
            if (depth == 1 && !in_folder) || (depth == 2 && in_folder) {
                found.add(folder.join(&relative))?;
            }
        }
        Ok(found)
    }

    fn add(&mut self, path: PathBuf) -> Result<(), ProjectError> {
        let text = match read_file(&path) {
            Err(ProjectError::NotText(error)) => {
                self.broken.push(error);
                return Ok(());
            }
            text => text?,
        };
        let profile = match AgentProfile::from_json(&text) {
            Ok(profile) => profile,
            Err(error) => {
                self.broken.push(file_error(path, error));
                return Ok(());
            }
        };
        if let Some(first) = self.agents.get(&profile.id) {
            return Err(ProjectError::DuplicateAgent {
                id: profile.id,
                first: first.path.clone(),
                second: path,
            });
        }
        self.agents.insert(profile.id.clone(), AgentFile { path, profile });
        Ok(())
    }

    /// The same agents, with canonical ids of tools in their profiles.
    pub(crate) fn with_canonical_ids(mut self, canonical: impl Fn(&str) -> String) -> Self {
        for file in self.agents.values_mut() {
            file.profile = std::mem::take(&mut file.profile).with_canonical_ids(&canonical);
            ignore_names(&mut file.profile);
        }
        self
    }

    pub(crate) fn broken(&self) -> &[FileError] {
        &self.broken
    }

    pub(crate) fn passed(&self) -> &[PassedOver] {
        &self.passed
    }

    pub(crate) fn all(&self) -> impl Iterator<Item = &AgentFile> {
        self.agents.values()
    }

    pub(crate) fn get(&self, id: &str) -> Result<&AgentFile, ProjectError> {
        if let Some(agent) = self.agents.get(id) {
            return Ok(agent);
        }
        // The id of a broken file is not known, but its path says which agent it is meant for.
        if let Some(broken) = self.broken.iter().find(|file| is_named(&file.path, id)) {
            return Err(ProjectError::Profile(broken.clone()));
        }
        let near = nearest(id, self.agents.keys().map(String::as_str)).map(str::to_owned);
        Err(ProjectError::UnknownAgent { id: id.to_owned(), near })
    }
}

/// Puts names that cannot be ids among the keys that are not known: their tools are offered under their own ids.
fn ignore_names(profile: &mut AgentProfile) {
    for entry in &mut profile.tool_ids_inventory {
        let InventoryEntry::Detailed { id, name, extra, .. } = entry else { continue };
        let cannot_be = |name: &mut String| !id.starts_with(NODE) && name.parse::<ToolId>().is_err();
        if let Some(name) = name.take_if(cannot_be) {
            extra.insert(NAME.to_owned(), name.into());
        }
    }
}

fn is_named(path: &Path, id: &str) -> bool {
    let folder = path.parent().and_then(Path::file_name);
    path.file_stem().is_some_and(|stem| stem == id) || folder.is_some_and(|folder| folder == id)
}

pub(crate) fn file_error(path: PathBuf, error: ProfileError) -> FileError {
    match error {
        ProfileError::Json { line, column, message } => {
            FileError { path, line: Some(line), column: Some(column), message }
        }
        other => FileError { path, line: None, column: None, message: other.to_string() },
    }
}
