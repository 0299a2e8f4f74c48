//! Bypassed nodes: which input each output hands on.

use std::sync::Arc;

use indexmap::IndexMap;
use serde_json::Value;

use super::build::Builder;
use super::{BypassOutput, BypassSource, NodeIx};
use crate::definition::{BypassBehavior, SlotDefinition};
use crate::slot::{DataFlowType, Slot};
use crate::types::{type_default, type_fits};
use crate::workflow::Workflow;
use crate::zone::{ZoneMode, ZoneSpec};

/// Slots of a group or zone whose body is not looked at.
pub(super) struct Face {
    pub(super) inputs: IndexMap<String, SlotDefinition>,
    pub(super) outputs: IndexMap<String, SlotDefinition>,
    /// Its body may name more outputs.
    pub(super) is_open: bool,
}

impl Face {
    /// The interface of a workflow.
    pub(super) fn of_group(workflow: &Workflow) -> Self {
        let slots = |slots: &IndexMap<String, Slot>| {
            slots.iter().map(|(name, slot)| (name.clone(), SlotDefinition::from(slot))).collect()
        };
        Self {
            inputs: slots(&workflow.interface_inputs),
            outputs: slots(&workflow.interface_outputs),
            is_open: workflow.interface_outputs.is_empty(),
        }
    }

    /// The carried values of a zone, which go out as they came in or as the file begins them.
    pub(super) fn of_zone(spec: &ZoneSpec) -> Self {
        let carried = spec.state.iter().map(|state| {
            let slot = SlotDefinition::new(state.data_flow_type, "");
            let slot = state.initial.clone().map_or(slot.clone(), |initial| slot.with_default(initial));
            (state.key.clone(), slot)
        });
        let outputs: IndexMap<String, SlotDefinition> = carried.collect();
        let mut inputs = outputs.clone();
        if spec.mode == ZoneMode::Each {
            inputs.insert("items".to_owned(), SlotDefinition::new(DataFlowType::Array, ""));
        }
        Self { inputs, outputs, is_open: true }
    }
}

impl Builder<'_, '_> {
    /// Returns the value of each output of a bypassed node.
    pub(super) fn bypass_of(&mut self, node: NodeIx) -> Vec<BypassOutput> {
        let behavior = match self.definitions[node as usize] {
            _ if self.faces.contains_key(&node) => BypassBehavior::ByType,
            Some(definition) => definition.bypass.clone(),
            None => return Vec::new(),
        };
        let given: Vec<(String, BypassSource)> = match behavior {
            BypassBehavior::Mute => Vec::new(),
            BypassBehavior::Map { pass_through, defaults } => {
                let inputs =
                    pass_through.into_iter().map(|(output, input)| (output, self.handed(node, &input)));
                let inputs: Vec<_> = inputs.collect();
                let values = defaults.into_iter();
                inputs
                    .into_iter()
                    .chain(values.map(|(output, value)| (output, BypassSource::Value(Arc::new(value)))))
                    .collect()
            }
            BypassBehavior::ByType => {
                let outputs = self.output_names(node).into_iter();
                outputs.map(|output| (output.clone(), self.by_type(node, &output))).collect()
            }
        };
        let names = &mut self.graph.names;
        given.into_iter().map(|(output, from)| BypassOutput { output: names.intern(&output), from }).collect()
    }

    /// The input of the output's own name if the type fits, else the first that fits, those with a value before others.
    fn by_type(&mut self, node: NodeIx, output: &str) -> BypassSource {
        let inputs = &self.graph.nodes[node as usize].inputs;
        let mut candidates = vec![output.to_owned()];
        candidates.extend(inputs.iter().map(|input| self.graph.name(input.slot).to_string()));
        candidates.extend(self.input_names(node));
        match candidates.iter().find(|input| self.hands_to(node, input, output)) {
            Some(input) => self.handed(node, input),
            None => BypassSource::Value(Arc::new(self.empty_output(node, output))),
        }
    }

    fn handed(&mut self, node: NodeIx, input: &str) -> BypassSource {
        let kind = self.input_of(node, Some(input)).map(|found| found.slot);
        let empty = kind.map_or(Value::Null, |slot| {
            slot.default.clone().unwrap_or_else(|| type_default(slot.data_flow_type))
        });
        BypassSource::Input(self.graph.names.intern(input), Arc::new(empty))
    }

    fn hands_to(&self, node: NodeIx, input: &str, output: &str) -> bool {
        let (Some(input), Some((_, output))) =
            (self.input_of(node, Some(input)), self.output_of(node, Some(output)))
        else {
            return false;
        };
        let (input, output): (&SlotDefinition, &SlotDefinition) = (&input.slot, &output);
        let common = input.match_categories.iter().any(|category| output.match_categories.contains(category));
        input.is_stream == output.is_stream
            && (common || type_fits(input.data_flow_type, output.data_flow_type))
    }

    fn empty_output(&self, node: NodeIx, output: &str) -> Value {
        self.output_of(node, Some(output)).map_or(Value::Null, |(_, slot)| type_default(slot.data_flow_type))
    }
}
