//! The state of the graph as a checkpoint has it.

use std::sync::Arc;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::GraphState;
use super::causes::Causes;
use super::frame::{Frame, Key, Slot};
use super::frames::Frames;
use super::queues::Queues;
use crate::plan::data::NONE;
use crate::stream::Stream;

/// Frames, queues and causes.
#[derive(Serialize, Deserialize)]
pub(crate) struct SavedGraph {
    causes: Vec<Arc<str>>,
    frames: Vec<Frame<SavedSlot>>,
    free: Vec<u32>,
    ready: Vec<Key>,
    skips: Vec<Key>,
    complete: Vec<Key>,
}

/// A slot of a frame.
#[derive(Serialize, Deserialize)]
enum SavedSlot {
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
    fn from_slot(slot: Slot) -> Self {
        match slot {
            Slot::Unknown => Self::Unknown,
            Slot::Skipped(cause) => Self::Skipped(cause),
            Slot::Value(value) => Self::Value(value),
            Slot::Stream(open) => match open.value.get() {
                Some(value) => Self::Value(Arc::clone(value)),
                None => Self::Open(open.stream.text()),
            },
        }
    }

    /// The slot, with `readers` that have not begun to read it if it is an open stream.
    fn restored(self, readers: u32) -> Slot {
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
                Slot::from_stream(stream)
            }
        }
    }
}

impl GraphState<'_> {
    /// The state of the graph, with nodes that `wait` for permits among those that are ready.
    pub(crate) fn to_saved(&self, wait: impl Iterator<Item = Key>) -> SavedGraph {
        let saved = |frame: &Frame| frame.clone().map_slots(|(_, slot)| SavedSlot::from_slot(slot));
        SavedGraph {
            causes: self.causes.to_saved(),
            frames: self.frames.all().iter().map(saved).collect(),
            free: self.frames.free().to_vec(),
            ready: self.queues.ready().chain(wait).collect(),
            skips: self.queues.skips(),
            complete: self.queues.complete(),
        }
    }

    /// Takes the state that a checkpoint has, with its nodes known by their paths.
    pub(crate) fn restore(&mut self, saved: SavedGraph) {
        self.causes = Causes::restored(saved.causes);
        let frames = saved.frames.into_iter().map(|frame| {
            let scope = &self.plan.scopes[frame.standing().scope as usize];
            let readers = |slot: u32| u32::try_from(scope.stream_readers.row(slot).len()).unwrap_or(NONE);
            frame.map_slots(|(at, slot)| slot.restored(readers(at)))
        });
        self.frames = Frames::restored(self.plan, frames.collect(), saved.free);
        self.queues = Queues::restored(saved.ready, saved.skips, saved.complete);
        self.frames.index_paths();
    }
}
