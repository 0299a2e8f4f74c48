//! A run as a person follows it: a line for each thing that happens, on stderr.

use std::io::IsTerminal;

use agent_types::{EventBody, ExitReason, RunStatus, ToolStatus, TraceEvent};
use serde_json::{Map, Value};

use crate::output;

/// Longest line of a result, in characters.
const MAX_SHOWN: usize = 160;

/// Prints events as lines.
pub(crate) struct Timeline {
    color: bool,
    /// Set while a text is being written piece by piece.
    writing: bool,
    /// Blanks that are written only if more text follows.
    blanks: String,
}

impl Timeline {
    /// Uses colours where stderr is a terminal and the environment does not forbid them.
    pub(crate) fn new() -> Self {
        let color =
            std::io::stderr().is_terminal() && std::env::var_os("NO_COLOR").is_none_or(|v| v.is_empty());
        Self { color, writing: false, blanks: String::new() }
    }

    /// Prints one event, if it is one for people.
    pub(crate) fn show(&mut self, event: &TraceEvent) {
        let inner = event.place.path.is_some();
        match &event.body {
            EventBody::AgentTurnStarted {} => {
                let turn = event.place.turn.unwrap_or_default();
                self.line("1", &format!("turn {turn}"));
            }
            EventBody::AgentThinking {} => self.line("2", "  thinking …"),
            EventBody::AgentTextDelta { text, .. } => self.delta(text),
            EventBody::AgentParseFailed { code, .. } => {
                self.line(
                    "33",
                    &format!("  the reply cannot be used ({code}); the model receives the reason"),
                );
            }
            EventBody::AgentCallReady { tool, arguments, repairs } => {
                let repaired = if repairs.is_empty() {
                    String::new()
                } else {
                    format!("  (repaired: {})", repairs.join(", "))
                };
                self.line("36", &format!("  → {tool}{}{repaired}", shown_arguments(arguments)));
            }
            EventBody::AgentToolFinished { tool, status, summary, ms, .. } => {
                let (mark, color) = if *status == ToolStatus::Ok { ("✓", "32") } else { ("✗", "31") };
                let status = if *status == ToolStatus::Ok { String::new() } else { format!(" {status}") };
                self.line(color, &format!("  {mark} {tool}{status} ({ms} ms): {}", one_line(summary)));
            }
            EventBody::FlowMatched { flow, why } => self.line("36", &format!("  → flow {flow} ({why})")),
            EventBody::FlowFinished { flow, .. } => self.line("32", &format!("  ✓ flow {flow}")),
            EventBody::FlowFailed { flow, message } => {
                self.line("31", &format!("  ✗ flow {flow}: {}", one_line(message)));
            }
            EventBody::SystemAction { action, status, message } => {
                let (mark, color) = if status == "ok" { ("✓", "32") } else { ("✗", "31") };
                let message =
                    message.as_deref().map(|text| format!(": {}", one_line(text))).unwrap_or_default();
                self.line(color, &format!("  {mark} system action {action}{message}"));
            }
            EventBody::AgentWarning { message, .. } => self.line("33", &format!("  ! {message}")),
            EventBody::NodeFinished { .. } if inner => {
                let path = event.place.path.as_deref().unwrap_or_default();
                self.line("2", &format!("    · {path}"));
            }
            EventBody::NodeFailed { message, .. } => {
                let path = event.place.path.as_deref().unwrap_or_default();
                self.line("31", &format!("    ✗ {path}: {}", one_line(message)));
            }
            EventBody::RunFinished { status, exit, message, .. } if *status != RunStatus::Ok => {
                // The run of a workflow has no exit, only a status.
                let exit = exit.map_or_else(
                    || if *status == RunStatus::Cancelled { "cancelled" } else { "failed" }.to_owned(),
                    |exit: ExitReason| exit.to_string(),
                );
                let message = message.as_deref().map(|text| format!(": {text}")).unwrap_or_default();
                self.line("31", &format!("ended: {exit}{message}"));
            }
            EventBody::RunFinished { .. } => self.end_text(),
            EventBody::RunWaiting { asks, .. } => {
                self.line("33", &format!("waits for a person: {} open", asks.len()));
            }
            _ => {}
        }
    }

    fn delta(&mut self, text: &str) {
        let text = if self.writing { text } else { text.trim_start() };
        let shown = text.trim_end();
        if shown.is_empty() {
            self.blanks.push_str(if self.writing { text } else { "" });
            return;
        }
        let start = if self.writing { self.blanks.replace('\n', "\n  ") } else { "  ".to_owned() };
        output::piece(&format!("{start}{}", shown.replace('\n', "\n  ")));
        self.writing = true;
        text[shown.len()..].clone_into(&mut self.blanks);
    }

    fn end_text(&mut self) {
        self.blanks.clear();
        if std::mem::take(&mut self.writing) {
            note!();
        }
    }

    fn line(&mut self, color: &str, text: &str) {
        self.end_text();
        if self.color {
            output::colored_note(color, text);
        } else {
            output::note(text);
        }
    }
}

fn shown_arguments(arguments: &Map<String, Value>) -> String {
    let shown = arguments.iter().map(|(name, value)| format!("  {name}: {}", one_line(&value.to_string())));
    shown.collect()
}

/// A text on one line, its end left out where it is long.
pub(crate) fn one_line(text: &str) -> String {
    let line = text.split_whitespace().collect::<Vec<_>>().join(" ");
    match line.char_indices().nth(MAX_SHOWN) {
        Some((end, _)) => format!("{}…", &line[..end]),
        None => line,
    }
}
