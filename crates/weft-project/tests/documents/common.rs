//! Projects of a few files, whose model is a script.

use std::path::Path;

use agent_runtime::{AgentState, ApprovalMode, RunOutcome};
use agent_types::{EventBody, TraceEvent};
use serde_json::{Map, Value, json};
use weft_harness::write;
use weft_project::{Project, ProjectError, ProjectOptions};
use workflow_engine::RunOptions;

/// The model that a project has an entry for.
const MODELS: &str =
    "[models.clever]\nprovider = \"openai\"\nmodel = \"m\"\nbase_url = \"http://127.0.0.1:9/v1\"\n";

/// A project with these files. The replies take the place of its model; without any, the model is the one of its settings.
pub(crate) fn project(root: &Path, files: &[(&str, Value)], script: &[Value]) -> Project {
    write(root, "weft.toml", MODELS);
    for (path, file) in files {
        write(root, path, &file.to_string());
    }
    let mut options = ProjectOptions::default();
    options.environment = None;
    if !script.is_empty() {
        let lines: Vec<String> = script.iter().map(Value::to_string).collect();
        write(root, "script.jsonl", &lines.join("\n"));
        options.script = Some(root.join("script.jsonl"));
    }
    Project::open(root, &options).unwrap()
}

pub(crate) fn edge(from: (&str, &str), to: (&str, &str)) -> Value {
    json!({"source": from.0, "sourceHandle": from.1, "target": to.0, "targetHandle": to.1})
}

/// A workflow whose result is a template over its inputs: `(name, type, required)`.
pub(crate) fn echo(description: &str, inputs: &[(&str, &str, bool)], template: &str) -> Value {
    let slots = inputs.iter().map(|(name, kind, required)| {
        let mut slot =
            json!({"dataFlowType": kind, "required": required, "description": format!("about {name}")});
        // What may be absent has a default, or the node that reads it would be skipped.
        if !required && *kind == "STRING" {
            slot["config"] = json!({"default": ""});
        }
        ((*name).to_owned(), slot)
    });
    let mut edges: Vec<Value> = inputs.iter().map(|(name, ..)| edge(("in", name), ("say", name))).collect();
    edges.push(edge(("say", "text"), ("out", "said")));
    json!({
        "description": description,
        "interfaceInputs": slots.collect::<Map<_, _>>(),
        "interfaceOutputs": {"said": {"dataFlowType": "STRING"}},
        "nodes": [{"id": "in", "type": "core:GroupInput"}, {"id": "out", "type": "core:GroupOutput"},
            {"id": "say", "type": "core:TextTemplate", "configValues": {"template": template}}],
        "edges": edges,
    })
}

fn block_on<T>(future: impl Future<Output = T>) -> T {
    tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap().block_on(future)
}

/// Has the agent `a` answer a message.
#[track_caller]
pub(crate) fn answer(project: &Project, message: &str) -> (RunOutcome, Vec<TraceEvent>) {
    let agent = project.agent("a").unwrap().with_approval(ApprovalMode::All);
    block_on(async {
        let run = agent.start(AgentState::default(), message).unwrap();
        let mut events = run.subscribe(100_000);
        let (outcome, _) = run.outcome().await;
        (outcome, weft_harness::events(&mut events))
    })
}

/// Observations of a run, in order, without what each begins with.
pub(crate) fn observations(events: &[TraceEvent]) -> Vec<String> {
    let texts = events.iter().filter_map(|event| match &event.body {
        EventBody::AgentObservation { text, .. } => Some(text.strip_prefix("Observation: ")?.to_owned()),
        _ => None,
    });
    texts.collect()
}

/// Messages for the user, in order.
pub(crate) fn messages(events: &[TraceEvent]) -> Vec<String> {
    let texts = events.iter().filter_map(|event| match &event.body {
        EventBody::AgentMessage { text, .. } => Some(text.clone()),
        _ => None,
    });
    texts.collect()
}

/// Results of a workflow of the project, and what it emitted.
#[track_caller]
pub(crate) fn run(project: &Project, id: &str, inputs: &Value) -> (Value, Vec<TraceEvent>) {
    let (_, workflow) = project.workflows().get(id).unwrap();
    let services = project.workflow_services(Map::new(), ApprovalMode::All, None).unwrap();
    let plan = project.plan(id, &workflow).unwrap();
    block_on(async {
        let mut options = RunOptions::new().with_services(services);
        options.workflow = Some(id.to_owned());
        let (options, mut events) = options.watched(100_000);
        let inputs = inputs.as_object().cloned().unwrap_or_default();
        let outcome = plan.run(inputs, options).outcome().await;
        assert!(outcome.error.is_none(), "{:?}", outcome.error);
        (Value::Object(outcome.outputs), weft_harness::events(&mut events))
    })
}

/// Problems of a workflow file, each in one line.
pub(crate) fn problems(project: &Project, id: &str) -> Vec<String> {
    let (_, workflow) = project.workflows().get(id).unwrap();
    match project.plan(id, &workflow) {
        Ok(_) => Vec::new(),
        Err(ProjectError::Invalid(error)) => error.problems.iter().map(ToString::to_string).collect(),
        Err(other) => panic!("{other}"),
    }
}
