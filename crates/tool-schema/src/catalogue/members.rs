//! Parameters of a tool, and the members of their values where the schema says something of them.

use std::fmt::Write;

use serde_json::Value;

use super::schema_part::SchemaPart;
use super::words::{Words, one_line};
use crate::encode::text_tags;
use crate::node::{Node, NodeId, Nodes, Types};
use crate::toolset::OfferedTool;

/// Deepest nesting of a type that is written out.
const MAX_DEPTH: usize = 3;

/// Maximum number of members or fields written out for one parameter.
const MAX_LISTED: usize = 24;

/// Writes the parameters of a tool, one a line, with the members of their values below.
pub(super) struct MemberList<'c> {
    pub(super) out: &'c mut String,
    pub(super) tool: &'c OfferedTool,
    pub(super) words: &'c Words,
}

/// One line of the list.
struct Member<'s> {
    label: String,
    id: NodeId,
    part: SchemaPart<'s>,
    is_required: bool,
    depth: usize,
}

impl MemberList<'_> {
    /// Writes the parameters.
    pub(super) fn parameters(mut self) {
        let tool = self.tool;
        let root = SchemaPart::new(&tool.parameters, Some(&tool.parameters));
        for (name, member) in fields(tool.schema.nodes(), 0, &root, 1) {
            let described = self.words.parameter(tool, name).unwrap_or_else(|| member.part.description());
            self.member(&member, described, tool.defaults.get(name));
        }
    }

    fn member(&mut self, member: &Member<'_>, description: &str, default: Option<&Value>) {
        let (words, nodes) = (self.words, self.tool.schema.nodes());
        let Member { label, id, part, is_required, depth } = member;
        let node = nodes.get(*id);
        let members =
            if *depth <= MAX_DEPTH { members(nodes, *id, part, depth + 1, words) } else { Vec::new() };
        let is_listed = members.iter().any(|member| says_more(nodes, member, words));
        let mut notes = vec![match (is_listed, node.branches.is_empty()) {
            (false, _) => type_words(nodes, *id, 0),
            (true, false) => words.one_of.to_owned(),
            (true, true) => node.types.words(),
        }];
        notes.extend(is_required.then(|| words.required.to_owned()));
        notes.extend(words.notes(&node.limits, part, default));
        notes.extend(takes_json(node).then(|| words.json_hint.to_owned()));
        let description = one_line(description);
        let separator = if description.is_empty() { "" } else { ": " };
        let indent = "  ".repeat(*depth);
        // Writing to a string cannot fail.
        let _ = writeln!(self.out, "{indent}- {label} ({}){separator}{description}", notes.join(", "));
        if is_listed {
            for member in &members {
                self.member(member, member.part.description(), None);
            }
        }
    }
}

fn fields<'s, 'n>(
    nodes: &'n Nodes,
    id: NodeId,
    part: &SchemaPart<'s>,
    depth: usize,
) -> impl Iterator<Item = (&'n String, Member<'s>)> {
    let node = nodes.get(id);
    node.fields.iter().map(move |(name, &id)| {
        let (label, _) = text_tags(name, &node.fields);
        let is_required = node.required.contains(name);
        (name, Member { label, id, part: part.field(name), is_required, depth })
    })
}

/// The members, items and alternatives of a value.
fn members<'s>(
    nodes: &Nodes,
    id: NodeId,
    part: &SchemaPart<'s>,
    depth: usize,
    words: &Words,
) -> Vec<Member<'s>> {
    let node = nodes.get(id);
    let other =
        |label: &str, id, part| Member { label: label.to_owned(), id, part, is_required: false, depth };
    let fields = fields(nodes, id, part, depth).map(|(_, member)| member).take(MAX_LISTED);
    let item = node.item.map(|item| other("<item>", item, part.item()));
    let branches = node.branches.iter().enumerate();
    let branches = branches.map(|(index, &branch)| other(words.either, branch, part.branch(index)));
    fields.chain(item).chain(branches).collect()
}

/// Returns `true` when the schema says more of a member than its type.
fn says_more(nodes: &Nodes, member: &Member<'_>, words: &Words) -> bool {
    let Member { id, part, depth, .. } = member;
    let has_words = !part.description().is_empty();
    let own = has_words || !words.notes(&nodes.get(*id).limits, part, None).is_empty();
    own || *depth <= MAX_DEPTH
        && members(nodes, *id, part, depth + 1, words).iter().any(|member| says_more(nodes, member, words))
}

/// Returns `true` for a value whose structure the schema does not declare.
fn takes_json(node: &Node) -> bool {
    let free_object = node.types.has(Types::OBJECT) && node.fields.is_empty();
    free_object || (node.is_any() && node.types.is_empty())
}

fn type_words(nodes: &Nodes, id: NodeId, depth: usize) -> String {
    let node = nodes.get(id);
    if let Some(members) = &node.members {
        let listed: Vec<String> = members.iter().take(MAX_LISTED).map(ToString::to_string).collect();
        let more = if members.len() > MAX_LISTED { " | …" } else { "" };
        return format!("{}{more}", listed.join(" | "));
    }
    if !node.branches.is_empty() {
        return branch_words(nodes, node, depth);
    }
    if node.types.is_empty() {
        return "any".into();
    }
    let words = node.types.words();
    let with_shape = |kind: &str, shape: String| words.replacen(kind, &shape, 1);
    let inner = |id: NodeId| type_words(nodes, id, depth + 1);
    if depth >= MAX_DEPTH {
        return words;
    }
    if node.types.has(Types::ARRAY) && !node.prefix.is_empty() {
        let items: Vec<String> = node.prefix.iter().take(MAX_LISTED).map(|&item| inner(item)).collect();
        return with_shape("array", format!("array of [{}]", items.join(", ")));
    }
    if let (true, Some(item)) = (node.types.has(Types::ARRAY), node.item) {
        return with_shape("array", format!("array of {}", inner(item)));
    }
    if node.types.has(Types::OBJECT) && !node.fields.is_empty() {
        let fields = node.fields.iter().take(MAX_LISTED).map(|(name, &field)| {
            let optional = if node.required.contains(name) { "" } else { "?" };
            format!("{name}{optional}: {}", inner(field))
        });
        let more = if node.fields.len() > MAX_LISTED { ", …" } else { "" };
        return with_shape("object", format!("{{{}{more}}}", fields.collect::<Vec<_>>().join(", ")));
    }
    match node.additional {
        Some(value) if node.types.has(Types::OBJECT) => {
            with_shape("object", format!("object of {}", inner(value)))
        }
        Some(_) | None => words,
    }
}

fn branch_words(nodes: &Nodes, node: &Node, depth: usize) -> String {
    let mut parts: Vec<String> = Vec::new();
    for &branch in &node.branches {
        let words = if depth < MAX_DEPTH { type_words(nodes, branch, depth + 1) } else { "…".into() };
        if !parts.contains(&words) {
            parts.push(words);
        }
    }
    parts.join(" | ")
}
