//! State of a zone between its passes.

use std::sync::Arc;

use agent_types::{EventLocation, LoopEnd};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use workflow_model::ZoneMode;

use crate::run::resume::checkpoint::SavedGiven;

use crate::convert::convert;
use crate::expression::{cel_map, to_cel};
use crate::inputs::Given;
use crate::outputs::Outputs;
use crate::plan::{KeyRef, NONE, PlanInner, ZonePlan};
use crate::stream::Stream;

/// A zone that has been entered.
pub(in crate::run) struct ZoneRun {
    pub(super) zone: u32,
    pub(super) given: Vec<Given>,
    pub(super) state: Vec<Arc<Value>>,
    pub(super) items: Option<Arc<Value>>,
    pub(super) started: u64,
    pub(super) finished: u64,
    /// Passes that are on, with their frames and spans.
    pub(super) running: Vec<Pass>,
    pub(super) collected: Vec<Vec<(u64, Value)>>,
    /// Results of the pass with the highest number that is done, and of the one before it.
    pub(super) last: Option<(u64, Outputs)>,
    pub(super) before: Option<Outputs>,
    pub(super) ended: Option<LoopEnd>,
    pub(super) stream: Option<Arc<Stream>>,
}

#[derive(Clone, Copy)]
pub(super) struct Pass {
    pub(super) number: u64,
    pub(super) frame: u32,
    pub(super) span: u64,
}

/// A zone as a snapshot has it.
#[derive(Serialize, Deserialize)]
pub(in crate::run) struct SavedZone {
    zone: u32,
    given: Vec<SavedGiven>,
    state: Vec<Arc<Value>>,
    items: Option<Arc<Value>>,
    started: u64,
    finished: u64,
    running: Vec<(u64, u32, u64)>,
    collected: Vec<Vec<(u64, Value)>>,
    last: Option<(u64, SavedOutputs)>,
    before: Option<SavedOutputs>,
    ended: Option<LoopEnd>,
}

type SavedOutputs = Vec<(String, Arc<Value>)>;

fn saved_outputs(outputs: &Outputs) -> SavedOutputs {
    outputs.all("").map(|(name, value)| (name.to_owned(), Arc::clone(value))).collect()
}

fn restored_outputs(saved: SavedOutputs) -> Outputs {
    saved.into_iter().fold(Outputs::none(), |outputs, (name, value)| outputs.with_shared(name, value))
}

impl ZoneRun {
    /// None while a stream is on its way into the zone.
    pub(in crate::run) fn to_saved(&self) -> Option<SavedZone> {
        Some(SavedZone {
            zone: self.zone,
            given: SavedGiven::all(&self.given)?,
            state: self.state.clone(),
            items: self.items.clone(),
            started: self.started,
            finished: self.finished,
            running: self.running.iter().map(|pass| (pass.number, pass.frame, pass.span)).collect(),
            collected: self.collected.clone(),
            last: self.last.as_ref().map(|(pass, outputs)| (*pass, saved_outputs(outputs))),
            before: self.before.as_ref().map(saved_outputs),
            ended: self.ended,
        })
    }
}

impl SavedZone {
    pub(in crate::run) fn restored(self, stream: Option<Arc<Stream>>) -> ZoneRun {
        let pass = |(number, frame, span)| Pass { number, frame, span };
        ZoneRun {
            zone: self.zone,
            given: self.given.into_iter().map(Given::from).collect(),
            state: self.state,
            items: self.items,
            started: self.started,
            finished: self.finished,
            running: self.running.into_iter().map(pass).collect(),
            collected: self.collected,
            last: self.last.map(|(pass, outputs)| (pass, restored_outputs(outputs))),
            before: self.before.map(restored_outputs),
            ended: self.ended,
            stream,
        }
    }
}

impl ZoneRun {
    pub(super) fn item(&self, pass: u64) -> Option<Arc<Value>> {
        let items = self.items.as_deref()?.as_array()?;
        items.get(usize::try_from(pass).ok()?).cloned().map(Arc::new)
    }

    /// Returns the maximum number of passes, and the reason to report if it is reached.
    pub(super) fn total(&self, zone: &ZonePlan) -> (Option<u64>, LoopEnd) {
        let own = match zone.spec.mode {
            ZoneMode::Until | ZoneMode::While => None,
            ZoneMode::Times => Some((zone.spec.times, LoopEnd::Times)),
            ZoneMode::Each => {
                let items = self.items.as_deref().and_then(Value::as_array).map_or(0, Vec::len);
                Some((items as u64, LoopEnd::Items))
            }
        };
        match (own, zone.spec.max_iterations) {
            (Some((own, why)), Some(max)) if own <= max => (Some(own), why),
            (Some((own, why)), None) => (Some(own), why),
            (_, max) => (max, LoopEnd::Max),
        }
    }
}

impl ZoneRun {
    pub(super) fn collect(&mut self, zone: &ZonePlan, pass: u64, results: &Outputs) {
        for ((name, which), list) in zone.collect.iter().zip(&mut self.collected) {
            let value = match which {
                KeyRef::State(at) => self.state.get(*at as usize),
                KeyRef::Result(_) => results.get(name.trim_start_matches("collected.")),
            };
            list.extend(value.map(|value| (pass, (**value).clone())));
        }
    }

    pub(super) fn key_value(&self, plan: &PlanInner, zone: &ZonePlan, which: KeyRef) -> Option<Arc<Value>> {
        match which {
            KeyRef::State(at) => self.state.get(at as usize).cloned(),
            KeyRef::Result(at) => {
                let name = &plan.scopes[zone.scope as usize].results.get(at as usize)?.name;
                self.last.as_ref()?.1.get(name).cloned()
            }
        }
    }

    /// Last values, results of the last pass, and lists of all passes.
    pub(super) fn outputs(self, zone: &ZonePlan) -> Outputs {
        let mut outputs = self.last.map_or_else(Outputs::none, |(_, outputs)| outputs);
        for (key, value) in zone.keys.iter().zip(self.state) {
            outputs = outputs.with_shared(key.to_string(), value);
        }
        for ((name, _), mut list) in zone.collect.iter().zip(self.collected) {
            list.sort_by_key(|(pass, _)| *pass);
            let values: Vec<Value> = list.into_iter().map(|(_, value)| value).collect();
            outputs = outputs.with(name.to_string(), values);
        }
        outputs
    }
}

pub(super) fn pass_place(path: Arc<str>, pass: u64, span: u64, parent: u64) -> EventLocation {
    EventLocation {
        path: Some(path),
        iteration: Some(pass),
        span,
        parent: Some(parent),
        ..EventLocation::default()
    }
}

/// The carried values of the first pass.
pub(super) fn first_state(zone: &ZonePlan, given: &[Given]) -> Result<Vec<Arc<Value>>, String> {
    let first = zone.spec.state.iter().zip(&zone.initial_inputs).map(|(state, input)| {
        let value = match (*input != NONE).then(|| given.get(*input as usize)).flatten() {
            Some(Given::One(value)) => Some(Arc::clone(value)),
            Some(Given::Many(values)) => values.first().cloned(),
            Some(Given::Nothing | Given::Stream(_) | Given::Lazy) | None => None,
        };
        let value = value.unwrap_or_else(|| Arc::new(state.initial.clone().unwrap_or_default()));
        convert(&value, state.data_flow_type)
            .map_err(|fault| format!("the carried value `{}` {fault}", state.key))
    });
    first.collect()
}

pub(super) fn items(zone: &ZonePlan, given: &[Given]) -> Result<Option<Arc<Value>>, String> {
    if zone.spec.mode != ZoneMode::Each {
        return Ok(None);
    }
    let items = zone.has_items().then(|| given.get(zone.items_input as usize)).flatten();
    match items {
        Some(Given::One(value)) if value.is_array() => Ok(Some(Arc::clone(value))),
        Some(Given::One(_) | Given::Many(_) | Given::Nothing | Given::Stream(_) | Given::Lazy) | None => {
            Err("the input `items` gave no list".to_owned())
        }
    }
}

pub(super) fn changed_keys(zone: &ZonePlan, old: &[Arc<Value>], new: &[Arc<Value>]) -> Vec<Arc<str>> {
    let pairs = zone.keys.iter().zip(old.iter().zip(new));
    let changed = pairs.filter(|(_, (old, new))| !Arc::ptr_eq(old, new) && old != new);
    changed.map(|(key, _)| Arc::clone(key)).collect()
}

pub(super) fn state_map(zone: &ZonePlan, state: &[Arc<Value>]) -> Map<String, Value> {
    zone.keys.iter().zip(state).map(|(key, value)| (key.to_string(), (**value).clone())).collect()
}

pub(super) fn outputs_map(outputs: Option<&Outputs>) -> cel::Value {
    let values = outputs.into_iter().flat_map(|outputs| outputs.all(""));
    cel_map(values.map(|(name, value)| (name, to_cel(value))))
}

/// One result as its text, several as an object.
pub(super) fn chunk_of(results: &Outputs) -> Option<Arc<str>> {
    let mut all = results.all("");
    let (first, second) = (all.next()?, all.next());
    if second.is_none() {
        return Some(match &**first.1 {
            Value::String(text) => text.as_str().into(),
            other => other.to_string().into(),
        });
    }
    let map: Map<String, Value> =
        results.all("").map(|(name, value)| (name.to_owned(), (**value).clone())).collect();
    Some(Value::Object(map).to_string().into())
}

/// A number as text, without an allocation.
pub(super) struct Digits([u8; 20], usize);

impl Digits {
    pub(super) fn from_number(mut number: u64) -> Self {
        let mut digits = [b'0'; 20];
        let mut at = digits.len();
        loop {
            at -= 1;
            digits[at] = b'0' + u8::try_from(number % 10).unwrap_or(0);
            number /= 10;
            if number == 0 {
                return Self(digits, at);
            }
        }
    }

    pub(super) fn as_str(&self) -> &str {
        std::str::from_utf8(&self.0[self.1..]).unwrap_or_default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn digits_are_those_of_the_number() {
        for number in [0, 7, 10, 1234, u64::MAX] {
            assert_eq!(Digits::from_number(number).as_str(), number.to_string());
        }
    }
}
