//! Backoff: the wait between two attempts at the same operation.

use std::time::Duration;

/// Exponential backoff: the first wait, doubled after each further failure, up to a maximum.
///
/// ```
/// use std::time::Duration;
/// use agent_types::Backoff;
///
/// let backoff = Backoff::new(Duration::from_millis(250)).with_max(Duration::from_secs(1));
/// let waits = [0, 1, 2, 3, 90].map(|failures| backoff.after(failures).as_millis());
/// assert_eq!(waits, [0, 250, 500, 1000, 1000]);
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Backoff {
    first: Duration,
    max: Duration,
}

impl Backoff {
    /// A backoff without a maximum.
    #[must_use]
    pub const fn new(first: Duration) -> Self {
        Self { first, max: Duration::MAX }
    }

    /// The same backoff with waits of at most `max`.
    #[must_use]
    pub const fn with_max(mut self, max: Duration) -> Self {
        self.max = max;
        self
    }

    /// The wait after so many failures in a row; none after no failure.
    #[must_use]
    pub fn after(self, failures: u32) -> Duration {
        let Some(doublings) = failures.checked_sub(1) else { return Duration::ZERO };
        self.first.saturating_mul(2_u32.saturating_pow(doublings)).min(self.max)
    }
}
