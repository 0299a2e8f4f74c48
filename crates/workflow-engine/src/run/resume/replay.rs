//! Replay of a log, to resume a run: recorded events are applied without executing nodes and without emitting again.
//!
//! Only what came from outside is taken from the log: that a node started, what it gave or how it failed, what was
//! answered. What follows from that (skipped nodes, passes, ends of zones) is worked out anew by the same code as
//! ever; an event of it that the log has is not emitted twice, one that the log lacks is emitted when the run resumes.

use std::sync::Arc;

use agent_types::{
    AskKind, AskSummary, EventBody, EventLocation, LoopEnd, NodeErrorKind, OtherOutputs, ReplayData,
    ResumeLog, StoredEvent,
};
use serde_json::Value;

use crate::error::RunError;
use crate::outputs::{Outputs, StopScope};
use crate::plan::{Kind, PlanInner};
use crate::run::graph_state::frame::{Key, NodeState};
use crate::run::graph_state::inputs::collect_inputs;
use crate::run::lifecycle::Ending;
use crate::run::resume::checkpoint::SavedWork;
use crate::run::resume::inner::is_inner;
use crate::run::resume::replay_index::ReplayIndex;
use crate::run::resume::restart::AtWork;
use crate::run::scheduler::{OpenAsk, Scheduler, Timer};
use crate::run::workers::attempt::Failure;
use crate::run::workers::mailbox::{AskedCall, call_of};
use crate::run::workers::permits::Claim;
use crate::run::workers::start::policy;

/// A recorded question: its id, what it asks, and the call that it is about.
type Asked<'e> = (&'e Arc<str>, Option<&'e str>, Option<AskedCall>);

/// The cause of nodes that were running when the process ended.
const INTERRUPTED: &str = "interrupted";

impl Scheduler {
    /// Replays the log, emits that the run resumes, and queues the nodes that were running.
    pub(in crate::run) fn replay_log(
        &mut self,
        plan: &PlanInner,
        log: ResumeLog,
    ) -> Result<(), Box<RunError>> {
        self.answers = log.answers;
        self.replay = Some(Box::new(ReplayIndex::new(&log.events)));
        match &log.snapshot {
            Some((_, state)) => self.restore(plan, state)?,
            None => self.begin(plan),
        }
        for kept in &log.events {
            self.drain(plan);
            self.redo(plan, kept);
        }
        self.drain(plan);
        let Some(mut replay) = self.replay.take() else { return Ok(()) };
        self.pasts.extend(std::mem::take(&mut replay.inner));
        let mut at_work: Vec<(Key, AtWork)> = std::mem::take(&mut replay.at_work).into_iter().collect();
        at_work.retain(|(key, _)| self.is_running(*key));
        at_work.sort_by_key(|(_, at_work)| at_work.span);
        let over = self.ending.is_some();
        for (key, node) in &at_work {
            if over && let Some(frame) = self.frame_mut(*key) {
                frame.finish_node(key.node);
            }
            if node.closed || !over && (!node.called || self.has_asked(*key)) {
                continue;
            }
            let place = self.place(plan, *key, node.span, Some(node.attempt));
            self.emit(place, EventBody::NodeCancelled { cause: Arc::from(INTERRUPTED) });
        }
        if !self.options.nested {
            let cause = if self.was_waiting { "waiting" } else { INTERRUPTED };
            self.emit(EventLocation::default(), EventBody::RunResumed { cause: Some(cause.to_owned()) });
        }
        self.was_waiting = false;
        self.drafts.append(&mut replay.journal.take_missing());
        // The log may have some of the last events already.
        self.pending_log = over.then_some(replay.journal);
        for (key, node) in at_work.into_iter().rev().filter(|_| !over) {
            self.resume_node(plan, key, node);
        }
        Ok(())
    }

    /// Restores the nodes that were running at a checkpoint, and the frames by their prefix.
    pub(in crate::run) fn restore_work(&mut self, at_work: Vec<SavedWork>) {
        let Some(replay) = &mut self.replay else { return };
        let at_work = at_work.into_iter().map(|work| {
            let SavedWork { key, span, attempt, interrupted } = work;
            (key, AtWork { span, attempt, interrupted, closed: false, called: true, asked: false })
        });
        replay.at_work.extend(at_work);
        // A node that asked and was not run since counts as running as well.
        for ask in &self.asks {
            let node = AtWork {
                span: ask.span,
                attempt: ask.attempt,
                interrupted: 0,
                closed: false,
                called: true,
                asked: true,
            };
            replay.at_work.entry(ask.key).or_insert(node);
        }
        for (at, frame) in (0..).zip(&self.frames) {
            if let Some(frame) = frame.as_deref().filter(|_| !self.free.contains(&at)) {
                replay.frames.insert(Arc::clone(&frame.prefix), at);
            }
        }
    }

    /// Tells a fact of the end of the run, unless the log has it.
    pub(in crate::run) fn emit_once(&mut self, place: EventLocation, body: EventBody) {
        let is_recorded = self.pending_log.as_mut().is_some_and(|log| log.take(&place, &body).is_some());
        if !is_recorded {
            self.emit(place, body);
        }
    }

    /// Propagates known ends until nothing follows any more, without starting nodes.
    fn drain(&mut self, plan: &PlanInner) {
        while self.ending.is_none() {
            if let Some(key) = self.skips.pop_front() {
                self.skip_queued(plan, key);
            } else if let Some(key) = self.complete.pop_front() {
                self.frame_complete(plan, key);
            } else {
                return;
            }
        }
    }

    /// The node that an event is about, if it stands in a pass that is on.
    pub(in crate::run) fn find(&mut self, plan: &PlanInner, path: &str) -> Option<Key> {
        let replay = self.replay.as_mut()?;
        let cuts = path.char_indices().rev().filter(|(_, c)| *c == '/').map(|(at, _)| at + 1);
        for cut in cuts.chain([0]) {
            let (prefix, rest) = path.split_at(cut);
            let Some(at) = replay.frames.get(prefix) else { continue };
            let Some(frame) = self.frames[*at as usize].as_deref() else { continue };
            let nodes = replay.nodes.entry(frame.scope).or_insert_with(|| {
                let nodes = &plan.scopes[frame.scope as usize].nodes;
                (0..).zip(nodes).map(|(at, node)| (Arc::clone(&node.path), at)).collect()
            });
            if let Some(node) = nodes.get(rest) {
                return Some(Key { frame: *at, generation: frame.generation, node: *node });
            }
        }
        None
    }

    fn state_of(&self, key: Key) -> NodeState {
        self.frame(key).map_or(NodeState::Settled, |frame| frame.state[key.node as usize])
    }

    /// Applies an event that came from outside and is not known yet.
    fn redo(&mut self, plan: &PlanInner, kept: &StoredEvent) {
        match &kept.event.body {
            EventBody::RunWaiting { .. } => self.was_waiting = true,
            EventBody::RunResumed { .. } => self.was_waiting = false,
            _ => {}
        }
        if is_inner(kept) {
            return self.redo_inner(plan, kept);
        }
        let Some(path) = kept.event.place.path.clone() else { return };
        let Some(key) = self.find(plan, &path) else { return };
        if self.state_of(key) == NodeState::Dormant && needs_node(&kept.event.body) {
            // Somebody asked for it.
            self.waken(plan, key);
            self.drain(plan);
        }
        if self.state_of(key) == NodeState::Settled {
            return;
        }
        let Some(frame) = self.frame(key) else { return };
        let kind = plan.scopes[frame.scope as usize].nodes[key.node as usize].kind;
        match kind {
            Kind::Run(_) | Kind::Bypass(_) | Kind::Muted => self.redo_node(plan, key, kept),
            Kind::Call(_) | Kind::Zone(_) => self.redo_container(plan, key, kept),
        }
    }

    fn redo_node(&mut self, plan: &PlanInner, key: Key, kept: &StoredEvent) {
        let (place, record) = (&kept.event.place, kept.record.as_ref());
        let taken = |owner: &mut Self| {
            if let Some(replay) = &mut owner.replay {
                replay.journal.take(place, &kept.event.body);
            }
        };
        match &kept.event.body {
            EventBody::NodeStarted { node_type } => {
                taken(self);
                self.redo_start(plan, key, place, node_type.is_some());
            }
            EventBody::NodeChunk { slot, text } => {
                taken(self);
                self.redo_chunk(plan, key, slot, text);
            }
            EventBody::NodeRetrying { .. } => {
                taken(self);
                self.retract_streams(plan, key);
                if let Some(node) = self.replay.as_mut().and_then(|replay| replay.at_work.get_mut(&key)) {
                    node.attempt = place.attempt.unwrap_or(node.attempt) + 1;
                }
            }
            EventBody::NodeFinished { value, outputs, handled, .. } => {
                taken(self);
                self.forget(key);
                self.count_again(record);
                if handled.as_deref() == Some("skip") {
                    self.end_readers(plan, key);
                    return self.settle_without_outputs(plan, key);
                }
                if handled.as_deref() == Some("branch") {
                    self.end_readers(plan, key);
                }
                let outputs = outputs_of(value.as_ref(), outputs.as_ref(), record);
                self.fill(plan, key, &outputs, handled.as_deref());
                self.after_end(plan, key, &outputs);
            }
            EventBody::NodeCached { value, outputs, .. } => {
                taken(self);
                let outputs = outputs_of(value.as_ref(), outputs.as_ref(), record);
                self.fill(plan, key, &outputs, None);
            }
            EventBody::NodeFailed { kind, message, limit_ms, attempts, detached } => {
                self.forget(key);
                self.count_again(record);
                let failure = Failure {
                    limit_ms: *limit_ms,
                    attempt: attempts.unwrap_or(1),
                    detached: detached.unwrap_or(false),
                    code: record.and_then(|record| record.how.as_deref()).map(str::to_owned),
                    ..Failure::new(*kind, message.clone())
                };
                self.failed(plan, key, place.span, &failure);
            }
            EventBody::NodeSkipped { cause } => self.skip(plan, key, Arc::clone(cause)),
            EventBody::NodeCancelled { cause } => self.redo_cancel(plan, key, place, cause),
            EventBody::NodeWaiting { ask, prompt, unknown_effect } => {
                taken(self);
                let unknown = unknown_effect.unwrap_or(false);
                self.redo_ask(key, place, (ask, prompt.as_deref(), call_of(record)), unknown);
            }
            _ => {}
        }
    }

    fn count_again(&mut self, record: Option<&ReplayData>) {
        if let Some(usage) = record.and_then(|record| record.usage) {
            self.count(usage);
        }
    }

    fn redo_start(&mut self, plan: &PlanInner, key: Key, place: &EventLocation, called: bool) {
        let Some(frame) = self.frame_mut(key) else { return };
        frame.state[key.node as usize] = NodeState::Running;
        let scope = frame.scope as usize;
        if let Kind::Run(node_type) = plan.scopes[scope].nodes[key.node as usize].kind
            && called
        {
            self.open_streams(plan, key, &plan.types[node_type as usize].streams, place);
        }
        self.starts += 1;
        let Some(replay) = &mut self.replay else { return };
        let attempt = place.attempt.unwrap_or(1);
        let before = replay.at_work.get(&key);
        let (interrupted, asked) = before.map_or((0, false), |node| (node.interrupted + 1, node.asked));
        let node = AtWork { span: place.span, attempt, interrupted, closed: false, called, asked };
        replay.at_work.insert(key, node);
    }

    /// Readers that have not ended read what was written once more.
    fn redo_chunk(&self, plan: &PlanInner, key: Key, slot: &str, text: &Arc<str>) {
        let Some(frame) = self.frame(key) else { return };
        let scope = &plan.scopes[frame.scope as usize];
        let mut outs = scope.outs(&scope.nodes[key.node as usize]).iter();
        let out = outs.find(|out| *plan.names[out.name as usize] == *slot);
        if let Some(open) = out.and_then(|out| self.open_stream(key, out.slot)) {
            open.stream.push_now(Arc::clone(text));
            open.stream.see(&mut Vec::new());
        }
    }

    /// Retracts the chunks that the previous attempt wrote.
    pub(in crate::run) fn retract_streams(&self, plan: &PlanInner, key: Key) {
        for (_, open) in self.open_slots(plan, key) {
            open.stream.retract();
        }
    }

    fn redo_cancel(&mut self, plan: &PlanInner, key: Key, place: &EventLocation, cause: &Arc<str>) {
        let body = EventBody::NodeCancelled { cause: Arc::clone(cause) };
        if **cause == *INTERRUPTED {
            if let Some(replay) = &mut self.replay {
                replay.journal.take(place, &body);
                if let Some(node) = replay.at_work.get_mut(&key) {
                    node.closed = true;
                }
            }
            return;
        }
        match &**cause {
            "cancelled" => self.ending = Some(Ending::Cancelled),
            "deadline" => self.ending = Some(Ending::Deadline),
            _ => {}
        }
        if self.ending.is_some() {
            self.forget(key);
            self.abandon(plan, key, cause, LoopEnd::Cancelled);
            return;
        }
        let inside = place.path.as_deref().and_then(|path| path.strip_prefix(&**cause));
        if inside.is_some_and(|rest| rest.starts_with(['[', '/']))
            && let Some(container) = self.find(plan, cause)
        {
            return self.time_out(plan, container);
        }
        self.cancel_node(plan, key, cause);
    }

    /// A container was ended by a limit of time; what the log says of it shows which.
    fn time_out(&mut self, plan: &PlanInner, key: Key) {
        let place = self.place(plan, key, 0, None);
        let kind = NodeErrorKind::Timeout;
        let next =
            |body: EventBody| self.replay.as_ref().and_then(|replay| replay.journal.peek(&place, &body));
        let retrying = next(EventBody::NodeRetrying { kind, message: String::new(), delay_ms: 0 });
        let failed = next(EventBody::NodeFailed {
            kind,
            message: String::new(),
            limit_ms: None,
            attempts: None,
            detached: None,
        });
        let handled = next(EventBody::node_finished(None));
        let last = [failed, handled].into_iter().flatten().min();
        let again = retrying.is_some_and(|retrying| last.is_none_or(|last| retrying < last));
        let attempt = self.containers.get(&key).map_or(1, |container| container.attempt);
        self.timer_fired(plan, key, if again { Timer::Attempt(attempt) } else { Timer::Total });
    }

    fn redo_ask(&mut self, key: Key, place: &EventLocation, asked: Asked<'_>, unknown: bool) {
        let (ask, prompt, call) = asked;
        *self.asked.entry(key).or_default() += 1;
        if !unknown && self.asks.iter().any(|own| own.summary.ask == *ask) {
            return;
        }
        if let Some(node) = self.replay.as_mut().and_then(|replay| replay.at_work.get_mut(&key)) {
            node.asked |= !unknown;
        }
        let kind = call.as_ref().map_or(AskKind::Question, |(kind, ..)| *kind);
        let (tool, arguments) = call.map(|(_, tool, arguments)| (tool, arguments)).unzip();
        let summary = AskSummary {
            ask: Arc::clone(ask),
            kind,
            tool,
            arguments,
            path: place.path.clone(),
            prompt: prompt.map(str::to_owned),
        };
        if unknown {
            // It is asked again when the run resumes.
            self.asked.remove(&key);
            return;
        }
        self.asks.push(OpenAsk {
            key,
            summary,
            reply: None,
            unknown_effect: false,
            span: place.span,
            attempt: place.attempt.unwrap_or(1),
        });
    }

    /// Ends a node and closes its open questions.
    fn forget(&mut self, key: Key) {
        self.asks.retain(|ask| ask.key != key);
        self.asked.remove(&key);
        if let Some(replay) = &mut self.replay {
            replay.at_work.remove(&key);
            replay.inner.remove(&key);
        }
    }

    fn redo_container(&mut self, plan: &PlanInner, key: Key, kept: &StoredEvent) {
        let place = &kept.event.place;
        match &kept.event.body {
            EventBody::NodeStarted { node_type: None } => self.redo_node(plan, key, kept),
            EventBody::NodeStarted { .. } if self.state_of(key) == NodeState::Queued => {
                let Some(frame) = self.frame(key) else { return };
                let scope = &plan.scopes[frame.scope as usize];
                let node = &scope.nodes[key.node as usize];
                // It was gathered before it started, so it can be again.
                let Ok(given) = collect_inputs(plan, frame, scope.inputs(node)) else { return };
                let group = policy(plan, node).and_then(|policy| policy.group);
                let claim = Claim { run: false, group };
                self.limits.take(claim);
                self.enter(plan, key, given, claim);
            }
            EventBody::NodeSkipped { cause } => self.skip(plan, key, Arc::clone(cause)),
            EventBody::NodeCancelled { cause } => self.redo_cancel(plan, key, place, cause),
            // It was refused before it was entered.
            EventBody::NodeFailed { .. } | EventBody::NodeFinished { .. }
                if !self.containers.contains_key(&key) =>
            {
                self.redo_node(plan, key, kept);
            }
            // What follows from its body is known by now; this came from a limit of its own.
            EventBody::NodeRetrying { .. }
            | EventBody::NodeFailed { .. }
            | EventBody::NodeFinished { .. }
                if self.replay.as_ref().is_some_and(|replay| replay.journal.holds(kept)) =>
            {
                self.time_out(plan, key);
            }
            _ => {}
        }
    }
}

/// Returns `true` if an event shows that its node is needed.
fn needs_node(body: &EventBody) -> bool {
    matches!(
        body,
        EventBody::NodeStarted { .. } | EventBody::NodeSkipped { .. } | EventBody::NodeCached { .. }
    )
}

/// Restores the outputs of a node from its event and the replay data.
fn outputs_of(
    value: Option<&Arc<Value>>,
    others: Option<&OtherOutputs>,
    record: Option<&ReplayData>,
) -> Outputs {
    let mut outputs = value.map_or_else(Outputs::none, |value| Outputs::shared(Arc::clone(value)));
    for (name, value) in others.iter().flat_map(|others| others.iter()) {
        outputs = outputs.with_shared(name.to_string(), Arc::clone(value));
    }
    outputs.stop = match record.and_then(|record| record.how.as_deref()) {
        Some("stop_run") => Some(StopScope::Run),
        Some("stop_loop") => Some(StopScope::Loop),
        Some(_) | None => None,
    };
    outputs
}

/// Returns the replay data of outputs, beyond the values in the event.
pub(in crate::run) fn record_of(outputs: &Outputs) -> Option<Box<ReplayData>> {
    let how = match outputs.stop? {
        StopScope::Run => "stop_run",
        StopScope::Loop => "stop_loop",
    };
    Some(Box::new(ReplayData { how: Some(Arc::from(how)), ..ReplayData::default() }))
}
