//! Changes of the project's files, each written whole or not at all, every key that nobody knows as it was.

use std::path::{Path, PathBuf};

use agent_types::{ToolId, nearest};
use serde_json::{Value, json};
use tool_registry::canonical_id;
use workflow_model::Workflow;

use crate::error::{FileError, ProjectError};
use crate::files::{is_safe_id, read_json};
use crate::project::Project;

const TOOLS: &str = "tool_ids_inventory";
const SKILLS: &str = "skill_workflow_ids_inventory";

/// A profile as it is to be.
#[derive(Debug, Clone, PartialEq)]
pub struct ProfileChange {
    /// Its file.
    pub path: PathBuf,
    /// What the file is to hold.
    pub profile: Value,
    /// Whether that differs from what it holds.
    pub differs: bool,
}

impl ProfileChange {
    /// The file's text as it is to be.
    #[must_use]
    pub fn text(&self) -> String {
        format!("{}\n", serde_json::to_string_pretty(&self.profile).unwrap_or_default())
    }

    /// Writes the file, where there is something to write.
    ///
    /// # Errors
    /// It cannot be written.
    pub fn write(&self) -> Result<(), ProjectError> {
        if !self.differs {
            return Ok(());
        }
        write_whole(&self.path, &self.text())
    }
}

impl Project {
    /// The profile of an agent with one more tool.
    ///
    /// # Errors
    /// No such agent, no such tool, a profile that is none.
    pub fn add_tool(&self, agent: &str, tool: &str) -> Result<ProfileChange, ProjectError> {
        self.add_to(agent, tool, TOOLS, tool)
    }

    /// The profile of an agent with one more workflow among its skills.
    ///
    /// # Errors
    /// As [`add_tool`](Self::add_tool), or the tool is no workflow.
    pub fn add_skill(&self, agent: &str, tool: &str) -> Result<ProfileChange, ProjectError> {
        let id = canonical_id(tool);
        let workflow =
            id.strip_prefix("workflow:").ok_or_else(|| ProjectError::NoSkill { id: id.clone() })?;
        self.add_to(agent, tool, SKILLS, workflow)
    }

    fn add_to(&self, agent: &str, tool: &str, key: &str, entry: &str) -> Result<ProfileChange, ProjectError> {
        let file = self.agent_file(agent)?;
        let id = canonical_id(tool);
        self.tool(&id)?;
        let path = file.path.clone();
        let mut profile = read_json(&path)?;
        if file.profile.tool_ids().contains(&id) {
            return Ok(ProfileChange { path, profile, differs: false });
        }
        let list = profile.as_object_mut().map(|profile| profile.entry(key).or_insert_with(|| json!([])));
        let Some(list) = list.and_then(Value::as_array_mut) else {
            let message = format!("`{key}` is no list");
            return Err(ProjectError::Profile(FileError { path, line: None, column: None, message }));
        };
        list.push(entry.into());
        Ok(ProfileChange { path, profile, differs: true })
    }

    /// The profile of an agent without a tool.
    ///
    /// # Errors
    /// No such agent, or it has no such tool (with the near one).
    pub fn remove_tool(&self, agent: &str, tool: &str) -> Result<ProfileChange, ProjectError> {
        let file = self.agent_file(agent)?;
        let id = canonical_id(tool);
        let path = file.path.clone();
        let mut profile = read_json(&path)?;
        let mut removed = 0;
        for (key, is_skill) in [(TOOLS, false), (SKILLS, true)] {
            let Some(list) = profile.get_mut(key).and_then(Value::as_array_mut) else { continue };
            let before = list.len();
            list.retain(|entry| named(entry, is_skill).as_deref() != Some(id.as_str()));
            removed += before - list.len();
        }
        if removed == 0 {
            let own = file.profile.tool_ids();
            let near = nearest(&id, own.iter().map(String::as_str)).map(str::to_owned);
            return Err(ProjectError::NotItsTool { agent: agent.to_owned(), id, near });
        }
        Ok(ProfileChange { path, profile, differs: true })
    }

    /// Where the workflow of an id is, or would be.
    ///
    /// # Errors
    /// The id is none that a file may have.
    pub fn path_of_workflow(&self, id: &str) -> Result<PathBuf, ProjectError> {
        let refused = || ProjectError::BadWorkflowId { id: id.chars().take(80).collect() };
        if let Ok((file, _)) = self.workflows().get(id) {
            return Ok(file.path.clone());
        }
        // What can be no tool can be no workflow either.
        let is_name = is_safe_id(id) && format!("workflow:{id}").parse::<ToolId>().is_ok();
        if !is_name || id.split('/').any(|part| part.starts_with('.') || part.len() > 128) {
            return Err(refused());
        }
        Ok(self.root().join("workflows").join(format!("{id}.json")))
    }

    /// Writes the file of a workflow. The project sees it when it is read anew.
    ///
    /// # Errors
    /// The id is none, its folder leads out of the project, or the file cannot be written.
    pub fn save_workflow(&self, id: &str, workflow: &Workflow) -> Result<(), ProjectError> {
        let path = self.path_of_workflow(id)?;
        let folder = path.parent().unwrap_or(self.root());
        std::fs::create_dir_all(folder).map_err(|error| not_written(&path, &error))?;
        let inside = || Some(folder.canonicalize().ok()?.starts_with(self.root().canonicalize().ok()?));
        if !inside().unwrap_or(false) || path.is_symlink() {
            return Err(ProjectError::BadWorkflowId { id: id.to_owned() });
        }
        write_whole(&path, &workflow.to_json())
    }
}

/// The tool that an entry of an inventory means.
fn named(entry: &Value, is_skill: bool) -> Option<String> {
    let id = entry.as_str().or_else(|| entry.get("id")?.as_str())?;
    let is_bare_skill = is_skill && !id.contains(':');
    Some(if is_bare_skill { format!("workflow:{id}") } else { canonical_id(id) })
}

/// Writes the file beside itself first, so that nothing is lost half-way.
fn write_whole(path: &Path, text: &str) -> Result<(), ProjectError> {
    let beside = path.with_extension("json.new");
    std::fs::write(&beside, text).map_err(|error| not_written(path, &error))?;
    std::fs::rename(&beside, path).map_err(|error| not_written(path, &error))
}

fn not_written(path: &Path, error: &std::io::Error) -> ProjectError {
    ProjectError::NotWritten { path: path.to_owned(), message: error.to_string() }
}
