//! From typed arguments back to the taught form.

use std::borrow::Cow;

use indexmap::IndexMap;
use protocol_action::encode::{encode_trees, parameter_tags};
use protocol_action::{Dialect, RawArgument, RawCall, RawValue, Span};
use serde_json::{Map, Value};

use crate::coerce::Coercer;
use crate::interpret::CallFault;
use crate::node::{NodeId, Nodes, Types};
use crate::toolset::{OfferedTool, ToolSet};
use crate::wire::wire_name;

/// Longest name, in bytes, that stands in text as it is.
const MAX_NAME: usize = 200;

impl ToolSet {
    /// Writes calls in the taught form so that reading them gives the very same tools and arguments.
    ///
    /// Parameters stand in the order in which they are declared.
    /// Lists and objects whose shape is declared become elements; everything else that is not plain text becomes JSON
    /// text.
    /// The arguments are not validated: what does not fit its schema is written as well as it can be.
    ///
    /// # Errors
    /// The first name that no tool has.
    pub fn encode(&self, calls: &[(&str, &Map<String, Value>)]) -> Result<String, CallFault> {
        let trees = calls
            .iter()
            .map(|(name, arguments)| {
                let tool = self.get(name).ok_or_else(|| self.unknown_tool(name, Span::default()))?;
                let mut call = RawCall::new(tool.tag(), Dialect::Action, Span::default());
                call.arguments = written_arguments(tool, arguments);
                Ok(call)
            })
            .collect::<Result<Vec<_>, CallFault>>()?;
        Ok(encode_trees(&trees, self))
    }
}

fn written_arguments(tool: &OfferedTool, arguments: &Map<String, Value>) -> Vec<RawArgument> {
    let nodes = tool.schema.nodes();
    let root = nodes.get(0);
    let any = Nodes::read(&Value::Bool(true));
    in_order(&root.fields, arguments)
        .map(|(name, value)| {
            let written = match root.fields.get(name).copied().or(root.additional) {
                Some(id) => Writer { nodes }.value(id, value),
                None => Writer { nodes: &any }.value(0, value),
            };
            argument(&text_name(name), written)
        })
        .collect()
}

/// Undeclared members, then the others in the order in which they are declared.
fn in_order<'v>(
    fields: &'v IndexMap<String, NodeId>,
    object: &'v Map<String, Value>,
) -> impl Iterator<Item = (&'v String, &'v Value)> {
    // An undeclared tag behind a string would make the end of the string a guess.
    let declared = fields.keys().filter_map(|name| object.get_key_value(name));
    object.iter().filter(|(name, _)| !fields.contains_key(*name)).chain(declared)
}

fn argument(name: &str, value: RawValue) -> RawArgument {
    RawArgument::new(name, Span::default(), value)
}

/// The name of a parameter in text: its own, unless no tag and no attribute can hold it.
pub(crate) fn text_name(name: &str) -> Cow<'_, str> {
    if name.is_empty() || name.len() > MAX_NAME { wire_name(name).into() } else { name.into() }
}

/// The open and the close tag of a parameter or field beside `fields`.
pub(crate) fn text_tags(name: &str, fields: &IndexMap<String, NodeId>) -> (String, String) {
    parameter_tags(&text_name(name), |tag| fields.contains_key(tag))
}

/// Writes values so that the reader gives them back.
pub(crate) struct Writer<'s> {
    pub(crate) nodes: &'s Nodes,
}

impl Writer<'_> {
    pub(crate) fn value(&self, id: NodeId, value: &Value) -> RawValue {
        let elements = match value {
            Value::Array(items) => self.items(id, items),
            Value::Object(object) => self.fields(id, object),
            Value::String(text) if self.reads_back(id, text, value) => return RawValue::Text(text.clone()),
            Value::String(_) | Value::Null | Value::Bool(_) | Value::Number(_) => None,
        };
        let elements = elements.filter(|children| !children.is_empty());
        match elements {
            Some(children) => RawValue::Elements { children, source: String::new(), mixed: false },
            // Only in a string can this stand: escaped, it needs no second CDATA section.
            None => RawValue::Text(value.to_string().replace("]]>", r"]]\u003e")),
        }
    }

    /// Returns `true` for a node that declares just this type, and perhaps null, so that elements have one meaning.
    fn is_only(&self, id: NodeId, types: Types) -> bool {
        let node = self.nodes.get(id);
        node.types.without(Types::NULL) == types && node.branches.is_empty() && node.members.is_none()
    }

    fn items(&self, id: NodeId, items: &[Value]) -> Option<Vec<RawArgument>> {
        if !self.is_only(id, Types::ARRAY) {
            return None;
        }
        let node = self.nodes.get(id);
        let typed = items.iter().enumerate().map(|(index, item)| {
            let id = node.prefix.get(index).copied().or(node.item)?;
            Some(argument("item", self.value(id, item)))
        });
        typed.collect()
    }

    fn fields(&self, id: NodeId, object: &Map<String, Value>) -> Option<Vec<RawArgument>> {
        if !self.is_only(id, Types::OBJECT) {
            return None;
        }
        let node = self.nodes.get(id);
        let typed = in_order(&node.fields, object).map(|(name, value)| {
            let id = node.fields.get(name).copied()?;
            Some(argument(&text_name(name), self.value(id, value)))
        });
        typed.collect()
    }

    fn reads_back(&self, id: NodeId, text: &str, value: &Value) -> bool {
        let mut coercer = Coercer::new(self.nodes);
        let read = coercer.raw(id, &RawValue::Text(text.to_owned()), "");
        coercer.problems.is_empty() && read == *value
    }
}
