//! Workflow files of `ComfyTavern` and of modular agents.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result};
use serde_json::Value;

use super::graphs::Scratch;
use super::{Failure, Outcome, shortened};

/// Good files are read and written without loss; bad ones are refused, or taken with a note where they can be run.
pub(crate) fn comfytavern(folder: &Path, weft: &Path) -> Result<Outcome> {
    let scratch = Scratch::new("files")?;
    let mut outcome = Outcome::default();
    for file in listed(&folder.join("invented"))? {
        let id = stem(&file);
        let written = scratch.0.join(format!("{id}.json"));
        let fault = match import(weft, "comfytavern", &file, &scratch)? {
            Err(Refusal { code: 7, .. }) if id.starts_with("bad-") => None,
            Err(refusal) => Some(refusal.message),
            Ok(notes) if id.starts_with("bad-") => {
                notes.is_empty().then(|| "taken without a note".to_owned())
            }
            Ok(_) => {
                let (mut written, file) = (read(&written)?, read(&file)?);
                drop_implied_defaults(&mut written, &file);
                (written != file).then(|| "what was written is not what was read".to_owned())
            }
        };
        record(&mut outcome, id, fault);
    }
    let graphs = listed(&folder.join("modular-agent"))?;
    for file in graphs.iter().filter(|file| stem(file) != "xml-parser-cases") {
        let fault = import(weft, "modular", file, &scratch)?.err().map(|refusal| refusal.message);
        record(&mut outcome, stem(file), fault);
    }
    Ok(outcome)
}

/// The program did not take a file.
struct Refusal {
    code: i32,
    message: String,
}

/// Imports a file; gives the notes.
fn import(weft: &Path, kind: &str, file: &Path, to: &Scratch) -> Result<Result<Vec<Value>, Refusal>> {
    let output = Command::new(weft)
        .args(["import", kind, "--output", "json", "--force", "--to"])
        .arg(&to.0)
        .arg(file)
        .output()?;
    if !output.status.success() {
        let message = String::from_utf8_lossy(&output.stderr).into_owned();
        return Ok(Err(Refusal { code: output.status.code().unwrap_or(-1), message }));
    }
    let checked: Value = serde_json::from_slice(&output.stdout)?;
    Ok(Ok(checked["notes"].as_array().cloned().unwrap_or_default()))
}

/// Takes the defaults of inputs out that the import has written and the file does not have.
fn drop_implied_defaults(written: &mut Value, file: &Value) {
    let inputs = written.get_mut("interfaceInputs").and_then(Value::as_object_mut);
    for (name, slot) in inputs.into_iter().flatten() {
        let own = &file["interfaceInputs"][name];
        let Some(slot) = slot.as_object_mut().filter(|_| own["config"]["default"].is_null()) else {
            continue;
        };
        if let Some(config) = slot.get_mut("config").and_then(Value::as_object_mut) {
            config.shift_remove("default");
        }
        if own.get("config").is_none() {
            slot.shift_remove("config");
        }
    }
}

fn record(outcome: &mut Outcome, id: String, fault: Option<String>) {
    match fault {
        None => outcome.passed += 1,
        Some(fault) => {
            outcome.failed.push(Failure { id, wanted: String::new(), got: shortened(&fault) });
        }
    }
}

pub(super) fn listed(folder: &Path) -> Result<Vec<PathBuf>> {
    let entries = fs::read_dir(folder).with_context(|| folder.display().to_string())?;
    let mut files = entries.map(|entry| Ok(entry?.path())).collect::<Result<Vec<_>>>()?;
    files.sort();
    Ok(files)
}

pub(super) fn stem(file: &Path) -> String {
    file.file_stem().unwrap_or_default().to_string_lossy().into_owned()
}

fn read(file: &Path) -> Result<Value> {
    Ok(serde_json::from_str(&fs::read_to_string(file)?)?)
}
