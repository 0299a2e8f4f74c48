//! Taking the values of a node's inputs out of its frame.

use std::sync::Arc;

use serde_json::Value;

use super::frame::{Frame, Slot};
use crate::convert::convert;
use crate::inputs::Given;
use crate::plan::data::{InputPlan, LocalIx, Origin, PlanData, SlotIx};

/// The values of inputs, checked against their types.
///
/// # Errors
/// The slot and what was wrong with its value.
pub(crate) fn collect_inputs(plan: &PlanData, frame: &Frame, node: LocalIx) -> Result<Vec<Given>, String> {
    let scope = &plan.scopes[frame.standing().scope as usize];
    let needs = plan.needs(scope, &scope.nodes[node as usize]);
    let first = if needs.first { frame.deciding(node) } else { None };
    let mut given = Vec::with_capacity(needs.inputs.len());
    for input in needs.inputs {
        let value = collect_input(frame, input, scope.origins(input), first);
        given
            .push(value.map_err(|fault| format!("the input `{}` {fault}", plan.names[input.slot as usize]))?);
    }
    Ok(given)
}

/// Of a slot for one value `first` counts where it is among its sources, else the first that is taken.
fn collect_input(
    frame: &Frame,
    input: &InputPlan,
    origins: &[Origin],
    first: Option<SlotIx>,
) -> Result<Given, String> {
    if input.lazy && input.is_wired() {
        return Ok(Given::Lazy);
    }
    if let (true, [Origin::Slot(slot)]) = (input.stream, origins)
        && let Slot::Stream(slot) = frame.slot(*slot)
    {
        return Ok(Given::Stream(Arc::clone(&slot.stream)));
    }
    if input.multi && input.is_wired() {
        let mut taken = Vec::with_capacity(origins.len());
        for value in origins.iter().filter_map(|origin| origin_value(frame, origin)) {
            taken.push(typed(input, value)?);
        }
        return match input.fallback.clone().filter(|_| taken.is_empty()) {
            Some(value) => many(input, value),
            None => Ok(Given::Many(taken)),
        };
    }
    let is_first = |origin: &&Origin| matches!(origin, Origin::Slot(slot) if Some(*slot) == first);
    let value = origins.iter().find(is_first).and_then(|origin| origin_value(frame, origin));
    let value = value.or_else(|| origins.iter().find_map(|origin| origin_value(frame, origin)));
    match value.or_else(|| input.fallback.clone()) {
        None => Ok(Given::Nothing),
        Some(value) if input.multi => many(input, value),
        Some(value) => typed(input, value).map(Given::One),
    }
}

/// A list that the file gives for a slot for several edges.
fn many(input: &InputPlan, value: Arc<Value>) -> Result<Given, String> {
    match &*value {
        Value::Array(items) => {
            let items = items.iter().map(|item| typed(input, Arc::new(item.clone())));
            items.collect::<Result<_, _>>().map(Given::Many)
        }
        _ => typed(input, value).map(|value| Given::Many(vec![value])),
    }
}

/// A value as the slot takes it, of the types that it passes on its way.
pub(super) fn typed(input: &InputPlan, value: Arc<Value>) -> Result<Arc<Value>, String> {
    let value = input.through.iter().try_fold(value, |value, kind| convert(&value, *kind))?;
    if input.typed { convert(&value, input.data_flow_type) } else { Ok(value) }
}

/// The value of an origin, where its edge was taken.
pub(crate) fn origin_value(frame: &Frame, origin: &Origin) -> Option<Arc<Value>> {
    match origin {
        Origin::Value(value) => Some(Arc::clone(value)),
        Origin::Slot(slot) => frame.slot(*slot).value().cloned(),
    }
}
