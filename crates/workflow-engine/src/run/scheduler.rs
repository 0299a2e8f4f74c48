//! The scheduler of a run: it decides which node is next and drives the parts of the run to its end.

use std::sync::Arc;

use agent_types::{EventBody, EventLocation, NodeErrorKind};
use serde_json::Value;
use tokio::task::JoinError;

use super::finalize::finalize;
use super::graph_state::frame::NodeState;
use super::lifecycle::begin;
use super::messages::read_messages;
use super::node_end::{complete, end_containers, ended, skip_queued};
use super::options::{OnWaiting, RunOptions};
use super::outcome::RunOutcome;
use super::resume::checkpoint::take_checkpoint;
use super::resume::replay::replay_log;
use super::shared::RunShared;
use super::start::{consider, enter, landed};
use super::state::{Ending, RunState};
use super::workers::Report;
use super::workers::failure::{Ended, Failure};
use super::zones::containers::timer_fired;
use crate::node::Node;

/// Steps after which others get a turn on this thread.
const STEPS: usize = 256;

/// Reason why the scheduler woke.
enum Woken {
    Cancelled,
    Deadline,
    Posted,
    Task(Option<Result<Report, JoinError>>),
}

/// Drives a run to its end.
pub(super) async fn drive(
    shared: &Arc<RunShared>,
    nodes: &[Arc<dyn Node>],
    arguments: Vec<Option<Arc<Value>>>,
    options: RunOptions,
) -> RunOutcome {
    let mut scheduler = Scheduler { run: RunState::new(shared, nodes, arguments, options) };
    scheduler.open();
    let mut deadline = scheduler.run.options.deadline.map(|limit| shared.clock.sleep(limit));
    while !scheduler.run.is_over() {
        scheduler.run_ready().await;
        if scheduler.run.is_over() || scheduler.nothing_left() {
            break;
        }
        scheduler.run.events.flush();
        let woken = tokio::select! {
            biased;
            () = shared.cancel.cancelled() => Woken::Cancelled,
            () = shared.inbox.filled() => Woken::Posted,
            task = scheduler.run.workers.join_next(), if scheduler.run.workers.has_tasks() => Woken::Task(task),
            () = until(&mut deadline) => Woken::Deadline,
        };
        scheduler.wake(woken);
    }
    finalize(scheduler.run).await
}

/// Ends when the deadline has passed; never without one.
async fn until(deadline: &mut Option<agent_types::Sleep>) {
    match deadline {
        Some(sleep) => sleep.await,
        None => std::future::pending().await,
    }
}

/// Drives the parts of a run. It is the only one that calls them from above.
struct Scheduler<'p> {
    run: RunState<'p>,
}

impl Scheduler<'_> {
    /// Begins the run, or resumes it from its log.
    fn open(&mut self) {
        match self.run.options.resume.take() {
            Some(log) => {
                if let Err(error) = replay_log(&mut self.run, *log) {
                    self.run.end.set(Ending::Failed(*error));
                }
            }
            None => begin(&mut self.run),
        }
    }

    /// Does everything that needs no waiting; others get their turn in between.
    async fn run_ready(&mut self) {
        let mut steps = 0;
        while !self.run.is_over() && self.step() {
            steps += 1;
            if self.run.events.take_due() {
                take_checkpoint(&mut self.run);
            }
            if steps % STEPS == 0 {
                self.run.events.flush();
                if let Some(caught_up) = self.run.events.catch_up() {
                    // A fault is seen with the next events.
                    let _ = caught_up.await;
                }
                self.see_cancelled();
                tokio::task::yield_now().await;
                read_messages(&mut self.run);
            }
        }
        self.see_cancelled();
    }

    fn see_cancelled(&mut self) {
        if !self.run.is_over() && self.run.shared.cancel.is_cancelled() {
            self.run.end.set(Ending::Cancelled);
        }
    }

    /// One piece of work that needs no waiting; false if there is none.
    fn step(&mut self) -> bool {
        let run = &mut self.run;
        if let Some(key) = run.graph.queues().next_skip() {
            skip_queued(run, key);
        } else if let Some(key) = run.graph.queues().next_complete() {
            complete(run, key);
        } else if let Some((claim, parked)) = run.workers.permits().unpark() {
            if run.graph.state(parked.key) == NodeState::Queued {
                enter(run, parked.key, parked.inputs, claim);
            } else {
                run.workers.permits().leave(claim);
            }
        } else if let Some(key) = run.graph.queues().next_ready() {
            if run.graph.state(key) == NodeState::Queued {
                consider(run, key);
            }
        } else {
            return false;
        }
        true
    }

    fn wake(&mut self, woken: Woken) {
        match woken {
            Woken::Cancelled => self.run.end.set(Ending::Cancelled),
            Woken::Deadline => self.run.end.set(Ending::Deadline),
            Woken::Posted => read_messages(&mut self.run),
            Woken::Task(task) => {
                // What a node said before it ended comes before its end.
                read_messages(&mut self.run);
                match task {
                    Some(Ok(report)) => self.take_report(report),
                    Some(Err(error)) => self.take_lost(&error),
                    None => {}
                }
            }
        }
    }

    /// A task is done: its result counts unless the node was settled by something else.
    fn take_report(&mut self, report: Report) {
        let run = &mut self.run;
        match report {
            Report::Node(key, end) => {
                if let Some(start) = run.workers.finish(key) {
                    ended(run, key, start, end);
                }
            }
            Report::Timer(key, timer) => {
                let end = timer_fired(run, key, timer);
                end_containers(run, end);
            }
            Report::Flight(key, result) => landed(run, key, result),
        }
    }

    /// A task panicked outside of the node's own code, as when its future is dropped: the node has failed.
    fn take_lost(&mut self, error: &JoinError) {
        let Some((key, attempt)) = self.run.workers.lost(error) else { return };
        let failure = Failure { attempt, ..Failure::new(NodeErrorKind::Panic, error.to_string()) };
        self.take_report(Report::Node(key, Ended { result: Err(failure), attempt }));
    }

    /// Returns `true` if the run is over, or waits for answers only, and then sets its ending.
    fn nothing_left(&mut self) -> bool {
        let run = &mut self.run;
        if !run.asks.is_empty() && run.workers.all_paused() && !run.graph.has_pullers() {
            self.note_waiting();
            let ends = self.run.options.on_waiting == OnWaiting::End;
            if ends {
                self.run.end.set(Ending::Waiting);
            }
            return ends;
        }
        if !run.workers.is_idle() || run.zones.has_held_zone() {
            // Only threads that were given up hold permits, or read; they say when they are done.
            return false;
        }
        // The root frame would have ended the run if it were complete.
        run.end.set(Ending::Stalled);
        true
    }

    fn note_waiting(&mut self) {
        if !self.run.asks.set_waiting(true) && !self.run.options.nested {
            let asks = self.run.asks.summaries();
            self.run.events.emit(EventLocation::default(), EventBody::RunWaiting { exit: None, asks });
        }
    }
}

#[cfg(test)]
mod stalled;
