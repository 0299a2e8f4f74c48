//! The HTTP tools of a project.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use http_caller::HttpCaller;
use tool_http::{HTTP, HttpToolError, HttpToolFile, http_tool};
use tool_registry::{
    BrokenTool, Changes, FilePlace, Reach, Resolution, Services, Tool, ToolKind, ToolProvider,
};

use crate::error::ProjectError;
use crate::files::{PassedOver, files_below, read_file};
use crate::secrets;

/// Folder of the tools.
const FOLDER: &str = "tools";

/// Ending of their files.
const SUFFIX: &str = ".tool.json";

/// A tool and its file.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct ToolFile {
    /// The file.
    pub path: PathBuf,
    /// The tool.
    pub tool: Tool,
}

/// Returns `true` if a fault is that of the tool of an id: by the name in the file, or by the file's name where it
/// holds none.
fn is_named(broken: &BrokenTool, id: &str) -> bool {
    match (&broken.id, &broken.place) {
        (Some(name), _) => name == id,
        (None, Some(at)) => at.path.file_name().is_some_and(|file| file == format!("{id}{SUFFIX}").as_str()),
        (None, None) => false,
    }
}

/// HTTP tools by id. A file that is broken is known by its path and reported when it is needed.
#[derive(Debug, Default)]
pub(crate) struct ProjectTools {
    tools: BTreeMap<String, ToolFile>,
    broken: Vec<BrokenTool>,
    passed: Vec<PassedOver>,
    root: PathBuf,
}

impl ProjectTools {
    /// Reads `tools/*.tool.json`; the name in the file is the id.
    pub(crate) fn read(root: &Path, caller: &HttpCaller) -> Result<Self, ProjectError> {
        let folder = root.join(FOLDER);
        let mut found = Self { root: root.to_owned(), ..Self::default() };
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
                self.broken.push(broken("bad_text", error.message, at(error.path, error.line, error.column)));
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
                let fault = broken(error.code(), error.to_string(), place_of(path, &error));
                self.broken.push(match name {
                    Some(name) => fault.with_id(name),
                    None => fault,
                });
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
        for broken in self.broken.iter_mut().filter(|broken| broken.id.is_none()) {
            let Some(at) = &broken.place else { continue };
            let good = before.tools.iter().find(|(_, file)| file.path == at.path);
            let is_there = |old: &&BrokenTool| old.place.as_ref().is_some_and(|place| place.path == at.path);
            let bad = before.broken.iter().find(is_there);
            broken.id = good.map(|(id, _)| id.clone()).or_else(|| bad.and_then(|old| old.id.clone()));
        }
    }

    pub(crate) fn all(&self) -> impl Iterator<Item = &ToolFile> {
        self.tools.values()
    }

    pub(crate) fn passed(&self) -> &[PassedOver] {
        &self.passed
    }
}

impl ToolProvider for ProjectTools {
    fn kind(&self) -> ToolKind {
        HTTP
    }

    fn namespaces(&self) -> &[&'static str] {
        &[]
    }

    fn list(&self, _: Reach) -> Vec<Result<String, BrokenTool>> {
        let good = self.tools.keys().map(|id| Ok(id.clone()));
        good.chain(self.broken.iter().map(|broken| Err(broken.clone()))).collect()
    }

    fn resolve(&self, id: &str, _: &Services) -> Resolution {
        if let Some(file) = self.tools.get(id) {
            return Resolution::Found(file.tool.clone());
        }
        let broken = self.broken.iter().find(|broken| is_named(broken, id));
        broken.map_or(Resolution::NotMine, |broken| Resolution::Broken(Box::new(broken.clone())))
    }

    fn place(&self, id: &str) -> Option<FilePlace> {
        Some(FilePlace::new(&self.tools.get(id)?.path))
    }

    fn changes(&self) -> Changes {
        Changes::Files(vec![self.root.join(FOLDER)])
    }

    fn secrets(&self) -> Vec<String> {
        secrets::named_below(&self.root, FOLDER, SUFFIX)
    }
}

fn at(path: PathBuf, line: Option<usize>, column: Option<usize>) -> FilePlace {
    FilePlace::new(path).at(line, column)
}

fn broken(code: &'static str, message: String, place: FilePlace) -> BrokenTool {
    let help = "docs/guide/tools.md shows a file, docs/schema/http-tool.schema.json names every key";
    BrokenTool::new(code, message).with_place(place).with_help(help)
}

fn place_of(path: PathBuf, error: &HttpToolError) -> FilePlace {
    match error {
        HttpToolError::Syntax { line, column, .. } => at(path, Some(*line), Some(*column)),
        _ => FilePlace::new(path),
    }
}
