//! Tools that a model may use, and calls of them.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::{CallId, ToolId};

/// One request for a tool, with arguments that already fit its schema.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ToolCall {
    /// Unique within the run; binds the call to its one observation.
    pub id: CallId,
    /// Tool that is called.
    pub tool: ToolId,
    /// The arguments, by parameter name.
    pub arguments: Map<String, Value>,
}

/// Description of a tool for a provider. The schema dialects are renderings of it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ToolSpec {
    /// Name on the wire: `^[A-Za-z_][A-Za-z0-9_-]{0,63}$`.
    pub name: String,
    /// Purpose of the tool, written for the model.
    pub description: String,
    /// JSON Schema of the arguments, an object.
    pub parameters: Value,
}

/// Hints of a tool about its own behaviour.
#[expect(
    clippy::struct_excessive_bools,
    reason = "four independent hints, named as the tool protocols name them"
)]
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct Annotations {
    /// The tool is read-only: a call has no visible effect.
    pub read_only: bool,
    /// Changes something outside the run: asks for approval by default and is never repeated alone.
    pub effect: bool,
    /// The same call twice does what it does once.
    pub idempotent: bool,
    /// Reaches beyond this machine.
    pub open_world: bool,
}

/// Default decision on a call of a tool, before a human is asked.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum ApprovalDefault {
    /// It runs.
    #[default]
    Auto,
    /// A person is asked.
    Ask,
    /// It is refused.
    Never,
}

/// Tokens that a model read and wrote.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Usage {
    /// Tokens read.
    pub input: u64,
    /// Tokens written, reasoning included.
    pub output: u64,
    /// Both together.
    pub total: u64,
    /// Tokens of those read that came out of the provider's cache.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub cached: u64,
    /// Tokens of those read that were written into the provider's cache.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub cache_written: u64,
    /// Cost in millionths of a dollar, where the prices of the model are known.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub cost_micros: u64,
    /// At least one of them is an estimate, because the server did not report it.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub estimated: bool,
}

impl Usage {
    /// So many tokens read and written.
    #[must_use]
    pub const fn new(input: u64, output: u64) -> Self {
        let total = input.saturating_add(output);
        Self { input, output, total, cached: 0, cache_written: 0, cost_micros: 0, estimated: false }
    }

    /// The same tokens, of which so many were read out of a cache, and written into one.
    #[must_use]
    pub const fn with_cache(self, cached: u64, written: u64) -> Self {
        Self { cached, cache_written: written, ..self }
    }

    /// The same numbers, marked as an estimate.
    #[must_use]
    pub const fn as_estimate(self) -> Self {
        Self { estimated: true, ..self }
    }
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde passes a reference")]
const fn is_zero(tokens: &u64) -> bool {
    *tokens == 0
}

/// Tokens of a text, roughly: a CJK character is one, of everything else four bytes are.
#[must_use]
pub fn estimate_tokens(text: &str) -> usize {
    let is_cjk = |c: &char| matches!(u32::from(*c), 0x2E80..=0x9FFF | 0xAC00..=0xD7AF | 0xF900..=0xFAFF | 0xFF00..=0xFFEF | 0x20000..=0x3FFFF);
    let cjk = text.chars().filter(is_cjk);
    let (count, bytes) = cjk.fold((0, 0), |(count, bytes), c| (count + 1, bytes + c.len_utf8()));
    count + (text.len() - bytes).div_ceil(4)
}

impl std::ops::AddAssign for Usage {
    fn add_assign(&mut self, other: Self) {
        let estimated = self.estimated || other.estimated;
        let (input, output) =
            (self.input.saturating_add(other.input), self.output.saturating_add(other.output));
        let sum = Self::new(input, output).with_cache(
            self.cached.saturating_add(other.cached),
            self.cache_written.saturating_add(other.cache_written),
        );
        *self = Self { estimated, cost_micros: self.cost_micros.saturating_add(other.cost_micros), ..sum };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tokens_are_estimated() {
        assert_eq!(estimate_tokens("abcd efgh"), 3);
        assert_eq!(estimate_tokens("摘要 ok"), 3);
    }

    #[test]
    fn a_sum_that_holds_an_estimate_is_one() {
        let mut sum = Usage::new(1, 2);
        sum += Usage::new(3, 4).as_estimate();
        assert_eq!(sum, Usage::new(4, 6).as_estimate());
        sum += Usage::new(9, 0).with_cache(5, 2);
        sum += Usage::new(1, 0).with_cache(1, 0);
        assert_eq!((sum.input, sum.cached, sum.cache_written), (14, 6, 2));
    }
}
