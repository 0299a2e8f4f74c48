//! Events on their way into the store: large values out, secrets masked, one line each.

use agent_types::{AskKind, Batch, EventBody, Redactor, ReplayData, RunId, Timestamp, TraceEvent};
use serde_json::Value;

use crate::blob::{Blobs, replace, take_out};
use crate::json::read;
use crate::lines::Writing;
use crate::{AskRecord, Events, RunPhase, RunState, StoreError};

/// Event with the record that belongs to it.
pub(crate) type NumberedEvent = (TraceEvent, Option<Box<ReplayData>>);

/// Events of one run.
pub(crate) type Numbered = Vec<NumberedEvent>;

/// Encoded group of events: the lines to persist, and the events for subscribers.
pub(crate) struct Encoded {
    pub(crate) events: Events,
    pub(crate) blobs: Blobs,
    pub(crate) shown: Option<Batch>,
}

/// Encodes a group. Events for subscribers are built only if there are subscribers.
pub(crate) fn encode(
    run: &RunId,
    numbered: Numbered,
    last_span: u64,
    redactor: &Redactor,
    is_watched: bool,
) -> Result<Option<Encoded>, StoreError> {
    let (Some((first, _)), Some((last, _))) = (numbered.first(), numbered.last()) else { return Ok(None) };
    let mut writing = Writing::new(run, first, numbered.len())?;
    let (first, last) = (first.seq, last.seq);
    let (mut state, mut asks, mut blobs) = (None, Vec::new(), Vec::new());
    // Long results of calls that were kept before their event.
    let mut results = Vec::new();
    let mut shown = Vec::with_capacity(if is_watched { numbered.len() } else { 0 });
    for (mut event, record) in numbered {
        take_out(&mut event.body, &mut blobs);
        let start = writing.event(&event)?;
        // A secret in an event is rare, and only then is the event read anew.
        if redactor.is_set()
            && let Ok(text) = std::str::from_utf8(writing.line(start))
            && let std::borrow::Cow::Owned(masked) = redactor.mask(text)
        {
            event = writing.mask(start, &masked, &event)?;
        }
        if let Some(mut record) = record {
            record.values.iter_mut().for_each(|(_, value)| replace(value, &mut blobs));
            let text = serde_json::to_string(&record).map_err(StoreError::io)?;
            writing.record(&redactor.mask(&text));
        }
        if let EventBody::AgentToolFinished { blob: Some(sha), .. } = &event.body {
            results.push(sha.clone());
        }
        if let Some(changed) = state_after(&event.body, event.ts) {
            state = Some(changed);
        }
        asks.extend(asked(&event));
        if is_watched {
            shown.push(event);
        }
    }
    // The name of a blob stays: it is only a name, and what it names no longer holds the secret.
    for (_, data) in &mut blobs {
        if let Ok(text) = std::str::from_utf8(data)
            && let std::borrow::Cow::Owned(masked) = redactor.mask(text)
        {
            *data = masked.into_bytes();
        }
    }
    let mut names: Vec<String> = blobs.iter().map(|(sha, _)| sha.clone()).collect();
    names.extend(results);
    let lines = writing.done();
    let events = Events { run: run.clone(), first, last, lines, blobs: names, last_span, state, asks };
    let shown = is_watched.then(|| Batch::new(shown.into_iter()));
    Ok(Some(Encoded { events, blobs, shown }))
}

/// Returns the state of a run after an event, if the event changes it.
fn state_after(body: &EventBody, ts: Timestamp) -> Option<RunState> {
    let on = |phase| RunState { phase, exit: None, kind: None, finished: None };
    match body {
        EventBody::RunStarted { .. } | EventBody::RunResumed { .. } => Some(on(RunPhase::Running)),
        EventBody::RunWaiting { exit, .. } => Some(RunState { exit: *exit, ..on(RunPhase::Waiting) }),
        EventBody::RunFinished { status, exit, kind, .. } => Some(RunState {
            phase: RunPhase::from(*status),
            exit: *exit,
            kind: kind.clone(),
            finished: Some(ts),
        }),
        _ => None,
    }
}

/// The questions that an event puts.
fn asked(event: &TraceEvent) -> Vec<AskRecord> {
    let record = |summary| AskRecord { summary, opened: event.seq, answer: None };
    match &event.body {
        // Questions inside a call are emitted with the call, when its run is suspended.
        EventBody::NodeWaiting { ask, prompt, unknown_effect } if event.place.call.is_none() => {
            vec![record(agent_types::AskSummary {
                ask: std::sync::Arc::clone(ask),
                kind: if *unknown_effect == Some(true) { AskKind::Outcome } else { AskKind::Question },
                tool: None,
                arguments: None,
                path: event.place.path.clone(),
                prompt: prompt.clone(),
                definition: agent_types::DefinitionDigests::new(),
            })]
        }
        EventBody::RunWaiting { asks, .. } => asks.iter().cloned().map(record).collect(),
        _ => Vec::new(),
    }
}

/// A value as text with its secrets masked.
pub(crate) fn masked_value(value: &Value, redactor: &Redactor) -> Value {
    let text = value.to_string();
    match redactor.mask(&text) {
        std::borrow::Cow::Owned(masked) => read(masked.as_bytes()).unwrap_or(Value::Null),
        std::borrow::Cow::Borrowed(_) => value.clone(),
    }
}
