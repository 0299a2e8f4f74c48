//! Alternatives: which one a value was meant for.

use agent_types::Problem;
use protocol_action::RawValue;
use serde_json::Value;

use super::text::certain;
use super::{Coercer, ITEM, MAX_VALUE_DEPTH};
use crate::compiled::Coercion;
use crate::node::{Node, NodeId, Types};
use crate::problem::{among, invalid, joined, missing, not_a_member, one_of};

/// Deepest alternatives of alternatives that a message names.
const MAX_NAMED_DEPTH: usize = 4;

/// Readings of values as alternatives at most. Alternatives inside alternatives multiply, so from then on only the first of
/// each is read.
const MAX_ATTEMPTS: usize = 20_000;

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
            RawValue::Elements { children, mixed: false, .. }
                if types.has(Types::ARRAY.with(Types::OBJECT)) =>
            {
                let all_items = children.iter().all(|child| child.name == ITEM);
                if !all_items && types.has(Types::STRING) && !types.has(Types::OBJECT) {
                    return self.foreign_names(&self.words_of(id, 0), children, path);
                }
                let structured = self.structured(node, all_items);
                let read = |reader: &mut Self, branch| reader.raw(branch, value, path);
                if !types.has(Types::STRING) {
                    return self.best_of(&structured, path, read);
                }
                Some(self.tried(|reader| reader.best_of(&structured, path, read)))
            }
            RawValue::Text(_) | RawValue::Elements { .. } | RawValue::Json(_) => None,
        };
        match first {
            Some(attempt) if attempt.problems.is_empty() && !attempt.value.is_null() => self.take(attempt),
            Some(_) | None => self.alternatives(node, path, |reader, branch| reader.raw(branch, value, path)),
        }
    }

    /// The alternatives that child elements can mean: lists for items, objects for other names, else any of both.
    fn structured(&self, node: &Node, all_items: bool) -> Vec<NodeId> {
        let of_types = |types: Types| -> Vec<NodeId> {
            let branches = node.branches.iter().copied();
            branches.filter(|&id| self.types_of(self.nodes.get(id)).has(types)).collect()
        };
        let named = of_types(if all_items { Types::ARRAY } else { Types::OBJECT });
        if named.is_empty() { of_types(Types::ARRAY.with(Types::OBJECT)) } else { named }
    }

    /// Returns `true` when alternatives were left out.
    pub(crate) const fn gave_up(&self) -> bool {
        self.attempts > MAX_ATTEMPTS
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
        let mut best: Option<(usize, Attempt)> = None;
        let mut none_fits = true;
        for &branch in branches {
            self.attempts += 1;
            if self.attempts > MAX_ATTEMPTS && best.is_some() {
                break;
            }
            let attempt = self.attempt(|reader| read(reader, branch), branch, path);
            let is_chosen = || self.has_constants_of(branch, &attempt.value);
            let group = if attempt.problems.is_empty() { 0 } else { 2 - usize::from(is_chosen()) };
            none_fits &= attempt.problems.iter().any(|problem| problem.value_path() == path);
            let rank = |group, attempt: &Attempt| (group, attempt.problems.len(), attempt.coercions.len());
            let perfect = group == 0 && attempt.coercions.is_empty();
            if best.as_ref().is_none_or(|(other, best)| rank(group, &attempt) < rank(*other, best)) {
                best = Some((group, attempt));
            }
            if perfect {
                break;
            }
        }
        let Some((group, mut best)) = best else { return Value::Null };
        if group == 2 {
            let constant = self.unknown_constant(branches, path, &best.value);
            let whole = || none_fits.then(|| self.fits_none(branches, path, &best.value));
            if let Some(problem) = constant.or_else(whole) {
                best.problems = vec![problem];
            }
        }
        self.take(best)
    }

    /// The fields of an alternative that have one legal value, with it.
    fn constants(&self, branch: NodeId) -> impl Iterator<Item = (&str, &Value)> {
        self.nodes.get(branch).fields.iter().filter_map(move |(name, &field)| {
            match self.nodes.get(field).members.as_deref() {
                Some([constant]) => Some((name.as_str(), constant)),
                Some(_) | None => None,
            }
        })
    }

    /// Returns `true` for an object whose constants are those of the alternative.
    fn has_constants_of(&self, branch: NodeId, value: &Value) -> bool {
        let mut constants = self.constants(branch).peekable();
        constants.peek().is_some() && constants.all(|(name, constant)| value.get(name) == Some(constant))
    }

    /// The fault of a constant that no alternative has.
    fn unknown_constant(&self, branches: &[NodeId], path: &str, value: &Value) -> Option<Problem> {
        let (&first, _) = branches.split_first().filter(|(_, others)| !others.is_empty())?;
        let (name, _) = self.constants(first).find(|(name, _)| {
            branches.iter().all(|&branch| self.constants(branch).any(|(other, _)| other == *name))
        })?;
        let of_name = |&branch: &NodeId| self.constants(branch).find(|(other, _)| *other == name);
        let members: Vec<Value> =
            branches.iter().filter_map(of_name).map(|(_, value)| value.clone()).collect();
        let got = value.get(name).filter(|got| !members.contains(got))?;
        Some(not_a_member(&joined(path, name), &members, got))
    }

    /// The fault of a value that none of the alternatives can be: all that would have fitted.
    fn fits_none(&self, branches: &[NodeId], path: &str, value: &Value) -> Problem {
        let words = self.words_of_all(branches, 0);
        let members: Vec<Value> =
            branches.iter().filter_map(|&id| self.nodes.get(id).members.clone()).flatten().collect();
        let problem = invalid(path, words, value);
        if members.is_empty() { problem } else { among(problem, &members, value) }
    }

    fn words_of_all(&self, branches: &[NodeId], depth: usize) -> String {
        let mut words: Vec<String> = Vec::new();
        for &branch in branches {
            let more = self.words_of(branch, depth + 1);
            if !words.contains(&more) {
                words.push(more);
            }
        }
        words.join(" or ")
    }

    /// Everything that a declaration allows, in words; alternatives of alternatives up to a depth.
    fn words_of(&self, id: NodeId, depth: usize) -> String {
        let node = self.nodes.get(id);
        match &node.members {
            Some(members) => one_of(members),
            None if node.branches.is_empty() || depth > MAX_NAMED_DEPTH => node.types.words(),
            None => self.words_of_all(&node.branches, depth),
        }
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
            let absent = node.required.iter().filter(|name| !object.contains_key(*name));
            attempt.problems.extend(absent.map(|name| missing(path, name)));
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
