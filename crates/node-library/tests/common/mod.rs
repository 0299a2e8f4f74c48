//! Workflows of one node.

use agent_types::EventBody;
use serde_json::{Map, Value, json};
use weft_harness::{VirtualTime, events};
use workflow_engine::{Plan, RunOptions, RunOutcome};
use workflow_model::{NoWorkflows, Workflow};

/// A workflow of one node `n` whose used outputs are results.
pub(crate) fn single(node_type: &str, config: &Value, inputs: &Value, outputs: &[&str]) -> Workflow {
    let slots: Map<String, Value> =
        outputs.iter().map(|name| ((*name).to_owned(), json!({"dataFlowType": "WILDCARD"}))).collect();
    let edges: Vec<Value> = outputs
        .iter()
        .map(|name| json!({"source": "n", "sourceHandle": name, "target": "out", "targetHandle": name}))
        .collect();
    Workflow::from_value(json!({
        "nodes": [{"id": "n", "type": format!("core:{node_type}"), "configValues": config, "inputValues": inputs},
                  {"id": "out", "type": "core:GroupOutput"}],
        "edges": edges,
        "interfaceOutputs": slots,
        "variables": [{"name": "limit", "value": 3}]
    }))
    .unwrap()
}

pub(crate) fn run(workflow: &Workflow, options: RunOptions) -> (RunOutcome, Vec<EventBody>) {
    let plan =
        Plan::new(workflow, &node_library::catalog(), &NoWorkflows).unwrap_or_else(|error| panic!("{error}"));
    let time = VirtualTime::default();
    let (options, mut subscriber) = options.with_clock(time.shared_clock()).watched(10_000);
    let outcome = time.block_on(async { plan.run(Map::new(), options).outcome().await });
    (outcome, events(&mut subscriber).into_iter().map(|event| event.body).collect())
}
