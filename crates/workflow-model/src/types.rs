//! Compatibility of slot types.

use std::sync::Arc;

use serde_json::{Map, Value};

use crate::definition::{SlotDefinition, WorkflowSource};
use crate::slot::{DataFlowType, Slot, suggestions_of};
use crate::workflow::Workflow;

/// Returns `true` if a value of one type fits into a slot of the other without a common category.
#[must_use]
pub(crate) const fn type_fits(from: DataFlowType, to: DataFlowType) -> bool {
    use DataFlowType::{Boolean, Float, Integer, String};
    if from.is_any() || to.is_any() || from as u8 == to as u8 {
        return true;
    }
    matches!((from, to), (Integer, Float) | (Integer | Float | Boolean, String))
}

/// Returns `true` if an edge may connect these slots. A stream may end in a plain slot, which gets the joined
/// text. A plain value may start a stream of one chunk.
#[must_use]
pub(crate) fn slots_fit(from: &SlotDefinition, to: &SlotDefinition) -> bool {
    let shared = || from.match_categories.iter().any(|category| to.match_categories.contains(category));
    let wild =
        |slot: &SlotDefinition| slot.match_categories.iter().any(|category| category == "BehaviorWildcard");
    type_fits(from.data_flow_type, to.data_flow_type) || wild(from) || wild(to) || shared()
}

/// Writes the values that ComfyTavern gives to inputs which nothing else gives into the file, as their defaults: the first
/// suggestion, or the empty value of the type. Returns the names of the inputs. Here such an input is absent.
pub fn write_implied_defaults(workflow: &mut Workflow) -> Vec<String> {
    let mut written = Vec::new();
    for (name, slot) in &mut workflow.interface_inputs {
        let value = implied_default(slot);
        let is_needed = !slot.is_required() && !slot.is_stream && slot.default_value().is_none();
        if is_needed && !value.is_null() {
            slot.config.insert("default".to_owned(), value);
            written.push(name.clone());
        }
    }
    written
}

/// Writes the values of absent inputs as they were when an input without a default had an empty value: as
/// [`write_implied_defaults`], and null for a slot of any type.
pub fn write_former_defaults(workflow: &mut Workflow) {
    write_implied_defaults(workflow);
    for slot in workflow.interface_inputs.values_mut() {
        let takes_null = slot.data_flow_type.is_any() && !slot.is_stream;
        if takes_null && !slot.is_required() && slot.default_value().is_none() {
            slot.config.insert("default".to_owned(), Value::Null);
        }
    }
}

impl Workflow {
    /// Removes the nulls of typed inputs, which counted as absent when [`write_former_defaults`] held.
    pub fn drop_nulls(&self, inputs: &mut Map<String, Value>) {
        let slots = &self.interface_inputs;
        inputs.retain(|name, value| {
            !value.is_null() || slots.get(name).is_none_or(|slot| slot.data_flow_type.is_any())
        });
    }
}

/// The workflows of another source with their [former defaults](write_former_defaults).
pub struct FormerDefaults<'w>(pub &'w dyn WorkflowSource);

impl WorkflowSource for FormerDefaults<'_> {
    fn workflow(&self, id: &str) -> Option<Arc<Workflow>> {
        let mut workflow = self.0.workflow(id)?;
        write_former_defaults(Arc::make_mut(&mut workflow));
        Some(workflow)
    }

    fn workflow_ids(&self) -> Vec<String> {
        self.0.workflow_ids()
    }
}

impl std::fmt::Debug for FormerDefaults<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_tuple("FormerDefaults").finish_non_exhaustive()
    }
}

fn implied_default(slot: &Slot) -> Value {
    let first = suggestions_of(&slot.config).into_iter().next();
    first.map_or_else(|| type_default(slot.data_flow_type), |suggestion| suggestion.value)
}

/// The empty value of a type.
#[must_use]
pub fn type_default(kind: DataFlowType) -> Value {
    match kind {
        DataFlowType::String => Value::from(""),
        DataFlowType::Integer => Value::from(0),
        DataFlowType::Float => Value::from(0.0),
        DataFlowType::Boolean => Value::from(false),
        DataFlowType::Object => Value::Object(Map::new()),
        DataFlowType::Array => Value::Array(Vec::new()),
        DataFlowType::Binary | DataFlowType::Wildcard | DataFlowType::ConvertibleAny => Value::Null,
    }
}
