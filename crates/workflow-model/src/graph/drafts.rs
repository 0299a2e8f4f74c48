//! Notes that the phases of building a graph leave for later ones.

use std::ops::Deref;

use agent_types::Problem;
use indexmap::IndexMap;

use super::Sources;
use crate::definition::SlotDefinition;
use crate::slot::{DataFlowType, Slot};
use crate::workflow::Workflow;
use crate::zone::{ZoneMode, ZoneSpec};

/// A slot for one value into which several edges lead: an error unless their branches exclude each other.
pub(super) struct Doubled {
    pub(super) problem: Problem,
    /// The sources of each edge.
    pub(super) wires: Vec<Sources>,
}

/// Slots of a group or zone whose body is not looked at.
pub(super) struct Face {
    pub(super) inputs: IndexMap<String, SlotDefinition>,
    pub(super) outputs: IndexMap<String, SlotDefinition>,
    /// Its body may name more outputs.
    pub(super) is_open: bool,
}

impl Face {
    /// The interface of a workflow.
    pub(super) fn of_group(workflow: &Workflow) -> Self {
        let slots = |slots: &IndexMap<String, Slot>| {
            slots.iter().map(|(name, slot)| (name.clone(), SlotDefinition::from(slot))).collect()
        };
        Self {
            inputs: slots(&workflow.interface_inputs),
            outputs: slots(&workflow.interface_outputs),
            is_open: workflow.interface_outputs.is_empty(),
        }
    }

    /// The carried values of a zone, which go out as they came in or as the file begins them.
    pub(super) fn of_zone(spec: &ZoneSpec) -> Self {
        let carried = spec.state.iter().map(|state| {
            let slot = SlotDefinition::new(state.data_flow_type, "");
            let slot = state.initial.clone().map_or(slot.clone(), |initial| slot.with_default(initial));
            (state.key.clone(), slot)
        });
        let outputs: IndexMap<String, SlotDefinition> = carried.collect();
        let mut inputs = outputs.clone();
        if spec.mode == ZoneMode::Each {
            inputs.insert("items".to_owned(), SlotDefinition::new(DataFlowType::Array, ""));
        }
        Self { inputs, outputs, is_open: true }
    }
}

/// A slot that a type declares, or one that is made for its place in the graph.
pub(super) enum SlotRef<'w> {
    Declared(&'w SlotDefinition),
    Made(Box<SlotDefinition>),
}

impl From<SlotDefinition> for SlotRef<'_> {
    fn from(slot: SlotDefinition) -> Self {
        Self::Made(Box::new(slot))
    }
}

impl Deref for SlotRef<'_> {
    type Target = SlotDefinition;

    fn deref(&self) -> &SlotDefinition {
        match self {
            Self::Declared(slot) => slot,
            Self::Made(slot) => slot,
        }
    }
}
