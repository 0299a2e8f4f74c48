//! Messages of a conversation as users see them.

use agent_runtime::{Exchange, Turn};
use executors_flow_system::{Author, Entry, Said};
use protocol_action::{NoVocabulary, parse};
use schemars::JsonSchema;
use serde::Serialize;
use serde_json::{Map, Value};

use crate::request::ThreadInfo;

/// A message of a conversation.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
#[non_exhaustive]
pub struct ChatMessage {
    /// `user assistant event note summary`.
    pub role: &'static str,
    /// Author of the message.
    #[schemars(with = "String")]
    pub author: Author,
    /// Name of the author: of a person, or the id of the agent, flow, action or timer.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// The text.
    pub text: String,
    /// Time at which it was said.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub at: Option<String>,
    /// The run that it belongs to.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub run: Option<String>,
    /// Set for the reply of a flow or an action that failed.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub failed: bool,
    /// Calls of an assistant, with what came of them.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub calls: Vec<ChatCall>,
}

/// A call of an assistant.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
#[non_exhaustive]
pub struct ChatCall {
    /// Its id.
    pub id: String,
    /// The tool.
    pub tool: String,
    /// The arguments.
    pub arguments: Map<String, Value>,
    /// Text that the model received about the call.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub observation: Option<String>,
}

/// Messages of a conversation behind a number of entries.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct SaidBehind {
    /// Messages with words, each with the number of its entry, from 1.
    pub messages: Vec<(usize, ChatMessage)>,
    /// Entries that the conversation has.
    pub entries: usize,
}

impl ChatMessage {
    /// Returns `true` for words of the user, or to the user. Calls without words, notes and events are not.
    #[must_use]
    pub fn is_said(&self) -> bool {
        matches!(self.role, "user" | "assistant") && !self.text.trim().is_empty()
    }
}

impl ThreadInfo {
    /// The messages of the conversation in order, by all authors.
    #[must_use]
    pub fn messages(&self) -> Vec<ChatMessage> {
        self.entries.iter().flat_map(messages_of).collect()
    }

    /// The conversation as the agent would read all of it: it is given replies of flows, actions and timers as notes,
    /// since these may hold text of others; notes among people are left out.
    #[must_use]
    pub fn exchanges(&self) -> Vec<Exchange> {
        self.entries.iter().filter_map(exchange_of).collect()
    }
}

fn exchange_of(entry: &Entry) -> Option<Exchange> {
    let Some(said) = entry.said.as_ref().filter(|_| entry.exchange.is_none()) else {
        return entry.exchange.clone();
    };
    let text = said.text.clone()?;
    match said.author {
        Author::User => Some(Exchange::user(text)),
        Author::Note => None,
        Author::Agent => Some(Exchange::Turn(Turn { text, ..Turn::default() })),
        author => Some(Exchange::user(format!("Note - {} answered the user: {text}", name_of(author)))),
    }
}

/// An author as the agent reads of it.
const fn name_of(author: Author) -> &'static str {
    match author {
        Author::Flow => "a flow",
        Author::Action => "an action",
        Author::Timer => "a timer",
        _ => "a person",
    }
}

pub(crate) fn messages_of(entry: &Entry) -> Vec<ChatMessage> {
    let said = entry.said.as_ref();
    if let Some(text) = said.and_then(|said| said.text.as_deref()) {
        return vec![message(role_of(said), said, Author::Note, text)];
    }
    let Some(exchange) = &entry.exchange else { return Vec::new() };
    match exchange {
        Exchange::User { text, .. } => {
            let role = if said.is_some() { role_of(said) } else { "user" };
            vec![message(role, said, Author::User, text)]
        }
        Exchange::Turn(turn) => of_turn(turn, said),
        Exchange::Event { name, payload } => {
            vec![message("event", said, Author::Note, &format!("{name} {payload}"))]
        }
        Exchange::Observed { observations, .. } => {
            observations.iter().map(|seen| message("note", said, Author::Note, &seen.text)).collect()
        }
        Exchange::Summary { text, .. } => vec![message("summary", said, Author::Note, text)],
    }
}

fn of_turn(turn: &Turn, said: Option<&Said>) -> Vec<ChatMessage> {
    let calls = turn.calls.iter().map(|call| ChatCall {
        id: call.id.to_string(),
        tool: call.tool.clone(),
        arguments: call.arguments.clone(),
        observation: call.observation.as_ref().map(|observation| observation.text.clone()),
    });
    // Blocks stand among the calls; a person reads what is said around them.
    let text = parse(&turn.text, &NoVocabulary).text;
    let mut messages = vec![message("assistant", said, Author::Agent, text.trim())];
    messages[0].calls = calls.collect();
    messages.extend(turn.notes.iter().map(|note| message("note", None, Author::Note, &note.text)));
    messages
}

/// A message; of an author that is known by the entry, else of this one.
fn message(role: &'static str, said: Option<&Said>, author: Author, text: &str) -> ChatMessage {
    ChatMessage {
        role,
        author: said.map_or(author, |said| said.author),
        name: said.and_then(|said| said.name.clone()),
        text: text.to_owned(),
        at: said.map(|said| said.at.to_string()),
        run: said.and_then(|said| said.run.as_ref().map(ToString::to_string)),
        failed: said.is_some_and(|said| said.failed),
        calls: Vec::new(),
    }
}

fn role_of(said: Option<&Said>) -> &'static str {
    match said.map(|said| said.author) {
        Some(Author::User) => "user",
        None | Some(Author::Note) => "note",
        Some(_) => "assistant",
    }
}
