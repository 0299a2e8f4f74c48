//! Tools `shell:<name>`: programs that `shell.toml` lists, with arguments that no shell reads.

use std::collections::BTreeMap;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use async_trait::async_trait;
use serde::Deserialize;
use serde_json::{Map, Value, json};
use tool_command::{CommandEnd, CommandFault, CommandRun, find_program};
use tool_registry::{
    BrokenTool, Changes, FilePlace, Reach, RegistryError, Resolution, Services, Tool, ToolContext,
    ToolDefinition, ToolError, ToolErrorKind, ToolHandler, ToolKind, ToolOutput, ToolProvider,
};

/// Kind of these tools: a call needs approval unless its program only reads.
const SHELL: ToolKind = ToolKind::foreign("shell");

/// Name of the allow-list in the folder of a project.
const FILE: &str = "shell.toml";

/// Longest output that a call gives, in bytes.
const MAX_OUTPUT: usize = 64 * 1024;

/// A program of the allow-list.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
struct Entry {
    program: String,
    /// Arguments that stand before those of the model.
    #[serde(default)]
    arguments: Vec<String>,
    description: String,
    #[serde(default)]
    read_only: bool,
}

/// Provider of the programs that `shell.toml` lists.
#[derive(Debug)]
pub(crate) struct ShellTools {
    folder: PathBuf,
    entries: BTreeMap<String, Entry>,
}

impl ShellTools {
    /// The allow-list of a project; without a file it is empty.
    ///
    /// # Errors
    /// The file cannot be read, or is invalid.
    pub(crate) fn read(folder: &Path) -> Result<Self, BrokenTool> {
        let path = folder.join(FILE);
        let broken = |message: String| {
            BrokenTool::new("bad_shell_file", message)
                .with_place(FilePlace::new(&path))
                .with_help("write [NAME] with `program` and `description`")
        };
        let entries = match std::fs::read_to_string(&path) {
            Ok(text) => toml::from_str(&text).map_err(|error| broken(error.to_string()))?,
            Err(error) if error.kind() == ErrorKind::NotFound => BTreeMap::new(),
            Err(error) => return Err(broken(error.to_string())),
        };
        Ok(Self { folder: folder.to_owned(), entries })
    }

    fn tool(&self, id: &str, entry: &Entry) -> Result<Tool, RegistryError> {
        let parameters = json!({
            "type": "object",
            "properties": {
                "arguments": {
                    "type": "array",
                    "items": {"type": "string"},
                    "description": "arguments of the program, one each; no shell reads them"
                },
                "input": {"type": "string", "description": "what the program reads from its standard input"}
            },
            "additionalProperties": false
        });
        let mut definition = ToolDefinition::new(id.parse()?, entry.description.as_str(), parameters);
        definition.annotations.read_only = entry.read_only;
        definition.annotations.effect = !entry.read_only;
        let handler = Run { entry: entry.clone(), folder: self.folder.clone() };
        Ok(Tool::new(definition, SHELL, handler))
    }
}

impl ToolProvider for ShellTools {
    fn kind(&self) -> ToolKind {
        SHELL
    }

    fn namespaces(&self) -> &[&'static str] {
        &["shell"]
    }

    fn list(&self, _: Reach) -> Vec<Result<String, BrokenTool>> {
        self.entries.keys().map(|name| Ok(format!("shell:{name}"))).collect()
    }

    fn resolve(&self, id: &str, _: &Services) -> Resolution {
        let entry = id.strip_prefix("shell:").and_then(|name| self.entries.get(name));
        entry.map_or(Resolution::NotMine, |entry| self.tool(id, entry).into())
    }

    fn changes(&self) -> Changes {
        Changes::Files(vec![self.folder.join(FILE)])
    }

    fn reloaded(&self) -> Option<Result<Arc<dyn ToolProvider>, BrokenTool>> {
        Some(Self::read(&self.folder).map(|now| Arc::new(now) as Arc<dyn ToolProvider>))
    }
}

/// One program; each call starts it anew.
struct Run {
    entry: Entry,
    folder: PathBuf,
}

impl Run {
    fn failed(&self, fault: &CommandFault) -> ToolError {
        let message = format!("`{}`: {fault}", self.entry.program);
        ToolError::new(ToolErrorKind::Failed, message).with_code(fault.code())
    }
}

#[async_trait]
impl ToolHandler for Run {
    async fn call(&self, arguments: Map<String, Value>, _: &ToolContext) -> Result<ToolOutput, ToolError> {
        let more = arguments.get("arguments").and_then(Value::as_array).into_iter().flatten();
        let more = more.filter_map(Value::as_str).map(str::to_owned);
        let program = find_program(&self.entry.program, &self.folder);
        let run = CommandRun {
            program: program.ok_or_else(|| self.failed(&CommandFault::Missing))?,
            arguments: self.entry.arguments.iter().cloned().chain(more).collect(),
            folder: self.folder.clone(),
            input: arguments.get("input").and_then(Value::as_str).unwrap_or_default().into(),
            max_output: MAX_OUTPUT,
            ..CommandRun::default()
        };
        // A call that is given up ends its program.
        answer(&run.run().await.map_err(|fault| self.failed(&fault))?)
    }
}

fn answer(ended: &CommandEnd) -> Result<ToolOutput, ToolError> {
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    if ended.status.success() {
        return Ok(ToolOutput::Text(text(&ended.output)));
    }
    let message = format!("the program failed ({}): {}", ended.status, text(&ended.errors).trim());
    Err(ToolError::failed(message).with_code("program_failed"))
}
