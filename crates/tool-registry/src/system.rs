//! Tools that every agent may be given.

use agent_types::Annotations;
use jiff::tz::TimeZone;
use schemars::JsonSchema;
use serde::Deserialize;

use crate::context::ToolContext;
use crate::output::{ToolError, ToolErrorKind};
use crate::registry::RegistryError;
use crate::tool::Tool;

/// The built-in tools.
///
/// # Errors
/// None in practice: the ids and schemas are fixed.
pub fn system_tools() -> Result<Vec<Tool>, RegistryError> {
    Ok(vec![get_current_time()?])
}

#[derive(Deserialize, JsonSchema)]
struct CurrentTime {
    /// Time zone by its IANA name, such as `Asia/Shanghai`; UTC when absent.
    timezone: Option<String>,
}

fn get_current_time() -> Result<Tool, RegistryError> {
    let tool = Tool::try_func(
        "system:get_current_time",
        "The current date and time.",
        |CurrentTime { timezone }, cx: ToolContext| async move { current_time(timezone.as_deref(), &cx) },
    )?;
    Ok(tool.with_annotations(Annotations { read_only: true, ..Annotations::default() }))
}

fn current_time(timezone: Option<&str>, cx: &ToolContext) -> Result<String, ToolError> {
    let name = timezone.map(str::trim).filter(|name| !name.is_empty()).unwrap_or("UTC");
    let zone = TimeZone::get(name).map_err(|_| {
        ToolError::new(
            ToolErrorKind::InvalidArguments,
            format!("there is no time zone '{name}'; use an IANA name such as Asia/Shanghai"),
        )
    })?;
    let now = jiff::Timestamp::from_millisecond(cx.clock.now().as_millis())
        .map_err(|error| ToolError::failed(error.to_string()))?;
    Ok(now.to_zoned(zone).strftime("%Y-%m-%dT%H:%M:%S%:z (%A, %Q)").to_string())
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use agent_types::{Budget, BudgetLimits, CallId, Place, Recorder, RunId, Timestamp, VirtualClock};

    use super::*;

    #[test]
    fn the_time_is_told_in_a_zone() {
        let clock = Arc::new(VirtualClock::new(Timestamp::parse("2026-03-01T22:05:00.000Z").unwrap()));
        let sink = Recorder::new(RunId::new("r"), clock.clone());
        let budget = Budget::new(BudgetLimits::default());
        let tool = "system:get_current_time".parse().unwrap();
        let cx = ToolContext::new(CallId::new("c"), tool, clock, budget, sink, Place::default());
        let check = |zone, expected: &str| assert_eq!(current_time(zone, &cx).unwrap(), expected);
        check(None, "2026-03-01T22:05:00+00:00 (Sunday, UTC)");
        check(Some("Asia/Shanghai"), "2026-03-02T06:05:00+08:00 (Monday, Asia/Shanghai)");
        assert!(current_time(Some("Mars/Base"), &cx).unwrap_err().message_for_model.contains("'Mars/Base'"));
    }
}
