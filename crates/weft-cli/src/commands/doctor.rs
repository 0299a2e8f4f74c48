//! `weft doctor`: whether everything that the project needs is there.

mod checks;

use serde_json::{Value, json};

use super::Context;
use crate::arguments::Output;
use crate::failure::{Exit, Failure};
use crate::output;

/// Result of one check.
struct Finding {
    /// As in `agent desk`.
    what: String,
    seen: Seen,
}

enum Seen {
    /// All is well.
    Well(String),
    /// It works, but a person should know.
    Warning(Failure),
    /// It does not work.
    Wrong(Failure),
}

impl Finding {
    fn well(what: impl Into<String>, message: impl Into<String>) -> Self {
        Self { what: what.into(), seen: Seen::Well(message.into()) }
    }

    fn warning(what: impl Into<String>, failure: Failure) -> Self {
        Self { what: what.into(), seen: Seen::Warning(failure) }
    }

    fn wrong(what: impl Into<String>, failure: Failure) -> Self {
        Self { what: what.into(), seen: Seen::Wrong(failure) }
    }

    const fn status(&self) -> &'static str {
        match self.seen {
            Seen::Well(_) => "ok",
            Seen::Warning(_) => "warning",
            Seen::Wrong(_) => "error",
        }
    }

    fn print(&self) -> Result<(), Failure> {
        let failure = match &self.seen {
            Seen::Well(message) => return line(self, message),
            Seen::Warning(failure) | Seen::Wrong(failure) => failure,
        };
        line(self, &format!("{} [{}]", failure.message, failure.code))?;
        if let Some(place) = &failure.place {
            output::line(&format!("         --> {place}"))?;
        }
        failure.help.iter().try_for_each(|help| output::line(&format!("         help: {help}")))
    }

    fn as_json(&self) -> Value {
        let mut object = json!({"check": self.what, "status": self.status()});
        match &self.seen {
            Seen::Well(message) => object["message"] = message.as_str().into(),
            Seen::Warning(failure) | Seen::Wrong(failure) => {
                for (key, value) in failure.fields() {
                    object[key] = value;
                }
            }
        }
        object
    }
}

fn line(finding: &Finding, message: &str) -> Result<(), Failure> {
    let mut lines = message.lines();
    let first = lines.next().unwrap_or_default();
    output::line(&format!("{:<8} {}: {first}", finding.status(), finding.what))?;
    lines.try_for_each(|line| output::line(&format!("         {line}")))
}

pub(super) fn run(context: &Context) -> Result<Exit, Failure> {
    let findings = checks::all(context);
    let is_wrong = |finding: &&Finding| matches!(finding.seen, Seen::Wrong(_));
    let wrong = findings.iter().filter(is_wrong).count();
    match context.output {
        Output::Text => findings.iter().try_for_each(Finding::print)?,
        Output::Json => {
            let checks: Vec<Value> = findings.iter().map(Finding::as_json).collect();
            output::json(&json!({"ok": wrong == 0, "checks": checks}))?;
        }
        Output::Jsonl => findings.iter().map(Finding::as_json).try_for_each(|check| output::json(&check))?,
    }
    let warnings = findings.iter().filter(|finding| matches!(finding.seen, Seen::Warning(_))).count();
    if context.output == Output::Text {
        note!("{} looked at, {wrong} wrong, {warnings} to know", findings.len());
    }
    // The first fault is the one to mend first, and others may follow from it.
    Ok(findings
        .iter()
        .find_map(|finding| match &finding.seen {
            Seen::Wrong(failure) => Some(failure.exit),
            Seen::Well(_) | Seen::Warning(_) => None,
        })
        .unwrap_or(Exit::Ok))
}
