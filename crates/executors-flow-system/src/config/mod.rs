//! Format of `flows.json`.

mod load;
mod problem;

use agent_types::{ApprovalDefault, BudgetLimits};
use http_caller::EndpointConfig;
use indexmap::IndexMap;
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use tool_http::HttpToolFile;

pub use agent_types::{Problem, Severity};
pub use problem::FlowsError;
pub(crate) use problem::{Problems, escaped};

/// `flows.json`: what happens around an agent without the model, and what the model is offered besides.
/// A key that is not known is an error.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
#[non_exhaustive]
pub struct FlowsFile {
    /// Address of the schema of this file, for editors.
    #[serde(rename = "$schema", skip_serializing_if = "Option::is_none")]
    pub schema: Option<String>,
    /// Id of the agent that answers; absent, the project's only one, else a built-in one on the default model.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub agent: Option<String>,
    /// Sub-agents and HTTP calls that the model may use, each as the tool `skill:<skill_id>`.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub skills: Vec<SkillConfig>,
    /// HTTP tools, as in `tools/*.tool.json`, each with an `approval` of its calls if it has one: `auto` or `ask`.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    #[schemars(schema_with = "tools_schema")]
    pub tools: Vec<HttpToolFile>,
    /// Approval of the calls of `tools`, by name: `auto` or `ask`. Absent, a request with an effect asks.
    #[serde(skip_serializing_if = "IndexMap::is_empty")]
    pub tool_approvals: IndexMap<String, Approval>,
    /// JSON Schema (2020-12) of the users' profiles, an object: an update that does not fit fails.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub profile_schema: Option<Value>,
    /// Flows, which answer matching messages in place of the agent. The model never sees them.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub flows: Vec<FlowConfig>,
    /// Handing over, closing, keeping a profile. The model never sees them.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub system_actions: Vec<ActionConfig>,
    /// Knowledge base of the agent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub retrieve_knowledge: Option<KnowledgeConfig>,
    /// Timers, which go off after silence or at set times.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub timers: Vec<TimerConfig>,
}

/// Way in which a skill is executed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum ExecutionMode {
    /// A sub-agent with its own prompt and tools.
    Agent,
    /// One HTTP call.
    Function,
}

/// Something that the model may hand a task to.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct SkillConfig {
    /// Its id; the tool is `skill:<skill_id>`.
    pub skill_id: String,
    /// Display name.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub title: Option<String>,
    /// Purpose of the skill, for the model.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub description: Option<String>,
    /// Way in which the skill is executed.
    pub execution_mode: ExecutionMode,
    /// System prompt of a sub-agent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub system_prompt: Option<String>,
    /// Of a sub-agent: ids of the tools that it may use.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub tools: Vec<String>,
    /// Of a sub-agent: limits of one call.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub budgets: Option<BudgetLimits>,
    /// Of a function: the request.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub endpoint: Option<EndpointConfig>,
    /// JSON Schema (2020-12) of the arguments, an object. Absent, a sub-agent takes a `task`, and a function one text for each placeholder.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub parameters: Option<Value>,
    /// Of a sub-agent: its task, over the arguments: `Write about {topic} in {style} style.` Absent, the only text of the
    /// arguments, else all of them as JSON.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub task: Option<String>,
    /// Approval of its calls: `auto` or `ask`. Absent, a request with an effect asks.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub approval: Option<Approval>,
}

/// Approval of the calls of a tool, as the operator wrote it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Approval {
    /// They run.
    Auto,
    /// They wait until a human has approved them.
    Ask,
}

impl From<Approval> for ApprovalDefault {
    fn from(approval: Approval) -> Self {
        match approval {
            Approval::Auto => Self::Auto,
            Approval::Ask => Self::Ask,
        }
    }
}

/// Rule for a member of the profile that has another value already.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum OnConflict {
    /// The new value replaces the old one.
    #[default]
    Replace,
    /// The old value stays.
    Keep,
    /// Both stay, as a list.
    Append,
}

/// Syntax of a trigger's patterns.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum MatchKind {
    /// The message holds the text.
    #[default]
    Contains,
    /// The message is the text.
    Exact,
    /// A part of the message fits the regular expression; `^` and `$` are its ends.
    Regex,
}

/// Target of a flow.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum TargetConfig {
    /// Sends a request.
    Endpoint(Box<EndpointConfig>),
    /// Runs a workflow.
    Workflow(String),
    /// Runs what the program registered under that name.
    Handler(String),
}

/// Reaction to the failure of a flow.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum OnError {
    /// This is replied.
    Reply(String),
    /// The agent answers instead.
    Continue,
    /// Nothing is replied.
    Silent,
}

/// A flow, which answers matching messages in place of the agent.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct FlowConfig {
    /// Its id.
    pub flow_id: String,
    /// Display name.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub title: Option<String>,
    /// Patterns, any of which sets it off. Width, case and blanks do not count.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub trigger_patterns: Vec<String>,
    /// Syntax of the patterns.
    #[serde(default, rename = "match", skip_serializing_if = "is_default")]
    pub kind: MatchKind,
    /// Patterns that keep it from being set off, read alike; beside exact ones, as texts that the message holds.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub exclude: Vec<String>,
    /// The higher goes first; among equals system actions go before flows, then the order of the file counts.
    #[serde(default, skip_serializing_if = "is_default")]
    pub priority: i64,
    /// Target of the flow.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub target: Option<TargetConfig>,
    /// Short for `target.endpoint`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub endpoint: Option<EndpointConfig>,
    /// Values by name: `$message`, `$group.<name>` of a regular expression, `$ctx.<name>`, or any other value as it is (`$$` for a dollar).
    #[serde(default, skip_serializing_if = "IndexMap::is_empty")]
    pub parameter_mapping: IndexMap<String, Value>,
    /// Suppresses every reply.
    #[serde(default, skip_serializing_if = "is_default")]
    pub silent: bool,
    /// The reply, over `{result}`, `{user_message}` and `{$ctx.name}`; absent, the result.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub response_template: Option<String>,
    /// Reaction to a failure. Default: a fixed reply.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub on_error: Option<OnError>,
}

/// Time at which a system action runs.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum When {
    /// On a matching message, in place of the agent.
    #[default]
    OnMatch,
    /// Before each message is answered.
    BeforeTurn,
    /// After each message was answered.
    AfterTurn,
}

/// Something that is done around the agent.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ActionConfig {
    /// Its id.
    pub action_id: String,
    /// Display name.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub title: Option<String>,
    /// `handoff`, `close`, `update_profile`, or what the program registered under that name.
    pub handler: String,
    /// Time at which the action runs.
    #[serde(default, skip_serializing_if = "is_default")]
    pub when: When,
    /// Patterns, any of which sets it off.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub trigger_patterns: Vec<String>,
    /// Syntax of the patterns.
    #[serde(default, rename = "match", skip_serializing_if = "is_default")]
    pub kind: MatchKind,
    /// Patterns that keep it from being set off, read alike.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub exclude: Vec<String>,
    /// The higher goes first.
    #[serde(default, skip_serializing_if = "is_default")]
    pub priority: i64,
    /// Request that notifies another system.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub endpoint: Option<EndpointConfig>,
    /// Values by name, as in `parameter_mapping` of a flow. `update_profile` keeps them.
    #[serde(default, skip_serializing_if = "IndexMap::is_empty")]
    pub parameters: IndexMap<String, Value>,
    /// Of `update_profile` with an `endpoint`: members of the profile by name, each a dotted path in the answer. Without
    /// it and without `parameters`, all members of the answer are kept.
    #[serde(default, skip_serializing_if = "IndexMap::is_empty")]
    pub result_mapping: IndexMap<String, String>,
    /// Of `update_profile`: the rule for a member that has another value already.
    #[serde(default, skip_serializing_if = "is_default")]
    pub on_conflict: OnConflict,
    /// Nothing is replied.
    #[serde(default, skip_serializing_if = "is_default")]
    pub silent: bool,
    /// The reply, over `{result}`, `{user_message}` and `{$ctx.name}`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub response_template: Option<String>,
}

/// Way in which knowledge reaches the model.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum KnowledgeMode {
    /// The model looks things up when it wants to.
    #[default]
    Tool,
    /// The message is looked up while the model decides; the first time it asks, the answer is there.
    Prefetch,
}

/// Knowledge base of the agent.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct KnowledgeConfig {
    /// Way in which knowledge reaches the model.
    #[serde(default, skip_serializing_if = "is_default")]
    pub mode: KnowledgeMode,
    /// A knowledge base of the project: `name` of `[kb.<name>]`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub kb: Option<String>,
    /// A request to another system; the tool is `retrieve_knowledge`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub endpoint: Option<EndpointConfig>,
    /// Contents of the knowledge base, for the model.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub description: Option<String>,
    /// JSON Schema of the arguments of the request; absent, one text for each placeholder. The message goes into the first text.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub parameters: Option<Value>,
}

/// Action of a timer.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum TimerAction {
    /// Says this, over `{$ctx.name}`.
    Reply(String),
    /// Runs this flow.
    Flow(String),
    /// Runs this system action.
    SystemAction(String),
    /// Asks the agent this, over `{$ctx.name}`; its answer is said.
    Ask(String),
}

/// A timer, which goes off after silence or at set times.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct TimerConfig {
    /// Its id.
    pub timer_id: String,
    /// So long after the last answer, in milliseconds; a message of the user takes it back.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1))]
    pub delay_ms: Option<u64>,
    /// At these times: minute, hour, day, month, weekday; with seconds before them where there are six.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cron: Option<String>,
    /// Time zone of `cron`, such as `Europe/Oslo`; absent, UTC.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub time_zone: Option<String>,
    /// Limit of how often it goes off: of a delay, until the user writes again; of a cron, in a session. 0 means
    /// without limit.
    #[serde(default = "once")]
    pub max_triggers: u32,
    /// Action of the timer.
    pub action: TimerAction,
}

/// Schema of tools with an `approval` besides what their files have.
fn tools_schema(generator: &mut SchemaGenerator) -> Schema {
    let mut tool = HttpToolFile::json_schema(generator);
    let approval = generator.subschema_for::<Approval>().to_value();
    if let Some(Value::Object(properties)) = tool.ensure_object().get_mut("properties") {
        properties.insert("approval".to_owned(), approval);
    }
    json_schema!({"type": "array", "items": tool})
}

const fn once() -> u32 {
    1
}

fn is_default<T: Default + PartialEq>(value: &T) -> bool {
    *value == T::default()
}
