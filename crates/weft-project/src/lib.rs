//! A weft project on disk: settings, discovery, and the wiring of models, nodes, tools and agents.
//!
//! [`Project::open`] finds `weft.toml` and looks for workflows and agents; what a run needs is put together from it by
//! [`Project::agent`].
//! Ids resolve inside the project's folder only: no `..`, no absolute path, no link that leaves it.

#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;

mod agents;
mod blobs;
mod callbacks;
mod channels;
mod deliberation;
mod edit;
mod error;
mod events;
mod files;
mod flows;
mod inventory;
mod local;
mod lookalikes;
mod mcp;
mod models;
mod nodes;
mod options;
mod path_watch;
mod project;
mod providers;
mod secret_rule;
mod secrets;
mod server_settings;
mod settings;
mod state;
mod store;
mod trigger_store;
mod triggers;
mod trust;
mod watch;
mod widget_settings;
mod workflows;

pub use agents::AgentFile;
pub use callbacks::{KnownCallback, StoredCallbacks};
pub use edit::{Edits, ProfileChange};
pub use error::ProjectError;
pub use events::PlannedEvent;
pub use files::{read_file, read_json};
pub use lookalikes::lookalikes;
pub use models::{ProjectModels, replies};
pub use options::{MakeProvider, ProjectOptions};
pub use path_watch::PathWatch;
pub use project::Project;
pub use secret_rule::SecretRule;
pub use secrets::SecretFault;
pub use server_settings::{PublicUrl, ServerSettings};
pub use settings::{NetworkSettings, SecretSettings, Settings, StoreSettings, SyncSetting};
pub use tool_registry::process::kill_programs;
pub use trigger_store::{ClaimedDue, TriggerStore};
pub use triggers::AgentTrigger;
pub use trust::trust;
pub use watch::{LiveTools, ProjectWatch};
pub use widget_settings::{WidgetLanguage, WidgetSettings, WidgetTheme};
pub use workflows::{ProjectWorkflows, WorkflowFile, read_workflow};

/// Every type of node that a project can use.
#[must_use]
pub fn node_catalog() -> workflow_engine::NodeCatalog {
    let mut catalog = node_library::catalog();
    agent_nodes::register(&mut catalog);
    node_script::register(&mut catalog);
    catalog
}

/// Every definition for people and editors: the types of [`node_catalog`] and those that only wire, by name.
#[must_use]
pub fn node_definitions() -> Vec<workflow_model::NodeDefinition> {
    let mut all: Vec<_> = node_catalog().definitions().cloned().collect();
    all.extend(workflow_model::structural::structural_definitions());
    all.sort_by(|left, right| left.node_type.cmp(&right.node_type));
    all
}

/// The main types are shared between threads.
const _: () = {
    const fn is_shared<T: Send + Sync>() {}
    is_shared::<Project>();
    is_shared::<ProjectError>();
    is_shared::<ProjectModels>();
    is_shared::<ProjectOptions>();
    is_shared::<Settings>();
};

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_type_slot_and_setting_has_words_in_chinese() {
        let catalog = node_catalog();
        let is_chinese = |text: &str| text.chars().any(|c| ('\u{4e00}'..='\u{9fff}').contains(&c));
        // Shapes and lists of words have no words of their own.
        let is_shape = |text: &str| text.starts_with('{') && text.ends_with('}');
        for node in node_definitions() {
            let kind = node.node_type.clone();
            let node = catalog.in_language(node, "zh");
            assert!(is_chinese(&node.display_name) && is_chinese(&node.description), "{kind}: {node:?}");
            let of_modes = node.modes.iter().flat_map(|modes| modes.modes.values());
            let of_modes = of_modes.flat_map(|mode| mode.inputs.iter().chain(&mode.outputs));
            let slots = node.inputs.iter().chain(&node.outputs).chain(of_modes);
            let slots = slots.map(|(name, slot)| (name, &slot.display_name, &slot.description));
            let config = node.config.iter().map(|(name, item)| (name, &item.display_name, &item.description));
            for (name, title, text) in slots.chain(config) {
                let has_title = title.as_deref().is_some_and(is_chinese);
                assert!(
                    has_title && (is_chinese(text) || is_shape(text)),
                    "{kind}, {name}: {title:?}, {text}"
                );
            }
        }
    }
}
