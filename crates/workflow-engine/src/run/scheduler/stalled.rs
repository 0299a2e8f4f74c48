//! No plan that passes the check stalls, so what the engine promises then is shown on a scheduler that forgets a node.

use std::sync::Arc;

use agent_types::{
    Delivery, EventBody, EventSink, NodeErrorKind, Recorder, RunId, RunStatus, Timestamp, VirtualClock,
};
use async_trait::async_trait;
use serde_json::json;
use workflow_model::{DataFlowType, NoWorkflows, NodeDefinition, SlotDefinition, Workflow};

use super::Scheduler;
use crate::context::NodeContext;
use crate::error::NodeError;
use crate::inputs::Inputs;
use crate::node::{Node, NodeCatalog};
use crate::outputs::Outputs;
use crate::plan::Plan;
use crate::run::finalize::finalize;
use crate::run::options::RunOptions;
use crate::run::shared::RunShared;
use crate::run::state::RunState;
use crate::run::workers::mailbox::Inbox;

struct Nothing(NodeDefinition);

#[async_trait]
impl Node for Nothing {
    fn definition(&self) -> &NodeDefinition {
        &self.0
    }

    async fn run(&self, _: NodeContext, _: Inputs) -> Result<Outputs, NodeError> {
        Ok(Outputs::value(1))
    }
}

#[tokio::test]
async fn a_node_that_nobody_settles_ends_the_run_as_stalled() {
    let slot = || SlotDefinition::new(DataFlowType::Wildcard, "any");
    let definition = NodeDefinition::new("t:n", "does nothing").input("in", slot()).output("out", slot());
    let mut catalog = NodeCatalog::new();
    catalog.register(Nothing(definition));
    let file = json!({"nodes": [{"id": "a", "type": "t:n"}, {"id": "b", "type": "t:n"}],
        "edges": [{"source": "a", "sourceHandle": "out", "target": "b", "targetHandle": "in"}]});
    let plan = Plan::new(&Workflow::from_value(file).unwrap(), &catalog, &NoWorkflows).unwrap();
    let clock = Arc::new(VirtualClock::new(Timestamp::default()));
    let recorder = Recorder::new(RunId::new("r"), clock.clone());
    let mut subscription = recorder.subscribe(100);
    let options = RunOptions::new().with_clock(clock);
    let shared = Arc::new(RunShared {
        plan: Arc::clone(plan.data()),
        sink: Arc::clone(&recorder) as Arc<dyn EventSink>,
        workflow: None,
        clock: Arc::clone(&options.clock),
        services: options.services.clone(),
        budget: None,
        cancel: tokio_util::sync::CancellationToken::new(),
        over: tokio_util::sync::CancellationToken::new(),
        inbox: Inbox::default(),
    });
    let run = RunState::new(&shared, plan.nodes(), Vec::new(), options);
    let mut scheduler = Scheduler { run };
    scheduler.open();
    while scheduler.run.graph.queues().next_ready().is_some() {}
    assert!(!scheduler.step());
    assert!(scheduler.nothing_left());
    let outcome = finalize(scheduler.run).await;

    assert_eq!(outcome.status, RunStatus::Error);
    let error = outcome.error.unwrap();
    assert_eq!(error.kind, NodeErrorKind::Stalled.as_str());
    assert_eq!(error.details["nodes"], json!(["a", "b"]));
    let mut ends = Vec::new();
    while let Some(Delivery::Events(events)) = subscription.try_next() {
        ends.extend(events.iter().map(|event| event.body.clone()));
    }
    let cancelled = ends
        .iter()
        .filter(|body| matches!(body, EventBody::NodeCancelled { cause } if **cause == *"stalled"));
    assert_eq!(cancelled.count(), 2, "each node has its end");
    assert!(
        matches!(ends.last(), Some(EventBody::RunFinished { kind: Some(kind), .. }) if kind == "stalled")
    );
}
