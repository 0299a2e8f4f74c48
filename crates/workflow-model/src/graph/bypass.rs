//! Bypassed nodes: which input each output hands on.

use std::sync::Arc;

use serde_json::Value;

use super::build::Builder;
use super::{BypassOutput, BypassSource, NodeIx};
use crate::definition::{BypassBehavior, SlotDefinition};
use crate::types::{type_default, type_fits};

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
                    pass_through.into_iter().map(|(output, input)| (output, handed(self, node, &input)));
                let inputs: Vec<_> = inputs.collect();
                let values = defaults.into_iter();
                inputs
                    .into_iter()
                    .chain(values.map(|(output, value)| (output, BypassSource::Value(Arc::new(value)))))
                    .collect()
            }
            BypassBehavior::ByType => {
                let outputs = self.output_names(node).into_iter();
                outputs.map(|output| (output.clone(), by_type(self, node, &output))).collect()
            }
        };
        let names = &mut self.graph.names;
        given.into_iter().map(|(output, from)| BypassOutput { output: names.intern(&output), from }).collect()
    }
}

/// The input of the output's own name if the type fits, else the first that fits, those with a value before others.
fn by_type(builder: &mut Builder<'_, '_>, node: NodeIx, output: &str) -> BypassSource {
    let inputs = &builder.graph.nodes[node as usize].inputs;
    let mut candidates = vec![output.to_owned()];
    candidates.extend(inputs.iter().map(|input| builder.graph.name(input.slot).to_string()));
    candidates.extend(builder.input_names(node));
    match candidates.iter().find(|input| hands_to(builder, node, input, output)) {
        Some(input) => handed(builder, node, input),
        None => BypassSource::Value(Arc::new(empty_output(builder, node, output))),
    }
}

fn handed(builder: &mut Builder<'_, '_>, node: NodeIx, input: &str) -> BypassSource {
    let kind = builder.input_of(node, Some(input)).map(|found| found.slot);
    let empty = kind.map_or(Value::Null, |slot| {
        slot.default.clone().unwrap_or_else(|| type_default(slot.data_flow_type))
    });
    BypassSource::Input(builder.graph.names.intern(input), Arc::new(empty))
}

fn hands_to(builder: &Builder<'_, '_>, node: NodeIx, input: &str, output: &str) -> bool {
    let (Some(input), Some((_, output))) =
        (builder.input_of(node, Some(input)), builder.output_of(node, Some(output)))
    else {
        return false;
    };
    let (input, output): (&SlotDefinition, &SlotDefinition) = (&input.slot, &output);
    let common = input.match_categories.iter().any(|category| output.match_categories.contains(category));
    input.is_stream == output.is_stream && (common || type_fits(input.data_flow_type, output.data_flow_type))
}

fn empty_output(builder: &Builder<'_, '_>, node: NodeIx, output: &str) -> Value {
    builder.output_of(node, Some(output)).map_or(Value::Null, |(_, slot)| type_default(slot.data_flow_type))
}
