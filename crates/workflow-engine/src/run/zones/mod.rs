//! Loop zones: passes, carried values, and when it is enough.

pub(super) mod container;
mod state;

use std::sync::Arc;
use std::task::Waker;

use agent_types::{EventBody, EventLocation, LoopEnd, NodeErrorKind};
use serde_json::Value;
use workflow_model::{OnItemError, OnMax, OnPassError, TestAt, ZoneMode};

use state::{Digits, Pass, changed_keys, chunk_of, first_state, items, outputs_map, pass_place, state_map};
pub(in crate::run) use state::{SavedZone, ZoneRun};

use crate::convert::convert;
use crate::error::RunError;
use crate::expression::{cel_map, to_cel};
use crate::inputs::Given;
use crate::plan::{Condition, NONE, Origin, PlanInner, ZonePlan};
use crate::run::graph_state::frame::{Key, Slot, Standing, StreamSlot};
use crate::run::graph_state::inputs::origin_value;
use crate::run::lifecycle::Opening;
use crate::run::scheduler::Scheduler;
use crate::run::workers::message::StreamWaker;
use crate::stream::Stream;

/// Next step of a zone.
enum Step {
    Start,
    Exit(LoopEnd),
    Fail(Box<RunError>),
}

impl Scheduler {
    /// Takes the first values and begins.
    pub(in crate::run) fn enter_zone(&mut self, plan: &PlanInner, key: Key, zone_ix: u32, given: Vec<Given>) {
        let zone = &plan.zones[zone_ix as usize];
        let span = self.span_of(key);
        let place = EventLocation { attempt: None, ..self.place(plan, key, span, None) };
        self.emit(place, EventBody::LoopEntered { mode: Arc::from(zone.spec.mode.as_str()) });
        let begun = first_state(zone, &given).and_then(|state| Ok((state, items(zone, &given)?)));
        let (state, items) = match begun {
            Ok(begun) => begun,
            Err(message) => {
                let error = self.zone_error(plan, key, NodeErrorKind::Failed, message);
                return self.exit_failed(plan, key, 0, LoopEnd::Error, error);
            }
        };
        let stream = self.open_zone_stream(plan, key);
        let collected = zone.collect.iter().map(|_| Vec::new()).collect();
        let run = ZoneRun {
            zone: zone_ix,
            given,
            state,
            items,
            started: 0,
            finished: 0,
            running: Vec::new(),
            collected,
            last: None,
            before: None,
            ended: None,
            stream,
        };
        self.zones.insert(key, Box::new(run));
        self.advance_zone(plan, key);
    }

    fn open_zone_stream(&mut self, plan: &PlanInner, key: Key) -> Option<Arc<Stream>> {
        let scope = &plan.scopes[self.frame(key)?.scope as usize];
        let out = scope.outs(&scope.nodes[key.node as usize]).iter().find(|out| out.stream)?;
        if let Slot::Stream(open) = &self.frame(key)?.slots[out.slot as usize] {
            // Another attempt: readers forget what the one before wrote.
            open.stream.retract();
            return Some(Arc::clone(&open.stream));
        }
        let readers = u32::try_from(scope.stream_readers.row(out.slot).len()).unwrap_or(NONE);
        let stream = Stream::new(readers, self.keeps || out.joined);
        let slot = StreamSlot { stream: Arc::clone(&stream), value: std::sync::OnceLock::new() };
        self.open_slot(plan, key, out.slot, Slot::Stream(Arc::new(slot)));
        Some(stream)
    }

    /// Starts the passes that may start, or ends the zone.
    pub(in crate::run) fn advance_zone(&mut self, plan: &PlanInner, key: Key) {
        loop {
            let Some(run) = self.zones.get(&key) else { return };
            let zone = &plan.zones[run.zone as usize];
            let step = self.next_step(plan, key, run, zone);
            let Some(run) = self.zones.get(&key) else { return };
            match step {
                Step::Start if run.running.len() < zone.spec.parallel && self.has_room(key, run) => {
                    self.start_pass(plan, key);
                }
                Step::Exit(why) if run.running.is_empty() => return self.exit_zone(plan, key, why),
                Step::Start | Step::Exit(_) => return,
                Step::Fail(error) => return self.fail_zone(plan, key, *error),
            }
        }
    }

    /// Returns `true` if the readers of the zone's stream are close enough for another pass. If not, the run
    /// is notified later.
    fn has_room(&self, key: Key, run: &ZoneRun) -> bool {
        // Recorded passes have happened.
        let Some(stream) = run.stream.as_ref().filter(|_| self.replay.is_none()) else { return true };
        stream.has_room(|| Waker::from(Arc::new(StreamWaker { run: Arc::downgrade(&self.shared), key })))
    }

    /// Returns `true` if a zone waits between two passes for capacity of its stream.
    pub(in crate::run) fn has_held_zone(&self) -> bool {
        self.zones.values().any(|run| run.running.is_empty() && run.stream.is_some())
    }

    /// Zones that stood between two passes when a snapshot was taken begin the next one.
    pub(in crate::run) fn wake_held_zones(&mut self, plan: &PlanInner) {
        let held: Vec<Key> =
            self.zones.iter().filter(|(_, run)| run.running.is_empty()).map(|(key, _)| *key).collect();
        held.into_iter().for_each(|key| self.advance_zone(plan, key));
    }

    fn next_step(&self, plan: &PlanInner, key: Key, run: &ZoneRun, zone: &ZonePlan) -> Step {
        if let Some(why) = run.ended {
            return Step::Exit(why);
        }
        let (total, why) = run.total(zone);
        if total.is_some_and(|total| run.started >= total) {
            return Step::Exit(why);
        }
        if zone.spec.test == TestAt::Before && zone.condition.is_some() {
            return match self.is_over(plan, key, run, zone, run.started) {
                Ok(true) => Step::Exit(LoopEnd::Condition),
                Ok(false) => Step::Start,
                Err(error) => Step::Fail(error),
            };
        }
        Step::Start
    }

    fn start_pass(&mut self, plan: &PlanInner, key: Key) {
        let path = self.path(plan, key);
        let zone_span = self.span_of(key);
        let Some(run) = self.zones.get_mut(&key) else { return };
        let zone = &plan.zones[run.zone as usize];
        let number = run.started;
        run.started += 1;
        let (state, item) = (run.state.clone(), run.item(number));
        let remaining = run.total(zone).0.map(|total| total - 1 - number);
        let place = pass_place(Arc::clone(&path), number, 0, zone_span);
        let span = self.span_for(&place, &EventBody::LoopIterStarted {});
        let prefix = self.text(&[&path, "[", Digits::from_number(number).as_str(), "]/"]);
        let standing = Standing {
            scope: zone.scope,
            container: Some(key),
            prefix,
            pass: Some(number),
            iteration: Some(number),
            span,
        };
        let frame = self.add_frame(plan, standing, &plan.scopes[zone.scope as usize].needed);
        if let Some(run) = self.zones.get_mut(&key) {
            run.running.push(Pass { number, frame, span });
        }
        let place = pass_place(path, number, span, zone_span);
        self.emit(place, EventBody::LoopIterStarted {});
        // What the zone was given stands in its own frame; the body reads it from there or by its entries.
        let opening = Opening { inputs: &[], state: &state, index: number, item, remaining };
        self.open_frame(plan, frame, &opening);
    }

    /// All nodes of a pass are settled.
    pub(in crate::run) fn pass_complete(&mut self, plan: &PlanInner, at: u32) {
        let Some((key, pass)) = self.pass_of(at) else { return };
        let Some(run) = self.zones.get(&key) else { return };
        let zone = &plan.zones[run.zone as usize];
        let results = self.results(plan, at);
        let flag = |owner: &Self, origin: &Option<Origin>| {
            let frame = owner.frames[at as usize].as_deref();
            let value = origin.as_ref().zip(frame).and_then(|(origin, frame)| origin_value(frame, origin));
            value.is_some_and(|value| *value == Value::Bool(true))
        };
        let (breaks, continues) = (flag(self, &zone.break_if), flag(self, &zone.continue_if));
        let next = match self.next_state(at, run, zone) {
            Ok(next) => next,
            Err(message) => {
                let error = self.zone_error(plan, key, NodeErrorKind::Failed, message);
                return self.pass_failed(plan, at, RunError { iteration: Some(pass.number), ..error });
            }
        };
        let Some(run) = self.zones.get_mut(&key) else { return };
        let changed = changed_keys(zone, &run.state, &next);
        run.state = next;
        run.finished += 1;
        run.running.retain(|running| running.number != pass.number);
        if !continues {
            run.collect(zone, pass.number, &results);
        }
        let chunk = run.stream.is_some().then(|| chunk_of(&results)).flatten();
        if run.last.as_ref().is_none_or(|(last, _)| *last < pass.number) {
            run.before = run.last.take().map(|(_, outputs)| outputs);
            run.last = Some((pass.number, results));
        }
        if breaks {
            run.ended = Some(LoopEnd::Break);
        }
        self.drop_frame(at);
        self.pass_finished(plan, key, pass, changed);
        self.write_chunk(plan, key, chunk);
        self.test_after(plan, key, pass.number);
        self.advance_zone(plan, key);
    }

    /// Reads the condition after a pass, on the new state.
    fn test_after(&mut self, plan: &PlanInner, key: Key, pass: u64) {
        let Some(run) = self.zones.get(&key) else { return };
        let zone = &plan.zones[run.zone as usize];
        if run.ended.is_some() || zone.condition.is_none() || zone.spec.test != TestAt::After {
            return;
        }
        match self.is_over(plan, key, run, zone, pass) {
            Ok(false) => {}
            Ok(true) => {
                if let Some(run) = self.zones.get_mut(&key) {
                    run.ended = Some(LoopEnd::Condition);
                }
            }
            Err(error) => self.fail_zone(plan, key, *error),
        }
    }

    /// A node of a pass has failed and nothing in the pass handles it.
    pub(in crate::run) fn pass_failed(&mut self, plan: &PlanInner, at: u32, mut error: RunError) {
        let Some((key, pass)) = self.pass_of(at) else { return };
        let cause = error.path.clone().unwrap_or_else(|| Arc::from("error"));
        self.close_frame_why(plan, at, &cause, LoopEnd::Cancelled);
        let Some(run) = self.zones.get_mut(&key) else { return };
        run.running.retain(|running| running.number != pass.number);
        let zone = &plan.zones[run.zone as usize];
        if let Some(item) = run.item(pass.number) {
            error.details.entry("item").or_insert_with(|| (*item).clone());
        }
        let continues = match (zone.spec.mode, zone.spec.on_item_error, zone.spec.on_pass_error) {
            (ZoneMode::Each, OnItemError::Fail, _) => false,
            (ZoneMode::Each, OnItemError::Null, _) => {
                run.collected.iter_mut().for_each(|list| list.push((pass.number, Value::Null)));
                true
            }
            (ZoneMode::Each, OnItemError::Drop, _) => true,
            (ZoneMode::Until | ZoneMode::While | ZoneMode::Times, _, on_pass_error) => {
                on_pass_error == OnPassError::Continue
            }
        };
        run.finished += u64::from(continues);
        self.pass_finished(plan, key, pass, Vec::new());
        // A spent budget ends the run whatever a pass may lose.
        if continues && error.kind != "node_starts" {
            self.advance_zone(plan, key);
        } else {
            self.fail_zone(plan, key, error);
        }
    }

    fn pass_finished(&mut self, plan: &PlanInner, key: Key, pass: Pass, changed: Vec<Arc<str>>) {
        let zone_span = self.span_of(key);
        let place = pass_place(self.path(plan, key), pass.number, pass.span, zone_span);
        self.emit(place, EventBody::LoopIterFinished { changed });
        self.consider_snapshot();
    }

    fn write_chunk(&mut self, plan: &PlanInner, key: Key, chunk: Option<Arc<str>>) {
        let Some(text) = chunk else { return };
        let Some(stream) = self.zones.get(&key).and_then(|run| run.stream.clone()) else { return };
        stream.push_now(Arc::clone(&text));
        stream.see(&mut Vec::new());
        let place = self.place(plan, key, self.span_of(key), None);
        self.emit(place, EventBody::NodeChunk { slot: Arc::from("stream"), text });
    }

    fn pass_of(&self, at: u32) -> Option<(Key, Pass)> {
        let key = self.frames[at as usize].as_deref()?.container?;
        let pass = self.zones.get(&key)?.running.iter().find(|pass| pass.frame == at)?;
        Some((key, *pass))
    }

    /// The carried values of the next pass; a key that nothing fills keeps its value.
    fn next_state(&self, at: u32, run: &ZoneRun, zone: &ZonePlan) -> Result<Vec<Arc<Value>>, String> {
        let Some(frame) = self.frames[at as usize].as_deref() else { return Ok(run.state.clone()) };
        let filled = zone.next.iter().zip(&run.state).zip(&zone.spec.state);
        let value =
            |((next, old), state): ((&Option<Origin>, &Arc<Value>), &workflow_model::StateKey)| match next
                .as_ref()
                .and_then(|origin| origin_value(frame, origin))
            {
                Some(value) => convert(&value, state.data_flow_type)
                    .map_err(|fault| format!("the carried value `{}` {fault}", state.key)),
                None => Ok(Arc::clone(old)),
            };
        filled.map(value).collect()
    }

    /// Evaluates the condition; `true` ends the zone.
    fn is_over(
        &self,
        plan: &PlanInner,
        key: Key,
        run: &ZoneRun,
        zone: &ZonePlan,
        index: u64,
    ) -> Result<bool, Box<RunError>> {
        let failed = |message: String| {
            let error = self.zone_error(plan, key, NodeErrorKind::Condition, message);
            Box::new(RunError { iteration: Some(index), ..error })
        };
        let holds = match &zone.condition {
            None => return Ok(false),
            Some(Condition::Key(which, name)) => match run.key_value(plan, zone, *which) {
                Some(value) => value
                    .as_bool()
                    .ok_or_else(|| failed(format!("the condition `{name}` is {value}, not true or false")))?,
                None => return Err(failed(format!("the condition `{name}` has no value in this pass"))),
            },
            Some(Condition::Expression(expression)) => {
                let decided = expression.decide(|name| match name {
                    "state" => {
                        let wanted = expression.members("state");
                        let used = |key: &&Arc<str>| wanted.is_none_or(|wanted| wanted.contains(&***key));
                        let values = zone.keys.iter().zip(&run.state).filter(|(key, _)| used(key));
                        Some(cel_map(values.map(|(key, value)| (&**key, to_cel(value)))))
                    }
                    "index" => Some(to_cel(&index.into())),
                    "item" => Some(run.item(index).map_or(cel::Value::Null, |item| to_cel(&item))),
                    "out" => Some(outputs_map(run.last.as_ref().map(|(_, outputs)| outputs))),
                    "last" => Some(outputs_map(run.before.as_ref())),
                    "vars" => Some(to_cel(&plan.variables)),
                    "inputs" => Some(to_cel(&self.given_inputs(plan, key, run))),
                    _ => None,
                });
                decided.map_err(|error| failed(error.to_string()))?
            }
        };
        Ok(holds != (zone.spec.mode == ZoneMode::While))
    }

    fn given_inputs(&self, plan: &PlanInner, key: Key, run: &ZoneRun) -> Value {
        let Some(frame) = self.frame(key) else { return Value::Null };
        let node = &plan.scopes[frame.scope as usize].nodes[key.node as usize];
        self.inputs(frame.scope, node, run.given.clone()).for_expressions()
    }

    fn zone_error(&self, plan: &PlanInner, key: Key, kind: NodeErrorKind, message: String) -> RunError {
        RunError {
            path: Some(self.path(plan, key)),
            iteration: self.frame(key).and_then(|frame| frame.iteration),
            ..RunError::new(kind.as_str(), message)
        }
    }

    /// The zone has had its last pass.
    fn exit_zone(&mut self, plan: &PlanInner, key: Key, why: LoopEnd) {
        let Some(run) = self.zones.remove(&key) else { return };
        let zone = &plan.zones[run.zone as usize];
        if why == LoopEnd::Max && zone.spec.on_max == OnMax::Fail {
            let limit = zone.spec.max_iterations.unwrap_or(run.finished);
            let message = format!("the condition did not hold within {limit} passes");
            let mut error = self.zone_error(plan, key, NodeErrorKind::MaxPasses, message);
            error.limit = Some(limit);
            error.details.insert("state".to_owned(), Value::Object(state_map(zone, &run.state)));
            return self.exit_failed(plan, key, run.finished, why, error);
        }
        self.exited(plan, key, run.finished, why);
        let outputs = run.outputs(zone);
        let note = self.container_note(key);
        let span = self.leave_container(key);
        self.finished(plan, key, span, &outputs, &note);
    }

    fn exited(&mut self, plan: &PlanInner, key: Key, passes: u64, why: LoopEnd) {
        let span = self.span_of(key);
        let place = EventLocation { attempt: None, ..self.place(plan, key, span, None) };
        self.emit(place, EventBody::LoopExited { passes, why });
    }

    /// The zone fails; its other passes are cancelled.
    fn fail_zone(&mut self, plan: &PlanInner, key: Key, error: RunError) {
        let cause = error.path.clone().unwrap_or_else(|| Arc::from("error"));
        let passes = self.close_passes(plan, key, &cause);
        self.exit_failed(plan, key, passes, LoopEnd::Error, error);
    }

    fn exit_failed(&mut self, plan: &PlanInner, key: Key, passes: u64, why: LoopEnd, error: RunError) {
        self.exited(plan, key, passes, why);
        self.container_failed(plan, key, error);
    }

    /// Cancels the passes that are on; says how many were done. The zone is gone afterwards.
    fn close_passes(&mut self, plan: &PlanInner, key: Key, cause: &Arc<str>) -> u64 {
        let Some(run) = self.zones.remove(&key) else { return 0 };
        for pass in &run.running {
            self.close_frame(plan, pass.frame, cause);
            self.pass_finished(plan, key, *pass, Vec::new());
        }
        run.finished
    }

    /// The zone is cancelled, or the run ends around it.
    pub(in crate::run) fn close_zone(&mut self, plan: &PlanInner, key: Key, cause: &Arc<str>, why: LoopEnd) {
        if self.zones.contains_key(&key) {
            let passes = self.close_passes(plan, key, cause);
            self.exited(plan, key, passes, why);
        }
    }

    /// A node inside ends the innermost zone around it.
    pub(in crate::run) fn stop_loop(&mut self, plan: &PlanInner, key: Key) {
        let mut at = key;
        let zone = loop {
            let Some(container) = self.frame(at).and_then(|frame| frame.container) else { return };
            if self.zones.contains_key(&container) {
                break container;
            }
            at = container;
        };
        let cause: Arc<str> = Arc::from("stop");
        let Some(run) = self.zones.get_mut(&zone) else { return };
        let running = std::mem::take(&mut run.running);
        run.finished += running.len() as u64;
        for pass in running {
            self.close_frame(plan, pass.frame, &cause);
            self.pass_finished(plan, zone, pass, Vec::new());
        }
        self.exit_zone(plan, zone, LoopEnd::Break);
    }
}
