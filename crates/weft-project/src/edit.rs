//! Changes of the project's files. Each is written whole or not at all; unknown keys are preserved.

use std::fs::File;
use std::io::Write;
use std::path::{Path, PathBuf};

use agent_runtime::AgentProfile;
use agent_types::{ToolId, nearest};
use serde_json::{Value, json};
use tempfile::NamedTempFile;
use tool_registry::files::{FileError, is_safe_id};
use workflow_model::Workflow;

use crate::agents;
use crate::error::ProjectError;
use crate::files::{SETTINGS, json_error, read_file};
use crate::project::Project;

const TOOLS: &str = "tool_ids_inventory";
const SKILLS: &str = "skill_workflow_ids_inventory";

/// Exclusive right to change the files of a project, held against other processes until it is dropped.
///
/// The lock is advisory: programs that know nothing of it, such as editors, are noticed by comparing the file before it is replaced.
#[derive(Debug)]
pub struct Edits<'p> {
    project: &'p Project,
    _settings: File,
}

/// Change of an agent's profile that is not written yet.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct ProfileChange {
    /// File of the profile.
    pub path: PathBuf,
    /// Content of the file before the change.
    pub before: String,
    /// Profile after the change.
    pub profile: Value,
    /// True if the change alters the profile.
    pub differs: bool,
}

impl ProfileChange {
    /// Text of the file after the change.
    #[must_use]
    pub fn text(&self) -> String {
        format!("{}\n", serde_json::to_string_pretty(&self.profile).unwrap_or_default())
    }

    /// Replaces the file, if the change alters it.
    ///
    /// # Errors
    /// The file cannot be written, or it has changed since the change was made.
    pub fn write(&self, _edits: &Edits<'_>) -> Result<(), ProjectError> {
        if !self.differs {
            return Ok(());
        }
        if read_file(&self.path)? != self.before {
            return Err(ProjectError::ChangedMeanwhile { path: self.path.clone() });
        }
        replace_file(&self.path, &self.text())
    }
}

/// Profile of an agent as its file holds it now.
struct ProfileFile {
    path: PathBuf,
    text: String,
    profile: Value,
    tool_ids: Vec<String>,
}

impl ProfileFile {
    fn change(self, profile: Value) -> ProfileChange {
        ProfileChange { differs: profile != self.profile, path: self.path, before: self.text, profile }
    }
}

impl Project {
    /// Waits for the exclusive right to change the files of the project. Blocks.
    ///
    /// # Errors
    /// The settings file, which carries the lock, cannot be opened or locked.
    pub fn edits(&self) -> Result<Edits<'_>, ProjectError> {
        let path = self.root().join(SETTINGS);
        let locked = File::open(&path).and_then(|file| file.lock().map(|()| file));
        locked
            .map(|file| Edits { project: self, _settings: file })
            .map_err(|error| not_written(&path, &error))
    }
}

impl Edits<'_> {
    /// Change that gives an agent one more tool.
    ///
    /// # Errors
    /// The agent or the tool is unknown, or the profile is invalid.
    pub fn add_tool(&self, agent: &str, tool: &str) -> Result<ProfileChange, ProjectError> {
        self.add_to(agent, tool, TOOLS, tool)
    }

    /// Change that gives an agent one more workflow among its skills.
    ///
    /// # Errors
    /// As [`add_tool`](Self::add_tool), or the tool is not a workflow.
    pub fn add_skill(&self, agent: &str, tool: &str) -> Result<ProfileChange, ProjectError> {
        let id = self.project.canonical_id(tool);
        let workflow =
            id.strip_prefix("workflow:").ok_or_else(|| ProjectError::NoSkill { id: id.clone() })?;
        self.add_to(agent, tool, SKILLS, workflow)
    }

    /// Reads the profile of an agent anew, since another process may have changed it.
    fn read_profile(&self, agent: &str) -> Result<ProfileFile, ProjectError> {
        let path = self.project.agent_file(agent)?.path.clone();
        let text = read_file(&path)?;
        let parsed = AgentProfile::from_json(&text).map_err(|error| agents::file_error(path.clone(), error));
        let parsed = parsed.map_err(ProjectError::Profile)?;
        let tool_ids = parsed.with_canonical_ids(|id| self.project.canonical_id(id)).tool_ids();
        let profile =
            serde_json::from_str(&text).map_err(|error| ProjectError::Json(json_error(&path, &error)))?;
        Ok(ProfileFile { path, text, profile, tool_ids })
    }

    fn add_to(&self, agent: &str, tool: &str, key: &str, entry: &str) -> Result<ProfileChange, ProjectError> {
        let file = self.read_profile(agent)?;
        let id = self.project.canonical_id(tool);
        self.project.tool(&id)?;
        let mut profile = file.profile.clone();
        if file.tool_ids.contains(&id) {
            return Ok(file.change(profile));
        }
        let list = profile.as_object_mut().map(|profile| profile.entry(key).or_insert_with(|| json!([])));
        let Some(list) = list.and_then(Value::as_array_mut) else {
            let message = format!("`{key}` is not a list");
            let at = FileError { path: file.path, line: None, column: None, message };
            return Err(ProjectError::Profile(at));
        };
        list.push(entry.into());
        Ok(file.change(profile))
    }

    /// Change that takes a tool away from an agent.
    ///
    /// # Errors
    /// The agent is unknown, or it does not have the tool (with a suggestion).
    pub fn remove_tool(&self, agent: &str, tool: &str) -> Result<ProfileChange, ProjectError> {
        let file = self.read_profile(agent)?;
        let id = self.project.canonical_id(tool);
        let mut profile = file.profile.clone();
        for (key, is_skill) in [(TOOLS, false), (SKILLS, true)] {
            let Some(list) = profile.get_mut(key).and_then(Value::as_array_mut) else { continue };
            list.retain(|entry| self.named(entry, is_skill).as_deref() != Some(id.as_str()));
        }
        if profile == file.profile {
            let near = nearest(&id, file.tool_ids.iter().map(String::as_str)).map(str::to_owned);
            return Err(ProjectError::NotItsTool { agent: agent.to_owned(), id, near });
        }
        Ok(file.change(profile))
    }

    /// The tool that an entry of an inventory means.
    fn named(&self, entry: &Value, is_skill: bool) -> Option<String> {
        let id = entry.as_str().or_else(|| entry.get("id")?.as_str())?;
        let canonical = self.project.canonical_id(id);
        let is_bare_skill = is_skill && !canonical.contains(':');
        Some(if is_bare_skill { format!("workflow:{id}") } else { canonical })
    }

    /// Path of the file of a workflow, existing or not.
    ///
    /// # Errors
    /// The id cannot name a file.
    pub fn path_of_workflow(&self, id: &str) -> Result<PathBuf, ProjectError> {
        let refused = || ProjectError::BadWorkflowId { id: id.chars().take(80).collect() };
        if let Ok((file, _)) = self.project.workflows().get(id) {
            return Ok(file.path.clone());
        }
        // What can be no tool can be no workflow either.
        let is_name = is_safe_id(id) && format!("workflow:{id}").parse::<ToolId>().is_ok();
        if !is_name || id.split('/').any(|part| part.starts_with('.') || part.len() > 128) {
            return Err(refused());
        }
        Ok(self.project.root().join("workflows").join(format!("{id}.json")))
    }

    /// Writes the file of a workflow. The project sees it when it is read anew.
    ///
    /// # Errors
    /// The id is none, its folder leads out of the project, or the file cannot be written.
    pub fn save_workflow(&self, id: &str, workflow: &Workflow) -> Result<(), ProjectError> {
        let path = self.path_of_workflow(id)?;
        let folder = path.parent().unwrap_or(self.project.root());
        std::fs::create_dir_all(folder).map_err(|error| not_written(&path, &error))?;
        let inside =
            || Some(folder.canonicalize().ok()?.starts_with(self.project.root().canonicalize().ok()?));
        if !inside().unwrap_or(false) || path.is_symlink() {
            return Err(ProjectError::BadWorkflowId { id: id.to_owned() });
        }
        replace_file(&path, &workflow.to_json())
    }
}

/// Replaces a file whole or not at all: each writer has a temporary file of its own beside it. Permissions stay.
fn replace_file(path: &Path, text: &str) -> Result<(), ProjectError> {
    let failed = |error: &std::io::Error| not_written(path, error);
    let permissions = std::fs::metadata(path).ok().map(|metadata| metadata.permissions());
    let mut beside =
        temporary_file(path.parent().unwrap_or(Path::new("."))).map_err(|error| failed(&error))?;
    beside.write_all(text.as_bytes()).map_err(|error| failed(&error))?;
    if let Some(permissions) = permissions {
        beside.as_file().set_permissions(permissions).map_err(|error| failed(&error))?;
    }
    beside.as_file().sync_all().map_err(|error| failed(&error))?;
    beside.persist(path).map(drop).map_err(|error| failed(&error.error))
}

/// A temporary file with the permissions of a new file.
fn temporary_file(folder: &Path) -> std::io::Result<NamedTempFile> {
    let mut builder = tempfile::Builder::new();
    builder.prefix(".weft-").suffix(".new");
    #[cfg(unix)]
    builder.permissions(std::os::unix::fs::PermissionsExt::from_mode(0o666));
    builder.tempfile_in(folder)
}

fn not_written(path: &Path, error: &std::io::Error) -> ProjectError {
    ProjectError::NotWritten { path: path.to_owned(), message: error.to_string() }
}
