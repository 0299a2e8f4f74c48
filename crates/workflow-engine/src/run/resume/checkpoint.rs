//! The whole state of a run as text, so that a long run can resume without all of its log.

use std::sync::Arc;

use agent_types::Usage;
use run_journal::CheckpointFrame;
use serde::{Deserialize, Serialize};

use super::replay_index::AtWork;
use crate::error::RunError;
use crate::plan::Plan;
use crate::plan::data::PlanData;
use crate::run::asks::SavedAsks;
use crate::run::graph_state::checkpoint::SavedGraph;
use crate::run::node_end::end_containers;
use crate::run::state::RunState;
use crate::run::workers::{SavedWork, Timer};
use crate::run::zones::containers::{restore_containers, timer_fired};
use crate::run::zones::passes::advance_zone;
use crate::run::zones::state::SavedZones;

const VERSION: u32 = 2;

/// Returns the frame of the checkpoints of a plan.
fn frame_of(plan: &PlanData) -> CheckpointFrame {
    CheckpointFrame { version: VERSION, layout: plan.layout() }
}

#[derive(Serialize, Deserialize)]
struct Saved {
    usage: Usage,
    starts: u64,
    failed: Option<(String, String, Option<Arc<str>>)>,
    at_work: Vec<SavedWork>,
    #[serde(flatten)]
    graph: SavedGraph,
    #[serde(flatten)]
    zones: SavedZones,
    #[serde(flatten)]
    asks: SavedAsks,
}

impl Plan {
    /// Returns `true` if a run of this plan can resume from a checkpoint. A checkpoint of another version of
    /// the workflow may number its nodes differently; such a run resumes by replaying all of its events.
    #[must_use]
    pub fn fits(&self, snapshot: &str) -> bool {
        frame_of(self.data()).fits(snapshot)
    }
}

/// Passes a checkpoint of the whole state to the persister of the events.
pub(in crate::run) fn take_checkpoint(run: &mut RunState<'_>) {
    run.events.flush();
    // A stream on its way into a zone, or work inside a node: the next pass may be luckier.
    if let Some(text) = state_of(run).and_then(|saved| frame_of(run.plan).write(&saved).ok()) {
        run.events.keep_checkpoint(text);
    }
}

fn state_of(run: &mut RunState<'_>) -> Option<Saved> {
    let graph = &run.graph;
    if run.events.needs_its_log(|key| graph.is_running(key)) {
        return None;
    }
    let failed = run.end.first_error().as_ref();
    Some(Saved {
        usage: run.tally.usage(),
        starts: run.tally.starts(),
        failed: failed.map(|error| (error.kind.clone(), error.message.clone(), error.path.clone())),
        at_work: run.workers.to_saved(|key| graph.is_running(key)),
        graph: graph.to_saved(run.workers.permits().parked()),
        zones: run.zones.to_saved()?,
        asks: run.asks.to_saved(),
    })
}

/// Takes the state that a checkpoint has.
pub(super) fn restore(run: &mut RunState<'_>, text: &str) -> Result<(), Box<RunError>> {
    let refused = |error: serde_json::Error| Box::new(RunError::new("bad_snapshot", error.to_string()));
    let saved: Saved = frame_of(run.plan).read(text).map_err(refused)?;
    run.tally.restore(saved.usage, saved.starts);
    *run.end.first_error() =
        saved.failed.map(|(kind, message, path)| RunError { path, ..RunError::new(kind, message) });
    run.graph.restore(saved.graph);
    run.asks.restore(saved.asks);
    restore_containers(run, saved.zones);
    restore_work(run, saved.at_work);
    // What waited for its next attempt, or stood between two passes, continues now.
    for key in run.zones.between_attempts() {
        let end = timer_fired(run, key, Timer::Retry);
        end_containers(run, end);
    }
    for key in run.zones.between_passes() {
        let end = advance_zone(run, key);
        end_containers(run, end);
    }
    Ok(())
}

/// Restores the nodes that were running at a checkpoint.
fn restore_work(run: &mut RunState<'_>, at_work: Vec<SavedWork>) {
    let Some(replay) = run.events.replay_mut() else { return };
    for SavedWork { key, span, attempt, interrupted } in at_work {
        let work = AtWork { span, attempt, interrupted, closed: false, called: true };
        replay.at_work.insert(key, work);
    }
    // A node that asked and was not run since counts as running as well.
    for ask in run.asks.open() {
        let (span, attempt) = (ask.span, ask.attempt);
        let work = AtWork { span, attempt, interrupted: 0, closed: false, called: true };
        replay.at_work.entry(ask.key).or_insert(work);
    }
}
