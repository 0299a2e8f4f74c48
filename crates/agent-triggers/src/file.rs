//! Format of a `*.triggers.json` file.

use std::borrow::Cow;
use std::time::Duration;

use schemars::JsonSchema;
use serde::Deserialize;
use tool_registry::files::{SyntaxError, from_json, is_safe_id};

use crate::checked_text::checked_text;
use crate::cron::CronTimes;
use crate::kind::{TriggerKind, Webhook};
use crate::secret::Secret;
use crate::signature::{Signature, SignatureConfig};

/// Shortest interval, in milliseconds.
const SHORTEST_MS: u64 = 1000;

/// Missed moments that are made up for, where the file has no limit.
const MAX_MISSED: usize = 10;

/// Largest limit of missed moments.
const MOST_MISSED: usize = 1000;

/// Limit of a webhook's body where the file has none, in KiB.
const MAX_BODY_KIB: usize = 256;

/// A `*.triggers.json` file: what starts an agent. A key that is not known is an error.
#[derive(Debug, Clone, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct TriggerFile {
    /// The agent. Default: the one that the file or its folder is named after.
    #[serde(default)]
    pub agent: Option<String>,
    /// The triggers.
    pub triggers: Vec<Trigger>,
}

impl TriggerFile {
    /// Reads a file.
    ///
    /// # Errors
    /// Invalid JSON, an unknown key (with a suggestion), or a trigger that cannot fire, with line and column.
    pub fn from_json(text: &str) -> Result<Self, SyntaxError> {
        from_json(text)
    }
}

/// Handling of moments that were missed because no server was there.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Missed {
    /// They are passed over.
    Skip,
    /// One run makes up for all of them.
    #[default]
    Once,
    /// Each has its run, the newest `max_missed` of them.
    All,
}

/// Something that starts an agent.
#[derive(Debug, Clone, Deserialize)]
#[serde(try_from = "TriggerConfig")]
#[non_exhaustive]
pub struct Trigger {
    /// Its id, once in a project.
    pub id: String,
    /// Its cause.
    pub kind: TriggerKind,
    /// Message to the agent.
    pub message: Option<String>,
    /// Handling of missed moments.
    pub missed: Missed,
    /// Missed moments that are made up for at most.
    pub max_missed: usize,
    /// Set when it fires.
    pub enabled: bool,
}

/// A trigger as the file has it: `cron`, `every_ms`, `files` or `webhook`.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(rename = "Trigger")]
struct TriggerConfig {
    /// Its id, once in a project.
    id: Id,
    /// Times of day: minute, hour, day of the month, month, day of the week, with seconds in front where there are six parts.
    #[serde(default)]
    cron: Option<Expression>,
    /// Time zone of `cron`, such as `Europe/Oslo`. Default: UTC.
    #[serde(default)]
    time_zone: Option<Zone>,
    /// Interval, in milliseconds; at least a second.
    #[serde(default)]
    every_ms: Option<u64>,
    /// Files, from the project's folder, whose changes fire it: `inbox/*.txt`, `data/**`.
    #[serde(default)]
    files: Option<Patterns>,
    /// A request to `/hooks/ID` of `weft serve`.
    #[serde(default)]
    webhook: Option<WebhookConfig>,
    /// Message to the agent. A webhook and files are an event; the message then stands among the instructions.
    #[serde(default)]
    message: Option<String>,
    /// Handling of moments at which no server was there.
    #[serde(default)]
    missed: Missed,
    /// Missed moments that `all` makes up for at most, up to 1000. Default: 10.
    #[serde(default)]
    max_missed: Option<usize>,
    /// Set to `false`, it does not fire by itself.
    #[serde(default)]
    enabled: Option<bool>,
}

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct WebhookConfig {
    /// The secret that the request must show, as `{$secret.NAME}`: `Authorization: Bearer SECRET` or `X-Hook-Secret: SECRET`.
    #[serde(default)]
    secret: Option<Secret>,
    /// The signature that the request must carry; beside `secret`, both are needed.
    #[serde(default)]
    signature: Option<SignatureConfig>,
    /// Limit of its body, in KiB. Default: 256.
    #[serde(default)]
    max_body_kib: Option<usize>,
}

impl TryFrom<WebhookConfig> for Webhook {
    type Error = String;

    fn try_from(config: WebhookConfig) -> Result<Self, String> {
        let WebhookConfig { secret, signature, max_body_kib } = config;
        if secret.is_none() && signature.is_none() {
            return Err("a webhook needs a `secret` or a `signature`".into());
        }
        Ok(Self {
            secret: secret.map(|Secret(name)| name),
            signature: signature.map(Signature::try_from).transpose()?,
            max_body: max_body_kib.unwrap_or(MAX_BODY_KIB).saturating_mul(1024),
        })
    }
}

impl JsonSchema for Trigger {
    fn schema_name() -> Cow<'static, str> {
        TriggerConfig::schema_name()
    }

    fn json_schema(generator: &mut schemars::SchemaGenerator) -> schemars::Schema {
        TriggerConfig::json_schema(generator)
    }
}

impl TryFrom<TriggerConfig> for Trigger {
    type Error = String;

    fn try_from(config: TriggerConfig) -> Result<Self, String> {
        let TriggerConfig { id: Id(id), cron, time_zone, every_ms, files, webhook, .. } = config;
        let zone = time_zone.as_ref().map(|Zone(zone)| zone.as_str());
        let cron = match cron {
            Some(Expression(text)) => {
                Some(TriggerKind::Cron(CronTimes::parse(&text, zone).map_err(|error| error.to_string())?))
            }
            None if zone.is_some() => return Err("only `cron` has a `time_zone`".into()),
            None => None,
        };
        let every = match every_ms {
            Some(ms) if ms < SHORTEST_MS => return Err(format!("`every_ms` is at least {SHORTEST_MS}")),
            ms => ms.map(|ms| TriggerKind::Every(Duration::from_millis(ms))),
        };
        let files = files.map(|Patterns(patterns)| TriggerKind::Files(patterns));
        let webhook = webhook.map(Webhook::try_from).transpose()?.map(TriggerKind::Webhook);
        let mut kinds = [cron, every, files, webhook].into_iter().flatten();
        let (Some(kind), None) = (kinds.next(), kinds.next()) else {
            return Err(format!("`{id}` needs one of `cron`, `every_ms`, `files` and `webhook`"));
        };
        if config.max_missed.is_some_and(|most| most > MOST_MISSED) {
            return Err(format!("`max_missed` is at most {MOST_MISSED}"));
        }
        Ok(Self {
            id,
            kind,
            message: config.message,
            missed: config.missed,
            max_missed: config.max_missed.unwrap_or(MAX_MISSED),
            enabled: config.enabled.unwrap_or(true),
        })
    }
}

checked_text!(
    /// An id that can stand in an address.
    Id(String), |id| {
        let is_part = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '-' | '.');
        if !id.is_empty() && id.len() <= 128 && id.chars().all(is_part) && !id.starts_with('.') {
            Ok(id)
        } else {
            Err(format!("`{id}` can be no id of a trigger; write letters, digits, `_`, `-` and `.`"))
        }
    }
);

checked_text!(
    /// A cron expression.
    Expression(String), |text| {
        CronTimes::parse(&text, None).map_err(|error| format!("`{text}` is not a cron expression: {error}"))?;
        Ok(text)
    }
);

checked_text!(
    /// A time zone.
    Zone(String), |name| {
        CronTimes::parse("* * * * *", Some(&name)).map_err(|error| error.to_string())?;
        Ok(name)
    }
);

checked_text!(
    /// Patterns of files in the project.
    Patterns(Vec<String>), |patterns| {
        if patterns.is_empty() {
            return Err("`files` names no files".into());
        }
        match patterns.iter().find(|pattern| !is_safe_id(pattern) || pattern.starts_with(".weft")) {
            Some(pattern) => Err(format!("`{pattern}` leaves the project, or is not a path with `/`")),
            None => Ok(patterns),
        }
    }
);
