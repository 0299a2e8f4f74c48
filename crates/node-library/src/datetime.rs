//! `core:DateTime`: the calendar and its time zones.

use jiff::civil::DateTime;
use jiff::fmt::strtime;
use jiff::tz::TimeZone;
use jiff::{Span, SpanTotal, Timestamp, Unit, Zoned};
use serde_json::{Map, Value, json};
use workflow_engine::{Inputs, NodeCatalog, NodeContext, NodeError, Outputs, Prepared, Problem};
use workflow_model::{ConfigDefinition, DataFlowType, ModeDefinition, Modes, NodeDefinition, SlotDefinition};

use crate::define::{Computed, any, made, number, setting, text, text_setting};
use crate::math::as_number;

/// The setting that chooses the operation.
const OPERATION: &str = "operation";

/// Units of a difference, the first one as default.
const UNITS: [(&str, Unit); 8] = [
    ("seconds", Unit::Second),
    ("milliseconds", Unit::Millisecond),
    ("minutes", Unit::Minute),
    ("hours", Unit::Hour),
    ("days", Unit::Day),
    ("weeks", Unit::Week),
    ("months", Unit::Month),
    ("years", Unit::Year),
];

pub(crate) fn register(catalog: &mut NodeCatalog) {
    catalog.register(Computed::new(definition(), run).prepared(|config| read(config).map(Prepared::new)));
}

fn definition() -> NodeDefinition {
    let time = || any("a time: RFC 3339, a date and time in `zone`, or milliseconds since 1970").required();
    let moment = |mode: ModeDefinition| {
        mode.output("time", text("the time as RFC 3339, with the offset of `zone`"))
            .output("epochMs", SlotDefinition::new(DataFlowType::Integer, "milliseconds since 1970 in UTC"))
            .output("parts", SlotDefinition::new(DataFlowType::Object, "{year, month, day, hour, minute, second, millisecond, weekday (Monday is 1), dayOfYear, zone}"))
    };
    let amount = text("how much; the setting counts without it").optional();
    let modes = Modes::new(OPERATION, "now")
        .mode("now", moment(ModeDefinition::new("the time at which the node runs")))
        .mode(
            "parse",
            moment(
                ModeDefinition::new("reads a text")
                    .input("text", any("the text, or milliseconds since 1970").required()),
            ),
        )
        .mode(
            "format",
            ModeDefinition::new("writes a time")
                .input("time", time())
                .output("text", text("the written time")),
        )
        .mode(
            "add",
            moment(ModeDefinition::new("adds an amount").input("time", time()).input("amount", amount)),
        )
        .mode(
            "difference",
            ModeDefinition::new("time between two times")
                .input("from", time())
                .input("to", time())
                .output("value", number("how many `unit`, below 0 where `to` is earlier"))
                .output("duration", text("the same as ISO 8601, as in `P1DT2H`")),
        );
    NodeDefinition::new("core:DateTime", "Gives the current time, reads, writes and adds times, and measures between them, with time zones.")
        .config(OPERATION, setting(DataFlowType::String, "what it does").with_default("now"))
        .config("zone", setting(DataFlowType::String, "time zone by its IANA name, such as `Europe/Berlin`").with_default("UTC"))
        .config("format", setting(DataFlowType::String, "with `parse` and `format`: the form, as in `%d.%m.%Y %H:%M`; RFC 3339 without it"))
        .config("amount", setting(DataFlowType::String, "with `add`: as in `2 days 3h`, `-1 month` or `P1M`; months and days count by the calendar of `zone`"))
        .config("unit", unit())
        .modes(modes)
}

fn unit() -> ConfigDefinition {
    setting(DataFlowType::String, "with `difference`: the unit")
        .with_default(UNITS[0].0)
        .one_of(UNITS.map(|(name, _)| name))
}

/// The settings.
struct Settings {
    zone: TimeZone,
    format: Option<String>,
    amount: Option<Span>,
    unit: Unit,
}

fn read(config: &Map<String, Value>) -> Result<Settings, Vec<Problem>> {
    let zone = text_setting(config, "zone")?.unwrap_or_else(|| "UTC".to_owned());
    let zone = TimeZone::get(&zone).map_err(|_| {
        let near = nearest_zone(&zone);
        let message = format!("`{zone}` is not a time zone; write an IANA name such as `Europe/Berlin`");
        vec![Problem::setting("zone", message).suggest(near)]
    })?;
    let format = text_setting(config, "format")?;
    if let Some(format) = &format {
        strtime::format(format, &Zoned::new(Timestamp::UNIX_EPOCH, zone.clone())).map_err(|error| {
            vec![Problem::setting("format", format!("`{format}` is not a form of times: {error}"))]
        })?;
    }
    let amount = text_setting(config, "amount")?.map(|amount| span(&amount)).transpose();
    let amount = amount.map_err(|error| vec![Problem::setting("amount", error)])?;
    let named = config.get("unit").and_then(Value::as_str);
    let unit = UNITS.iter().find(|(name, _)| Some(*name) == named).unwrap_or(&UNITS[0]).1;
    Ok(Settings { zone, format, amount, unit })
}

fn nearest_zone(name: &str) -> Option<String> {
    let names: Vec<String> = jiff::tz::db().available().map(|name| name.to_string()).collect();
    agent_types::nearest(name, names.iter().map(String::as_str)).map(str::to_owned)
}

fn span(amount: &str) -> Result<Span, String> {
    amount
        .parse()
        .map_err(|_| format!("`{amount}` is not an amount of time; write as in `2 days 3h` or `P1M`"))
}

fn bad(message: impl Into<String>) -> NodeError {
    NodeError::fatal(message).with_code("bad_time")
}

fn run(ctx: &NodeContext, inputs: &Inputs) -> Result<Outputs, NodeError> {
    let settings: &Settings = made(ctx)?;
    let time = |slot: &str| read_time(inputs.required(slot)?, settings);
    match ctx.config(OPERATION).and_then(Value::as_str) {
        None | Some("now") => {
            let now = Timestamp::from_millisecond(ctx.clock().now().as_millis());
            Ok(moment(&now.map_err(|error| bad(error.to_string()))?.to_zoned(settings.zone.clone())))
        }
        Some("parse") => Ok(moment(&parse(inputs.required("text")?, settings)?)),
        Some("format") => {
            let time = time("time")?;
            let written = match &settings.format {
                Some(format) => strtime::format(format, &time).map_err(|error| bad(error.to_string()))?,
                None => rfc3339(&time),
            };
            Ok(Outputs::named("text", written))
        }
        Some("add") => {
            let given = inputs.get("amount").filter(|amount| !amount.is_null());
            let given =
                given.map(|amount| span(amount.as_str().unwrap_or_default())).transpose().map_err(bad)?;
            let amount = given
                .or(settings.amount)
                .ok_or_else(|| bad("`amount` is missing; give it as a setting or an input"))?;
            let time = time("time")?;
            let later = time.checked_add(amount);
            Ok(moment(&later.map_err(|_| {
                bad(format!("{} and {amount} make a time beyond the calendar", rfc3339(&time)))
            })?))
        }
        Some("difference") => difference(&time("from")?, &time("to")?, settings.unit),
        Some(other) => Err(NodeError::fatal(format!("the operation `{other}` is unknown"))),
    }
}

/// A time in one of its forms, in the zone of the settings.
fn read_time(value: &Value, settings: &Settings) -> Result<Zoned, NodeError> {
    let zone = || settings.zone.clone();
    if let Some(millis) = value.as_i64() {
        let time = Timestamp::from_millisecond(millis);
        return time.map(|time| time.to_zoned(zone())).map_err(|error| bad(error.to_string()));
    }
    let wrong = || bad(format!("{value} is not a time; write RFC 3339, as in `2026-03-01T22:05:00Z`"));
    let text = value.as_str().map(str::trim).ok_or_else(wrong)?;
    if let Ok(time) = text.parse::<Timestamp>() {
        return Ok(time.to_zoned(zone()));
    }
    let civil: DateTime = text.parse().map_err(|_| wrong())?;
    civil.to_zoned(zone()).map_err(|error| bad(error.to_string()))
}

fn parse(value: &Value, settings: &Settings) -> Result<Zoned, NodeError> {
    let Some((format, text)) = settings.format.as_deref().zip(value.as_str()) else {
        return read_time(value, settings);
    };
    let wrong = || bad(format!("`{text}` does not have the form `{format}`"));
    let parts = strtime::parse(format, text.trim()).map_err(|_| wrong())?;
    if let Ok(time) = parts.to_timestamp() {
        return Ok(time.to_zoned(settings.zone.clone()));
    }
    let civil = parts.to_datetime().or_else(|_| parts.to_date().map(DateTime::from)).map_err(|_| wrong())?;
    civil.to_zoned(settings.zone.clone()).map_err(|error| bad(error.to_string()))
}

fn rfc3339(time: &Zoned) -> String {
    time.timestamp().display_with_offset(time.offset()).to_string()
}

fn moment(time: &Zoned) -> Outputs {
    let parts = json!({
        "year": time.year(), "month": time.month(), "day": time.day(),
        "hour": time.hour(), "minute": time.minute(), "second": time.second(), "millisecond": time.millisecond(),
        "weekday": time.weekday().to_monday_one_offset(), "dayOfYear": time.day_of_year(),
        "zone": time.time_zone().iana_name().unwrap_or("UTC"),
    });
    Outputs::named("time", rfc3339(time))
        .with("epochMs", time.timestamp().as_millisecond())
        .with("parts", parts)
}

fn difference(from: &Zoned, to: &Zoned, unit: Unit) -> Result<Outputs, NodeError> {
    let wrong = |error: jiff::Error| bad(error.to_string());
    let span = from.until((unit, to)).map_err(wrong)?;
    let total = span.total(SpanTotal::from((unit, from))).map_err(wrong)?;
    let value = as_number(total).ok_or_else(|| bad("the difference has no number"))?;
    Ok(Outputs::named("value", value).with("duration", span.to_string()))
}
