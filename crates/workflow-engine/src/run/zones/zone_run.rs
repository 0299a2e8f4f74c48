//! State of a zone between its passes.

use std::sync::Arc;

use agent_types::{LoopEnd, OtherOutputs, PassDecision};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use workflow_model::{OnItemError, OnPassError, ZoneMode};

use super::values::{first_state, items};
use crate::inputs::Given;
use crate::outputs::Outputs;
use crate::plan::data::PlanData;
use crate::plan::zone::{KeyRef, ZonePlan};
use crate::stream::Stream;

/// A pass that is on.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Pass {
    pub(crate) number: u64,
    pub(crate) frame: u32,
    pub(crate) span: u64,
}

/// End of a pass, as its event has it.
#[derive(Debug, Default)]
pub(crate) struct PassEnd {
    /// Keys of the carried values that changed.
    pub(crate) changed: Vec<Arc<str>>,
    /// The new values, in the same order.
    pub(crate) values: Vec<Arc<Value>>,
    pub(crate) decision: Option<PassDecision>,
}

impl PassEnd {
    /// The end of a pass without results.
    pub(crate) fn given_up(decision: PassDecision) -> Self {
        Self { decision: Some(decision), ..Self::default() }
    }
}

/// A zone that has been entered.
pub(crate) struct ZoneRun {
    zone: u32,
    given: Vec<Given>,
    state: Vec<Arc<Value>>,
    items: Option<Arc<Value>>,
    started: u64,
    finished: u64,
    running: Vec<Pass>,
    collected: Vec<Vec<(u64, Value)>>,
    /// Results of the pass with the highest number that is done, and of the one before it.
    last: Option<(u64, Outputs)>,
    before: Option<Outputs>,
    ended: Option<LoopEnd>,
    stream: Option<Arc<Stream>>,
}

impl ZoneRun {
    /// A zone before its first pass.
    ///
    /// # Errors
    /// The fault of the first values.
    pub(super) fn new(number: u32, zone: &ZonePlan, given: Vec<Given>) -> Result<Self, String> {
        Ok(Self {
            zone: number,
            state: first_state(zone, &given)?,
            items: items(zone, &given)?,
            given,
            started: 0,
            finished: 0,
            running: Vec::new(),
            collected: zone.collect.iter().map(|_| Vec::new()).collect(),
            last: None,
            before: None,
            ended: None,
            stream: None,
        })
    }

    pub(super) fn with_stream(self, stream: Option<Arc<Stream>>) -> Self {
        Self { stream, ..self }
    }

    pub(super) fn plan<'p>(&self, plan: &'p PlanData) -> &'p ZonePlan {
        &plan.zones[self.zone as usize]
    }

    pub(super) fn given(&self) -> &[Given] {
        &self.given
    }

    pub(super) fn stream(&self) -> Option<&Arc<Stream>> {
        self.stream.as_ref()
    }

    /// The carried values.
    pub(super) fn state(&self) -> &[Arc<Value>] {
        &self.state
    }

    /// The same by name.
    pub(super) fn named_state(&self, zone: &ZonePlan) -> Option<OtherOutputs> {
        let pairs = zone.keys.iter().zip(&self.state);
        let state = pairs.map(|(key, value)| (Arc::clone(key), Arc::clone(value)));
        (!self.state.is_empty()).then(|| Arc::new(state.collect()))
    }

    /// Results of the last pass that is done.
    pub(super) fn last(&self) -> Option<&Outputs> {
        self.last.as_ref().map(|(_, outputs)| outputs)
    }

    /// Results of the pass before that.
    pub(super) fn before(&self) -> Option<&Outputs> {
        self.before.as_ref()
    }

    /// Number of passes that are done.
    pub(crate) fn finished(&self) -> u64 {
        self.finished
    }

    /// The number of the next pass.
    pub(super) fn started(&self) -> u64 {
        self.started
    }

    pub(super) fn item(&self, pass: u64) -> Option<Arc<Value>> {
        let items = self.items.as_deref()?.as_array()?;
        items.get(usize::try_from(pass).ok()?).cloned().map(Arc::new)
    }

    /// Returns `true` if no pass is on.
    pub(super) fn is_between_passes(&self) -> bool {
        self.running.is_empty()
    }

    /// Returns `true` if another pass may run beside those that are on.
    pub(super) fn has_place(&self, zone: &ZonePlan) -> bool {
        self.running.len() < zone.spec.parallel
    }

    /// The reason why no further pass may begin, without a look at the condition.
    pub(super) fn reason_to_end(&self, zone: &ZonePlan) -> Option<LoopEnd> {
        let (total, why) = self.total(zone);
        self.ended.or_else(|| total.is_some_and(|total| self.started >= total).then_some(why))
    }

    /// Returns the maximum number of passes, and the reason to report if it is reached.
    fn total(&self, zone: &ZonePlan) -> (Option<u64>, LoopEnd) {
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

    /// Counts the start of a pass; gives how many may follow it.
    pub(super) fn count_start(&mut self, zone: &ZonePlan) -> Option<u64> {
        self.started += 1;
        self.total(zone).0.map(|total| total - self.started)
    }

    pub(super) fn add(&mut self, pass: Pass) {
        self.running.push(pass);
    }

    /// The pass in a frame.
    pub(super) fn pass_in(&self, frame: u32) -> Option<Pass> {
        self.running.iter().find(|pass| pass.frame == frame).copied()
    }

    /// A pass is done: takes its results, unless it `continues` without them, and the carried values of the next.
    /// Gives the carried values that changed.
    pub(super) fn finish_pass(
        &mut self,
        zone: &ZonePlan,
        pass: Pass,
        next: Vec<Arc<Value>>,
        results: Outputs,
        continues: bool,
    ) -> PassEnd {
        let mut end = PassEnd::default();
        for (key, (old, new)) in zone.keys.iter().zip(self.state.iter().zip(&next)) {
            if !Arc::ptr_eq(old, new) && old != new {
                end.changed.push(Arc::clone(key));
                end.values.push(Arc::clone(new));
            }
        }
        self.state = next;
        self.finished += 1;
        self.running.retain(|running| running.number != pass.number);
        if !continues {
            self.collect(zone, pass.number, &results);
        }
        if self.last.as_ref().is_none_or(|(last, _)| *last < pass.number) {
            self.before = self.last.take().map(|(_, outputs)| outputs);
            self.last = Some((pass.number, results));
        }
        end
    }

    fn collect(&mut self, zone: &ZonePlan, pass: u64, results: &Outputs) {
        for ((name, which), list) in zone.collect.iter().zip(&mut self.collected) {
            let value = match which {
                KeyRef::State(at) => self.state.get(*at as usize),
                KeyRef::Result(_) => results.get(name.trim_start_matches("collected.")),
            };
            list.extend(value.map(|value| (pass, (**value).clone())));
        }
    }

    /// A pass has failed; `true` if the zone continues without it.
    pub(super) fn lose_pass(&mut self, zone: &ZonePlan, pass: Pass) -> bool {
        self.running.retain(|running| running.number != pass.number);
        let continues = match (zone.spec.mode, zone.spec.on_item_error, zone.spec.on_pass_error) {
            (ZoneMode::Each, OnItemError::Fail, _) => false,
            (ZoneMode::Each, OnItemError::Null, _) => {
                self.collected.iter_mut().for_each(|list| list.push((pass.number, Value::Null)));
                true
            }
            (ZoneMode::Each, OnItemError::Drop, _) => true,
            (ZoneMode::Until | ZoneMode::While | ZoneMode::Times, _, on_pass_error) => {
                on_pass_error == OnPassError::Continue
            }
        };
        self.finished += u64::from(continues);
        continues
    }

    /// The zone ends with a pass: no further one begins, and those beyond it do not count. Gives those of them that are
    /// on; `results` are those of the pass, unless it is the last that is done.
    pub(super) fn end_with(&mut self, pass: u64, why: LoopEnd, results: Option<Outputs>) -> Vec<Pass> {
        self.ended = Some(why);
        let started_beyond = self.started.saturating_sub(pass + 1);
        self.started = pass + 1;
        let (on, beyond) = std::mem::take(&mut self.running).into_iter().partition(|run| run.number <= pass);
        self.running = on;
        self.finished = self.finished.saturating_sub(started_beyond - beyond.len() as u64);
        for list in &mut self.collected {
            list.retain(|(number, _)| *number <= pass);
        }
        if let Some(results) = results {
            self.last = Some((pass, results));
        }
        beyond
    }

    pub(super) fn has_ended(&self) -> bool {
        self.ended.is_some()
    }

    /// Takes the passes that are on, which are given up.
    pub(crate) fn take_running(&mut self) -> Vec<Pass> {
        std::mem::take(&mut self.running)
    }

    /// The same where a node ended them together with the zone: they count as done.
    pub(super) fn stop_running(&mut self) -> Vec<Pass> {
        self.finished += self.running.len() as u64;
        self.take_running()
    }

    /// A carried value, or one of these results of a pass.
    pub(super) fn key_value(
        &self,
        plan: &PlanData,
        which: KeyRef,
        out: Option<&Outputs>,
    ) -> Option<Arc<Value>> {
        match which {
            KeyRef::State(at) => self.state.get(at as usize).cloned(),
            KeyRef::Result(at) => {
                let name = &plan.scopes[self.plan(plan).scope as usize].results.get(at as usize)?.name;
                out?.get(name).cloned()
            }
        }
    }

    /// Last values, results of the last pass, and lists of all passes.
    pub(super) fn into_outputs(self, zone: &ZonePlan) -> Outputs {
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

/// A zone as a checkpoint has it.
#[derive(Serialize, Deserialize)]
pub(super) struct SavedZone {
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

/// An input of a container.
#[derive(Serialize, Deserialize)]
pub(super) enum SavedGiven {
    Nothing,
    One(Arc<Value>),
    Many(Vec<Arc<Value>>),
    Lazy,
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
    pub(super) fn to_saved(&self) -> Option<SavedZone> {
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
    pub(super) fn restored(self, stream: Option<Arc<Stream>>) -> ZoneRun {
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

impl SavedGiven {
    /// None for a stream, which no checkpoint can hold.
    fn from_given(given: &Given) -> Option<Self> {
        match given {
            Given::Nothing => Some(Self::Nothing),
            Given::One(value) => Some(Self::One(Arc::clone(value))),
            Given::Many(values) => Some(Self::Many(values.clone())),
            Given::Lazy => Some(Self::Lazy),
            Given::Stream(_) => None,
        }
    }

    pub(super) fn all(given: &[Given]) -> Option<Vec<Self>> {
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
