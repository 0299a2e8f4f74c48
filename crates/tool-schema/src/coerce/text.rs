//! Texts by the declared types.

use std::borrow::Cow;

use protocol_action::Limits;
use protocol_action::RawValue;
use protocol_action::json::{FaultKind, Reading, parse_lenient, read_lenient};
use serde_json::{Map, Value};

use super::Coercer;
use crate::node::{Node, NodeId, Types};
use crate::problem;
use crate::scalar::{self, Read};

impl Coercer<'_> {
    /// A text by the declared types.
    pub(super) fn text(&mut self, id: NodeId, text: &str, path: &str) -> Value {
        let node = self.nodes.get(id);
        if node.is_any() {
            return self.untyped_text(text, path);
        }
        if let Some(inner) = single_item(text).filter(|_| is_scalar(node)) {
            return self.unwrapped(id, inner, text, path);
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
        self.problems.push(problem::invalid(path, node.types.words(), &text.into()));
        text.into()
    }

    /// The value inside the only item where no list is declared.
    fn unwrapped(&mut self, id: NodeId, inner: &str, text: &str, path: &str) -> Value {
        let problems = self.problems.len();
        let value = self.text(id, inner, path);
        if self.problems.len() == problems {
            self.coerced(path, text.into(), &value);
        }
        value
    }

    pub(super) fn settled(&mut self, read: Read, text: &str, path: &str) -> Value {
        if let Read::Folded(value) = &read {
            self.coerced(path, text.into(), value);
        }
        read.value()
    }

    /// A string, unless another declared type is certain.
    pub(super) fn text_or_other(&mut self, id: NodeId, text: &str, path: &str) -> Value {
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
    pub(super) fn member(&mut self, node: &Node, members: &[Value], text: &str, path: &str) -> Value {
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
        self.problems.push(problem::not_a_member(path, members, &trimmed.into()));
        text.into()
    }

    pub(super) fn object_text(&mut self, id: NodeId, text: &str, path: &str) -> Value {
        if text.is_empty() {
            return Value::Object(Map::new());
        }
        self.structure(id, text, path)
    }

    /// JSON text, typed further by the schema.
    pub(super) fn structure(&mut self, id: NodeId, text: &str, path: &str) -> Value {
        match read_lenient(text, Limits::default().depth) {
            Ok(Reading { value, repaired, conflicts, .. }) => {
                self.json_repaired |= repaired;
                self.conflicts(&conflicts, path);
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
                self.problems.push(problem::invalid(path, expected, &text.into()));
                text.into()
            }
        }
    }

    /// Members that JSON text gives twice with different values.
    pub(super) fn conflicts(&mut self, conflicts: &[String], path: &str) {
        self.problems.extend(conflicts.iter().map(|pointer| problem::duplicate(&format!("{path}{pointer}"))));
    }

    /// Nothing, JSON text, numbers parted by commas or lines where numbers are declared, or one bare value.
    pub(super) fn list_text(&mut self, id: NodeId, trimmed: &str, text: &str, path: &str) -> Value {
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
            Some(_) => trimmed.split([',', '\n']).map(str::trim).collect(),
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
}

/// Returns `true` where only numbers, booleans and null are legal.
fn is_scalar(node: &Node) -> bool {
    let scalar = |value: &Value| value.is_number() || value.is_boolean() || value.is_null();
    let others = Types::STRING.with(Types::ARRAY).with(Types::OBJECT);
    let declared = || !node.types.is_empty() && !node.types.has(others);
    node.members.as_ref().map_or_else(declared, |members| members.iter().all(scalar))
}

/// The text of an `<item>` that is the whole value.
fn single_item(text: &str) -> Option<&str> {
    let inner = text.trim().strip_prefix("<item>")?.strip_suffix("</item>")?;
    (!inner.contains('<')).then_some(inner)
}

fn read_scalar(types: Types, text: &str) -> Option<Read> {
    let integer = || types.has(Types::INTEGER).then(|| scalar::integer(text)).flatten();
    let number = || types.has(Types::NUMBER).then(|| scalar::number(text)).flatten();
    let boolean = || types.has(Types::BOOLEAN).then(|| scalar::boolean(text)).flatten();
    let null = || types.has(Types::NULL).then(|| scalar::null(text)).flatten();
    integer().or_else(number).or_else(boolean).or_else(null)
}

/// Reading of a text as something besides a string, where a string is declared too.
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
    // A text that says two things at once is a text.
    let read =
        || read_lenient(trimmed, Limits::default().depth).ok().filter(|read| read.conflicts.is_empty());
    structure.then(read).flatten().map(|read| Other::Structure(read.value))
}

/// Certain reading of a text where a string is declared beside other types: JSON of one of them, or a string in quotes
/// that it needed.
pub(super) fn certain(types: Types, text: &str) -> Option<Value> {
    if let Some(string) = unquoted(types, text) {
        return Some(string.into_owned().into());
    }
    match other_reading(types, text)? {
        Other::Scalar(read) => Some(read.value()),
        Other::Structure(value) => Some(value),
    }
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

/// Returns `true` for a text that is a value exactly as JSON writes it.
fn is_json_text(value: &Value, text: &str) -> bool {
    serde_json::to_string(value).is_ok_and(|json| json == text)
}

pub(super) fn same_number(value: &Value, member: &Value) -> bool {
    match (value, member) {
        (Value::Number(left), Value::Number(right)) => left == right || left.as_f64() == right.as_f64(),
        _ => false,
    }
}
