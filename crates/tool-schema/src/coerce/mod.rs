//! Coercion of written values to the declared types, without a guess that changes a value.
//!
//! This file reads elements; texts, JSON values, alternatives and undeclared values have separate files.

mod alternative;
mod json;
mod text;
mod untyped;

#[cfg(test)]
mod tests;

use agent_types::Problem;
use protocol_action::{RawArgument, RawValue};
use serde_json::{Map, Value};

use crate::compiled::Coercion;
use crate::node::{Node, NodeId, Nodes, Types};
use crate::problem::{self, joined};
use crate::wire::wire_name;

/// Deepest nesting of a value that is looked at.
const MAX_VALUE_DEPTH: usize = 256;

/// Name of list items in the taught form.
const ITEM: &str = "item";

/// Reads values by a schema and notes what it changed and what does not fit.
pub(crate) struct Coercer<'s> {
    nodes: &'s Nodes,
    pub(crate) coercions: Vec<Coercion>,
    pub(crate) problems: Vec<Problem>,
    pub(crate) json_repaired: bool,
    depth: usize,
    attempts: usize,
}

impl<'s> Coercer<'s> {
    pub(crate) fn new(nodes: &'s Nodes) -> Self {
        Self {
            nodes,
            coercions: Vec::new(),
            problems: Vec::new(),
            json_repaired: false,
            depth: 0,
            attempts: 0,
        }
    }

    /// The named values of a call, or of an element that stands for an object.
    pub(crate) fn fields(&mut self, id: NodeId, children: &[RawArgument], path: &str) -> Value {
        let node = self.nodes.get(id);
        let mut object = Map::new();
        for (name, group) in grouped(children) {
            let Some((name, field)) = declared(node, name) else {
                self.undeclared(node, name, &group, path, &mut object);
                continue;
            };
            let value = self.group(field, &group, &joined(path, name));
            object.insert(name.to_owned(), value);
        }
        Value::Object(object)
    }

    /// A field that the schema does not name.
    fn undeclared(
        &mut self,
        node: &Node,
        name: &str,
        group: &[&RawValue],
        path: &str,
        object: &mut Map<String, Value>,
    ) {
        if node.closed {
            let near = agent_types::nearest(name, node.fields.keys().map(String::as_str));
            self.problems.push(problem::unknown(path, name, near));
            return;
        }
        let place = joined(path, name);
        let value = match node.additional {
            Some(additional) => self.group(additional, group, &place),
            None => self.untyped_group(group, &place),
        };
        object.insert(name.to_owned(), value);
    }

    /// All values that were written under one name.
    fn group(&mut self, id: NodeId, group: &[&RawValue], path: &str) -> Value {
        if let [single] = group {
            return self.raw(id, single, path);
        }
        let node = self.nodes.get(id);
        if node.types.has(Types::ARRAY) {
            return self.repeated(node, group, path);
        }
        let mut values = group.iter().map(|value| self.raw(id, value, path)).collect::<Vec<_>>();
        if values.windows(2).any(|pair| pair[0] != pair[1]) {
            if node.is_any() {
                return Value::Array(values);
            }
            self.problems.push(problem::duplicate(path));
        }
        values.swap_remove(0)
    }

    /// A repeated tag is a list: each is an item, or a list of items.
    fn repeated(&mut self, node: &Node, group: &[&RawValue], path: &str) -> Value {
        let mut items = Vec::new();
        for value in group {
            let is_list = matches!(value, RawValue::Json(Value::Array(_)))
                || matches!(value, RawValue::Elements { children, .. } if children.iter().all(|c| c.name == ITEM));
            if is_list && !self.item_is_list(node) {
                if let Value::Array(more) = self.raw_list(node, value, path) {
                    items.extend(more);
                }
            } else {
                let index = items.len();
                items.push(self.item(node, value, index, path));
            }
        }
        Value::Array(items)
    }

    fn item_is_list(&self, node: &Node) -> bool {
        node.item.is_some_and(|item| self.nodes.get(item).types.has(Types::ARRAY))
    }

    /// One value as it was written.
    pub(crate) fn raw(&mut self, id: NodeId, value: &RawValue, path: &str) -> Value {
        let node = self.nodes.get(id);
        if !node.branches.is_empty() {
            return self.raw_alternatives(id, value, path);
        }
        match value {
            RawValue::Text(text) => self.text(id, text, path),
            RawValue::Json(value) => self.json(id, value.clone(), path),
            RawValue::Elements { children, source, mixed } => {
                self.elements(id, children, source, *mixed, path)
            }
        }
    }

    fn elements(
        &mut self,
        id: NodeId,
        children: &[RawArgument],
        source: &str,
        mixed: bool,
        path: &str,
    ) -> Value {
        let node = self.nodes.get(id);
        if node.is_any() {
            return self.untyped_elements(children, source, mixed, path);
        }
        let all_items = children.iter().all(|child| child.name == ITEM);
        let prefers_list = node.types.has(Types::ARRAY) && (all_items || !node.types.has(Types::OBJECT));
        if mixed && node.types.has(Types::STRING) {
            return source.into();
        }
        if mixed && node.types.has(Types::ARRAY.with(Types::OBJECT)) {
            self.problems.push(problem::invalid(path, node.types.words(), &source.into()));
            return source.into();
        }
        if prefers_list {
            return self.raw_list_of(node, children, path);
        }
        if node.types.has(Types::OBJECT) {
            return self.nested(|reader| reader.fields(id, children, path), source);
        }
        self.text(id, source, path)
    }

    fn raw_list(&mut self, node: &Node, value: &RawValue, path: &str) -> Value {
        match value {
            RawValue::Elements { children, .. } => self.raw_list_of(node, children, path),
            RawValue::Json(Value::Array(items)) => self.json_list(node, items.clone(), path),
            RawValue::Text(_) | RawValue::Json(_) => Value::Array(vec![self.item(node, value, 0, path)]),
        }
    }

    /// Child elements as a list: `item`s, or one name repeated, or their places as names, or the fields of a single bare object.
    fn raw_list_of(&mut self, node: &Node, children: &[RawArgument], path: &str) -> Value {
        let all_items = children.iter().all(|child| child.name == ITEM);
        let item = node.item.map(|item| self.nodes.get(item));
        let is_bare_object = !all_items
            && item.is_some_and(|item| {
                let declares = children.iter().any(|child| declared(item, &child.name).is_some());
                let repeats =
                    children.len() > 1 && children.iter().all(|child| child.name == children[0].name);
                (item.types.has(Types::OBJECT) && (item.fields.is_empty() || declares))
                    || (item.is_any() && !repeats)
            });
        if let (true, Some(item)) = (is_bare_object, node.item) {
            let place = joined(path, "0");
            let value = self.nested(|reader| reader.fields(item, children, &place), "");
            return Value::Array(vec![value]);
        }
        let repeats = children.iter().all(|child| child.name == children[0].name);
        let counts = |first: usize| (first..).zip(children).all(|(at, child)| child.name == at.to_string());
        let says_nothing = repeats || counts(0) || counts(1);
        if !all_items && (!says_nothing || node.types.has(Types::STRING)) {
            return self.foreign_names(&node.types.words(), children, path);
        }
        let items = children
            .iter()
            .enumerate()
            .map(|(index, child)| self.item(node, &child.value, index, path))
            .collect();
        Value::Array(items)
    }

    /// Names of elements where only items are legal: a list without them would lose what they say.
    fn foreign_names(&mut self, expected: &str, children: &[RawArgument], path: &str) -> Value {
        let names: Vec<&str> = children.iter().map(|child| child.name.as_str()).collect();
        let got = Value::from(names.join(", "));
        self.problems.push(problem::invalid(path, format!("{expected}, a list as `item` elements"), &got));
        got
    }

    fn item(&mut self, node: &Node, value: &RawValue, index: usize, path: &str) -> Value {
        let place = joined(path, &index.to_string());
        match node.prefix.get(index).copied().or(node.item) {
            Some(item) => self.nested(|reader| reader.raw(item, value, &place), ""),
            None => self.untyped(value, &place),
        }
    }

    /// Guards the stack: values nested deeper than any sane one are refused, not followed.
    fn nested(&mut self, read: impl FnOnce(&mut Self) -> Value, source: &str) -> Value {
        if self.depth >= MAX_VALUE_DEPTH {
            return source.into();
        }
        self.depth += 1;
        let value = read(self);
        self.depth -= 1;
        value
    }

    fn coerced(&mut self, path: &str, from: Value, to: &Value) {
        self.coercions.push(Coercion { path: path.to_owned(), from, to: to.clone() });
    }
}

/// Children by name, in the order of their first appearance.
fn grouped(children: &[RawArgument]) -> Vec<(&str, Vec<&RawValue>)> {
    let mut groups: indexmap::IndexMap<&str, Vec<&RawValue>> = indexmap::IndexMap::new();
    for child in children {
        groups.entry(&child.name).or_default().push(&child.value);
    }
    groups.into_iter().collect()
}

/// The declared field of that name, or of that wire name.
fn declared<'n>(node: &'n Node, name: &str) -> Option<(&'n str, NodeId)> {
    if let Some((name, &id)) = node.fields.get_key_value(name) {
        return Some((name, id));
    }
    let mut unsafe_names = node.fields.iter().filter(|(field, _)| !crate::wire::is_wire_name(field));
    unsafe_names.find(|(field, _)| wire_name(field) == name).map(|(field, &id)| (field.as_str(), id))
}
