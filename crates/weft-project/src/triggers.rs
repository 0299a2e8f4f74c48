//! Triggers of the agents of a project: their files, and what the store keeps of them.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use agent_triggers::{DeadLetter, Trigger, TriggerFile, TriggerRecord};
use agent_types::nearest;
use serde_json::{Value, json};
use tool_registry::files::{FileError, files_below, secrets_in};

use crate::agents::{FOLDER, ProjectAgents, TRIGGERS};
use crate::error::ProjectError;
use crate::files::read_file;
use crate::project::Project;

/// Key of the events that reached no agent.
const DEAD: &str = "events/dead";

/// Events that are kept there at most; the oldest go first.
const MAX_DEAD: usize = 200;

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
            if let Err(error) = found.add(path.clone(), named, agents) {
                found.broken.push(error);
            }
            found.files.push(path);
        }
        Ok(found)
    }

    fn add(&mut self, path: PathBuf, named: &str, agents: &ProjectAgents) -> Result<(), FileError> {
        let fault = |message: String| FileError { path: path.clone(), line: None, column: None, message };
        let text = read_file(&path).map_err(|error| match error {
            ProjectError::NotText(at) => at,
            other => fault(other.to_string()),
        })?;
        let file = TriggerFile::from_json(&text).map_err(|error| FileError {
            path: path.clone(),
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
            let (agent, path) = (agent.clone(), path.clone());
            self.triggers.insert(trigger.id.clone(), AgentTrigger { agent, path, trigger });
        }
        Ok(())
    }

    /// Values of the secrets that the files name.
    pub(crate) fn secrets(&self) -> impl Iterator<Item = String> {
        self.files.iter().flat_map(|path| secrets_in(path))
    }
}

fn key(id: &str) -> String {
    format!("triggers/{id}")
}

fn record(kept: Option<Value>) -> TriggerRecord {
    kept.and_then(|kept| serde_json::from_value(kept).ok()).unwrap_or_default()
}

impl Project {
    /// The triggers in order of id.
    pub fn triggers(&self) -> impl Iterator<Item = &AgentTrigger> {
        self.project_triggers().triggers.values()
    }

    /// The trigger of an id.
    ///
    /// # Errors
    /// The id is unknown.
    pub fn trigger(&self, id: &str) -> Result<&AgentTrigger, ProjectError> {
        let triggers = &self.project_triggers().triggers;
        triggers.get(id).ok_or_else(|| ProjectError::UnknownTrigger {
            id: id.to_owned(),
            near: nearest(id, triggers.keys().map(String::as_str)).map(str::to_owned),
        })
    }

    /// Files of triggers that cannot be used.
    #[must_use]
    pub fn broken_triggers(&self) -> Vec<ProjectError> {
        self.project_triggers().broken.iter().cloned().map(ProjectError::Trigger).collect()
    }

    /// Stored record of a trigger; nothing in a folder without a project.
    ///
    /// # Errors
    /// The store cannot be used.
    pub fn trigger_record(&self, id: &str) -> Result<TriggerRecord, ProjectError> {
        let Some(store) = self.store()? else { return Ok(TriggerRecord::default()) };
        Ok(record(store.value(&key(id))?))
    }

    /// Changes what the store keeps of a trigger.
    ///
    /// # Errors
    /// The store cannot be used.
    pub fn update_trigger(
        &self,
        id: &str,
        change: impl FnOnce(TriggerRecord) -> TriggerRecord + Send + 'static,
    ) -> Result<(), ProjectError> {
        let Some(store) = self.store()? else { return Ok(()) };
        let change = move |old| Ok::<_, ProjectError>(json!(change(record(old))));
        store.update(&key(id), change)??;
        Ok(())
    }

    /// Events that reached no agent, the newest last.
    ///
    /// # Errors
    /// The store cannot be used.
    pub fn dead_letters(&self) -> Result<Vec<DeadLetter>, ProjectError> {
        let Some(store) = self.store()? else { return Ok(Vec::new()) };
        Ok(letters(store.value(DEAD)?))
    }

    /// Keeps an event that reached no agent.
    ///
    /// # Errors
    /// The store cannot be used.
    pub fn add_dead_letter(&self, letter: DeadLetter) -> Result<(), ProjectError> {
        let Some(store) = self.store()? else { return Ok(()) };
        Ok(add_dead_letter(store, letter)?)
    }
}

fn letters(kept: Option<Value>) -> Vec<DeadLetter> {
    kept.and_then(|kept| serde_json::from_value(kept).ok()).unwrap_or_default()
}

/// Keeps an event that reached no agent.
pub(crate) fn add_dead_letter(
    store: &run_store::Store,
    letter: DeadLetter,
) -> Result<(), run_store::StoreError> {
    let change = move |old| {
        let mut all = letters(old);
        all.push(letter);
        let first = all.len().saturating_sub(MAX_DEAD);
        Ok::<_, run_store::StoreError>(json!(all[first..]))
    };
    store.update(DEAD, change)??;
    Ok(())
}
