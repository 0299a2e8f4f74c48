//! Outputs of a node.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::sync::Arc;

use agent_types::OtherOutputs;
use serde_json::Value;

/// Levels of lists and objects in each other that a value may have.
pub(crate) const MAX_DEPTH: usize = 128;

fn is_deeper(value: &Value, levels: usize) -> bool {
    match value {
        Value::Array(items) => levels == 0 || items.iter().any(|item| is_deeper(item, levels - 1)),
        Value::Object(map) => levels == 0 || map.values().any(|item| is_deeper(item, levels - 1)),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => false,
    }
}

/// Scope that a stopping node ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum StopScope {
    /// The whole run, which ends well.
    Run,
    /// The innermost loop zone.
    Loop,
}

/// Values by output slot. A slot that is not named is not taken: what hangs on it is skipped.
///
/// ```
/// use workflow_engine::Outputs;
/// let branch = Outputs::named("then", 5);
/// assert_eq!(branch.get("then").map(|value| value.as_i64()), Some(Some(5)));
/// assert!(branch.get("else").is_none());
/// ```
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Outputs {
    main: Option<Arc<Value>>,
    named: Vec<(Cow<'static, str>, Arc<Value>)>,
    pub(crate) stop: Option<StopScope>,
}

impl Outputs {
    /// Nothing: all slots are skipped.
    #[must_use]
    pub fn none() -> Self {
        Self::default()
    }

    /// A value of the main slot, the first that the type declares.
    #[must_use]
    pub fn value(value: impl Into<Value>) -> Self {
        Self::shared(Arc::new(value.into()))
    }

    /// A shared value of the main slot.
    #[must_use]
    pub fn shared(value: Arc<Value>) -> Self {
        Self { main: Some(value), named: Vec::new(), stop: None }
    }

    /// A value of the slot of that name.
    #[must_use]
    pub fn named(slot: impl Into<Cow<'static, str>>, value: impl Into<Value>) -> Self {
        Self::none().with(slot, value)
    }

    /// The same outputs with one more.
    #[must_use]
    pub fn with(self, slot: impl Into<Cow<'static, str>>, value: impl Into<Value>) -> Self {
        self.with_shared(slot, Arc::new(value.into()))
    }

    /// The same outputs with one more, shared.
    #[must_use]
    pub fn with_shared(mut self, slot: impl Into<Cow<'static, str>>, value: Arc<Value>) -> Self {
        self.named.push((slot.into(), value));
        self
    }

    /// A value with which the run or the loop ends.
    #[must_use]
    pub fn stop(value: Arc<Value>, scope: StopScope) -> Self {
        Self { stop: Some(scope), ..Self::shared(value) }
    }

    /// The value given for a slot by its name.
    #[must_use]
    pub fn get(&self, slot: &str) -> Option<&Arc<Value>> {
        self.named.iter().find(|(name, _)| name == slot).map(|(_, value)| value)
    }

    /// The value of the main slot, whether it was given by name or not.
    pub(crate) fn main(&self, name: &str) -> Option<&Arc<Value>> {
        self.main.as_ref().or_else(|| self.get(name))
    }

    /// Returns `true` if a value exceeds the supported nesting depth.
    pub(crate) fn is_too_deep(&self) -> bool {
        self.all("").any(|(_, value)| is_deeper(value, MAX_DEPTH))
    }

    /// Returns the outputs beside the main slot of that name.
    pub(crate) fn others(&self, main: &str) -> Option<OtherOutputs> {
        if self.named.is_empty() {
            return None;
        }
        let others = self.named.iter().filter(|(name, _)| name != main);
        let others: BTreeMap<_, _> =
            others.map(|(name, value)| (Arc::from(&**name), Arc::clone(value))).collect();
        (!others.is_empty()).then(|| Arc::new(others))
    }

    /// All values by name; the main one under `main`.
    pub(crate) fn all<'a>(&'a self, main: &'a str) -> impl Iterator<Item = (&'a str, &'a Arc<Value>)> {
        let first = self.main.as_ref().map(|value| (main, value));
        first.into_iter().chain(self.named.iter().map(|(name, value)| (&**name, value)))
    }
}
