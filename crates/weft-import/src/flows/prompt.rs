//! The agent that a configuration describes.

use agent_runtime::{AgentProfile, Budgets, Language};

use crate::fields::{Fields, escaped};
use crate::report::LEFT_OUT;

/// Settings of the agent.
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
    pub(super) fn settings(&mut self, settings: Fields<'_>) {
        for (key, value) in settings.members() {
            let place = format!("/basic_settings/{}", escaped(key));
            if value.peek().as_str().is_none_or(|text| text.trim().is_empty()) {
                settings.ledger().unsupported(place, LEFT_OUT, "expected a text");
                continue;
            }
            let text = || value.text().unwrap_or_default();
            match key.as_str() {
                "name" => self.name = Some(text().to_owned()),
                "description" => {
                    self.description = Some(text().to_owned());
                    self.sections.push(text().to_owned());
                }
                "background" => self.section("Background", text()),
                "tone" => self.section("Tone", text()),
                "language" => self.language(text()),
                "chatbot_id" => {
                    self.id = Some(text().to_owned());
                    settings.ledger().changed(
                        place,
                        "changed",
                        "it is the agent's id, and what `{chatbotId}` stood for in requests",
                    );
                }
                _ => {}
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

    /// An action under a condition.
    pub(super) fn rule(&mut self, entry: Fields<'_>) {
        let text = |key: &str| entry.word(key).unwrap_or_default().trim();
        let tools = entry.texts("tools");
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
