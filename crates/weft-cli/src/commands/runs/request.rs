//! The request that a turn of a run sent to the model.

use agent_runtime::requests::{RecordedRequest, RequestPlace};
use serde_json::{Map, Value};
use weft_runs::recorded_request;

use super::super::Context;
use super::{chosen, store};
use crate::arguments::{Output, RequestArguments};
use crate::failure::{Exit, Failure};
use crate::output;

/// Members of a message that have lines of their own.
const SHOWN: [&str; 2] = ["role", "text"];

pub(super) fn show(
    context: &Context,
    run: &str,
    turn: u32,
    arguments: RequestArguments,
) -> Result<Exit, Failure> {
    let project = context.project(None)?;
    let store = store(&project)?;
    let RequestArguments { call, path, summary } = arguments;
    let place = RequestPlace { path, call, turn, summary };
    let recorded = recorded_request(store, &chosen(store, run)?, place)?;
    match context.output {
        Output::Json | Output::Jsonl => output::json(&recorded)?,
        Output::Text => print(recorded)?,
    }
    Ok(Exit::Ok)
}

/// Prints a request as text: what goes with the messages, then each message under its role.
fn print(recorded: RecordedRequest) -> Result<(), Failure> {
    let RecordedRequest { seq, place, model, mut request, .. } = recorded;
    output::line(&format!("request of {place}, event {seq}\nmodel: {model}"))?;
    let messages = request.remove("messages");
    print_members(&request, &[])?;
    for message in messages.iter().filter_map(Value::as_array).flatten().filter_map(Value::as_object) {
        let text = |key: &str| message.get(key).and_then(Value::as_str).unwrap_or_default();
        output::line(&format!("\n--- {}", text("role")))?;
        print_members(message, &SHOWN)?;
        output::line(text("text"))?;
    }
    Ok(())
}

/// Prints members besides those `without`, each on a line; empty ones say nothing.
fn print_members(members: &Map<String, Value>, without: &[&str]) -> Result<(), Failure> {
    for (name, value) in members.iter().filter(|(name, _)| !without.contains(&name.as_str())) {
        let is_empty = match value {
            Value::Array(items) => items.is_empty(),
            Value::Object(members) => members.is_empty(),
            Value::Null => true,
            Value::Bool(_) | Value::Number(_) | Value::String(_) => false,
        };
        if !is_empty {
            output::line(&format!("{name}: {}", output::text_of(value)?))?;
        }
    }
    Ok(())
}
