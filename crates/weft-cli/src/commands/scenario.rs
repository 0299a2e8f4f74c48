//! `weft test`: scenarios of agents.

use std::cell::RefCell;
use std::io::Write;
use std::path::{Path, PathBuf};

use agent_types::nearest;
use serde_json::{Value, json};
use weft_project::Project;
use weft_runs::RunRecording;
use weft_scenarios::{AgentCases, FailedCase};

use super::Context;
use super::runs::chosen;
use crate::arguments::{Output, TestArguments};
use crate::failure::{Exit, Failure, shown};
use crate::{inputs, output};

/// Folder of a project's scenarios.
const FOLDER: &str = "tests";
/// File that recorded scenarios are written to.
const RECORDED: &str = "tests/recorded.jsonl";

pub(super) fn run(context: &Context, arguments: &TestArguments) -> Result<Exit, Failure> {
    if let Some(run) = &arguments.record {
        return record(context, arguments, run);
    }
    // Scenarios with profiles of their own need no project.
    let project = if arguments.files.is_empty() {
        Some(context.project(None)?)
    } else {
        Project::find(context.directory(), &context.options(None)).ok()
    };
    let files = match &project {
        Some(project) if arguments.files.is_empty() => files_of(project)?,
        _ => arguments.files.clone(),
    };
    let cases = project.as_ref().map_or_else(AgentCases::new, AgentCases::for_project);
    let mut ids = Vec::new();
    let mut whole = Whole { has_many_files: files.len() > 1, ..Whole::default() };
    for file in &files {
        let text = inputs::text_file(file)?;
        // A case may be about a tool that panics; the event of the call reports it.
        let hook = std::panic::take_hook();
        std::panic::set_hook(Box::new(|_| {}));
        let seen = RefCell::new(Vec::new());
        let wanted = |id: &str| {
            seen.borrow_mut().push(id.to_owned());
            arguments.only.as_deref().is_none_or(|only| id.contains(only))
        };
        let report = cases.run(&text, wanted);
        std::panic::set_hook(hook);
        if seen.borrow().is_empty() && !arguments.files.is_empty() {
            return Err(Failure::usage("the file has no scenario").at(file, None, None));
        }
        ids.extend(seen.into_inner());
        whole.passed += report.passed;
        whole.failed.extend(report.failed.into_iter().map(|failed| (shown(file), failed)));
    }
    if whole.passed + whole.failed.len() == 0 {
        return Err(none_ran(arguments.only.as_deref(), &ids));
    }
    print_report(context.output, &whole)?;
    Ok(if whole.failed.is_empty() { Exit::Ok } else { Exit::Failed })
}

/// Results of the cases of all files.
#[derive(Default)]
struct Whole {
    has_many_files: bool,
    passed: usize,
    failed: Vec<(PathBuf, FailedCase)>,
}

/// Failure of a command that tested nothing.
fn none_ran(only: Option<&str>, ids: &[String]) -> Failure {
    let Some(only) = only else { return Failure::usage("these files have no scenario") };
    let failure = Failure::usage(format!("no scenario has an id with `{only}` in it"));
    match nearest(only, ids.iter().map(String::as_str)) {
        Some(near) => failure.with_help(format!("did you mean `{near}`?")),
        None => failure,
    }
}

fn files_of(project: &Project) -> Result<Vec<PathBuf>, Failure> {
    let folder = project.root().join(FOLDER);
    let entries = std::fs::read_dir(&folder).into_iter().flatten().flatten();
    let mut files: Vec<PathBuf> = entries
        .map(|entry| entry.path())
        .filter(|path| path.extension().is_some_and(|ending| ending == "jsonl"))
        .collect();
    files.sort();
    if files.is_empty() {
        let missing = format!("no scenarios in {}", shown(&folder).display());
        return Err(Failure::new(Exit::Usage, "no_tests", missing)
            .with_help("name a file, or write one with `weft test --record last`"));
    }
    Ok(files)
}

fn print_report(form: Output, report: &Whole) -> Result<(), Failure> {
    match form {
        Output::Json => {
            let failed: Vec<Value> = report.failed.iter().map(failed_value).collect();
            output::json(&json!({"passed": report.passed, "failed": failed}))
        }
        Output::Jsonl => {
            report.failed.iter().try_for_each(|failed| output::json(&failed_value(failed)))?;
            output::json(&json!({"passed": report.passed, "failed": report.failed.len()}))
        }
        Output::Text => {
            for (file, failed) in &report.failed {
                let file =
                    if report.has_many_files { format!("{}: ", file.display()) } else { String::new() };
                for difference in &failed.differences {
                    output::line(&format!("{file}{}: {}", failed.id, difference.at))?;
                    output::line(&format!("  wanted {}", difference.wanted))?;
                    output::line(&format!("  got    {}", difference.got))?;
                }
            }
            output::line(&format!("{} passed, {} failed", report.passed, report.failed.len()))
        }
    }
}

/// A failed case: what was wanted and what came first, and what else differs.
fn failed_value((file, failed): &(PathBuf, FailedCase)) -> Value {
    let mut differences = failed.differences.iter();
    let first = differences.next();
    let mut value = json!({
        "file": file,
        "id": failed.id,
        "at": first.map(|first| first.at.as_str()),
        "wanted": first.map(|first| first.wanted.as_str()),
        "got": first.map(|first| first.got.as_str()),
    });
    let more: Vec<Value> =
        differences.map(|other| json!({"at": other.at, "wanted": other.wanted, "got": other.got})).collect();
    if !more.is_empty() {
        value["more"] = more.into();
    }
    value
}

/// Writes a recording of a run behind the scenarios that a file has.
fn record(context: &Context, arguments: &TestArguments, run: &str) -> Result<Exit, Failure> {
    let project = context.project(None)?;
    let run = chosen(super::runs::store(&project)?, run)?;
    let recording = RunRecording::from_store(&project, &run)?;
    let id = format!("{}-{}", recording.subject(), run.as_str().rsplit('-').next().unwrap_or_default());
    let scenario = json!({"id": id, "title": format!("recorded from {run}"), "recording": recording});
    let file = match arguments.files.as_slice() {
        [] => project.root().join(RECORDED),
        [file] => file.clone(),
        _ => return Err(Failure::usage("`--record` takes one file")),
    };
    append(&file, &scenario)?;
    note!("{id} was written to {}", shown(&file).display());
    Ok(Exit::Ok)
}

fn append(file: &Path, scenario: &Value) -> Result<(), Failure> {
    let failed = |error: std::io::Error| {
        Failure::new(Exit::Failed, "not_written", error.to_string()).at(file, None, None)
    };
    if let Some(folder) = file.parent() {
        std::fs::create_dir_all(folder).map_err(failed)?;
    }
    output::refuse_link(file).map_err(failed)?;
    let line = format!("{}\n", output::text_of(scenario)?);
    let mut open = std::fs::OpenOptions::new().create(true).append(true).open(file).map_err(failed)?;
    open.write_all(line.as_bytes()).map_err(failed)
}
