//! A small world to check workflows in.

use std::collections::BTreeMap;
use std::sync::Arc;

use serde_json::Value;
use workflow_model::{
    ConfigDefinition, DataFlowType, Definitions, DynamicSlots, ModeDefinition, Modes, NodeDefinition,
    SlotDefinition, Workflow, WorkflowSource,
};

/// Types of nodes by name.
pub(crate) struct Types(Vec<NodeDefinition>);

fn text(description: &str) -> SlotDefinition {
    SlotDefinition::new(DataFlowType::String, description)
}

fn number() -> SlotDefinition {
    SlotDefinition::new(DataFlowType::Float, "a number").required()
}

impl Default for Types {
    fn default() -> Self {
        let any = || SlotDefinition::new(DataFlowType::Wildcard, "anything");
        let math = Modes::new("mode", "add")
            .mode(
                "add",
                ModeDefinition::new("Add").input("a", number()).input("b", number()).output("sum", number()),
            )
            .mode("negate", ModeDefinition::new("Negate").input("a", number()).output("negative", number()));
        Self(vec![
            NodeDefinition::new("t:Const", "gives a value").input("value", any()).output("out", any()),
            NodeDefinition::new("t:Upper", "upper case")
                .input("text", text("t").required())
                .output("text", text("T")),
            NodeDefinition::new("t:Merge", "joins")
                .input("parts", text("parts").multi())
                .output("text", text("joined")),
            NodeDefinition::new("t:Object", "an object")
                .input("text", text("t"))
                .output("object", SlotDefinition::new(DataFlowType::Object, "o")),
            NodeDefinition::new("t:Math", "calculates")
                .modes(math)
                .config("mode", ConfigDefinition::new(DataFlowType::String, "which operation")),
            NodeDefinition::new("t:Switch", "one of several")
                .dynamic_outputs(DynamicSlots::KeysOf("cases"))
                .config("cases", ConfigDefinition::new(DataFlowType::Array, "names"))
                .config("level", ConfigDefinition::new(DataFlowType::Integer, "how").required()),
        ])
    }
}

impl Definitions for Types {
    fn definition(&self, node_type: &str) -> Option<&NodeDefinition> {
        self.0.iter().find(|definition| definition.node_type == node_type)
    }

    fn type_names(&self) -> Vec<&str> {
        self.0.iter().map(|definition| definition.node_type.as_str()).collect()
    }
}

/// Other workflows by id.
pub(crate) struct Project(BTreeMap<String, Arc<Workflow>>);

/// Other workflows from their files.
pub(crate) fn project(files: &[(&str, Value)]) -> Project {
    Project(files.iter().map(|(id, file)| ((*id).to_owned(), Arc::new(workflow(file.clone())))).collect())
}

impl WorkflowSource for Project {
    fn workflow(&self, id: &str) -> Option<Arc<Workflow>> {
        self.0.get(id).cloned()
    }

    fn workflow_ids(&self) -> Vec<String> {
        self.0.keys().cloned().collect()
    }
}

/// A workflow from its file.
pub(crate) fn workflow(file: Value) -> Workflow {
    Workflow::from_value(file).unwrap()
}
