//! Settings of nodes, and the parts of a file outside of the graph.

use std::collections::HashSet;

use agent_types::Problem;
use serde_json::Value;

use super::build::Builder;
use super::{NodeIx, NodeKind, World};
use crate::definition::ConfigDefinition;
use crate::file::report::describe;
use crate::policy::{Cache, RULES};
use crate::problem::ProblemCode;
use crate::workflow::{NamedTool, TOOL, TOOL_NODE, Workflow};

/// Settings of nodes that name a model, an agent, a knowledge base.
const MODEL: &str = "profileId";
const AGENT: &str = "agentId";
const BASE: &str = "base";

/// Input and setting of a node that is a tool, for arguments as one object.
const ARGUMENTS: &str = "arguments";

impl Builder<'_, '_> {
    pub(super) fn check_settings(&mut self, workflow: &Workflow) {
        for node in 0..self.graph.nodes.len() {
            let node = NodeIx::try_from(node).unwrap_or(NodeIx::MAX);
            if matches!(self.graph.nodes[node as usize].kind, NodeKind::Plain | NodeKind::Bypass(_)) {
                self.check_config(node);
                check_tool_node(self, node);
            }
            self.check_rules(node);
            self.check_named_slots(node);
        }
        self.check_tools(workflow);
        self.check_variables(workflow);
    }

    fn check_config(&mut self, node: NodeIx) {
        let Some(definition) = self.definitions[node as usize] else { return };
        let config = &self.graph.spec(&self.graph.nodes[node as usize]).config_values;
        let mut found = Vec::new();
        for (key, rule) in &definition.config {
            let value = config.get(key).filter(|value| !value.is_null());
            found.extend(config_fault(rule, value).map(|(message, near)| (key.clone(), message, near)));
        }
        if let Some(modes) = &definition.modes {
            let chosen = modes.chosen(config);
            if !modes.modes.contains_key(chosen) {
                let near = agent_types::nearest(chosen, modes.modes.keys().map(String::as_str));
                let message = format!("unknown mode `{chosen}`");
                found.push((modes.config_key.clone(), message, near.map(str::to_owned)));
            }
        }
        let chooses_mode =
            |key: &String| definition.modes.as_ref().is_some_and(|modes| modes.config_key == *key);
        let is_known = |key: &String| definition.config.contains_key(key) || chooses_mode(key);
        // A type that declares no settings says nothing about them.
        let is_declared = !definition.config.is_empty();
        let unknown: Vec<String> = config
            .keys()
            .filter(|key| is_declared && !is_known(key) && !RULES.contains(&key.as_str()))
            .cloned()
            .collect();
        let named = [MODEL, AGENT, BASE].into_iter().filter(|key| definition.config.contains_key(*key));
        let named: Vec<(&str, String)> =
            named.filter_map(|key| Some((key, config.get(key)?.as_str()?.to_owned()))).collect();
        for (key, message, near) in found {
            let path = self.path_of(node);
            self.problem(Problem::error(ProblemCode::BadValue, message).at(path).slot(key).suggest(near));
        }
        for (key, name) in named {
            self.check_named(node, key, &name);
        }
        for key in unknown {
            let near = self.nearest(&key, definition.config.keys().map(String::as_str));
            let path = self.path_of(node);
            let message = format!("unknown setting `{key}`; it is not used");
            self.problem(Problem::warning(ProblemCode::BadValue, message).at(path).slot(key).suggest(near));
        }
    }

    /// Reports rules of a node that stand where they are not read, or do nothing.
    fn check_rules(&mut self, node: NodeIx) {
        let graph_node = &self.graph.nodes[node as usize];
        let (spec, is_zone) = (self.graph.spec(graph_node), matches!(graph_node.kind, NodeKind::Zone { .. }));
        let declares =
            |key: &str| self.definitions[node as usize].is_some_and(|own| own.config.contains_key(key));
        let misplaced = spec.config_values.keys().filter(|key| RULES.contains(&key.as_str()));
        let misplaced = misplaced.filter(|key| !(declares(key) || is_zone && *key == "skipIf"));
        let mut found: Vec<(String, String)> = misplaced
            .map(|key| {
                (
                    key.clone(),
                    format!("`{key}` belongs beside `type`, not into `configValues`; it is not used"),
                )
            })
            .collect();
        if spec.cancel_rest && !spec.first {
            let message = "`cancelRest` counts with `\"first\": true`; it is not used";
            found.push(("cancelRest".to_owned(), message.to_owned()));
        }
        for (key, message) in found {
            let path = self.path_of(node);
            self.problem(Problem::warning(ProblemCode::BadValue, message).at(path).slot(key));
        }
    }

    /// The model, agent or knowledge base that a node names must exist.
    fn check_named(&mut self, node: NodeIx, key: &'static str, name: &str) {
        let World { models, agents, bases, .. } = self.world;
        let (known, code, missing) = match key {
            MODEL => (models, ProblemCode::UnknownModel, "the model `{}`, which has no entry in weft.toml"),
            AGENT => (agents, ProblemCode::UnknownAgent, "the agent `{}`, which has no file below agents/"),
            _ => (
                bases,
                ProblemCode::UnknownBase,
                "the knowledge base `{}`, which has no entry [kb] in weft.toml",
            ),
        };
        let Some(known) = known.filter(|known| known.iter().all(|own| own != name)) else { return };
        let near = self.nearest(name, known.iter().map(String::as_str));
        let path = self.path_of(node);
        let message = format!("`{key}` names {}", missing.replace("{}", name));
        self.problem(Problem::error(code, message).at(path).slot(key).suggest(near));
    }

    /// Slots named by `lazy` and `cache.key`.
    fn check_named_slots(&mut self, node: NodeIx) {
        let spec = self.graph.spec(&self.graph.nodes[node as usize]);
        let keys = match &spec.cache {
            Some(Cache::ByKey(keys)) => keys.as_slice(),
            Some(Cache::Off | Cache::ByInputs) | None => &[],
        };
        if spec.lazy.is_empty() && keys.is_empty() {
            return;
        }
        let named: Vec<String> = spec.lazy.iter().chain(keys).cloned().collect();
        for name in named {
            if self.input_of(node, Some(&name)).is_none() {
                let names = self.input_names(node);
                let near = self.nearest(&name, names.iter().map(String::as_str));
                let path = self.path_of(node);
                let message = format!("`{name}` is not an input of it");
                self.problem(
                    Problem::error(ProblemCode::UnknownSlot, message).at(path).slot(name).suggest(near),
                );
            }
        }
    }

    fn check_tools(&mut self, workflow: &Workflow) {
        for NamedTool { node, setting, id } in workflow.tools_of_nodes() {
            let Some(known) = self.world.tools.filter(|known| !known.iter().any(|own| own == id)) else {
                continue;
            };
            let near = self.nearest(id, known.iter().map(String::as_str));
            let message = format!("`{setting}` names `{id}`, which is not a tool");
            let problem = Problem::error(ProblemCode::UnknownTool, message).at(node.to_owned());
            self.problem(problem.slot(id).suggest(near));
        }
        let Some(tools) = &workflow.available_tools else { return };
        for (list, ids) in tools.lists() {
            let mut seen = HashSet::new();
            for id in ids {
                if !seen.insert(id) {
                    let message = format!("`availableTools.{list}` names `{id}` twice");
                    self.problem(Problem::error(ProblemCode::BadValue, message).slot(id));
                }
                let Some(known) = self.world.tools else { continue };
                if !known.contains(id) {
                    let near = self.nearest(id, known.iter().map(String::as_str));
                    let message = format!("`availableTools.{list}` names `{id}`, which is not a tool");
                    self.problem(Problem::error(ProblemCode::UnknownTool, message).slot(id).suggest(near));
                }
            }
        }
    }

    fn check_variables(&mut self, workflow: &Workflow) {
        let mut seen = HashSet::new();
        for variable in &workflow.variables {
            if !seen.insert(&variable.name) {
                let message = format!("two variables have the name `{}`", variable.name);
                self.problem(Problem::error(ProblemCode::BadValue, message).slot(&variable.name));
            }
        }
    }
}

/// Inputs of a node that is a tool must be parameters of the tool, and those that it requires must be given.
fn check_tool_node(builder: &mut Builder<'_, '_>, node: NodeIx) {
    let own = &builder.graph.nodes[node as usize];
    let spec = builder.graph.spec(own);
    let Some(known) = builder.world.parameters.filter(|_| spec.node_type == TOOL_NODE) else { return };
    let Some(id) = spec.config_values.get(TOOL).and_then(Value::as_str) else { return };
    let Some(schema) = known.get(id) else { return };
    let inputs: Vec<String> =
        own.inputs.iter().map(|input| builder.graph.name(input.slot).to_string()).collect();
    let fixed = spec.config_values.get(ARGUMENTS).and_then(Value::as_object);
    let given: Vec<String> =
        inputs.iter().cloned().chain(fixed.into_iter().flat_map(|fixed| fixed.keys().cloned())).collect();
    let (id, whole) = (id.to_owned(), inputs.iter().any(|name| name == ARGUMENTS));
    let properties = schema.get("properties").and_then(Value::as_object);
    let names: Vec<&str> = properties.into_iter().flat_map(|own| own.keys().map(String::as_str)).collect();
    let is_open = schema.get("additionalProperties").is_some_and(|rule| *rule != Value::Bool(false));
    for name in given.iter().filter(|name| *name != ARGUMENTS && !is_open && !names.contains(&name.as_str()))
    {
        let near = builder.nearest(name, names.iter().copied());
        let path = builder.path_of(node);
        let message = format!("`{name}` is not a parameter of `{id}`");
        builder.problem(Problem::error(ProblemCode::UnknownSlot, message).at(path).slot(name).suggest(near));
    }
    let required = schema.get("required").and_then(Value::as_array).into_iter().flatten();
    let missing =
        required.filter_map(Value::as_str).filter(|name| !whole && given.iter().all(|own| own != name));
    for name in missing {
        let path = builder.path_of(node);
        let message = format!("`{id}` requires the parameter `{name}`, and nothing gives it");
        builder.problem(Problem::error(ProblemCode::MissingInput, message).at(path).slot(name));
    }
}

/// Describes the fault of a setting, with a suggested value.
fn config_fault(rule: &ConfigDefinition, value: Option<&Value>) -> Option<(String, Option<String>)> {
    let Some(value) = value else {
        let missing = rule.required && rule.default.is_none();
        return missing.then(|| ("this setting is required".to_owned(), None));
    };
    if rule.allowed.is_empty() || rule.allowed.contains(value) {
        return None;
    }
    let names: Vec<&str> = rule.allowed.iter().filter_map(Value::as_str).collect();
    let near = value.as_str().and_then(|text| agent_types::nearest(text, names.iter().copied()));
    let allowed: Vec<String> = rule.allowed.iter().map(ToString::to_string).collect();
    Some((
        format!("expected one of {}, found {}", allowed.join(", "), describe(value)),
        near.map(str::to_owned),
    ))
}
