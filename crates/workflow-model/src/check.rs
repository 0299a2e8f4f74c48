//! Everything that is wrong with a workflow, as a list.

use agent_types::Problem;

use crate::definition::{Definitions, WorkflowSource};
use crate::graph::{World, analyze};
use crate::problem::ProblemCode;
use crate::workflow::Workflow;

/// Everything that is wrong, errors and warnings.
///
/// ```
/// use workflow_model::{Definitions, NoWorkflows, NodeDefinition, ProblemCode, Workflow, check};
///
/// struct NoTypes;
/// impl Definitions for NoTypes {
///     fn definition(&self, _: &str) -> Option<&NodeDefinition> { None }
///     fn type_names(&self) -> Vec<&str> { vec![] }
/// }
///
/// let workflow = Workflow::from_json(r#"{"nodes": [{"id": "x", "type": "a:B"}], "edges": []}"#)?;
/// let problems = check(&workflow, &NoTypes, &NoWorkflows);
/// assert!(problems[0].is(ProblemCode::UnknownType));
/// # Ok::<(), workflow_model::LoadError>(())
/// ```
#[must_use]
pub fn check(
    workflow: &Workflow,
    definitions: &dyn Definitions,
    workflows: &dyn WorkflowSource,
) -> Vec<Problem> {
    analyze(workflow, &World::new(definitions, workflows)).problems
}

/// Checks that a workflow is usable as a tool: the parts that a model reads need a description.
#[must_use]
pub fn check_as_tool(workflow: &Workflow) -> Vec<Problem> {
    let mut problems = Vec::new();
    if workflow.description.as_deref().is_none_or(|text| text.trim().is_empty()) {
        let message = "the workflow has no description; a model reads it to decide when to call the tool";
        problems.push(Problem::warning(ProblemCode::MissingDescription, message));
    }
    let shown = workflow.interface_inputs.iter().filter(|(_, slot)| !slot.is_trigger() && !slot.is_stream);
    for (name, slot) in shown {
        if slot.description().is_none() {
            let message = format!("the parameter `{name}` has no description");
            problems.push(Problem::warning(ProblemCode::MissingDescription, message).slot(name));
        }
        if slot.is_combo()
            && let Some(default) = slot.default_value()
            && !slot.suggestions().iter().any(|suggestion| suggestion.value == *default)
        {
            let message = format!("the default {default} of `{name}` is missing among its suggestions");
            problems.push(Problem::warning(ProblemCode::BadValue, message).slot(name));
        }
    }
    problems
}

/// Notes on a file that weft accepts and the reference editor would refuse.
#[must_use]
pub fn reference_notes(workflow: &Workflow) -> Vec<String> {
    let sides =
        [("interfaceInputs", &workflow.interface_inputs), ("interfaceOutputs", &workflow.interface_outputs)];
    let mut notes = Vec::new();
    for (side, slots) in sides {
        for (name, slot) in slots {
            match &slot.key {
                None => notes.push(format!("{side}.{name} has no `key`; weft takes the name in the map")),
                Some(key) if key != name => {
                    notes.push(format!("{side}.{name} has the key `{key}`; weft takes the name in the map"));
                }
                Some(_) => {}
            }
        }
    }
    for node in workflow.nodes.iter().filter(|node| node.position.is_none()) {
        notes.push(format!("the node `{}` has no `position`", node.id));
    }
    notes
}
