//! Configurations of another system, read as ours.
//!
//! Parts with a counterpart are mapped; every other field is reported with its place in the file.

mod parts;
mod prompt;
mod request;

use agent_runtime::AgentProfile;
use executors_flow_system::{FlowsBuilder, FlowsError, FlowsFile, Severity};
use serde_json::Value;

use crate::error::ImportError;
use crate::fields::Ledger;
use crate::report::{LEFT_OUT, Report};

/// Keys that `flows.json` does not have: a file with one of them is a configuration of theirs, not a list of tools.
const MARKS: [&str; 9] = [
    "basic_settings",
    "instructions",
    "constraints",
    "action_books",
    "skills",
    "flows",
    "system_actions",
    "timers",
    "retrieve_knowledge_url",
];

/// Flows and an agent that were read from a configuration.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct ImportedFlows {
    /// `flows.json`.
    pub flows: FlowsFile,
    /// The agent that it describes; none where it describes none.
    pub agent: Option<AgentProfile>,
    /// The fate of every member of the file.
    pub report: Report,
}

/// Returns `true` for a configuration of flows, `false` for one of single tools.
#[must_use]
pub fn is_bu_configuration(value: &Value) -> bool {
    MARKS.iter().any(|key| value.get(key).is_some())
}

/// Reads a configuration in the form of document 004, or in the form that its program reads.
///
/// # Errors
/// The text is not JSON, or not an object. Everything else is an entry of the report.
pub fn from_bu(text: &str) -> Result<ImportedFlows, ImportError> {
    let value: Value = serde_json::from_str(text)?;
    if !value.is_object() {
        return Err(ImportError::NoObject);
    }
    let ledger = Ledger::new(&value);
    let mut reader = parts::Reader {
        ledger: &ledger,
        file: FlowsFile::default(),
        profile: prompt::Profile::default(),
        places: parts::Places::default(),
    };
    reader.read(ledger.root());
    let parts::Reader { mut file, profile, mut places, .. } = reader;
    let agent = profile.into_agent();
    file.agent = agent.as_ref().map(|agent| agent.id.clone()).or(file.agent);
    drop_unusable(&mut file, &mut places, &ledger);
    Ok(ImportedFlows { flows: file, agent, report: ledger.close() })
}

/// Leaves out what cannot be used, part by part, until the rest can.
fn drop_unusable(file: &mut FlowsFile, places: &mut parts::Places, ledger: &Ledger<'_>) {
    loop {
        let found = match FlowsBuilder::new(file).build() {
            Ok(flows) => {
                // Names of tools lead nowhere here: the project knows them.
                let warnings = flows.warnings().iter().filter(|warning| warning.code != "unknown_tool");
                warnings.for_each(|warning| {
                    ledger.changed(
                        places.theirs(warning.value_path()),
                        warning.code,
                        warning.message.clone(),
                    );
                });
                return;
            }
            Err(FlowsError::Problems { problems }) => problems,
            Err(_) => return,
        };
        let errors = found.into_iter().filter(|problem| problem.severity == Severity::Error);
        let mut unusable: Vec<(String, usize)> = Vec::new();
        for problem in errors {
            let mut steps = problem.value_path().split('/').skip(1);
            let list = steps.next().unwrap_or_default().to_owned();
            let at = steps.next().and_then(|step| step.parse().ok()).unwrap_or(0);
            let message = format!("it is left out: {}", problem.message);
            let (place, whole) =
                (places.theirs(problem.value_path()), places.theirs(&format!("/{list}/{at}")));
            if place != whole {
                ledger.unsupported(whole, LEFT_OUT, "it is left out: a part of it cannot be used");
            }
            ledger.unsupported(place, problem.code, message);
            if !unusable.contains(&(list.clone(), at)) {
                unusable.push((list, at));
            }
        }
        unusable.sort_by_key(|(_, at)| std::cmp::Reverse(*at));
        for (list, at) in unusable {
            places.remove(&list, at);
            if !remove(file, &list, at) {
                return;
            }
        }
    }
}

/// Takes a part out; false where there is none.
fn remove(file: &mut FlowsFile, list: &str, at: usize) -> bool {
    fn take<T>(items: &mut Vec<T>, at: usize) -> bool {
        let is_there = at < items.len();
        if is_there {
            items.remove(at);
        }
        is_there
    }
    match list {
        "skills" => take(&mut file.skills, at),
        "tools" => take(&mut file.tools, at),
        "flows" => take(&mut file.flows, at),
        "system_actions" => take(&mut file.system_actions, at),
        "timers" => take(&mut file.timers, at),
        "retrieve_knowledge" => file.retrieve_knowledge.take().is_some(),
        _ => false,
    }
}
