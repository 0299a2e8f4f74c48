//! JSON values by the declared types.

use serde_json::{Map, Value};

use super::text::same_number;
use super::{Coercer, declared};
use crate::node::{Node, NodeId, Types};
use crate::problem::{self, joined};

impl Coercer<'_> {
    /// A JSON value by the declared types.
    pub(crate) fn json(&mut self, id: NodeId, value: Value, path: &str) -> Value {
        let node = self.nodes.get(id);
        if !node.branches.is_empty() {
            return self.alternatives(node, path, |reader, branch| reader.json(branch, value.clone(), path));
        }
        if let Some(members) = &node.members {
            return self.json_member(node, members, value, path);
        }
        match value {
            Value::Object(object) if node.types.admits(Types::OBJECT) => {
                self.nested(|reader| reader.json_fields(node, object, path), "")
            }
            Value::Array(items) if node.types.admits(Types::ARRAY) => {
                self.nested(|reader| reader.json_list(node, items, path), "")
            }
            value if node.types.admits(Types::from_value(&value)) => value,
            value => self.mistyped(id, value, path),
        }
    }

    pub(super) fn json_member(&mut self, node: &Node, members: &[Value], value: Value, path: &str) -> Value {
        if members.contains(&value) || (value.is_null() && node.types.has(Types::NULL)) {
            return value;
        }
        if let Some(member) = members.iter().find(|member| same_number(&value, member)) {
            return member.clone();
        }
        match value {
            Value::String(text) => self.member(node, members, &text, path),
            value => {
                self.problems.push(problem::not_a_member(path, members, &value));
                value
            }
        }
    }

    pub(super) fn json_fields(&mut self, node: &Node, object: Map<String, Value>, path: &str) -> Value {
        let mut typed = Map::with_capacity(object.len());
        for (name, value) in object {
            let (name, id) = match declared(node, &name) {
                Some((name, id)) => (name.to_owned(), Some(id)),
                None if node.closed => {
                    let near = agent_types::nearest(&name, node.fields.keys().map(String::as_str));
                    self.problems.push(problem::unknown(path, &name, near));
                    continue;
                }
                None => (name, node.additional),
            };
            let value = match id {
                Some(id) => self.json(id, value, &joined(path, &name)),
                None => value,
            };
            typed.insert(name, value);
        }
        Value::Object(typed)
    }

    pub(super) fn json_list(&mut self, node: &Node, items: Vec<Value>, path: &str) -> Value {
        let typed = items.into_iter().enumerate().map(|(index, item)| {
            match node.prefix.get(index).copied().or(node.item) {
                Some(id) => self.json(id, item, &joined(path, &index.to_string())),
                None => item,
            }
        });
        Value::Array(typed.collect())
    }

    /// A JSON value of a type that is not declared: a text may say the right thing, one element may be a list, a whole double is an integer.
    pub(super) fn mistyped(&mut self, id: NodeId, value: Value, path: &str) -> Value {
        let node = self.nodes.get(id);
        if let Value::String(text) = &value {
            let (problems, coercions) = (self.problems.len(), self.coercions.len());
            let typed = self.text(id, text, path);
            if self.problems.len() == problems {
                self.coercions.truncate(coercions);
                self.coerced(path, value.clone(), &typed);
            }
            return typed;
        }
        if let Some(whole) = whole(&value).filter(|_| node.types.has(Types::INTEGER)) {
            self.coerced(path, value, &whole);
            return whole;
        }
        if node.types.has(Types::ARRAY) && !value.is_null() {
            let list = self.nested(|reader| reader.json_list(node, vec![value.clone()], path), "");
            self.coerced(path, value, &list);
            return list;
        }
        self.problems.push(problem::invalid(path, node.types.words(), &value));
        value
    }
}

/// The integer that a whole double stands for, where a double is exact.
fn whole(value: &Value) -> Option<Value> {
    const EXACT: f64 = 9_007_199_254_740_992.0;
    let number = value.as_f64().filter(|n| value.is_f64() && n.fract() == 0.0 && n.abs() <= EXACT)?;
    format!("{number:.0}").parse::<i64>().ok().map(Value::from)
}
