//! Requests to models as the log of a run keeps them.
//!
//! The request of a turn is recorded with its `agent.llm.started`: the messages that the request before it in the same
//! window did not have, and tools and parameters where they changed. What requests share is thus kept once, and the store
//! makes blobs of long messages. A node of a workflow knows no request before its own and records it whole, and the
//! request for a summary is recorded with its `agent.compacted`. [`RequestReader`] puts a request together again.

use std::collections::{BTreeSet, HashMap};
use std::fmt;
use std::sync::Arc;

use agent_types::{EventBody, EventSink, ReplayData, StoredEvent};
use llm_provider::LlmRequest;
use llm_provider::recorded::{
    MESSAGE, SETTINGS, SHARED, Settings, digest_of, record_of_rest, record_of_whole,
};
use schemars::JsonSchema;
use serde::Serialize;
use serde_json::{Map, Value};

use crate::machine::{REQUEST, SUMMARY};
use crate::prompt::window::Shown;
use crate::resume::RunLog;

/// Members of the request for a summary beside those of a request.
const MODEL: &str = "model";
const DIGEST: &str = "digest";

/// Part of a window that the log of its run has.
#[derive(Debug, Clone, Default)]
pub(crate) struct Logged {
    messages: usize,
    /// Tools and parameters of the request before, without its messages.
    settings: Option<LlmRequest>,
}

impl Logged {
    fn record(&mut self, request: &LlmRequest) -> ReplayData {
        let is_same = self.settings.as_ref().is_some_and(|before| has_same_settings(before, request));
        let settings = if is_same { Settings::Same } else { Settings::Changed };
        let record = record_of_rest(request, self.messages, settings);
        if !is_same {
            self.settings = Some(LlmRequest { messages: Arc::default(), ..request.clone() });
        }
        self.messages = request.messages.len();
        record
    }
}

/// The request for a summary, as it is recorded with the summary.
pub(crate) fn summary_request(model: &str, request: &LlmRequest) -> Value {
    let mut value = serde_json::to_value(request).unwrap_or_default();
    value[MODEL] = model.into();
    value[DIGEST] = digest_of(&request.messages).into();
    value
}

/// Returns `true` if two requests differ in their messages at most, as far as the log has them.
fn has_same_settings(one: &LlmRequest, other: &LlmRequest) -> bool {
    let LlmRequest { messages: _, tools, parameters, response_schema, constraint, stop_at: _, purpose } = one;
    *tools == other.tools
        && *parameters == other.parameters
        && *response_schema == other.response_schema
        && *constraint == other.constraint
        && *purpose == other.purpose
}

/// Data recorded with a request, where the log is persisted. Before a resumed run is live, the request is recorded whole:
/// it may stand in the log already, and then this record is dropped.
pub(crate) fn record_of_request(
    window: &mut Shown,
    request: &LlmRequest,
    log: &RunLog,
) -> Option<ReplayData> {
    log.persister()?;
    match window.0.as_mut().filter(|_| log.is_live()) {
        Some(window) => Some(window.logged.record(request)),
        None => Some(record_of_whole(request)),
    }
}

/// Place of a request in a run.
#[derive(Debug, Clone, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, JsonSchema)]
pub struct RequestPlace {
    /// The node that runs the agent, where a workflow does.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub path: Option<String>,
    /// The call that the agent answers, where another agent called it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub call: Option<String>,
    /// The turn, from 1; of a node outside of an agent, the number of its request in the run.
    pub turn: u32,
    /// The request asks for a summary of the older part of the conversation.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub summary: bool,
}

impl fmt::Display for RequestPlace {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let what = if self.summary { "the summary in turn" } else { "turn" };
        write!(f, "{what} {}", self.turn)?;
        if let Some(call) = &self.call {
            write!(f, " of call {call}")?;
        }
        self.path.as_ref().map_or(Ok(()), |path| write!(f, " at {path}"))
    }
}

/// Request of a turn as the model was sent it.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct RecordedRequest {
    /// Number of its `agent.llm.started`.
    pub seq: u64,
    /// Place of the request in its run.
    #[serde(flatten)]
    pub place: RequestPlace,
    /// The model.
    pub model: String,
    /// A short name for the messages, equal where they are equal.
    pub digest: String,
    /// Messages, tools and parameters, in the form of `weft prompt --turn`.
    pub request: Map<String, Value>,
}

/// Reader of the recorded events of a run that puts one of its requests together.
///
/// ```
/// use agent_runtime::requests::{RequestPlace, RequestReader};
///
/// let mut reader = RequestReader::new(RequestPlace { turn: 2, ..RequestPlace::default() });
/// # let events: Vec<agent_types::StoredEvent> = Vec::new();
/// for event in &events {
///     if reader.needs(event) {
///         reader.add(event);
///     }
/// }
/// let places = reader.finish().unwrap_err();
/// assert!(places.is_empty(), "nothing was recorded");
/// ```
#[derive(Debug, Default)]
pub struct RequestReader {
    wanted: RequestPlace,
    /// Requests so far, by the span of their agent's run.
    requests: HashMap<Option<u64>, Said>,
    found: Option<RecordedRequest>,
    places: BTreeSet<RequestPlace>,
    /// Requests so far, by the node that sent them outside of an agent.
    of_nodes: HashMap<String, u32>,
    /// Places of the events that are needed, by their numbers.
    needed: HashMap<u64, RequestPlace>,
}

/// Contents of the last request of an agent's run.
#[derive(Debug, Default)]
struct Said {
    messages: Vec<Arc<Value>>,
    settings: Arc<Value>,
}

impl RequestReader {
    /// A reader for the last request of this place.
    #[must_use]
    pub fn new(wanted: RequestPlace) -> Self {
        Self { wanted, ..Self::default() }
    }

    /// Returns `true` for an event to [`add`](Self::add), with its large values in place.
    pub fn needs(&mut self, kept: &StoredEvent) -> bool {
        let Some(place) = self.place_of(kept) else { return false };
        let RequestPlace { path, call, turn, summary } = &self.wanted;
        let is_there = place.path == *path && place.call == *call && place.summary == *summary;
        let needs = is_there && place.turn <= *turn;
        self.places.insert(place.clone());
        if needs {
            self.needed.insert(kept.event.seq, place);
        }
        needs
    }

    /// Place of an event that has a request.
    fn place_of(&mut self, kept: &StoredEvent) -> Option<RequestPlace> {
        let summary = match &kept.event.body {
            EventBody::AgentLlmStarted { .. } if has(kept, SHARED) => false,
            EventBody::AgentCompacted { .. } if has(kept, SUMMARY) => true,
            _ => return None,
        };
        let place = &kept.event.place;
        let (path, call) = (place.path.as_ref(), place.call.as_ref());
        let (path, call) = (path.map(ToString::to_string), call.map(ToString::to_string));
        let turn = match (place.turn, &path) {
            (Some(turn), _) => turn,
            (None, Some(node)) => {
                let requests = self.of_nodes.entry(node.clone()).or_default();
                *requests += 1;
                *requests
            }
            (None, None) => return None,
        };
        Some(RequestPlace { path, call, turn, summary })
    }

    /// Takes a needed event, in the order of the log.
    pub fn add(&mut self, kept: &StoredEvent) {
        let Some(place) = self.needed.remove(&kept.event.seq) else { return };
        let EventBody::AgentLlmStarted { model, messages, digest } = &kept.event.body else {
            return self.add_summary(kept, place);
        };
        let said = self.requests.entry(kept.event.place.parent).or_default();
        for (name, value) in kept.record.iter().flat_map(|record| &record.values) {
            match &**name {
                SHARED => {
                    let shared = value.as_u64().and_then(|shared| usize::try_from(shared).ok());
                    said.messages.truncate(shared.unwrap_or_default());
                }
                SETTINGS => said.settings = Arc::clone(value),
                MESSAGE => said.messages.push(Arc::clone(value)),
                _ => {}
            }
        }
        // An older part of the log may have been pruned.
        if said.messages.len() != *messages {
            return;
        }
        if place == self.wanted {
            let (seq, model, digest) = (kept.event.seq, model.clone(), digest.clone());
            self.found = Some(RecordedRequest { seq, place, model, digest, request: said.request() });
        }
    }

    fn add_summary(&mut self, kept: &StoredEvent, place: RequestPlace) {
        let mut values = kept.record.iter().flat_map(|record| &record.values);
        let summary = values.find(|(name, _)| **name == *SUMMARY).and_then(|(_, value)| value.get(REQUEST));
        let Some(Value::Object(mut request)) = summary.cloned().filter(|_| place == self.wanted) else {
            return;
        };
        let mut text = |name| match request.remove(name) {
            Some(Value::String(text)) => text,
            Some(_) | None => String::new(),
        };
        let (model, digest) = (text(MODEL), text(DIGEST));
        self.found = Some(RecordedRequest { seq: kept.event.seq, place, model, digest, request });
    }

    /// The request.
    ///
    /// # Errors
    /// The log does not have it. The places of those that it has are given.
    pub fn finish(self) -> Result<RecordedRequest, BTreeSet<RequestPlace>> {
        self.found.ok_or(self.places)
    }
}

impl Said {
    fn request(&self) -> Map<String, Value> {
        let messages = self.messages.iter().map(|message| (**message).clone()).collect();
        let mut request = Map::from_iter([("messages".to_owned(), Value::Array(messages))]);
        request.extend(self.settings.as_object().cloned().unwrap_or_default());
        request
    }
}

/// Returns `true` when something of this name is recorded with an event.
fn has(kept: &StoredEvent, wanted: &str) -> bool {
    kept.record.iter().flat_map(|record| &record.values).any(|(name, _)| **name == *wanted)
}
