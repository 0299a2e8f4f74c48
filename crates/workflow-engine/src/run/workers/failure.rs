//! Ends of starts: outputs or a failure, and the wait before another attempt.

use std::time::Duration;

use agent_types::NodeErrorKind;

use crate::context::millis;
use crate::error::NodeError;
use crate::outputs::Outputs;

/// Reason of a node's final failure.
#[derive(Debug, Clone)]
pub(crate) struct Failure {
    pub(crate) kind: NodeErrorKind,
    pub(crate) message: String,
    pub(crate) code: Option<String>,
    pub(crate) limit_ms: Option<u64>,
    /// The attempt that failed last.
    pub(crate) attempt: u32,
    /// Its thread is still running and its result will be discarded.
    pub(crate) detached: bool,
    pub(crate) retryable: bool,
}

impl Failure {
    pub(crate) fn new(kind: NodeErrorKind, message: impl Into<String>) -> Self {
        Self {
            kind,
            message: message.into(),
            code: None,
            limit_ms: None,
            attempt: 1,
            detached: false,
            retryable: false,
        }
    }

    pub(super) fn from_error(error: NodeError, attempt: u32) -> Self {
        let NodeError { message, code, kind, retryable } = error;
        Self { code, attempt, retryable, ..Self::new(kind, message) }
    }

    pub(super) fn limit(kind: NodeErrorKind, limit: Duration, attempt: u32) -> Self {
        let limit_ms = millis(limit);
        let message = match kind {
            NodeErrorKind::Idle => format!("no sign of life within {limit_ms} ms"),
            _ => format!("not done within {limit_ms} ms"),
        };
        Self { limit_ms: Some(limit_ms), attempt, retryable: true, ..Self::new(kind, message) }
    }
}

/// End of a node's start, with the number of its last attempt.
#[derive(Debug)]
pub(crate) struct Ended {
    pub(crate) result: Result<Outputs, Failure>,
    pub(crate) attempt: u32,
}

/// Up to a tenth longer, different for each node, so that many that failed together do not come back together.
pub(crate) fn jittered(delay: Duration, run: &str, path: &str, attempt: u32) -> Duration {
    let mut hash = 0xcbf2_9ce4_8422_2325_u64;
    for byte in run.bytes().chain(path.bytes()) {
        hash = (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3);
    }
    let part = u32::try_from((hash.wrapping_add(u64::from(attempt))) % 100).unwrap_or(0);
    delay.saturating_add(delay / 1000 * part)
}
