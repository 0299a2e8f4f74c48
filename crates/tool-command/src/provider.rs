//! The tools of a project's files, `tools/*.command.json`, as a provider.

use std::path::{Path, PathBuf};

use serde_json::Value;
use tool_registry::{BrokenTool, Fault, FilePlace, FileTools, Tool, ToolFormat, ToolKind};

use crate::error::CommandToolError;
use crate::file::CommandToolFile;
use crate::policy::CommandPolicy;
use crate::tool::{COMMAND, FILES, NAMESPACE, command_tool};

/// Provider of the tools of `tools/*.command.json`; their ids are `command:NAME`.
pub type CommandTools = FileTools<CommandFormat>;

/// Format of `*.command.json` files.
#[derive(Debug)]
pub struct CommandFormat(CommandPolicy);

impl CommandFormat {
    /// The format of tools under a policy.
    #[must_use]
    pub const fn new(policy: CommandPolicy) -> Self {
        Self(policy)
    }
}

impl ToolFormat for CommandFormat {
    fn kind(&self) -> ToolKind {
        COMMAND
    }

    fn namespaces(&self) -> &[&'static str] {
        &[NAMESPACE]
    }

    fn suffix(&self) -> &'static str {
        ".command.json"
    }

    fn tool(&self, text: &str) -> Result<Tool, BrokenTool> {
        let file = CommandToolFile::from_json(text).map_err(|error| broken(&error.into()))?;
        let named = |error| broken(&error).with_id(format!("{NAMESPACE}:{}", file.name));
        command_tool(&file, &self.0).map_err(named)
    }

    fn folders(&self, tool: &Tool) -> Vec<PathBuf> {
        let files = tool.parts().get(FILES).and_then(Value::as_object);
        let cwd = tool.parts().get("cwd").and_then(Value::as_str).unwrap_or_default();
        let root = self.0.root();
        let folders = files.into_iter().flat_map(|files| files.keys()).flat_map(|name| {
            [root.join(name), root.join(cwd).join(name)].map(|path| path.parent().map(Path::to_owned))
        });
        folders.flatten().filter(|folder| folder != root && folder.starts_with(root)).collect()
    }

    fn help(&self) -> &'static str {
        "docs/guide/tools.md shows a file, docs/schema/command-tool.schema.json names every key"
    }
}

fn broken(error: &CommandToolError) -> BrokenTool {
    let mut fault = BrokenTool::new(error.code(), error.to_string());
    fault.help = error.help();
    match error {
        CommandToolError::NotAllowed { .. } | CommandToolError::SecretNotAllowed { .. } => {
            fault.with_fault(Fault::Settings)
        }
        CommandToolError::Syntax(error) => fault.with_place(FilePlace::inside(error)),
        _ => fault,
    }
}
