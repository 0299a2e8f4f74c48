//! From typed arguments back to the taught form.

use protocol_action::RawValue;
use serde_json::{Map, Value};

use crate::coerce::Coercer;
use crate::node::{NodeId, Nodes, Types};
use crate::toolset::OfferedTool;
use crate::wire::{is_wire_name, wire_name};

/// Arguments as the encoder of the protocol should write them: texts that are read back as the very same values.
///
/// Lists and objects whose shape is declared become elements, everything else that is no plain text becomes JSON text.
pub(crate) fn written_arguments(tool: &OfferedTool, arguments: &Map<String, Value>) -> Map<String, Value> {
    let nodes = tool.schema.nodes();
    let root = nodes.get(0);
    let written = arguments.iter().map(|(name, value)| {
        let written = match root.fields.get(name).copied().or(root.additional) {
            Some(id) => Writer { nodes }.value(id, value),
            None => untyped(value),
        };
        (wire_parameter(name), written)
    });
    written.collect()
}

fn wire_parameter(name: &str) -> String {
    if is_wire_name(name) { name.to_owned() } else { wire_name(name) }
}

/// Where nothing is declared: a text that is no JSON as it is, everything else as JSON text.
fn untyped(value: &Value) -> Value {
    let empty = Value::Object(Map::new());
    Writer { nodes: &Nodes::read(&empty) }.value(0, value)
}

struct Writer<'s> {
    nodes: &'s Nodes,
}

impl Writer<'_> {
    fn value(&self, id: NodeId, value: &Value) -> Value {
        let node = self.nodes.get(id);
        let only = |types: Types| node.types == types && node.branches.is_empty() && node.members.is_none();
        match value {
            Value::Array(items) if only(Types::ARRAY) && !items.is_empty() => {
                let typed: Option<Vec<Value>> = items
                    .iter()
                    .enumerate()
                    .map(|(index, item)| {
                        let id = node.prefix.get(index).copied().or(node.item)?;
                        Some(self.value(id, item))
                    })
                    .collect();
                typed.map_or_else(|| json_text(value), Value::Array)
            }
            Value::Object(object) if only(Types::OBJECT) && !object.is_empty() => {
                let typed: Option<Map<String, Value>> = object
                    .iter()
                    .map(|(name, field)| {
                        let id = node.fields.get(name).copied()?;
                        Some((wire_parameter(name), self.value(id, field)))
                    })
                    .collect();
                typed.map_or_else(|| json_text(value), Value::Object)
            }
            Value::String(text) if self.reads_back(id, text, value) => value.clone(),
            Value::String(_) | Value::Array(_) | Value::Object(_) => json_text(value),
            Value::Null | Value::Bool(_) | Value::Number(_) => value.clone(),
        }
    }

    fn reads_back(&self, id: NodeId, text: &str, value: &Value) -> bool {
        let mut coercer = Coercer::new(self.nodes);
        let read = coercer.raw(id, &RawValue::Text(text.to_owned()), "");
        coercer.problems.is_empty() && read == *value
    }
}

fn json_text(value: &Value) -> Value {
    value.to_string().into()
}
