//! Questions of nodes to the user, and answers that are not taken yet.

use std::collections::HashMap;
use std::sync::Arc;

use agent_types::{AskKind, AskSummary, DefinitionDigests, ReplayData, ToolId};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use tokio::sync::oneshot;

use super::graph_state::frame::Key;
use super::workers::mailbox::Question;

/// Names of the values that are kept with a question.
const NAME: &str = "name";
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
    /// Questions that were put, by the path of their node.
    asked: HashMap<Arc<str>, Asked>,
    /// Only questions were left, and the run has said so.
    was_waiting: bool,
}

/// Questions that the node of a path has put. An id is given out once in a run, whatever is retried or resumed, so that
/// no answer counts for a later question.
#[derive(Clone, Default, Serialize, Deserialize)]
struct Asked {
    /// Questions of all attempts.
    count: u32,
    /// The path alone is the id of the question what became of its effect.
    is_outcome: bool,
    /// Questions of the attempt that runs, in their order, by name where they have one.
    attempt: Vec<(Option<Arc<str>>, Arc<str>)>,
    /// The calls that recorded questions without names are about, and the texts of those that are about none.
    #[serde(skip)]
    calls: HashMap<Arc<str>, (Option<AskedCall>, Option<String>)>,
    /// Questions without a name that the attempt has put since the node resumed.
    #[serde(skip)]
    repeated: usize,
}

impl Asked {
    /// The question of the attempt with the name of this one, or the next one without a name.
    fn known(&mut self, question: &Question) -> Option<Arc<str>> {
        let name = question.name.as_ref();
        if name.is_some()
            && let Some((_, ask)) = self.attempt.iter().find(|(own, _)| own.as_ref() == name)
        {
            return Some(Arc::clone(ask));
        }
        let mut unnamed = self.attempt.iter_mut().filter(|(own, _)| own.is_none());
        let Some(name) = name else {
            let next = unnamed.nth(self.repeated);
            self.repeated += 1;
            return next.map(|(_, ask)| Arc::clone(ask));
        };
        // Earlier versions recorded no names: the next question about the same has its name from now on.
        let calls = &self.calls;
        let (own, ask) = unnamed.find(|(_, ask)| {
            calls.get(ask).is_none_or(|(call, prompt)| match call {
                Some(call) => call.tool == question.tool && call.arguments == question.arguments,
                None => prompt.as_ref().is_none_or(|prompt| *prompt == question.prompt),
            })
        })?;
        *own = Some(Arc::clone(name));
        Some(Arc::clone(ask))
    }

    fn add(&mut self, name: Option<Arc<str>>, ask: Arc<str>) {
        self.count += 1;
        self.attempt.push((name, ask));
    }
}

/// Questions as a checkpoint has them.
#[derive(Serialize, Deserialize)]
pub(crate) struct SavedAsks {
    was_waiting: bool,
    asks: Vec<OpenAsk>,
    answers: HashMap<String, Value>,
    #[serde(default)]
    asked_at: HashMap<Arc<str>, Asked>,
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

    /// The id of a question that a node puts: the one that it had in this attempt before the run resumed, or a new one,
    /// which is the node's path, with a number unless it is its only one so far.
    pub(crate) fn identify(&mut self, path: &Arc<str>, question: &Question, several: bool) -> Arc<str> {
        let asked = self.asked.entry(Arc::clone(path)).or_default();
        if let Some(known) = asked.known(question) {
            return known;
        }
        let is_first = asked.count == 0 && !asked.is_outcome && !several;
        let ask = if is_first { Arc::clone(path) } else { format!("{path}#{}", asked.count).into() };
        asked.add(question.name.clone(), Arc::clone(&ask));
        ask
    }

    /// Notes a recorded question.
    pub(crate) fn note(
        &mut self,
        path: &Arc<str>,
        record: Option<&ReplayData>,
        (ask, prompt): (&Arc<str>, Option<&str>),
    ) {
        let asked = self.asked.entry(Arc::clone(path)).or_default();
        let name = name_of(record);
        if name.is_none() {
            asked.calls.insert(Arc::clone(ask), (call_of(record), prompt.map(str::to_owned)));
        }
        if asked.attempt.iter().all(|(_, known)| known != ask) {
            asked.add(name, Arc::clone(ask));
        }
    }

    /// Notes a question about the outcome of a node's effect.
    pub(crate) fn note_outcome(&mut self, path: &Arc<str>, ask: &Arc<str>) {
        if ask == path {
            self.asked.entry(Arc::clone(path)).or_default().is_outcome = true;
        }
    }

    /// Returns `true` if the node of a path has put a question itself.
    pub(crate) fn has_put(&self, path: &str) -> bool {
        self.asked.get(path).is_some_and(|asked| asked.count > 0)
    }

    /// An attempt of a node begins: its questions are new ones.
    pub(crate) fn begin_attempt(&mut self, path: &str) {
        if let Some(asked) = self.asked.get_mut(path) {
            asked.attempt.clear();
            asked.repeated = 0;
        }
    }

    /// Returns `true` if no node has put a question.
    pub(crate) fn is_unused(&self) -> bool {
        self.asked.is_empty()
    }

    /// A node resumes: the questions of its attempt are those that it has put already.
    pub(crate) fn repeat_attempt(&mut self, path: &str) {
        if let Some(asked) = self.asked.get_mut(path) {
            asked.repeated = 0;
        }
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
            asked_at: self.asked.clone(),
        }
    }

    /// Takes the questions that a checkpoint has; answers that are there already stay.
    pub(crate) fn restore(&mut self, saved: SavedAsks) {
        self.was_waiting = saved.was_waiting;
        self.open = saved.asks;
        self.answers.extend(saved.answers);
        self.asked = saved.asked_at;
    }
}

/// Subject of a question about a call.
#[derive(Clone, Default)]
pub(crate) struct AskedCall {
    pub(crate) kind: AskKind,
    pub(crate) tool: Option<ToolId>,
    pub(crate) arguments: Option<Arc<Map<String, Value>>>,
    pub(crate) definition: DefinitionDigests,
}

/// Returns the replay data of a question, beyond its event.
pub(crate) fn record_of(ask: &AskSummary, name: Option<Arc<str>>) -> Option<Box<ReplayData>> {
    let text = |text: &str| Arc::new(Value::from(text));
    let mut values = Vec::new();
    values.extend(name.map(|name| (Arc::from(NAME), text(&name))));
    if let Some(tool) = &ask.tool {
        values.push((Arc::from(TOOL), text(tool.as_str())));
        values.push((Arc::from(KIND), text(ask.kind.as_str())));
        let arguments = ask.arguments.as_deref().cloned();
        values.extend(arguments.map(|map| (Arc::from(ARGUMENTS), Arc::new(Value::Object(map)))));
        if !ask.definition.is_empty() {
            let definition = serde_json::to_value(&ask.definition).unwrap_or_default();
            values.push((Arc::from(DEFINITION), Arc::new(definition)));
        }
    }
    (!values.is_empty()).then(|| Box::new(ReplayData::from_values(values)))
}

/// The name of a recorded question among those of its node.
fn name_of(record: Option<&ReplayData>) -> Option<Arc<str>> {
    value_of(record, NAME)?.as_str().map(Arc::from)
}

fn value_of<'r>(record: Option<&'r ReplayData>, name: &str) -> Option<&'r Value> {
    let found = record?.values.iter().find(|(own, _)| **own == *name);
    found.map(|(_, value)| &**value)
}

/// The call of a recorded question.
pub(crate) fn call_of(record: Option<&ReplayData>) -> Option<AskedCall> {
    let value = |name: &str| value_of(record, name);
    let tool = value(TOOL)?.as_str()?.parse().ok()?;
    let kind = value(KIND).and_then(|kind| AskKind::deserialize(kind).ok()).unwrap_or(AskKind::Approval);
    let arguments = value(ARGUMENTS).and_then(Value::as_object).cloned().unwrap_or_default();
    let definition = value(DEFINITION).and_then(|value| DefinitionDigests::deserialize(value).ok());
    let (arguments, definition) = (Some(Arc::new(arguments)), definition.unwrap_or_default());
    Some(AskedCall { kind, tool: Some(tool), arguments, definition })
}
