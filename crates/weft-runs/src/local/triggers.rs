//! Triggers of agents: one task fires those that are due, and hands events to the agents that listen to them.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use agent_triggers::{DeadLetter, Tick, TriggerRun, due};
use agent_types::{RunId, Timestamp};
use serde_json::{Value, json};
use weft_project::{AgentTrigger, PathWatch, PlannedEvent, Project};

use super::LocalRuns;
use crate::error::RunsError;
use crate::handle::RunHandle;
use crate::plan::{AgentPlan, TriggerCause};
use crate::request::{AgentRequest, RunEnv};

/// Longest pause: an event that another process published is seen behind it.
const POLL: Duration = Duration::from_secs(5);

/// Quiet period before files that changed together are seen to.
const QUIET: Duration = Duration::from_millis(200);

/// Events of one agent that are handed on in a row.
const MAX_EVENTS: usize = 100;

/// Cause and data of a firing.
#[derive(Debug, Clone, PartialEq)]
pub struct Firing {
    /// The cause: `schedule missed files webhook manual`.
    pub cause: &'static str,
    /// Data for the agent.
    pub payload: Value,
}

impl Firing {
    /// A firing by a user.
    #[must_use]
    pub const fn manual(payload: Value) -> Self {
        Self { cause: "manual", payload }
    }

    fn of_tick(tick: &Tick) -> Self {
        let cause = if tick.missed > 0 { "missed" } else { "schedule" };
        let mut payload = json!({"scheduled": tick.at});
        if tick.missed > 0 {
            payload["missed"] = tick.missed.into();
        }
        Self { cause, payload }
    }
}

/// The run that a trigger begins.
///
/// A time with a message is that message. Anything else is an event with the trigger's id as its name, because its payload comes
/// from outside; a message then stands among the instructions.
#[must_use]
pub fn trigger_request(entry: &AgentTrigger, firing: &Firing) -> AgentRequest {
    let trigger = &entry.trigger;
    let is_time = matches!(firing.cause, "schedule" | "missed") || firing.payload.is_null();
    let cause = TriggerCause { id: trigger.id.clone(), cause: firing.cause.to_owned() };
    let mut plan = AgentPlan { agent: entry.agent.clone(), trigger: Some(cause), ..AgentPlan::default() };
    match &trigger.message {
        Some(message) if is_time => plan.message.clone_from(message),
        message => {
            plan.event = Some(PlannedEvent::new(trigger.id.clone(), firing.payload.clone()));
            plan.instructions.clone_from(message);
        }
    }
    AgentRequest { plan, surroundings: RunEnv::AgentOnly, ..AgentRequest::default() }
}

impl LocalRuns {
    /// Fires triggers when they are due, until the service shuts down.
    pub async fn run_triggers(&self) {
        Triggers { runs: self }.run().await;
    }

    /// Begins the run of a trigger, and keeps that it fired.
    ///
    /// # Errors
    /// The trigger is unknown, or its run cannot begin.
    pub async fn fire_trigger(&self, id: &str, firing: Firing) -> Result<RunHandle, RunsError> {
        let entry = self.project().trigger(id)?.clone();
        Triggers { runs: self }.fire(&entry, firing).await
    }
}

/// The triggers of the project, which begin runs.
struct Triggers<'r> {
    runs: &'r LocalRuns,
}

impl Triggers<'_> {
    /// Fires triggers when they are due, until the service shuts down.
    async fn run(&self) {
        let mut changes = self.runs.0.files.changes();
        let mut watch = self.watch();
        loop {
            let next = self.fire_due().await;
            self.hand_on_events().await;
            let project = self.runs.project();
            let left = next.map(|next| next.as_millis() - self.runs.0.clock.now().as_millis());
            let left = left.map(|left| Duration::from_millis(u64::try_from(left).unwrap_or_default()));
            tokio::select! {
                () = self.runs.0.options.closing.cancelled() => return,
                () = self.runs.0.clock.sleep(left.unwrap_or(POLL).min(POLL)) => {}
                changed = changes.changed() => {
                    if changed.is_ok() {
                        watch = self.watch();
                    }
                }
                () = project.event_published() => {}
                path = next_file(watch.as_mut()) => self.fire_files(path, watch.as_mut()).await,
            }
            if let Some(watch) = &mut watch {
                watch.refresh(&project);
            }
        }
    }

    fn watch(&self) -> Option<PathWatch> {
        let watch = self.runs.project().watch_triggers();
        watch.inspect_err(|error| log::warn!("triggers of files do not fire: {error}")).ok().flatten()
    }

    /// Begins the run of a trigger, and keeps that it fired.
    async fn fire(&self, entry: &AgentTrigger, firing: Firing) -> Result<RunHandle, RunsError> {
        let begun = self.runs.begin_agent(trigger_request(entry, &firing)).await;
        // A run that has begun is in the record already.
        if let Some(error) = fault(&begun) {
            log::warn!("the trigger `{}` starts no run: {error}", entry.trigger.id);
            self.keep_run(entry.trigger.id.clone(), firing.cause, Err(error)).await?;
        }
        begun
    }

    /// Keeps a firing in the record of a trigger.
    async fn keep_run(
        &self,
        id: String,
        cause: &'static str,
        run: Result<RunId, String>,
    ) -> Result<(), RunsError> {
        let run = TriggerRun::new(self.runs.0.clock.now(), cause, run);
        let change = move |project: &Arc<Project>| {
            Ok(project.trigger_store()?.update(&id, |record| record.with_run(run))?)
        };
        self.runs.with_project(change).await
    }

    /// Fires what is due; gives the next moment.
    async fn fire_due(&self) -> Option<Timestamp> {
        let now = self.runs.0.clock.now();
        let project = self.runs.project();
        let mut next = None;
        for entry in project.triggers() {
            let due = match self.due_of(entry.clone(), now).await {
                Ok(due) => due,
                Err(error) => {
                    log::warn!("the trigger `{}` does not fire: {error}", entry.trigger.id);
                    continue;
                }
            };
            for tick in &due.ticks {
                // What kept its run from beginning is logged and kept.
                let _ = self.fire(entry, Firing::of_tick(tick)).await;
            }
            next = [next, due.next].into_iter().flatten().min();
        }
        next
    }

    /// Due firings of a trigger. They are recorded before it fires, so that it fires once.
    async fn due_of(&self, entry: AgentTrigger, now: Timestamp) -> Result<agent_triggers::Due, RunsError> {
        self.runs
            .with_project(move |project| {
                let id = entry.trigger.id.as_str();
                let record = project.trigger_store()?.record(id)?;
                let due = due(&entry.trigger, &record, now);
                if let Some(seen) = due.seen.filter(|seen| record.seen_to() != Some(*seen)) {
                    project.trigger_store()?.update(id, move |record| record.up_to(seen))?;
                }
                Ok(due)
            })
            .await
    }

    /// Fires the triggers of files that changed together.
    async fn fire_files(&self, path: Option<String>, watch: Option<&mut PathWatch>) {
        let Some((path, watch)) = path.zip(watch) else { return };
        self.runs.0.clock.sleep(QUIET).await;
        let mut changed: BTreeSet<String> = watch.ready().into_iter().collect();
        changed.insert(path);
        let project = self.runs.project();
        for entry in project.triggers() {
            let files: Vec<&String> =
                changed.iter().filter(|path| entry.trigger.kind.is_of_file(path)).collect();
            if entry.trigger.enabled && !files.is_empty() {
                let firing = Firing { cause: "files", payload: json!({"files": files}) };
                // What kept its run from beginning is logged and kept.
                let _ = self.fire(entry, firing).await;
            }
        }
    }

    /// Hands events to the agents that they wait for.
    async fn hand_on_events(&self) {
        let project = self.runs.project();
        let listening = project.agents().filter(|file| !file.profile.subscribed_event_types.is_empty());
        let listening: Vec<String> = listening.map(|file| file.profile.id.clone()).collect();
        for agent in listening {
            for _ in 0..MAX_EVENTS {
                match self.hand_on_event(&agent).await {
                    Ok(Some(run)) => log::debug!("{run} was started by an event"),
                    Ok(None) => break,
                    Err(error) => {
                        log::warn!("events of `{agent}` wait: {error}");
                        break;
                    }
                }
            }
        }
    }

    /// Starts an agent by the oldest event that waits for it. An event that cannot start it is a dead letter.
    async fn hand_on_event(&self, agent: &str) -> Result<Option<RunId>, RunsError> {
        let of = agent.to_owned();
        let event = self
            .runs
            .with_project(move |project| Ok(project.trigger_store()?.take_event(&of, None)?))
            .await?;
        let Some(event) = event else { return Ok(None) };
        let plan = AgentPlan { agent: agent.to_owned(), event: Some(event.clone()), ..AgentPlan::default() };
        let request = AgentRequest { plan, surroundings: RunEnv::AgentOnly, ..AgentRequest::default() };
        let begun = self.runs.begin_agent(request).await;
        let of = agent.to_owned();
        if matches!(begun, Err(RunsError::QueueFull { .. } | RunsError::ShuttingDown)) {
            self.runs
                .with_project(move |project| Ok(project.trigger_store()?.put_event_back(&of, event)?))
                .await?;
            return begun.map(|run| Some(run.id));
        }
        let run = begun.as_ref().map(|run| run.id.clone()).map_err(ToString::to_string);
        self.keep_run(format!("{agent}:{}", event.name), "event", run).await?;
        if let Some(reason) = fault(&begun) {
            let (at, PlannedEvent { name: event, payload, .. }) = (self.runs.0.clock.now(), event);
            let letter = DeadLetter { at, event, payload, agent: Some(of), reason };
            self.runs
                .with_project(move |project| Ok(project.trigger_store()?.add_dead_letter(letter)?))
                .await?;
        }
        begun.map(|run| Some(run.id))
    }
}

/// Reason for which a run could not begin.
fn fault(begun: &Result<RunHandle, RunsError>) -> Option<String> {
    begun.as_ref().err().map(ToString::to_string)
}

async fn next_file(watch: Option<&mut PathWatch>) -> Option<String> {
    match watch {
        Some(watch) => watch.next_file().await,
        None => std::future::pending().await,
    }
}
