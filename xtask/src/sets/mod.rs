//! Sets of outside cases: how each is read, and how it is put to the program.

mod calls;
mod files;
mod graphs;
mod http;
mod judge;
mod judged;
mod payloads;
mod plain;
mod protocol;
mod scenarios;
mod schemas;
mod streams;
mod templates;
mod texts;

use std::collections::HashMap;
use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use serde_json::Value;

use crate::conformance::lines_through;
use crate::workspace;

/// A set of cases of one kind.
pub(crate) struct Set {
    pub(crate) name: String,
    program: Program,
    cases: Vec<Case>,
}

/// Program that answers the requests of a set, one a line.
enum Program {
    /// `weft parse --jsonl` with these options.
    Parse(Vec<String>),
    /// The example `validate` of tool-schema.
    Validate,
    /// Commands of its own for each case of the folder.
    Commands(Commands, PathBuf),
}

/// Function that judges a folder of cases with the program.
type Commands = fn(&Path, &Path) -> Result<Outcome>;

struct Case {
    id: String,
    request: Value,
    /// Any of these will do; the first is the best.
    wanted: Vec<Value>,
}

/// Results of a set.
#[derive(Default)]
pub(crate) struct Outcome {
    pub(crate) passed: usize,
    pub(crate) failed: Vec<Failure>,
}

/// A case that failed.
pub(crate) struct Failure {
    pub(crate) id: String,
    pub(crate) wanted: String,
    pub(crate) got: String,
}

/// Counts a case as passed where what came is what was wanted.
fn check(outcome: &mut Outcome, id: &str, wanted: &Value, got: &Value) {
    if wanted == got {
        outcome.passed += 1;
    } else {
        let (wanted, got) = (shortened(&wanted.to_string()), shortened(&got.to_string()));
        outcome.failed.push(Failure { id: id.to_owned(), wanted, got });
    }
}

/// Every set whose data are there.
pub(crate) fn all(data: &Path, weft: &Path) -> Result<Vec<Set>> {
    let mut sets = Vec::new();
    let protocol = data.join("cases/protocol.jsonl");
    if protocol.is_file() {
        sets.extend(protocol::sets(&lines(&protocol)?)?);
    }
    for name in ["agent", "security"] {
        let file = data.join(format!("cases/{name}.jsonl"));
        if file.is_file() {
            sets.push(Set::by_commands(&format!("scenarios of {name}"), scenarios::of_file, file));
        }
    }
    for name in ["provider", "project"] {
        let file = data.join(format!("cases/{name}.jsonl"));
        if file.is_file() && judged::judge(&file).is_some() {
            sets.push(Set::by_commands(&format!("cases of {name}"), judged::of_file, file));
        }
    }
    let folder = |name: &str| Some(data.join("data").join(name)).filter(|folder| folder.is_dir());
    if let Some(bfcl) = folder("bfcl") {
        sets.push(Set::by_commands("dialogues", scenarios::dialogues, bfcl.clone()));
        sets.extend(calls::bfcl(&bfcl, weft)?);
    }
    if let Some(tau2) = folder("tau2") {
        sets.push(calls::tau2(&tau2)?);
    }
    if let Some(texts) = folder("toolcall_text") {
        sets.push(texts::action(&texts)?);
        sets.push(texts::as_sent(&texts)?);
    }
    if let Some(xml) = folder("xml") {
        sets.push(texts::xml(&xml)?);
    }
    if let Some(schemas) = folder("schemas") {
        sets.push(schemas::suite(&schemas)?);
    }
    if let Some(files) = folder("comfytavern-workflows") {
        let payloads = files.join("payloads");
        sets.push(Set::by_commands("workflow files", files::comfytavern, files.clone()));
        sets.push(Set::by_commands("templates", templates::imported, files));
        if payloads.is_dir() {
            sets.push(Set::by_commands("payloads of ComfyTavern", payloads::comfytavern, payloads));
        }
    }
    if let Some(comfyui) = folder("comfyui") {
        sets.push(Set::by_commands("graphs of ComfyUI", graphs::comfyui, comfyui));
    }
    if let Some(workflows) = folder("workflows") {
        sets.push(Set::by_commands("graphs of others", graphs::others, workflows));
    }
    if let Some(streams) = folder("streams") {
        sets.push(Set::by_commands("streams of model servers", streams::recorded, streams));
    }
    if let Some(http) = folder("http_tools") {
        sets.push(Set::by_commands("HTTP operations", http::operations, http));
    }
    Ok(sets)
}

impl Set {
    fn parse(name: &str, cases: Vec<Case>) -> Self {
        Self { name: name.into(), program: Program::Parse(Vec::new()), cases }
    }

    fn by_commands(name: &str, run: Commands, folder: PathBuf) -> Self {
        Self { name: name.into(), program: Program::Commands(run, folder), cases: Vec::new() }
    }

    /// Puts all cases to the program.
    pub(crate) fn run(&self, weft: &Path) -> Result<Outcome> {
        let requests: Vec<String> = self.cases.iter().map(|case| case.request.to_string()).collect();
        let input = requests.join("\n") + "\n";
        let printed = match &self.program {
            Program::Parse(options) => {
                let options = ["parse", "--jsonl"].into_iter().chain(options.iter().map(String::as_str));
                lines_through(weft, &options.collect::<Vec<_>>(), input)?
            }
            Program::Validate => {
                let example = workspace::example("validate")?;
                lines_through(&example, &[], input)?
            }
            Program::Commands(run, folder) => return run(folder, weft),
        };
        let mut results = HashMap::new();
        for line in printed {
            let result: Value = serde_json::from_str(&line)?;
            results.insert(result["id"].as_str().unwrap_or_default().to_owned(), result);
        }
        let mut outcome = Outcome::default();
        for case in &self.cases {
            let got = results.get(&case.id).unwrap_or(&Value::Null);
            if case.wanted.iter().any(|wanted| judge::fits(got, wanted)) {
                outcome.passed += 1;
            } else {
                outcome.failed.push(Failure {
                    id: case.id.clone(),
                    wanted: shortened(&case.wanted.first().unwrap_or(&Value::Null).to_string()),
                    got: shortened(&got.to_string()),
                });
            }
        }
        Ok(outcome)
    }
}

fn shortened(text: &str) -> String {
    text.chars().take(400).collect()
}

fn lines(path: &Path) -> Result<Vec<Value>> {
    let text = fs::read_to_string(path).with_context(|| path.display().to_string())?;
    let lines = text.lines().filter(|line| !line.trim().is_empty());
    lines.map(|line| serde_json::from_str(line).with_context(|| path.display().to_string())).collect()
}

fn text<'v>(value: &'v Value, key: &str) -> Result<&'v str> {
    value[key].as_str().with_context(|| format!("no text `{key}` in {}", shortened(&value.to_string())))
}
