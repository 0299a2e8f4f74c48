//! Zones and groups that have been entered.

use std::sync::Arc;

use serde::{Deserialize, Serialize};
use tokio::task::AbortHandle;

use super::zone_run::{SavedGiven, SavedZone, ZoneRun};
use crate::hash::NumberMap;
use crate::inputs::Given;
use crate::run::graph_state::frame::Key;
use crate::run::workers::permits::Claim;
use crate::stream::Stream;

/// A container that has been entered: a zone, or a group that runs as one node.
pub(crate) struct Container {
    pub(crate) span: u64,
    pub(crate) attempt: u32,
    pub(crate) claim: Claim,
    pub(crate) given: Vec<Given>,
    /// Its limits of time, and the wait before its next attempt.
    timers: Vec<AbortHandle>,
}

impl Container {
    pub(super) fn new(span: u64, given: Vec<Given>, claim: Claim) -> Self {
        Self { span, attempt: 1, claim, given, timers: Vec::new() }
    }

    pub(super) fn add_timer(&mut self, timer: AbortHandle) {
        self.timers.push(timer);
    }
}

impl Drop for Container {
    fn drop(&mut self) {
        self.timers.iter().for_each(AbortHandle::abort);
    }
}

/// The containers of a run by the keys of their nodes.
#[derive(Default)]
pub(crate) struct Zones {
    containers: NumberMap<Key, Container>,
    loops: NumberMap<Key, Box<ZoneRun>>,
    /// The frame of a group that runs as one node.
    calls: NumberMap<Key, u32>,
}

/// Containers as a checkpoint has them.
#[derive(Serialize, Deserialize)]
pub(crate) struct SavedZones {
    zones: Vec<(Key, SavedZone)>,
    calls: Vec<(Key, u32)>,
    containers: Vec<SavedContainer>,
}

/// A container as a checkpoint has it; its limits of time begin anew.
#[derive(Serialize, Deserialize)]
struct SavedContainer {
    key: Key,
    span: u64,
    attempt: u32,
    group: Option<u32>,
    given: Vec<SavedGiven>,
}

impl Zones {
    pub(crate) fn enter(&mut self, key: Key, container: Container) {
        self.containers.insert(key, container);
    }

    pub(crate) fn leave(&mut self, key: Key) -> Option<Container> {
        self.containers.remove(&key)
    }

    pub(crate) fn container(&self, key: Key) -> Option<&Container> {
        self.containers.get(&key)
    }

    pub(super) fn container_mut(&mut self, key: Key) -> Option<&mut Container> {
        self.containers.get_mut(&key)
    }

    /// The span of a container that runs.
    pub(crate) fn span_of(&self, key: Key) -> u64 {
        self.containers.get(&key).map_or(0, |container| container.span)
    }

    /// The attempt in which a container ends.
    pub(crate) fn attempt_of(&self, key: Key) -> Option<u32> {
        self.containers.get(&key).map(|container| container.attempt)
    }

    pub(super) fn insert_zone(&mut self, key: Key, zone: ZoneRun) {
        self.loops.insert(key, Box::new(zone));
    }

    pub(crate) fn is_zone(&self, key: Key) -> bool {
        self.loops.contains_key(&key)
    }

    pub(super) fn zone(&self, key: Key) -> Option<&ZoneRun> {
        self.loops.get(&key).map(|run| &**run)
    }

    pub(super) fn zone_mut(&mut self, key: Key) -> Option<&mut ZoneRun> {
        self.loops.get_mut(&key).map(|run| &mut **run)
    }

    pub(crate) fn take_zone(&mut self, key: Key) -> Option<Box<ZoneRun>> {
        self.loops.remove(&key)
    }

    pub(super) fn insert_call(&mut self, key: Key, frame: u32) {
        self.calls.insert(key, frame);
    }

    /// Takes the frame of a group that runs as one node.
    pub(crate) fn take_call(&mut self, key: Key) -> Option<u32> {
        if self.calls.is_empty() { None } else { self.calls.remove(&key) }
    }

    /// Returns `true` if a zone waits between two passes for capacity of its stream.
    pub(crate) fn has_held_zone(&self) -> bool {
        self.loops.values().any(|run| run.is_between_passes() && run.stream().is_some())
    }

    /// Zones that stand between two passes.
    pub(crate) fn between_passes(&self) -> Vec<Key> {
        let idle = self.loops.iter().filter(|(_, run)| run.is_between_passes());
        idle.map(|(key, _)| *key).collect()
    }

    /// Containers that wait for their next attempt.
    pub(crate) fn between_attempts(&self) -> Vec<Key> {
        let inside = |key: &Key| self.loops.contains_key(key) || self.calls.contains_key(key);
        self.containers.keys().filter(|key| !inside(key)).copied().collect()
    }

    /// None while a stream is on its way into a zone.
    pub(crate) fn to_saved(&self) -> Option<SavedZones> {
        let zones = self.loops.iter().map(|(key, zone)| Some((*key, zone.to_saved()?)));
        let containers = self.containers.iter().map(|(key, container)| {
            Some(SavedContainer {
                key: *key,
                span: container.span,
                attempt: container.attempt,
                group: container.claim.group(),
                given: SavedGiven::all(&container.given)?,
            })
        });
        Some(SavedZones {
            zones: zones.collect::<Option<_>>()?,
            calls: self.calls.iter().map(|(key, frame)| (*key, *frame)).collect(),
            containers: containers.collect::<Option<_>>()?,
        })
    }

    /// Takes the containers that a checkpoint has, with the streams of zones; gives the keys of all.
    pub(super) fn restore(
        &mut self,
        saved: SavedZones,
        stream: impl Fn(Key) -> Option<Arc<Stream>>,
    ) -> Vec<Key> {
        self.calls = saved.calls.into_iter().collect();
        for (key, zone) in saved.zones {
            self.insert_zone(key, zone.restored(stream(key)));
        }
        let mut keys = Vec::with_capacity(saved.containers.len());
        for SavedContainer { key, span, attempt, group, given } in saved.containers {
            let given = given.into_iter().map(Given::from).collect();
            let mut container = Container::new(span, given, Claim::of_container(group));
            container.attempt = attempt;
            self.enter(key, container);
            keys.push(key);
        }
        keys
    }
}
