//! Handling of the messages of running nodes, in the order of the run.

use std::sync::Arc;
use std::time::Duration;

use agent_types::{AskKind, AskSummary, BudgetKey, EventBody, EventLocation, ReplayData, ToolId, Usage};
use serde::Deserialize;
use serde_json::{Map, Value};
use tokio::sync::oneshot;

use crate::plan::PlanInner;
use crate::run::graph_state::frame::Key;
use crate::run::options::OnWaiting;
use crate::run::scheduler::{OpenAsk, Scheduler};
use crate::run::workers::message::{Message, OpenStream, Question};
use crate::stream::StreamItem;

/// Names of the values that are kept with a question about a call.
const TOOL: &str = "tool";
const KIND: &str = "kind";
const ARGUMENTS: &str = "arguments";

impl Scheduler {
    pub(in crate::run) fn read_messages(&mut self, plan: &PlanInner) {
        for message in self.shared.inbox.take() {
            self.read_message(plan, message);
        }
    }

    fn read_message(&mut self, plan: &PlanInner, message: Message) {
        match message {
            Message::Event(draft) => self.emit(draft.place, draft.body),
            Message::Inner(key, draft) => self.emit_inner(key, draft),
            Message::Flush(written) => {
                self.flush();
                // Without a receiver no node waits any more.
                let _ = written.send(());
            }
            Message::Usage(key, usage) => {
                self.count(usage);
                if self.keeps {
                    *self.used.entry(key).or_default() += usage;
                }
            }
            Message::Chunks(open) => self.see_chunks(&open),
            // Readers that end with the run make room too, for a pass that must not begin.
            Message::StreamReady(key) if self.ending.is_none() => self.advance_zone(plan, key),
            Message::StreamReady(_) => {}
            Message::Retrying { key, place, kind, message, delay, noted } => {
                if self.is_running(key) {
                    self.retrying(key, place, kind, message, delay);
                    // Without a receiver the node has been dropped already.
                    let _ = noted.send(());
                }
            }
            Message::Pull { key, slot, reply } => self.pull(plan, key, &slot, reply),
            Message::Ask { key, place, questions } => self.ask(key, &place, questions),
            Message::Answer { ask, value, known } => {
                let found = self.answer(plan, &ask, value);
                let _ = known.send(found);
            }
            Message::EndWhenWaiting => self.options.on_waiting = OnWaiting::End,
            Message::CancelNode { key, id, reply } => {
                let cancelled = self.cancel_by_id(plan, key, &id);
                let _ = reply.send(cancelled);
            }
            Message::Freed(claim) => self.limits.leave(claim),
        }
    }

    /// Counts what models read and wrote, here and in what started this run.
    pub(in crate::run) fn count(&mut self, usage: Usage) {
        self.usage += usage;
        if let Some(budget) = &self.options.budget {
            budget.add(BudgetKey::Tokens, usage.total);
        }
    }

    /// Adds the usage of a node to the replay data of its end.
    pub(in crate::run) fn with_usage(
        &mut self,
        key: Key,
        record: Option<Box<ReplayData>>,
    ) -> Option<Box<ReplayData>> {
        if self.used.is_empty() {
            return record;
        }
        let Some(usage) = self.used.remove(&key) else { return record };
        let mut record = record.unwrap_or_default();
        record.usage = Some(usage);
        Some(record)
    }

    /// New chunks become events; from then on nodes may read them.
    pub(in crate::run) fn see_chunks(&mut self, open: &OpenStream) {
        if !self.is_running(open.key) {
            return;
        }
        let mut seen = Vec::new();
        open.stream.see(&mut seen);
        for (attempt, item) in seen {
            let StreamItem::Chunk(text) = item else { continue };
            let place = EventLocation { attempt: Some(attempt), ..open.place.clone() };
            self.emit(place, EventBody::NodeChunk { slot: Arc::clone(&open.name), text });
        }
    }

    fn retrying(
        &mut self,
        key: Key,
        place: EventLocation,
        kind: agent_types::NodeErrorKind,
        message: String,
        delay: Duration,
    ) {
        if let Some(active) = self.active.get_mut(&key) {
            active.attempt = place.attempt.unwrap_or(1) + 1;
        }
        let streams = self.active.get(&key).and_then(|active| active.streams.clone());
        for open in streams.iter().flat_map(|streams| streams.iter()) {
            self.see_chunks(open);
        }
        if let Some(path) = &place.path {
            self.close_inner(key, path);
        }
        let delay_ms = crate::context::millis(delay);
        self.emit(place, EventBody::NodeRetrying { kind, message, delay_ms });
        for open in streams.iter().flat_map(|streams| streams.iter()) {
            open.stream.retract();
        }
    }

    fn ask(&mut self, key: Key, place: &EventLocation, questions: Vec<(Question, oneshot::Sender<Value>)>) {
        let Some(path) = place.path.clone().filter(|_| self.is_running(key)) else { return };
        let several = questions.len() > 1;
        let mut open = false;
        for (question, reply) in questions {
            let number = self.asked.entry(key).or_default();
            let first = *number == 0 && !several;
            let ask: Arc<str> = if first { Arc::clone(&path) } else { format!("{path}#{number}").into() };
            *number += 1;
            if let Some(value) = self.answers.remove(&*ask) {
                // Without a receiver the node has been dropped already.
                let _ = reply.send(value);
                continue;
            }
            open = true;
            if let Some(known) = self.asks.iter_mut().find(|known| known.summary.ask == ask) {
                known.reply = Some(reply);
                continue;
            }
            let summary = AskSummary {
                ask: Arc::clone(&ask),
                kind: question.kind,
                tool: question.tool,
                arguments: question.arguments,
                path: Some(Arc::clone(&path)),
                prompt: Some(question.prompt.clone()),
            };
            let body = EventBody::NodeWaiting { ask, prompt: Some(question.prompt), unknown_effect: None };
            self.emit_with(place.clone(), body, about(&summary));
            let (span, attempt) = (place.span, place.attempt.unwrap_or(1));
            self.asks.push(OpenAsk {
                key,
                summary,
                reply: Some(reply),
                unknown_effect: false,
                span,
                attempt,
            });
        }
        if open {
            self.pause(key);
        }
    }

    fn answer(&mut self, plan: &PlanInner, ask: &str, value: Value) -> bool {
        let Some(at) = self.asks.iter().position(|open| &*open.summary.ask == ask) else { return false };
        if !self.asks[at].summary.kind.takes(&value) {
            return false;
        }
        self.flush();
        if let Some(keeper) = self.shared.sink.keeper() {
            keeper.answered(ask, &value);
        }
        if std::mem::take(&mut self.was_waiting) && !self.options.nested {
            self.emit(EventLocation::default(), EventBody::RunResumed { cause: Some("answer".to_owned()) });
        }
        if self.asks[at].unknown_effect {
            return self.decide_effect(plan, at, &value);
        }
        let Some(reply) = self.asks[at].reply.take() else {
            let (key, span, attempt) = (self.asks[at].key, self.asks[at].span, self.asks[at].attempt);
            self.answers.insert(ask.to_owned(), value);
            if self.active.contains_key(&key) || self.is_queued(key) {
                // It is about to ask again, and finds the answer.
                self.asks.remove(at);
            } else {
                self.wake_if_answered(key, span, attempt);
            }
            return true;
        };
        let open = self.asks.remove(at);
        if !self.asks.iter().any(|other| other.key == open.key) {
            self.resume(open.key);
        }
        reply.send(value).is_ok()
    }

    /// A node that waits for something of this run gives its room to others.
    pub(in crate::run) fn pause(&mut self, key: Key) {
        if let Some(active) = self.active.get_mut(&key)
            && !std::mem::replace(&mut active.paused, true)
        {
            let claim = active.claim;
            self.limits.leave(claim);
        }
    }

    pub(in crate::run) fn resume(&mut self, key: Key) {
        if let Some(active) = self.active.get_mut(&key)
            && std::mem::replace(&mut active.paused, false)
        {
            let claim = active.claim;
            self.limits.take(claim);
        }
    }
}

/// Returns the replay data of a question, beyond its event.
fn about(ask: &AskSummary) -> Option<Box<ReplayData>> {
    let tool = ask.tool.as_ref()?;
    let text = |text: &str| Arc::new(Value::from(text));
    let mut values = vec![(Arc::from(TOOL), text(tool.as_str())), (Arc::from(KIND), text(ask.kind.as_str()))];
    values.extend(
        ask.arguments
            .as_deref()
            .map(|arguments| (Arc::from(ARGUMENTS), Arc::new(Value::Object(arguments.clone())))),
    );
    Some(Box::new(ReplayData::from_values(values)))
}

/// Subject of a question about a call: its kind, the tool and its arguments.
pub(in crate::run) type AskedCall = (AskKind, ToolId, Arc<Map<String, Value>>);

/// The same, read.
pub(in crate::run) fn call_of(record: Option<&ReplayData>) -> Option<AskedCall> {
    let value = |name: &str| {
        let found = record?.values.iter().find(|(own, _)| **own == *name);
        found.map(|(_, value)| &**value)
    };
    let tool = value(TOOL)?.as_str()?.parse().ok()?;
    let kind = value(KIND).and_then(|kind| AskKind::deserialize(kind).ok()).unwrap_or(AskKind::Approval);
    let arguments = value(ARGUMENTS).and_then(Value::as_object).cloned().unwrap_or_default();
    Some((kind, tool, Arc::new(arguments)))
}
