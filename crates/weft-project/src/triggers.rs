//! Triggers of the agents of a project: their files.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use agent_triggers::{Trigger, TriggerFile};
use agent_types::nearest;
use tool_registry::files::{FileError, files_below, secrets_in};

use crate::agents::{FOLDER, ProjectAgents, TRIGGERS};
use crate::error::ProjectError;
use crate::files::read_file;

/// A trigger with its agent and its file.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct AgentTrigger {
    /// The agent that it starts.
    pub agent: String,
    /// The file.
    pub path: PathBuf,
    /// The trigger.
    pub trigger: Trigger,
}

/// Triggers by id. A file that is broken starts nothing and hides no other.
#[derive(Debug, Default)]
pub(crate) struct ProjectTriggers {
    triggers: BTreeMap<String, AgentTrigger>,
    broken: Vec<FileError>,
    files: Vec<PathBuf>,
}

impl ProjectTriggers {
    /// Reads `agents/<agent>.triggers.json` and `agents/<agent>/*.triggers.json`.
    pub(crate) fn read(root: &Path, agents: &ProjectAgents) -> Result<Self, ProjectError> {
        let folder = root.join(FOLDER);
        let mut found = Self::default();
        for relative in files_below(root, &folder, TRIGGERS)?.files {
            let named =
                match relative.iter().map(|part| part.to_str().unwrap_or_default()).collect::<Vec<_>>()[..] {
                    [file] => file.strip_suffix(TRIGGERS).unwrap_or_default(),
                    [folder, _] => folder,
                    _ => continue,
                };
            let path = folder.join(&relative);
            if let Err(error) = found.add(&path, named, agents) {
                found.broken.push(error);
            }
            found.files.push(path);
        }
        Ok(found)
    }

    fn add(&mut self, path: &Path, named: &str, agents: &ProjectAgents) -> Result<(), FileError> {
        let fault = |message: String| FileError { path: path.to_owned(), line: None, column: None, message };
        let text = read_file(path).map_err(|error| match error {
            ProjectError::NotText(at) => at,
            other => fault(other.to_string()),
        })?;
        let file = TriggerFile::from_json(&text).map_err(|error| FileError {
            path: path.to_owned(),
            line: Some(error.line),
            column: Some(error.column),
            message: error.to_string(),
        })?;
        let agent = file.agent.unwrap_or_else(|| named.to_owned());
        if let Err(ProjectError::UnknownAgent { near, .. }) = agents.get(&agent) {
            let near = near.map(|near| format!("; did you mean `{near}`?")).unwrap_or_default();
            return Err(fault(format!("unknown agent `{agent}`{near}")));
        }
        for trigger in file.triggers {
            if let Some(first) = self.triggers.get(&trigger.id) {
                let first = first.path.display();
                return Err(fault(format!(
                    "two triggers have the id `{}`; the other is in {first}",
                    trigger.id
                )));
            }
            let (agent, path) = (agent.clone(), path.to_owned());
            self.triggers.insert(trigger.id.clone(), AgentTrigger { agent, path, trigger });
        }
        Ok(())
    }

    pub(crate) fn all(&self) -> impl Iterator<Item = &AgentTrigger> {
        self.triggers.values()
    }

    pub(crate) fn get(&self, id: &str) -> Result<&AgentTrigger, ProjectError> {
        self.triggers.get(id).ok_or_else(|| ProjectError::UnknownTrigger {
            id: id.to_owned(),
            near: nearest(id, self.triggers.keys().map(String::as_str)).map(str::to_owned),
        })
    }

    pub(crate) fn broken(&self) -> &[FileError] {
        &self.broken
    }

    /// Values of the secrets that the files name.
    pub(crate) fn secrets(&self) -> impl Iterator<Item = String> {
        self.files.iter().flat_map(|path| secrets_in(path))
    }
}
