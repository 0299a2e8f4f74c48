//! Inputs of a node.

use std::collections::HashMap;
use std::fmt;
use std::sync::{Arc, LazyLock};

use serde_json::{Map, Value};
use workflow_model::{DataFlowType, type_default};

use crate::error::NodeError;
use crate::plan::data::{InputPlan, PlanData};
use crate::stream::{Reading, Stream, StreamReader};

/// Empty values of the types, for optional inputs that nothing gives.
static EMPTY: LazyLock<[Arc<Value>; DataFlowType::ALL.len()]> =
    LazyLock::new(|| DataFlowType::ALL.map(|kind| Arc::new(type_default(kind))));

/// A value of an input slot.
#[derive(Debug, Clone)]
pub(crate) enum Given {
    /// No edge gives one, and neither the file nor the type has one.
    Nothing,
    One(Arc<Value>),
    /// Values of a slot for several edges, those taken, in order.
    Many(Vec<Arc<Value>>),
    /// It comes piece by piece.
    Stream(Arc<Stream>),
    /// Its source runs only when asked for; see [`NodeContext::pull`](crate::NodeContext::pull).
    Lazy,
}

/// Values by input slot, of one attempt.
#[derive(Clone)]
pub struct Inputs {
    pub(crate) plan: Arc<PlanData>,
    pub(crate) scope: u32,
    pub(crate) range: (u32, u32),
    pub(crate) values: Vec<Given>,
    /// Shared position of the readers, where several inputs are streams.
    pub(crate) reading: Option<Arc<Reading>>,
}

impl fmt::Debug for Inputs {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_map().entries(self.slots().zip(&self.values)).finish()
    }
}

impl Inputs {
    fn plans(&self) -> &[InputPlan] {
        &self.plan.scopes[self.scope as usize].inputs[self.range.0 as usize..self.range.1 as usize]
    }

    /// Names of the slots that an edge or a value of the file leads to, in file order.
    pub fn slots(&self) -> impl Iterator<Item = &str> {
        self.plans().iter().map(|plan| &*self.plan.names[plan.slot as usize])
    }

    fn place(&self, slot: &str) -> Option<usize> {
        self.slots().position(|own| own == slot)
    }

    pub(crate) fn given(&self, slot: &str) -> Option<&Given> {
        self.values.get(self.place(slot)?)
    }

    /// The value of a slot; none where nothing was given. Of a slot for several edges, the first.
    #[must_use]
    pub fn get(&self, slot: &str) -> Option<&Arc<Value>> {
        match self.given(slot)? {
            Given::One(value) => Some(value),
            Given::Many(values) => values.first(),
            Given::Nothing | Given::Stream(_) | Given::Lazy => None,
        }
    }

    /// The value of the slot at that place, in the order of [`slots`](Self::slots).
    #[must_use]
    pub fn at(&self, place: usize) -> Option<&Arc<Value>> {
        match self.values.get(place)? {
            Given::One(value) => Some(value),
            Given::Many(values) => values.first(),
            Given::Nothing | Given::Stream(_) | Given::Lazy => None,
        }
    }

    /// The value of a slot, or the empty value of its type.
    #[must_use]
    pub fn get_or_empty(&self, slot: &str, kind: DataFlowType) -> Arc<Value> {
        self.get(slot).unwrap_or(&EMPTY[kind as usize]).clone()
    }

    /// The value of a slot.
    ///
    /// # Errors
    /// Nothing was given, for instance because the only edge to it comes from a branch that was not taken.
    pub fn required(&self, slot: &str) -> Result<&Arc<Value>, NodeError> {
        self.get(slot).ok_or_else(|| NodeError::fatal(format!("nothing was given for the input `{slot}`")))
    }

    /// The text of a slot.
    ///
    /// # Errors
    /// Nothing was given, or something else than a text.
    pub fn text(&self, slot: &str) -> Result<&str, NodeError> {
        let value = self.required(slot)?;
        value.as_str().ok_or_else(|| NodeError::fatal(format!("the input `{slot}` must be a text")))
    }

    /// All values of a slot for several edges. A list that the file gives counts as its items.
    #[must_use]
    pub fn all(&self, slot: &str) -> Vec<Arc<Value>> {
        match self.given(slot) {
            Some(Given::Many(values)) => values.clone(),
            Some(Given::One(value)) => match &**value {
                Value::Array(items) => items.iter().cloned().map(Arc::new).collect(),
                _ => vec![Arc::clone(value)],
            },
            Some(Given::Nothing | Given::Stream(_) | Given::Lazy) | None => Vec::new(),
        }
    }

    /// Every value that was given, slot by slot in file order; a slot for several edges gives each of its values.
    pub fn taken(&self) -> impl Iterator<Item = &Arc<Value>> {
        self.values.iter().flat_map(|given| match given {
            Given::One(value) => std::slice::from_ref(value),
            Given::Many(values) => values,
            Given::Nothing | Given::Stream(_) | Given::Lazy => &[],
        })
    }

    /// Reads a slot as a stream, from its first chunk. A plain value is a stream of one chunk.
    #[must_use]
    pub fn stream(&self, slot: &str) -> Option<StreamReader> {
        match self.given(slot)? {
            Given::Stream(stream) => Some(stream.reader(self.reading.as_ref())),
            Given::One(value) => Some(StreamReader::of_value(value)),
            Given::Many(values) => values.first().map(|value| StreamReader::of_value(value)),
            Given::Nothing | Given::Lazy => None,
        }
    }

    /// All given values by slot, as one object. Streams and values that must be asked for are left out.
    #[must_use]
    pub fn to_map(&self) -> Map<String, Value> {
        let mut map = Map::new();
        for (slot, given) in self.slots().zip(&self.values) {
            match given {
                Given::One(value) => map.insert(slot.to_owned(), (**value).clone()),
                Given::Many(values) => {
                    map.insert(slot.to_owned(), values.iter().map(|value| (**value).clone()).collect())
                }
                Given::Nothing | Given::Stream(_) | Given::Lazy => None,
            };
        }
        map
    }

    /// The given values as an expression reads them: a list where the slots are numbers, else an object.
    pub(crate) fn for_expressions(&self) -> Value {
        let numbers: HashMap<usize, usize> =
            self.slots().enumerate().filter_map(|(at, slot)| Some((slot.parse().ok()?, at))).collect();
        if numbers.is_empty() || numbers.len() < self.values.len() {
            return Value::Object(self.to_map());
        }
        let length = numbers.keys().max().map_or(0, |last| last + 1).min(self.values.len());
        let item = |number: usize| numbers.get(&number).and_then(|at| self.at(*at));
        (0..length).map(|number| item(number).map_or(Value::Null, |value| (**value).clone())).collect()
    }
}
