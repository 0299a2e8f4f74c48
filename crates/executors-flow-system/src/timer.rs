//! Timers, which act without a message.

use std::time::Duration;

use agent_triggers::{CronError, CronTimes};
use agent_types::Timestamp;
use http_caller::ReplyTemplate;

use crate::config::{Problems, TimerConfig};

/// Schedule of a timer.
#[derive(Debug, Clone)]
pub(crate) enum Schedule {
    /// So long after the last answer.
    Delay(Duration),
    /// At these times of day.
    Cron(CronTimes),
}

/// Action of a timer.
#[derive(Debug, Clone)]
pub(crate) enum TimerStep {
    Reply(ReplyTemplate),
    /// A flow, by its place.
    Flow(usize),
    /// A system action, by its place.
    Action(usize),
    /// A message to the agent.
    Ask(ReplyTemplate),
}

#[derive(Debug, Clone)]
pub(crate) struct Timer {
    pub(crate) id: String,
    pub(crate) schedule: Schedule,
    /// Limit of how often it goes off; 0 means without limit.
    pub(crate) max_triggers: u32,
    pub(crate) step: TimerStep,
}

impl Timer {
    /// Returns `true` if it may go off once more after `fired` times.
    pub(crate) const fn may_fire(&self, fired: u32) -> bool {
        self.max_triggers == 0 || fired < self.max_triggers
    }

    /// Next moment after `now`, if there is one.
    pub(crate) fn next(&self, now: Timestamp) -> Option<Timestamp> {
        match &self.schedule {
            Schedule::Delay(delay) => Some(now.plus(*delay)),
            Schedule::Cron(times) => times.next_after(now),
        }
    }

    /// Returns `true` if a message of the user resets it.
    pub(crate) const fn is_idle(&self) -> bool {
        matches!(self.schedule, Schedule::Delay(_))
    }
}

impl Schedule {
    pub(crate) fn parse(config: &TimerConfig, place: &str, problems: &mut Problems) -> Option<Self> {
        if config.time_zone.is_some() && config.cron.is_none() {
            problems.warning(format!("{place}/time_zone"), "unused_key", "only `cron` has a time zone");
        }
        match (config.delay_ms, &config.cron) {
            (Some(0), None) => {
                problems.error(format!("{place}/delay_ms"), "bad_limit", "at least 1");
                None
            }
            (Some(delay), None) => Some(Self::Delay(Duration::from_millis(delay))),
            (None, Some(cron)) => Self::cron(cron, config.time_zone.as_deref(), place, problems),
            (None, None) => {
                problems.error(place, "no_schedule", "a timer has `delay_ms` or `cron`");
                None
            }
            (Some(_), Some(_)) => {
                problems.error(place, "two_schedules", "a timer has either `delay_ms` or `cron`");
                None
            }
        }
    }

    fn cron(text: &str, zone: Option<&str>, place: &str, problems: &mut Problems) -> Option<Self> {
        match CronTimes::parse(text, zone) {
            Ok(times) => Some(Self::Cron(times)),
            Err(error) => {
                let (key, code) = match &error {
                    CronError::Zone { .. } => ("time_zone", "bad_time_zone"),
                    _ => ("cron", "bad_cron"),
                };
                problems.error(format!("{place}/{key}"), code, error.to_string());
                None
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::TimerAction;

    fn next(cron: &str, zone: Option<&str>, now: &str) -> String {
        let config = TimerConfig {
            timer_id: "t".into(),
            delay_ms: None,
            cron: Some(cron.into()),
            time_zone: zone.map(str::to_owned),
            max_triggers: 0,
            action: TimerAction::Reply("Hi".into()),
        };
        let mut problems = Problems::default();
        let Some(schedule) = Schedule::parse(&config, "/t", &mut problems) else {
            return problems.into_result().unwrap_err().to_string();
        };
        let step = TimerStep::Flow(0);
        let timer = Timer { id: "t".into(), schedule, max_triggers: 0, step };
        timer.next(Timestamp::parse(now).unwrap()).map_or_else(|| "never".into(), |next| next.to_string())
    }

    #[test]
    fn times_of_day_come_in_their_time_zone() {
        let now = "2026-03-28T12:00:00.000Z";
        for (cron, zone, expected) in [
            ("30 9 * * *", None, "2026-03-29T09:30:00.000Z"),
            ("0 12 * * *", None, "2026-03-29T12:00:00.000Z"),
            ("*/15 * * * *", None, "2026-03-28T12:15:00.000Z"),
            ("*/10 * * * * *", None, "2026-03-28T12:00:10.000Z"),
            // The clocks went forward that night.
            ("0 9 * * *", Some("Europe/Oslo"), "2026-03-29T07:00:00.000Z"),
            ("0 9 * * *", Some("Asia/Shanghai"), "2026-03-29T01:00:00.000Z"),
            ("0 0 30 2 *", None, "never"),
            ("0 9 * * *", Some("Mars/Base"), "/t/time_zone: unknown time zone `Mars/Base`"),
        ] {
            assert_eq!(next(cron, zone, now), expected, "{cron} {zone:?}");
        }
        assert!(next("61 * * * *", None, now).starts_with("/t/cron: "), "{}", next("61 * * * *", None, now));
    }
}
