//! The tools of a project's files, `tools/*.tool.json`, as a provider.

use http_caller::HttpCaller;
use tool_registry::{BrokenTool, FilePlace, FileTools, Tool, ToolFormat, ToolKind};

use crate::error::HttpToolError;
use crate::file::HttpToolFile;
use crate::tool::{HTTP, http_tool};

/// Provider of the tools of `tools/*.tool.json`; the name in the file is the id.
pub type HttpTools = FileTools<HttpFormat>;

/// Format of `*.tool.json` files.
#[derive(Debug)]
pub struct HttpFormat(HttpCaller);

impl HttpFormat {
    /// The format of tools whose requests go through `caller`.
    #[must_use]
    pub fn new(caller: &HttpCaller) -> Self {
        Self(caller.clone())
    }
}

impl ToolFormat for HttpFormat {
    fn kind(&self) -> ToolKind {
        HTTP
    }

    fn suffix(&self) -> &'static str {
        ".tool.json"
    }

    fn tool(&self, text: &str) -> Result<Tool, BrokenTool> {
        let file = HttpToolFile::from_json(text).map_err(|error| broken(&error))?;
        http_tool(&file, &self.0).map_err(|error| broken(&error).with_id(&file.name))
    }

    fn help(&self) -> &'static str {
        "docs/guide/tools.md shows a file, docs/schema/http-tool.schema.json names every key"
    }
}

fn broken(error: &HttpToolError) -> BrokenTool {
    let fault = BrokenTool::new(error.code(), error.to_string());
    match error {
        HttpToolError::Syntax(error) => fault.with_place(FilePlace::inside(error)),
        _ => fault,
    }
}
