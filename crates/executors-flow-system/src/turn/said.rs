//! Words of a turn: what its user, its flow, its action or its timer says.

use agent_types::{AskSummary, ExitReason};

use super::Turn;
use crate::conversation::{Author, Entry, Said};
use crate::message::Handled;

/// Author of an entry.
pub(super) fn author_of(entry: &Entry) -> Option<Author> {
    entry.said.as_ref().map(|said| said.author)
}

/// The message, for users only.
pub(super) fn user_said(turn: &Turn<'_>) -> Entry {
    let said = Said::new(Author::User, turn.asked).text(turn.message.text.clone());
    said.of_run(turn.cx.sink.run()).into()
}

/// The reply of a flow, an action or a timer, for users only.
pub(super) fn reply_said(turn: &Turn<'_>, handled: &Handled) -> Option<Entry> {
    let text = handled.text.clone()?;
    let (author, name) = match (&handled.timer, &handled.flow, &handled.action) {
        (Some(timer), ..) => (Author::Timer, timer),
        (_, Some(flow), _) => (Author::Flow, flow),
        (.., Some(action)) => (Author::Action, action),
        (None, None, None) => return None,
    };
    let said = Said::new(author, turn.shared.clock.now()).by(name).text(text).of_run(turn.cx.sink.run());
    Some(Said { failed: handled.exit == ExitReason::ToolError, ..said }.into())
}

/// The kind of a failure, for the end of the run.
pub(super) const fn kind_of(handled: &Handled, of_timer: bool, has_continued: bool) -> &'static str {
    match (&handled.flow, &handled.action) {
        _ if has_continued => "failed_and_continued",
        (Some(_), _) => "flow_failed",
        (None, Some(_)) => "action_failed",
        (None, None) if of_timer => "timer_failed",
        (None, None) => "failed",
    }
}

/// A flow that waits for answers of the user: its questions are said.
pub(super) fn asked(turn: &Turn<'_>, flow: Option<String>, asks: Vec<AskSummary>) -> Handled {
    let prompts: Vec<&str> = asks.iter().filter_map(|ask| ask.prompt.as_deref()).collect();
    let text = Some(prompts.join("\n")).filter(|text| !text.is_empty());
    Handled { flow, asks, ..turn.handled(ExitReason::FlowCompleted, text, None) }
}
