//! `weft test`: scenarios of agents.

use std::io::Write;
use std::path::{Path, PathBuf};

use serde_json::{Value, json};
use weft_project::{Project, ProjectOptions};
use weft_scenarios::{AgentCases, FailedCase, TestReport, recorded};

use super::Context;
use super::runs::chosen;
use crate::arguments::{Output, TestArguments};
use crate::failure::{Exit, Failure, shown};
use crate::{inputs, output};

/// Where scenarios of a project are.
const FOLDER: &str = "tests";
/// Where recorded ones are written to.
const RECORDED: &str = "tests/recorded.jsonl";

pub(super) fn run(context: &Context, arguments: &TestArguments) -> Result<Exit, Failure> {
    if let Some(run) = &arguments.record {
        return record(context, arguments, run);
    }
    // Scenarios with profiles of their own need no project.
    let project = if arguments.files.is_empty() {
        Some(context.project(None)?)
    } else {
        Project::find(context.directory(), &ProjectOptions::default()).ok()
    };
    let files = match &project {
        Some(project) if arguments.files.is_empty() => files_of(project)?,
        _ => arguments.files.clone(),
    };
    let cases = project.as_ref().map_or_else(AgentCases::new, AgentCases::of);
    let wanted = |id: &str| arguments.only.as_deref().is_none_or(|only| id.contains(only));
    let mut whole = TestReport::default();
    for file in &files {
        let text = inputs::text_file(file)?;
        // A case may be about a tool that panics: that it does is told by its event.
        let told = std::panic::take_hook();
        std::panic::set_hook(Box::new(|_| {}));
        let report = cases.run(&text, wanted);
        std::panic::set_hook(told);
        whole.passed += report.passed;
        whole.failed.extend(report.failed);
    }
    tell(context.output, &whole)?;
    Ok(if whole.failed.is_empty() { Exit::Ok } else { Exit::Failed })
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
        let missing = format!("there are no scenarios in {}", shown(&folder).display());
        return Err(Failure::new(Exit::Usage, "no_tests", missing)
            .with_help("name a file, or write one with `weft test --record last`"));
    }
    Ok(files)
}

fn tell(form: Output, report: &TestReport) -> Result<(), Failure> {
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
            for failed in &report.failed {
                for difference in &failed.differences {
                    output::line(&format!("{}: {}", failed.id, difference.at))?;
                    output::line(&format!("  wanted {}", difference.wanted))?;
                    output::line(&format!("  got    {}", difference.got))?;
                }
            }
            output::line(&format!("{} passed, {} failed", report.passed, report.failed.len()))
        }
    }
}

/// A failed case: what was wanted and what came first, and what else differs.
fn failed_value(failed: &FailedCase) -> Value {
    let mut differences = failed.differences.iter();
    let first = differences.next();
    let mut value = json!({
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

/// Writes a scenario from a run behind those that a file has.
fn record(context: &Context, arguments: &TestArguments, run: &str) -> Result<Exit, Failure> {
    let project = context.project(None)?;
    let run = chosen(super::runs::store(&project)?, run)?;
    let store = project.required_store(&run)?;
    let record = store.known(&run).map_err(|error| Failure::of_store(&error))?;
    let Some(agent) = record.new.agent else {
        return Err(Failure::usage(format!("the run `{run}` is none of an agent")));
    };
    let events = store.events(&run, 0, usize::MAX).map_err(|error| Failure::of_store(&error))?;
    let id = format!("{agent}-{}", run.as_str().rsplit('-').next().unwrap_or_default());
    let scenario =
        recorded(&id, &agent, &events).map_err(|why| Failure::new(Exit::Failed, "not_recordable", why))?;
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
    let line = format!("{}\n", output::text_of(scenario)?);
    let mut open = std::fs::OpenOptions::new().create(true).append(true).open(file).map_err(failed)?;
    open.write_all(line.as_bytes()).map_err(failed)
}
