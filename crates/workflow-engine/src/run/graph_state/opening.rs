//! Openings of frames: the values of their first slots, and the nodes that wait for nothing.

use std::sync::Arc;

use serde_json::Value;

use super::GraphState;
use super::frame::{Frame, Key, Slot, Standing};
use crate::inputs::Given;
use crate::plan::data::{Entry, NONE};

/// Initial slot values of a frame.
pub(crate) struct Opening<'a> {
    pub(crate) inputs: &'a [Given],
    pub(crate) state: &'a [Arc<Value>],
    pub(crate) index: u64,
    pub(crate) item: Option<Arc<Value>>,
    pub(crate) remaining: Option<u64>,
}

impl Opening<'_> {
    /// An opening without a pass.
    pub(crate) fn from_inputs(inputs: &[Given]) -> Opening<'_> {
        Opening { inputs, state: &[], index: 0, item: None, remaining: None }
    }
}

impl GraphState<'_> {
    /// Adds a frame in which the `needed` nodes are scheduled; `None` for those of the plan. It has to be opened.
    pub(crate) fn add_frame(&mut self, standing: Standing, needed: Option<&[bool]>) -> Key {
        self.frames.add(standing, needed)
    }

    /// Fills the slots that a frame begins with and queues the nodes that wait for nothing.
    pub(crate) fn open_frame(&mut self, frame: Key, opening: &Opening<'_>) {
        let Some(own) = self.frames.get_mut(frame) else { return };
        let container = own.standing().container;
        let scope = &self.plan.scopes[own.standing().scope as usize];
        for node in own.queue_free() {
            self.queues.push_ready(Key { node, ..frame });
        }
        for (slot, entry) in &scope.entries {
            let value = self.entry_value(*entry, container, opening);
            self.set_slot(frame, *slot, value);
        }
        if self.frame(frame).is_some_and(Frame::is_complete) {
            self.queues.push_complete(Key { node: NONE, ..frame });
        }
    }

    /// An input that nothing gives: what takes it is skipped.
    fn absent(&mut self, name: &str) -> Slot {
        Slot::Skipped(self.causes.number(format!("input:{name}").into()))
    }

    fn entry_value(&mut self, entry: Entry, container: Option<Key>, opening: &Opening<'_>) -> Slot {
        let value = match entry {
            Entry::Argument(at) => match &self.arguments[at as usize] {
                Some(value) => Some(Arc::clone(value)),
                None => return self.absent(&self.plan.arguments[at as usize].name),
            },
            Entry::Absent(name) => return self.absent(&self.plan.names[name as usize]),
            Entry::Outer(slot) => {
                let Some(frame) = container.and_then(|container| self.frame(container)) else {
                    return Slot::Skipped(NONE);
                };
                match frame.slot(slot) {
                    Slot::Skipped(cause) => return Slot::Skipped(*cause),
                    value => value.value().cloned(),
                }
            }
            Entry::Input(at) => match opening.inputs.get(at as usize) {
                Some(Given::One(value)) => Some(Arc::clone(value)),
                Some(Given::Many(values)) => {
                    Some(Arc::new(values.iter().map(|value| (**value).clone()).collect()))
                }
                Some(Given::Nothing | Given::Stream(_) | Given::Lazy) | None => None,
            },
            Entry::State(at) => opening.state.get(at as usize).cloned(),
            Entry::Index => Some(Arc::new(opening.index.into())),
            Entry::Item => Some(opening.item.clone().unwrap_or_default()),
            Entry::Remaining => Some(Arc::new(opening.remaining.map_or(Value::Null, Value::from))),
        };
        if let Some(value) = value {
            Slot::Value(value)
        } else {
            let path = container.map(|container| self.frames.path(container));
            Slot::Skipped(self.causes.number(path.unwrap_or_else(|| Arc::from(""))))
        }
    }
}
