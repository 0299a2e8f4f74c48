//! Runs that an earlier version began, in which an input without a default had an empty value.
#![expect(clippy::unwrap_used, reason = "a test may stop at the first surprise")]

use std::path::Path;
use std::sync::Arc;

use agent_types::{EventBody, EventSink, RunId, RunStatus, StoredEvent, UnsequencedEvent};
use run_store::{NewRun, Store};
use serde_json::{Map, Value, json};
use weft_harness::write;
use weft_project::{Project, ProjectOptions};
use weft_runs::{
    Answer, AnswerRequest, ForkRequest, LocalRuns, ProjectFiles, RunHandle, RunOutcome, RunService,
    RunsOptions, Then, Version, WorkflowRequest,
};

/// An interface of texts, with empty ones as defaults.
fn texts(names: &[&str], has_defaults: bool) -> Value {
    let config = if has_defaults { json!({"default": ""}) } else { json!({}) };
    let slots =
        names.iter().map(|name| ((*name).to_owned(), json!({"dataFlowType": "STRING", "config": config})));
    slots.collect::<Map<_, _>>().into()
}

/// Joins its inputs in the workflow and in a group, and asks between.
fn outer(has_defaults: bool) -> Value {
    json!({"name": "join", "description": "Joins.", "interfaceInputs": texts(&["a", "b"], has_defaults),
        "interfaceOutputs": {"v": {"dataFlowType": "WILDCARD"}, "w": {"dataFlowType": "WILDCARD"}},
        "nodes": [
            {"id": "in", "type": "core:GroupInput"},
            {"id": "merge", "type": "core:TextTemplate", "configValues": {"template": "<{{ a }}{{ b }}>"}},
            {"id": "ask", "type": "core:Ask", "configValues": {"prompt": "what?"}},
            {"id": "group", "type": "core:NodeGroup", "configValues": {"referencedWorkflowId": "inner"}},
            {"id": "out", "type": "core:GroupOutput"}],
        "edges": [
            {"source": "in", "sourceHandle": "a", "target": "merge", "targetHandle": "a"},
            {"source": "in", "sourceHandle": "b", "target": "merge", "targetHandle": "b"},
            {"source": "merge", "sourceHandle": "text", "target": "ask", "targetHandle": "context"},
            {"source": "ask", "sourceHandle": "answer", "target": "group", "targetHandle": "y"},
            {"source": "merge", "sourceHandle": "text", "target": "out", "targetHandle": "v"},
            {"source": "group", "sourceHandle": "o", "target": "out", "targetHandle": "w"}]})
}

/// Joins an input that is given and one that is not.
fn inner(has_defaults: bool) -> Value {
    json!({"name": "inner", "description": "Joins.", "interfaceInputs": texts(&["x", "y"], has_defaults),
        "interfaceOutputs": {"o": {"dataFlowType": "WILDCARD"}},
        "nodes": [
            {"id": "in", "type": "core:GroupInput"},
            {"id": "m", "type": "core:TextTemplate", "configValues": {"template": "[{{ x }}{{ y }}]"}},
            {"id": "out", "type": "core:GroupOutput"}],
        "edges": [
            {"source": "in", "sourceHandle": "x", "target": "m", "targetHandle": "x"},
            {"source": "in", "sourceHandle": "y", "target": "m", "targetHandle": "y"},
            {"source": "m", "sourceHandle": "text", "target": "out", "targetHandle": "o"}]})
}

/// The project with or without defaults, as a program that has just begun has it.
fn open(folder: &Path, has_defaults: bool) -> (LocalRuns, Store) {
    write(folder, "weft.toml", "[store]\nsync = \"normal\"\n");
    write(folder, "workflows/join.json", &outer(has_defaults).to_string());
    write(folder, "workflows/inner.json", &inner(has_defaults).to_string());
    let mut options = ProjectOptions::default();
    options.environment = None;
    let project = Project::open(folder, &options).unwrap();
    let store = project.store().unwrap().unwrap().clone();
    (LocalRuns::new(Arc::new(ProjectFiles::fixed(project)), RunsOptions::default()), store)
}

fn events(store: &Store, run: &RunId) -> Vec<StoredEvent> {
    store.groups(run).flat_map(Result::unwrap).collect()
}

/// A run with a record, and with the events of another one.
fn recorded(store: &Store, events: Vec<StoredEvent>, plan: Value) -> RunId {
    let clock = Arc::new(agent_types::SystemClock);
    let new = NewRun { workflow: Some("join".into()), plan, ..NewRun::new(RunId::generate()) };
    let run = store.begin(new, clock).unwrap();
    for StoredEvent { event, record } in events {
        let record = record.map(Box::new);
        while run.new_span() < event.place.span {}
        run.record(&mut vec![UnsequencedEvent { place: event.place, body: event.body, record }]);
    }
    let id = run.run().clone();
    drop(run);
    store.flush().unwrap();
    id
}

async fn answered(runs: &LocalRuns, run: &RunId) -> RunHandle {
    let request = AnswerRequest {
        run: run.clone(),
        ask: None,
        answer: Answer::Value(json!("so")),
        version: Version::Current,
        then: Then::Resume,
    };
    runs.answer(request).await.unwrap().unwrap()
}

async fn ended(run: RunHandle) -> (RunStatus, Map<String, Value>) {
    let RunOutcome::Workflow(outcome) = run.outcome.await.unwrap() else { unreachable!() };
    (outcome.status, outcome.outputs)
}

fn starts(store: &Store, run: &RunId, node: &str) -> usize {
    let events = events(store, run).into_iter().filter(|kept| {
        matches!(kept.event.body, EventBody::NodeStarted { .. })
            && kept.event.place.path.as_deref() == Some(node)
    });
    events.count()
}

/// The events that an earlier version recorded until the question.
async fn former_events(folder: &Path) -> Vec<StoredEvent> {
    let (runs, store) = open(folder, true);
    let request = WorkflowRequest { id: "join".into(), ..WorkflowRequest::default() };
    let run = runs.begin(request.into()).await.unwrap();
    let id = run.id.clone();
    assert_eq!(ended(run).await.0, RunStatus::Waiting);
    assert_eq!(store.known(&id).unwrap().new.plan["absent_inputs"], true);
    events(&store, &id)
}

fn record(inputs: &Value) -> Value {
    json!({"kind": "workflow", "id": "join", "workflow": outer(false), "inputs": inputs})
}

#[tokio::test(flavor = "multi_thread")]
async fn a_run_of_an_earlier_version_keeps_the_empty_values_of_its_inputs() {
    let folder = tempfile::tempdir().unwrap();
    let former = former_events(folder.path()).await;
    let (runs, store) = open(folder.path(), false);
    let wanted = json!({"v": "<>", "w": "[so]"});
    for inputs in [json!({}), json!({"a": null})] {
        let run = recorded(&store, former.clone(), record(&inputs));
        let (status, outputs) = ended(answered(&runs, &run).await).await;
        assert_eq!((status, Value::Object(outputs)), (RunStatus::Ok, wanted.clone()), "{inputs}");
        assert_eq!(starts(&store, &run, "merge"), 1, "what had finished is not executed again");
        let changes = [("merge".to_owned(), weft_runs::NodeValue::Json(json!("other")))].into();
        let fork = ForkRequest { of: run, at: None, changes, version: Version::AsItWas };
        let fork = runs.fork(fork).await.unwrap();
        let id = fork.id.clone();
        assert_eq!(ended(fork).await.0, RunStatus::Waiting);
        assert_eq!(store.known(&id).unwrap().new.plan.get("absent_inputs"), None);
        let (status, outputs) = ended(answered(&runs, &id).await).await;
        assert_eq!((status, Value::Object(outputs)), (RunStatus::Ok, json!({"v": "other", "w": "[so]"})));
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn an_input_whose_empty_value_cannot_be_given_refuses_the_resumption() {
    let folder = tempfile::tempdir().unwrap();
    let former = former_events(folder.path()).await;
    let (runs, store) = open(folder.path(), false);
    let mut plan = record(&json!({}));
    plan["workflow"]["interfaceInputs"]["data"] = json!({"dataFlowType": "BINARY"});
    let run = recorded(&store, former, plan);
    let refused = runs.resume(&run, Version::AsItWas).await.unwrap_err();
    assert_eq!(refused.code(), "not_resumable", "{refused}");
    assert!(refused.to_string().contains("`data`"), "{refused}");
}
