//! Records of triggers in the store, events that wait for agents, and events that reached none.

use agent_triggers::{DeadLetter, Tick, Trigger, TriggerRecord};
use agent_types::{RunId, Timestamp};
use run_store::{Store, StoreError};
use serde_json::{Value, json};

use crate::error::ProjectError;
use crate::events::{DEAD, PlannedEvent, WaitingEvent, add_dead_letter, letters, waiting, waiting_key};
use crate::project::Project;

/// Records of triggers, and events, in the store of a project. In a folder without a project nothing is kept.
#[derive(Debug, Clone, Copy)]
pub struct TriggerStore<'p>(Option<&'p Store>);

/// Due firings of a trigger, taken by one caller.
#[derive(Debug, Default)]
#[non_exhaustive]
pub struct ClaimedDue {
    /// The firings, with the runs that they are to begin.
    pub ticks: Vec<(Tick, RunId)>,
    /// The next moment.
    pub next: Option<Timestamp>,
    /// Its record since.
    after: TriggerRecord,
}

impl Project {
    /// The part of the store that holds triggers and events.
    ///
    /// # Errors
    /// The store cannot be used.
    pub fn trigger_store(&self) -> Result<TriggerStore<'_>, ProjectError> {
        Ok(TriggerStore(self.store()?))
    }
}

impl TriggerStore<'_> {
    /// Stored record of a trigger; nothing in a folder without a project.
    ///
    /// # Errors
    /// The store cannot be used.
    pub fn record(&self, id: &str) -> Result<TriggerRecord, ProjectError> {
        let Some(store) = self.0 else { return Ok(TriggerRecord::default()) };
        Ok(record_of(store.value(&key(id))?))
    }

    /// Changes what the store keeps of a trigger.
    ///
    /// # Errors
    /// The store cannot be used.
    pub fn update(
        &self,
        id: &str,
        change: impl FnOnce(TriggerRecord) -> TriggerRecord + Send + 'static,
    ) -> Result<(), ProjectError> {
        let Some(store) = self.0 else { return Ok(()) };
        let change = move |old| Ok::<_, ProjectError>(json!(change(record_of(old))));
        store.update(&key(id), change)??;
        Ok(())
    }

    /// Events that reached no agent, the newest last.
    ///
    /// # Errors
    /// The store cannot be used.
    pub fn dead_letters(&self) -> Result<Vec<DeadLetter>, ProjectError> {
        let Some(store) = self.0 else { return Ok(Vec::new()) };
        Ok(letters(store.value(DEAD)?))
    }

    /// Keeps an event that reached no agent.
    ///
    /// # Errors
    /// The store cannot be used.
    pub fn add_dead_letter(&self, letter: DeadLetter) -> Result<(), ProjectError> {
        let Some(store) = self.0 else { return Ok(()) };
        Ok(add_dead_letter(store, letter)?)
    }

    /// Takes what is due of a trigger. It is recorded before it fires, so that no two callers get the same. What a process
    /// claimed that ended before its runs began is due again.
    ///
    /// # Errors
    /// The store cannot be used.
    pub fn claim_due(&self, trigger: &Trigger, now: Timestamp) -> Result<ClaimedDue, ProjectError> {
        let before = self.record(&trigger.id)?;
        if let Some(until) = before.claimed_until(now) {
            return Ok(ClaimedDue { next: Some(until), ..ClaimedDue::default() });
        }
        let recovered = before.clone().recovered(|run| self.has_begun(run))?;
        let (after, mut ticks, due) = recovered.claimed(trigger, now);
        if !before.is_seen_as(&after) && !self.swap_seen(&trigger.id, before, after.clone())? {
            // Another process was faster, and fires it.
            ticks.clear();
        }
        Ok(ClaimedDue { ticks, next: due.next, after })
    }

    /// Ends a claim whose firings have begun.
    ///
    /// # Errors
    /// The store cannot be used.
    pub fn finish_due(&self, id: &str, claimed: &ClaimedDue) -> Result<(), ProjectError> {
        self.swap_seen(id, claimed.after.clone(), claimed.after.clone().released(None)).map(drop)
    }

    /// Ends a claim, and puts its firings behind a moment back, unless more was claimed meanwhile.
    ///
    /// # Errors
    /// The store cannot be used.
    pub fn put_due_back(
        &self,
        id: &str,
        claimed: &ClaimedDue,
        from: Option<Timestamp>,
    ) -> Result<(), ProjectError> {
        let from = from.or_else(|| claimed.after.before_claim());
        self.swap_seen(id, claimed.after.clone(), claimed.after.clone().released(from)).map(drop)
    }

    /// Returns `true` if a run has begun, in this process or another one.
    ///
    /// # Errors
    /// The store cannot be used.
    pub fn has_begun(self, run: &RunId) -> Result<bool, ProjectError> {
        match self.0.map(|store| store.known(run)) {
            Some(Ok(_)) => Ok(true),
            None | Some(Err(StoreError::UnknownRun { .. })) => Ok(false),
            Some(Err(error)) => Err(error.into()),
        }
    }

    /// Replaces the moment up to which a trigger is seen to; gives whether it was still the one before.
    fn swap_seen(self, id: &str, before: TriggerRecord, after: TriggerRecord) -> Result<bool, ProjectError> {
        let Some(store) = self.0 else { return Ok(true) };
        let change = move |old| {
            let record = record_of(old);
            if record.is_seen_as(&before) { Ok(json!(record.seen_as(&after))) } else { Err(()) }
        };
        Ok(store.update(&key(id), change)?.is_ok())
    }

    /// Takes the oldest event of a name that waits for an agent. No two callers get the same.
    ///
    /// # Errors
    /// The store cannot be used.
    pub fn take_event(
        &self,
        agent: &str,
        name: &str,
        now: Timestamp,
    ) -> Result<Option<PlannedEvent>, ProjectError> {
        let name = name.to_owned();
        let take = move |events: &mut Vec<WaitingEvent>| {
            let found =
                events.iter().position(|waiting| waiting.is_free(now) && waiting.event.name == name)?;
            Some(events.remove(found).event)
        };
        if self.has_free_event(agent, now)? { self.change_events(agent, take) } else { Ok(None) }
    }

    /// Claims the oldest event that waits for an agent for a run that begins now. It stays in the store until
    /// [`finish_event`](Self::finish_event), and is free again where its process ends before.
    ///
    /// # Errors
    /// The store cannot be used.
    pub fn claim_event(
        &self,
        agent: &str,
        run: &RunId,
        now: Timestamp,
    ) -> Result<Option<PlannedEvent>, ProjectError> {
        let run = run.clone();
        let claim = move |events: &mut Vec<WaitingEvent>| {
            let waiting = events.iter_mut().find(|waiting| waiting.is_free(now))?;
            waiting.claim(run, now);
            Some(waiting.event.clone())
        };
        if self.has_free_event(agent, now)? { self.change_events(agent, claim) } else { Ok(None) }
    }

    /// Removes the event that a run has claimed.
    ///
    /// # Errors
    /// The store cannot be used.
    pub fn finish_event(&self, agent: &str, run: &RunId) -> Result<(), ProjectError> {
        let run = run.clone();
        let finish = move |events: &mut Vec<WaitingEvent>| {
            events.retain(|waiting| waiting.run() != Some(&run));
            Some(())
        };
        self.change_events(agent, finish).map(drop)
    }

    /// Gives back the event that a run has claimed and could not begin by; it keeps its place.
    ///
    /// # Errors
    /// The store cannot be used.
    pub fn release_event(&self, agent: &str, run: &RunId) -> Result<(), ProjectError> {
        let run = run.clone();
        let release = move |events: &mut Vec<WaitingEvent>| {
            events.iter_mut().find(|waiting| waiting.run() == Some(&run))?.release();
            Some(())
        };
        self.change_events(agent, release).map(drop)
    }

    /// Returns `true` if an event of an agent is free. Removes those whose run began before its process ended.
    fn has_free_event(self, agent: &str, now: Timestamp) -> Result<bool, ProjectError> {
        let Some(store) = self.0 else { return Ok(false) };
        let mut is_any = false;
        for waiting in
            waiting(store.value(&waiting_key(agent))?).iter().filter(|waiting| waiting.is_free(now))
        {
            match waiting.run() {
                Some(run) if self.has_begun(run)? => self.finish_event(agent, run)?,
                Some(_) | None => is_any = true,
            }
        }
        Ok(is_any)
    }

    /// Changes the events that wait for an agent; nothing is changed where the change gives nothing.
    fn change_events<T: Send + 'static>(
        self,
        agent: &str,
        change: impl FnOnce(&mut Vec<WaitingEvent>) -> Option<T> + Send + 'static,
    ) -> Result<Option<T>, ProjectError> {
        let Some(store) = self.0 else { return Ok(None) };
        let (sender, receiver) = std::sync::mpsc::channel();
        let change = move |old| {
            let mut events = waiting(old);
            let result = change(&mut events).ok_or(())?;
            // The caller waits for it below.
            let _ = sender.send(result);
            Ok::<_, ()>(json!(events))
        };
        Ok(store.update(&waiting_key(agent), change)?.ok().and_then(|_| receiver.try_recv().ok()))
    }
}

fn key(id: &str) -> String {
    format!("triggers/{id}")
}

fn record_of(kept: Option<Value>) -> TriggerRecord {
    kept.and_then(|kept| serde_json::from_value(kept).ok()).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn moment(seconds: i64) -> Timestamp {
        Timestamp::from_millis(1_000_000_000_000 + seconds * 1000)
    }

    fn pulse() -> Trigger {
        let text = r#"{"triggers": [{"id": "pulse", "every_ms": 1000, "missed": "all"}]}"#;
        agent_triggers::TriggerFile::from_json(text).unwrap().triggers.remove(0)
    }

    #[test]
    fn a_firing_is_claimed_once_and_can_be_put_back() {
        let (store, trigger) = (Store::memory().unwrap(), pulse());
        let triggers = TriggerStore(Some(&store));
        let claim = |now| triggers.claim_due(&trigger, moment(now)).unwrap();
        let ticks = |now| {
            let claimed = claim(now);
            triggers.finish_due("pulse", &claimed).unwrap();
            claimed.ticks.len()
        };
        assert_eq!(ticks(0), 0);
        let claimed = claim(3);
        assert_eq!((claimed.ticks.len(), claim(3).ticks.len(), claim(9).ticks.len()), (3, 0, 0));
        // The first began, and the queue was full behind it.
        triggers.put_due_back("pulse", &claimed, Some(claimed.ticks[0].0.at)).unwrap();
        assert_eq!((ticks(3), ticks(3)), (2, 0));
        // What was read before another claimed is claimed no more.
        let before = triggers.record("pulse").unwrap();
        assert_eq!(ticks(4), 1);
        assert!(!triggers.swap_seen("pulse", before.clone(), before.up_to(moment(4))).unwrap());
        // Nor is it put back then.
        triggers.put_due_back("pulse", &claimed, None).unwrap();
        assert_eq!(ticks(4), 0);
    }

    #[test]
    fn what_a_process_claimed_and_did_not_begin_is_due_again() {
        let (store, trigger) = (Store::memory().unwrap(), pulse());
        let triggers = TriggerStore(Some(&store));
        let claim = |now| triggers.claim_due(&trigger, moment(now)).unwrap();
        assert!(claim(0).ticks.is_empty());
        let claimed = claim(3);
        let clock: std::sync::Arc<dyn agent_types::Clock> = std::sync::Arc::new(agent_types::SystemClock);
        drop(store.begin(run_store::NewRun::new(claimed.ticks[0].1.clone()), clock).unwrap());
        // The process ended behind the first.
        assert_eq!((claim(4).ticks.len(), claim(62).ticks.len()), (0, 0));
        let again: Vec<Timestamp> = claim(63).ticks.iter().map(|(tick, _)| tick.at).collect();
        assert_eq!(
            (again[0], again.last()),
            (moment(53), Some(&moment(63))),
            "the newest ten, and one on time"
        );
        assert_eq!(claim(64).next, Some(moment(123)));
        // A trigger of times that are rare has exactly those that did not begin.
        let text = r#"{"triggers": [{"id": "rare", "every_ms": 1000000, "missed": "all"}]}"#;
        let rare = agent_triggers::TriggerFile::from_json(text).unwrap().triggers.remove(0);
        let claim = |now| triggers.claim_due(&rare, moment(now)).unwrap();
        assert!(claim(0).ticks.is_empty());
        let first = claim(2000).ticks;
        assert_eq!(first.len(), 2);
        let moments = |ticks: &[(Tick, RunId)]| {
            ticks.iter().map(|(tick, run)| (tick.at, run.clone())).collect::<Vec<_>>()
        };
        let again = claim(2060).ticks;
        // Under the same runs: one that the other process begins late is known.
        assert_eq!(moments(&again), moments(&first));
        assert_eq!(again.iter().map(|(tick, _)| tick.at).collect::<Vec<_>>(), [moment(1000), moment(2000)]);
    }

    #[test]
    fn an_event_stays_until_its_run_has_begun() {
        let store = Store::memory().unwrap();
        let triggers = TriggerStore(Some(&store));
        let kept = json!([{"name": "first", "payload": 1}, {"name": "second", "payload": 2}]);
        store.put(&waiting_key("clerk"), Some(&kept));
        let [one, two, three] = [RunId::generate(), RunId::generate(), RunId::generate()];
        let claim =
            |run, now| triggers.claim_event("clerk", run, moment(now)).unwrap().map(|event| event.name);
        assert_eq!(claim(&one, 0).as_deref(), Some("first"));
        assert_eq!(claim(&two, 0).as_deref(), Some("second"));
        assert_eq!(claim(&three, 30), None);
        triggers.release_event("clerk", &one).unwrap();
        assert_eq!(claim(&three, 30).as_deref(), Some("first"));
        triggers.finish_event("clerk", &three).unwrap();
        // The process of the other one ended before its run began.
        assert_eq!(triggers.take_event("clerk", "second", moment(59)).unwrap(), None);
        assert_eq!(claim(&one, 60).as_deref(), Some("second"));
        triggers.finish_event("clerk", &one).unwrap();
        assert_eq!(claim(&two, 600), None);
    }
}
