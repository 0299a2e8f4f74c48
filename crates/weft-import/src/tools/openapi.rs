//! OpenAPI 3.0 and 3.1, and Swagger 2.0.

use std::collections::HashSet;

use http_caller::{HttpCaller, NetworkPolicy};
use serde_json::Value;
use tool_http::http_tool;

use super::operation::{Operation, read};
use super::schema::Schemas;
use super::swagger;
use super::{ImportedTools, tool_name, unique};
use crate::error::ImportError;
use crate::fields::{Fields, Ledger, escaped};

/// Methods of a path.
pub(super) const METHODS: [&str; 8] = ["get", "put", "post", "delete", "options", "head", "patch", "trace"];

/// Options for reading a description.
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

/// Reads every operation of a description as a tool, or states the reason why not.
///
/// Parameters keep their names where a name is free; a body is the parameter `body`. References are resolved within the
/// document, nothing is fetched; files beside it are taken in by [`with_files_beside`](crate::with_files_beside). A
/// description of Swagger 2.0 is converted first, and the paths of its report are those of the converted form.
///
/// # Errors
/// The text is not JSON, or neither OpenAPI 3 nor Swagger 2.0.
pub fn from_openapi(text: &str, options: &OpenApiOptions) -> Result<ImportedTools, ImportError> {
    from_openapi_value(&serde_json::from_str(text.trim_start_matches('\u{feff}'))?, options)
}

/// Reads a description that was parsed already, from YAML for instance.
///
/// # Errors
/// It is neither OpenAPI 3 nor Swagger 2.0.
pub fn from_openapi_value(document: &Value, options: &OpenApiOptions) -> Result<ImportedTools, ImportError> {
    let version = document.get("openapi").and_then(Value::as_str).unwrap_or_default();
    if !version.starts_with("3.") {
        return from_swagger(document, options);
    }
    Ok(read_all(document, options))
}

/// Converts a description of Swagger 2.0, and reads it.
fn from_swagger(document: &Value, options: &OpenApiOptions) -> Result<ImportedTools, ImportError> {
    let version = document.get("swagger").map(|version| match version {
        Value::String(text) => text.clone(),
        other => other.to_string(),
    });
    let found = match version {
        Some(version) if version.starts_with("2.") => version,
        Some(version) => format!("swagger {version}"),
        None => "no `openapi` key".to_owned(),
    };
    if !found.starts_with("2.") {
        return Err(ImportError::Kind(format!("expected OpenAPI 3.0 or 3.1, or Swagger 2.0, found {found}")));
    }
    if options.server.is_none() && swagger::server(document).is_none() {
        let message =
            format!("the description (Swagger {found}) names no `host`; give the address with --server");
        return Err(ImportError::Kind(message));
    }
    let mut imported = read_all(&swagger::converted(document), options);
    imported
        .notes
        .insert(0, format!("the description is of Swagger {found}, and was converted to OpenAPI 3.0"));
    Ok(imported)
}

fn read_all(document: &Value, options: &OpenApiOptions) -> ImportedTools {
    let ledger = Ledger::new(document);
    let root = ledger.root();
    root.word("openapi");
    // An operation can be called if the caller takes it.
    let caller = HttpCaller::builder(NetworkPolicy::public_only()).build();
    let mut imported = ImportedTools::default();
    let mut names = HashSet::new();
    for (path, item) in root.get("paths").into_iter().flat_map(Fields::members) {
        let place = format!("/paths/{}", escaped(path));
        let item = match Schemas::new(&ledger).resolved(item.peek()) {
            Ok(item) => item,
            Err(reason) => {
                imported.add(&ledger, (path, &place), Err(format!("its reference {reason}")));
                continue;
            }
        };
        for method in METHODS {
            let Some(about) = item.get(method) else { continue };
            let label = format!("{} {path}", method.to_ascii_uppercase());
            let named = ledger.view(about).word("operationId").map(str::trim);
            let wanted = named.map_or_else(|| format!("{method}_{path}"), str::to_owned);
            // Files of two names that differ in case only are one file on some systems.
            let name = unique(tool_name(&wanted), |name| names.contains(&name.to_lowercase()));
            let operation = Operation { ledger: &ledger, item, about, method, path, name: &name };
            let mut notes = Vec::new();
            let tool = read(&operation, options, &mut notes);
            let checked = tool.and_then(|tool| match http_tool(&tool, &caller) {
                Ok(_) => Ok((tool, notes)),
                Err(error) => Err(error.to_string()),
            });
            if checked.is_ok() {
                names.insert(name.to_lowercase());
            }
            imported.add(&ledger, (&label, &format!("{place}/{method}")), checked);
        }
    }
    imported.report = ledger.close();
    imported
}
