//! Entries of a conversation: what its model reads, and what its users see.

use agent_runtime::Exchange;
use agent_types::{RunId, Timestamp};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

/// Kind of an entry that no model reads.
const SAID: &str = "said";

/// Author of a message.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum Author {
    /// The user.
    User,
    /// The agent.
    Agent,
    /// A flow.
    Flow,
    /// A system action.
    Action,
    /// A timer.
    Timer,
    /// A person who answers in place of the agent.
    Person,
    /// A note that is not for the user.
    Note,
}

/// Metadata of a message: its author, its time and its run.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Said {
    /// The author.
    pub author: Author,
    /// Name of the author: of a person, or the id of the agent, flow, action or timer.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// The text, where it is not that of the exchange.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub text: Option<String>,
    /// Time at which it was said.
    pub at: Timestamp,
    /// The run that it belongs to.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub run: Option<RunId>,
    /// `true` for the reply of something that failed.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub failed: bool,
}

impl Said {
    /// Metadata of a message by this author.
    #[must_use]
    pub const fn new(author: Author, at: Timestamp) -> Self {
        Self { author, name: None, text: None, at, run: None, failed: false }
    }

    /// The same with the name of the author.
    #[must_use]
    pub fn by(mut self, name: impl Into<String>) -> Self {
        self.name = Some(name.into());
        self
    }

    /// The same with a text of its own.
    #[must_use]
    pub fn text(mut self, text: impl Into<String>) -> Self {
        self.text = Some(text.into());
        self
    }

    /// The same in a run.
    #[must_use]
    pub fn of_run(mut self, run: &RunId) -> Self {
        self.run = Some(run.clone());
        self
    }
}

/// Entry of a conversation: an exchange that the model reads, a message that users see, or both.
#[derive(Debug, Clone, Default, PartialEq)]
#[non_exhaustive]
pub struct Entry {
    /// Exchange for the model.
    pub exchange: Option<Exchange>,
    /// Metadata of the message.
    pub said: Option<Said>,
}

impl From<Exchange> for Entry {
    fn from(exchange: Exchange) -> Self {
        Self { exchange: Some(exchange), said: None }
    }
}

impl From<Said> for Entry {
    fn from(said: Said) -> Self {
        Self { exchange: None, said: Some(said) }
    }
}

impl Entry {
    /// An exchange with the metadata of its message.
    #[must_use]
    pub const fn new(exchange: Exchange, said: Said) -> Self {
        Self { exchange: Some(exchange), said: Some(said) }
    }

    /// Reads a stored message; `None` for one of an unknown kind.
    #[must_use]
    pub fn from_value(value: Value) -> Option<Self> {
        let said = value.get(SAID).and_then(|said| Said::deserialize(said).ok());
        let exchange = serde_json::from_value(value).ok();
        (exchange.is_some() || said.is_some()).then_some(Self { exchange, said })
    }

    /// The entry as it is stored. A reader that knows exchanges only skips messages that no model reads.
    #[must_use]
    pub fn to_value(&self) -> Value {
        let mut value = match &self.exchange {
            Some(exchange) => serde_json::to_value(exchange).unwrap_or_default(),
            None => json!({"kind": SAID}),
        };
        if let Some(said) = &self.said {
            value[SAID] = serde_json::to_value(said).unwrap_or_default();
        }
        value
    }

    /// Returns `true` for an entry of this run.
    #[must_use]
    pub fn is_of(&self, run: &RunId) -> bool {
        self.said.as_ref().is_some_and(|said| said.run.as_ref() == Some(run))
    }
}

/// Exchanges of a conversation: what its model reads.
pub fn exchanges(entries: &[Entry]) -> impl Iterator<Item = &Exchange> {
    entries.iter().filter_map(|entry| entry.exchange.as_ref())
}

/// Exchanges that a run adds to a conversation, as entries. Messages of the user were said at `asked`, the others now.
#[must_use]
pub fn entries_of_run(exchanges: &[Exchange], run: &RunId, agent: &str, at: [Timestamp; 2]) -> Vec<Entry> {
    let [asked, now] = at;
    let entry = |exchange: &Exchange| {
        let said = match exchange {
            Exchange::User { .. } => Said::new(Author::User, asked),
            Exchange::Turn(_) => Said::new(Author::Agent, now).by(agent),
            Exchange::Event { .. } | Exchange::Observed { .. } | Exchange::Summary { .. } => {
                Said::new(Author::Note, now)
            }
        };
        Entry::new(exchange.clone(), said.of_run(run))
    };
    exchanges.iter().map(entry).collect()
}

/// Name of a conversation in the store: threads of different agents are different threads.
#[must_use]
pub fn thread_key(agent: &str, thread: &str) -> String {
    // Ids may have a slash of their own, and threads of workflows have a colon.
    let agent = agent.replace('%', "%25").replace('/', "%2F").replace(':', "%3A");
    format!("{agent}/{thread}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_entry_is_read_back_and_hides_from_readers_of_exchanges() {
        let at = Timestamp::from_millis(5);
        let said = Said::new(Author::Flow, at).by("leave").text("Sent.").of_run(&RunId::new("r1"));
        let user = Said::new(Author::User, at);
        for entry in
            [Entry::from(said), Entry::new(Exchange::user("hi"), user), Entry::from(Exchange::user("old"))]
        {
            let value = entry.to_value();
            let read = serde_json::from_value::<Exchange>(value.clone()).ok();
            assert_eq!(read, entry.exchange, "{value}");
            assert_eq!(Entry::from_value(value), Some(entry));
        }
        assert_eq!(Entry::from_value(json!({"kind": "later"})), None);
    }
}
