//! Current date and time.

use jiff::tz::TimeZone;
use tool_registry::{RegistryError, Tool, ToolContext, ToolError, ToolErrorKind, tool};

/// The current date and time.
/// * `timezone` - Time zone by its IANA name, such as `Asia/Shanghai`; UTC when absent.
#[tool(name = "system:get_current_time", read_only, quick)]
fn get_current_time(timezone: Option<String>, cx: &ToolContext) -> Result<String, ToolError> {
    current_time(timezone.as_deref(), cx)
}

pub(super) fn tools() -> [Result<Tool, RegistryError>; 1] {
    tool_registry::tools![get_current_time]
}

fn current_time(timezone: Option<&str>, cx: &ToolContext) -> Result<String, ToolError> {
    let name = timezone.map(str::trim).filter(|name| !name.is_empty()).unwrap_or("UTC");
    let zone = TimeZone::get(name).map_err(|_| {
        ToolError::new(
            ToolErrorKind::InvalidArguments,
            format!("unknown time zone '{name}'; use an IANA name such as Asia/Shanghai"),
        )
    })?;
    let now = jiff::Timestamp::from_millisecond(cx.clock.now().as_millis())
        .map_err(|error| ToolError::failed(error.to_string()))?;
    Ok(now.to_zoned(zone).strftime("%Y-%m-%dT%H:%M:%S%:z (%A, %Q)").to_string())
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use agent_types::{
        Budget, BudgetLimits, CallId, EventLocation, Recorder, RunId, Timestamp, VirtualClock,
    };

    use super::*;

    #[test]
    fn the_time_is_told_in_a_zone() {
        let clock = Arc::new(VirtualClock::new(Timestamp::parse("2026-03-01T22:05:00.000Z").unwrap()));
        let sink = Recorder::new(RunId::new("r"), clock.clone());
        let budget = Budget::new(BudgetLimits::default());
        let tool = "system:get_current_time".parse().unwrap();
        let cx = ToolContext::new(CallId::new("c"), tool, clock, budget, sink, EventLocation::default());
        let check = |zone, expected: &str| assert_eq!(current_time(zone, &cx).unwrap(), expected);
        check(None, "2026-03-01T22:05:00+00:00 (Sunday, UTC)");
        check(Some("Asia/Shanghai"), "2026-03-02T06:05:00+08:00 (Monday, Asia/Shanghai)");
        assert!(current_time(Some("Mars/Base"), &cx).unwrap_err().message_for_model.contains("'Mars/Base'"));
    }
}
