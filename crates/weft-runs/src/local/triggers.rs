//! Triggers of agents: one task fires those that are due, and hands events to the agents that listen to them.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use agent_triggers::{DeadLetter, Tick, TriggerRecord, TriggerRun};
use agent_types::{RunId, Timestamp};
use serde_json::{Value, json};
use weft_project::{AgentTrigger, PathWatch, PlannedEvent, Project};

use super::LocalRuns;
use super::known::{claim, known_run, release, replace};
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
    /// The sender's id of the message: one that comes again has the run of the first.
    pub message_id: Option<String>,
    /// Digest of the message's signature: one that comes again under another id has the run of the first too.
    pub signature: Option<String>,
}

impl Firing {
    /// A firing by a user.
    #[must_use]
    pub const fn manual(payload: Value) -> Self {
        Self::new("manual", payload)
    }

    const fn new(cause: &'static str, payload: Value) -> Self {
        Self { cause, payload, message_id: None, signature: None }
    }

    /// A message of another system, with the id that it gave it.
    #[must_use]
    pub fn webhook(body: &Value, message_id: Option<String>) -> Self {
        let mut payload = json!({"body": body});
        if let Some(message) = &message_id {
            payload["message_id"] = message.as_str().into();
        }
        Self { message_id, ..Self::new("webhook", payload) }
    }

    /// The same with the digest of the signature that was verified.
    #[must_use]
    pub fn with_signature(self, signature: Option<String>) -> Self {
        Self { signature, ..self }
    }

    fn of_tick(tick: &Tick) -> Self {
        let cause = if tick.missed > 0 { "missed" } else { "schedule" };
        let mut payload = json!({"scheduled": tick.at});
        if tick.missed > 0 {
            payload["missed"] = tick.missed.into();
        }
        Self::new(cause, payload)
    }
}

/// The run that a trigger begins.
///
/// A time with a message is that message. Anything else is an event with the trigger's id as its name, because its payload comes
/// from outside; a message then stands among the instructions.
#[must_use]
pub fn trigger_request(entry: &AgentTrigger, firing: &Firing) -> AgentRequest {
    let trigger = &entry.trigger;
    let is_time = is_time(firing.cause) || firing.payload.is_null();
    let cause = TriggerCause { id: trigger.id.clone(), cause: firing.cause.to_owned() };
    let mut plan = AgentPlan { agent: entry.agent.clone(), trigger: Some(cause), ..AgentPlan::default() };
    plan.message_id = firing.message_id.as_ref().map(|message| format!("hook:{}/{message}", trigger.id));
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
        Triggers { runs: self }.fire_once(&entry, firing).await
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
        let (mut watch, mut is_changed) = (None, true);
        loop {
            if watch.is_some() || is_changed {
                watch = self.watch(watch.take()).await;
            }
            is_changed = false;
            let next = self.fire_due().await;
            self.hand_on_events().await;
            let project = self.runs.project();
            let left = next.map(|next| next.as_millis() - self.runs.0.clock.now().as_millis());
            let left = left.map(|left| Duration::from_millis(u64::try_from(left).unwrap_or_default()));
            tokio::select! {
                () = self.runs.0.options.closing.cancelled() => return,
                () = self.runs.0.clock.sleep(left.unwrap_or(POLL).min(POLL)) => {}
                Ok(()) = changes.changed() => is_changed = true,
                () = project.event_published() => {}
                path = next_file(watch.as_mut()) => self.fire_files(path, watch.as_mut()).await,
            }
        }
    }

    /// Follows the files that triggers name now. What was followed before stays so, and no change that waits is lost.
    async fn watch(&self, before: Option<PathWatch>) -> Option<PathWatch> {
        let follow = move |project: &Arc<Project>| match before {
            None => Ok(project.watch_triggers()?),
            Some(mut watch) => {
                watch.refresh(project);
                Ok(Some(watch))
            }
        };
        let watch = self.runs.with_project(follow).await;
        watch.inspect_err(|error| log::warn!("triggers of files do not fire: {error}")).ok().flatten()
    }

    /// Begins the run of a trigger, and keeps that it fired.
    async fn fire(&self, entry: &AgentTrigger, firing: Firing) -> Result<RunHandle, RunsError> {
        self.fire_as(entry, firing, RunId::generate()).await
    }

    /// The same, unless a message of the same signature has begun a run: the id of a message is not signed.
    async fn fire_once(&self, entry: &AgentTrigger, firing: Firing) -> Result<RunHandle, RunsError> {
        let Some(signature) = &firing.signature else { return self.fire(entry, firing).await };
        let key = format!("signature:{}/{}/{signature}", entry.agent, entry.trigger.id);
        let run = RunId::generate();
        let _beginning = self.runs.0.beginning.add(&run);
        if let Some(known) = claim(self.runs, &key, &run).await? {
            return known_run(self.runs, known);
        }
        let begun = self.fire_as(entry, firing, run.clone()).await;
        let id = begun.as_ref().ok().map(|begun| begun.id.clone());
        match id {
            // The message is known by its id.
            Some(known) if known != run => {
                let note = move |project: &Arc<Project>| {
                    let Some(store) = project.store()? else { return Ok(false) };
                    Ok(replace(store, &key, run.as_str().into(), known.as_str().into())?)
                };
                self.runs.with_project(note).await?;
            }
            Some(_) => {}
            None => release(self.runs, key, run).await,
        }
        begun
    }

    /// The same with the id of the run.
    async fn fire_as(
        &self,
        entry: &AgentTrigger,
        firing: Firing,
        run: RunId,
    ) -> Result<RunHandle, RunsError> {
        let begun = self.runs.begin_agent_as(trigger_request(entry, &firing), run).await;
        // A run that has begun is in the record already.
        if let Some(error) = fault(&begun) {
            log::warn!("the trigger `{}` starts no run: {error}", entry.trigger.id);
            if is_time(firing.cause) && is_deferred(&begun) {
                return begun;
            }
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
            match self.fire_ticks(entry, now).await {
                Ok(own) => next = [next, own].into_iter().flatten().min(),
                Err(error) => log::warn!("the trigger `{}` does not fire: {error}", entry.trigger.id),
            }
        }
        next
    }

    /// Fires what is due of a trigger; gives its next moment. What finds no place among the runs is due later.
    async fn fire_ticks(&self, entry: &AgentTrigger, now: Timestamp) -> Result<Option<Timestamp>, RunsError> {
        let trigger = entry.trigger.clone();
        let claim = move |project: &Arc<Project>| Ok(project.trigger_store()?.claim_due(&trigger, now)?);
        let claimed = self.runs.with_project(claim).await?;
        let (next, mut fired, mut is_full) = (claimed.next, None, false);
        for (tick, run) in &claimed.ticks {
            let own = run.clone();
            let has_begun = move |project: &Arc<Project>| Ok(project.trigger_store()?.has_begun(&own)?);
            if self.runs.with_project(has_begun).await? {
                // Another process has taken the claim over.
                fired = Some(tick.at);
                continue;
            }
            // What else kept its run from beginning is logged and kept.
            is_full = TriggerRecord::is_claim_late(now, self.runs.0.clock.now())
                || is_deferred(&self.fire_as(entry, Firing::of_tick(tick), run.clone()).await);
            if is_full {
                break;
            }
            fired = Some(tick.at);
        }
        if !claimed.ticks.is_empty() {
            let id = entry.trigger.id.clone();
            let end = move |project: &Arc<Project>| {
                let store = project.trigger_store()?;
                Ok(if is_full {
                    store.put_due_back(&id, &claimed, fired)
                } else {
                    store.finish_due(&id, &claimed)
                }?)
            };
            self.runs.with_project(end).await?;
        }
        Ok(next)
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
                let firing = Firing::new("files", json!({"files": files}));
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
        let (run, claimant, of) = (RunId::generate(), agent.to_owned(), agent.to_owned());
        let (own, now) = (run.clone(), self.runs.0.clock.now());
        let claim =
            move |project: &Arc<Project>| Ok(project.trigger_store()?.claim_event(&claimant, &own, now)?);
        let Some(event) = self.runs.with_project(claim).await? else { return Ok(None) };
        let plan = AgentPlan { agent: agent.to_owned(), event: Some(event.clone()), ..AgentPlan::default() };
        let request = AgentRequest { plan, surroundings: RunEnv::AgentOnly, ..AgentRequest::default() };
        let begun = self.runs.begin_agent_as(request, run.clone()).await;
        if is_deferred(&begun) {
            let release =
                move |project: &Arc<Project>| Ok(project.trigger_store()?.release_event(&of, &run)?);
            self.runs.with_project(release).await?;
            return begun.map(|run| Some(run.id));
        }
        let kept = fault(&begun).map_or_else(|| Ok(run.clone()), Err);
        let id = format!("{agent}:{}", event.name);
        let letter = kept.clone().err().map(|reason| {
            let (at, PlannedEvent { name: event, payload, .. }) = (self.runs.0.clock.now(), event);
            DeadLetter { at, event, payload, agent: Some(of.clone()), reason }
        });
        let finish = move |project: &Arc<Project>| {
            let store = project.trigger_store()?;
            letter.map_or(Ok(()), |letter| store.add_dead_letter(letter))?;
            Ok(store.finish_event(&of, &run)?)
        };
        self.runs.with_project(finish).await?;
        self.keep_run(id, "event", kept).await?;
        begun.map(|run| Some(run.id))
    }
}

/// Returns `true` for the cause of a moment.
fn is_time(cause: &str) -> bool {
    matches!(cause, "schedule" | "missed")
}

/// Returns `true` for a run that may begin later.
const fn is_deferred(begun: &Result<RunHandle, RunsError>) -> bool {
    matches!(begun, Err(RunsError::QueueFull { .. } | RunsError::ShuttingDown))
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
