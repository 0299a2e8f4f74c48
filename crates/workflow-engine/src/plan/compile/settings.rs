//! Settings of nodes, prepared; conditions, compiled.

use std::sync::Arc;

use workflow_model::graph::{Graph, NodeKind};
use workflow_model::{Node, Problem, ProblemCode, ZoneSpec};

use super::problem_at;
use crate::expression::{Expression, ExpressionError, Scope};
use crate::hash::NumberMap;
use crate::node::{Node as NodeCode, NodeCatalog};
use crate::plan::policy::Policy;
use crate::plan::prepared::Prepared;
use crate::plan::zone::{Condition, KeyRef};

/// Prepared settings, by node of the graph.
#[derive(Default)]
pub(super) struct PreparedSettings {
    pub(super) prepared: NumberMap<usize, Prepared>,
    pub(super) policies: NumberMap<usize, Policy>,
    pub(super) conditions: NumberMap<usize, Condition>,
    pub(super) groups: Vec<Arc<str>>,
    /// A node has an effect outside of the run.
    pub(super) has_effect: bool,
}

pub(super) fn prepare_settings(
    graph: &Graph<'_>,
    catalog: &NodeCatalog,
    problems: &mut Vec<Problem>,
) -> PreparedSettings {
    let mut settled = PreparedSettings::default();
    for (index, node) in graph.nodes.iter().enumerate() {
        let spec = graph.spec(node);
        if matches!(node.kind, NodeKind::Muted | NodeKind::Bypass(_)) {
            continue;
        }
        let code = catalog.get(&spec.node_type);
        if let (NodeKind::Plain, Some(code)) = (&node.kind, code) {
            prepare(graph, &**code, index, problems, &mut settled);
        }
        let by_type = || code.is_some_and(|code| code.has_effect(&spec.config_values));
        let mut policy = Policy::from_node(spec, spec.effect.unwrap_or_else(by_type));
        settled.has_effect |= policy.effect;
        policy.group = spec.group.as_deref().map(|name| group_index(&mut settled.groups, name));
        let skip_if = match &node.kind {
            NodeKind::Zone { spec: zone, .. } => zone.skip_if.as_deref(),
            NodeKind::Plain | NodeKind::Muted | NodeKind::Bypass(_) | NodeKind::Call { .. } => {
                spec.skip_if.as_deref()
            }
        };
        policy.skip_if = skip_if.and_then(|source| skip_condition(graph, index, source, problems));
        check_cache(graph, catalog, index, &mut policy, problems);
        if policy.idle.is_some() && !matches!(node.kind, NodeKind::Plain) {
            let message = "a zone or a group has no signs of life of its own: limit the nodes inside, or use `timeoutMs`";
            problems.push(
                problem_at(graph, index, Problem::warning(ProblemCode::BadValue, message)).slot("idleMs"),
            );
        }
        if !policy.is_plain() {
            settled.policies.insert(index, policy);
        }
        if let NodeKind::Zone { scope, spec: zone } = &node.kind {
            let condition = zone_condition(graph, index, *scope, zone, problems);
            settled.conditions.extend(condition.map(|condition| (index, condition)));
        }
    }
    settled
}

fn prepare(
    graph: &Graph<'_>,
    code: &dyn NodeCode,
    index: usize,
    problems: &mut Vec<Problem>,
    settled: &mut PreparedSettings,
) {
    let spec = graph.spec(&graph.nodes[index]);
    match code.prepare(&spec.config_values) {
        Ok(prepared) => {
            if prepared.is_some() {
                settled.prepared.insert(index, prepared);
            }
        }
        Err(faults) => {
            let known = |fault: &Problem| already_reported(graph, index, fault, problems);
            let new: Vec<Problem> = faults.into_iter().filter(|fault| !known(fault)).collect();
            problems.extend(new.into_iter().map(|fault| problem_at(graph, index, fault)));
        }
    }
}

/// A setting that is missing has been named already.
fn already_reported(graph: &Graph<'_>, index: usize, fault: &Problem, problems: &[Problem]) -> bool {
    let path = graph.full_path(u32::try_from(index).unwrap_or(u32::MAX));
    problems.iter().any(|problem| {
        problem.is(ProblemCode::BadValue)
            && problem.place.node.as_deref() == Some(&path)
            && problem.place.slot == fault.place.slot
    })
}

/// Only results of pure nodes are kept.
fn check_cache(
    graph: &Graph<'_>,
    catalog: &NodeCatalog,
    index: usize,
    policy: &mut Policy,
    problems: &mut Vec<Problem>,
) {
    if policy.cache.is_none() {
        return;
    }
    let node = &graph.nodes[index];
    let single = matches!(node.kind, NodeKind::Plain);
    let pure = graph.definition(node, catalog).is_some_and(|definition| definition.pure);
    if single && pure && !policy.effect {
        return;
    }
    policy.cache = None;
    let message = if single && policy.effect {
        "it has an effect: nothing is kept, and it happens each time"
    } else if single {
        "its type is not pure: nothing is kept"
    } else {
        "only results of single nodes are kept"
    };
    problems.push(problem_at(graph, index, Problem::warning(ProblemCode::BadValue, message)).slot("cache"));
}

fn group_index(groups: &mut Vec<Arc<str>>, name: &str) -> u32 {
    let found = groups.iter().position(|own| &**own == name).unwrap_or_else(|| {
        groups.push(name.into());
        groups.len() - 1
    });
    u32::try_from(found).unwrap_or(u32::MAX)
}

fn skip_condition(
    graph: &Graph<'_>,
    index: usize,
    source: &str,
    problems: &mut Vec<Problem>,
) -> Option<Arc<Expression>> {
    let mut scope = with_inputs(Scope::new(), graph, index).with_members("vars", variable_names(graph));
    if let NodeKind::Zone { spec, .. } = &graph.nodes[index].kind {
        scope = scope.with_members("state", spec.state.iter().map(|state| state.key.clone()));
    }
    match Expression::compile(source, &scope) {
        Ok(expression) => Some(Arc::new(expression)),
        Err(error) => {
            problems.push(expression_problem(graph, index, "skipIf", &error));
            None
        }
    }
}

fn zone_condition(
    graph: &Graph<'_>,
    index: usize,
    scope: u32,
    zone: &ZoneSpec,
    problems: &mut Vec<Problem>,
) -> Option<Condition> {
    let source = zone.condition.as_deref().map(str::trim).filter(|source| !source.is_empty())?;
    let results: Vec<&str> =
        graph.scopes[scope as usize].outputs.keys().map(|name| &**graph.name(*name)).collect();
    if let Some(key) = key_ref(zone, &results, source) {
        return Some(Condition::Key(key, source.to_owned()));
    }
    let names = with_inputs(Scope::new(), graph, index)
        .with("index")
        .with("item")
        .with_members("state", zone.state.iter().map(|state| state.key.clone()))
        .with_members("out", results.iter().copied())
        .with_members("last", results.iter().copied())
        .with_members("vars", variable_names(graph));
    match Expression::compile(source, &names) {
        Ok(expression) => Some(Condition::Expression(expression)),
        Err(error) => {
            problems.push(expression_problem(graph, index, "condition", &error));
            None
        }
    }
}

/// A condition that is just a name: of a carried value or of a result.
pub(super) fn key_ref(zone: &ZoneSpec, results: &[&str], name: &str) -> Option<KeyRef> {
    let place = |at: usize| u32::try_from(at).unwrap_or(u32::MAX);
    let state = zone.state_index(name).map(|at| KeyRef::State(place(at)));
    state.or_else(|| results.iter().position(|own| *own == name).map(|at| KeyRef::Result(place(at))))
}

/// With the inputs of a node by name, as far as a wire or a value leads to them. Inputs that are numbered make a list.
fn with_inputs(scope: Scope, graph: &Graph<'_>, index: usize) -> Scope {
    let names = || graph.nodes[index].inputs.iter().map(|input| &**graph.name(input.slot));
    let is_list = names().next().is_some() && names().all(|name| name.parse::<usize>().is_ok());
    if is_list { scope.with("inputs") } else { scope.with_members("inputs", names()) }
}

fn variable_names(graph: &Graph<'_>) -> impl Iterator<Item = String> {
    graph.root().variables.iter().map(|variable| variable.name.clone())
}

fn expression_problem(graph: &Graph<'_>, index: usize, key: &str, error: &ExpressionError) -> Problem {
    let problem = Problem::error(ProblemCode::BadValue, error.to_string()).suggest(error.suggestion());
    problem_at(graph, index, problem).slot(key)
}

/// Returns `true` if a node needs an entry of its own in the plan's details.
pub(super) fn is_detailed(spec: &Node, prepared: Option<&Prepared>, policy: Option<&Policy>) -> bool {
    !spec.config_values.is_empty() || prepared.is_some_and(Prepared::is_some) || policy.is_some()
}
