//! The parts of a run, and how it ends. Each part guards its own fields.

use std::sync::Arc;

use serde_json::Value;

use super::asks::Asks;
use super::events::RunEvents;
use super::graph_state::GraphState;
use super::graph_state::frame::Key;
use super::options::RunOptions;
use super::shared::RunShared;
use super::sizes::LargeValues;
use super::tally::Tally;
use super::workers::Workers;
use super::workers::flights::Flights;
use super::workers::permits::Permits;
use super::zones::state::Zones;
use crate::error::RunError;
use crate::inputs::{Given, Inputs};
use crate::node::Node;
use crate::plan::data::{NodePlan, PlanData};
use crate::plan::policy::Policy;

/// Reason of a run's end.
#[derive(Debug)]
pub(super) enum Ending {
    /// Every node is settled.
    Complete,
    /// A node failed and the others are cancelled.
    Failed(RunError),
    /// A node stopped the run, with this value.
    Stopped(Arc<Value>),
    Cancelled,
    Deadline,
    /// Nothing runs and something is not settled.
    Stalled,
    /// Only questions are left.
    Waiting,
}

/// The parts of a run.
pub(super) struct RunState<'p> {
    pub(super) shared: &'p Arc<RunShared>,
    pub(super) plan: &'p PlanData,
    pub(super) options: RunOptions,
    pub(super) graph: GraphState<'p>,
    pub(super) workers: Workers<'p>,
    pub(super) zones: Zones,
    pub(super) asks: Asks,
    pub(super) events: RunEvents<'p>,
    pub(super) tally: Tally,
    pub(super) large: LargeValues,
    pub(super) end: RunEnd,
}

/// End of a run, as far as it is known.
#[derive(Default)]
pub(super) struct RunEnd {
    ending: Option<Ending>,
    /// The first failure of a run whose other nodes run to their end.
    first_error: Option<RunError>,
}

impl RunEnd {
    pub(super) fn set(&mut self, ending: Ending) {
        self.ending = Some(ending);
    }

    pub(super) fn is_set(&self) -> bool {
        self.ending.is_some()
    }

    pub(super) fn take(&mut self) -> Option<Ending> {
        self.ending.take()
    }

    /// Keeps the failure of a node if it is the first.
    pub(super) fn note_error(&mut self, error: RunError) {
        self.first_error.get_or_insert(error);
    }

    pub(super) fn first_error(&mut self) -> &mut Option<RunError> {
        &mut self.first_error
    }
}

impl<'p> RunState<'p> {
    pub(super) fn new(
        shared: &'p Arc<RunShared>,
        nodes: &'p [Arc<dyn Node>],
        arguments: Vec<Option<Arc<Value>>>,
        options: RunOptions,
    ) -> Self {
        let plan = &*shared.plan;
        let groups = plan.groups.iter().map(|name| options.groups.get(&**name).copied());
        let permits = Permits::new(options.max_parallel, groups);
        let flights = Flights::new(options.cache.clone().unwrap_or_default());
        Self {
            shared,
            plan,
            graph: GraphState::new(plan, arguments),
            workers: Workers::new(nodes, permits, flights),
            zones: Zones::default(),
            asks: Asks::default(),
            events: RunEvents::new(&*shared.sink, &options),
            tally: Tally::new(&options),
            large: LargeValues::default(),
            end: RunEnd::default(),
            options,
        }
    }

    /// Returns `true` if the run is to end.
    pub(super) fn is_over(&self) -> bool {
        self.end.is_set() || self.events.has_fault()
    }

    /// The rules of a node, where it has any.
    pub(super) fn policy(&self, key: Key) -> Option<&'p Policy> {
        self.plan.policy(self.graph.node(key)?)
    }

    /// The values of a node's inputs as its code reads them.
    pub(super) fn inputs(&self, key: Key, node: &NodePlan, values: Vec<Given>) -> Inputs {
        let scope = self.graph.frame(key).map_or(0, |frame| frame.standing().scope);
        let streams = values.iter().filter(|given| matches!(given, Given::Stream(_))).count();
        let reading = (streams > 1).then(Arc::default);
        Inputs { plan: Arc::clone(&self.shared.plan), scope, range: node.inputs, values, reading }
    }
}
