//! Results of pure nodes, kept for equal inputs.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use parking_lot::{Mutex, MutexGuard};
use serde_json::Value;
use sha2::{Digest, Sha256};
use tokio::sync::oneshot;

use crate::inputs::{Given, Inputs};
use crate::outputs::Outputs;

/// Bytes that a cache holds if nothing else is said.
const DEFAULT_BYTES: usize = 64 << 20;
/// Size of an entry besides its values.
const ENTRY_BYTES: usize = 128;

/// Hash of a node's type, settings and inputs.
pub(crate) type CacheKey = [u8; 32];

/// Results kept in memory, for any number of runs. When it is full, what was not used for longest goes first.
///
/// Equal work that is already running is not repeated: a second caller waits for its result.
#[derive(Debug)]
pub struct Cache {
    state: Mutex<State>,
    limit: usize,
}

#[derive(Debug, Default)]
struct State {
    entries: HashMap<CacheKey, Entry>,
    /// Keys by time of last use, the oldest first.
    ages: BTreeMap<u64, CacheKey>,
    clock: u64,
    bytes: usize,
}

#[derive(Debug)]
enum Entry {
    Ready {
        outputs: Arc<Outputs>,
        bytes: usize,
        age: u64,
    },
    /// It is being computed: by which run, and who waits.
    Flight {
        path: Arc<str>,
        waiting: Vec<oneshot::Sender<Option<Arc<Outputs>>>>,
    },
}

/// Result of a cache look-up.
pub(crate) enum Lookup {
    Hit(Arc<Outputs>),
    /// The key is not being computed: the caller must do it.
    Lead(Lead),
    /// The node at this path computes it; the receiver yields `None` if that node fails.
    Wait(Arc<str>, oneshot::Receiver<Option<Arc<Outputs>>>),
}

/// The duty to bring a result. Dropping it without one lets the next in line try.
#[derive(Debug)]
pub(crate) struct Lead {
    cache: Arc<Cache>,
    key: CacheKey,
}

impl Default for Cache {
    fn default() -> Self {
        Self::with_capacity(DEFAULT_BYTES)
    }
}

impl Cache {
    /// A cache of 64 MiB.
    #[must_use]
    pub fn new() -> Arc<Self> {
        Arc::new(Self::default())
    }

    /// A cache that holds so many bytes of values.
    #[must_use]
    pub fn with_capacity(bytes: usize) -> Self {
        Self { state: Mutex::default(), limit: bytes }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        // Nothing that can panic runs under this lock.
        self.state.lock()
    }

    pub(crate) fn look(self: &Arc<Self>, key: CacheKey, path: &Arc<str>) -> Lookup {
        let mut state = self.lock();
        state.clock += 1;
        let now = state.clock;
        match state.entries.get_mut(&key) {
            Some(Entry::Ready { outputs, age, .. }) => {
                let outputs = Arc::clone(outputs);
                let old = std::mem::replace(age, now);
                state.ages.remove(&old);
                state.ages.insert(now, key);
                Lookup::Hit(outputs)
            }
            Some(Entry::Flight { path, waiting }) => {
                let (sender, receiver) = oneshot::channel();
                waiting.push(sender);
                Lookup::Wait(Arc::clone(path), receiver)
            }
            None => {
                state.entries.insert(key, Entry::Flight { path: Arc::clone(path), waiting: Vec::new() });
                Lookup::Lead(Lead { cache: Arc::clone(self), key })
            }
        }
    }

    /// Ends a flight; the result is kept if it fits.
    fn land(&self, key: CacheKey, result: Option<&Arc<Outputs>>) {
        let mut state = self.lock();
        if !matches!(state.entries.get(&key), Some(Entry::Flight { .. })) {
            return;
        }
        let Some(Entry::Flight { waiting, .. }) = state.entries.remove(&key) else { return };
        if let Some(outputs) = result {
            state.keep(key, Arc::clone(outputs), self.limit);
        }
        drop(state);
        for sender in waiting {
            // A receiver that is gone does not need it.
            let _ = sender.send(result.cloned());
        }
    }
}

impl State {
    fn keep(&mut self, key: CacheKey, outputs: Arc<Outputs>, limit: usize) {
        let bytes = ENTRY_BYTES + outputs.all("").map(|(_, value)| size(value)).sum::<usize>();
        if bytes > limit {
            return;
        }
        self.clock += 1;
        let age = self.clock;
        self.bytes += bytes;
        self.entries.insert(key, Entry::Ready { outputs, bytes, age });
        self.ages.insert(age, key);
        while self.bytes > limit {
            let Some((_, oldest)) = self.ages.pop_first() else { return };
            if let Some(Entry::Ready { bytes, .. }) = self.entries.remove(&oldest) {
                self.bytes -= bytes;
            }
        }
    }
}

impl Lead {
    /// Brings the result.
    pub(crate) fn bring(self, outputs: &Arc<Outputs>) {
        self.cache.land(self.key, Some(outputs));
    }
}

impl Drop for Lead {
    fn drop(&mut self) {
        // After `bring` there is no flight left, and this does nothing.
        self.cache.land(self.key, None);
    }
}

/// About how many bytes a value holds.
#[must_use]
pub fn size(value: &Value) -> usize {
    let own = size_of::<Value>();
    match value {
        Value::Null | Value::Bool(_) | Value::Number(_) => own,
        Value::String(text) => own + text.len(),
        Value::Array(items) => own + items.iter().map(size).sum::<usize>(),
        Value::Object(map) => {
            own + map.iter().map(|(key, value)| 2 * own + key.len() + size(value)).sum::<usize>()
        }
    }
}

/// The key of a start: equal only where type, version, settings and the inputs that count are. None where an input
/// has no value yet.
pub(crate) fn key_of(
    (node_type, version): (&str, &str),
    config: Option<&serde_json::Map<String, Value>>,
    inputs: &Inputs,
    only: Option<&[String]>,
) -> Option<CacheKey> {
    let mut hash = Sha256::new();
    part(&mut hash, node_type.as_bytes());
    part(&mut hash, version.as_bytes());
    if let Some(config) = config {
        digest_map(&mut hash, config);
    }
    let mut slots: Vec<(&str, &Given)> = inputs.slots().zip(&inputs.values).collect();
    slots.sort_unstable_by_key(|(slot, _)| *slot);
    for (slot, given) in slots {
        if only.is_some_and(|only| only.iter().all(|name| name != slot)) {
            continue;
        }
        part(&mut hash, slot.as_bytes());
        match given {
            Given::Nothing => hash.update([0]),
            Given::One(value) => digest(&mut hash, value),
            Given::Many(values) => {
                part(&mut hash, &values.len().to_le_bytes());
                for value in values {
                    digest(&mut hash, value);
                }
            }
            Given::Stream(_) | Given::Lazy => return None,
        }
    }
    Some(hash.finalize().into())
}

/// Bytes with their length, so that two parts never read like two others.
fn part(hash: &mut Sha256, bytes: &[u8]) {
    hash.update((bytes.len() as u64).to_le_bytes());
    hash.update(bytes);
}

fn digest(hash: &mut Sha256, value: &Value) {
    match value {
        Value::Null => hash.update([1]),
        Value::Bool(flag) => hash.update([2, u8::from(*flag)]),
        Value::Number(number) => {
            hash.update([3]);
            part(hash, number.to_string().as_bytes());
        }
        Value::String(text) => {
            hash.update([4]);
            part(hash, text.as_bytes());
        }
        Value::Array(items) => {
            hash.update([5]);
            part(hash, &items.len().to_le_bytes());
            for item in items {
                digest(hash, item);
            }
        }
        Value::Object(map) => digest_map(hash, map),
    }
}

/// The order of keys does not count.
fn digest_map(hash: &mut Sha256, map: &serde_json::Map<String, Value>) {
    hash.update([6]);
    part(hash, &map.len().to_le_bytes());
    let mut keys: Vec<&String> = map.keys().collect();
    keys.sort_unstable();
    for key in keys {
        part(hash, key.as_bytes());
        digest(hash, &map[key]);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lead(cache: &Arc<Cache>, key: u8) -> Lead {
        match cache.look([key; 32], &Arc::from("a")) {
            Lookup::Lead(lead) => lead,
            Lookup::Hit(_) | Lookup::Wait(..) => panic!("{key} is there already"),
        }
    }

    fn hit(cache: &Arc<Cache>, key: u8) -> bool {
        matches!(cache.look([key; 32], &Arc::from("b")), Lookup::Hit(_))
    }

    #[test]
    fn what_was_not_used_for_longest_goes_first() {
        let cache = Arc::new(Cache::with_capacity(2 * (ENTRY_BYTES + size(&Value::Null))));
        for key in [1, 2] {
            lead(&cache, key).bring(&Arc::new(Outputs::value(Value::Null)));
        }
        assert!(hit(&cache, 1));
        lead(&cache, 3).bring(&Arc::new(Outputs::value(Value::Null)));
        assert!(hit(&cache, 1) && hit(&cache, 3));
        assert!(matches!(cache.look([2; 32], &Arc::from("b")), Lookup::Lead(_)));
        lead(&cache, 4).bring(&Arc::new(Outputs::value("x".repeat(1000))));
        assert!(!hit(&cache, 4), "too large to keep");
    }

    #[test]
    fn a_second_one_waits_and_tries_itself_after_a_failure() {
        let cache = Cache::new();
        let first = lead(&cache, 1);
        let Lookup::Wait(path, mut waiting) = cache.look([1; 32], &Arc::from("b")) else {
            panic!("the key is not being computed")
        };
        assert_eq!(&*path, "a");
        drop(first);
        assert_eq!(waiting.try_recv().unwrap(), None);
        lead(&cache, 1).bring(&Arc::new(Outputs::value(1)));
        assert!(hit(&cache, 1));
    }

    #[test]
    fn order_of_keys_does_not_count_and_types_do() {
        let of = |text: &str| {
            let mut hash = Sha256::new();
            digest(&mut hash, &serde_json::from_str(text).unwrap());
            hash.finalize()
        };
        assert_eq!(of(r#"{"a":1,"b":2}"#), of(r#"{"b":2,"a":1}"#));
        for (left, right) in [
            ("1", "1.0"),
            ("1", "\"1\""),
            ("[1,2]", "[[1],2]"),
            ("[\"ab\",\"c\"]", "[\"a\",\"bc\"]"),
            ("[]", "{}"),
        ] {
            assert_ne!(of(left), of(right), "{left} {right}");
        }
    }
}
