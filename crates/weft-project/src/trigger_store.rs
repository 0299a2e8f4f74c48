//! Records of triggers in the store, events that wait for agents, and events that reached none.

use agent_triggers::{DeadLetter, TriggerRecord};
use run_store::{Store, StoreError};
use serde_json::{Value, json};

use crate::error::ProjectError;
use crate::events::{DEAD, PlannedEvent, add_dead_letter, letters, waiting, waiting_key};
use crate::project::Project;

/// Records of triggers, and events, in the store of a project. In a folder without a project nothing is kept.
#[derive(Debug, Clone, Copy)]
pub struct TriggerStore<'p>(Option<&'p Store>);

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

    /// Takes the oldest event that waits for an agent, of this name where one is given. No two callers get the same.
    ///
    /// # Errors
    /// The store cannot be used.
    pub fn take_event(&self, agent: &str, name: Option<&str>) -> Result<Option<PlannedEvent>, ProjectError> {
        let Some(store) = self.0 else { return Ok(None) };
        if waiting(store.value(&waiting_key(agent))?).is_empty() {
            return Ok(None);
        }
        let name = name.map(str::to_owned);
        let (sender, receiver) = std::sync::mpsc::channel();
        let change = move |old| {
            let mut events = waiting(old);
            let found = events.iter().position(|event| name.as_ref().is_none_or(|name| *name == event.name));
            // The caller waits for it below.
            let _ = sender.send(found.map(|index| events.remove(index)));
            Ok::<_, StoreError>(json!(events))
        };
        store.update(&waiting_key(agent), change)??;
        Ok(receiver.try_recv().ok().flatten())
    }

    /// Puts an event back that was taken and could not be seen to, before all others.
    ///
    /// # Errors
    /// The store cannot be used.
    pub fn put_event_back(&self, agent: &str, event: PlannedEvent) -> Result<(), ProjectError> {
        let Some(store) = self.0 else { return Ok(()) };
        let change = move |old| {
            let mut events = waiting(old);
            events.insert(0, event);
            Ok::<_, StoreError>(json!(events))
        };
        store.update(&waiting_key(agent), change)??;
        Ok(())
    }
}

fn key(id: &str) -> String {
    format!("triggers/{id}")
}

fn record_of(kept: Option<Value>) -> TriggerRecord {
    kept.and_then(|kept| serde_json::from_value(kept).ok()).unwrap_or_default()
}
