//! OpenAPI 3.0 and 3.1.

use std::collections::HashSet;

use http_caller::{HttpCaller, NetworkPolicy};
use serde_json::Value;

use super::operation::{Operation, read};
use super::schema::Schemas;
use super::{ImportedTools, ToolImportError, tool_name, unique};
use crate::tool::http_tool;

/// What a path may be done with.
const METHODS: [&str; 8] = ["get", "put", "post", "delete", "options", "head", "patch", "trace"];

/// How a description is read.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct OpenApiOptions {
    /// Address that stands in place of the servers of the description.
    pub server: Option<String>,
}

impl OpenApiOptions {
    /// The same with an address that stands in place of the servers of the description.
    #[must_use]
    pub fn with_server(mut self, server: impl Into<String>) -> Self {
        self.server = Some(server.into());
        self
    }
}

/// Every operation of a description as a tool, or a reason why not.
///
/// Parameters keep their names where a name is free; a body is the parameter `body`. References are resolved within the file, nothing is fetched.
///
/// # Errors
/// No JSON, or no OpenAPI 3.
pub fn from_openapi(text: &str, options: &OpenApiOptions) -> Result<ImportedTools, ToolImportError> {
    from_openapi_value(&serde_json::from_str(text)?, options)
}

/// The same of a description that was read already, from YAML for instance.
///
/// # Errors
/// No OpenAPI 3.
pub fn from_openapi_value(
    document: &Value,
    options: &OpenApiOptions,
) -> Result<ImportedTools, ToolImportError> {
    let version = document.get("openapi").and_then(Value::as_str).unwrap_or_default();
    if !version.starts_with("3.") {
        let old =
            document.get("swagger").map(|old| old.as_str().map_or_else(|| old.to_string(), str::to_owned));
        let found = old.map_or_else(|| "no `openapi` key".to_owned(), |old| format!("swagger {old}"));
        return Err(ToolImportError::kind(format!("expected OpenAPI 3.0 or 3.1, found {found}")));
    }
    // Whether an operation can be called is decided by what would call it.
    let caller = HttpCaller::builder(NetworkPolicy::public_only()).build();
    let mut imported = ImportedTools::default();
    let mut names = HashSet::new();
    for (path, item) in document.get("paths").and_then(Value::as_object).into_iter().flatten() {
        let Some(item) = Schemas::new(document).resolved(item) else {
            imported.refuse(path, "its reference leads nowhere");
            continue;
        };
        for method in METHODS {
            let Some(operation) = item.get(method) else { continue };
            let label = format!("{} {path}", method.to_ascii_uppercase());
            let named = operation.get("operationId").and_then(Value::as_str).map(str::trim);
            let wanted =
                named.filter(|id| !id.is_empty()).map_or_else(|| format!("{method}_{path}"), str::to_owned);
            // Files of two names that differ in case only are one file on some systems.
            let name = unique(tool_name(&wanted), |name| names.contains(&name.to_lowercase()));
            let operation = Operation { document, item, about: operation, method, path, name: &name };
            let mut notes = Vec::new();
            let tool = read(&operation, options, &mut notes);
            let checked = tool.and_then(|tool| match http_tool(&tool, &caller) {
                Ok(_) => Ok(tool),
                Err(error) => Err(error.to_string()),
            });
            match checked {
                Ok(tool) => {
                    names.insert(name.to_lowercase());
                    imported.notes.extend(notes.into_iter().map(|note| format!("{label}: {note}")));
                    imported.tools.push((label, tool));
                }
                Err(reason) => imported.refuse(label, reason),
            }
        }
    }
    Ok(imported)
}
