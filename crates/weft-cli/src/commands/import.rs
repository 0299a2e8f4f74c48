//! `weft import`: graphs of other systems become workflow files.

use std::fs;
use std::path::{Path, PathBuf};

use serde_json::json;
use workflow_model::import::{
    ImportError, Imported, from_comfytavern, from_comfyui, from_modular, from_modular_value,
};

use super::Context;
use crate::arguments::{ImportArguments, ImportKind, Output};
use crate::failure::{Exit, Failure, shown};
use crate::output;

pub(super) fn run(context: &Context, arguments: &ImportArguments) -> Result<Exit, Failure> {
    let ImportArguments { kind, file, to, force } = arguments;
    let text = fs::read_to_string(file).map_err(|error| match error.kind() {
        std::io::ErrorKind::InvalidData => {
            Failure::new(Exit::Invalid, "bad_text", "the file is no UTF-8 text").at(file, None, None)
        }
        _ => Failure::new(Exit::Usage, "missing_file", error.to_string()).at(file, None, None),
    })?;
    let id = file.file_stem().unwrap_or_default().to_string_lossy();
    let is_toml = file.extension().is_some_and(|ending| ending == "toml");
    let imported = match kind {
        ImportKind::Comfytavern => from_comfytavern(&id, &text),
        ImportKind::Comfyui => from_comfyui(&id, &text),
        ImportKind::Modular if is_toml => {
            let value = toml::from_str(&text).map_err(|error| {
                Failure::new(Exit::Invalid, "bad_toml", error.to_string()).at(file, None, None)
            })?;
            from_modular_value(&id, &value)
        }
        ImportKind::Modular => from_modular(&id, &text),
    };
    let imported = imported.map_err(|error| refused(file, &error))?;
    let folder = match to {
        Some(folder) => folder.clone(),
        None => context.project(None)?.root().join("workflows"),
    };
    let files = write(&imported, &folder, *force)?;
    if context.output == Output::Text {
        for note in &imported.notes {
            note!("note: {note}");
        }
        files.iter().try_for_each(|file| output::line(&format!("wrote {}", shown(file).display())))?;
    } else {
        let ids: Vec<&str> = imported.workflows.iter().map(|(id, _)| id.as_str()).collect();
        output::json(&json!({"workflows": ids, "files": files, "notes": imported.notes}))?;
    }
    Ok(Exit::Ok)
}

fn refused(file: &Path, error: &ImportError) -> Failure {
    let place = match error {
        ImportError::Json(error) => (Some(error.line()), Some(error.column())),
        _ => (None, None),
    };
    Failure::new(Exit::Invalid, error.code(), error.to_string()).at(file, place.0, place.1)
}

/// Writes all files, or none where one of them is there already.
fn write(imported: &Imported, folder: &Path, force: bool) -> Result<Vec<PathBuf>, Failure> {
    let path = |id: &str| folder.join(format!("{id}.json"));
    let files: Vec<PathBuf> = imported.workflows.iter().map(|(id, _)| path(id)).collect();
    if let Some(there) = files.iter().find(|file| file.exists() && !force) {
        return Err(Failure::new(Exit::Usage, "file_exists", "the file is there already")
            .at(there, None, None)
            .with_help("`--force` writes over it"));
    }
    for ((_, workflow), file) in imported.workflows.iter().zip(&files) {
        let parent = file.parent().unwrap_or(folder);
        fs::create_dir_all(parent).and_then(|()| fs::write(file, workflow.to_json())).map_err(|error| {
            Failure::new(Exit::Failed, "write_failed", error.to_string()).at(file, None, None)
        })?;
    }
    Ok(files)
}
