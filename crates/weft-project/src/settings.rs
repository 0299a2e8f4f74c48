//! `weft.toml`.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use agent_types::nearest;
use executors_flow_system::Texts;
use http_caller::HostRule;
use llm_provider::ModelConfig;
use mcp_bridge::McpSettings;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use session_channels::ChannelSettings;
use tool_command::{CommandPolicy, CommandSettings};
use tool_knowledge::KnowledgeSettings;
use tool_registry::files::FileError;

use crate::error::ProjectError;
use crate::files::read_file;
use crate::secret_rule::SecretRule;
use crate::server_settings::ServerSettings;
use crate::widget_settings::WidgetSettings;

/// The settings of a project. An unknown key is an error, so that a misspelt one is not passed over.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct Settings {
    /// Models by the name that agents and nodes use; `default` is used where no name is given.
    pub models: BTreeMap<String, ModelConfig>,
    /// Knowledge bases by name; each is the tool `kb:<name>`.
    #[serde(skip_serializing_if = "BTreeMap::is_empty", deserialize_with = "tool_knowledge::named")]
    pub kb: BTreeMap<String, KnowledgeSettings>,
    /// Servers of the Model Context Protocol by name; their tools are `mcp:<name>/<tool>`.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub mcp: BTreeMap<String, McpSettings>,
    /// Store of runs.
    #[serde(skip_serializing_if = "StoreSettings::is_default")]
    pub store: StoreSettings,
    /// Replies, one a line, that are played when neither an entry nor the environment names a model.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub script: Option<String>,
    /// Hosts that tools and flows may reach over HTTP.
    pub network: NetworkSettings,
    /// Secrets that files of the project may name.
    #[serde(skip_serializing_if = "SecretSettings::is_default")]
    pub secrets: SecretSettings,
    /// Programs that tools may run.
    #[serde(skip_serializing_if = "CommandSettings::is_default")]
    pub commands: CommandSettings,
    /// Settings of `weft serve`.
    #[serde(skip_serializing_if = "ServerSettings::is_default")]
    pub server: ServerSettings,
    /// Sentences in place of the fixed ones of sessions, by language: `[texts.en]` with `failed`, `handed_off`,
    /// `closed`, `updated`.
    #[serde(skip_serializing_if = "Texts::is_empty")]
    pub texts: Texts,
    /// Chats that other sites embed, by name: `/widget/NAME` of `weft serve`.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub widgets: BTreeMap<String, WidgetSettings>,
    /// Ways for users of other systems into sessions, by name: `/channels/NAME` of `weft serve`.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub channels: BTreeMap<String, ChannelSettings>,
}

/// Secrets that files of the project may name as `{$secret.NAME}`: variables of the environment.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
#[non_exhaustive]
pub struct SecretSettings {
    /// The hosts that each of them may go to, such as `WEATHER_KEY = ["api.example.com"]` (without a port every port is meant),
    /// and programs, such as `"command:git"`. A secret that is not listed goes nowhere.
    pub allow: BTreeMap<String, Vec<SecretRule>>,
}

impl SecretSettings {
    fn is_default(&self) -> bool {
        self.allow.is_empty()
    }

    /// Every rule, with its secret.
    fn rules(&self) -> impl Iterator<Item = (&String, &SecretRule)> {
        self.allow.iter().flat_map(|(name, rules)| rules.iter().map(move |rule| (name, rule)))
    }

    /// The hosts that each secret may be sent to.
    pub(crate) fn by_host(&self) -> BTreeMap<String, Vec<HostRule>> {
        let mut hosts: BTreeMap<String, Vec<HostRule>> = BTreeMap::new();
        for (name, rule) in self.rules() {
            if let SecretRule::Host(host) = rule {
                hosts.entry(name.clone()).or_default().push(host.clone());
            }
        }
        hosts
    }
}

/// Hosts that tools and flows may reach over HTTP. Models are reached at the addresses of their entries.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
#[non_exhaustive]
pub struct NetworkSettings {
    /// Hosts that may be reached although they are private, such as `127.0.0.1:8080`; without a port every port is meant.
    pub allow: Vec<HostRule>,
}

/// Place and retention of runs.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
#[non_exhaustive]
pub struct StoreSettings {
    /// The file, from the project's folder.
    pub path: PathBuf,
    /// Durability of a group of events.
    pub sync: SyncSetting,
    /// MiB of events that a run with loops keeps behind its newest snapshot.
    pub log_mib: u64,
    /// Limit of ended runs; the oldest are removed first. Default: no limit.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub keep_runs: Option<usize>,
    /// Days after their start for which ended runs are kept. Default: no limit.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub keep_days: Option<u32>,
}

/// Durability of a group of events.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum SyncSetting {
    /// Written to the disk: it survives a loss of power.
    #[default]
    Full,
    /// Written to the system: it survives the end of the process, including a crash.
    Normal,
}

impl Default for StoreSettings {
    fn default() -> Self {
        Self {
            path: PathBuf::from(".weft/weft.db"),
            sync: SyncSetting::default(),
            log_mib: 64,
            keep_runs: None,
            keep_days: None,
        }
    }
}

impl StoreSettings {
    fn is_default(&self) -> bool {
        *self == Self::default()
    }
}

impl Settings {
    /// Reads the file.
    ///
    /// # Errors
    /// The file is missing, is not TOML, or holds an unknown key (with a suggestion).
    pub fn read(path: &Path) -> Result<Self, ProjectError> {
        let text = read_file(path).map_err(|error| match error {
            ProjectError::NotText(at) => ProjectError::Settings(at),
            other => other,
        })?;
        Self::parse(path, &text)
    }

    /// Programs that may run in a project's folder, and the secrets that they may have.
    pub(crate) fn command_policy(&self, root: &Path) -> CommandPolicy {
        let policy = CommandPolicy::new(root).allowing(self.commands.allow.iter().cloned());
        self.secrets.rules().fold(policy, |policy, (name, rule)| match rule {
            SecretRule::Command(program) => policy.giving(name, program),
            SecretRule::Host(_) => policy,
        })
    }

    fn parse(path: &Path, text: &str) -> Result<Self, ProjectError> {
        toml::from_str(text).map_err(|error| {
            let before = error.span().map(|span| &text[..span.start.min(text.len())]);
            ProjectError::Settings(FileError {
                path: path.to_owned(),
                line: before.map(|before| before.matches('\n').count() + 1),
                column: before.map(|before| before.rsplit('\n').next().unwrap_or("").chars().count() + 1),
                message: with_suggestion(error.message()),
            })
        })
    }
}

/// Adds the near key of the same table, all of which the reader names, to its message about an unknown one.
fn with_suggestion(message: &str) -> String {
    let first = message.lines().next().unwrap_or(message);
    let mut names = first.split('`').skip(1).step_by(2);
    let unknown = names.next().filter(|_| first.starts_with("unknown field `"));
    match unknown.and_then(|key| nearest(key, names)) {
        Some(near) => format!("{first}; did you mean `{near}`?"),
        None => first.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(text: &str) -> Result<Settings, ProjectError> {
        Settings::parse(Path::new("weft.toml"), text)
    }

    #[test]
    fn models_have_names() {
        let settings = parse("[models.default]\nprovider = \"openai\"\nmodel = \"m\"\n").unwrap();
        assert_eq!(settings.models["default"].model, "m");
        assert_eq!(parse("").unwrap(), Settings::default());
    }

    #[test]
    fn hosts_are_read_when_the_file_is() {
        let settings = parse("[network]\nallow = [\"127.0.0.1:8080\", \"printer.local\"]\n").unwrap();
        let shown: Vec<String> = settings.network.allow.iter().map(ToString::to_string).collect();
        assert_eq!(shown, ["127.0.0.1:8080", "printer.local"]);
        let error = parse("[network]\nallow = [\"http://x\"]\n").unwrap_err();
        assert!(
            error.to_string().starts_with("`http://x` is not a host; write `host` or `host:port`"),
            "{error}"
        );
        assert_eq!(error.place().unwrap().1, Some(2));
        let error = parse("[network]\nalow = []\n").unwrap_err();
        assert!(error.to_string().ends_with("did you mean `allow`?"), "{error}");
    }

    #[test]
    fn a_name_of_a_base_is_one_of_a_tool() {
        let error = parse("[kb.a]\npath = \"x\"\n[kb.\"a b\"]\npath = \"x\"\n").unwrap_err();
        assert!(error.to_string().starts_with("`a b` can be no name of a knowledge base"), "{error}");
        assert_eq!(error.place().unwrap().1, Some(3));
    }

    #[test]
    fn an_unknown_key_is_an_error_with_a_suggestion() {
        let error = parse("[models.default]\nprovider = \"openai\"\nmodle = \"m\"\n").unwrap_err();
        assert!(error.to_string().contains("unknown field `modle`"), "{error}");
        assert!(error.to_string().ends_with("did you mean `model`?"), "{error}");
        assert_eq!(error.place().unwrap().1, Some(3));
        for (text, near) in [
            ("[model.default]\nprovider = \"openai\"\n", "models"),
            ("[server]\nprot = 1\n", "port"),
            ("[store]\nkeep_run = 1\n", "keep_runs"),
            ("[kb.a]\npaht = \"x\"\n", "path"),
        ] {
            let said = parse(text).unwrap_err().to_string();
            assert!(said.ends_with(&format!("did you mean `{near}`?")), "{said}");
        }
    }
}
