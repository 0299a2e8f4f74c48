//! Messages of running nodes to their run.

use std::mem;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use agent_types::{
    AskKind, DefinitionDigests, EventLocation, NodeErrorKind, ToolId, UnsequencedEvent, Usage,
};
use parking_lot::Mutex;
use serde_json::{Map, Value};
use tokio::sync::{Notify, oneshot};

use super::permits::Claim;
use crate::run::graph_state::Pulled;
use crate::run::graph_state::frame::Key;
use crate::stream::Stream;

/// A stream output of a running node.
#[derive(Debug, Clone)]
pub(crate) struct OpenStream {
    pub(crate) stream: Arc<Stream>,
    pub(crate) name: Arc<str>,
    pub(crate) key: Key,
    pub(crate) place: EventLocation,
}

/// Question to the user.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct Question {
    /// Name of the question among those of its node.
    pub name: Option<Arc<str>>,
    /// The question.
    pub prompt: String,
    /// Subject of the question.
    pub kind: AskKind,
    /// The tool whose call needs human approval.
    pub tool: Option<ToolId>,
    /// The arguments of that call.
    pub arguments: Option<Arc<Map<String, Value>>>,
    /// Digests of the parts of what the call would do.
    pub definition: DefinitionDigests,
}

impl Question {
    /// A question that any value answers.
    #[must_use]
    pub fn new(prompt: impl Into<String>) -> Self {
        let (prompt, definition) = (prompt.into(), DefinitionDigests::new());
        Self { name: None, prompt, kind: AskKind::Question, tool: None, arguments: None, definition }
    }

    /// The same with a name, under which a node that resumes without repeating its first questions finds its answer.
    /// Questions without names are known by their order.
    #[must_use]
    pub fn named(mut self, name: impl Into<Arc<str>>) -> Self {
        self.name = Some(name.into());
        self
    }

    /// The same about a call: whether it is approved, or what became of it.
    #[must_use]
    pub fn about(mut self, kind: AskKind, tool: ToolId, arguments: Arc<Map<String, Value>>) -> Self {
        self.kind = kind;
        self.tool = Some(tool);
        self.arguments = Some(arguments);
        self
    }

    /// The same about a call that would do this.
    #[must_use]
    pub fn defined(mut self, definition: DefinitionDigests) -> Self {
        self.definition = definition;
        self
    }
}

impl From<String> for Question {
    fn from(prompt: String) -> Self {
        Self::new(prompt)
    }
}

/// A message to the run.
#[derive(Debug)]
pub(crate) enum Message {
    Event(UnsequencedEvent),
    /// A fact of work inside a node.
    Inner(Key, UnsequencedEvent),
    /// Everything posted before is to be written.
    Flush(oneshot::Sender<()>),
    Usage(Key, Usage),
    /// A stream holds something new.
    Chunks(OpenStream),
    /// The stream of a zone has room for another pass.
    StreamReady(Key),
    /// An attempt failed; the next one begins when the run has taken note.
    Retrying {
        key: Key,
        place: EventLocation,
        kind: NodeErrorKind,
        message: String,
        delay: Duration,
        noted: oneshot::Sender<()>,
    },
    Pull {
        key: Key,
        slot: Arc<str>,
        reply: oneshot::Sender<Pulled>,
    },
    /// Questions put at once, each with the way back for its answer.
    Ask {
        key: Key,
        place: EventLocation,
        questions: Vec<(Question, oneshot::Sender<Value>)>,
    },
    Answer {
        ask: Arc<str>,
        value: Value,
        known: oneshot::Sender<bool>,
    },
    /// The run need not stay when only questions are left.
    EndWhenWaiting,
    CancelNode {
        key: Key,
        id: Arc<str>,
        reply: oneshot::Sender<bool>,
    },
    /// The permit of a blocking node is free: its threads are done and it starts no other.
    Freed(Claim),
}

/// Messages in the order in which they were posted.
///
/// It does not grow with the run: a stream posts once until it is read, questions wait for their answers.
#[derive(Debug, Default)]
pub(crate) struct Inbox {
    messages: Mutex<Vec<Message>>,
    filled: AtomicBool,
    notify: Notify,
}

impl Inbox {
    pub(crate) fn post(&self, message: Message) {
        self.messages.lock().push(message);
        self.filled.store(true, Ordering::Release);
        self.notify.notify_one();
    }

    /// Everything posted so far; cheap when there is nothing.
    pub(crate) fn take(&self) -> Vec<Message> {
        if !self.filled.load(Ordering::Acquire) {
            return Vec::new();
        }
        // What is posted from here on raises it again; what was posted before is taken below.
        self.filled.store(false, Ordering::Relaxed);
        mem::take(&mut *self.messages.lock())
    }

    /// Waits until something is posted.
    pub(crate) async fn filled(&self) {
        self.notify.notified().await;
    }
}
