//! The tools of a project's files, `tools/*.tool.json`, as a provider.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use http_caller::HttpCaller;
use tool_registry::files::{PassedOver, ReadError, files_below, read_text, secrets_below};
use tool_registry::{
    BrokenTool, Changes, FilePlace, Reach, Resolution, Services, Tool, ToolKind, ToolProvider,
};

use crate::error::HttpToolError;
use crate::file::HttpToolFile;
use crate::tool::{HTTP, http_tool};

/// Folder of the tools.
const FOLDER: &str = "tools";

/// Ending of their files.
const SUFFIX: &str = ".tool.json";

/// A tool and its file.
#[derive(Debug, Clone)]
struct ToolFile {
    path: PathBuf,
    tool: Tool,
}

/// Returns `true` for a fault of the tool of an id: by the name in the file, or by that of the file where it holds none.
fn is_named(broken: &BrokenTool, id: &str) -> bool {
    match (&broken.id, &broken.place) {
        (Some(name), _) => name == id,
        (None, Some(at)) => at.path.file_name().is_some_and(|file| file == format!("{id}{SUFFIX}").as_str()),
        (None, None) => false,
    }
}

/// Provider of the tools of `tools/*.tool.json`; the name in the file is the id. A file that is broken is known by its path and
/// reported when it is needed.
#[derive(Debug)]
pub struct HttpTools {
    tools: BTreeMap<String, ToolFile>,
    broken: Vec<BrokenTool>,
    passed: Vec<PassedOver>,
    root: PathBuf,
    caller: HttpCaller,
}

impl HttpTools {
    /// The tools of a project, whose requests go through `caller`.
    ///
    /// # Errors
    /// The files cannot be read, or two tools have one id.
    pub fn read(root: &Path, caller: &HttpCaller) -> Result<Self, BrokenTool> {
        let found = Self::scan(root, caller)?;
        for passed in &found.passed {
            log::warn!("{} is passed over: {}", passed.at.path.display(), passed.at.message);
        }
        Ok(found)
    }

    fn scan(root: &Path, caller: &HttpCaller) -> Result<Self, BrokenTool> {
        let folder = root.join(FOLDER);
        let (tools, broken, passed) = (BTreeMap::new(), Vec::new(), Vec::new());
        let mut found = Self { tools, broken, passed, root: root.to_owned(), caller: caller.clone() };
        let below = files_below(root, &folder, SUFFIX)?;
        found.passed = below.passed;
        for relative in below.files {
            if relative.components().count() == 1 {
                found.add(folder.join(relative))?;
            }
        }
        Ok(found)
    }

    fn add(&mut self, path: PathBuf) -> Result<(), BrokenTool> {
        let text = match read_text(&path) {
            Err(ReadError::NotText(error)) => {
                self.broken.push(broken("bad_text", error.message, at(error.path, error.line, error.column)));
                return Ok(());
            }
            text => text?,
        };
        let (name, tool) = match HttpToolFile::from_json(&text) {
            Ok(file) => (Some(file.name.clone()), http_tool(&file, &self.caller)),
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
            let (id, first) = (tool.id(), first.path.display());
            let message = format!("two tools have the id `{id}`: {first} and {}", path.display());
            return Err(BrokenTool::new("duplicate_tool", message).with_help("give one of them another id"));
        }
        self.tools.insert(tool.id().to_string(), ToolFile { path, tool });
        Ok(())
    }

    /// Knows files that are broken now by the names that they had before.
    fn keep_names(&mut self, before: &Self) {
        for broken in self.broken.iter_mut().filter(|broken| broken.id.is_none()) {
            let Some(at) = &broken.place else { continue };
            let good = before.tools.iter().find(|(_, file)| file.path == at.path);
            let is_there = |old: &&BrokenTool| old.place.as_ref().is_some_and(|place| place.path == at.path);
            let bad = before.broken.iter().find(is_there);
            broken.id = good.map(|(id, _)| id.clone()).or_else(|| bad.and_then(|old| old.id.clone()));
        }
    }
}

impl ToolProvider for HttpTools {
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

    fn reloaded(&self) -> Option<Result<Arc<dyn ToolProvider>, BrokenTool>> {
        let now = Self::scan(&self.root, &self.caller).map(|mut now| {
            now.keep_names(self);
            Arc::new(now) as Arc<dyn ToolProvider>
        });
        Some(now)
    }

    fn secrets(&self) -> Vec<String> {
        secrets_below(&self.root, FOLDER, SUFFIX)
    }

    fn passed_over(&self) -> Vec<PassedOver> {
        self.passed.clone()
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
