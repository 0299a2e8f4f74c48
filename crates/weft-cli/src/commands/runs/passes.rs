//! Passes of loops as lines of the developer log.

use agent_types::{ToolStatus, Usage};
use serde_json::{Map, Value};
use weft_runs::{LoopEntry, LoopRecord, PassRecord};

use crate::failure::Failure;
use crate::output;
use crate::timeline::one_line;

/// Prints the record of a loop or of a pass.
pub(super) fn print(entry: &LoopEntry) -> Result<(), Failure> {
    match entry {
        LoopEntry::Pass(pass) => print_pass(pass),
        LoopEntry::Loop(own) => print_loop(own),
    }
}

fn print_pass(pass: &PassRecord) -> Result<(), Failure> {
    let PassRecord { before, after, .. } = pass;
    let how = match (pass.ms, pass.decision) {
        (None, _) => "open".to_owned(),
        (Some(ms), None) => format!("{ms} ms"),
        (Some(ms), Some(decision)) => format!("{ms} ms, {decision}"),
    };
    let tokens = tokens(pass.usage);
    output::line(&format!("{}{}[{}] {how}{tokens}", call(pass.call.as_deref()), pass.r#loop, pass.pass))?;
    if let Some(item) = &pass.item {
        output::line(&format!("  item: {}", text_of(item)))?;
    }
    let keys = after.as_ref().unwrap_or(before).keys();
    for key in keys {
        let now = after.as_ref().and_then(|after| after.get(key));
        let was = before.get(key).map_or_else(|| "?".to_owned(), text_of);
        let line = match now.filter(|_| pass.changed.contains(key)) {
            Some(now) => format!("  {key}: {was} → {}", text_of(now)),
            None => format!("  {key}: {was}"),
        };
        output::line(&line)?;
    }
    for reply in &pass.replies {
        output::line(&format!("  reply ({}): {}", reply.finish, one_line(&reply.text)))?;
    }
    for call in &pass.calls {
        let status = call.status.map_or("open", ToolStatus::as_str);
        let ms = call.ms.map(|ms| format!(" {ms} ms")).unwrap_or_default();
        let observed = call.observation.as_deref().map(one_line).unwrap_or_default();
        output::line(&format!("  call {} {status}{ms}: {observed}", call.tool))?;
    }
    for failure in &pass.failures {
        output::line(&format!("  failed {}: {}", failure.path, one_line(&failure.message)))?;
    }
    if pass.left_out > 0 {
        output::line(&format!("  and {} more", pass.left_out))?;
    }
    Ok(())
}

fn print_loop(own: &LoopRecord) -> Result<(), Failure> {
    let LoopRecord { mode, passes, why, ms, usage, .. } = own;
    let place = format!("{}{}", call(own.call.as_deref()), own.r#loop);
    let tokens = tokens(*usage);
    output::line(&format!("{place} ({mode}) ended after {passes} passes, {ms} ms: {why}{tokens}"))?;
    print_values(&own.after)
}

fn print_values(values: &Map<String, Value>) -> Result<(), Failure> {
    values.iter().try_for_each(|(key, value)| output::line(&format!("  {key}: {}", text_of(value))))
}

fn call(call: Option<&str>) -> String {
    call.map(|call| format!("{call}: ")).unwrap_or_default()
}

fn tokens(usage: Option<Usage>) -> String {
    let Some(usage) = usage else { return String::new() };
    let cost = match usage.cost_micros {
        0 => String::new(),
        micros => format!(", ${}.{:06}", micros / 1_000_000, micros % 1_000_000),
    };
    format!(", {} tokens in, {} out{cost}", usage.input, usage.output)
}

fn text_of(value: &Value) -> String {
    one_line(&value.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn money_stands_behind_the_tokens_where_it_is_known() {
        let usage = Usage::new(10, 5);
        assert_eq!(tokens(Some(usage)), ", 10 tokens in, 5 out");
        assert_eq!(
            tokens(Some(Usage { cost_micros: 1_002_030, ..usage })),
            ", 10 tokens in, 5 out, $1.002030"
        );
    }
}
