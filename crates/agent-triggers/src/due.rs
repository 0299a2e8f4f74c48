//! Moments at which a trigger is due.

use std::collections::VecDeque;
use std::time::Duration;

use agent_types::Timestamp;

use crate::cron::CronTimes;
use crate::file::{Missed, Trigger};
use crate::kind::TriggerKind;
use crate::record::TriggerRecord;

/// Delay behind which a moment is missed.
const GRACE: Duration = Duration::from_mins(1);

/// Moments of a cron expression that are counted at most.
const MAX_COUNT: usize = 10_000;

/// A moment at which a trigger fires.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct Tick {
    /// The moment.
    pub at: Timestamp,
    /// Missed moments that this firing makes up for.
    pub missed: usize,
}

/// Moments that are due, and the next one.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Due {
    /// The firings, in order.
    pub ticks: Vec<Tick>,
    /// The moment up to which the trigger is then seen to.
    pub seen: Option<Timestamp>,
    /// The next moment after now.
    pub next: Option<Timestamp>,
}

/// Firings that a record has not seen at a moment. A trigger without times is never due, nor is one that is not enabled.
#[must_use]
pub fn due(trigger: &Trigger, record: &TriggerRecord, now: Timestamp) -> Due {
    let seen = record.seen.unwrap_or(now);
    let past = match &trigger.kind {
        _ if !trigger.enabled => return Due::default(),
        TriggerKind::Cron(times) => Past::of_times(times, seen, now, trigger.max_missed),
        TriggerKind::Every(every) => Past::of_interval(seen, *every, now, trigger.max_missed),
        TriggerKind::Files(_) | TriggerKind::Webhook(_) => return Due::default(),
    };
    let next = match &trigger.kind {
        TriggerKind::Cron(times) => times.next_after(now),
        TriggerKind::Every(every) => Some(past.newest.back().unwrap_or(&seen).plus(*every)),
        TriggerKind::Files(_) | TriggerKind::Webhook(_) => None,
    };
    let seen = match &trigger.kind {
        TriggerKind::Every(_) => past.newest.back().copied().unwrap_or(seen),
        _ => past.newest.back().map_or(seen, |_| now),
    };
    Due { ticks: past.ticks(trigger, now), seen: Some(seen), next }
}

/// Moments that are over: how many, and the newest of them.
struct Past {
    count: usize,
    newest: VecDeque<Timestamp>,
}

impl Past {
    fn of_times(times: &CronTimes, seen: Timestamp, now: Timestamp, most: usize) -> Self {
        let next = |moment: &Timestamp| times.next_after(*moment);
        let moments = std::iter::successors(times.next_after(seen), next).take_while(|at| *at <= now);
        let mut newest: VecDeque<Timestamp> = moments.take(MAX_COUNT + 1).collect();
        let count = newest.len().min(MAX_COUNT);
        if newest.len() > MAX_COUNT {
            // Those are the oldest.
            let before = |moment: &Timestamp| times.last_before(*moment);
            let last = times.last_before(now.plus(Duration::from_secs(1)));
            let moments = std::iter::successors(last, before).skip_while(|at| *at > now);
            newest = moments.take(MAX_COUNT).collect();
            newest.make_contiguous().reverse();
        }
        // One on time stands beside those that were missed.
        newest.drain(..count.saturating_sub(most.saturating_add(1)));
        Self { count, newest }
    }

    fn of_interval(seen: Timestamp, every: Duration, now: Timestamp, most: usize) -> Self {
        let step = i64::try_from(every.as_millis()).unwrap_or(i64::MAX).max(1);
        let count = (now.as_millis() - seen.as_millis()).max(0) / step;
        let first = count.saturating_sub(i64::try_from(most).unwrap_or(i64::MAX)).max(1);
        let newest =
            (first..=count).map(|at| Timestamp::from_millis(seen.as_millis().saturating_add(at * step)));
        Self { count: usize::try_from(count).unwrap_or(usize::MAX), newest: newest.collect() }
    }

    /// The firings that these moments cause.
    fn ticks(&self, trigger: &Trigger, now: Timestamp) -> Vec<Tick> {
        let Some(&last) = self.newest.back() else { return Vec::new() };
        let is_on_time = last.plus(GRACE) >= now;
        let missed = self.count - usize::from(is_on_time);
        match trigger.missed {
            Missed::Skip if !is_on_time => Vec::new(),
            Missed::Skip => vec![Tick { at: last, missed: 0 }],
            Missed::Once => vec![Tick { at: last, missed }],
            Missed::All => {
                let most = trigger.max_missed.saturating_add(usize::from(is_on_time));
                let surplus = self.newest.len().saturating_sub(most);
                let tick = |at: &Timestamp| Tick { at: *at, missed: usize::from(!is_on_time || *at != last) };
                self.newest.iter().skip(surplus).map(tick).collect()
            }
        }
    }
}
