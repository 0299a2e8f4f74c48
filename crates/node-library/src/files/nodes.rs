//! The nodes.

use std::sync::Arc;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde_json::Value;
use workflow_engine::{Inputs, NodeCatalog, NodeContext, NodeError, Outputs, Prepared, Problem};
use workflow_model::{ConfigDefinition, DataFlowType, NodeDefinition, SlotDefinition};

use super::folder::{FileError, FilesFolder, WriteMode};
use crate::define::{Computed, any, as_text, made, setting, text};

/// Bytes that are read unless the settings say otherwise, and the most that they may say.
const MAX_BYTES: u64 = 1024 * 1024;
const LIMIT: u64 = 16 * 1024 * 1024;

/// Forms of a file's content.
const FORMS: [&str; 3] = ["text", "base64", "json"];

pub(crate) fn register(catalog: &mut NodeCatalog) {
    catalog.register(read_file()).register(write_file());
}

fn form(meaning: &str) -> ConfigDefinition {
    setting(DataFlowType::String, meaning).with_default(FORMS[0]).one_of(FORMS)
}

fn path() -> SlotDefinition {
    text("path below `files/` of the project, with `/` between its parts").required()
}

fn bytes(meaning: &str) -> SlotDefinition {
    SlotDefinition::new(DataFlowType::Integer, meaning)
}

fn read_file() -> Computed {
    let definition = NodeDefinition::new(
        "core:ReadFile",
        "Reads a file below the folder `files/` of the project.",
    )
    .input("path", path())
    .output("content", any("its content, in the form of `as`"))
    .output("bytes", bytes("its size"))
    .config(
        "as",
        form("the form of the content: text in UTF-8, Base64 of the bytes, or the value of a JSON file"),
    )
    .config(
        "maxBytes",
        setting(DataFlowType::Integer, "a larger file is an error; at most 16777216").with_default(MAX_BYTES),
    )
    .blocking();
    Computed::new(definition, |ctx, inputs| {
        let limit: &u64 = made(ctx)?;
        let path = inputs.text("path")?;
        let content = folder(ctx)?.read(path, *limit).map_err(|error| failed(&error))?;
        let size = content.len();
        Ok(Outputs::value(decoded(path, content, chosen(ctx, "as"))?).with("bytes", size))
    })
    .prepared(|config| {
        let limit = config.get("maxBytes").filter(|limit| !limit.is_null());
        let limit = limit.map_or(Some(MAX_BYTES), Value::as_u64).filter(|limit| (1..=LIMIT).contains(limit));
        let message = || format!("expected a whole number from 1 to {LIMIT}");
        limit.map(Prepared::new).ok_or_else(|| vec![Problem::setting("maxBytes", message())])
    })
}

fn write_file() -> Computed {
    let definition = NodeDefinition::new(
        "core:WriteFile",
        "Writes a file below the folder `files/` of the project. A reader sees the old content or the new one, never a part.",
    )
    .input("path", path())
    .input("content", any("the content; with `text`, a value that is not a text is written as JSON").required())
    .output("path", text("the path"))
    .output("bytes", bytes("the size of the file"))
    .config("as", form("the form of the content: text, Base64 of the bytes, or any value written as JSON"))
    .config(
        "mode",
        setting(DataFlowType::String, "what becomes of a file that exists: it is an error, replaced, or added to")
            .with_default("create")
            .one_of(["create", "overwrite", "append"]),
    )
    .effect()
    .blocking();
    Computed::new(definition, |ctx, inputs| {
        let path = inputs.text("path")?;
        let content = encoded(inputs, chosen(ctx, "as"))?;
        let mode = match chosen(ctx, "mode") {
            "overwrite" => WriteMode::Overwrite,
            "append" => WriteMode::Append,
            _ => WriteMode::Create,
        };
        let size = folder(ctx)?.write(path, &content, mode).map_err(|error| failed(&error))?;
        Ok(Outputs::named("path", path).with("bytes", size))
    })
}

/// A setting with a default.
fn chosen<'c>(ctx: &'c NodeContext, key: &str) -> &'c str {
    ctx.config(key).and_then(Value::as_str).unwrap_or_default()
}

fn folder(ctx: &NodeContext) -> Result<Arc<FilesFolder>, NodeError> {
    ctx.service::<FilesFolder>().ok_or_else(|| {
        NodeError::fatal("files are read and written in a project only; run the workflow in one")
            .with_code("no_files")
    })
}

fn failed(error: &FileError) -> NodeError {
    let message = error.to_string();
    let failed = match error {
        FileError::Io { .. } => NodeError::new(message),
        _ => NodeError::fatal(message),
    };
    failed.with_code(error.code())
}

fn decoded(path: &str, content: Vec<u8>, form: &str) -> Result<Value, NodeError> {
    if form == "base64" {
        return Ok(STANDARD.encode(content).into());
    }
    let text = String::from_utf8(content).map_err(|_| {
        NodeError::fatal(format!("`{path}` is not text in UTF-8; set `as` to `base64`")).with_code("not_text")
    })?;
    if form != "json" {
        return Ok(text.into());
    }
    agent_types::read_json(text.trim_start_matches('\u{feff}').as_bytes()).map_err(|error| {
        NodeError::fatal(format!("`{path}` is not valid JSON: {error}")).with_code("bad_json")
    })
}

fn encoded(inputs: &Inputs, form: &str) -> Result<Vec<u8>, NodeError> {
    let content = inputs.required("content")?;
    match form {
        "json" => Ok(format!("{content:#}\n").into_bytes()),
        "base64" => STANDARD.decode(inputs.text("content")?.trim()).map_err(|error| {
            NodeError::fatal(format!("the content is not valid Base64: {error}")).with_code("bad_base64")
        }),
        _ => Ok(as_text(content).into_bytes()),
    }
}
