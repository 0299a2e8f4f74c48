//! The end of a run: what it is called, what it gave, and the last events.

use std::sync::Arc;

use agent_types::{EventBody, EventLocation, EventPersister, LoopEnd, NodeErrorKind, ReplayData, RunStatus};
use serde_json::{Map, Value};

use crate::context::millis;
use crate::error::RunError;
use crate::plan::PlanInner;
use crate::run::graph_state::frame::Key;
use crate::run::lifecycle::Ending;
use crate::run::outcome::RunOutcome;
use crate::run::scheduler::Scheduler;

impl Scheduler {
    /// The last events, after everything has really stopped.
    pub(super) async fn end(mut self, plan: &PlanInner) -> RunOutcome {
        self.tasks.shutdown().await;
        self.read_messages(plan);
        let ending = self.ending.take().unwrap_or(Ending::Cancelled);
        let asks = match ending {
            Ending::Waiting => self.asks.iter().map(|ask| ask.summary.clone()).collect(),
            _ => Vec::new(),
        };
        let (mut status, mut error, stopped, cause, why) = self.final_status(plan, ending);
        if status != RunStatus::Waiting {
            self.end_results(plan, &cause);
            self.close_root(plan, &cause, why);
        }
        let outputs = self.outputs(plan);
        if status != RunStatus::Waiting && !self.options.nested {
            let body = EventBody::RunFinished {
                status,
                exit: None,
                kind: error.as_ref().map(|error| error.kind.clone()),
                partial: None,
                message: error.as_ref().map(ToString::to_string),
            };
            let values = outputs.iter().filter(|_| self.keeps);
            let values =
                values.map(|(name, value)| (name.as_str().into(), Arc::new(value.clone()))).collect();
            let record = self.keeps.then(|| Box::new(ReplayData::from_values(values)));
            self.emit_with(EventLocation::default(), body, record);
        }
        self.flush();
        // What the outcome says is safe.
        if let Some(durable) = self.shared.sink.keeper().map(EventPersister::durable)
            && let Err(fault) = durable.await
        {
            status = RunStatus::Error;
            error = Some(RunError::new(fault.code, fault.message));
        }
        let run = self.shared.sink.run().clone();
        RunOutcome { run, status, outputs, error, stopped, asks, usage: self.usage, node_starts: self.starts }
    }

    /// Status, error, value of a stop, and what cancelled nodes name as their cause.
    fn final_status(
        &mut self,
        plan: &PlanInner,
        ending: Ending,
    ) -> (RunStatus, Option<RunError>, Option<Arc<Value>>, Arc<str>, LoopEnd) {
        match ending {
            Ending::Complete => match self.first_error.take() {
                None => (RunStatus::Ok, None, None, Arc::from(""), LoopEnd::Cancelled),
                Some(error) => {
                    let cause = error.path.clone().unwrap_or_else(|| Arc::from("error"));
                    (RunStatus::Error, Some(error), None, cause, LoopEnd::Error)
                }
            },
            Ending::Failed(error) => {
                let cause = error.path.clone().unwrap_or_else(|| Arc::from("error"));
                (RunStatus::Error, Some(error), None, cause, LoopEnd::Error)
            }
            Ending::Stopped(value) => {
                (RunStatus::Ok, None, Some(value), Arc::from("stop"), LoopEnd::Cancelled)
            }
            Ending::Cancelled => {
                (RunStatus::Cancelled, None, None, Arc::from("cancelled"), LoopEnd::Cancelled)
            }
            Ending::Deadline => {
                let limit = millis(self.options.deadline.unwrap_or_default());
                let kind = NodeErrorKind::Timeout.as_str();
                let error = RunError {
                    limit: Some(limit),
                    ..RunError::new(kind, format!("the run was not done within {limit} ms"))
                };
                (RunStatus::Error, Some(error), None, Arc::from("deadline"), LoopEnd::Cancelled)
            }
            Ending::Stalled => {
                let nodes = self.unsettled_paths(plan);
                let message = format!("nothing runs and these nodes are not settled: {}", nodes.join(", "));
                let mut error = RunError::new(NodeErrorKind::Stalled.as_str(), message);
                error.details.insert("nodes".to_owned(), nodes.into());
                (RunStatus::Error, Some(error), None, Arc::from("stalled"), LoopEnd::Error)
            }
            Ending::Waiting => (RunStatus::Waiting, None, None, Arc::from(""), LoopEnd::Cancelled),
        }
    }

    fn unsettled_paths(&self, plan: &PlanInner) -> Vec<String> {
        let Some(frame) = self.frames.first().and_then(Option::as_deref) else { return Vec::new() };
        let key = |node| Key { frame: 0, generation: frame.generation, node };
        frame.unsettled().take(20).map(|node| self.path(plan, key(node)).to_string()).collect()
    }

    /// The nodes that stand for the results end with the run.
    fn end_results(&mut self, plan: &PlanInner, cause: &Arc<str>) {
        let complete =
            self.frames.first().and_then(Option::as_deref).is_some_and(|frame| frame.remaining == 0);
        let any = !self.outputs(plan).is_empty() || plan.scopes[0].results.is_empty();
        for path in &plan.output_nodes {
            let place =
                EventLocation { path: Some(Arc::clone(path)), parent: Some(0), ..EventLocation::default() };
            if complete && any {
                let started = EventBody::NodeStarted { node_type: Some(Arc::from("core:GroupOutput")) };
                let span = self.span_for(&place, &started);
                let place = EventLocation { attempt: Some(1), span, ..place };
                self.emit_once(place.clone(), started);
                let finished = EventBody::node_finished(None);
                self.emit_once(place, finished);
                continue;
            }
            let body = if complete && cause.is_empty() {
                let cause = self.causes.last().cloned().unwrap_or_else(|| Arc::from(""));
                EventBody::NodeSkipped { cause }
            } else {
                EventBody::NodeCancelled { cause: Arc::clone(cause) }
            };
            let span = self.shared.sink.new_span();
            self.emit_once(EventLocation { span, ..place }, body);
        }
    }

    fn close_root(&mut self, plan: &PlanInner, cause: &Arc<str>, why: LoopEnd) {
        let Some(frame) = self.frames.first().and_then(Option::as_deref) else { return };
        let generation = frame.generation;
        let open: Vec<u32> = frame.unsettled().collect();
        for node in open {
            self.abandon(plan, Key { frame: 0, generation, node }, cause, why);
        }
    }

    fn outputs(&self, plan: &PlanInner) -> Map<String, Value> {
        let wanted =
            |name: &str| self.options.want.as_ref().is_none_or(|want| want.iter().any(|own| own == name));
        let results = plan.scopes[0].results.iter().filter(|result| wanted(&result.name));
        results
            .filter_map(|result| Some((result.name.to_string(), (*self.result(0, result)?).clone())))
            .collect()
    }
}
