//! Configurations of another system, read as ours.
//!
//! What has a counterpart is taken over; every field that has none is a warning with its place in their file.

mod parts;
mod prompt;
mod request;

use agent_runtime::AgentProfile;
use serde_json::Value;

use crate::builder::FlowsBuilder;
use crate::config::{FlowsError, FlowsFile, Problem, Problems, Severity};

/// Keys of theirs that ours have not: a file with one of them is a configuration of theirs, not a list of tools.
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

/// What was read.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct ImportedFlows {
    /// `flows.json`.
    pub flows: FlowsFile,
    /// The agent that it describes; none where it describes none.
    pub agent: Option<AgentProfile>,
    /// What was left out or changed, each with its place in their file.
    pub warnings: Vec<Problem>,
}

/// Whether a value is a configuration of flows, and not of single tools.
#[must_use]
pub fn is_bu_configuration(value: &Value) -> bool {
    MARKS.iter().any(|key| value.get(key).is_some())
}

/// Reads a configuration in the form of document 004, or in the form that its program reads.
///
/// # Errors
/// No JSON, or no object. Everything else is a warning.
pub fn from_bu(text: &str) -> Result<ImportedFlows, FlowsError> {
    let value: Value = serde_json::from_str(text).map_err(|error| FlowsError::Json {
        line: error.line(),
        column: error.column(),
        message: error.to_string(),
    })?;
    let mut problems = Problems::default();
    let Value::Object(members) = value else {
        problems.error("", "bad_value", "the file must hold an object");
        return Err(FlowsError::Problems { problems: problems.into_list() });
    };
    let mut reader = parts::Reader {
        problems,
        file: FlowsFile::default(),
        profile: prompt::Profile::default(),
        places: parts::Places::default(),
    };
    reader.read(&members);
    let parts::Reader { mut problems, mut file, profile, mut places } = reader;
    let agent = profile.into_agent();
    file.agent = agent.as_ref().map(|agent| agent.id.clone()).or(file.agent);
    drop_unusable(&mut file, &mut places, &mut problems);
    Ok(ImportedFlows { flows: file, agent, warnings: problems.into_list() })
}

/// Leaves out what cannot be used, part by part, until the rest can.
fn drop_unusable(file: &mut FlowsFile, places: &mut parts::Places, problems: &mut Problems) {
    loop {
        let found = match FlowsBuilder::new(file).build() {
            Ok(flows) => {
                // Names of tools lead nowhere here: the project knows them.
                let told = flows.warnings().iter().filter(|warning| warning.code != "unknown_tool");
                told.for_each(|warning| {
                    problems.add(Problem { path: places.theirs(&warning.path), ..warning.clone() });
                });
                return;
            }
            Err(FlowsError::Problems { problems }) => problems,
            Err(FlowsError::Json { .. }) => return,
        };
        let errors = found.into_iter().filter(|problem| problem.severity == Severity::Error);
        let mut unusable: Vec<(String, usize)> = Vec::new();
        for problem in errors {
            let mut steps = problem.path.split('/').skip(1);
            let list = steps.next().unwrap_or_default().to_owned();
            let at = steps.next().and_then(|step| step.parse().ok()).unwrap_or(0);
            let message = format!("it is left out: {}", problem.message);
            let path = places.theirs(&problem.path);
            problems.add(Problem { severity: Severity::Warning, message, path, ..problem });
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
