//! Tools of a project's files, one a file, as a provider.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use agent_types::Services;

use super::{BrokenTool, Changes, FilePlace, Reach, Resolution, ToolProvider};
use crate::files::{PassedOver, ReadError, files_below, read_text, secrets_below};
use crate::kind::ToolKind;
use crate::tool::Tool;

/// Folder of the tools.
const FOLDER: &str = "tools";

/// Format of files that hold a tool each.
pub trait ToolFormat: Send + Sync + fmt::Debug {
    /// Kind of the tools.
    fn kind(&self) -> ToolKind;

    /// Namespaces of the tools; see [`ToolProvider::namespaces`].
    fn namespaces(&self) -> &[&'static str] {
        &[]
    }

    /// Ending of the files' names, such as `.tool.json`.
    fn suffix(&self) -> &'static str;

    /// The tool of a file's text.
    ///
    /// # Errors
    /// The file holds no tool that can be used. The id and the place inside the file are stated where they are known.
    fn tool(&self, text: &str) -> Result<Tool, BrokenTool>;

    /// Folders of further files that a tool is made of.
    fn folders(&self, _: &Tool) -> Vec<PathBuf> {
        Vec::new()
    }

    /// Fix for a file that cannot be used, where its fault has none.
    fn help(&self) -> &'static str;
}

/// A tool and its file.
#[derive(Debug, Clone)]
struct ToolFile {
    path: PathBuf,
    tool: Tool,
}

/// Provider of the tools of a format in the folder `tools`; the file says the id. A file that is broken is known by its path
/// and reported when it is needed.
#[derive(Debug)]
pub struct FileTools<F> {
    tools: BTreeMap<String, ToolFile>,
    broken: Vec<BrokenTool>,
    passed: Vec<PassedOver>,
    root: PathBuf,
    format: Arc<F>,
}

impl<F: ToolFormat + 'static> FileTools<F> {
    /// The tools of a project.
    ///
    /// # Errors
    /// The folder cannot be read, or two tools have one id.
    pub fn read(root: &Path, format: F) -> Result<Self, BrokenTool> {
        let found = Self::scan(root, &Arc::new(format))?;
        for passed in &found.passed {
            log::warn!("{} is passed over: {}", passed.at.path.display(), passed.at.message);
        }
        Ok(found)
    }

    fn scan(root: &Path, format: &Arc<F>) -> Result<Self, BrokenTool> {
        let folder = root.join(FOLDER);
        let below = files_below(root, &folder, format.suffix())?;
        let (tools, broken, format) = (BTreeMap::new(), Vec::new(), Arc::clone(format));
        let mut found = Self { tools, broken, passed: below.passed, root: root.to_owned(), format };
        for relative in below.files {
            if relative.components().count() == 1 {
                found.add(folder.join(relative))?;
            }
        }
        Ok(found)
    }

    fn add(&mut self, path: PathBuf) -> Result<(), BrokenTool> {
        let made = match read_text(&path) {
            Err(error @ ReadError::NotText(_)) => Err(error.into()),
            text => self.format.tool(&text?),
        };
        let tool = match made {
            Ok(tool) => tool,
            Err(fault) => {
                self.broken.push(self.placed(fault, path));
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

    /// A fault with its file, and with a fix.
    fn placed(&self, mut fault: BrokenTool, path: PathBuf) -> BrokenTool {
        let (line, column) = fault.place.as_ref().map_or((None, None), |place| (place.line, place.column));
        fault.place = Some(FilePlace::new(path).at(line, column));
        fault.help.get_or_insert_with(|| self.format.help().to_owned());
        fault
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

    /// Returns `true` for a fault of the tool of an id: by the id in the file, or by the file's name where it holds none.
    fn is_named(&self, broken: &BrokenTool, id: &str) -> bool {
        let name = id.split_once(':').map_or(id, |(_, name)| name);
        let file = || broken.place.as_ref()?.path.file_name()?.to_str()?.strip_suffix(self.format.suffix());
        match &broken.id {
            Some(known) => known == id,
            None => file() == Some(name),
        }
    }
}

impl<F: ToolFormat + 'static> ToolProvider for FileTools<F> {
    fn kind(&self) -> ToolKind {
        self.format.kind()
    }

    fn namespaces(&self) -> &[&'static str] {
        self.format.namespaces()
    }

    fn list(&self, _: Reach) -> Vec<Result<String, BrokenTool>> {
        let good = self.tools.keys().map(|id| Ok(id.clone()));
        good.chain(self.broken.iter().map(|broken| Err(broken.clone()))).collect()
    }

    fn resolve(&self, id: &str, _: &Services) -> Resolution {
        if let Some(file) = self.tools.get(id) {
            return Resolution::Found(file.tool.clone());
        }
        let broken = self.broken.iter().find(|broken| self.is_named(broken, id));
        broken.map_or(Resolution::NotMine, |broken| Resolution::Broken(Box::new(broken.clone())))
    }

    fn place(&self, id: &str) -> Option<FilePlace> {
        Some(FilePlace::new(&self.tools.get(id)?.path))
    }

    fn changes(&self) -> Changes {
        let tools = self.tools.values();
        let further: BTreeSet<PathBuf> = tools.flat_map(|file| self.format.folders(&file.tool)).collect();
        Changes::Files([self.root.join(FOLDER)].into_iter().chain(further).collect())
    }

    fn reloaded(&self) -> Option<Result<Arc<dyn ToolProvider>, BrokenTool>> {
        let now = Self::scan(&self.root, &self.format).map(|mut now| {
            now.keep_names(self);
            Arc::new(now) as Arc<dyn ToolProvider>
        });
        Some(now)
    }

    fn secrets(&self) -> Vec<String> {
        secrets_below(&self.root, FOLDER, self.format.suffix())
    }

    fn passed_over(&self) -> Vec<PassedOver> {
        self.passed.clone()
    }
}
