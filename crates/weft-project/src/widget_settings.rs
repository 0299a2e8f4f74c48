//! `[widgets.NAME]` of `weft.toml`: chats that other sites embed.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// A chat with one agent that other sites embed. Its users reach their own conversations and nothing else, and no token of the
/// server is in their browsers.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[non_exhaustive]
pub struct WidgetSettings {
    /// The agent that answers.
    pub agent: String,
    /// Origins of the sites that may embed it, such as `https://shop.example`.
    #[serde(default)]
    pub origins: Vec<String>,
    /// Heading of the chat. Default: the name of the agent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub title: Option<String>,
    /// Words that stand before the first message.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub greeting: Option<String>,
    /// Language of the chat's own words: `en` or `zh`. Default: the browser's.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub language: Option<WidgetLanguage>,
    /// Colours. Default: the system's.
    #[serde(default)]
    pub theme: WidgetTheme,
    /// Messages that one user may send in a minute; further ones are answered with 429.
    #[serde(default = "default_rate")]
    pub messages_per_minute: u32,
}

const fn default_rate() -> u32 {
    20
}

/// Language of a chat's own words.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum WidgetLanguage {
    /// English.
    En,
    /// Chinese.
    Zh,
}

/// Colours of a chat.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum WidgetTheme {
    /// Those of the system.
    #[default]
    Auto,
    /// Light.
    Light,
    /// Dark.
    Dark,
}
