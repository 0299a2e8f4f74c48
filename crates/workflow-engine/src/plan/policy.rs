//! Policy of one node: start conditions, limits, retries and failure.

use std::sync::Arc;
use std::time::Duration;

use agent_types::Backoff;
use workflow_model::{Cache, Node, OnError, Retry};

use crate::expression::Expression;

/// The rules of one node.
#[derive(Debug, Default, Clone)]
pub(crate) struct Policy {
    pub(crate) timeout: Option<Duration>,
    pub(crate) idle: Option<Duration>,
    pub(crate) total: Option<Duration>,
    pub(crate) retry: Option<Retry>,
    pub(crate) on_error: OnError,
    pub(crate) cache: Option<Cache>,
    /// Index of a named limit.
    pub(crate) group: Option<u32>,
    pub(crate) first: bool,
    pub(crate) cancel_rest: bool,
    pub(crate) effect: bool,
    pub(crate) skip_if: Option<Arc<Expression>>,
}

impl Policy {
    /// The rules that the file states; the group and the condition come later.
    pub(crate) fn from_node(node: &Node, effect: bool) -> Self {
        let millis = |limit: Option<u64>| limit.map(Duration::from_millis);
        Self {
            timeout: millis(node.timeout_ms),
            idle: millis(node.idle_ms),
            total: millis(node.total_ms),
            retry: node.retry.clone(),
            on_error: node.on_error.clone().unwrap_or_default(),
            cache: node.cache.clone().filter(|cache| *cache != Cache::Off),
            group: None,
            first: node.first,
            cancel_rest: node.first && node.cancel_rest,
            effect,
            skip_if: None,
        }
    }

    /// Returns `true` if an attempt needs supervision by timers or retries.
    pub(crate) fn supervises_attempts(&self) -> bool {
        self.timeout.is_some() || self.idle.is_some() || self.total.is_some() || self.retry.is_some()
    }

    /// Returns `true` without any rule.
    pub(crate) fn is_plain(&self) -> bool {
        !self.supervises_attempts()
            && self.on_error == OnError::Fail
            && self.cache.is_none()
            && self.group.is_none()
            && !self.first
            && !self.effect
            && self.skip_if.is_none()
    }

    /// The wait before the attempt after the `failed`th: doubled each time, up to its limit.
    pub(crate) fn backoff(&self, failed: u32) -> Duration {
        let Some(retry) = &self.retry else { return Duration::ZERO };
        let max = retry.max_backoff_ms.map_or(Duration::MAX, Duration::from_millis);
        Backoff::new(Duration::from_millis(retry.backoff_ms)).with_max(max).after(failed.max(1))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn waits_double_up_to_their_limit() {
        let retry = |max_backoff_ms| Some(Retry { max: 9, backoff_ms: 100, max_backoff_ms });
        let policy = |limit| Policy { retry: retry(limit), ..Policy::default() };
        let waits = |policy: &Policy| [1, 2, 3, 90].map(|failed| policy.backoff(failed).as_millis());
        assert_eq!(waits(&policy(Some(250))), [100, 200, 250, 250]);
        assert_eq!(waits(&policy(None))[..3], [100, 200, 400]);
        assert_eq!(Policy::default().backoff(3), Duration::ZERO);
    }
}
