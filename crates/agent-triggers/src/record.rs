//! Records of triggers.

use agent_types::{RunId, Timestamp};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::due::{Due, due};
use crate::file::Trigger;

/// Runs that a record lists at most.
const MAX_RUNS: usize = 50;

/// A firing of a trigger.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[non_exhaustive]
pub struct TriggerRun {
    /// Time of the firing.
    pub at: Timestamp,
    /// Its cause: `schedule missed files webhook manual event`.
    pub cause: String,
    /// The run; absent where none could begin.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<String>")]
    pub run: Option<RunId>,
    /// Reason for which none could begin.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
}

impl TriggerRun {
    /// A firing that began a run, or the reason for which it did not.
    #[must_use]
    pub fn new(at: Timestamp, cause: &str, run: Result<RunId, String>) -> Self {
        let (run, error) = match run {
            Ok(run) => (Some(run), None),
            Err(error) => (None, Some(error)),
        };
        Self { at, cause: cause.to_owned(), run, error }
    }
}

/// Record of a trigger.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct TriggerRecord {
    /// The moment up to which its times are seen to.
    #[serde(default)]
    pub(crate) seen: Option<Timestamp>,
    /// Its last firings, the newest last.
    #[serde(default)]
    runs: Vec<TriggerRun>,
    /// The times that were seen to.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    times: Option<String>,
}

impl TriggerRecord {
    /// A record of a trigger that is first seen at a moment.
    #[must_use]
    pub fn seen(moment: Timestamp) -> Self {
        Self { seen: Some(moment), ..Self::default() }
    }

    /// The moment up to which its times are seen to.
    #[must_use]
    pub const fn seen_to(&self) -> Option<Timestamp> {
        self.seen
    }

    /// The same, with its times seen to up to a moment.
    #[must_use]
    pub const fn up_to(mut self, moment: Timestamp) -> Self {
        self.seen = Some(moment);
        self
    }

    /// Due firings at a moment, and the record that has seen them.
    ///
    /// A trigger whose times were changed, or that was not enabled before, begins at that moment and has missed nothing.
    #[must_use]
    pub fn claimed(mut self, trigger: &Trigger, now: Timestamp) -> (Self, Due) {
        let times = if trigger.enabled { trigger.kind.times() } else { String::new() };
        if self.times.as_ref().is_some_and(|before| *before != times) {
            self.seen = Some(now);
        }
        self.times = Some(times);
        let due = due(trigger, &self, now);
        self.seen = due.seen.or(self.seen);
        (self, due)
    }

    /// Returns `true` if another record has seen the same times up to the same moment.
    #[must_use]
    pub fn is_seen_as(&self, other: &Self) -> bool {
        (self.seen, &self.times) == (other.seen, &other.times)
    }

    /// The same with the times of another record seen to.
    #[must_use]
    pub fn seen_as(mut self, other: &Self) -> Self {
        (self.seen, self.times) = (other.seen, other.times.clone());
        self
    }

    /// The same with one more firing.
    #[must_use]
    pub fn with_run(mut self, run: TriggerRun) -> Self {
        self.runs.push(run);
        let surplus = self.runs.len().saturating_sub(MAX_RUNS);
        self.runs.drain(..surplus);
        self
    }

    /// Its last firings, the newest last.
    #[must_use]
    pub fn runs(&self) -> &[TriggerRun] {
        &self.runs
    }
}

/// An event that reached no agent.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct DeadLetter {
    /// Time at which it was given up.
    pub at: Timestamp,
    /// Name of the event.
    pub event: String,
    /// Payload of the event.
    pub payload: Value,
    /// The agent that it was meant for, where one was.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub agent: Option<String>,
    /// Reason.
    pub reason: String,
}
