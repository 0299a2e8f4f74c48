//! Words of node types in other languages.

use std::collections::HashMap;

use workflow_model::{ConfigDefinition, NodeDefinition, SlotDefinition};

/// Pairs of a word and its translation.
type Pairs = &'static [(&'static str, &'static str)];

/// Words of node types in another language.
#[derive(Debug, Clone, Copy, Default)]
pub struct NodeWords {
    /// Descriptions, by type.
    pub descriptions: Pairs,
    /// Names for the user, by type, slot or setting.
    pub names: Pairs,
    /// Descriptions of slots and settings, by the English ones.
    pub texts: Pairs,
}

/// Words of a language.
#[derive(Clone, Default)]
pub(crate) struct WordIndex {
    descriptions: HashMap<&'static str, &'static str>,
    names: HashMap<&'static str, &'static str>,
    texts: HashMap<&'static str, &'static str>,
}

impl WordIndex {
    pub(crate) fn add(&mut self, words: &NodeWords) {
        self.descriptions.extend(words.descriptions.iter().copied());
        self.names.extend(words.names.iter().copied());
        self.texts.extend(words.texts.iter().copied());
    }

    pub(crate) fn description(&self, node_type: &str) -> Option<&'static str> {
        self.descriptions.get(node_type).copied()
    }

    pub(crate) fn apply(&self, node: &mut NodeDefinition) {
        let kind = node.node_type.as_str();
        if let Some(text) = self.description(kind) {
            text.clone_into(&mut node.description);
        }
        if let Some(name) = self.names.get(kind) {
            (*name).clone_into(&mut node.display_name);
        }
        let modes = node.modes.iter_mut().flat_map(|modes| modes.modes.values_mut());
        let of_modes = modes.flat_map(|mode| mode.inputs.iter_mut().chain(&mut mode.outputs));
        for (name, slot) in node.inputs.iter_mut().chain(&mut node.outputs).chain(of_modes) {
            let SlotDefinition { display_name, description, .. } = slot;
            self.name_part(name, display_name, description);
        }
        for (name, setting) in &mut node.config {
            let ConfigDefinition { display_name, description, .. } = setting;
            self.name_part(name, display_name, description);
        }
    }

    fn name_part(&self, name: &str, display_name: &mut Option<String>, description: &mut String) {
        *display_name = self.names.get(name).map(|name| (*name).to_owned());
        if let Some(text) = self.texts.get(description.as_str()) {
            (*text).clone_into(description);
        }
    }
}
