//! `weft import`: graphs and descriptions of other systems become workflow and tool files.

use std::path::{Path, PathBuf};

use serde_json::{Value, json};
use weft_import::{
    ImportError, ImportedTools, ImportedWorkflows, OpenApiOptions, Report, from_bu, from_bu_tools,
    from_comfytavern, from_comfytavern_tool, from_comfyui, from_modular, from_modular_value,
    from_openapi_value, is_bu_configuration, with_files_beside,
};

use super::Context;
use crate::arguments::{ImportArguments, ImportKind, Output};
use crate::failure::{Exit, Failure, shown};
use crate::{inputs, output};

/// Ending of tool files, here and at `ComfyTavern`.
const TOOL: &str = ".tool.json";

pub(super) fn run(context: &Context, arguments: &ImportArguments) -> Result<Exit, Failure> {
    let file = &arguments.file;
    if file.is_dir() {
        return Err(Failure::usage(format!("{} is a folder, and a file is imported", file.display())));
    }
    let text = inputs::text_file(file)?;
    match arguments.kind {
        ImportKind::Openapi => {
            let options = OpenApiOptions::default();
            let options = match &arguments.server {
                Some(server) => options.with_server(server.as_str()),
                None => options,
            };
            let document = if is_yaml(file, &text) {
                yaml(file, &text)?
            } else {
                serde_json::from_str(&text).map_err(|error| refused(file, &error.into()))?
            };
            let document = with_files_beside(document, |path| file_beside(file, path));
            tools(context, arguments, from_openapi_value(&document, &options))
        }
        ImportKind::Bu => {
            let is_whole = serde_json::from_str(&text).is_ok_and(|value| is_bu_configuration(&value));
            if is_whole {
                flows(context, arguments, &text)
            } else {
                tools(context, arguments, from_bu_tools(&text))
            }
        }
        ImportKind::Comfytavern if file.to_string_lossy().ends_with(TOOL) => {
            tools(context, arguments, from_comfytavern_tool(&text))
        }
        ImportKind::Comfytavern | ImportKind::Comfyui | ImportKind::Modular => {
            workflows(context, arguments, &text)
        }
    }
}

/// Returns `true` for a YAML description: its name has that ending, or it does not begin as JSON does.
fn is_yaml(file: &Path, text: &str) -> bool {
    let named = file.extension().is_some_and(|ending| ending == "yaml" || ending == "yml");
    named || (file.extension().is_none() && !text.trim_start().starts_with('{'))
}

/// A file in the folder of a description, which a reference names; none where it is not there or cannot be read.
fn file_beside(description: &Path, path: &str) -> Option<Value> {
    let folder =
        description.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let file = folder.join(path);
    // A link may lead out of the folder.
    if !file.canonicalize().ok()?.starts_with(folder.canonicalize().ok()?) {
        return None;
    }
    let text = inputs::text_file(&file).ok()?;
    if is_yaml(&file, &text) { yaml(&file, &text).ok() } else { serde_json::from_str(&text).ok() }
}

/// The value of a YAML file, as JSON would have it.
fn yaml(file: &Path, text: &str) -> Result<Value, Failure> {
    // YAML 1.2: `no` and `on` are words.
    let options = serde_saphyr::options! { strict_booleans: true };
    serde_saphyr::from_str_with_options(text, options).map_err(|error| {
        let at = error.location().map(|at| (at.line(), at.column()));
        let number = |number: u64| usize::try_from(number).ok();
        let (line, column) = at.map_or((None, None), |(line, column)| (number(line), number(column)));
        let message = error.without_snippet().to_string();
        Failure::new(Exit::Invalid, "bad_yaml", format!("the file is not valid YAML: {message}"))
            .at(file, line, column)
    })
}

fn workflows(context: &Context, arguments: &ImportArguments, text: &str) -> Result<Exit, Failure> {
    let file = &arguments.file;
    let id = file.file_stem().unwrap_or_default().to_string_lossy();
    let is_toml = file.extension().is_some_and(|ending| ending == "toml");
    let imported = match arguments.kind {
        ImportKind::Comfytavern => from_comfytavern(&id, text),
        ImportKind::Comfyui => from_comfyui(&id, text),
        ImportKind::Modular if is_toml => {
            let value = toml::from_str(text).map_err(|error| {
                Failure::new(Exit::Invalid, "bad_toml", error.to_string()).at(file, None, None)
            })?;
            from_modular_value(&id, &value)
        }
        _ => from_modular(&id, text),
    };
    let imported: ImportedWorkflows = imported.map_err(|error| refused(file, &error))?;
    let files = imported.workflows.iter().map(|(id, workflow)| (format!("{id}.json"), workflow.to_json()));
    let files = write(context, arguments, "workflows", files.collect())?;
    let ids: Vec<&str> = imported.workflows.iter().map(|(id, _)| id.as_str()).collect();
    let notes = imported.notes.iter().map(ToString::to_string).chain(imported.report.left_out());
    print(
        context,
        &files,
        &notes.collect::<Vec<_>>(),
        &imported.report,
        || json!({"workflows": ids, "files": files, "notes": imported.notes}),
    )?;
    Ok(Exit::Ok)
}

/// Writes a tool file for each tool. Operations that cannot be used are reported; where none can, that is a failure.
fn tools(
    context: &Context,
    arguments: &ImportArguments,
    imported: Result<ImportedTools, ImportError>,
) -> Result<Exit, Failure> {
    let file = &arguments.file;
    let imported = imported.map_err(|error| refused(file, &error))?;
    let mut files = Vec::new();
    for (_, tool) in &imported.tools {
        let text =
            tool.to_json().map_err(|error| Failure::new(Exit::Failed, "no_json", error.to_string()))?;
        files.push((format!("{}{TOOL}", tool.name.replace(':', "_")), text));
    }
    let files = write(context, arguments, "tools", files)?;
    let refused =
        imported.refused.iter().map(|one| format!("{} cannot be a tool: {}", one.operation, one.reason));
    let notes = imported.notes.iter().cloned().chain(refused).chain(imported.report.left_out());
    let tools: Vec<Value> = imported
        .tools
        .iter()
        .map(|(operation, tool)| json!({"name": tool.name, "operation": operation}))
        .collect();
    print(
        context,
        &files,
        &notes.collect::<Vec<_>>(),
        &imported.report,
        || json!({"tools": tools, "files": files, "notes": imported.notes, "refused": imported.refused}),
    )?;
    if !imported.tools.is_empty() {
        return Ok(Exit::Ok);
    }
    let (message, help) = if imported.refused.is_empty() {
        ("the file describes no operation", "an OpenAPI description lists them under `paths`")
    } else {
        ("no operation of the file can be a tool", "the reason for each of them is printed above")
    };
    let failure = Failure::new(Exit::Invalid, "no_operations", message).at(file, None, None).with_help(help);
    failure.print(context.output);
    Ok(Exit::Invalid)
}

/// Writes `flows.json`, and the agent that a configuration describes.
fn flows(context: &Context, arguments: &ImportArguments, text: &str) -> Result<Exit, Failure> {
    let no_json = |error: serde_json::Error| Failure::new(Exit::Failed, "no_json", error.to_string());
    let imported = from_bu(text).map_err(|error| refused(&arguments.file, &error))?;
    let mut files = vec![("flows.json".to_owned(), imported.flows.to_json().map_err(no_json)?)];
    if let Some(agent) = &imported.agent {
        let name = format!("agents/{}.json", agent.id.replace(['/', ':'], "_"));
        files.push((name, serde_json::to_string_pretty(agent).map_err(no_json)? + "\n"));
    }
    let files = write(context, arguments, "", files)?;
    let warnings: Vec<_> = imported.report.notable().collect();
    let notes: Vec<String> = warnings.iter().map(ToString::to_string).collect();
    let agent = imported.agent.as_ref().map(|agent| &agent.id);
    print(
        context,
        &files,
        &notes,
        &imported.report,
        || json!({"agent": agent, "files": files, "warnings": warnings}),
    )?;
    Ok(Exit::Ok)
}

/// Prints the files that were written, and the report: whole in JSON, what needs a look in text.
fn print(
    context: &Context,
    files: &[PathBuf],
    notes: &[String],
    report: &Report,
    value: impl FnOnce() -> Value,
) -> Result<(), Failure> {
    if context.output != Output::Text {
        let mut value = value();
        value["report"] = json!(report);
        return output::json(&value);
    }
    notes.iter().for_each(|note| note!("note: {note}"));
    files.iter().try_for_each(|file| output::line(&format!("wrote {}", shown(file).display())))
}

fn refused(file: &Path, error: &ImportError) -> Failure {
    let place = match error {
        ImportError::Json(error) => (Some(error.line()), Some(error.column())),
        _ => (None, None),
    };
    Failure::new(Exit::Invalid, error.code(), error.to_string()).at(file, place.0, place.1)
}

/// Writes all files, or none where one of them is there already.
fn write(
    context: &Context,
    arguments: &ImportArguments,
    own: &str,
    files: Vec<(String, String)>,
) -> Result<Vec<PathBuf>, Failure> {
    let folder = match &arguments.to {
        Some(folder) => folder.clone(),
        None => context.project(None)?.root().join(own),
    };
    let files: Vec<(PathBuf, String)> =
        files.into_iter().map(|(name, text)| (folder.join(name), text)).collect();
    if let Some((there, _)) = files.iter().find(|(file, _)| file.exists() && !arguments.force) {
        return Err(Failure::new(Exit::Usage, "file_exists", "the file is there already")
            .at(there, None, None)
            .with_help("`--force` writes over it"));
    }
    for (file, text) in &files {
        output::write_file(&folder, file, text).map_err(|error| {
            Failure::new(Exit::Failed, "write_failed", error.to_string()).at(file, None, None)
        })?;
    }
    Ok(files.into_iter().map(|(file, _)| file).collect())
}
