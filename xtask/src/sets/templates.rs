//! Templates of `ComfyTavern` and of modular agents against the table of the guide: what is imported, passes the check and
//! runs.

use std::collections::HashMap;
use std::fs;
use std::path::Path;
use std::process::{Command, Output};

use anyhow::{Context, Result};
use serde_json::{Value, json};

use super::files::{listed, stem};
use super::graphs::Scratch;
use super::{Outcome, check};
use crate::workspace;

/// The page with the table: template, what it holds, import, check, run.
const GUIDE: &str = "docs/guide/workflows.md";
/// A cell where nothing is left to do.
const NOTHING: &str = "–";
/// Notes of a template's import, where it was not imported whole.
const WITH_NOTES: &str = "with notes";

/// Puts each template through import, check and run, and compares its row of the guide.
pub(crate) fn imported(folder: &Path, weft: &Path) -> Result<Outcome> {
    let page = workspace::root().join(GUIDE);
    let rows = rows(&fs::read_to_string(&page).with_context(|| page.display().to_string())?);
    let scratch = Scratch::new("templates")?;
    fs::write(scratch.0.join("weft.toml"), "")?;
    let mut outcome = Outcome::default();
    for (system, part) in [("comfytavern", "invented"), ("modular", "modular-agent")] {
        for file in listed(&folder.join(part))? {
            let id = stem(&file);
            if id == "xml-parser-cases" {
                continue;
            }
            let got = row(&Program { weft, project: &scratch.0 }, system, &file)?;
            let wanted = rows.get(&id).map_or(Value::Null, |cells| json!(cells));
            check(&mut outcome, &id, &wanted, &json!(got));
        }
    }
    Ok(outcome)
}

/// Rows of the table by template.
fn rows(page: &str) -> HashMap<String, Vec<String>> {
    let cells = |line: &str| -> Vec<String> {
        line.trim_matches('|').split('|').map(|cell| cell.trim().replace('`', "")).collect()
    };
    let rows = page.lines().filter(|line| line.starts_with("| `")).map(cells);
    rows.filter(|cells| cells.len() == 5).map(|cells| (cells[0].clone(), cells[2..].to_vec())).collect()
}

/// The program in a project.
struct Program<'p> {
    weft: &'p Path,
    project: &'p Path,
}

impl Program<'_> {
    fn run(&self, arguments: &[&str]) -> Result<Output> {
        let mut command = Command::new(self.weft);
        command.arg("-C").arg(self.project).args(arguments).args(["--output", "json"]);
        command.output().with_context(|| self.weft.display().to_string())
    }
}

/// Cells of a template: import, check, run.
fn row(program: &Program<'_>, system: &str, file: &Path) -> Result<[String; 3]> {
    let import = program.run(&["import", system, &file.display().to_string(), "--force"])?;
    let nothing = || NOTHING.to_owned();
    if !import.status.success() {
        return Ok(["refused".to_owned(), nothing(), nothing()]);
    }
    let import: Value = serde_json::from_slice(&import.stdout)?;
    let is_whole = import["notes"].as_array().is_none_or(Vec::is_empty);
    let imported = if is_whole { "whole" } else { WITH_NOTES }.to_owned();
    let id = import["workflows"][0].as_str().context("no workflow")?;
    let checked: Value = serde_json::from_slice(&program.run(&["workflow", "check", id])?.stdout)?;
    let checked = errors(&checked);
    if !checked.is_empty() {
        return Ok([imported, checked.join(", "), nothing()]);
    }
    let inputs = sample_inputs(&program.project.join(format!("workflows/{id}.json")))?;
    let mut arguments = vec!["workflow", "run", id];
    arguments.extend(inputs.iter().flat_map(|input| ["-i", input]));
    let ran: Value = serde_json::from_slice(&program.run(&arguments)?.stdout)?;
    let lacks_model = ran["error"]["message"].as_str().is_some_and(|text| text.contains("unknown model"));
    let ran = match ran["status"].as_str() {
        Some("ok") => "runs",
        _ if lacks_model => "needs its model",
        _ => ran["error"]["kind"].as_str().unwrap_or("fails"),
    };
    Ok([imported, "ok".to_owned(), ran.to_owned()])
}

/// Codes of the errors of a check, each once.
fn errors(checked: &Value) -> Vec<String> {
    let problems = checked["problems"].as_array().into_iter().flatten();
    let errors = problems.filter(|problem| problem["severity"] != "warning");
    let mut codes: Vec<String> =
        errors.filter_map(|problem| problem["code"].as_str()).map(str::to_owned).collect();
    codes.sort();
    codes.dedup();
    codes
}

/// A value for each required input of a workflow file.
fn sample_inputs(file: &Path) -> Result<Vec<String>> {
    let workflow: Value = serde_json::from_str(&fs::read_to_string(file)?)?;
    let inputs = workflow["interfaceInputs"].as_object().into_iter().flatten();
    let required = inputs.filter(|(_, slot)| slot["required"] == true);
    let sample = |(name, slot): (&String, &Value)| match slot["dataFlowType"].as_str() {
        Some("INTEGER" | "FLOAT") => format!("{name}:=1"),
        Some("BOOLEAN") => format!("{name}:=true"),
        Some("ARRAY") => format!("{name}:=[]"),
        Some("OBJECT") => format!("{name}:={{}}"),
        _ => format!("{name}=text"),
    };
    Ok(required.map(sample).collect())
}
