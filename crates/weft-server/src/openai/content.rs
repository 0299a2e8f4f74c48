//! Text of the answer, taken from an agent's events while they are emitted.
//!
//! A text may turn out to precede a call until it has ended. A text before a call is a step, not the answer,
//! and such texts are short; so the beginning of each turn's text is held until it is long, or the turn is the last.

use agent_types::{EventBody, TraceEvent};

/// Bytes of a turn's text that are held. An agent without tools makes no calls, and nothing is held.
const HOLD: usize = 280;

/// Takes events and gives pieces of the answer.
#[derive(Debug)]
pub(crate) struct Content {
    hold: usize,
    /// Pieces of this turn that may yet turn out to be a step.
    held: Vec<String>,
    /// Text of this turn that was sent.
    given: String,
    /// Set once any text was sent.
    has_begun: bool,
    /// Set when the next text begins a new part.
    new_part: bool,
}

impl Content {
    /// `has_tools`: calls may follow a text. `is_strict`: an answer may be refused and written again.
    pub(crate) fn new(has_tools: bool, is_strict: bool) -> Self {
        let hold = match (has_tools, is_strict) {
            (_, true) => usize::MAX,
            (true, false) => HOLD,
            (false, false) => 0,
        };
        Self { hold, held: Vec::new(), given: String::new(), has_begun: false, new_part: false }
    }

    /// The pieces of the answer that an event brings.
    pub(crate) fn take(&mut self, event: &TraceEvent) -> Vec<String> {
        let is_inside = event.place.call.is_some() || event.place.depth.is_some_and(|depth| depth > 0);
        match &event.body {
            EventBody::AgentTurnStarted {} if !is_inside => {
                self.held.clear();
                self.new_part |= !self.given.is_empty();
                self.given.clear();
                Vec::new()
            }
            EventBody::AgentTextDelta { text, .. } if !is_inside => self.text(text),
            EventBody::AgentMessage { text, r#final: true, .. } if !is_inside => self.end(text),
            _ => Vec::new(),
        }
    }

    fn text(&mut self, text: &str) -> Vec<String> {
        if !self.given.is_empty() {
            return self.give(vec![text.to_owned()]);
        }
        self.held.push(text.to_owned());
        let length: usize = self.held.iter().map(String::len).sum();
        if length <= self.hold {
            return Vec::new();
        }
        let held = std::mem::take(&mut self.held);
        self.give(held)
    }

    /// Rest of the text once the whole text of the last turn is known.
    pub(super) fn end(&mut self, whole: &str) -> Vec<String> {
        if self.given.is_empty() {
            let held = std::mem::take(&mut self.held);
            let is_same = held.concat().trim() == whole.trim();
            let pieces = if is_same { held } else { vec![whole.to_owned()] };
            let mut pieces = self.give(pieces);
            if let Some(last) = pieces.last_mut() {
                last.truncate(last.trim_end().len());
            }
            return pieces;
        }
        match whole.strip_prefix(self.given.trim_end()) {
            Some(rest) if !rest.trim().is_empty() => self.give(vec![rest.to_owned()]),
            Some(_) | None => Vec::new(),
        }
    }

    /// Returns `true` before any text was sent.
    pub(super) const fn is_empty(&self) -> bool {
        !self.has_begun
    }

    fn give(&mut self, pieces: Vec<String>) -> Vec<String> {
        let mut given = Vec::new();
        for mut piece in pieces {
            // Blanks before the text are none of it.
            if self.given.is_empty() {
                piece.drain(..piece.len() - piece.trim_start().len());
            }
            if piece.is_empty() {
                continue;
            }
            self.given.push_str(&piece);
            if std::mem::take(&mut self.new_part) {
                piece.insert_str(0, "\n\n");
            }
            self.has_begun = true;
            given.push(piece);
        }
        given
    }
}

#[cfg(test)]
mod tests {
    use agent_types::{EventLocation, RunId, Timestamp};

    use super::*;

    fn event(body: EventBody) -> TraceEvent {
        TraceEvent::new(RunId::new("r"), 1, Timestamp::from_millis(0), EventLocation::default(), body)
    }

    fn delta(text: &str) -> TraceEvent {
        event(EventBody::AgentTextDelta { offset: 0, text: text.to_owned() })
    }

    fn message(text: &str, r#final: bool) -> TraceEvent {
        event(EventBody::AgentMessage { text: text.to_owned(), r#final, warning: None })
    }

    fn turn() -> TraceEvent {
        event(EventBody::AgentTurnStarted {})
    }

    #[track_caller]
    fn check(has_tools: bool, events: &[TraceEvent], expected: &[&str]) {
        let mut content = Content::new(has_tools, false);
        let pieces: Vec<String> = events.iter().flat_map(|event| content.take(event)).collect();
        assert_eq!(pieces, expected);
    }

    #[test]
    fn what_stands_before_a_call_is_no_answer() {
        let step = [turn(), delta("I look.\n"), message("I look.", false)];
        let answer = [turn(), delta("\nIt is"), delta(" noon."), delta("\n"), message("It is noon.", true)];
        check(true, &[step.as_slice(), &answer].concat(), &["It is", " noon.", ""]);
    }

    #[test]
    fn an_agent_without_tools_is_heard_at_once() {
        check(false, &[turn(), delta("It is"), delta(" noon.")], &["It is", " noon."]);
    }

    #[test]
    fn a_long_text_is_heard_while_it_is_written() {
        let long = "x".repeat(HOLD + 1);
        let events = [turn(), delta(&long), delta("y"), message(&format!("{long}y"), true)];
        check(true, &events, &[&long, "y"]);
    }

    #[test]
    fn a_long_text_before_a_call_stays_and_stands_apart() {
        let long = "x".repeat(HOLD + 1);
        let events =
            [turn(), delta(&long), message(&long, false), turn(), delta("end"), message("end", true)];
        check(true, &events, &[&long, "\n\nend"]);
    }

    #[test]
    fn an_answer_that_nobody_wrote_piece_by_piece_is_whole() {
        check(true, &[message("A flow's reply.", true)], &["A flow's reply."]);
    }
}
