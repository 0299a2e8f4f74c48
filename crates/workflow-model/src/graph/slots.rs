//! Slots of nodes.

use std::borrow::Cow;

use serde_json::{Map, Value};

use super::build::Builder;
use super::drafts::SlotRef;
use super::expose::split_ordinal;
use super::{NodeIx, NodeKind};
use crate::definition::{DynamicSlots, ModeDefinition, NodeDefinition, SlotDefinition};
use crate::policy::OnError;
use crate::slot::DataFlowType;
use crate::structural::ERROR_SLOT;
use crate::zone::{ZoneMode, ZoneSpec};

/// An input slot that a handle means.
pub(super) struct FoundInput<'w, 'h> {
    /// The slot's name, without the `__N` of a handle.
    pub(super) name: Cow<'h, str>,
    /// That N.
    pub(super) ordinal: Option<u32>,
    pub(super) slot: SlotRef<'w>,
}

impl<'w> Builder<'_, 'w> {
    /// The input slot that `handle` means; no handle is the main one.
    pub(super) fn input_of<'h>(&self, node: NodeIx, handle: Option<&'h str>) -> Option<FoundInput<'w, 'h>> {
        let Some(handle) = handle else {
            let (name, slot) = self.main_input(node)?;
            return Some(FoundInput { name: name.into(), ordinal: None, slot });
        };
        if let Some(slot) = self.input_slot(node, handle) {
            return Some(FoundInput { name: handle.into(), ordinal: None, slot });
        }
        let (base, ordinal) = split_ordinal(handle)?;
        let slot = self.input_slot(node, base)?;
        Some(FoundInput { name: base.into(), ordinal: Some(ordinal), slot })
    }

    fn input_slot(&self, node: NodeIx, name: &str) -> Option<SlotRef<'w>> {
        match &self.graph.nodes[node as usize].kind {
            NodeKind::Zone { spec, .. } => zone_input(spec, name).map(SlotRef::from),
            NodeKind::Call { scope } => {
                let slot = self.graph.scopes[*scope as usize].inputs.get(name)?;
                Some(SlotRef::from(SlotDefinition::from(slot)))
            }
            NodeKind::Plain | NodeKind::Muted | NodeKind::Bypass(_) => {
                if let Some(face) = self.faces.get(&node) {
                    return face.inputs.get(name).cloned().map(SlotRef::from);
                }
                let config = &self.graph.spec(&self.graph.nodes[node as usize]).config_values;
                let known = |definition: &&NodeDefinition| has_known_mode(definition, config);
                let Some(definition) = self.definitions[node as usize].filter(known) else {
                    // A type or mode that is not known, or a group that is switched off: nothing can be said of its slots.
                    return Some(SlotRef::from(anything()));
                };
                let mode = || mode_of(definition, config)?.inputs.get(name);
                match definition.inputs.get(name).or_else(mode) {
                    Some(slot) => Some(SlotRef::Declared(slot)),
                    None => dynamic_slot(definition.dynamic_inputs, config, name).map(SlotRef::from),
                }
            }
        }
    }

    fn main_input(&self, node: NodeIx) -> Option<(String, SlotRef<'w>)> {
        let name = self.input_names(node).into_iter().next()?;
        let slot = self.input_slot(node, &name)?;
        Some((name, slot))
    }

    /// The output slot of that name; no name is the main one.
    pub(super) fn output_of<'h>(
        &self,
        node: NodeIx,
        name: Option<&'h str>,
    ) -> Option<(Cow<'h, str>, SlotRef<'w>)> {
        let name = match name {
            Some(name) => Cow::Borrowed(name),
            None => Cow::Owned(self.output_names(node).into_iter().next()?),
        };
        let slot = self.output_slot(node, &name)?;
        Some((name, slot))
    }

    pub(super) fn output_slot(&self, node: NodeIx, name: &str) -> Option<SlotRef<'w>> {
        let graph_node = &self.graph.nodes[node as usize];
        let spec = self.graph.spec(graph_node);
        if name == ERROR_SLOT && spec.on_error == Some(OnError::Branch) {
            return Some(SlotRef::from(SlotDefinition::new(DataFlowType::Object, "what went wrong")));
        }
        match &graph_node.kind {
            NodeKind::Zone { scope, spec } => self.zone_output(*scope, spec, name).map(SlotRef::from),
            NodeKind::Call { scope } => {
                let name = self.graph.find_name(name)?;
                Some(SlotRef::from(self.graph.scopes[*scope as usize].outputs.get(&name)?.slot.clone()))
            }
            NodeKind::Plain | NodeKind::Muted | NodeKind::Bypass(_) => {
                if let Some(face) = self.faces.get(&node) {
                    let slot = face.outputs.get(name).cloned();
                    return slot.or_else(|| face.is_open.then(anything)).map(SlotRef::from);
                }
                let known = |definition: &&NodeDefinition| has_known_mode(definition, &spec.config_values);
                let Some(definition) = self.definitions[node as usize].filter(known) else {
                    return Some(SlotRef::from(anything()));
                };
                let mode = || mode_of(definition, &spec.config_values)?.outputs.get(name);
                match definition.outputs.get(name).or_else(mode) {
                    Some(slot) => Some(SlotRef::Declared(slot)),
                    None => {
                        dynamic_slot(definition.dynamic_outputs, &spec.config_values, name).map(SlotRef::from)
                    }
                }
            }
        }
    }

    fn zone_output(&self, scope: super::ScopeIx, spec: &ZoneSpec, name: &str) -> Option<SlotDefinition> {
        if name == "stream" {
            return Some(SlotDefinition::new(DataFlowType::String, "").stream());
        }
        if let Some(key) = name.strip_prefix("collected.") {
            let collected = spec.collect.iter().any(|own| own == key);
            return collected.then(|| SlotDefinition::new(DataFlowType::Array, ""));
        }
        if let Some(state) = spec.state_index(name) {
            return Some(SlotDefinition::new(spec.state[state].data_flow_type, ""));
        }
        let name = self.graph.find_name(name)?;
        Some(self.graph.scopes[scope as usize].outputs.get(&name)?.slot.clone())
    }

    /// Names of declared input slots, the main one first.
    pub(super) fn input_names(&self, node: NodeIx) -> Vec<String> {
        let graph_node = &self.graph.nodes[node as usize];
        match &graph_node.kind {
            NodeKind::Zone { spec, .. } => {
                let items = (spec.mode == ZoneMode::Each).then(|| "items".to_owned());
                items.into_iter().chain(spec.state.iter().map(|state| state.key.clone())).collect()
            }
            NodeKind::Call { scope } => self.graph.scopes[*scope as usize].inputs.keys().cloned().collect(),
            NodeKind::Bypass(_) if self.faces.contains_key(&node) => {
                self.faces[&node].inputs.keys().cloned().collect()
            }
            NodeKind::Plain | NodeKind::Muted | NodeKind::Bypass(_) => self.definitions[node as usize]
                .map_or_else(Vec::new, |definition| {
                    let mode = mode_of(definition, &self.graph.spec(graph_node).config_values);
                    let mode = mode.into_iter().flat_map(|mode| mode.inputs.keys());
                    definition.inputs.keys().chain(mode).cloned().collect()
                }),
        }
    }

    /// Names of declared input slots that must be given a value.
    pub(super) fn required_inputs(&self, node: NodeIx) -> Vec<Cow<'w, str>> {
        let graph_node = &self.graph.nodes[node as usize];
        if let (NodeKind::Plain | NodeKind::Muted | NodeKind::Bypass(_), Some(definition)) =
            (&graph_node.kind, self.definitions[node as usize])
        {
            let mode = mode_of(definition, &self.graph.spec(graph_node).config_values);
            let mode = mode.into_iter().flat_map(|mode| &mode.inputs);
            let required = definition
                .inputs
                .iter()
                .chain(mode)
                .filter(|(_, slot)| slot.required && slot.default.is_none());
            return required.map(|(name, _)| Cow::Borrowed(name.as_str())).collect();
        }
        let required = |name: &String| {
            self.input_of(node, Some(name))
                .is_some_and(|found| found.slot.required && found.slot.default.is_none())
        };
        self.input_names(node).into_iter().filter(required).map(Cow::Owned).collect()
    }

    /// Names of declared output slots, the main one first.
    pub(super) fn output_names(&self, node: NodeIx) -> Vec<String> {
        let graph_node = &self.graph.nodes[node as usize];
        let results = |scope: super::ScopeIx| {
            let outputs = self.graph.scopes[scope as usize].outputs.keys();
            outputs.map(|name| self.graph.name(*name).to_string())
        };
        match &graph_node.kind {
            NodeKind::Zone { scope, spec } => {
                let state = spec.state.iter().map(|state| state.key.clone());
                let collected = spec.collect.iter().map(|key| format!("collected.{key}"));
                results(*scope).chain(state).chain(collected).collect()
            }
            NodeKind::Call { scope } => results(*scope).collect(),
            NodeKind::Bypass(_) if self.faces.contains_key(&node) => {
                self.faces[&node].outputs.keys().cloned().collect()
            }
            NodeKind::Plain | NodeKind::Muted | NodeKind::Bypass(_) => self.definitions[node as usize]
                .map_or_else(Vec::new, |definition| {
                    let mode = mode_of(definition, &self.graph.spec(graph_node).config_values);
                    let mode = mode.into_iter().flat_map(|mode| mode.outputs.keys());
                    definition.outputs.keys().chain(mode).cloned().collect()
                }),
        }
    }
}

/// The slots of the mode that the settings choose.
pub(super) fn mode_of<'w>(
    definition: &'w NodeDefinition,
    config: &Map<String, Value>,
) -> Option<&'w ModeDefinition> {
    let modes = definition.modes.as_ref()?;
    modes.modes.get(modes.chosen(config))
}

fn has_known_mode(definition: &NodeDefinition, config: &Map<String, Value>) -> bool {
    definition.modes.is_none() || mode_of(definition, config).is_some()
}

fn anything() -> SlotDefinition {
    SlotDefinition::new(DataFlowType::Wildcard, "")
}

fn zone_input(spec: &ZoneSpec, name: &str) -> Option<SlotDefinition> {
    if name == "items" && spec.mode == ZoneMode::Each {
        return Some(SlotDefinition::new(DataFlowType::Array, ""));
    }
    let state = &spec.state[spec.state_index(name)?];
    let slot = SlotDefinition::new(state.data_flow_type, "");
    Some(if state.initial.is_some() { slot.optional() } else { slot })
}

/// The slot of a name that is not declared, where the type has such slots.
fn dynamic_slot(rule: DynamicSlots, config: &Map<String, Value>, name: &str) -> Option<SlotDefinition> {
    is_dynamic(rule, config, name).then(|| match rule {
        DynamicSlots::StreamsNamedIn(_) => anything().stream(),
        DynamicSlots::None | DynamicSlots::Any | DynamicSlots::NamedIn(_) | DynamicSlots::KeysOf(_) => {
            anything()
        }
    })
}

/// Returns `true` if an undeclared name is accepted as a dynamic slot.
fn is_dynamic(rule: DynamicSlots, config: &Map<String, Value>, name: &str) -> bool {
    match rule {
        DynamicSlots::None => false,
        DynamicSlots::Any => true,
        DynamicSlots::NamedIn(key) | DynamicSlots::StreamsNamedIn(key) => {
            config.get(key).and_then(Value::as_str).is_some_and(|text| has_word(text, name))
        }
        DynamicSlots::KeysOf(key) => match config.get(key) {
            Some(Value::Object(map)) => map.contains_key(name),
            Some(Value::Array(items)) => items.iter().any(|item| item.as_str() == Some(name)),
            Some(Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_)) | None => false,
        },
    }
}

/// Returns `true` if `text` contains `word` as a whole name, not as a part of a longer one.
fn has_word(text: &str, word: &str) -> bool {
    let is_part = |c: char| c.is_alphanumeric() || c == '_';
    text.match_indices(word).any(|(at, _)| {
        let before = text[..at].chars().next_back().is_some_and(is_part);
        let behind = text[at + word.len()..].chars().next().is_some_and(is_part);
        !word.is_empty() && !before && !behind
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_word_is_not_part_of_a_longer_one() {
        for (text, word, expected) in [
            ("Hello {{ name }}", "name", true),
            ("Hello {{ names }}", "name", false),
            ("a+b", "b", true),
            ("价格{{价}}", "价", true),
            ("", "", false),
        ] {
            assert_eq!(has_word(text, word), expected, "{text} {word}");
        }
    }
}
