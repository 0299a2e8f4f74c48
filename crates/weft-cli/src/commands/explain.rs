//! `weft explain`: what a code means and what to do about it.

use agent_types::nearest;
use serde_json::{Value, json};

use super::Context;
use crate::arguments::Output;
use crate::codes::{self, Row};
use crate::failure::{Exit, Failure};
use crate::output;

pub(super) fn run(context: &Context, wanted: Option<&str>) -> Result<Exit, Failure> {
    let Some(wanted) = wanted else { return list(context.output) };
    let wanted = bare(wanted);
    let found: Vec<Row> = codes::all().filter(|code| code.code == wanted).collect();
    if found.is_empty() {
        return Err(unknown(wanted));
    }
    match context.output {
        Output::Text => {
            for (at, code) in found.iter().enumerate() {
                if at > 0 {
                    output::line("")?;
                }
                print(code)?;
            }
        }
        Output::Json => output::json(&found.iter().map(as_json).collect::<Vec<_>>())?,
        Output::Jsonl => found.iter().map(as_json).try_for_each(|code| output::json(&code))?,
    }
    Ok(Exit::Ok)
}

/// A code as it may be copied from a message: `error[unknown_tool]:` is `unknown_tool`.
fn bare(wanted: &str) -> &str {
    let inner = wanted.split_once('[').map_or(wanted, |(_, rest)| rest.split(']').next().unwrap_or(rest));
    inner.trim_matches(|char: char| matches!(char, '`' | '"' | '\'' | ':' | ' '))
}

fn print(code: &Row) -> Result<(), Failure> {
    output::line(&format!("{} ({})", code.code, code.group))?;
    output::line(&format!("  {}", code.meaning))?;
    for (label, text) in [("usual cause", code.cause), ("fix", code.fix)] {
        if !text.is_empty() {
            output::line(&format!("  {label}: {text}"))?;
        }
    }
    Ok(())
}

fn as_json(code: &Row) -> Value {
    let mut object = json!({"id": code.code, "group": code.group, "meaning": code.meaning, "cause": code.cause, "way_out": code.fix});
    if let Value::Object(object) = &mut object {
        object.retain(|_, value| value.as_str() != Some(""));
    }
    object
}

fn list(form: Output) -> Result<Exit, Failure> {
    match form {
        Output::Json => output::json(&codes::all().map(|code| as_json(&code)).collect::<Vec<_>>())?,
        Output::Jsonl => codes::all().try_for_each(|code| output::json(&as_json(&code)))?,
        Output::Text => {
            let mut group = "";
            for code in codes::all() {
                if code.group != group {
                    let gap = if group.is_empty() { "" } else { "\n" };
                    output::line(&format!("{gap}{}", code.group))?;
                    group = code.group;
                }
                output::line(&format!("  {:<24} {}", code.code, code.meaning))?;
            }
        }
    }
    Ok(Exit::Ok)
}

fn unknown(wanted: &str) -> Failure {
    let names: Vec<Row> = codes::all().collect();
    let near = nearest(wanted, names.iter().map(|code| code.code));
    let help = near.map_or_else(
        || "`weft explain` lists the codes".to_owned(),
        |near| format!("did you mean `{near}`?"),
    );
    Failure::new(Exit::Usage, "unknown_code", format!("unknown code `{wanted}`")).with_help(help)
}
