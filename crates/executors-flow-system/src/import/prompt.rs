//! What a configuration says of the agent itself.

use agent_runtime::{AgentProfile, Budgets, Language};
use serde_json::{Map, Value};

use crate::config::Problems;

/// What is known of the agent.
#[derive(Debug, Default)]
pub(super) struct Profile {
    id: Option<String>,
    name: Option<String>,
    description: Option<String>,
    language: Option<Language>,
    turns: Option<u64>,
    sections: Vec<String>,
    rules: Vec<String>,
}

impl Profile {
    /// `basic_settings`.
    pub(super) fn settings(&mut self, settings: &Map<String, Value>, problems: &mut Problems) {
        for (key, value) in settings {
            let place = format!("/basic_settings/{}", crate::config::escaped(key));
            let Some(text) = value.as_str().filter(|text| !text.trim().is_empty()) else {
                problems.warning(place, "left_out", "expected a text");
                continue;
            };
            match key.as_str() {
                "name" => self.name = Some(text.to_owned()),
                "description" => {
                    self.description = Some(text.to_owned());
                    self.sections.push(text.to_owned());
                }
                "background" => self.section("Background", text),
                "tone" => self.section("Tone", text),
                "language" => self.language(text),
                "chatbot_id" => {
                    self.id = Some(text.to_owned());
                    problems.warning(
                        place,
                        "changed",
                        "it is the agent's id, and what `{chatbotId}` stood for in requests",
                    );
                }
                _ => problems.warning(place, "left_out", format!("`{key}` has no counterpart")),
            }
        }
    }

    fn language(&mut self, text: &str) {
        let lower = text.to_lowercase();
        if lower.starts_with("en") {
            self.language = Some(Language::En);
        } else if lower.starts_with("zh") || lower.starts_with("chinese") || text.contains('中') {
            self.language = Some(Language::Zh);
        }
        self.section("Language", text);
    }

    /// The agent's id, where there is one.
    pub(super) fn id(&self) -> Option<&str> {
        self.id.as_deref()
    }

    /// A part of the prompt with a heading.
    pub(super) fn section(&mut self, heading: &str, text: &str) {
        self.sections.push(format!("{heading}: {text}"));
    }

    /// What is done when something is the case.
    pub(super) fn rule(&mut self, entry: &Map<String, Value>) {
        let text = |key: &str| entry.get(key).and_then(Value::as_str).unwrap_or_default().trim();
        let named = entry.get("tools").and_then(Value::as_array).into_iter().flatten();
        let tools: Vec<&str> = named.filter_map(Value::as_str).collect();
        let with = if tools.is_empty() { String::new() } else { format!(" (tools: {})", tools.join(", ")) };
        self.rules.push(format!("- When: {}\n  Do: {}{with}", text("condition"), text("action")));
    }

    /// Their loop counts half of what it does.
    pub(super) fn iterations(&mut self, iterations: u64) {
        self.turns = Some(iterations.saturating_mul(2));
    }

    pub(super) fn into_agent(mut self) -> Option<AgentProfile> {
        if !self.rules.is_empty() {
            self.sections.push(format!("Rules:\n{}", self.rules.join("\n")));
        }
        if self.sections.is_empty() && self.name.is_none() {
            return None;
        }
        let mut profile = AgentProfile::new(self.id.unwrap_or_else(|| "assistant".to_owned()));
        profile.name = self.name.unwrap_or_default();
        "1".clone_into(&mut profile.version);
        "1.0".clone_into(&mut profile.schema_version);
        profile.description = self.description;
        profile.language = self.language;
        profile.system_prompt = Some(self.sections.join("\n\n")).filter(|prompt| !prompt.is_empty());
        profile.budgets = self.turns.map(|turns| Budgets { turns: Some(turns), ..Budgets::default() });
        Some(profile)
    }
}
