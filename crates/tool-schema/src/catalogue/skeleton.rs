//! Calls to be filled in.

use protocol_action::encode::encode_trees;
use protocol_action::{Dialect, NoVocabulary, RawArgument, RawCall, RawValue, Span};
use serde_json::Value;

use super::schema_part::SchemaPart;
use crate::encode::text_name;
use crate::node::{Node, NodeId, Nodes, Types};
use crate::toolset::OfferedTool;

/// Placeholder of a value.
const BLANK: &str = "…";

/// Deepest member of a call that is written out.
const MAX_DEPTH: usize = 6;

/// Longest value of an example, in bytes.
const MAX_VALUE: usize = 40;

/// Form of a call for the agent that has no tool to show.
const GENERAL: &str = "\
<ACTION>
  <tool_name>
    <parameter_name>…</parameter_name>
  </tool_name>
</ACTION>";

/// A call of the tool whose call is the shortest with a parameter, as a block.
pub(super) fn example<'t>(tools: impl Iterator<Item = &'t OfferedTool>) -> String {
    let blocks = tools.map(|tool| (block(tool, Fill::Examples), tool));
    let best = blocks.min_by_key(|(block, tool)| (tool.schema.nodes().get(0).fields.is_empty(), block.len()));
    best.map_or_else(|| GENERAL.to_owned(), |(block, _)| block)
}

/// A call with its required parameters on one line.
pub(super) fn line(tool: &OfferedTool) -> String {
    let block = block(tool, Fill::Blanks);
    let lines: Vec<&str> = block.lines().map(str::trim).collect();
    lines.get(1..lines.len().saturating_sub(1)).unwrap_or_default().concat()
}

/// Values of a skeleton.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Fill {
    /// Placeholders.
    Blanks,
    /// Values that the schema has as examples, else placeholders.
    Examples,
}

fn block(tool: &OfferedTool, fill: Fill) -> String {
    let mut call = RawCall::new(tool.tag(), Dialect::Action, Span::default());
    let root = SchemaPart::new(&tool.parameters, Some(&tool.parameters));
    let skeleton = Skeleton { nodes: tool.schema.nodes(), fill };
    call.arguments = skeleton.fields(0, &root, 0);
    encode_trees(&[call], &NoVocabulary)
}

struct Skeleton<'n> {
    nodes: &'n Nodes,
    fill: Fill,
}

impl Skeleton<'_> {
    /// The required members; of an object without any that stands inside another, the first one.
    fn fields(&self, id: NodeId, part: &SchemaPart<'_>, depth: usize) -> Vec<RawArgument> {
        let node = self.nodes.get(id);
        let has_required = node.fields.keys().any(|name| node.required.contains(name));
        let is_example = depth > 0 || self.fill == Fill::Examples;
        let shown = node.fields.iter().enumerate().filter(|(index, (name, _))| {
            node.required.contains(name) || (!has_required && is_example && *index == 0)
        });
        let shown = shown.map(|(_, (name, &field))| {
            argument(&text_name(name), self.value(field, &part.field(name), depth + 1))
        });
        shown.collect()
    }

    fn value(&self, id: NodeId, part: &SchemaPart<'_>, depth: usize) -> RawValue {
        let node = self.nodes.get(id);
        if let Some(text) = self.known(node, part) {
            return RawValue::Text(text);
        }
        let children = if depth >= MAX_DEPTH {
            Vec::new()
        } else if let Some(&first) = node.branches.first() {
            return self.value(first, &part.branch(0), depth + 1);
        } else if let Some(item) = node.item.filter(|_| is_only(node, Types::ARRAY)) {
            vec![argument("item", self.value(item, &part.item(), depth + 1))]
        } else if is_only(node, Types::OBJECT) {
            self.fields(id, part, depth)
        } else {
            Vec::new()
        };
        if children.is_empty() {
            return RawValue::Text(BLANK.to_owned());
        }
        RawValue::Elements { children, source: String::new(), mixed: false }
    }

    /// The only legal value, or an example.
    fn known(&self, node: &Node, part: &SchemaPart<'_>) -> Option<String> {
        let members = node.members.as_deref();
        let only = members.and_then(|members| if let [only] = members { Some(only) } else { None });
        let example = || {
            let listed = part.get("examples").and_then(Value::as_array).and_then(|listed| listed.first());
            listed.or_else(|| members?.first()).filter(|_| self.fill == Fill::Examples)
        };
        let text = match only.or_else(example)? {
            Value::String(text) => text.clone(),
            value @ (Value::Number(_) | Value::Bool(_)) => value.to_string(),
            Value::Null | Value::Array(_) | Value::Object(_) => return None,
        };
        (text.len() <= MAX_VALUE && !text.contains(['<', '&', '\n', '\r'])).then_some(text)
    }
}

fn is_only(node: &Node, types: Types) -> bool {
    node.types.without(Types::NULL) == types
}

fn argument(name: &str, value: RawValue) -> RawArgument {
    RawArgument::new(name, Span::default(), value)
}
