//! Timeouts, retries and concurrency of requests to a model.

use std::hash::{BuildHasher, RandomState};
use std::time::Duration;

use agent_types::Backoff;

use crate::LlmError;

/// Timeouts, attempts and concurrency of requests.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CallPolicy {
    /// Attempts after the first, when nothing of the answer has come yet (2).
    pub retries: u32,
    /// The wait before the second attempt, doubled with each further one (500 ms).
    pub backoff: Duration,
    /// Maximum backoff (20 s).
    pub max_backoff: Duration,
    /// The longest wait that a server may ask for; a longer one is not waited, the request fails (60 s).
    pub max_retry_after: Duration,
    /// The wait for the first token of an attempt (2 min).
    pub first_token: Duration,
    /// The wait between two tokens (2 min).
    pub between_tokens: Duration,
    /// The time of one attempt, from sending to the end of the answer (30 min).
    pub whole: Duration,
    /// Concurrent requests; further ones wait in order. Unlimited by default.
    pub max_parallel: Option<usize>,
}

impl Default for CallPolicy {
    fn default() -> Self {
        Self {
            retries: 2,
            backoff: Duration::from_millis(500),
            max_backoff: Duration::from_secs(20),
            max_retry_after: Duration::from_mins(1),
            first_token: Duration::from_mins(2),
            between_tokens: Duration::from_mins(2),
            whole: Duration::from_mins(30),
            max_parallel: None,
        }
    }
}

impl CallPolicy {
    /// Backoff before the next attempt, or `None` after the last one.
    ///
    /// A wait that the server asks for is respected; others are randomly up to a quarter shorter (`spread`, from 0 to
    /// 1),
    /// so that requests that failed together do not retry together.
    pub(crate) fn delay(&self, attempt: u32, error: &LlmError, spread: f64) -> Option<Duration> {
        if attempt > self.retries || !error.is_retryable() {
            return None;
        }
        if let Some(asked) = error.retry_after() {
            return (asked <= self.max_retry_after).then_some(asked);
        }
        let longest = Backoff::new(self.backoff).with_max(self.max_backoff).after(attempt);
        Some(longest.mul_f64(1.0 - spread.clamp(0.0, 1.0) / 4.0))
    }
}

/// A number from 0 to 1, another one each time.
pub(crate) fn spread() -> f64 {
    // The keys of a `RandomState` are random, and differ from one to the next.
    let bits = RandomState::new().hash_one(0_u8) >> 40;
    f64::from(u32::try_from(bits).unwrap_or(0)) / f64::from(1_u32 << 24)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn limited(seconds: Option<u64>) -> LlmError {
        LlmError::RateLimited { message: String::new(), retry_after: seconds.map(Duration::from_secs) }
    }

    fn status(status: u16) -> LlmError {
        LlmError::Status { status, message: String::new(), retry_after: None }
    }

    #[track_caller]
    fn check(attempt: u32, error: &LlmError, spread: f64, expected: Option<u64>) {
        let delay = CallPolicy::default().delay(attempt, error, spread);
        assert_eq!(delay, expected.map(Duration::from_millis));
    }

    #[test]
    fn waits_double_and_are_bounded() {
        check(1, &status(500), 0.0, Some(500));
        check(2, &status(529), 0.0, Some(1_000));
        check(2, &status(503), 1.0, Some(750));
        check(3, &status(500), 0.0, None);
        let long = CallPolicy { retries: 100, ..CallPolicy::default() };
        assert_eq!(long.delay(90, &status(500), 0.0), Some(long.max_backoff));
    }

    #[test]
    fn what_the_server_asks_for_is_kept_to_within_reason() {
        check(1, &limited(Some(7)), 0.9, Some(7_000));
        check(1, &limited(Some(0)), 0.9, Some(0));
        check(1, &limited(None), 0.0, Some(500));
        check(1, &limited(Some(61)), 0.0, None);
    }

    #[test]
    fn only_what_may_pass_is_tried_again() {
        check(1, &status(400), 0.0, None);
        check(1, &LlmError::Authentication { status: 401, message: String::new() }, 0.0, None);
        check(1, &LlmError::Unreachable { message: String::new() }, 0.0, Some(500));
        check(1, &LlmError::NoReply { message: String::new() }, 0.0, None);
    }

    #[test]
    fn chance_stays_between_0_and_1() {
        let drawn: Vec<f64> = (0..32).map(|_| spread()).collect();
        assert!(drawn.iter().all(|number| (0.0..=1.0).contains(number)));
        assert!(drawn.iter().any(|number| (number - drawn[0]).abs() > f64::EPSILON));
    }
}
