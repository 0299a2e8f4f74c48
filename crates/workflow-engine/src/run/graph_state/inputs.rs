//! Taking the values of a node's inputs out of its frame.

use std::sync::Arc;

use serde_json::Value;

use super::frame::{Frame, Slot};
use crate::convert::convert;
use crate::inputs::Given;
use crate::plan::data::{From, InputPlan, Origin, PlanData};

/// The values of inputs, checked against their types.
///
/// # Errors
/// The slot and what was wrong with its value.
pub(crate) fn collect_inputs(
    plan: &PlanData,
    frame: &Frame,
    inputs: &[InputPlan],
) -> Result<Vec<Given>, String> {
    let mut given = Vec::with_capacity(inputs.len());
    for input in inputs {
        let value = collect_input(frame, input);
        given
            .push(value.map_err(|fault| format!("the input `{}` {fault}", plan.names[input.slot as usize]))?);
    }
    Ok(given)
}

fn collect_input(frame: &Frame, input: &InputPlan) -> Result<Given, String> {
    if input.lazy && !matches!(input.from, From::Nothing) {
        return Ok(Given::Lazy);
    }
    if let (true, From::One(Origin::Slot(slot))) = (input.stream, &input.from)
        && let Slot::Stream(slot) = frame.slot(*slot)
    {
        return Ok(Given::Stream(Arc::clone(&slot.stream)));
    }
    if input.multi && !matches!(input.from, From::Nothing) {
        let taken = input.from.origins().iter().filter_map(|origin| origin_value(frame, origin));
        return taken.map(|value| typed(input, &value)).collect::<Result<_, _>>().map(Given::Many);
    }
    let first = input.from.origins().iter().find_map(|origin| origin_value(frame, origin));
    match first.or_else(|| input.fallback.clone()) {
        None => Ok(Given::Nothing),
        Some(value) if input.multi => many(input, &value),
        Some(value) => typed(input, &value).map(Given::One),
    }
}

/// A list that the file gives for a slot for several edges.
fn many(input: &InputPlan, value: &Arc<Value>) -> Result<Given, String> {
    match &**value {
        Value::Array(items) => {
            let items = items.iter().map(|item| typed(input, &Arc::new(item.clone())));
            items.collect::<Result<_, _>>().map(Given::Many)
        }
        _ => typed(input, value).map(|value| Given::Many(vec![value])),
    }
}

fn typed(input: &InputPlan, value: &Arc<Value>) -> Result<Arc<Value>, String> {
    if input.typed { convert(value, input.data_flow_type) } else { Ok(Arc::clone(value)) }
}

/// The value of an origin, where its edge was taken.
pub(crate) fn origin_value(frame: &Frame, origin: &Origin) -> Option<Arc<Value>> {
    match origin {
        Origin::Value(value) => Some(Arc::clone(value)),
        Origin::Slot(slot) => frame.slot(*slot).value().cloned(),
    }
}
