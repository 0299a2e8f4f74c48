//! The HTTP tools of a project.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use http_caller::HttpCaller;
use tool_http::{HttpToolError, HttpToolFile, http_tool};
use tool_registry::Tool;

use crate::error::{FileError, ProjectError};
use crate::files::{PassedOver, files_below, read_file};

/// Folder of the tools.
const FOLDER: &str = "tools";

/// Ending of their files.
const SUFFIX: &str = ".tool.json";

/// A tool and its file.
#[derive(Debug, Clone)]
pub struct ToolFile {
    /// The file.
    pub path: PathBuf,
    /// The tool.
    pub tool: Tool,
}

/// A file that holds no tool.
#[derive(Debug, Clone)]
pub struct BrokenTool {
    /// The name that it would have, as far as it can be read.
    pub name: Option<String>,
    /// Stable code.
    pub code: &'static str,
    /// What is wrong, and where.
    pub error: FileError,
}

impl BrokenTool {
    /// Whether it is meant for the tool of that id: the name in the file says so, or that of the file where it holds none.
    fn is_named(&self, id: &str) -> bool {
        match &self.name {
            Some(name) => name == id,
            None => self.error.path.file_name().is_some_and(|file| file == format!("{id}{SUFFIX}").as_str()),
        }
    }
}

/// HTTP tools by id. A file that is broken is known by its path and reported when it is needed.
#[derive(Debug, Default)]
pub(crate) struct ProjectTools {
    tools: BTreeMap<String, ToolFile>,
    broken: Vec<BrokenTool>,
    passed: Vec<PassedOver>,
}

impl ProjectTools {
    /// Reads `tools/*.tool.json`; the name in the file is the id.
    pub(crate) fn read(root: &Path, caller: &HttpCaller) -> Result<Self, ProjectError> {
        let folder = root.join(FOLDER);
        let mut found = Self::default();
        let below = files_below(root, &folder, SUFFIX)?;
        found.passed = below.passed;
        for relative in below.files {
            if relative.components().count() == 1 {
                found.add(folder.join(relative), caller)?;
            }
        }
        Ok(found)
    }

    fn add(&mut self, path: PathBuf, caller: &HttpCaller) -> Result<(), ProjectError> {
        let text = match read_file(&path) {
            Err(ProjectError::NotText(error)) => {
                self.broken.push(BrokenTool { name: None, code: "bad_text", error });
                return Ok(());
            }
            text => text?,
        };
        let (name, tool) = match HttpToolFile::from_json(&text) {
            Ok(file) => (Some(file.name.clone()), http_tool(&file, caller)),
            Err(error) => (None, Err(error)),
        };
        let tool = match tool {
            Ok(tool) => tool,
            Err(error) => {
                self.broken.push(BrokenTool { name, code: error.code(), error: file_error(path, &error) });
                return Ok(());
            }
        };
        if let Some(first) = self.tools.get(tool.id().as_str()) {
            let (id, first) = (tool.id().to_string(), first.path.clone());
            return Err(ProjectError::DuplicateTool { id, first, second: path });
        }
        self.tools.insert(tool.id().to_string(), ToolFile { path, tool });
        Ok(())
    }

    /// Knows files that are broken now by the names that they had before.
    pub(crate) fn keep_names(&mut self, before: &Self) {
        for broken in self.broken.iter_mut().filter(|broken| broken.name.is_none()) {
            let good = before.tools.iter().find(|(_, file)| file.path == broken.error.path);
            let bad = before.broken.iter().find(|old| old.error.path == broken.error.path);
            broken.name = good.map(|(id, _)| id.clone()).or_else(|| bad.and_then(|old| old.name.clone()));
        }
    }

    pub(crate) fn all(&self) -> impl Iterator<Item = &ToolFile> {
        self.tools.values()
    }

    pub(crate) fn broken(&self) -> &[BrokenTool] {
        &self.broken
    }

    pub(crate) fn passed(&self) -> &[PassedOver] {
        &self.passed
    }

    /// The tool of an id; none where no file has it.
    pub(crate) fn get(&self, id: &str) -> Option<Result<&ToolFile, ProjectError>> {
        let found = self.tools.get(id).map(Ok);
        found.or_else(|| {
            let broken = self.broken.iter().find(|broken| broken.is_named(id))?;
            Some(Err(ProjectError::Tool { code: broken.code, at: broken.error.clone() }))
        })
    }
}

fn file_error(path: PathBuf, error: &HttpToolError) -> FileError {
    let (line, column) = match error {
        HttpToolError::Syntax { line, column, .. } => (Some(*line), Some(*column)),
        _ => (None, None),
    };
    FileError { path, line, column, message: error.to_string() }
}
