//! Times of day in a time zone.

use agent_types::{Timestamp, nearest};
use croner::Cron;
use croner::parser::{CronParser, Seconds};
use jiff::Zoned;
use jiff::tz::TimeZone;

/// Fault of a cron expression or its time zone.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum CronError {
    /// The expression is invalid.
    #[error("{0}")]
    Expression(String),
    /// The time zone does not exist.
    #[error("unknown time zone `{name}`{}", .near.as_deref().map(|near| format!("; did you mean `{near}`?")).unwrap_or_default())]
    Zone {
        /// The name.
        name: String,
        /// The name that was probably meant.
        near: Option<String>,
    },
}

/// Moments of a cron expression, with or without seconds, in a time zone.
///
/// ```
/// use agent_triggers::CronTimes;
/// use agent_types::Timestamp;
///
/// let times = CronTimes::parse("0 9 * * *", Some("Europe/Oslo"))?;
/// let evening = Timestamp::parse("2026-03-28T12:00:00.000Z").unwrap();
/// // The clocks go forward that night.
/// assert_eq!(times.next_after(evening).unwrap().to_string(), "2026-03-29T07:00:00.000Z");
/// # Ok::<(), agent_triggers::CronError>(())
/// ```
#[derive(Debug, Clone)]
pub struct CronTimes {
    cron: Box<Cron>,
    zone: TimeZone,
    text: String,
}

impl CronTimes {
    /// The moments of an expression; in UTC where no zone is named.
    ///
    /// # Errors
    /// The expression is invalid, or the time zone does not exist.
    pub fn parse(expression: &str, zone: Option<&str>) -> Result<Self, CronError> {
        let cron = CronParser::builder().seconds(Seconds::Optional).build().parse(expression);
        let cron = cron.map_err(|error| CronError::Expression(error.to_string()))?;
        let text = format!("{expression} {}", zone.unwrap_or("UTC"));
        let zone = zone.map_or(Ok(TimeZone::UTC), zone_of)?;
        Ok(Self { cron: Box::new(cron), zone, text })
    }

    /// The first of the moments after one, if there is any.
    #[must_use]
    pub fn next_after(&self, moment: Timestamp) -> Option<Timestamp> {
        let next = self.cron.find_next_occurrence(&self.zoned(moment)?, false).ok()?;
        Some(Timestamp::from_millis(next.timestamp().as_millisecond()))
    }

    /// The last of the moments before one, if there is any.
    pub(crate) fn last_before(&self, moment: Timestamp) -> Option<Timestamp> {
        let last = self.cron.find_previous_occurrence(&self.zoned(moment)?, false).ok()?;
        Some(Timestamp::from_millis(last.timestamp().as_millisecond()))
    }

    /// The expression and its time zone.
    pub(crate) fn as_str(&self) -> &str {
        &self.text
    }

    fn zoned(&self, moment: Timestamp) -> Option<Zoned> {
        Some(jiff::Timestamp::from_millisecond(moment.as_millis()).ok()?.to_zoned(self.zone.clone()))
    }
}

fn zone_of(name: &str) -> Result<TimeZone, CronError> {
    TimeZone::get(name).map_err(|_| {
        let known: Vec<String> = jiff::tz::db().available().map(|zone| zone.to_string()).collect();
        let near = nearest(name, known.iter().map(String::as_str)).map(str::to_owned);
        CronError::Zone { name: name.to_owned(), near }
    })
}
