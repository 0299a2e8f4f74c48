//! Sink of a replayed run: each event must be one that the recording has.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::future::ready;
use std::sync::atomic::{AtomicU64, Ordering};

use agent_types::{
    Durable, EventBody, EventLocation, EventPersister, EventRole, EventSink, KeepError, Redactor, ResumeLog,
    RunId, RunStatus, TraceEvent, UnsequencedEvent,
};
use parking_lot::Mutex;
use serde_json::Value;
use tokio_util::sync::CancellationToken;

/// Members that differ from one process to the next.
const VOLATILE: [&str; 5] = ["ms", "digest", "messages", "delay_ms", "used"];

/// Kind of an end by the limit of an agent's time.
const TIME: &str = "wall_ms";

/// Difference between a recorded run and its replay.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ReplayDifference {
    /// Event and member that differ.
    pub at: String,
    /// Value of the recording.
    pub wanted: String,
    /// Value of the replay.
    pub got: String,
}

/// Sink of a replayed run. The first event that the recording lacks ends the run, before what it would begin.
#[derive(Debug)]
pub struct ReplaySink {
    run: RunId,
    spans: AtomicU64,
    redactor: Redactor,
    state: Mutex<State>,
    cancel: CancellationToken,
}

#[derive(Debug, Default)]
struct State {
    /// Recorded data by event.
    recorded: HashMap<String, Vec<Value>>,
    by_seq: HashMap<u64, TraceEvent>,
    /// Recorded ends that the replay has not emitted.
    ends: HashSet<String>,
    /// Recorded events of flows and system actions behind the agent, by number, that the replay has not come to.
    unused: BTreeMap<u64, String>,
    /// The recorded run has ended.
    has_end: bool,
    difference: Option<ReplayDifference>,
    /// Work would begin that the recording has no result of.
    is_halted: bool,
    /// A limit of time ended the run: what would follow is not known.
    is_timed: bool,
}

impl ReplaySink {
    /// A sink that compares events with those of a log, of which `end` is the last one.
    pub(crate) fn new(log: &ResumeLog, end: Option<&TraceEvent>, redactor: Redactor) -> Self {
        let run = log.events.first().map_or_else(RunId::generate, |first| first.event.run.clone());
        let mut state = State::default();
        let mut last_span = 0;
        for event in log.events.iter().map(|kept| &kept.event).chain(end) {
            last_span = last_span.max(event.place.span);
            let site = site_of(&event.place, &event.body);
            // A run that is resumed in its agent does not come to what was before it.
            if event.place.turn.is_some() {
                state.unused.clear();
            }
            if is_of_flow(event) {
                state.unused.insert(event.seq, site.clone());
            }
            state.recorded.entry(site).or_default().push(data_of(&event.body));
            state.by_seq.insert(event.seq, event.clone());
        }
        state.ends.extend(end.map(|end| site_of(&end.place, &end.body)));
        state.has_end = end.is_some();
        let is_cut = |end: &TraceEvent| {
            matches!(end.body, EventBody::RunFinished { status: RunStatus::Cancelled, .. })
        };
        if end.is_none_or(is_cut) {
            state.unused.clear();
        }
        state.is_timed = end.is_some_and(
            |end| matches!(&end.body, EventBody::RunFinished { kind: Some(kind), .. } if kind == TIME),
        );
        let spans = AtomicU64::new(last_span + 1);
        Self { run, spans, redactor, state: Mutex::new(state), cancel: CancellationToken::new() }
    }

    /// Cancelled when the replay has come to its end.
    pub(crate) fn cancel(&self) -> &CancellationToken {
        &self.cancel
    }

    /// The first difference between the recording and its replay, which has ended.
    pub(crate) fn difference(&self) -> Option<ReplayDifference> {
        let state = self.state.lock();
        let first = state.ends.iter().next().or_else(|| state.unused.values().next());
        let missing = first.filter(|_| !state.is_halted);
        let missing = missing.map(|site| ReplayDifference {
            at: site.clone(),
            wanted: "the event".into(),
            got: "nothing".into(),
        });
        state.difference.clone().or(missing)
    }

    /// Notes a difference; the first one counts.
    pub(crate) fn differs(&self, difference: ReplayDifference) {
        self.state.lock().difference.get_or_insert(difference);
        self.cancel.cancel();
    }

    /// Returns `true` if the replay has come to work whose result the recording does not have.
    pub(crate) fn is_halted(&self) -> bool {
        self.state.lock().is_halted
    }

    /// Data as the recording has it, with secrets masked.
    fn masked(&self, body: &EventBody) -> Value {
        let data = data_of(body);
        if !self.redactor.is_set() {
            return data;
        }
        serde_json::from_str(&self.redactor.mask(&data.to_string())).unwrap_or(data)
    }

    fn compare(&self, event: &UnsequencedEvent) {
        let UnsequencedEvent { place, body, .. } = event;
        if is_passed_over(body) {
            return;
        }
        let (site, data) = (site_of(place, body), self.masked(body));
        let mut state = self.state.lock();
        if state.is_halted || state.difference.is_some() {
            return;
        }
        let known = state.recorded.get(&site).cloned().unwrap_or_default();
        let is_known = known.contains(&data);
        if is_known {
            state.ends.remove(&site);
        }
        if state.is_timed && !is_known || is_known && begins_work(body) {
            state.is_halted = true;
            self.cancel.cancel();
        }
        drop(state);
        if !is_known && !self.is_halted() {
            self.differs(first_difference(&site, known.first(), &data));
        }
    }
}

impl EventSink for ReplaySink {
    fn record(&self, drafts: &mut Vec<UnsequencedEvent>) {
        drafts.drain(..).for_each(|draft| self.compare(&draft));
    }

    fn replayed(&self, event: &UnsequencedEvent, seq: u64) {
        if is_passed_over(&event.body) {
            return;
        }
        let mut state = self.state.lock();
        state.unused.remove(&seq);
        let recorded = state.by_seq.get(&seq).map(|recorded| data_of(&recorded.body));
        drop(state);
        let Some(recorded) = recorded else { return };
        let data = self.masked(&event.body);
        if recorded != data {
            self.differs(first_difference(&site_of(&event.place, &event.body), Some(&recorded), &data));
        }
    }

    fn new_span(&self) -> u64 {
        self.spans.fetch_add(1, Ordering::Relaxed)
    }

    fn run(&self) -> &RunId {
        &self.run
    }

    fn persister(&self) -> Option<&dyn EventPersister> {
        Some(self)
    }
}

impl EventPersister for ReplaySink {
    /// Work waits for this before it begins: a replay has come to its end where that is not the end of the run.
    fn durable(&self) -> Durable {
        let mut state = self.state.lock();
        if state.has_end && state.ends.is_empty() && state.difference.is_none() {
            return Box::pin(ready(Ok(())));
        }
        if state.difference.is_none() {
            state.is_halted = true;
        }
        self.cancel.cancel();
        let message = "the recording ends before this work".to_owned();
        Box::pin(ready(Err(KeepError { code: "replay_ended", message })))
    }

    fn is_behind(&self) -> bool {
        false
    }

    fn fault(&self) -> Option<KeepError> {
        None
    }

    fn snapshot(&self, _: String) {}

    fn answered(&self, _: &str, _: &Value) {}
}

/// Returns `true` for events that say nothing about what a run decides.
fn is_passed_over(body: &EventBody) -> bool {
    let is_piece = body.info().role == EventRole::Piece;
    let is_side = matches!(
        body,
        EventBody::RunQueued { .. }
            | EventBody::RunStarted { .. }
            | EventBody::RunResumed { .. }
            | EventBody::AgentThinking {}
            | EventBody::AgentWarning { .. }
            | EventBody::NodeProgress { .. }
            | EventBody::RegistryChanged { .. }
            | EventBody::LogLine { .. }
    );
    is_piece || is_side
}

/// Returns `true` for an event of a flow or system action of the run itself.
fn is_of_flow(event: &TraceEvent) -> bool {
    let EventLocation { path, call, depth, .. } = &event.place;
    let is_own = path.is_none() && call.is_none() && depth.is_none();
    is_own
        && matches!(
            event.body,
            EventBody::FlowMatched { .. }
                | EventBody::FlowFinished { .. }
                | EventBody::FlowFailed { .. }
                | EventBody::SystemAction { .. }
        )
}

/// Returns `true` for an event after which something outside of the run is asked or changed.
fn begins_work(body: &EventBody) -> bool {
    matches!(
        body,
        EventBody::AgentLlmStarted { .. }
            | EventBody::AgentToolStarted { .. }
            | EventBody::NodeStarted { .. }
    )
}

/// Name of an event within its run.
fn site_of(place: &EventLocation, body: &EventBody) -> String {
    let turn = place.turn.map(|turn| format!(" in turn {turn}"));
    let call = place.call.as_ref().map(|call| format!(" of call {call}"));
    let path = place.path.as_ref().map(|path| format!(" at {path}"));
    [turn, call, path].into_iter().flatten().fold(body.name().to_owned(), |site, part| site + &part)
}

/// The data of an event that a replay has too.
fn data_of(body: &EventBody) -> Value {
    let mut value = serde_json::to_value(body).unwrap_or_default();
    let mut data = value.get_mut("data").map(Value::take).unwrap_or_default();
    if let Some(members) = data.as_object_mut() {
        members.retain(|name, _| !VOLATILE.contains(&name.as_str()));
    }
    data
}

/// The first member that differs.
fn first_difference(site: &str, wanted: Option<&Value>, got: &Value) -> ReplayDifference {
    let shown = |value: Option<&Value>| value.map_or_else(|| "nothing".to_owned(), Value::to_string);
    let members = |value: &Value| value.as_object().cloned().unwrap_or_default();
    let (own, other) = (wanted.map(members).unwrap_or_default(), members(got));
    let names = own.keys().chain(other.keys());
    let name = names.into_iter().find(|name| own.get(*name) != other.get(*name)).filter(|_| wanted.is_some());
    match name {
        Some(name) => ReplayDifference {
            at: format!("{site}: {name}"),
            wanted: shown(own.get(name)),
            got: shown(other.get(name)),
        },
        None => ReplayDifference { at: site.to_owned(), wanted: shown(wanted), got: got.to_string() },
    }
}
