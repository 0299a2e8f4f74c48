//! Questions of nodes to the user, and answers that are not taken yet.

use std::collections::HashMap;
use std::sync::Arc;

use agent_types::{AskKind, AskSummary, DefinitionDigests, ReplayData, ToolId};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use tokio::sync::oneshot;

use super::graph_state::frame::Key;
use crate::hash::NumberMap;

/// Names of the values that are kept with a question about a call.
const TOOL: &str = "tool";
const KIND: &str = "kind";
const ARGUMENTS: &str = "arguments";
const DEFINITION: &str = "definition";

/// An open question.
#[derive(Serialize, Deserialize)]
pub(crate) struct OpenAsk {
    pub(crate) key: Key,
    pub(crate) summary: AskSummary,
    /// Reply channel to the waiting node; `None` if the node has not run since the run was resumed.
    #[serde(skip)]
    pub(crate) reply: Option<oneshot::Sender<Value>>,
    /// It is about the node's effect, which may have happened.
    pub(crate) unknown_effect: bool,
    pub(crate) span: u64,
    pub(crate) attempt: u32,
}

/// Open questions, answers and counts.
#[derive(Default)]
pub(crate) struct Asks {
    open: Vec<OpenAsk>,
    /// Answers that came while no node waited for them.
    answers: HashMap<String, Value>,
    /// Questions that a node has put since it started.
    asked: NumberMap<Key, u32>,
    /// Only questions were left, and the run has said so.
    was_waiting: bool,
}

/// Questions as a checkpoint has them.
#[derive(Serialize, Deserialize)]
pub(crate) struct SavedAsks {
    was_waiting: bool,
    asks: Vec<OpenAsk>,
    answers: HashMap<String, Value>,
    asked: Vec<(Key, u32)>,
}

impl Asks {
    /// Takes answers that were persisted.
    pub(crate) fn add_answers(&mut self, answers: HashMap<String, Value>) {
        self.answers.extend(answers);
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.open.is_empty()
    }

    /// Returns `true` if a node has an open question.
    pub(crate) fn has_asked(&self, key: Key) -> bool {
        self.open.iter().any(|ask| ask.key == key)
    }

    pub(crate) fn summaries(&self) -> Vec<AskSummary> {
        self.open.iter().map(|ask| ask.summary.clone()).collect()
    }

    pub(crate) fn open(&self) -> &[OpenAsk] {
        &self.open
    }

    /// The open question of an id, with its place.
    pub(crate) fn find(&mut self, ask: &str) -> Option<(usize, &mut OpenAsk)> {
        self.open.iter_mut().enumerate().find(|(_, open)| *open.summary.ask == *ask)
    }

    pub(crate) fn push(&mut self, ask: OpenAsk) {
        self.open.push(ask);
    }

    pub(crate) fn remove(&mut self, at: usize) -> OpenAsk {
        self.open.remove(at)
    }

    /// The id of a node's next question: its path, with a number unless it is its only one so far.
    pub(crate) fn next_id(&mut self, key: Key, path: &Arc<str>, several: bool) -> Arc<str> {
        let number = self.asked.entry(key).or_default();
        let first = *number == 0 && !several;
        let ask = if first { Arc::clone(path) } else { format!("{path}#{number}").into() };
        *number += 1;
        ask
    }

    /// Counts a recorded question.
    pub(crate) fn count(&mut self, key: Key) {
        *self.asked.entry(key).or_default() += 1;
    }

    pub(crate) fn forget_count(&mut self, key: Key) {
        self.asked.remove(&key);
    }

    /// Closes the open questions of a node.
    pub(crate) fn close(&mut self, key: Key) {
        self.open.retain(|ask| ask.key != key);
    }

    /// Keeps an answer until its node asks again.
    pub(crate) fn keep_answer(&mut self, ask: &str, value: Value) {
        self.answers.insert(ask.to_owned(), value);
    }

    pub(crate) fn take_answer(&mut self, ask: &str) -> Option<Value> {
        self.answers.remove(ask)
    }

    /// Closes the questions of a node whose answers have arrived; `false` if none has.
    pub(crate) fn close_answered(&mut self, key: Key) -> bool {
        let before = self.open.len();
        let answers = &self.answers;
        self.open.retain(|ask| ask.key != key || !answers.contains_key(&*ask.summary.ask));
        self.open.len() < before
    }

    /// Notes whether only questions are left; returns what was noted before.
    pub(crate) fn set_waiting(&mut self, waiting: bool) -> bool {
        std::mem::replace(&mut self.was_waiting, waiting)
    }

    pub(crate) fn to_saved(&self) -> SavedAsks {
        let open = self.open.iter().map(|ask| OpenAsk { summary: ask.summary.clone(), reply: None, ..*ask });
        SavedAsks {
            was_waiting: self.was_waiting,
            asks: open.collect(),
            answers: self.answers.clone(),
            asked: self.asked.iter().map(|(key, number)| (*key, *number)).collect(),
        }
    }

    /// Takes the questions that a checkpoint has; answers that are there already stay.
    pub(crate) fn restore(&mut self, saved: SavedAsks) {
        self.was_waiting = saved.was_waiting;
        self.open = saved.asks;
        self.answers.extend(saved.answers);
        self.asked = saved.asked.into_iter().collect();
    }
}

/// Subject of a question about a call.
#[derive(Default)]
pub(crate) struct AskedCall {
    pub(crate) kind: AskKind,
    pub(crate) tool: Option<ToolId>,
    pub(crate) arguments: Option<Arc<Map<String, Value>>>,
    pub(crate) definition: DefinitionDigests,
}

/// Returns the replay data of a question, beyond its event.
pub(crate) fn record_of(ask: &AskSummary) -> Option<Box<ReplayData>> {
    let tool = ask.tool.as_ref()?;
    let text = |text: &str| Arc::new(Value::from(text));
    let mut values = vec![(Arc::from(TOOL), text(tool.as_str())), (Arc::from(KIND), text(ask.kind.as_str()))];
    values.extend(
        ask.arguments
            .as_deref()
            .map(|arguments| (Arc::from(ARGUMENTS), Arc::new(Value::Object(arguments.clone())))),
    );
    if !ask.definition.is_empty() {
        let definition = serde_json::to_value(&ask.definition).unwrap_or_default();
        values.push((Arc::from(DEFINITION), Arc::new(definition)));
    }
    Some(Box::new(ReplayData::from_values(values)))
}

/// The same, read.
pub(crate) fn call_of(record: Option<&ReplayData>) -> Option<AskedCall> {
    let value = |name: &str| {
        let found = record?.values.iter().find(|(own, _)| **own == *name);
        found.map(|(_, value)| &**value)
    };
    let tool = value(TOOL)?.as_str()?.parse().ok()?;
    let kind = value(KIND).and_then(|kind| AskKind::deserialize(kind).ok()).unwrap_or(AskKind::Approval);
    let arguments = value(ARGUMENTS).and_then(Value::as_object).cloned().unwrap_or_default();
    let definition = value(DEFINITION).and_then(|value| DefinitionDigests::deserialize(value).ok());
    let (arguments, definition) = (Some(Arc::new(arguments)), definition.unwrap_or_default());
    Some(AskedCall { kind, tool: Some(tool), arguments, definition })
}
