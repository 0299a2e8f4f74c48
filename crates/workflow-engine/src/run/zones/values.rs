//! Values of zones: carried state, items, chunks and numbers of passes.

use std::sync::Arc;

use serde_json::{Map, Value};
use workflow_model::ZoneMode;

use crate::convert::convert;
use crate::expression::{cel_map, to_cel};
use crate::inputs::Given;
use crate::outputs::Outputs;
use crate::plan::data::NONE;
use crate::plan::zone::ZonePlan;

/// The carried values of the first pass.
pub(super) fn first_state(zone: &ZonePlan, given: &[Given]) -> Result<Vec<Arc<Value>>, String> {
    let first = zone.spec.state.iter().zip(&zone.initial_inputs).map(|(state, input)| {
        let value = match (*input != NONE).then(|| given.get(*input as usize)).flatten() {
            Some(Given::One(value)) => Some(Arc::clone(value)),
            Some(Given::Many(values)) => values.first().cloned(),
            Some(Given::Nothing | Given::Stream(_) | Given::Lazy) | None => None,
        };
        let value = value.unwrap_or_else(|| Arc::new(state.initial.clone().unwrap_or_default()));
        convert(&value, state.data_flow_type)
            .map_err(|fault| format!("the carried value `{}` {fault}", state.key))
    });
    first.collect()
}

pub(super) fn items(zone: &ZonePlan, given: &[Given]) -> Result<Option<Arc<Value>>, String> {
    if zone.spec.mode != ZoneMode::Each {
        return Ok(None);
    }
    let items = zone.has_items().then(|| given.get(zone.items_input as usize)).flatten();
    match items {
        Some(Given::One(value)) if value.is_array() => Ok(Some(Arc::clone(value))),
        Some(Given::One(_) | Given::Many(_) | Given::Nothing | Given::Stream(_) | Given::Lazy) | None => {
            Err("the input `items` gave no list".to_owned())
        }
    }
}

pub(super) fn state_map(zone: &ZonePlan, state: &[Arc<Value>]) -> Map<String, Value> {
    zone.keys.iter().zip(state).map(|(key, value)| (key.to_string(), (**value).clone())).collect()
}

pub(super) fn outputs_map(outputs: Option<&Outputs>) -> cel::Value {
    let values = outputs.into_iter().flat_map(|outputs| outputs.all(""));
    cel_map(values.map(|(name, value)| (name, to_cel(value))))
}

/// One result as its text, several as an object.
pub(super) fn chunk_of(results: &Outputs) -> Option<Arc<str>> {
    let mut all = results.all("");
    let (first, second) = (all.next()?, all.next());
    if second.is_none() {
        return Some(match &**first.1 {
            Value::String(text) => text.as_str().into(),
            other => other.to_string().into(),
        });
    }
    let map: Map<String, Value> =
        results.all("").map(|(name, value)| (name.to_owned(), (**value).clone())).collect();
    Some(Value::Object(map).to_string().into())
}

/// A number as text, without an allocation.
pub(super) struct Digits([u8; 20], usize);

impl Digits {
    pub(super) fn from_number(mut number: u64) -> Self {
        let mut digits = [b'0'; 20];
        let mut at = digits.len();
        loop {
            at -= 1;
            digits[at] = b'0' + u8::try_from(number % 10).unwrap_or(0);
            number /= 10;
            if number == 0 {
                return Self(digits, at);
            }
        }
    }

    pub(super) fn as_str(&self) -> &str {
        std::str::from_utf8(&self.0[self.1..]).unwrap_or_default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn digits_are_those_of_the_number() {
        for number in [0, 7, 10, 1234, u64::MAX] {
            assert_eq!(Digits::from_number(number).as_str(), number.to_string());
        }
    }
}
