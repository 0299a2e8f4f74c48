//! The workflow files of a project.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use agent_types::{ToolId, nearest};
use tool_registry::BrokenTool;
use tool_registry::files::{PassedOver, files_below, is_safe_id, secrets_below};
use tool_workflow::WorkflowLibrary;
use workflow_model::{LoadError, Workflow, WorkflowSource};

use crate::error::{ID_RULE, ProjectError};
use crate::files::{id_of, read_file};

/// Folder of the workflows.
const FOLDER: &str = "workflows";

/// Ending of their files.
const SUFFIX: &str = ".json";

/// A workflow file, loaded or not loadable.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct WorkflowFile {
    /// Path below `workflows/` without the ending.
    pub id: String,
    /// The file.
    pub path: PathBuf,
    /// The workflow, or the error.
    pub loaded: Result<Arc<Workflow>, LoadError>,
}

/// The workflows of a project, read once.
#[derive(Debug, Clone, Default)]
pub struct ProjectWorkflows {
    files: BTreeMap<String, WorkflowFile>,
    /// Folder of further workflows, read when they are named, without a project.
    beside: Option<PathBuf>,
    /// Folder of the project, where there is one.
    root: Option<PathBuf>,
    passed: Vec<PassedOver>,
}

impl ProjectWorkflows {
    /// Reads all files; one that is broken does not hide the others.
    ///
    /// # Errors
    /// A file that cannot be read.
    pub(crate) fn read(root: &Path) -> Result<Self, ProjectError> {
        let folder = root.join(FOLDER);
        let mut files = BTreeMap::new();
        let mut below = files_below(root, &folder, SUFFIX)?;
        for relative in below.files {
            let path = folder.join(&relative);
            let Some(id) = id_of(&relative, SUFFIX).filter(|id| can_be_id(id)) else {
                let name = relative.to_string_lossy();
                let message = format!("`{}` can be no id of a workflow", name.trim_end_matches(SUFFIX));
                below.passed.push(PassedOver::new("bad_workflow_id", &path, message, ID_RULE));
                continue;
            };
            let loaded = match read_file(&path) {
                Err(ProjectError::NotText(at)) => Err(LoadError::Syntax {
                    line: at.line.unwrap_or(1),
                    column: at.column.unwrap_or(1),
                    message: at.message,
                }),
                text => Workflow::from_json(&text?).map(Arc::new),
            };
            files.insert(id.clone(), WorkflowFile { id, path, loaded });
        }
        Ok(Self { files, beside: None, root: Some(root.to_owned()), passed: below.passed })
    }

    /// Workflows of a folder without a project; a file is read when another names it.
    pub(crate) fn beside(folder: &Path) -> Self {
        Self { beside: Some(folder.to_owned()), ..Self::default() }
    }

    pub(crate) fn passed(&self) -> &[PassedOver] {
        &self.passed
    }

    /// All files in order of id.
    pub fn files(&self) -> impl Iterator<Item = &WorkflowFile> {
        self.files.values()
    }

    /// The workflow of an id.
    ///
    /// # Errors
    /// There is none, or its file holds none.
    pub fn get(&self, id: &str) -> Result<(&WorkflowFile, Arc<Workflow>), ProjectError> {
        let file = self.files.get(id).ok_or_else(|| self.unknown(id))?;
        match &file.loaded {
            Ok(workflow) => Ok((file, Arc::clone(workflow))),
            Err(error) => Err(ProjectError::workflow(&file.path, error)),
        }
    }
}

impl ProjectWorkflows {
    /// The id that a workflow file has here: its path below `workflows/`, else the stem of its name.
    #[must_use]
    pub fn id_of(&self, path: &Path) -> String {
        let real = path.canonicalize().ok();
        let known = self.files().find(|file| file.path.canonicalize().ok() == real && real.is_some());
        known.map_or_else(
            || path.file_stem().unwrap_or_default().to_string_lossy().into_owned(),
            |file| file.id.clone(),
        )
    }

    /// Error for an unknown id, or for a file of that name that is passed over.
    fn unknown(&self, id: &str) -> ProjectError {
        let name = format!("{id}{SUFFIX}");
        let is_named =
            |passed: &&PassedOver| passed.code == "bad_workflow_id" && passed.at.path.ends_with(&name);
        match self.passed.iter().find(is_named) {
            Some(passed) if !name.starts_with('/') => ProjectError::WorkflowName(passed.at.clone()),
            _ => ProjectError::UnknownWorkflow {
                id: id.to_owned(),
                near: nearest(id, self.files.keys().map(String::as_str)).map(str::to_owned),
            },
        }
    }
}

/// Reads a workflow from any file.
///
/// # Errors
/// It does not exist, or holds no workflow.
pub fn read_workflow(path: &Path) -> Result<Workflow, ProjectError> {
    Workflow::from_json(&read_file(path)?).map_err(|error| ProjectError::workflow(path, &error))
}

/// Returns `true` if a workflow of this id can be a tool.
fn can_be_id(id: &str) -> bool {
    is_safe_id(id) && format!("workflow:{id}").parse::<ToolId>().is_ok()
}

impl WorkflowSource for ProjectWorkflows {
    fn workflow(&self, id: &str) -> Option<Arc<Workflow>> {
        if let Some(file) = self.files.get(id) {
            return file.loaded.as_ref().ok().cloned();
        }
        let folder = self.beside.as_ref().filter(|_| is_safe_id(id))?;
        let text = read_file(&folder.join(format!("{id}{SUFFIX}"))).ok()?;
        Workflow::from_json(&text).ok().map(Arc::new)
    }

    fn workflow_ids(&self) -> Vec<String> {
        self.files.keys().cloned().collect()
    }
}

impl WorkflowLibrary for ProjectWorkflows {
    fn load(&self, id: &str) -> Option<Result<Arc<Workflow>, BrokenTool>> {
        match self.get(id) {
            Ok((_, workflow)) => Some(Ok(workflow)),
            Err(ProjectError::UnknownWorkflow { .. }) => None,
            Err(error) => Some(Err(error.into())),
        }
    }

    fn folders(&self) -> Vec<PathBuf> {
        self.root.iter().map(|root| root.join(FOLDER)).collect()
    }

    fn secrets(&self) -> Vec<String> {
        self.root.iter().flat_map(|root| secrets_below(root, FOLDER, SUFFIX)).collect()
    }
}
