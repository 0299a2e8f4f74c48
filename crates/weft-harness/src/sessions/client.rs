//! The two sides of one session: a user who sends messages, and a person who answers some of them.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use serde_json::{Value, json};

use super::servers::Servers;
use super::{Fault, SessionsSoak};
use crate::Numbers;

/// Pause before a message that was refused for a moment is sent again.
const PAUSE: Duration = Duration::from_millis(100);

/// Course of a session, by its number.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Course {
    /// The agent answers everything.
    Agent,
    /// Flows answer some messages.
    Flows,
    /// A person answers in between: from a message on, until before another one.
    Person(u64, u64),
    /// A person has it from a message on.
    Handoff(u64),
}

impl Course {
    pub(super) const fn new(session: u64, messages: u64) -> Self {
        match session % 4 {
            0 => Self::Agent,
            1 => Self::Flows,
            2 => Self::Person(messages / 3, messages / 3 + 2),
            _ => Self::Handoff(messages.saturating_sub(2)),
        }
    }

    /// Author of the answer to a message: `agent`, `flow`, `action` or nothing.
    pub(super) const fn author(self, message: u64) -> Option<&'static str> {
        match self {
            Self::Flows if message % 3 == 1 => Some("flow"),
            Self::Person(from, _) | Self::Handoff(from) if message == from => Some("action"),
            Self::Person(from, to) if message > from && message < to => None,
            Self::Handoff(from) if message > from => None,
            Self::Agent | Self::Flows | Self::Person(..) | Self::Handoff(_) => Some("agent"),
        }
    }

    /// Text of a message.
    pub(super) fn text(self, session: u64, message: u64) -> String {
        let name = format!("m{message} of s{session}");
        match self.author(message) {
            Some("flow") => format!("{name}: leave please"),
            Some("action") => format!("{name}: a person please"),
            _ => name,
        }
    }
}

/// Words of the person in a session.
pub(super) fn said_by_person(session: u64) -> String {
    format!("I am Ann in s{session}")
}

/// A client of one session.
pub(super) struct Client<'s> {
    servers: &'s Servers,
    refused: &'s AtomicU64,
    numbers: Numbers,
    session: u64,
    messages: u64,
    course: Course,
    server: usize,
    runs: Vec<String>,
}

impl<'s> Client<'s> {
    pub(super) fn new(
        soak: &SessionsSoak,
        session: u64,
        servers: &'s Servers,
        refused: &'s AtomicU64,
    ) -> Self {
        let mut numbers = Numbers::new(soak.seed.wrapping_mul(1_000_003).wrapping_add(session));
        Self {
            servers,
            refused,
            server: usize::from(numbers.below(2) == 1),
            numbers,
            session,
            messages: soak.messages,
            course: Course::new(session, soak.messages),
            runs: Vec::new(),
        }
    }

    /// Sends all messages; some are followed by the next one before they are answered, at either server.
    pub(super) fn talk(&mut self) -> Result<(), Fault> {
        for message in 0..self.messages {
            if matches!(self.course, Course::Person(_, to) if to == message) {
                self.act_as_person()?;
            }
            let run = self.send(message)?;
            self.runs.push(run);
            if self.numbers.below(3) == 0 {
                self.wait()?;
            }
            if self.numbers.below(4) == 0 {
                self.server = 1 - self.server;
            }
        }
        self.wait()
    }

    /// Sends a message until it is accepted; gives its run.
    fn send(&mut self, message: u64) -> Result<String, Fault> {
        let path = format!("/api/chat/desk/threads/s{}/messages", self.session);
        let body =
            json!({"text": self.course.text(self.session, message), "message_id": format!("m{message}")});
        loop {
            let (status, answer) = self.servers.ask(&mut self.server, ("POST", &path), Some(&body))?;
            let answered: Value = serde_json::from_str(&answer).unwrap_or_default();
            match status {
                202 => return Ok(answered["run"].as_str().unwrap_or_default().to_owned()),
                429 => {
                    self.refused.fetch_add(1, Ordering::Relaxed);
                    std::thread::sleep(PAUSE);
                }
                _ => return Err(format!("m{message}: {status} {answer}")),
            }
        }
    }

    /// Waits until the last message is done.
    fn wait(&mut self) -> Result<(), Fault> {
        let Some(run) = self.runs.last() else { return Ok(()) };
        let path = format!("/api/runs/{run}/events");
        let (status, events) = self.servers.ask(&mut self.server, ("GET", &path), None)?;
        if status != 200 || !events.contains("run.finished") {
            return Err(format!("{run} has no end: {status} {events}"));
        }
        Ok(())
    }

    /// Takes the session, answers and gives it back.
    fn act_as_person(&mut self) -> Result<(), Fault> {
        self.wait()?;
        let text = said_by_person(self.session);
        let session = format!("/api/sessions/s{}", self.session);
        for (action, body, is_done) in [
            ("take", json!({"person": "ann"}), "\"person\":\"ann\""),
            ("messages", json!({"person": "ann", "text": text}), text.as_str()),
            ("give-back", json!({"person": "ann"}), "\"with\":\"agent\""),
        ] {
            let shown = self.show(&session)?;
            if action == "take" && !shown.contains("\"with\":\"person\"") {
                return Err(format!("it is not handed over: {shown}"));
            }
            self.act(&session, action, &body, is_done)?;
        }
        Ok(())
    }

    /// Executes an action, which has no id: where a server dies in it, the session says what came of it.
    fn act(&mut self, session: &str, action: &str, body: &Value, is_done: &str) -> Result<(), Fault> {
        let path = format!("{session}/{action}");
        loop {
            match self.servers.ask_once(self.server, ("POST", &path), Some(body)) {
                Ok((200, _)) => return Ok(()),
                Ok((status, answer)) => return Err(format!("{action}: {status} {answer}")),
                Err(_) => self.server = 1 - self.server,
            }
            std::thread::sleep(PAUSE);
            if self.show(session)?.contains(is_done) {
                return Ok(());
            }
        }
    }

    fn show(&mut self, session: &str) -> Result<String, Fault> {
        self.servers.ask(&mut self.server, ("GET", session), None).map(|(_, body)| body)
    }
}
