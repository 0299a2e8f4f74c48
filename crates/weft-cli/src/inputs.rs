//! Inputs from the command line: `k=text`, `k:=json`, `k=@file`, and whole objects.

use std::io::Read;
use std::path::Path;

use llm_provider::Attachment;
use protocol_action::{RawArgument, RawValue, Span};
use serde_json::{Map, Value};
use tool_schema::{CompiledSchema, Typed};
use weft_project::{ProjectError, read_file, read_json};
use weft_runs::NodeValue;

use crate::arguments::{ContextArguments, InputArguments};
use crate::failure::{Exit, Failure};

/// The inputs, typed by a schema.
pub(crate) fn typed(arguments: &InputArguments, schema: &Value) -> Result<Map<String, Value>, Failure> {
    let schema = CompiledSchema::new(schema)
        .map_err(|error| Failure::new(Exit::Invalid, error.code(), error.to_string()))?;
    let typed = typed_by(arguments, &schema)?;
    if typed.problems.is_empty() {
        return Ok(typed.arguments);
    }
    let mut failure = Failure::of_problems(&typed.problems);
    failure.message = failure.message.replace("Parameter '", "input '").replace("parameter '", "input '");
    Err(failure)
}

/// The inputs, typed by a schema, with everything that was changed and does not fit.
pub(crate) fn typed_by(arguments: &InputArguments, schema: &CompiledSchema) -> Result<Typed, Failure> {
    let mut raw = Vec::new();
    if let Some(path) = &arguments.input {
        raw.extend(object(path)?.into_iter().map(|(name, value)| argument(&name, RawValue::Json(value))));
    }
    for input in &arguments.inputs {
        let given = parse_input("-i", input)?;
        // What is said last counts.
        raw.retain(|known: &RawArgument| known.name != given.name);
        raw.push(given);
    }
    Ok(schema.type_raw(&raw))
}

/// The inputs as they are written, where no schema types them.
pub(crate) fn plain(arguments: &InputArguments) -> Result<Map<String, Value>, Failure> {
    let mut all = arguments.input.as_deref().map(object).transpose()?.unwrap_or_default();
    all.extend(values_of("-i", &arguments.inputs)?);
    Ok(all)
}

/// Context values: `k=text`, `k:=json`, `k=@file`.
pub(crate) fn context(arguments: &ContextArguments) -> Result<Map<String, Value>, Failure> {
    values_of("--ctx", &arguments.ctx)
}

fn values_of(option: &str, texts: &[String]) -> Result<Map<String, Value>, Failure> {
    let values = texts.iter().map(|text| {
        let RawArgument { name, value, .. } = parse_input(option, text)?;
        let value = match value {
            RawValue::Text(text) => text.into(),
            RawValue::Json(value) => value,
            RawValue::Elements { .. } => {
                return Err(Failure::usage(format!("`{option} {text}` is not a value")));
            }
        };
        Ok((name, value))
    });
    values.collect()
}

/// A value by its name, as `-i` takes it.
pub(crate) fn pair(text: &str) -> Result<(String, Value), Failure> {
    let RawArgument { name, value, .. } = parse_input("-i", text)?;
    match value {
        RawValue::Text(text) => Ok((name, text.into())),
        RawValue::Json(value) => Ok((name, value)),
        RawValue::Elements { .. } => Err(Failure::usage(format!("`-i {text}` is not a value"))),
    }
}

/// A value for a node of a fork, as `-i` takes it: `PATH=TEXT`, `PATH:=JSON`, `PATH=@FILE`.
pub(crate) fn change(text: &str) -> Result<(String, NodeValue), Failure> {
    let RawArgument { name, value, .. } = parse_input("--set", text)?;
    match value {
        RawValue::Text(text) => Ok((name, NodeValue::Text(text))),
        RawValue::Json(value) => Ok((name, NodeValue::Json(value))),
        RawValue::Elements { .. } => Err(Failure::usage(format!("`--set {text}` is not a value"))),
    }
}

fn argument(name: &str, value: RawValue) -> RawArgument {
    RawArgument::new(name, Span::default(), value)
}

fn parse_input(option: &str, input: &str) -> Result<RawArgument, Failure> {
    let bad = || {
        Failure::usage(format!("`{option} {input}` is not an input"))
            .with_help("write k=text, k:=json or k=@file")
    };
    let (name, value) = input.split_once('=').ok_or_else(bad)?;
    if let Some(name) = name.strip_suffix(':') {
        let value = agent_types::read_json(value.as_bytes()).map_err(|error| {
            Failure::usage(format!("`{option} {input}`: {error}")).with_help("write the value as JSON")
        })?;
        return named(name, RawValue::Json(value)).ok_or_else(bad);
    }
    let text = match value.strip_prefix('@') {
        Some(path) => read_file(Path::new(path))?,
        None => value.to_owned(),
    };
    named(name, RawValue::Text(text)).ok_or_else(bad)
}

fn named(name: &str, value: RawValue) -> Option<RawArgument> {
    (!name.is_empty()).then(|| argument(name, value))
}

fn object(path: &Path) -> Result<Map<String, Value>, Failure> {
    let value = if path == Path::new("-") {
        agent_types::read_json(stdin()?.as_bytes())
            .map_err(|error| Failure::new(Exit::Invalid, "bad_json", format!("stdin: {error}")))?
    } else {
        read_json(path)?
    };
    match value {
        Value::Object(object) => Ok(object),
        other => {
            Err(Failure::new(Exit::Invalid, "bad_value", format!("inputs must be an object, got {other}")))
        }
    }
}

/// All of stdin as text, with replacement characters for invalid UTF-8.
pub(crate) fn stdin() -> Result<String, Failure> {
    Ok(String::from_utf8_lossy(&stdin_bytes()?).into_owned())
}

/// All of stdin.
pub(crate) fn stdin_bytes() -> Result<Vec<u8>, Failure> {
    let mut bytes = Vec::new();
    std::io::stdin()
        .read_to_end(&mut bytes)
        .map_err(|error| Failure::new(Exit::Failed, "stdin", error.to_string()))?;
    Ok(bytes)
}

/// The text of a file that a command names.
pub(crate) fn text_file(path: &Path) -> Result<String, Failure> {
    let bytes = std::fs::read(path).map_err(|error| Failure::of_reading(path, &error))?;
    Ok(tool_registry::files::text_of(path, bytes).map_err(ProjectError::from)?)
}

/// A file with a JSON value; `-` reads stdin.
pub(crate) fn json_file(path: &std::path::Path) -> Result<Value, Failure> {
    let text = if path == std::path::Path::new("-") { stdin()? } else { text_file(path)? };
    agent_types::read_json(text.as_bytes()).map_err(|error| {
        let (line, column) = (Some(error.line()), Some(error.column()));
        Failure::new(crate::failure::Exit::Invalid, "bad_json", error.to_string()).at(path, line, column)
    })
}

/// A file that accompanies a message; the ending of its name gives its kind.
pub(crate) fn attachment(path: &std::path::Path) -> Result<Attachment, Failure> {
    let bytes = std::fs::read(path).map_err(|error| Failure::of_reading(path, &error))?;
    let ending = path.extension().unwrap_or_default().to_string_lossy().to_lowercase();
    let mime = match ending.as_str() {
        "png" => "image/png",
        "jpg" | "jpeg" => "image/jpeg",
        "gif" => "image/gif",
        "webp" => "image/webp",
        "pdf" => "application/pdf",
        "json" => "application/json",
        "csv" => "text/csv",
        "md" => "text/markdown",
        "html" => "text/html",
        _ if std::str::from_utf8(&bytes).is_ok() => "text/plain",
        _ => "application/octet-stream",
    };
    let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
    Ok(Attachment::from_bytes(mime, &bytes).with_name(name))
}
