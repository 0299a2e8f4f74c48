//! What the model has been shown of the tools, and what it is told when they change.
//!
//! Within one window the instructions and the catalogue stay as they were, so that what was sent before is the
//! beginning of what is sent next. A change is told once, at the place where it happened. A conversation that is
//! loaded or compacted begins a new window.

use std::sync::Arc;

use protocol_action::neutralize;
use tool_registry::{Snapshot, Tool};
use tool_schema::Catalogue;

use crate::profile::{AgentProfile, Language};
use crate::prompt::{Protocol, direct, lang, system_text};

/// What stands before the conversation, and what was told of the tools since.
#[derive(Debug, Clone)]
pub(crate) struct Window {
    /// Instructions and catalogue.
    pub(crate) system: Arc<str>,
    shown: Snapshot,
    /// What was told, each before the exchange of that index.
    changes: Vec<(usize, String)>,
}

/// The window of a conversation, once there is one. It can be made anew at any time, so that two states differ in
/// nothing by it.
#[derive(Debug, Clone, Default)]
pub(crate) struct Shown(pub(crate) Option<Window>);

impl PartialEq for Shown {
    fn eq(&self, _: &Self) -> bool {
        true
    }
}

impl Window {
    pub(crate) fn new(profile: &AgentProfile, tools: &Snapshot, protocol: Protocol) -> Self {
        let system = system_text(profile, tools, protocol).into();
        Self { system, shown: tools.clone(), changes: Vec::new() }
    }

    /// Takes note of the tools of now; what changed is told before the exchange `at`.
    pub(crate) fn refresh(
        &mut self,
        profile: &AgentProfile,
        tools: &Snapshot,
        protocol: Protocol,
        at: usize,
    ) {
        if tools.is_same(&self.shown) {
            return;
        }
        if protocol == Protocol::Text
            && let Some(text) = told(profile, &self.shown, tools)
        {
            self.changes.push((at, text));
        }
        self.shown = tools.clone();
    }

    /// What is told before an exchange.
    pub(crate) fn before(&self, index: usize) -> impl Iterator<Item = &str> {
        let changes = self.changes.iter().filter(move |(at, _)| *at == index);
        changes.map(|(_, text)| text.as_str())
    }
}

/// What came and what went, in words for the model.
fn told(profile: &AgentProfile, before: &Snapshot, now: &Snapshot) -> Option<String> {
    let change = before.change_to(now);
    let is_new = |tool: &&Tool| change.added.contains(tool.id()) || change.changed.contains(tool.id());
    let language = profile.language.unwrap_or_default();
    let [came, gone] = match language {
        Language::En => ["The tools have changed. New ones:", "No longer there: "],
        Language::Zh => ["工具有变化。新增：", "不再可用："],
    };
    let mut catalogue = Catalogue::new(lang(language));
    let mut names = 0;
    for tool in direct(now).filter(is_new) {
        catalogue = catalogue.tool(tool.offered());
        names += 1;
    }
    let mut parts = Vec::new();
    if names > 0 {
        parts.push(format!("{came}\n{}", catalogue.render()));
    }
    if !change.removed.is_empty() {
        let removed: Vec<&str> = change.removed.iter().map(agent_types::ToolId::as_str).collect();
        parts.push(format!("{gone}{}", neutralize(&removed.join(", "))));
    }
    (!parts.is_empty()).then(|| parts.join("\n\n"))
}
