//! Context of a running node.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use agent_types::{
    Budget, Clock, Durable, EventBody, EventLocation, EventPersister, EventSink, KeepError, RunId, Sleep,
    StoredEvent, UnsequencedEvent, Usage,
};
use serde_json::{Map, Value};
use tokio_util::sync::CancellationToken;
use workflow_model::AvailableTools;

use crate::error::NodeError;
use crate::inputs::{Given, Inputs};
use crate::plan::data::{Details, NONE};
use crate::run::graph_state::frame::Key;
use crate::run::shared::RunShared;
use crate::run::workers::mailbox::{Message, OpenStream, Question};
use crate::stream::StreamItem;

/// Signs of life of one attempt, for its idle limit.
#[derive(Debug, Default)]
pub(crate) struct Activity {
    last_ms: AtomicU64,
}

impl Activity {
    pub(crate) fn note(&self, clock: &dyn Clock) {
        self.last_ms.store(millis(clock.elapsed()), Ordering::Relaxed);
    }

    pub(crate) fn last_ms(&self) -> u64 {
        self.last_ms.load(Ordering::Relaxed)
    }
}

pub(crate) fn millis(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}

/// The surroundings of one attempt of a node.
#[derive(Clone)]
pub struct NodeContext {
    shared: Arc<RunShared>,
    key: Key,
    details: u32,
    path: Arc<str>,
    iteration: Option<u64>,
    attempt: u32,
    span: u64,
    parent_span: u64,
    streams: Option<Arc<[OpenStream]>>,
    activity: Option<Arc<Activity>>,
    /// A token of its own, where cancelling is not dropping.
    cancel: Option<CancellationToken>,
    /// Events that the node emitted through its sink before the process ended.
    past: Option<Arc<[StoredEvent]>>,
    /// It asked before the process ended, and resumes.
    asked: bool,
}

impl fmt::Debug for NodeContext {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("NodeContext")
            .field("path", &self.path)
            .field("iteration", &self.iteration)
            .field("attempt", &self.attempt)
            .finish_non_exhaustive()
    }
}

/// Construction and use by the run.
impl NodeContext {
    /// The context of a start, with the location of its events.
    pub(crate) fn new(shared: &Arc<RunShared>, key: Key, details: u32, place: &EventLocation) -> Self {
        Self {
            shared: Arc::clone(shared),
            key,
            details,
            path: place.path.clone().unwrap_or_default(),
            iteration: place.iteration,
            attempt: place.attempt.unwrap_or(1),
            span: place.span,
            parent_span: place.parent.unwrap_or(0),
            streams: None,
            activity: None,
            cancel: None,
            past: None,
            asked: false,
        }
    }

    /// The same with stream outputs, and with what a node that resumes left behind.
    pub(crate) fn with(
        self,
        streams: Option<Arc<[OpenStream]>>,
        past: Option<Arc<[StoredEvent]>>,
        asked: bool,
    ) -> Self {
        Self { streams, past, asked, ..self }
    }

    /// The same for an attempt with signs of life and a token of its own.
    pub(crate) fn for_attempt(
        &self,
        attempt: u32,
        activity: Arc<Activity>,
        cancel: CancellationToken,
    ) -> Self {
        Self { attempt, activity: Some(activity), cancel: Some(cancel), ..self.clone() }
    }

    pub(crate) fn shared(&self) -> &Arc<RunShared> {
        &self.shared
    }

    pub(crate) fn key(&self) -> Key {
        self.key
    }

    /// Index of the node's details in the plan.
    pub(crate) fn details_index(&self) -> u32 {
        self.details
    }
}

impl NodeContext {
    /// The run.
    #[must_use]
    pub fn run_id(&self) -> &RunId {
        self.shared.sink.run()
    }

    /// Path of the node, as in `loop[3]/a`.
    #[must_use]
    pub fn path(&self) -> &Arc<str> {
        &self.path
    }

    /// The innermost pass, from 0.
    #[must_use]
    pub fn iteration(&self) -> Option<u64> {
        self.iteration
    }

    /// The attempt, from 1.
    #[must_use]
    pub fn attempt(&self) -> u32 {
        self.attempt
    }

    /// The same for every attempt of this start, also after a crash: services that take one do an effect once.
    #[must_use]
    pub fn idempotency_key(&self) -> String {
        format!("{}/{}", self.run_id(), self.path)
    }

    fn details(&self) -> Option<&Details> {
        (self.details != NONE).then(|| &self.shared.plan.details[self.details as usize])
    }

    /// A setting; none where it is absent or null.
    #[must_use]
    pub fn config(&self, key: &str) -> Option<&Value> {
        self.details()?.config.get(key).filter(|value| !value.is_null())
    }

    /// All settings.
    #[must_use]
    pub fn config_map(&self) -> Option<&Map<String, Value>> {
        self.details().map(|details| &details.config)
    }

    /// Returns the value that [`Node::prepare`](crate::Node::prepare) made of the settings.
    #[must_use]
    pub fn prepared<T: 'static>(&self) -> Option<&T> {
        self.details()?.prepared.get()
    }

    /// The variables of the workflow, an object.
    #[must_use]
    pub fn variables(&self) -> &Arc<Value> {
        &self.shared.plan.variables
    }

    /// Returns the id of the workflow, if the caller has set one. Of nested workflows it is the outermost.
    #[must_use]
    pub fn workflow_id(&self) -> Option<&str> {
        self.shared.workflow.as_deref()
    }

    /// The tools that the workflow allows its nodes; none where the file does not say.
    #[must_use]
    pub fn available_tools(&self) -> Option<&AvailableTools> {
        self.shared.plan.available_tools.as_ref()
    }

    /// A service by its type.
    #[must_use]
    pub fn service<T: ?Sized + Send + Sync + 'static>(&self) -> Option<Arc<T>> {
        self.shared.services.get()
    }

    /// A service by its type.
    ///
    /// # Errors
    /// It is not provided.
    pub fn required_service<T: ?Sized + Send + Sync + 'static>(&self) -> Result<Arc<T>, NodeError> {
        self.service().ok_or_else(|| {
            NodeError::fatal(format!("this run has no `{}`", std::any::type_name::<T>()))
                .with_code("no_service")
        })
    }

    /// Returns the clock of the run.
    #[must_use]
    pub fn clock(&self) -> &Arc<dyn Clock> {
        &self.shared.clock
    }

    /// Waits.
    ///
    /// # Cancel safety
    /// Nothing is left behind when the future is dropped.
    pub fn sleep(&self, duration: Duration) -> Sleep {
        self.shared.clock.sleep(duration)
    }

    /// The limits shared with whatever started this run.
    #[must_use]
    pub fn budget(&self) -> Option<&Budget> {
        self.shared.budget.as_ref()
    }

    /// Is cancelled when the node is. Async nodes are dropped then and need not look; blocking ones should.
    #[must_use]
    pub fn cancel_token(&self) -> &CancellationToken {
        self.cancel.as_ref().unwrap_or(&self.shared.cancel)
    }

    /// The place of events of this attempt.
    #[must_use]
    pub fn place(&self) -> EventLocation {
        EventLocation {
            path: Some(Arc::clone(&self.path)),
            iteration: self.iteration,
            attempt: Some(self.attempt),
            span: self.span,
            parent: Some(self.parent_span),
            ..EventLocation::default()
        }
    }

    /// Puts an event into the order of the run. Never waits.
    pub fn emit(&self, body: EventBody) {
        self.heartbeat();
        self.shared.inbox.post(Message::Event(UnsequencedEvent::new(self.place(), body)));
    }

    /// Says how far the work is.
    pub fn progress(&self, message: impl Into<String>, value: Option<f64>, max: Option<f64>) {
        self.emit(EventBody::NodeProgress { message: Some(message.into()), value, max });
    }

    /// Says that the node is alive, which its idle limit asks for.
    pub fn heartbeat(&self) {
        if let Some(activity) = &self.activity {
            activity.note(&*self.shared.clock);
        }
    }

    /// Counts what a model read and wrote, in the outcome and in the budget.
    pub fn add_usage(&self, usage: Usage) {
        self.shared.inbox.post(Message::Usage(self.key, usage));
    }

    /// Returns `true` if the type declares a stream output of that name.
    #[must_use]
    pub fn has_stream(&self, slot: &str) -> bool {
        self.streams.as_deref().unwrap_or_default().iter().any(|open| &*open.name == slot)
    }

    /// Writes a piece of a stream output; waits while its readers are behind.
    ///
    /// # Errors
    /// The type declares no such stream.
    pub async fn chunk(&self, slot: &str, text: impl Into<Arc<str>>) -> Result<(), NodeError> {
        self.write(slot, StreamItem::Chunk(text.into())).await
    }

    /// Writes something beside the text of a stream output, such as why a model stopped.
    ///
    /// # Errors
    /// The type declares no such stream.
    pub async fn mark(&self, slot: &str, what: impl Into<Arc<str>>) -> Result<(), NodeError> {
        self.write(slot, StreamItem::Mark(what.into())).await
    }

    async fn write(&self, slot: &str, item: StreamItem) -> Result<(), NodeError> {
        let streams = self.streams.as_deref().unwrap_or_default();
        let open = streams
            .iter()
            .find(|open| &*open.name == slot)
            .ok_or_else(|| NodeError::fatal(format!("`{slot}` is not a stream output of this node")))?;
        self.heartbeat();
        if open.stream.push(self.attempt, item).await {
            self.shared.inbox.post(Message::Chunks(open.clone()));
        }
        self.heartbeat();
        Ok(())
    }

    /// The value of a lazy input: its source runs now if it has not. None if its source is skipped.
    ///
    /// # Errors
    /// The value does not fit the types that it passes.
    pub async fn pull(&self, inputs: &Inputs, slot: &str) -> Result<Option<Arc<Value>>, NodeError> {
        if !matches!(inputs.given(slot), Some(Given::Lazy)) {
            return Ok(inputs.get(slot).cloned());
        }
        let (reply, answer) = tokio::sync::oneshot::channel();
        self.shared.inbox.post(Message::Pull { key: self.key, slot: slot.into(), reply });
        // Without an answer the node is dropped.
        let pulled = answer.await.unwrap_or(Ok(None));
        pulled.map_err(|fault| NodeError::fatal(format!("the input `{slot}` {fault}")))
    }

    /// Asks a person and waits for the answer.
    ///
    /// # Errors
    /// The run ends before the question is answered.
    pub async fn ask(&self, prompt: impl Into<String>) -> Result<Value, NodeError> {
        let answers = self.ask_all([Question::new(prompt)]).await?;
        Ok(answers.into_iter().next().unwrap_or_default())
    }

    /// Asks several questions at once and waits for all answers, in the order of the questions.
    ///
    /// # Errors
    /// The run ends before the question is answered.
    pub async fn ask_all<Q: Into<Question>>(
        &self,
        asked: impl IntoIterator<Item = Q>,
    ) -> Result<Vec<Value>, NodeError> {
        let (mut questions, mut answers) = (Vec::new(), Vec::new());
        for question in asked {
            let (reply, answer) = tokio::sync::oneshot::channel();
            questions.push((question.into(), reply));
            answers.push(answer);
        }
        self.shared.inbox.post(Message::Ask { key: self.key, place: self.place(), questions });
        let mut values = Vec::with_capacity(answers.len());
        for answer in answers {
            values.push(
                answer
                    .await
                    .map_err(|_| NodeError::fatal("the run ended before the question was answered"))?,
            );
        }
        Ok(values)
    }

    /// Cancels another node of the same workflow or body by its id. True if it was not settled yet.
    pub async fn cancel_node(&self, id: &str) -> bool {
        let (reply, done) = tokio::sync::oneshot::channel();
        self.shared.inbox.post(Message::CancelNode { key: self.key, id: id.into(), reply });
        done.await.unwrap_or(false)
    }

    /// A sink that puts events of something this node runs into the order of the run.
    ///
    /// Work that was started there and is open when the node ends is ended then; later events are dropped.
    /// Where the run is kept, records that come with events are kept too, and [`past`](Self::past) gives them back.
    #[must_use]
    pub fn sink(&self) -> Arc<dyn EventSink> {
        Arc::new(InboxSink { shared: Arc::clone(&self.shared), key: self.key })
    }

    /// Returns `true` if this start of the node asked a question before the process ended, and now resumes
    /// with the answer.
    #[must_use]
    pub fn has_asked(&self) -> bool {
        self.asked
    }

    /// Returns the events that this start of the node emitted through its [`sink`](Self::sink) before the
    /// process ended, in order. An idempotent node reads them to avoid repeating finished work.
    #[must_use]
    pub fn past(&self) -> &[StoredEvent] {
        self.past.as_deref().unwrap_or_default()
    }
}

/// Hands events to the run that owns the node.
#[derive(Debug)]
struct InboxSink {
    shared: Arc<RunShared>,
    key: Key,
}

impl EventSink for InboxSink {
    fn record(&self, drafts: &mut Vec<UnsequencedEvent>) {
        for draft in drafts.drain(..) {
            self.shared.inbox.post(Message::Inner(self.key, draft));
        }
    }

    fn new_span(&self) -> u64 {
        self.shared.sink.new_span()
    }

    fn run(&self) -> &RunId {
        self.shared.sink.run()
    }

    fn persister(&self) -> Option<&dyn EventPersister> {
        self.shared.sink.persister().map(|_| self as &dyn EventPersister)
    }
}

/// Keeps through the run that owns the node.
impl EventPersister for InboxSink {
    fn durable(&self) -> Durable {
        let shared = Arc::clone(&self.shared);
        let (written, done) = tokio::sync::oneshot::channel();
        shared.inbox.post(Message::Flush(written));
        Box::pin(async move {
            // Without an answer the run has ended, and writes its last events by itself.
            let _ = done.await;
            let durable = shared.sink.persister().map(EventPersister::durable);
            match durable {
                Some(durable) => durable.await,
                None => Ok(()),
            }
        })
    }

    fn is_behind(&self) -> bool {
        self.shared.sink.persister().is_some_and(EventPersister::is_behind)
    }

    fn fault(&self) -> Option<KeepError> {
        self.shared.sink.persister().and_then(EventPersister::fault)
    }

    fn snapshot(&self, _state: String) {
        // The state of the run that owns the node is what a resume begins with.
    }

    fn answered(&self, ask: &str, value: &Value) {
        if let Some(persister) = self.shared.sink.persister() {
            persister.answered(ask, value);
        }
    }
}
