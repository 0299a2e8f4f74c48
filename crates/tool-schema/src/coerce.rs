//! From what was written to what the schema declares, without a guess that changes a value.

use std::borrow::Cow;

use protocol_action::json::{FaultKind, parse_lenient};
use protocol_action::{RawArgument, RawValue};
use serde_json::{Map, Value};

use crate::compiled::Coercion;
use crate::node::{Node, NodeId, Nodes, Types};
use crate::problem::{Problem, joined, shown};
use crate::scalar::{self, Read};
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
}

/// What an alternative made of a value.
struct Attempt {
    value: Value,
    coercions: Vec<Coercion>,
    problems: Vec<Problem>,
}

impl<'s> Coercer<'s> {
    pub(crate) fn new(nodes: &'s Nodes) -> Self {
        Self { nodes, coercions: Vec::new(), problems: Vec::new(), json_repaired: false, depth: 0 }
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
            self.problems.push(Problem::unknown(path, name, near));
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
            self.problems.push(Problem::duplicate(path));
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
            return self.alternatives(node, path, |reader, branch| reader.raw(branch, value, path));
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
            self.problems.push(Problem::invalid(path, node.types.words(), &source.into()));
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

    /// Child elements as a list: `item`s, or one name repeated, or the fields of a single bare object.
    fn raw_list_of(&mut self, node: &Node, children: &[RawArgument], path: &str) -> Value {
        let item = node.item.map(|item| self.nodes.get(item));
        let is_bare_object = item.is_some_and(|item| {
            item.types.has(Types::OBJECT)
                && !children.iter().all(|child| child.name == ITEM)
                && (item.fields.is_empty()
                    || children.iter().any(|child| declared(item, &child.name).is_some()))
        });
        if let (true, Some(item)) = (is_bare_object, node.item) {
            let place = joined(path, "0");
            let value = self.nested(|reader| reader.fields(item, children, &place), "");
            return Value::Array(vec![value]);
        }
        let items = children
            .iter()
            .enumerate()
            .map(|(index, child)| self.item(node, &child.value, index, path))
            .collect();
        Value::Array(items)
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

    /// A text by the declared types.
    fn text(&mut self, id: NodeId, text: &str, path: &str) -> Value {
        let node = self.nodes.get(id);
        if node.is_any() {
            return self.untyped_text(text);
        }
        if let Some(members) = &node.members {
            return self.member(node, members, text, path);
        }
        if node.types.has(Types::STRING) {
            return self.text_or_other(id, text, path);
        }
        let trimmed = text.trim();
        if let Some(read) = read_scalar(node.types, trimmed) {
            return self.settled(read, text, path);
        }
        if node.types.has(Types::OBJECT) && (trimmed.is_empty() || trimmed.starts_with('{')) {
            return self.object_text(id, trimmed, path);
        }
        if node.types.has(Types::ARRAY) {
            return self.list_text(id, trimmed, text, path);
        }
        self.problems.push(Problem::invalid(path, node.types.words(), &text.into()));
        text.into()
    }

    fn settled(&mut self, read: Read, text: &str, path: &str) -> Value {
        if let Read::Folded(value) = &read {
            self.coerced(path, text.into(), value);
        }
        read.value()
    }

    fn coerced(&mut self, path: &str, from: Value, to: &Value) {
        self.coercions.push(Coercion { path: path.to_owned(), from, to: to.clone() });
    }

    /// A string, unless another declared type is certain.
    fn text_or_other(&mut self, id: NodeId, text: &str, path: &str) -> Value {
        let node = self.nodes.get(id);
        if let Some(string) = unquoted(node.types, text) {
            return string.into_owned().into();
        }
        match other_reading(node.types, text) {
            Some(Other::Scalar(read)) => self.settled(read, text, path),
            Some(Other::Structure(value)) => self.json(id, value, path),
            None => text.into(),
        }
    }

    /// One of the legal values: exact, then unique when letters' case is ignored.
    fn member(&mut self, node: &Node, members: &[Value], text: &str, path: &str) -> Value {
        let trimmed = text.trim();
        let as_json = |member: &&Value| is_json_text(member, trimmed);
        let as_text = |member: &&Value| member.as_str() == Some(text);
        let as_trimmed = |member: &&Value| member.as_str() == Some(trimmed);
        let exact = members.iter().find(as_json).or_else(|| members.iter().find(as_text));
        if let Some(member) = exact.or_else(|| members.iter().find(as_trimmed)) {
            return member.clone();
        }
        let folded = trimmed.to_lowercase();
        let mut alike = members.iter().filter(|member| match member {
            Value::String(member) => member.to_lowercase() == folded,
            Value::Number(_) => {
                scalar::number(trimmed).is_some_and(|read| same_number(&read.value(), member))
            }
            Value::Bool(_) => scalar::boolean(trimmed).is_some_and(|read| read.value() == **member),
            Value::Null => scalar::null(trimmed).is_some(),
            Value::Array(_) | Value::Object(_) => {
                parse_lenient(trimmed).is_ok_and(|(value, _)| value == **member)
            }
        });
        if let (Some(member), None) = (alike.next(), alike.next()) {
            let member = member.clone();
            self.coerced(path, text.into(), &member);
            return member;
        }
        if let Some(read) = scalar::null(trimmed).filter(|_| node.types.has(Types::NULL)) {
            return self.settled(read, text, path);
        }
        self.problems.push(Problem::not_a_member(path, members, &trimmed.into()));
        text.into()
    }

    fn object_text(&mut self, id: NodeId, text: &str, path: &str) -> Value {
        if text.is_empty() {
            return Value::Object(Map::new());
        }
        self.structure(id, text, path)
    }

    /// JSON text, typed further by the schema.
    fn structure(&mut self, id: NodeId, text: &str, path: &str) -> Value {
        match parse_lenient(text) {
            Ok((value, repaired)) => {
                self.json_repaired |= repaired;
                self.json(id, value, path)
            }
            Err(fault) => {
                let what = match fault.kind {
                    FaultKind::Truncated => "complete JSON",
                    FaultKind::Broken | FaultKind::TooDeep => "valid JSON",
                    _ => "JSON",
                };
                let words = self.nodes.get(id).types.words();
                let expected = format!("{words} as {what} ({fault})");
                self.problems.push(Problem::invalid(path, expected, &text.into()));
                text.into()
            }
        }
    }

    /// Nothing, JSON text, a comma list where numbers are declared, or one bare value.
    fn list_text(&mut self, id: NodeId, trimmed: &str, text: &str, path: &str) -> Value {
        let node = self.nodes.get(id);
        if trimmed.is_empty() {
            return Value::Array(Vec::new());
        }
        let object_item = node.item.is_some_and(|item| {
            let item = self.nodes.get(item);
            item.types.has(Types::OBJECT) && !item.types.has(Types::STRING)
        });
        if trimmed.starts_with('[') || (trimmed.starts_with('{') && object_item) {
            return self.structure(id, trimmed, path);
        }
        let numbers = node
            .item
            .map(|item| self.nodes.get(item).types)
            .filter(|types| types.has(Types::INTEGER.with(Types::NUMBER)) && !types.has(Types::STRING));
        let from = Value::from(text);
        let parts: Vec<&str> = match numbers {
            Some(_) => trimmed.split(',').map(str::trim).collect(),
            None => vec![text],
        };
        let items = parts
            .iter()
            .enumerate()
            .map(|(index, part)| self.item(node, &RawValue::Text((*part).to_owned()), index, path))
            .collect();
        let list = Value::Array(items);
        self.coerced(path, from, &list);
        list
    }

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
            value if node.types.admits(Types::of(&value)) => value,
            value => self.mistyped(id, value, path),
        }
    }

    fn json_member(&mut self, node: &Node, members: &[Value], value: Value, path: &str) -> Value {
        if members.contains(&value) || (value.is_null() && node.types.has(Types::NULL)) {
            return value;
        }
        if let Some(member) = members.iter().find(|member| same_number(&value, member)) {
            return member.clone();
        }
        match value {
            Value::String(text) => self.member(node, members, &text, path),
            value => {
                self.problems.push(Problem::not_a_member(path, members, &value));
                value
            }
        }
    }

    fn json_fields(&mut self, node: &Node, object: Map<String, Value>, path: &str) -> Value {
        let mut typed = Map::with_capacity(object.len());
        for (name, value) in object {
            let place = joined(path, &name);
            let (name, id) = match declared(node, &name) {
                Some((name, id)) => (name.to_owned(), Some(id)),
                None if node.closed => {
                    let near = agent_types::nearest(&name, node.fields.keys().map(String::as_str));
                    self.problems.push(Problem::unknown(path, &name, near));
                    continue;
                }
                None => (name, node.additional),
            };
            let value = match id {
                Some(id) => self.json(id, value, &place),
                None => value,
            };
            typed.insert(name, value);
        }
        Value::Object(typed)
    }

    fn json_list(&mut self, node: &Node, items: Vec<Value>, path: &str) -> Value {
        let typed = items.into_iter().enumerate().map(|(index, item)| {
            match node.prefix.get(index).copied().or(node.item) {
                Some(id) => self.json(id, item, &joined(path, &index.to_string())),
                None => item,
            }
        });
        Value::Array(typed.collect())
    }

    /// A JSON value of a type that is not declared: a text may say the right thing, one element may be a list, a whole double is an integer.
    fn mistyped(&mut self, id: NodeId, value: Value, path: &str) -> Value {
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
        self.problems.push(Problem::invalid(path, node.types.words(), &value));
        value
    }

    /// The first alternative that fits as it is, else the first that fits with coercions, else the one with the fewest problems.
    fn alternatives(
        &mut self,
        node: &Node,
        path: &str,
        mut read: impl FnMut(&mut Self, NodeId) -> Value,
    ) -> Value {
        let mut best: Option<Attempt> = None;
        for &branch in &node.branches {
            let attempt = self.attempt(|reader| read(reader, branch), branch, path);
            let perfect = attempt.problems.is_empty() && attempt.coercions.is_empty();
            let rank = |attempt: &Attempt| (attempt.problems.len(), attempt.coercions.len());
            if best.as_ref().is_none_or(|best| rank(&attempt) < rank(best)) {
                best = Some(attempt);
            }
            if perfect {
                break;
            }
        }
        let Some(best) = best else { return Value::Null };
        self.coercions.extend(best.coercions);
        self.problems.extend(best.problems);
        best.value
    }

    fn attempt(&mut self, read: impl FnOnce(&mut Self) -> Value, branch: NodeId, path: &str) -> Attempt {
        let coercions = std::mem::take(&mut self.coercions);
        let problems = std::mem::take(&mut self.problems);
        let value = if self.depth >= MAX_VALUE_DEPTH {
            Value::Null
        } else {
            self.depth += 1;
            let value = read(self);
            self.depth -= 1;
            value
        };
        // What an alternative requires tells it from the others.
        let node = self.nodes.get(branch);
        if let Value::Object(object) = &value {
            let missing = node.required.iter().filter(|name| !object.contains_key(*name));
            self.problems.extend(missing.map(|name| Problem::missing(path, name)));
        }
        Attempt {
            value,
            coercions: std::mem::replace(&mut self.coercions, coercions),
            problems: std::mem::replace(&mut self.problems, problems),
        }
    }

    /// Where nothing is declared, JSON text is JSON and other text is text.
    fn untyped_text(&mut self, text: &str) -> Value {
        let trimmed = text.trim();
        if trimmed.is_empty() {
            return text.into();
        }
        match parse_lenient(trimmed) {
            Ok((value, false)) => value,
            Ok((value @ (Value::Array(_) | Value::Object(_)), true)) => {
                self.json_repaired = true;
                value
            }
            Ok(_) | Err(_) => text.into(),
        }
    }

    fn untyped(&mut self, value: &RawValue, path: &str) -> Value {
        match value {
            RawValue::Text(text) => self.untyped_text(text),
            RawValue::Json(value) => value.clone(),
            RawValue::Elements { children, source, mixed } => {
                self.untyped_elements(children, source, *mixed, path)
            }
        }
    }

    fn untyped_elements(&mut self, children: &[RawArgument], source: &str, mixed: bool, path: &str) -> Value {
        if mixed {
            return source.into();
        }
        self.nested(
            |reader| {
                if children.iter().all(|child| child.name == ITEM) {
                    return children.iter().map(|child| reader.untyped(&child.value, path)).collect();
                }
                let fields = grouped(children)
                    .into_iter()
                    .map(|(name, group)| (name.to_owned(), reader.untyped_group(&group, path)));
                Value::Object(fields.collect())
            },
            source,
        )
    }

    fn untyped_group(&mut self, group: &[&RawValue], path: &str) -> Value {
        match group {
            [single] => self.untyped(single, path),
            several => several.iter().map(|value| self.untyped(value, path)).collect(),
        }
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

fn read_scalar(types: Types, text: &str) -> Option<Read> {
    let integer = || types.has(Types::INTEGER).then(|| scalar::integer(text)).flatten();
    let number = || types.has(Types::NUMBER).then(|| scalar::number(text)).flatten();
    let boolean = || types.has(Types::BOOLEAN).then(|| scalar::boolean(text)).flatten();
    let null = || types.has(Types::NULL).then(|| scalar::null(text)).flatten();
    integer().or_else(number).or_else(boolean).or_else(null)
}

/// What a text is besides a string, where a string is declared too.
enum Other {
    Scalar(Read),
    Structure(Value),
}

/// Another reading than a string: JSON text of a declared type exactly as JSON writes it, or a word for null.
fn other_reading(types: Types, text: &str) -> Option<Other> {
    let trimmed = text.trim();
    if types.has(Types::NULL)
        && let Some(read) = scalar::null(trimmed)
    {
        return Some(Other::Scalar(read));
    }
    let scalars = types.without(Types::STRING.with(Types::NULL));
    if let Some(read @ Read::Exact(_)) = read_scalar(scalars, trimmed) {
        return Some(Other::Scalar(read));
    }
    let structure = (types.has(Types::OBJECT) && trimmed.starts_with('{'))
        || (types.has(Types::ARRAY) && trimmed.starts_with('['));
    structure.then(|| parse_lenient(trimmed).ok().map(|(value, _)| Other::Structure(value))).flatten()
}

/// The string inside quotes that it needed. A quoted text that needs none is a string with quotes.
fn unquoted(types: Types, text: &str) -> Option<Cow<'static, str>> {
    if types == Types::STRING {
        return None;
    }
    // Each level of quotes is longer than the one inside, so the loop ends.
    let mut inner = text.to_owned();
    let mut levels = Vec::new();
    while inner.starts_with('"') {
        let Ok(string) = serde_json::from_str::<String>(&inner) else { break };
        if !is_json_text(&Value::from(string.as_str()), &inner) {
            break;
        }
        levels.push(string.clone());
        inner = string;
    }
    // The innermost text decides: if it would be read as something else, each level of quotes is one that was needed.
    let innermost = levels.last()?;
    other_reading(types, innermost)?;
    levels.into_iter().next().map(Cow::Owned)
}

/// Whether a text is a value exactly as JSON writes it.
fn is_json_text(value: &Value, text: &str) -> bool {
    serde_json::to_string(value).is_ok_and(|json| json == text)
}

/// The integer that a whole double stands for, where a double is exact.
fn whole(value: &Value) -> Option<Value> {
    const EXACT: f64 = 9_007_199_254_740_992.0;
    let number = value.as_f64().filter(|n| value.is_f64() && n.fract() == 0.0 && n.abs() <= EXACT)?;
    format!("{number:.0}").parse::<i64>().ok().map(Value::from)
}

fn same_number(value: &Value, member: &Value) -> bool {
    match (value, member) {
        (Value::Number(left), Value::Number(right)) => left == right || left.as_f64() == right.as_f64(),
        _ => false,
    }
}

/// For messages about what is no object at all.
pub(crate) fn not_an_object(value: &Value) -> String {
    format!("the arguments must be an object, got {}", shown(value))
}

#[cfg(test)]
mod tests {
    use protocol_action::Span;
    use serde_json::json;

    use super::*;

    fn argument(name: &str, value: RawValue) -> RawArgument {
        RawArgument::new(name, Span::default(), value)
    }

    fn text(text: &str) -> RawValue {
        RawValue::Text(text.into())
    }

    fn elements<'a>(children: impl IntoIterator<Item = (&'a str, RawValue)>) -> RawValue {
        let children = children.into_iter().map(|(name, value)| argument(name, value)).collect();
        RawValue::Elements { children, source: "<source/>".into(), mixed: false }
    }

    fn items<'a>(values: impl IntoIterator<Item = &'a str>) -> RawValue {
        elements(values.into_iter().map(|value| (ITEM, text(value))))
    }

    /// What a value is read as, and how many coercions that took; or the messages of its problems.
    fn read(schema: &Value, value: &RawValue) -> Result<(Value, usize), Vec<String>> {
        let nodes = Nodes::read(schema);
        let mut coercer = Coercer::new(&nodes);
        let read = coercer.raw(0, value, "/x");
        if coercer.problems.is_empty() {
            Ok((read, coercer.coercions.len()))
        } else {
            Err(coercer.problems.into_iter().map(|problem| problem.message).collect())
        }
    }

    #[track_caller]
    fn reads(schema: &Value, value: &RawValue, expected: Value, coercions: usize) {
        assert_eq!(read(schema, value), Ok((expected, coercions)), "{value:?} under {schema}");
    }

    #[track_caller]
    fn refuses(schema: &Value, value: &RawValue, messages: &[&str]) {
        let got = read(schema, value).unwrap_err();
        assert_eq!(got.len(), messages.len(), "{got:?}");
        for (got, message) in got.iter().zip(messages) {
            assert!(got.contains(message), "{got}");
        }
    }

    #[test]
    fn strings_stay_as_they_are() {
        let string = json!({"type": "string"});
        for value in ["01609", " a ", "null", "true", "{\"a\": 1}", "", "\"quoted\""] {
            reads(&string, &text(value), value.into(), 0);
        }
    }

    #[test]
    fn scalars_are_read_exactly() {
        reads(&json!({"type": "integer"}), &text("\n  5\n"), json!(5), 0);
        reads(&json!({"type": "integer"}), &text("42.0"), json!(42), 1);
        reads(&json!({"type": "number"}), &text("1e-3"), json!(0.001), 0);
        reads(&json!({"type": "boolean"}), &text("True"), json!(true), 1);
        reads(&json!({"type": ["integer", "null"]}), &text("None"), Value::Null, 1);
        refuses(&json!({"type": "boolean"}), &text("maybe"), &["'x' must be boolean, got \"maybe\""]);
        refuses(&json!({"type": "integer"}), &text("18446744073709551616"), &["must be integer"]);
        refuses(&json!({"type": "integer"}), &elements([("a", text("1"))]), &["must be integer"]);
    }

    #[test]
    fn a_string_or_something_else_is_decided_without_guessing() {
        let either = json!({"type": ["integer", "string"]});
        reads(&either, &text("7"), json!(7), 0);
        reads(&either, &text("007"), json!("007"), 0);
        reads(&either, &text("7 apples"), json!("7 apples"), 0);
        reads(&either, &text("\"7\""), json!("7"), 0);
        reads(&either, &text("\"seven\""), json!("\"seven\""), 0);
        reads(&either, &text("\"\\\"7\\\"\""), json!("\"7\""), 0);
        let nullable = json!({"type": ["string", "null"]});
        reads(&nullable, &text("None"), Value::Null, 1);
        reads(&nullable, &text("null"), Value::Null, 0);
        reads(&nullable, &text("\"null\""), json!("null"), 0);
    }

    #[test]
    fn members_are_found_exactly_or_by_a_unique_case() {
        let unit = json!({"type": "string", "enum": ["celsius", "fahrenheit", "none"]});
        reads(&unit, &text(" celsius "), json!("celsius"), 0);
        reads(&unit, &text("CELSIUS"), json!("celsius"), 1);
        reads(&unit, &text("none"), json!("none"), 0);
        refuses(&unit, &text("kelvin"), &["one of \"celsius\", \"fahrenheit\", \"none\", got \"kelvin\""]);
        reads(&json!({"enum": [1, "1", null]}), &text("1"), json!(1), 0);
        reads(&json!({"enum": [1, "1", null]}), &text("\"1\""), json!("1"), 0);
        reads(&json!({"enum": ["a", "a "]}), &text("a "), json!("a "), 0);
        refuses(&json!({"enum": ["A", "a"]}), &text("á"), &["one of"]);
    }

    #[test]
    fn lists_come_in_many_forms() {
        let strings = json!({"type": "array", "items": {"type": "string"}});
        reads(&strings, &items(["a", "b"]), json!(["a", "b"]), 0);
        reads(&strings, &items(["a"]), json!(["a"]), 0);
        reads(&strings, &text("a, b"), json!(["a, b"]), 1);
        reads(&strings, &text("[\"a\", \"b\"]"), json!(["a", "b"]), 0);
        reads(&strings, &text("  "), json!([]), 0);
        reads(&strings, &elements([("name", text("a")), ("name", text("b"))]), json!(["a", "b"]), 0);
        refuses(&strings, &text("[a, b]"), &["must be array as valid JSON"]);
        let numbers = json!({"type": "array", "items": {"type": "number"}});
        reads(&numbers, &text("1, 2.5,-3"), json!([1, 2.5, -3]), 1);
        refuses(&numbers, &text("1, x"), &["'x[1]' must be number"]);
    }

    #[test]
    fn lists_of_objects() {
        let points = json!({"type": "array", "items": {"type": "object", "additionalProperties": false,
            "properties": {"x": {"type": "number"}, "y": {"type": "number"}}}});
        let point = |x: &'static str| elements([("x", text(x)), ("y", text("2"))]);
        reads(
            &points,
            &elements([(ITEM, point("1")), (ITEM, point("3"))]),
            json!([{"x": 1, "y": 2}, {"x": 3, "y": 2}]),
            0,
        );
        reads(&points, &point("1"), json!([{"x": 1, "y": 2}]), 0);
        reads(&points, &text("{\"x\": 1}"), json!([{"x": 1}]), 1);
        refuses(&points, &elements([(ITEM, elements([("z", text("1"))]))]), &["Unknown parameter 'x[0].z'"]);
    }

    #[test]
    fn objects_come_from_elements_or_json() {
        let object = json!({"type": "object"});
        reads(
            &object,
            &elements([("message", text("hi")), ("n", text("2"))]),
            json!({"message": "hi", "n": 2}),
            0,
        );
        reads(&object, &text("{\"a\": [1, 2],}"), json!({"a": [1, 2]}), 0);
        reads(&object, &text(""), json!({}), 0);
        refuses(&object, &text("{\"a\": [1, 2"), &["must be object as complete JSON"]);
        refuses(&object, &text("plain"), &["must be object, got \"plain\""]);
    }

    #[test]
    fn untyped_values_are_json_where_they_can_be() {
        let any = json!({});
        reads(&any, &text("5"), json!(5), 0);
        reads(&any, &text("five"), json!("five"), 0);
        reads(&any, &text("[1]"), json!([1]), 0);
        reads(&any, &items(["1", "a"]), json!([1, "a"]), 0);
        reads(&any, &elements([("a", text("1")), ("a", text("2"))]), json!({"a": [1, 2]}), 0);
    }

    #[test]
    fn the_fitting_alternative_is_taken() {
        let shape = json!({"oneOf": [
            {"type": "object", "properties": {"kind": {"const": "circle"}, "r": {"type": "number"}}, "required": ["kind", "r"]},
            {"type": "object", "properties": {"kind": {"const": "square"}, "side": {"type": "number"}}, "required": ["kind", "side"]},
        ]});
        reads(
            &shape,
            &elements([("kind", text("square")), ("side", text("2"))]),
            json!({"kind": "square", "side": 2}),
            0,
        );
        refuses(&shape, &elements([("kind", text("square"))]), &["Missing parameter 'x.side'"]);
    }

    #[test]
    fn json_values_are_coerced_as_texts_are() {
        let nodes = Nodes::read(&json!({"type": "object", "properties": {
            "n": {"type": "integer"}, "tags": {"type": "array", "items": {"type": "string"}}, "zip": {"type": "string"}}}));
        let mut coercer = Coercer::new(&nodes);
        let value = coercer.json(0, json!({"n": "3", "tags": "a", "zip": 5}), "");
        assert_eq!(value, json!({"n": 3, "tags": ["a"], "zip": 5}));
        let places: Vec<_> = coercer.coercions.iter().map(|coercion| coercion.path.as_str()).collect();
        assert_eq!(places, ["/n", "/tags"]);
        assert_eq!(coercer.problems[0].message, "Parameter 'zip' must be string, got 5");
    }
}
