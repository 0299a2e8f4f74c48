//! From the expanded graph to flat arrays.

mod layout;
mod needed;
mod settings;
mod streams;

use std::sync::Arc;

use agent_types::Problem;
use serde_json::{Map, Value};
use workflow_model::Analysis;
use workflow_model::graph::{Graph, NodeKind, ScopeKind};

use super::data::{Argument, PlanData};
use crate::error::PlanError;
use crate::node::{Node as NodeCode, NodeCatalog};

/// Compiles a graph without errors; settings and expressions are looked at in any case.
pub(super) fn compile(
    analysis: Analysis<'_>,
    catalog: &NodeCatalog,
) -> Result<(PlanData, Vec<Arc<dyn NodeCode>>), PlanError> {
    let Analysis { graph, mut problems, .. } = analysis;
    let settled = settings::prepare_settings(&graph, catalog, &mut problems);
    if !Problem::are_warnings(&problems) {
        return Err(PlanError { problems });
    }
    layout::Layout::new(&graph, catalog, settled).finish(problems)
}

/// Faults that tests in the settings of nodes find.
pub(super) fn self_tests(graph: &Graph<'_>, catalog: &NodeCatalog) -> Vec<Problem> {
    let plain = graph.nodes.iter().enumerate().filter(|(_, node)| matches!(node.kind, NodeKind::Plain));
    let found = plain.flat_map(|(index, node)| {
        let spec = graph.spec(node);
        let faults = catalog.get(&spec.node_type).map(|code| code.self_test(&spec.config_values));
        faults.into_iter().flatten().map(move |fault| problem_at(graph, index, fault))
    });
    found.collect()
}

/// The read-only values of the workflow as one object.
fn variables(graph: &Graph<'_>) -> Arc<Value> {
    let variables = graph.root().variables.iter();
    let map: Map<String, Value> =
        variables.map(|variable| (variable.name.clone(), variable.value.clone())).collect();
    Arc::new(Value::Object(map))
}

fn arguments(graph: &Graph<'_>) -> Vec<Argument> {
    let arguments = graph.scopes[0].inputs.iter().map(|(name, slot)| Argument {
        name: name.as_str().into(),
        data_flow_type: slot.data_flow_type,
        required: slot.is_required() && slot.default_value().is_none(),
        default: slot.absent_value().map(Arc::new),
    });
    arguments.collect()
}

/// A scope whose container is switched off never runs.
fn is_dead(graph: &Graph<'_>, scope: usize) -> bool {
    let scope = &graph.scopes[scope];
    let Some(owner) = scope.owner else { return scope.kind != ScopeKind::Root };
    let owner = &graph.nodes[owner as usize];
    matches!(owner.kind, NodeKind::Muted | NodeKind::Bypass(_)) || is_dead(graph, owner.scope as usize)
}

/// A problem of a node.
fn problem_at(graph: &Graph<'_>, node: usize, problem: Problem) -> Problem {
    problem.at(graph.full_path(u32::try_from(node).unwrap_or(u32::MAX)))
}
