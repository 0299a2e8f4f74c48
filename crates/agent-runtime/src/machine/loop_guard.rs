//! Notices a model that does the same thing again and gets the same answer.

use std::collections::VecDeque;

use agent_types::canonical_json;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use sha2::{Digest, Sha256};

/// Number of recent calls that are compared.
const WINDOW: usize = 12;

/// Repetition at which the model is warned.
const WARN_AT: usize = 3;

/// The repetition that ends the run.
const STOP_AT: usize = 4;

/// Consequence of a repetition.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Repetition {
    /// Nothing yet.
    None,
    /// The model is warned, once.
    Warn(usize),
    /// The run ends.
    Stop,
}

/// Recent calls with their results, as hashes.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub(crate) struct LoopGuard {
    recent: VecDeque<String>,
}

impl LoopGuard {
    /// Remembers a call with its result and says what its repetition means.
    pub(crate) fn note(&mut self, tool: &str, arguments: &Map<String, Value>, result: &str) -> Repetition {
        let mut hash = Sha256::new();
        for part in [tool, &canonical_json(&Value::Object(arguments.clone())), result] {
            hash.update((part.len() as u64).to_le_bytes());
            hash.update(part);
        }
        let fingerprint = format!("{:x}", hash.finalize());
        let count = self.recent.iter().filter(|known| **known == fingerprint).count() + 1;
        if self.recent.len() == WINDOW {
            self.recent.pop_front();
        }
        self.recent.push_back(fingerprint);
        match count {
            WARN_AT => Repetition::Warn(count),
            STOP_AT.. => Repetition::Stop,
            _ => Repetition::None,
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn note(guard: &mut LoopGuard, arguments: &Value, result: &str) -> Repetition {
        guard.note("ls", arguments.as_object().unwrap(), result)
    }

    #[test]
    fn the_third_repetition_warns_and_the_fourth_stops() {
        let mut guard = LoopGuard::default();
        let same = json!({"p": "/x", "q": 1});
        assert_eq!(note(&mut guard, &same, "a"), Repetition::None);
        assert_eq!(note(&mut guard, &json!({"q": 1, "p": "/x"}), "a"), Repetition::None);
        assert_eq!(note(&mut guard, &json!({"p": "/y"}), "a"), Repetition::None);
        assert_eq!(note(&mut guard, &same, "b"), Repetition::None, "a new result is progress");
        assert_eq!(note(&mut guard, &same, "a"), Repetition::Warn(3));
        assert_eq!(note(&mut guard, &same, "a"), Repetition::Stop);
    }

    #[test]
    fn the_order_of_nested_keys_does_not_count() {
        let mut guard = LoopGuard::default();
        for _ in 0..2 {
            note(&mut guard, &json!({"p": [{"a": 1, "b": 2}]}), "a");
        }
        assert_eq!(note(&mut guard, &json!({"p": [{"b": 2, "a": 1}]}), "a"), Repetition::Warn(3));
    }

    #[test]
    fn what_is_long_ago_is_forgotten() {
        let mut guard = LoopGuard::default();
        let same = json!({"p": "/x"});
        note(&mut guard, &same, "a");
        note(&mut guard, &same, "a");
        for index in 0..WINDOW {
            note(&mut guard, &json!({"p": index}), "a");
        }
        assert_eq!(note(&mut guard, &same, "a"), Repetition::None);
    }
}
