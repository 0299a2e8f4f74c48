//! Types of nodes that are wiring: the engine gives them their meaning, no code runs for them.

use crate::definition::{ConfigDefinition, DynamicSlots, NodeDefinition, SlotDefinition};
use crate::slot::DataFlowType;

/// Gives the workflow's arguments.
pub const GROUP_INPUT: &str = "core:GroupInput";
/// Takes the workflow's results, or those of a loop body.
pub const GROUP_OUTPUT: &str = "core:GroupOutput";
/// Embeds another workflow.
pub const NODE_GROUP: &str = "core:NodeGroup";
/// Runs another workflow as one step.
pub const WORKFLOW: &str = "core:Workflow";
/// Runs its body pass by pass.
pub const LOOP_ZONE: &str = "core:LoopZone";
/// Gives the carried values of a pass.
pub const LOOP_STATE: &str = "core:LoopState";
/// Takes the values carried to the next pass.
pub const LOOP_NEXT: &str = "core:LoopNext";
/// A box that an editor draws around nodes.
pub const FRAME: &str = "core:Frame";

/// All of them.
pub const ALL: [&str; 8] =
    [GROUP_INPUT, GROUP_OUTPUT, NODE_GROUP, WORKFLOW, LOOP_ZONE, LOOP_STATE, LOOP_NEXT, FRAME];

/// The slot that gives the error of a node whose `onError` is `branch`.
pub const ERROR_SLOT: &str = "error";

/// Definitions of the wiring types, for editors and the reference.
#[must_use]
pub fn structural_definitions() -> Vec<NodeDefinition> {
    vec![
        group_input(),
        group_output(),
        node_group(),
        workflow(),
        loop_zone(),
        loop_state(),
        loop_next(),
        frame(),
    ]
}

fn group_input() -> NodeDefinition {
    NodeDefinition::new(
        GROUP_INPUT,
        "Gives the arguments of the workflow; its outputs are `interfaceInputs`.",
    )
    .dynamic_outputs(DynamicSlots::Any)
}

fn group_output() -> NodeDefinition {
    NodeDefinition::new(
        GROUP_OUTPUT,
        "Takes the results of the workflow; its inputs are `interfaceOutputs`. Inside a loop zone it takes the results of a pass, one input each.",
    )
    .dynamic_inputs(DynamicSlots::Any)
}

fn node_group() -> NodeDefinition {
    NodeDefinition::new(NODE_GROUP, "Embeds another workflow; its slots are that workflow's interface.")
        .config(
            "referencedWorkflowId",
            ConfigDefinition::new(DataFlowType::String, "id of the workflow").required(),
        )
        .dynamic_inputs(DynamicSlots::Any)
        .dynamic_outputs(DynamicSlots::Any)
}

fn workflow() -> NodeDefinition {
    NodeDefinition::new(
        WORKFLOW,
        "Runs another workflow of the project as one step inside the run; its slots are that workflow's interface. Limits, retries and `onError` count for the whole of it.",
    )
    .config(
        "workflow",
        ConfigDefinition::new(DataFlowType::String, "id of the workflow, which must not contain this one").required(),
    )
    .dynamic_inputs(DynamicSlots::Any)
    .dynamic_outputs(DynamicSlots::Any)
}

/// Setting of a node that names the workflow which it runs or embeds.
#[must_use]
pub(crate) fn workflow_setting(node_type: &str) -> Option<&'static str> {
    match node_type {
        NODE_GROUP => Some("referencedWorkflowId"),
        WORKFLOW => Some("workflow"),
        _ => None,
    }
}

/// Names of the settings of a loop zone.
pub(crate) const ZONE_SETTINGS: [&str; 13] = [
    "mode",
    "state",
    "condition",
    "times",
    "maxIterations",
    "onMax",
    "test",
    "parallel",
    "onItemError",
    "onPassError",
    "collect",
    "skipIf",
    "body",
];

fn loop_zone() -> NodeDefinition {
    use DataFlowType::{Array, Integer, Object, String};
    NodeDefinition::new(
        LOOP_ZONE,
        "Runs its body pass by pass: the nodes whose `parentNode` it is, or `body`. State keys are input slots (first values) and output slots (last values); so are, as outputs, the results of the last pass and `collected.<name>`.",
    )
    .input("items", SlotDefinition::new(Array, "with mode `each`: the list, one item a pass"))
    .output("stream", SlotDefinition::new(String, "one chunk a pass: the outputs of the body").stream())
    .dynamic_inputs(DynamicSlots::Any)
    .dynamic_outputs(DynamicSlots::Any)
    .config("mode", ConfigDefinition::new(String, "when it ends").with_default("until").one_of(["until", "while", "times", "each"]))
    .config("state", ConfigDefinition::new(Array, "carried values: a list of {key, dataFlowType, initial?}"))
    .config(
        "condition",
        ConfigDefinition::new(String, "expression over `state`, `index`, `item`, `out`, `last`, `vars`; or the name of a boolean key"),
    )
    .config("times", ConfigDefinition::new(Integer, "with mode `times`: how many passes"))
    .config(
        "maxIterations",
        ConfigDefinition::new(Integer, "passes at most; 1,000 for `until` and `while`, no limit for `times` and `each`"),
    )
    .config("onMax", ConfigDefinition::new(String, "what the last pass allowed means").with_default("finish").one_of(["finish", "fail"]))
    .config("test", ConfigDefinition::new(String, "when the condition is read; before the pass for `while`, else after it").one_of(["after", "before"]))
    .config("parallel", ConfigDefinition::new(Integer, "with mode `each`: passes at once, at most 256").with_default(1))
    .config("onItemError", ConfigDefinition::new(String, "with mode `each`: what a failed pass means").with_default("fail").one_of(["fail", "null", "drop"]))
    .config("onPassError", ConfigDefinition::new(String, "what a failed pass means in the other modes").with_default("fail").one_of(["fail", "continue"]))
    .config("collect", ConfigDefinition::new(Array, "names whose values of all passes come out as `collected.<name>`"))
    .config("skipIf", ConfigDefinition::new(String, "expression read once at entry; true skips the zone"))
    .config("body", ConfigDefinition::new(Object, "{nodes, edges}, where the body is not given by `parentNode`"))
}

fn loop_state() -> NodeDefinition {
    use DataFlowType::{Integer, Wildcard};
    NodeDefinition::new(LOOP_STATE, "Gives the values of this pass; each state key is an output slot.")
        .output("index", SlotDefinition::new(Integer, "number of the pass, from 0"))
        .output("item", SlotDefinition::new(Wildcard, "with mode `each`: the item of this pass"))
        .output("remaining", SlotDefinition::new(Integer, "passes left after this one, 0 in the last"))
        .dynamic_outputs(DynamicSlots::Any)
}

fn loop_next() -> NodeDefinition {
    use DataFlowType::Boolean;
    NodeDefinition::new(
        LOOP_NEXT,
        "Takes the values for the next pass; keys without an edge stay as they are.",
    )
    .input("break", SlotDefinition::new(Boolean, "true ends the loop after this pass"))
    .input("continue", SlotDefinition::new(Boolean, "true drops what this pass collects"))
    .dynamic_inputs(DynamicSlots::Any)
}

fn frame() -> NodeDefinition {
    NodeDefinition::new(FRAME, "A box around nodes in an editor; it does nothing.")
}
