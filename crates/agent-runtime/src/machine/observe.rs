//! The words of observations: from what happened to the texts of the one table.

use agent_types::{CallId, Observation, ObservationCode, Problem, ToolStatus};
use protocol_action::{Diagnostic, UnreadCall, neutralize};
use tool_registry::{CallEnd, INTERNAL_ERROR, ToolErrorKind};
use tool_schema::{CallFault, OfferedTool};

use crate::prompt::text::Protocol;

/// The code of calls that a limit keeps from running after they were begun.
const LIMIT_REACHED: &str = "limit_reached";

/// Most tool names that a message lists.
const MAX_LISTED: usize = 20;

/// The observation of a call that is over, and its status.
pub fn of_end(call: &CallId, tool: &str, end: &CallEnd) -> (Observation, ToolStatus) {
    let (code, status, text) = match end {
        CallEnd::Ok(output) => {
            let text = ObservationCode::Ok.text(&[("name", tool), ("result", &output.shown())]);
            (ObservationCode::Ok, ToolStatus::Ok, text)
        }
        CallEnd::Failed(error) => {
            let message = non_empty(&error.message_for_model);
            if error.code == Some(LIMIT_REACHED) {
                return (refused(call, tool, message), ToolStatus::Refused);
            }
            let text = ObservationCode::Failed.text(&[("name", tool), ("message", message)]);
            // A tool that timed out by its own limit has its own message.
            match error.kind {
                ToolErrorKind::Timeout => (ObservationCode::Timeout, ToolStatus::Timeout, text),
                _ => (ObservationCode::Failed, ToolStatus::Failed, text),
            }
        }
        CallEnd::Panicked { .. } => {
            let text = ObservationCode::Panicked.text(&[("name", tool), ("message", INTERNAL_ERROR)]);
            (ObservationCode::Panicked, ToolStatus::Panicked, text)
        }
        CallEnd::TimedOut { limit } => {
            let limit = limit.as_millis().to_string();
            let text = ObservationCode::Timeout.text(&[("name", tool), ("n", &limit)]);
            (ObservationCode::Timeout, ToolStatus::Timeout, text)
        }
        _ => {
            let text = ObservationCode::Cancelled.text(&[("name", tool)]);
            (ObservationCode::Cancelled, ToolStatus::Cancelled, text)
        }
    };
    (Observation { call: Some(call.clone()), tool: tool.to_owned(), code, text }, status)
}

fn non_empty(message: &str) -> &str {
    if message.trim().is_empty() { "(no message)" } else { message }
}

/// The observation of a call that was not started.
pub fn refused(call: &CallId, tool: &str, reason: &str) -> Observation {
    let text = ObservationCode::Refused.text(&[("name", tool), ("reason", reason)]);
    Observation { call: Some(call.clone()), tool: tool.to_owned(), code: ObservationCode::Refused, text }
}

/// The observation of a call whose process ended before there was one.
pub fn interrupted(call: &CallId, tool: &str) -> Observation {
    let text = ObservationCode::Note.text(&[("text", "interrupted; what became of the call is unknown")]);
    Observation { call: Some(call.clone()), tool: tool.to_owned(), code: ObservationCode::Note, text }
}

/// The observation of an answer that does not fit the schema of answers.
pub fn unfit(faults: &str) -> Observation {
    let text = ObservationCode::OutputSchema.text(&[("faults", faults)]);
    Observation { call: None, tool: String::new(), code: ObservationCode::OutputSchema, text }
}

/// The observation of a call that is wrong.
pub fn of_fault(call: &CallId, fault: &CallFault) -> Observation {
    let (tool, code, text) = match fault {
        CallFault::UnknownTool { name, near, available, .. } => {
            let near =
                near.as_ref().map_or_else(|| ".".to_owned(), |near| format!(", did you mean '{near}'?"));
            let fields = [("name", name.as_str()), ("near", &near), ("available", &listed(available))];
            (name, ObservationCode::UnknownTool, ObservationCode::UnknownTool.text(&fields))
        }
        CallFault::Arguments { tool, problems, .. } => {
            let code = ObservationCode::of_word(fault.code()).unwrap_or(ObservationCode::InvalidArgument);
            (tool, code, code.text(&[("name", tool), ("faults", &Problem::messages(problems))]))
        }
        other => return refused(call, other.code(), "it could not be read"),
    };
    Observation { call: Some(call.clone()), tool: tool.clone(), code, text }
}

/// The observation of a native call whose arguments cannot be read.
pub(super) fn of_native(call: &CallId, tool: &str, fault: &str) -> Observation {
    let code = ObservationCode::InvalidArgument;
    let text = code.text(&[("name", tool), ("faults", fault)]);
    Observation { call: Some(call.clone()), tool: tool.to_owned(), code, text }
}

/// Closest names, and the number of further ones.
fn listed(names: &[String]) -> String {
    if names.is_empty() {
        return "none".into();
    }
    let mut list = names.iter().take(MAX_LISTED).map(String::as_str).collect::<Vec<_>>().join(", ");
    if names.len() > MAX_LISTED {
        list.extend([", and ", &(names.len() - MAX_LISTED).to_string(), " more"]);
    }
    list
}

/// The observation of a block that could not be read.
pub fn of_diagnostic(diagnostic: &Diagnostic) -> Observation {
    let place = match diagnostic.line {
        0 => String::new(),
        line => format!(" at line {line}, column {}", diagnostic.column),
    };
    let code = ObservationCode::Malformed;
    let fields = [("message", diagnostic.message.as_str()), ("place", &place), ("hint", &diagnostic.hint)];
    let tool = diagnostic.tool.clone().unwrap_or_default();
    Observation { call: None, tool, code, text: code.text(&fields) }
}

/// The observation of a reply that looks like a call and holds none; `tool` is the tool that it names.
pub(super) fn unread(found: &UnreadCall, tool: Option<&OfferedTool>, protocol: Protocol) -> Observation {
    let hint = match (protocol, tool) {
        (Protocol::Native, _) => {
            "call the tool as a function; without a call the reply is the answer to the user".to_owned()
        }
        (Protocol::Text, Some(tool)) => format!(
            "to run it, end the reply, outside of a code fence, with an ACTION block that holds {}; \
             to answer, write the answer alone",
            tool.call_form()
        ),
        (Protocol::Text, None) => {
            "to run a tool, end the reply, outside of a code fence, with an ACTION block \
             that holds the tool's tag with its parameters; to answer, write the answer alone"
                .to_owned()
        }
    };
    let code = ObservationCode::UnreadCall;
    let fields = [("what", found.kind.words()), ("excerpt", &*neutralize(&found.excerpt)), ("hint", &hint)];
    let tool = tool.map(|tool| tool.name.clone()).unwrap_or_default();
    Observation { call: None, tool, code, text: code.text(&fields) }
}

/// Something that the model should know.
pub fn note(text: &str) -> Observation {
    let code = ObservationCode::Note;
    Observation { call: None, tool: String::new(), code, text: code.text(&[("text", text)]) }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    fn fault(near: Option<&str>, available: usize) -> CallFault {
        let tools: Vec<_> = (0..available).map(|n| format!("t{n}")).collect();
        let set = tool_schema::ToolSet::of_tools(
            tools
                .iter()
                .map(String::as_str)
                .chain(near)
                .map(|name| tool_schema::OfferedTool::new(name, "", serde_json::json!({})).unwrap()),
        )
        .unwrap();
        set.unknown_tool("get_date", protocol_action::Span::default())
    }

    #[test]
    fn an_unknown_tool_is_told_with_what_there_is() {
        let call = CallId::new("c1");
        assert_eq!(
            of_fault(&call, &fault(Some("get_time"), 0)).text,
            "Error - Unknown tool 'get_date', did you mean 'get_time'? Available: get_time"
        );
        let text = of_fault(&call, &fault(None, 23)).text;
        assert!(text.starts_with("Error - Unknown tool 'get_date'. Available: t0, t1, "), "{text}");
        assert!(text.ends_with("t19, and 3 more"), "{text}");
    }

    #[test]
    fn every_end_has_its_words() {
        let call = CallId::new("c1");
        let text = |end: CallEnd| of_end(&call, "t", &end).0.text;
        assert_eq!(
            text(CallEnd::TimedOut { limit: Duration::from_secs(5) }),
            "Error - Tool t failed: no answer within 5000 ms"
        );
        let gave_up = tool_registry::ToolError::new(ToolErrorKind::Timeout, "no answer within 30000 ms");
        let (observation, status) = of_end(&call, "t", &CallEnd::Failed(gave_up));
        assert_eq!((observation.code, status), (ObservationCode::Timeout, ToolStatus::Timeout));
        assert_eq!(observation.text, "Error - Tool t failed: no answer within 30000 ms");
        assert_eq!(text(CallEnd::Cancelled), "Error - Tool t was cancelled");
        let message = "index out of range at /srv/crash.rs:7:1";
        let panicked = text(CallEnd::Panicked { message: message.into() });
        assert_eq!(panicked, "Error - Tool t failed: internal error (panicked)");
    }
}
