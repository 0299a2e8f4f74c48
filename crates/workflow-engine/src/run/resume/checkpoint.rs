//! The whole state of a run as text, so that a long run can resume without all of its log.

use std::collections::HashMap;
use std::sync::{Arc, OnceLock};

use agent_types::{AskSummary, Usage};
use run_journal::CheckpointFrame;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::error::RunError;
use crate::inputs::Given;
use crate::plan::PlanInner;
use crate::run::graph_state::frame::{Frame, Key, SavedFrame, Slot, StreamSlot};
use crate::run::scheduler::{OpenAsk, Scheduler};
use crate::run::workers::permits::Claim;
use crate::run::zones::SavedZone;
use crate::stream::Stream;

/// Bytes of a snapshot that stand against one event.
const BYTES_AN_EVENT: usize = 64;
const VERSION: u32 = 2;

/// Returns the frame of the checkpoints of a plan.
pub(crate) fn frame_of(plan: &PlanInner) -> CheckpointFrame {
    CheckpointFrame { version: VERSION, layout: plan.layout() }
}

#[derive(Serialize, Deserialize)]
struct Saved {
    arguments: Vec<Arc<Value>>,
    usage: Usage,
    starts: u64,
    was_waiting: bool,
    failed: Option<(String, String, Option<Arc<str>>)>,
    causes: Vec<Arc<str>>,
    frames: Vec<Option<SavedFrame>>,
    free: Vec<u32>,
    zones: Vec<(Key, SavedZone)>,
    calls: Vec<(Key, u32)>,
    containers: Vec<SavedContainer>,
    ready: Vec<Key>,
    skips: Vec<Key>,
    complete: Vec<Key>,
    at_work: Vec<SavedWork>,
    asks: Vec<SavedAsk>,
    answers: HashMap<String, Value>,
    asked: Vec<(Key, u32)>,
}

#[derive(Serialize, Deserialize)]
struct SavedContainer {
    key: Key,
    span: u64,
    attempt: u32,
    group: Option<u32>,
    given: Vec<SavedGiven>,
}

#[derive(Serialize, Deserialize)]
pub(in crate::run) struct SavedWork {
    pub(in crate::run) key: Key,
    pub(in crate::run) span: u64,
    pub(in crate::run) attempt: u32,
    pub(in crate::run) interrupted: u32,
}

#[derive(Serialize, Deserialize)]
struct SavedAsk {
    key: Key,
    summary: AskSummary,
    unknown_effect: bool,
    span: u64,
    attempt: u32,
}

/// An input of a container.
#[derive(Serialize, Deserialize)]
pub(in crate::run) enum SavedGiven {
    Nothing,
    One(Arc<Value>),
    Many(Vec<Arc<Value>>),
    Lazy,
}

impl SavedGiven {
    /// None for a stream, which no snapshot can hold.
    pub(in crate::run) fn from_given(given: &Given) -> Option<Self> {
        match given {
            Given::Nothing => Some(Self::Nothing),
            Given::One(value) => Some(Self::One(Arc::clone(value))),
            Given::Many(values) => Some(Self::Many(values.clone())),
            Given::Lazy => Some(Self::Lazy),
            Given::Stream(_) => None,
        }
    }

    pub(in crate::run) fn all(given: &[Given]) -> Option<Vec<Self>> {
        given.iter().map(Self::from_given).collect()
    }
}

impl From<SavedGiven> for Given {
    fn from(saved: SavedGiven) -> Self {
        match saved {
            SavedGiven::Nothing => Self::Nothing,
            SavedGiven::One(value) => Self::One(value),
            SavedGiven::Many(values) => Self::Many(values),
            SavedGiven::Lazy => Self::Lazy,
        }
    }
}

/// A slot of a frame.
#[derive(Serialize, Deserialize)]
pub(in crate::run) enum SavedSlot {
    #[serde(rename = "u")]
    Unknown,
    #[serde(rename = "s")]
    Skipped(u32),
    #[serde(rename = "v")]
    Value(Arc<Value>),
    /// A stream that is open, with what has been written to it.
    #[serde(rename = "o")]
    Open(Option<String>),
}

impl SavedSlot {
    pub(in crate::run) fn from_slot(slot: &Slot) -> Self {
        match slot {
            Slot::Unknown => Self::Unknown,
            Slot::Skipped(cause) => Self::Skipped(*cause),
            Slot::Value(value) => Self::Value(Arc::clone(value)),
            Slot::Stream(open) => match open.value.get() {
                Some(value) => Self::Value(Arc::clone(value)),
                None => Self::Open(open.stream.text()),
            },
        }
    }

    /// The slot, with `readers` that have not begun to read it if it is an open stream.
    pub(in crate::run) fn restored(self, readers: u32) -> Slot {
        match self {
            Self::Unknown => Slot::Unknown,
            Self::Skipped(cause) => Slot::Skipped(cause),
            Self::Value(value) => Slot::Value(value),
            Self::Open(text) => {
                let stream = Stream::new(readers, true);
                if let Some(text) = text.filter(|text| !text.is_empty()) {
                    stream.push_now(text.into());
                    stream.see(&mut Vec::new());
                }
                Slot::Stream(Arc::new(StreamSlot { stream, value: OnceLock::new() }))
            }
        }
    }
}

impl Scheduler {
    /// A pass has ended: enough may have happened since the last snapshot.
    pub(in crate::run) fn consider_snapshot(&mut self) {
        let (events, bytes) = self.since_snapshot;
        if self.keeps
            && !self.options.nested
            && events >= self.options.snapshot_events.max(bytes / BYTES_AN_EVENT)
        {
            self.snapshot_due = self.replay.is_none();
        }
    }

    /// Passes a checkpoint of the whole state to the persister of the events.
    pub(in crate::run) fn take_snapshot(&mut self) {
        self.snapshot_due = false;
        self.flush();
        let frame = frame_of(&self.shared.plan);
        let Some(text) = self.checkpoint().and_then(|saved| frame.write(&saved).ok()) else {
            // A stream on its way into a zone, or work inside a node: the next pass may be luckier.
            return;
        };
        self.since_snapshot = (0, text.len());
        if let Some(keeper) = self.shared.sink.keeper() {
            keeper.snapshot(text);
        }
    }

    fn checkpoint(&self) -> Option<Saved> {
        if self.needs_its_log() {
            return None;
        }
        let containers = self.containers.iter().map(|(key, container)| {
            Some(SavedContainer {
                key: *key,
                span: container.span,
                attempt: container.attempt,
                group: container.claim.group,
                given: SavedGiven::all(&container.given)?,
            })
        });
        let zones = self.zones.iter().map(|(key, zone)| Some((*key, zone.to_saved()?)));
        let at_work = self.active.iter().filter(|(key, _)| self.is_running(**key)).map(|(key, active)| {
            let (span, attempt, interrupted) = (active.span, active.attempt, active.interrupted);
            SavedWork { key: *key, span, attempt, interrupted }
        });
        let asks = self.asks.iter().map(|ask| SavedAsk {
            key: ask.key,
            summary: ask.summary.clone(),
            unknown_effect: ask.unknown_effect,
            span: ask.span,
            attempt: ask.attempt,
        });
        let failed = self.first_error.as_ref();
        Some(Saved {
            arguments: self.arguments.clone(),
            usage: self.usage,
            starts: self.starts,
            was_waiting: self.was_waiting,
            failed: failed.map(|error| (error.kind.clone(), error.message.clone(), error.path.clone())),
            causes: self.causes.clone(),
            frames: self.frames.iter().map(|frame| frame.as_deref().map(Frame::to_saved)).collect(),
            free: self.free.clone(),
            zones: zones.collect::<Option<_>>()?,
            calls: self.calls.iter().map(|(key, frame)| (*key, *frame)).collect(),
            containers: containers.collect::<Option<_>>()?,
            ready: self.ready.iter().copied().chain(self.limits.parked()).collect(),
            skips: self.skips.iter().copied().collect(),
            complete: self.complete.iter().copied().collect(),
            at_work: at_work.collect(),
            asks: asks.collect(),
            answers: self.answers.clone(),
            asked: self.asked.iter().map(|(key, number)| (*key, *number)).collect(),
        })
    }

    /// Takes the state that a snapshot has.
    pub(in crate::run) fn restore(&mut self, plan: &PlanInner, text: &str) -> Result<(), Box<RunError>> {
        let refused = |error: serde_json::Error| Box::new(RunError::new("bad_snapshot", error.to_string()));
        let saved: Saved = frame_of(plan).read(text).map_err(refused)?;
        self.arguments = saved.arguments;
        (self.usage, self.starts, self.was_waiting) = (saved.usage, saved.starts, saved.was_waiting);
        self.first_error =
            saved.failed.map(|(kind, message, path)| RunError { path, ..RunError::new(kind, message) });
        self.causes = saved.causes;
        self.free = saved.free;
        let frames = saved.frames.into_iter().map(|frame| {
            let frame = frame?;
            let scope = &plan.scopes[frame.scope as usize];
            Some(Box::new(frame.restored(scope)))
        });
        self.frames = frames.collect();
        self.calls = saved.calls.into_iter().collect();
        self.ready = saved.ready.into();
        self.skips = saved.skips.into();
        self.complete = saved.complete.into();
        self.answers.extend(saved.answers);
        self.asked = saved.asked.into_iter().collect();
        self.asks = saved
            .asks
            .into_iter()
            .map(|ask| OpenAsk {
                key: ask.key,
                summary: ask.summary,
                reply: None,
                unknown_effect: ask.unknown_effect,
                span: ask.span,
                attempt: ask.attempt,
            })
            .collect();
        for container in saved.containers {
            let claim = Claim { run: false, group: container.group };
            self.limits.take(claim);
            let given = container.given.into_iter().map(Given::from).collect();
            self.restore_container(plan, container.key, (container.span, container.attempt), given, claim);
        }
        for (key, zone) in saved.zones {
            let stream = self.zone_stream(plan, key);
            self.zones.insert(key, Box::new(zone.restored(stream)));
        }
        self.restore_work(saved.at_work);
        self.wake_waiting_containers(plan);
        self.wake_held_zones(plan);
        Ok(())
    }

    /// Returns the zone's own stream in the restored frame.
    fn zone_stream(&self, plan: &PlanInner, key: Key) -> Option<Arc<Stream>> {
        let scope = &plan.scopes[self.frame(key)?.scope as usize];
        let out = scope.outs(&scope.nodes[key.node as usize]).iter().find(|out| out.stream)?;
        Some(Arc::clone(&self.open_stream(key, out.slot)?.stream))
    }

    /// Containers that waited for their next attempt begin it now.
    fn wake_waiting_containers(&mut self, plan: &PlanInner) {
        let inside = |key: &Key| self.zones.contains_key(key) || self.calls.contains_key(key);
        let waiting: Vec<Key> = self.containers.keys().filter(|key| !inside(key)).copied().collect();
        for key in waiting {
            self.timer_fired(plan, key, crate::run::scheduler::Timer::Retry);
        }
    }
}
