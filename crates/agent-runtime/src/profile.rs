//! `agent_profile.json`: instructions, permissions and settings of an agent.

use std::collections::BTreeMap;

use agent_types::BudgetLimits;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use tool_registry::Selection;

use crate::events::SubscribedEvent;
use crate::text_or_object::text_or_object;

/// Turns of a run unless the profile says otherwise.
const DEFAULT_TURNS: u64 = 16;

/// Tool calls of a run unless the profile says otherwise.
const DEFAULT_TOOL_CALLS: u64 = 32;

/// Faulty replies in a row that end a run unless the profile says otherwise.
const DEFAULT_CORRECTIONS: u64 = 3;

/// Namespace of workflows as tools.
const WORKFLOW: &str = "workflow:";

/// The language of what weft itself writes into a prompt.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Language {
    /// English.
    #[default]
    En,
    /// Chinese.
    Zh,
}

/// Protocol for tool calls.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum ProtocolChoice {
    /// In the provider's own form where the model's entry says that it can, else in text.
    #[default]
    Auto,
    /// In text.
    Text,
    /// In the provider's own form.
    Native,
}

/// Behaviour when the turns are used up.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum OnLimit {
    /// The run ends with what there is.
    #[default]
    Stop,
    /// The last turn is announced to the model, and its calls are refused.
    FinalAnswer,
}

/// Model and request settings.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
#[non_exhaustive]
pub struct LlmChoice {
    /// An entry `[models.<id>]`; absent is the default one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub profile: Option<String>,
    /// Settings that differ from the entry's.
    #[serde(flatten)]
    pub parameters: Map<String, Value>,
}

/// Approval requirement of a call.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum ApprovalChoice {
    /// A person is asked.
    Ask,
    /// It runs.
    Auto,
    /// It is refused.
    Never,
    /// A person is asked where this expression over `args` is true.
    AskIf(String),
}

/// Approval rules of an agent.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
#[non_exhaustive]
pub struct ApprovalPolicy {
    /// For tools that no rule names.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub default: Option<ApprovalChoice>,
    /// By canonical id.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub tools: BTreeMap<String, ApprovalChoice>,
}

/// Retention of a long conversation.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
#[non_exhaustive]
pub struct MemoryPolicy {
    /// Share of the context window at which old exchanges are put together.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub compact_at: Option<f64>,
    /// Newest messages that stay, widened to whole exchanges.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub keep: Option<usize>,
}

/// A tool of an inventory: its id, or the id with how it is treated.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(untagged)]
pub enum InventoryEntry {
    /// Just the id.
    Id(String),
    /// The id with rules.
    Detailed {
        /// Canonical id.
        id: String,
        /// `handle`: a stream output is answered with a handle.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        stream: Option<String>,
        /// Approval requirement.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        approval: Option<ApprovalChoice>,
        /// Name that the tool is offered under.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        name: Option<String>,
        /// Settings of a node.
        #[serde(default, skip_serializing_if = "Map::is_empty")]
        config: Map<String, Value>,
        /// Settings of a node that a call gives.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        parameters: Vec<String>,
        /// Keys that weft does not know.
        #[serde(flatten)]
        extra: BTreeMap<String, Value>,
    },
}

/// Entry of an inventory that is an object.
#[derive(Deserialize)]
struct DetailedEntry {
    id: String,
    stream: Option<String>,
    approval: Option<ApprovalChoice>,
    name: Option<String>,
    #[serde(default)]
    config: Map<String, Value>,
    #[serde(default)]
    parameters: Vec<String>,
    #[serde(flatten)]
    extra: BTreeMap<String, Value>,
}

impl From<DetailedEntry> for InventoryEntry {
    fn from(entry: DetailedEntry) -> Self {
        let DetailedEntry { id, stream, approval, name, config, parameters, extra } = entry;
        Self::Detailed { id, stream, approval, name, config, parameters, extra }
    }
}

impl<'de> Deserialize<'de> for InventoryEntry {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let expected = "the id of a tool, or an object with its `id`";
        text_or_object::<_, _, DetailedEntry>(deserializer, expected, Self::Id)
    }
}

impl InventoryEntry {
    /// The id as the file has it.
    #[must_use]
    pub fn id(&self) -> &str {
        match self {
            Self::Id(id) | Self::Detailed { id, .. } => id,
        }
    }

    /// Id of the tool that it offers: its name where it has one, else its id.
    #[must_use]
    pub fn tool_id(&self) -> String {
        match self {
            Self::Detailed { name: Some(name), .. } => name.clone(),
            Self::Id(id) | Self::Detailed { id, .. } => id.clone(),
        }
    }

    /// Returns `true` for an entry with a name or settings of its own, whose tool is made for this agent.
    #[must_use]
    pub fn is_configured(&self) -> bool {
        match self {
            Self::Id(_) => false,
            Self::Detailed { name, config, parameters, .. } => {
                name.is_some() || !config.is_empty() || !parameters.is_empty()
            }
        }
    }

    /// Id of the tool that it offers among the skills: its name, else its id, where `workflow:` is implied.
    #[must_use]
    pub fn skill_id(&self) -> String {
        match self {
            Self::Detailed { name: Some(name), .. } => name.clone(),
            Self::Id(id) | Self::Detailed { id, .. } => skill_id(id),
        }
    }

    fn approval(&self) -> Option<&ApprovalChoice> {
        match self {
            Self::Detailed { approval, .. } => approval.as_ref(),
            Self::Id(_) => None,
        }
    }

    /// Returns `true` if its calls answer with a task.
    fn has_handle(&self) -> bool {
        matches!(self, Self::Detailed { stream: Some(stream), .. } if stream == "handle")
    }

    /// Wildcard or id that it excludes: `!workflow:secret`.
    fn excluded(&self) -> Option<&str> {
        self.id().strip_prefix('!')
    }

    fn canonical(mut self, canonical: impl Fn(&str) -> String) -> Self {
        let with_id = match self.excluded() {
            Some(id) => format!("!{}", canonical(id)),
            None => canonical(self.id()),
        };
        match &mut self {
            Self::Id(id) | Self::Detailed { id, .. } => *id = with_id,
        }
        self
    }
}

/// An agent's budgets; see [`BudgetLimits`] for the keys.
pub type Budgets = BudgetLimits;

/// Instructions, permissions and settings of an agent. Unknown keys survive load and save.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct AgentProfile {
    /// Id of the agent.
    pub id: String,
    /// Name for people.
    #[serde(default)]
    pub name: String,
    /// Version of the profile.
    #[serde(default)]
    pub version: String,
    /// Version of the form of this file.
    #[serde(default)]
    pub schema_version: String,
    /// A workflow that deliberates instead of the built-in turn.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub core_deliberation_workflow_id: Option<String>,
    /// Tools that the agent may use.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub tool_ids_inventory: Vec<InventoryEntry>,
    /// Workflows offered as skills; `workflow:` is implied.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub skill_workflow_ids_inventory: Vec<InventoryEntry>,
    /// Purpose of the agent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub description: Option<String>,
    /// System message for the model.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub system_prompt: Option<String>,
    /// Language of what weft writes into the prompt.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub language: Option<Language>,
    /// Model of the agent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub llm: Option<LlmChoice>,
    /// Protocol for tool calls.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub protocol: Option<ProtocolChoice>,
    /// Limits of a run.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub budgets: Option<Budgets>,
    /// Behaviour when the turns are used up.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub on_limit: Option<OnLimit>,
    /// Approval requirements.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub approval: Option<ApprovalPolicy>,
    /// Retention of a long conversation.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub memory: Option<MemoryPolicy>,
    /// JSON Schema of the final answer.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub output_schema: Option<Value>,
    /// Values of the agent's private state before its first run.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub initial_private_state_values: Option<Map<String, Value>>,
    /// JSON Schema that the private state must fit.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub initial_private_state_schema: Option<Value>,
    /// Events from outside that start the agent.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub subscribed_event_types: Vec<SubscribedEvent>,
    /// Every other key, as it is.
    #[serde(flatten)]
    pub extra: Map<String, Value>,
}

/// Reason for which a text is not a valid profile.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ProfileError {
    /// The text is not JSON, or a value has the wrong shape.
    #[error("line {line}, column {column}: {message}")]
    Json {
        /// From 1.
        line: usize,
        /// From 1, in bytes.
        column: usize,
        /// Message of the JSON reader.
        message: String,
    },
}

impl ProfileError {
    /// Stable code for logs, tests and the wire.
    #[must_use]
    pub const fn code(&self) -> &'static str {
        match self {
            Self::Json { .. } => "bad_profile",
        }
    }
}

impl AgentProfile {
    /// A profile with nothing but its id.
    #[must_use]
    pub fn new(id: impl Into<String>) -> Self {
        Self { id: id.into(), ..Self::default() }
    }

    /// Reads a file's text.
    ///
    /// # Errors
    /// Broken JSON, a missing id, values of the wrong shape, with line and column.
    pub fn from_json(text: &str) -> Result<Self, ProfileError> {
        agent_types::read_json(text.as_bytes()).map_err(|error| {
            let message = error.to_string();
            let message = message.rsplit_once(" at line ").map_or(message.as_str(), |(before, _)| before);
            ProfileError::Json { line: error.line(), column: error.column(), message: message.to_owned() }
        })
    }

    /// The same profile with canonical ids in its inventories and its approval policy, such as `node:core:TextMerge` for
    /// `core:TextMerge`. A skill that is a name of another tool than a workflow stays as it is.
    #[must_use]
    pub fn with_canonical_ids(mut self, canonical: impl Fn(&str) -> String) -> Self {
        let entries = std::mem::take(&mut self.tool_ids_inventory).into_iter();
        self.tool_ids_inventory = entries.map(|entry| entry.canonical(&canonical)).collect();
        let skill = |name: &str| {
            let id = canonical(name);
            let is_new = id.starts_with(WORKFLOW) && id != skill_id(name);
            if is_new { id } else { name.to_owned() }
        };
        let skills = std::mem::take(&mut self.skill_workflow_ids_inventory).into_iter();
        self.skill_workflow_ids_inventory = skills.map(|entry| entry.canonical(skill)).collect();
        if let Some(policy) = &mut self.approval {
            // A name that an inventory gives to a tool of its own stays in force.
            for (id, choice) in policy.tools.clone() {
                policy.tools.entry(canonical(&id)).or_insert(choice);
            }
        }
        self
    }

    /// Ids of the tools that the agent may use: inventories in order, skills last. Entries `!id` exclude tools that a wildcard
    /// means.
    #[must_use]
    pub fn tool_ids(&self) -> Vec<String> {
        let included = self.tool_ids_inventory.iter().filter(|entry| entry.excluded().is_none());
        included.map(InventoryEntry::tool_id).chain(self.skill_ids()).collect()
    }

    /// Tools that are excluded, as ids and wildcards.
    fn excluded_ids(&self) -> impl Iterator<Item = String> {
        let skills = self.skill_workflow_ids_inventory.iter().filter_map(InventoryEntry::excluded);
        let tools = self.tool_ids_inventory.iter().filter_map(InventoryEntry::excluded).map(str::to_owned);
        tools.chain(skills.map(skill_id))
    }

    /// The skills among them.
    #[must_use]
    pub fn skill_ids(&self) -> Vec<String> {
        let skills = self.skill_workflow_ids_inventory.iter().filter(|entry| entry.excluded().is_none());
        skills.map(InventoryEntry::skill_id).collect()
    }

    /// Entry of an inventory that gives a tool of this id a name or settings, with the canonical id of what it stands for.
    #[must_use]
    pub fn configured(&self, tool: &str) -> Option<(&InventoryEntry, String)> {
        let mut tools = self.tool_ids_inventory.iter().filter(|entry| entry.is_configured());
        let mut skills = self.skill_workflow_ids_inventory.iter().filter(|entry| entry.is_configured());
        let listed = tools.find(|entry| entry.tool_id() == tool).map(|entry| (entry, entry.id().to_owned()));
        let skill =
            || skills.find(|entry| entry.skill_id() == tool).map(|entry| (entry, skill_id(entry.id())));
        listed.or_else(skill)
    }

    /// Selection of the agent's tools from all available ones, with their settings.
    #[must_use]
    pub fn selection(&self) -> Selection {
        let tools = self.tool_ids_inventory.iter().filter(|entry| entry.has_handle());
        let skills = self.skill_workflow_ids_inventory.iter().filter(|entry| entry.has_handle());
        let handles = tools.map(InventoryEntry::tool_id).chain(skills.map(InventoryEntry::skill_id));
        Selection::new(self.tool_ids()).hide(self.excluded_ids()).answer_with_handle(handles)
    }

    /// Limits of a run, with the defaults where the profile says nothing.
    #[must_use]
    pub fn limits(&self) -> BudgetLimits {
        let mut limits = self.budgets.clone().unwrap_or_default();
        limits.turns.get_or_insert(DEFAULT_TURNS);
        limits.tool_calls.get_or_insert(DEFAULT_TOOL_CALLS);
        limits.corrections.get_or_insert(DEFAULT_CORRECTIONS);
        limits
    }

    /// Returns `true` for an event that triggers the agent: `subscribed_event_types` name it, and the condition there
    /// holds.
    #[must_use]
    pub fn listens_to(&self, event: &str, payload: &Value) -> bool {
        self.subscribed_event_types.iter().any(|subscribed| subscribed.takes(event, payload))
    }

    /// Approval requirement of a tool: by name, in the inventory, by default.
    #[must_use]
    pub fn approval_of(&self, id: &str) -> Option<&ApprovalChoice> {
        let policy = self.approval.as_ref();
        // A rule for a tool holds under the name that an inventory gives it, too.
        let stands_for = self.configured(id).map(|(_, stands_for)| stands_for);
        let mut ids = [Some(id), stands_for.as_deref()].into_iter().flatten();
        let named = policy.and_then(|policy| ids.find_map(|id| policy.tools.get(id)));
        let listed = || {
            let tools = self.tool_ids_inventory.iter().filter(|entry| entry.tool_id() == id);
            let skills = self.skill_workflow_ids_inventory.iter().filter(|entry| entry.skill_id() == id);
            tools.chain(skills).find_map(InventoryEntry::approval)
        };
        named.or_else(listed).or_else(|| policy?.default.as_ref())
    }
}

/// Id of a skill; `workflow:` is implied.
fn skill_id(id: &str) -> String {
    if id.contains(':') { id.to_owned() } else { format!("{WORKFLOW}{id}") }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn unknown_keys_survive() {
        let text = r#"{"id":"a","name":"A","version":"1","schema_version":"1.0","initial_private_state_values":{"x":1},"zz":[null]}"#;
        let profile = AgentProfile::from_json(text).unwrap();
        assert_eq!(serde_json::to_string(&profile).unwrap(), text);
    }

    #[test]
    fn ids_are_canonical_and_skills_are_workflows() {
        let profile = AgentProfile::from_json(
            r#"{"id":"a","tool_ids_inventory":["system:now",{"id":"core:TextMerge","approval":"ask"},"!core:Ask"],"skill_workflow_ids_inventory":["greet"]}"#,
        )
        .unwrap()
        .with_canonical_ids(|id| if id.starts_with("core:") { format!("node:{id}") } else { id.to_owned() });
        assert_eq!(profile.tool_ids(), ["system:now", "node:core:TextMerge", "workflow:greet"]);
        assert!(!profile.selection().allows("node:core:Ask"));
        assert_eq!(profile.approval_of("node:core:TextMerge"), Some(&ApprovalChoice::Ask));
        assert_eq!(profile.approval_of("system:now"), None);
    }

    #[test]
    fn entries_have_settings_and_names_and_exclude_others() {
        let text = r#"{"id":"a","tool_ids_inventory":["workflow:*","!workflow:secret",{"id":"core:JsonSelect","name":"first","config":{"path":"$.a"},"parameters":["path"],"zz":1}],"skill_workflow_ids_inventory":["greet","!hidden"]}"#;
        let profile = AgentProfile::from_json(text).unwrap();
        assert_eq!(profile.tool_ids(), ["workflow:*", "first", "workflow:greet"]);
        let selection = profile.selection();
        assert!(selection.allows("workflow:open") && selection.allows("first"));
        assert!(!selection.allows("workflow:secret") && !selection.allows("workflow:hidden"));
        let kept: Value = serde_json::to_value(&profile.tool_ids_inventory[2]).unwrap();
        assert_eq!(kept, serde_json::from_str::<Value>(text).unwrap()["tool_ids_inventory"][2]);
    }

    #[test]
    fn faults_have_a_place() {
        let error = AgentProfile::from_json("{\n \"id\": 3}").unwrap_err();
        assert_eq!(error.to_string(), "line 2, column 8: invalid type: integer `3`, expected a string");
        let error = AgentProfile::from_json("{").unwrap_err();
        assert_eq!(error.code(), "bad_profile");
    }
}
