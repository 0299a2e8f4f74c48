//! Alternatives: which one a value was meant for.

use agent_types::Problem;
use protocol_action::RawValue;
use serde_json::Value;

use super::text::certain;
use super::{Coercer, MAX_VALUE_DEPTH};
use crate::compiled::Coercion;
use crate::node::{Node, NodeId, Types};
use crate::problem;

/// Result of reading a value as one alternative.
struct Attempt {
    value: Value,
    coercions: Vec<Coercion>,
    problems: Vec<Problem>,
}

impl Coercer<'_> {
    /// Reads a value of a reply against alternatives.
    ///
    /// Every text and every element could be a string. Where one alternative is a string the others are tried first,
    /// as with several types: the value is a string unless another reading is certain.
    pub(super) fn raw_alternatives(&mut self, id: NodeId, value: &RawValue, path: &str) -> Value {
        let node = self.nodes.get(id);
        let types = self.types_of(node);
        let first = match value {
            RawValue::Text(text) if types.has(Types::STRING) => {
                let value = certain(types, text).unwrap_or_else(|| text.as_str().into());
                Some(self.tried(|reader| reader.json(id, value, path)))
            }
            RawValue::Elements { mixed: false, .. } if types.has(Types::STRING) => {
                let structure = Types::ARRAY.with(Types::OBJECT);
                let branches = node.branches.iter().copied();
                let structured: Vec<_> =
                    branches.filter(|&id| self.types_of(self.nodes.get(id)).has(structure)).collect();
                Some(self.tried(|reader| {
                    reader.best_of(&structured, path, |reader, branch| reader.raw(branch, value, path))
                }))
            }
            RawValue::Text(_) | RawValue::Elements { .. } | RawValue::Json(_) => None,
        };
        match first {
            Some(attempt) if attempt.problems.is_empty() && !attempt.value.is_null() => self.take(attempt),
            Some(_) | None => self.alternatives(node, path, |reader, branch| reader.raw(branch, value, path)),
        }
    }

    /// The types that a node or any of its alternatives declares.
    fn types_of(&self, node: &Node) -> Types {
        let mut types = node.types;
        let mut open = node.branches.clone();
        // Alternatives are few and schemas are cut at a depth, so this ends soon; a cycle ends at the first repeat.
        let mut seen = Vec::new();
        while let Some(id) = open.pop() {
            if !seen.contains(&id) {
                seen.push(id);
                types = types.with(self.nodes.get(id).types);
                open.extend(&self.nodes.get(id).branches);
            }
        }
        types
    }

    /// The first alternative that fits as it is, else the first that fits with coercions, else the one with the fewest problems.
    pub(super) fn alternatives(
        &mut self,
        node: &Node,
        path: &str,
        read: impl FnMut(&mut Self, NodeId) -> Value,
    ) -> Value {
        self.best_of(&node.branches, path, read)
    }

    fn best_of(
        &mut self,
        branches: &[NodeId],
        path: &str,
        mut read: impl FnMut(&mut Self, NodeId) -> Value,
    ) -> Value {
        let mut best: Option<Attempt> = None;
        for &branch in branches {
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
        best.map_or(Value::Null, |best| self.take(best))
    }

    fn take(&mut self, attempt: Attempt) -> Value {
        self.coercions.extend(attempt.coercions);
        self.problems.extend(attempt.problems);
        attempt.value
    }

    fn attempt(&mut self, read: impl FnOnce(&mut Self) -> Value, branch: NodeId, path: &str) -> Attempt {
        let mut attempt = self.tried(read);
        // The required fields of an alternative distinguish it from the others.
        let node = self.nodes.get(branch);
        if let Value::Object(object) = &attempt.value {
            let missing = node.required.iter().filter(|name| !object.contains_key(*name));
            attempt.problems.extend(missing.map(|name| problem::missing(path, name)));
        }
        attempt
    }

    /// Reads without recording coercions and problems.
    fn tried(&mut self, read: impl FnOnce(&mut Self) -> Value) -> Attempt {
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
        Attempt {
            value,
            coercions: std::mem::replace(&mut self.coercions, coercions),
            problems: std::mem::replace(&mut self.problems, problems),
        }
    }
}
