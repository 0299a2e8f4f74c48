//! Context of a turn, and the sink of its events.

use std::sync::Arc;

use agent_types::{
    EventBody, EventLocation, EventPersister, EventSink, ReplayData, ResumeLog, RunId, StoredEvent,
    UnsequencedEvent,
};
use parking_lot::Mutex;
use run_journal::Journal;
use serde::Deserialize;
use serde_json::Value;
use tokio_util::sync::CancellationToken;
use tool_registry::TaskBoard;

use crate::session::SessionState;

/// Name of the value that is recorded with the end of a flow or a system action.
const VALUE: &str = "value";
/// Names of the values that are recorded with the start of a run: the session before it, and the timer that began it.
const SESSION: &str = "session";
const TIMER: &str = "timer";

/// Data that a run of a session begins with beside its message.
#[derive(Debug, Clone, Default, PartialEq)]
#[non_exhaustive]
pub struct SessionStart {
    /// The session before the run.
    pub state: SessionState,
    /// The timer that began it.
    pub timer: Option<String>,
}

impl SessionStart {
    /// Reads what was recorded with the start of a run; logs of earlier versions have nothing.
    #[must_use]
    pub fn from_events(events: &[StoredEvent]) -> Option<Self> {
        let is_start = |kept: &&StoredEvent| matches!(kept.event.body, EventBody::RunStarted { .. });
        let record = events.iter().find(is_start)?.record.as_ref()?;
        let value = |wanted: &str| {
            let mut values = record.values.iter();
            values.find(|(name, _)| **name == *wanted).map(|(_, value)| &**value)
        };
        let state = SessionState::deserialize(value(SESSION)?).ok()?;
        Some(Self { state, timer: value(TIMER).and_then(Value::as_str).map(str::to_owned) })
    }

    pub(crate) fn record(state: &SessionState, timer: Option<&str>) -> ReplayData {
        let state = serde_json::to_value(state).unwrap_or_default();
        let mut values = vec![(Arc::from(SESSION), Arc::new(state))];
        values.extend(timer.map(|timer| (Arc::from(TIMER), Arc::new(timer.into()))));
        ReplayData::from_values(values)
    }
}

/// State of an interrupted or suspended run that is resumed.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Resume {
    /// Its recorded events.
    pub log: ResumeLog,
    /// Exchanges that the session had before it.
    pub before: usize,
}

/// Context of the turn that handles one message.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct TurnContext {
    /// Numbers and keeps them.
    pub sink: Arc<dyn EventSink>,
    /// State of the resumed run.
    pub resume: Option<Resume>,
    /// Ends the run when it is cancelled.
    pub cancel: CancellationToken,
    /// Tasks that calls of this run start and that outlive the calls. Running tasks end with the last copy.
    pub tasks: Arc<TaskBoard>,
    /// Set where the next message of the session can answer a question of a flow.
    pub is_answered: bool,
}

impl TurnContext {
    /// A context for a new run.
    #[must_use]
    pub fn new(sink: Arc<dyn EventSink>) -> Self {
        let (cancel, tasks) = (CancellationToken::new(), Arc::default());
        let is_answered = sink.persister().is_some();
        Self { sink, resume: None, cancel, tasks, is_answered }
    }

    /// Returns `true` if the run had reached the agent before it was interrupted.
    pub(crate) fn was_in_agent(&self) -> bool {
        let events = self.resume.iter().flat_map(|resume| &resume.log.events);
        events.map(|kept| &kept.event.body).any(|body| matches!(body, EventBody::AgentTurnStarted {}))
    }

    /// The same for a session that is gone with the run: a flow that asks a question there fails.
    #[must_use]
    pub const fn unanswered(mut self) -> Self {
        self.is_answered = false;
        self
    }

    /// The same for a resumed run.
    #[must_use]
    pub fn resuming(mut self, resume: Option<Resume>) -> Self {
        self.resume = resume.filter(|resume| !resume.log.events.is_empty());
        self
    }

    /// The same with the tasks that the resumed run had started.
    #[must_use]
    pub fn with_tasks(mut self, tasks: Arc<TaskBoard>) -> Self {
        self.tasks = tasks;
        self
    }

    /// Returns the first of the run's own recorded events that gives something.
    pub(crate) fn recorded<'c, T>(&'c self, read: impl Fn(&'c EventBody) -> Option<T>) -> Option<T> {
        self.recorded_all(read).next()
    }

    /// Everything that the run's own recorded events give.
    pub(crate) fn recorded_all<'c, T>(
        &'c self,
        read: impl Fn(&'c EventBody) -> Option<T>,
    ) -> impl Iterator<Item = T> {
        self.own_events().filter_map(move |kept| read(&kept.event.body))
    }

    /// Number of times that the run has waited for answers.
    pub(crate) fn waits(&self) -> usize {
        self.recorded_all(|body| matches!(body, EventBody::RunWaiting { .. }).then_some(())).count()
    }

    /// Returns the value that was recorded with an event: what a flow or a system action gave.
    pub(crate) fn recorded_value(&self, is_meant: impl Fn(&EventBody) -> bool) -> Option<Value> {
        let kept = self.own_events().find(|kept| is_meant(&kept.event.body))?;
        let values = &kept.record.as_ref()?.values;
        values.iter().find(|(name, _)| **name == *VALUE).map(|(_, value)| (**value).clone())
    }

    fn own_events(&self) -> impl Iterator<Item = &StoredEvent> {
        let events = self.resume.iter().flat_map(|resume| &resume.log.events);
        events.filter(|kept| {
            let EventLocation { path, call, depth, .. } = &kept.event.place;
            path.is_none() && call.is_none() && depth.is_none()
        })
    }

    /// The same, which ends when this is cancelled.
    #[must_use]
    pub fn with_cancel(mut self, cancel: CancellationToken) -> Self {
        self.cancel = cancel;
        self
    }
}

/// The sink of a run in which an agent is only a part: the run has begun before it, and ends after it.
#[derive(Debug)]
pub(crate) struct FlowEventSink {
    sink: Arc<dyn EventSink>,
    /// Recorded events of flows and actions, when the run resumes.
    journal: Mutex<Journal>,
    /// `true` if the run is new.
    is_new: bool,
    /// The end of the agent's run, until the whole run has ended.
    end: Mutex<Option<UnsequencedEvent>>,
}

impl FlowEventSink {
    pub(crate) fn new(cx: &TurnContext) -> Arc<Self> {
        let events = cx.resume.iter().flat_map(|resume| &resume.log.events);
        let journal = Mutex::new(Journal::new(events.filter(|kept| is_own(&kept.event.body))));
        let is_new = cx.resume.is_none();
        Arc::new(Self { sink: Arc::clone(&cx.sink), journal, is_new, end: Mutex::default() })
    }

    /// Emits the start of a run, or its resumption. Where an agent's run is resumed, its own log records the
    /// resumption.
    ///
    /// What the run begins with beside its message is recorded with its start.
    pub(crate) fn begin(&self, started: EventBody, by_agent: bool, with: impl FnOnce() -> ReplayData) {
        let (body, record) = match (self.is_new, by_agent) {
            (true, _) => (started, self.sink.persister().map(|_| Box::new(with()))),
            (false, false) => (EventBody::RunResumed { cause: Some("interrupted".into()) }, None),
            (false, true) => return,
        };
        self.sink.record(&mut vec![UnsequencedEvent { place: EventLocation::default(), body, record }]);
    }

    /// Emits an event unless it is recorded.
    pub(crate) fn emit(&self, body: EventBody) {
        self.emit_with(body, None);
    }

    /// Emits an event unless it is recorded; a value of the step that it ends is recorded with it.
    pub(crate) fn emit_with(&self, body: EventBody, value: Option<&Value>) {
        if self.is_recorded(&body) {
            return;
        }
        let value = value.filter(|_| self.sink.persister().is_some());
        let record = value.map(|value| {
            Box::new(ReplayData::from_values(vec![(Arc::from(VALUE), Arc::new(value.clone()))]))
        });
        self.sink.record(&mut vec![UnsequencedEvent { place: EventLocation::default(), body, record }]);
    }

    /// Returns `true` if the log has an event, which counts once.
    pub(crate) fn is_recorded(&self, body: &EventBody) -> bool {
        let recorded = self.journal.lock().take(&EventLocation::default(), body);
        // A reply that was sent stays as it was, and is not compared.
        if let Some(recorded) = &recorded
            && !matches!(body, EventBody::AgentMessage { .. })
        {
            let event = UnsequencedEvent::new(EventLocation::default(), body.clone());
            self.sink.replayed(&event, recorded.seq);
        }
        recorded.is_some()
    }

    /// Emits the end of the agent's run as that of the whole run; `false` if the agent did not run.
    pub(crate) fn finish(&self) -> bool {
        let end = self.end.lock().take();
        let ended = end.is_some();
        self.sink.record(&mut end.into_iter().collect());
        ended
    }
}

/// Returns `true` if flows and system actions emit this event.
pub(crate) fn is_own(body: &EventBody) -> bool {
    matches!(
        body,
        EventBody::FlowMatched { .. }
            | EventBody::FlowFinished { .. }
            | EventBody::FlowFailed { .. }
            | EventBody::SystemAction { .. }
            | EventBody::SystemHandedOff { .. }
            | EventBody::AgentMessage { .. }
    )
}

impl EventSink for FlowEventSink {
    fn record(&self, drafts: &mut Vec<UnsequencedEvent>) {
        let mut end = self.end.lock();
        let mut rest = Vec::with_capacity(drafts.len());
        for draft in drafts.drain(..) {
            match draft.body {
                EventBody::RunStarted { .. } => {}
                EventBody::RunFinished { .. } | EventBody::RunWaiting { .. } => *end = Some(draft),
                _ => rest.push(draft),
            }
        }
        drop(end);
        self.sink.record(&mut rest);
    }

    fn replayed(&self, event: &UnsequencedEvent, seq: u64) {
        self.sink.replayed(event, seq);
    }

    fn new_span(&self) -> u64 {
        self.sink.new_span()
    }

    fn run(&self) -> &RunId {
        self.sink.run()
    }

    fn persister(&self) -> Option<&dyn EventPersister> {
        self.sink.persister()
    }
}
