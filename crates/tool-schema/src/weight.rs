//! The work that a schema means: a short schema may stand for more checks than anybody can wait for.
//!
//! Alternatives and references that meet at one value multiply. Where that happens without the value's help the schema is
//! refused as it is read; where a value that repeats itself makes it happen, that value is.

use std::collections::HashMap;

use serde_json::{Map, Value};

use crate::node::resolve;

/// Parts of a schema that may apply to one value.
const MAX_AT_ONE_VALUE: u64 = 5_000;

/// Parts that a schema may have when its references are replaced by their targets, so that every value may be checked.
const MAX_EXPANDED: u64 = 50_000;

/// Checks of a value at most.
const MAX_CHECKS: u64 = 500_000;

/// Deepest part that is followed.
const MAX_DEPTH: u32 = 256;

/// Keywords with schemas for the same value: one, a list, named ones.
const SAME: [&str; 6] = ["not", "if", "then", "else", "dependencies", "dependentSchemas"];
const SAME_LISTS: [&str; 3] = ["allOf", "anyOf", "oneOf"];

/// Keywords with a schema for every part of a value, or for those that other keywords leave.
const PARTS: [&str; 8] = [
    "items",
    "additionalItems",
    "contains",
    "unevaluatedItems",
    "additionalProperties",
    "unevaluatedProperties",
    "propertyNames",
    "patternProperties",
];

/// Work that a schema means for the values that it checks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Weight {
    /// Any value may be checked.
    Light,
    /// A value must be looked at first.
    DependsOnValue,
}

impl Weight {
    /// Measures a schema.
    ///
    /// # Errors
    /// More parts apply to one value than can be checked.
    pub(crate) fn measure(schema: &Value) -> Result<Self, String> {
        let mut reader = Reader { root: schema, same: HashMap::new(), all: HashMap::new(), recurs: false };
        if reader.largest(schema, 0) > MAX_AT_ONE_VALUE {
            return Err(format!(
                "more than {MAX_AT_ONE_VALUE} of its parts apply to one value; use fewer references and alternatives inside each other"
            ));
        }
        let expanded = reader.count(schema, Scope::All, 0);
        Ok(if reader.recurs || expanded > MAX_EXPANDED { Self::DependsOnValue } else { Self::Light })
    }

    /// Returns `true` for a value that can be checked in reasonable time.
    pub(crate) fn allows(self, schema: &Value, value: &Value) -> bool {
        match self {
            Self::Light => true,
            Self::DependsOnValue => {
                let mut checks = Checks { root: schema, known: HashMap::new() };
                checks.count(schema, value, 0) <= MAX_CHECKS && checks.known.len() < 100_000
            }
        }
    }
}

/// The parts of a schema that are counted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Scope {
    /// Those that apply to the same value.
    SameValue,
    /// Those of its parts as well.
    All,
}

struct Reader<'s> {
    root: &'s Value,
    /// Counts by target of a reference; one that is being counted is counted once.
    same: HashMap<&'s str, u64>,
    all: HashMap<&'s str, u64>,
    recurs: bool,
}

impl<'s> Reader<'s> {
    /// The largest number of parts for one value, anywhere in the document.
    fn largest(&mut self, schema: &'s Value, depth: u32) -> u64 {
        if depth >= MAX_DEPTH {
            return 0;
        }
        let inner = match schema {
            Value::Object(object) => object.values().map(|part| self.largest(part, depth + 1)).max(),
            Value::Array(items) => items.iter().map(|part| self.largest(part, depth + 1)).max(),
            Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => return 0,
        };
        let own = if schema.is_object() { self.count(schema, Scope::SameValue, 0) } else { 0 };
        own.max(inner.unwrap_or(0))
    }

    fn count(&mut self, schema: &'s Value, scope: Scope, depth: u32) -> u64 {
        let Value::Object(object) = schema else { return 1 };
        if depth >= MAX_DEPTH {
            return u64::MAX;
        }
        let mut inside = same_value(object);
        if scope == Scope::All {
            inside.extend(parts(object).into_iter().map(|(_, part)| part));
        }
        let mut count = 1_u64;
        for part in inside {
            count = count.saturating_add(self.count(part, scope, depth + 1));
        }
        if let Some(reference) = reference_of(object) {
            count = count.saturating_add(self.follow(reference, scope, depth));
        }
        // What is left over is known only when the rest was checked, and is checked again for each level.
        if object.keys().any(|key| key.starts_with("unevaluated")) { count.saturating_mul(2) } else { count }
    }

    fn follow(&mut self, reference: &'s str, scope: Scope, depth: u32) -> u64 {
        let known = match scope {
            Scope::SameValue => &mut self.same,
            Scope::All => &mut self.all,
        };
        if let Some(&count) = known.get(reference) {
            self.recurs |= count == 0;
            return count;
        }
        known.insert(reference, 0);
        let target = resolve(self.root, reference);
        let count = target.map_or(1, |target| self.count(target, scope, depth + 1));
        let known = match scope {
            Scope::SameValue => &mut self.same,
            Scope::All => &mut self.all,
        };
        known.insert(reference, count);
        count
    }
}

/// Counts the checks of one value, each pair of schema and value once.
struct Checks<'s> {
    root: &'s Value,
    known: HashMap<(*const Value, *const Value), u64>,
}

impl<'s> Checks<'s> {
    fn count(&mut self, schema: &'s Value, value: &'s Value, depth: u32) -> u64 {
        let Value::Object(object) = schema else { return 1 };
        if depth >= 4 * MAX_DEPTH {
            return u64::MAX;
        }
        let key = (std::ptr::from_ref(schema), std::ptr::from_ref(value));
        if let Some(&count) = self.known.get(&key) {
            return count;
        }
        self.known.insert(key, 1);
        let mut count = 1_u64;
        for part in same_value(object) {
            count = count.saturating_add(self.count(part, value, depth + 1));
        }
        if let Some(target) = reference_of(object).and_then(|reference| resolve(self.root, reference)) {
            count = count.saturating_add(self.count(target, value, depth + 1));
        }
        for (name, part) in parts(object) {
            for member in members(value, name) {
                count = count.saturating_add(self.count(part, member, depth + 1));
            }
        }
        if object.keys().any(|key| key.starts_with("unevaluated")) {
            count = count.saturating_mul(2);
        }
        self.known.insert(key, count);
        count
    }
}

/// The parts of a value that a schema for one name, or for all parts, applies to.
fn members<'v>(value: &'v Value, name: Option<&str>) -> Vec<&'v Value> {
    match (value, name) {
        (Value::Object(members), Some(name)) => members.get(name).into_iter().collect(),
        (Value::Object(members), None) => members.values().collect(),
        (Value::Array(items), None) => items.iter().collect(),
        _ => Vec::new(),
    }
}

fn reference_of(object: &Map<String, Value>) -> Option<&str> {
    ["$ref", "$dynamicRef", "$recursiveRef"].iter().find_map(|key| object.get(*key)?.as_str())
}

/// Schemas for the same value.
fn same_value(object: &Map<String, Value>) -> Vec<&Value> {
    let mut inside = Vec::new();
    for keyword in SAME {
        match object.get(keyword) {
            Some(Value::Object(named)) if keyword.starts_with("depend") => inside.extend(named.values()),
            Some(part) => inside.push(part),
            None => {}
        }
    }
    for keyword in SAME_LISTS {
        inside.extend(object.get(keyword).and_then(Value::as_array).into_iter().flatten());
    }
    inside
}

/// Schemas for parts of a value; those of `properties` with the name.
fn parts(object: &Map<String, Value>) -> Vec<(Option<&str>, &Value)> {
    let mut inside = Vec::new();
    if let Some(Value::Object(named)) = object.get("properties") {
        inside.extend(named.iter().map(|(name, part)| (Some(name.as_str()), part)));
    }
    for keyword in PARTS {
        match object.get(keyword) {
            Some(Value::Object(named)) if keyword == "patternProperties" => {
                inside.extend(named.values().map(|part| (None, part)));
            }
            Some(Value::Array(items)) => inside.extend(items.iter().map(|part| (None, part))),
            Some(part) => inside.push((None, part)),
            None => {}
        }
    }
    inside.extend(
        object.get("prefixItems").and_then(Value::as_array).into_iter().flatten().map(|part| (None, part)),
    );
    inside
}
