//! Alternatives: which one a value was meant for.

use serde_json::Value;

use super::{Coercer, MAX_VALUE_DEPTH};
use crate::compiled::Coercion;
use crate::node::{Node, NodeId};
use crate::problem::Problem;

/// What an alternative made of a value.
struct Attempt {
    value: Value,
    coercions: Vec<Coercion>,
    problems: Vec<Problem>,
}

impl Coercer<'_> {
    /// The first alternative that fits as it is, else the first that fits with coercions, else the one with the fewest problems.
    pub(super) fn alternatives(
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
}
