//! Reading an object key by key and writing it back with nothing lost.
//!
//! A struct that was read remembers in a [`KeyOrder`] which keys the object had, in which order, and how the
//! known ones were written. Writing uses that memory, so an untouched file comes out equal, and a changed field
//! changes its own key only.

use serde_json::{Map, Value};

use super::field::Field;
use super::report::Report;

/// The keys of an object as it was read, with the written form of the known ones.
///
/// Key order takes no part in comparisons of structs.
#[derive(Debug, Clone, Default)]
pub(crate) struct KeyOrder {
    keys: Vec<(Box<str>, Option<Value>)>,
}

impl PartialEq for KeyOrder {
    fn eq(&self, _other: &Self) -> bool {
        true
    }
}

impl KeyOrder {
    fn from_map(map: &Map<String, Value>) -> Self {
        Self { keys: map.keys().map(|key| (key.as_str().into(), None)).collect() }
    }

    fn remember(&mut self, key: &str, raw: Value) {
        if let Some(entry) = self.keys.iter_mut().find(|(known, _)| &**known == key) {
            entry.1 = Some(raw);
        }
    }

    fn raw(&self, key: &str) -> Option<&Value> {
        self.keys.iter().find(|(known, _)| &**known == key)?.1.as_ref()
    }

    fn has(&self, key: &str) -> bool {
        self.keys.iter().any(|(known, _)| &**known == key)
    }
}

/// Takes the known keys out of an object; what stays is its `extra`.
pub(crate) struct ObjectReader<'r> {
    rest: Map<String, Value>,
    order: KeyOrder,
    pub(crate) report: &'r mut Report,
}

impl<'r> ObjectReader<'r> {
    /// Begins with an object; anything else is a fault.
    pub(crate) fn new(value: Value, report: &'r mut Report) -> Option<Self> {
        match value {
            Value::Object(rest) => Some(Self { order: KeyOrder::from_map(&rest), rest, report }),
            other => {
                report.expected("an object", &other);
                None
            }
        }
    }

    /// A key that may be absent or null.
    pub(crate) fn optional<T: Field>(&mut self, key: &str) -> T {
        match self.rest.shift_remove(key) {
            None => T::default(),
            Some(value) => {
                let read = self.report.at_key(key, |report| T::read(&value, report));
                self.order.remember(key, value);
                read
            }
        }
    }

    /// Takes a required key. A missing one is a fault and yields the default, so that reading continues.
    pub(crate) fn required<T: Field>(&mut self, key: &str, wanted: &str) -> T {
        if self.rest.get(key).is_none_or(Value::is_null) {
            self.report.at_key(key, |report| report.fault(format!("missing, expected {wanted}")));
        }
        self.optional(key)
    }

    /// A large part that is read by the caller and written from its typed form, so that it is not kept twice.
    pub(crate) fn part(&mut self, key: &str) -> Option<Value> {
        match self.rest.shift_remove(key) {
            None => None,
            Some(Value::Null) => {
                self.order.remember(key, Value::Null);
                None
            }
            Some(value) => Some(value),
        }
    }

    /// A free object such as `configValues`, kept value by value.
    pub(crate) fn free_map(&mut self, key: &str) -> Map<String, Value> {
        match self.part(key) {
            None => Map::new(),
            Some(Value::Object(map)) => map,
            Some(other) => {
                self.report.at_key(key, |report| report.expected("an object", &other));
                Map::new()
            }
        }
    }

    /// Checks a key that stays in `extra`.
    pub(crate) fn check<T: Field>(&mut self, key: &str) {
        if let Some(value) = self.rest.get(key) {
            self.report.at_key(key, |report| T::read(value, report));
        }
    }

    /// Checks a key that stays in `extra` with a function of the caller; null is legal.
    pub(crate) fn check_with(&mut self, key: &str, check: fn(&Value, &mut Report)) {
        if let Some(value) = self.rest.get(key).filter(|value| !value.is_null()) {
            self.report.at_key(key, |report| check(value, report));
        }
    }

    /// Returns the unread keys, and the key order for writing.
    pub(crate) fn finish(self) -> (Map<String, Value>, KeyOrder) {
        (self.rest, self.order)
    }
}

/// Builds the object again.
pub(crate) struct ObjectWriter<'a> {
    order: &'a KeyOrder,
    known: Map<String, Value>,
}

impl<'a> ObjectWriter<'a> {
    pub(crate) fn new(order: &'a KeyOrder) -> Self {
        Self { order, known: Map::new() }
    }

    /// A typed field: as it was written if it still says the same, else in its usual form.
    pub(crate) fn put<T: Field>(&mut self, key: &str, value: &T) {
        let written = match self.order.raw(key) {
            Some(raw) if T::read(raw, &mut Report::default()) == *value => Some(raw.clone()),
            Some(_) | None => value.write(),
        };
        if let Some(written) = written {
            self.known.insert(key.to_owned(), written);
        }
    }

    /// A large part. An empty one is written only where the file had the key.
    pub(crate) fn put_part(&mut self, key: &str, value: Value, empty: bool) {
        let written = match self.order.raw(key) {
            Some(raw) if empty => raw.clone(),
            None if empty && !self.order.has(key) => return,
            Some(_) | None => value,
        };
        self.known.insert(key.to_owned(), written);
    }

    /// The object: keys of the file first and in its order, then those that were added.
    pub(crate) fn finish(mut self, extra: &Map<String, Value>) -> Value {
        let mut out = Map::new();
        for (key, _) in &self.order.keys {
            let value = self.known.shift_remove(&**key).or_else(|| extra.get(&**key).cloned());
            if let Some(value) = value {
                out.insert(key.to_string(), value);
            }
        }
        out.extend(self.known);
        for (key, value) in extra {
            if !out.contains_key(key) {
                out.insert(key.clone(), value.clone());
            }
        }
        Value::Object(out)
    }
}
