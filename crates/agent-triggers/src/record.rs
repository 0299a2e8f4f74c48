//! Records of triggers.

use std::time::Duration;

use agent_types::{RunId, Timestamp};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::due::{Due, Tick, due};
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

/// Time after which a claim whose runs have not begun is free again: the process that made it has ended.
const CLAIM: Duration = Duration::from_mins(1);

/// Firings that a process has claimed and that it begins now.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
struct Claim {
    at: Timestamp,
    /// The moment up to which the times were seen to before.
    before: Option<Timestamp>,
    /// The moments with their runs, in order.
    runs: Vec<(Timestamp, RunId)>,
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
    /// The firings that begin now.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    claim: Option<Claim>,
}

impl TriggerRecord {
    /// A record of a trigger that is first seen at a moment.
    #[must_use]
    pub fn seen(moment: Timestamp) -> Self {
        Self { seen: Some(moment), ..Self::default() }
    }

    /// The same, with its times seen to up to a moment.
    #[must_use]
    pub fn up_to(mut self, moment: Timestamp) -> Self {
        self.seen = Some(moment);
        self
    }

    /// The moment until which another process may begin the firings that it has claimed.
    #[must_use]
    pub fn claimed_until(&self, now: Timestamp) -> Option<Timestamp> {
        self.claim.as_ref().map(|claim| claim.at.plus(CLAIM)).filter(|until| *until > now)
    }

    /// Returns `true` if the firings that were claimed at a moment should not be begun any more, lest another process does.
    #[must_use]
    pub fn is_claim_late(claimed: Timestamp, now: Timestamp) -> bool {
        claimed.plus(CLAIM / 2) <= now
    }

    /// The same where the process of a claim has ended: moments whose runs have not begun are due again, as those behind
    /// them. The next claim has the same runs for them, so that none begins twice.
    ///
    /// # Errors
    /// Those of `has_begun`.
    pub fn recovered<E>(mut self, has_begun: impl Fn(&RunId) -> Result<bool, E>) -> Result<Self, E> {
        let Some(claim) = &self.claim else { return Ok(self) };
        let mut seen = claim.before;
        for (at, run) in &claim.runs {
            if !has_begun(run)? {
                self.seen = seen;
                break;
            }
            seen = Some(*at);
        }
        Ok(self)
    }

    /// The same when its claim has ended. Where a firing could not begin, its moment and those behind it are due again.
    #[must_use]
    pub fn released(mut self, from: Option<Timestamp>) -> Self {
        self.claim = None;
        self.seen = from.or(self.seen);
        self
    }

    /// The moment up to which its times were seen to before its claim.
    #[must_use]
    pub fn before_claim(&self) -> Option<Timestamp> {
        self.claim.as_ref()?.before
    }

    /// Due firings at a moment, and the record that has seen them and claims their runs.
    ///
    /// A trigger whose times were changed, or that was not enabled before, begins at that moment and has missed nothing.
    #[must_use]
    pub fn claimed(mut self, trigger: &Trigger, now: Timestamp) -> (Self, Vec<(Tick, RunId)>, Due) {
        let times = if trigger.enabled { trigger.kind.times() } else { String::new() };
        if self.times.as_ref().is_some_and(|before| *before != times) {
            self.seen = Some(now);
        }
        self.times = Some(times);
        let due = due(trigger, &self, now);
        let former = self.claim.take().map(|claim| claim.runs).unwrap_or_default();
        let run_of = |tick: &Tick| {
            let run = former.iter().find(|(at, _)| *at == tick.at).map(|(_, run)| run.clone());
            run.unwrap_or_else(RunId::generate)
        };
        let ticks: Vec<_> = due.ticks.iter().map(|tick| (*tick, run_of(tick))).collect();
        let before = self.seen;
        self.seen = due.seen.or(self.seen);
        if !ticks.is_empty() {
            let runs = ticks.iter().map(|(tick, run)| (tick.at, run.clone())).collect();
            self.claim = Some(Claim { at: now, before, runs });
        }
        (self, ticks, due)
    }

    /// Returns `true` if another record has seen the same times up to the same moment, with the same claim.
    #[must_use]
    pub fn is_seen_as(&self, other: &Self) -> bool {
        (self.seen, &self.times, &self.claim) == (other.seen, &other.times, &other.claim)
    }

    /// The same with the times of another record seen to.
    #[must_use]
    pub fn seen_as(mut self, other: &Self) -> Self {
        (self.seen, self.times, self.claim) = (other.seen, other.times.clone(), other.claim.clone());
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
