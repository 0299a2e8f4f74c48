//! A schema as the reader of values needs it: shapes in one flat table, references followed.

mod limits;

use std::collections::{HashMap, HashSet};

use indexmap::IndexMap;
use serde_json::{Map, Value};

pub(crate) use limits::{Bound, Limits};

/// Maximum depth of a schema that is read; deeper parts may hold anything.
const MAX_SCHEMA_DEPTH: usize = 128;

/// Index of a node in its table.
pub(crate) type NodeId = u32;

/// A set of JSON types; empty means that nothing is declared.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct Types(u8);

impl Types {
    pub(crate) const STRING: Self = Self(1);
    pub(crate) const INTEGER: Self = Self(2);
    pub(crate) const NUMBER: Self = Self(4);
    pub(crate) const BOOLEAN: Self = Self(8);
    pub(crate) const NULL: Self = Self(16);
    pub(crate) const ARRAY: Self = Self(32);
    pub(crate) const OBJECT: Self = Self(64);

    const NAMES: [(Self, &'static str); 7] = [
        (Self::STRING, "string"),
        (Self::INTEGER, "integer"),
        (Self::NUMBER, "number"),
        (Self::BOOLEAN, "boolean"),
        (Self::ARRAY, "array"),
        (Self::OBJECT, "object"),
        (Self::NULL, "null"),
    ];

    pub(crate) fn has(self, other: Self) -> bool {
        self.0 & other.0 != 0
    }

    pub(crate) fn is_empty(self) -> bool {
        self.0 == 0
    }

    pub(crate) fn with(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }

    pub(crate) fn without(self, other: Self) -> Self {
        Self(self.0 & !other.0)
    }

    fn of_keyword(value: &Value) -> Self {
        let named = |name: &str| {
            Self::NAMES.iter().find(|(_, known)| *known == name).map_or(Self::default(), |(types, _)| *types)
        };
        match value {
            Value::String(name) => named(name),
            Value::Array(names) => names
                .iter()
                .filter_map(Value::as_str)
                .fold(Self::default(), |all, name| all.with(named(name))),
            Value::Null | Value::Bool(_) | Value::Number(_) | Value::Object(_) => Self::default(),
        }
    }

    /// The type of a value, a whole number being an integer.
    pub(crate) fn from_value(value: &Value) -> Self {
        match value {
            Value::Null => Self::NULL,
            Value::Bool(_) => Self::BOOLEAN,
            Value::Number(number) if number.is_f64() => Self::NUMBER,
            Value::Number(_) => Self::INTEGER,
            Value::String(_) => Self::STRING,
            Value::Array(_) => Self::ARRAY,
            Value::Object(_) => Self::OBJECT,
        }
    }

    /// Returns `true` when a value of type `other` is one of these; an integer is a number.
    pub(crate) fn admits(self, other: Self) -> bool {
        self.is_empty() || self.has(other) || (self.has(Self::NUMBER) && other.has(Self::INTEGER))
    }

    /// `string`, `integer or null`, `anything`.
    pub(crate) fn words(self) -> String {
        let names: Vec<&str> =
            Self::NAMES.iter().filter(|(types, _)| self.has(*types)).map(|(_, name)| *name).collect();
        if names.is_empty() { "a JSON value".into() } else { names.join(" or ") }
    }
}

/// Declaration of the values that one location may hold.
#[derive(Debug, Clone, Default)]
pub(crate) struct Node {
    pub(crate) types: Types,
    /// The only legal values, besides null where `types` has it.
    pub(crate) members: Option<Vec<Value>>,
    pub(crate) fields: IndexMap<String, NodeId>,
    pub(crate) required: Vec<String>,
    /// Flag that refuses undeclared fields.
    pub(crate) closed: bool,
    /// Flag of a schema that explicitly allows undeclared fields.
    pub(crate) open: bool,
    /// Declaration of undeclared fields.
    pub(crate) additional: Option<NodeId>,
    pub(crate) prefix: Vec<NodeId>,
    pub(crate) item: Option<NodeId>,
    /// Alternatives that differ in more than their types.
    pub(crate) branches: Vec<NodeId>,
    /// Further constraints on values; the validator enforces them, a grammar as far as it can.
    pub(crate) limits: Limits,
}

impl Node {
    /// Nothing is declared.
    pub(crate) fn is_any(&self) -> bool {
        self.types.is_empty() && self.members.is_none() && self.branches.is_empty()
    }

    /// Only types are declared, no structure.
    fn is_plain(&self) -> bool {
        self.members.is_none()
            && self.branches.is_empty()
            && self.fields.is_empty()
            && self.item.is_none()
            && self.prefix.is_empty()
            && self.additional.is_none()
            && !self.closed
            && !self.open
    }
}

/// All nodes of one schema; the root is node 0.
#[derive(Debug, Clone)]
pub(crate) struct Nodes(Vec<Node>);

impl Nodes {
    /// Reads a schema. Remote references, and values that are not schemas, may hold anything.
    pub(crate) fn read(schema: &Value) -> Self {
        let mut reader = SchemaReader { root: schema, nodes: vec![Node::default()], known: HashMap::new() };
        reader.fill(0, schema, 0);
        Self(reader.nodes)
    }

    /// Reads the schema of a tool's arguments. Parameters that it does not declare are refused unless it says otherwise:
    /// a misspelt optional one would be dropped in silence.
    pub(crate) fn of_arguments(schema: &Value) -> Self {
        let mut nodes = Self::read(schema);
        if let Some(root) = nodes.0.first_mut() {
            let declares = !root.fields.is_empty() || schema.get("properties").is_some();
            root.closed |= declares && !root.open && root.additional.is_none() && root.branches.is_empty();
        }
        nodes
    }

    pub(crate) fn get(&self, id: NodeId) -> &Node {
        &self.0[id as usize]
    }

    pub(crate) fn len(&self) -> u32 {
        u32::try_from(self.0.len()).unwrap_or(u32::MAX)
    }
}

struct SchemaReader<'s> {
    root: &'s Value,
    nodes: Vec<Node>,
    /// Nodes by the pointer of their reference, so that recursion in a schema ends.
    known: HashMap<String, NodeId>,
}

impl<'s> SchemaReader<'s> {
    fn add(&mut self, schema: &'s Value, depth: usize) -> NodeId {
        if let Some(reference) = reference_of(schema)
            && is_only_reference(schema)
        {
            return self.follow(reference, depth);
        }
        let id = self.reserve();
        self.fill(id, schema, depth);
        id
    }

    fn reserve(&mut self) -> NodeId {
        self.nodes.push(Node::default());
        u32::try_from(self.nodes.len() - 1).unwrap_or(u32::MAX)
    }

    fn follow(&mut self, reference: &'s str, depth: usize) -> NodeId {
        if let Some(&id) = self.known.get(reference) {
            return id;
        }
        let id = self.reserve();
        self.known.insert(reference.to_owned(), id);
        if let Some(target) = resolve(self.root, reference) {
            self.fill(id, target, depth);
        }
        id
    }

    fn fill(&mut self, id: NodeId, schema: &'s Value, depth: usize) {
        let Some(object) = schema.as_object() else { return };
        if depth >= MAX_SCHEMA_DEPTH {
            return;
        }
        let mut node = Node::default();
        if let Some(reference) = reference_of(schema) {
            let target = self.follow(reference, depth + 1);
            node = self.nodes[target as usize].clone();
        }
        self.read_keywords(&mut node, object, depth + 1);
        for part in list(object, "allOf") {
            let part = self.add(part, depth + 1);
            let part = self.nodes[part as usize].clone();
            merge(&mut node, part);
        }
        for keyword in ["anyOf", "oneOf"] {
            let branches: Vec<NodeId> = list(object, keyword).map(|part| self.add(part, depth + 1)).collect();
            self.join(&mut node, branches);
        }
        self.nodes[id as usize] = node;
    }

    fn read_keywords(&mut self, node: &mut Node, object: &'s Map<String, Value>, depth: usize) {
        node.limits.read(object);
        if let Some(types) = object.get("type") {
            node.types = Types::of_keyword(types);
        }
        if object.get("nullable") == Some(&Value::Bool(true)) && !node.types.is_empty() {
            node.types = node.types.with(Types::NULL);
        }
        if let Some(members) = object.get("enum").and_then(Value::as_array) {
            node.members = Some(members.clone());
        }
        if let Some(constant) = object.get("const") {
            node.members = Some(vec![constant.clone()]);
        }
        if let Some(Value::Object(properties)) = object.get("properties") {
            for (name, property) in properties {
                let id = self.add(property, depth);
                node.fields.insert(name.clone(), id);
            }
        }
        if let Some(Value::Array(names)) = object.get("required") {
            node.required.extend(names.iter().filter_map(Value::as_str).map(str::to_owned));
        }
        match object.get("additionalProperties").or_else(|| object.get("unevaluatedProperties")) {
            Some(Value::Bool(false)) => node.closed = !object.contains_key("patternProperties"),
            Some(Value::Bool(true)) => node.open = true,
            Some(schema @ Value::Object(_)) => node.additional = Some(self.add(schema, depth)),
            Some(_) | None => {}
        }
        node.open |= object.contains_key("patternProperties");
        self.read_items(node, object, depth);
        if node.types.is_empty() && node.members.is_none() {
            node.types = implied_types(object);
        }
    }

    fn read_items(&mut self, node: &mut Node, object: &'s Map<String, Value>, depth: usize) {
        node.prefix.extend(list(object, "prefixItems").map(|item| self.add(item, depth)).collect::<Vec<_>>());
        match object.get("items") {
            Some(Value::Array(items)) => {
                node.prefix.extend(items.iter().map(|item| self.add(item, depth)).collect::<Vec<_>>());
            }
            Some(item @ Value::Object(_)) => node.item = Some(self.add(item, depth)),
            Some(_) | None => {}
        }
    }

    /// Takes alternatives in: mere types are put together, `T or null` is `T` that may be null.
    fn join(&mut self, node: &mut Node, branches: Vec<NodeId>) {
        if branches.is_empty() {
            return;
        }
        let at = |id: NodeId| &self.nodes[id as usize];
        if branches.iter().any(|&id| at(id).is_any() && at(id).is_plain()) {
            return;
        }
        if branches.iter().all(|&id| at(id).is_plain()) {
            node.types = branches.iter().fold(node.types, |types, &id| types.with(at(id).types));
            return;
        }
        let is_null = |id: NodeId| at(id).is_plain() && at(id).types == Types::NULL;
        let (nulls, others): (Vec<_>, Vec<_>) = branches.into_iter().partition(|&id| is_null(id));
        if let ([only], true) = (others.as_slice(), node.is_any()) {
            let mut single = at(*only).clone();
            if !nulls.is_empty() {
                single.types = with_null(&single);
            }
            merge(node, single);
            return;
        }
        node.branches.extend(others);
        node.branches.extend(nulls);
    }
}

/// Types of a node that may be null as well; an untyped node with members has the types of its members.
fn with_null(node: &Node) -> Types {
    let own = match &node.members {
        Some(members) if node.types.is_empty() => {
            members.iter().fold(Types::default(), |types, member| types.with(Types::from_value(member)))
        }
        Some(_) | None => node.types,
    };
    own.with(Types::NULL)
}

fn merge(node: &mut Node, part: Node) {
    if !part.types.is_empty() {
        node.types = part.types;
    }
    node.members = part.members.or(node.members.take());
    node.fields.extend(part.fields);
    node.required.extend(part.required);
    node.closed |= part.closed;
    node.open |= part.open;
    node.additional = node.additional.or(part.additional);
    node.item = node.item.or(part.item);
    if node.prefix.is_empty() {
        node.prefix = part.prefix;
    }
    node.branches.extend(part.branches);
    node.limits.merge(part.limits);
}

fn implied_types(object: &Map<String, Value>) -> Types {
    if object.contains_key("properties") {
        Types::OBJECT
    } else if object.contains_key("items") || object.contains_key("prefixItems") {
        Types::ARRAY
    } else {
        Types::default()
    }
}

/// Returns `true` when the keywords beside a reference do not constrain values.
fn is_only_reference(schema: &Value) -> bool {
    let is_note =
        |key: &String| matches!(key.as_str(), "$ref" | "title" | "description" | "default" | "examples");
    schema.as_object().is_some_and(|object| object.keys().all(is_note))
}

fn reference_of(schema: &Value) -> Option<&str> {
    let object = schema.as_object()?;
    object.get("$ref").and_then(Value::as_str)
}

/// Resolves a reference within the document, through a chain of references.
pub(crate) fn resolve<'s>(root: &'s Value, reference: &str) -> Option<&'s Value> {
    let mut seen = HashSet::new();
    let mut reference = reference.to_owned();
    loop {
        let pointer = reference.strip_prefix('#')?;
        let target = root.pointer(&percent_decoded(pointer))?;
        match reference_of(target) {
            Some(next) if target.as_object().is_some_and(|object| object.len() == 1) => {
                let next = next.to_owned();
                if !seen.insert(std::mem::replace(&mut reference, next)) {
                    return None;
                }
            }
            Some(_) | None => return Some(target),
        }
    }
}

fn percent_decoded(text: &str) -> String {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let Some((&first, tail)) = rest.split_first() {
        let hex = (first == b'%').then(|| tail.get(..2)).flatten();
        let code = hex.and_then(|hex| u8::from_str_radix(std::str::from_utf8(hex).ok()?, 16).ok());
        bytes.push(code.unwrap_or(first));
        rest = if code.is_some() { &tail[2..] } else { tail };
    }
    String::from_utf8(bytes).unwrap_or_else(|_| text.to_owned())
}

fn list<'s>(object: &'s Map<String, Value>, keyword: &str) -> impl Iterator<Item = &'s Value> {
    object.get(keyword).and_then(Value::as_array).into_iter().flatten()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn root(schema: &Value) -> Node {
        Nodes::read(schema).get(0).clone()
    }

    #[test]
    fn unions_of_types_are_one_set() {
        let node = root(&json!({"anyOf": [{"type": "integer"}, {"type": "string"}, {"type": "null"}]}));
        assert_eq!(node.types.words(), "string or integer or null");
        assert!(node.branches.is_empty());
        assert!(root(&json!({"anyOf": [{}, {"type": "object"}]})).is_any());
    }

    #[test]
    fn an_option_is_its_type_or_null() {
        let node = root(&json!({"anyOf": [{"$ref": "#/$defs/U"}, {"type": "null"}],
            "$defs": {"U": {"type": "string", "enum": ["c", "f"]}}}));
        assert_eq!(node.types.words(), "string or null");
        assert_eq!(node.members.unwrap().len(), 2);
    }

    #[test]
    fn recursion_in_a_schema_ends() {
        let schema = json!({"$ref": "#/$defs/T", "$defs": {"T": {"type": "object",
            "properties": {"children": {"type": "array", "items": {"$ref": "#/$defs/T"}}}}}});
        let nodes = Nodes::read(&schema);
        let children = nodes.get(0).fields["children"];
        let item = nodes.get(nodes.get(children).item.unwrap());
        assert!(item.fields.contains_key("children"));
        assert!(root(&json!({"$ref": "#/$defs/A", "$defs": {"A": {"$ref": "#/$defs/A"}}})).is_any());
    }

    #[test]
    fn parts_are_put_together() {
        let node = root(&json!({"allOf": [
            {"type": "object", "properties": {"a": {"type": "string"}}, "required": ["a"]},
            {"properties": {"b": {"type": "integer"}}}]}));
        assert_eq!(node.fields.keys().collect::<Vec<_>>(), ["a", "b"]);
        assert_eq!(node.required, ["a"]);
    }
}
