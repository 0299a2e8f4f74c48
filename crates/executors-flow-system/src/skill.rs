//! Skills: what the model may hand a task to.

use std::sync::Arc;

use agent_runtime::{Agent, AgentProfile, Language, SubAgent, TaskText};
use agent_types::ToolDefinition;
use http_caller::{HttpCaller, ReplyTemplate};
use llm_provider::LlmProvider;
use serde_json::{Map, Value, json};
use tool_http::{HttpToolFile, http_tool};
use tool_registry::{Snapshot, Tool, ToolSettings};
use tool_schema::ToolSetError;

use crate::config::{ExecutionMode, Problems, SkillConfig};
use crate::knowledge::texts_of;
use crate::lookup::{Delegate, ToolLookup};

/// A sub-agent that waits for a model.
#[derive(Debug, Clone)]
pub(crate) struct AgentSkill {
    pub(crate) definition: ToolDefinition,
    pub(crate) profile: AgentProfile,
    pub(crate) tools: Snapshot,
    task: Option<Arc<TaskTemplate>>,
}

/// Task of a sub-agent over the arguments of its call.
#[derive(Debug)]
struct TaskTemplate(ReplyTemplate);

impl TaskText for TaskTemplate {
    fn text(&self, arguments: &Map<String, Value>) -> String {
        self.0.fill(arguments).0
    }
}

/// Longest time of a sub-agent unless its budget says otherwise.
const MAX_TIME: std::time::Duration = std::time::Duration::from_mins(10);

impl AgentSkill {
    /// The tool, with the model that thinks in it.
    pub(crate) fn tool(
        &self,
        model: Arc<dyn LlmProvider>,
        language: Option<Language>,
    ) -> Result<Tool, ToolSetError> {
        let profile = AgentProfile { language, ..self.profile.clone() };
        let time = self.profile.limits().wall_ms.map_or(MAX_TIME, std::time::Duration::from_millis);
        let agent = Agent::from_profile(profile, model, self.tools.clone());
        let mut agent = SubAgent::new(agent);
        if let Some(task) = &self.task {
            agent = agent.with_task(Arc::clone(task) as Arc<dyn TaskText>);
        }
        let tool = agent.into_tool(self.definition.clone())?;
        Ok(tool.with_settings(ToolSettings::default().with_timeout(time)))
    }
}

/// The tool with which a sub-agent ends: what it gives is the result.
const DONE: &str = "system:done";

/// Form of a skill.
pub(crate) enum Skill {
    Agent(Box<AgentSkill>),
    Function(Tool),
}

impl Skill {
    pub(crate) fn parse(
        config: &SkillConfig,
        lookup: &dyn ToolLookup,
        caller: &HttpCaller,
        place: &str,
        problems: &mut Problems,
    ) -> Option<Self> {
        let id = match format!("skill:{}", config.skill_id).parse() {
            Ok(id) => id,
            Err(error) => {
                problems.error(format!("{place}/skill_id"), "bad_id", format!("{error}"));
                return None;
            }
        };
        unused(config, place, problems);
        match config.execution_mode {
            ExecutionMode::Agent => {
                let parameters = config.parameters.clone().unwrap_or_else(task);
                let definition = ToolDefinition::new(id, description(config, place, problems), parameters);
                let mut definition = titled(definition, config);
                definition.approval = config.approval.map(Into::into);
                let task = task_template(config, &definition.parameters, place, problems);
                if let Err(error) = tool_schema::OfferedTool::from_definition(definition.clone()) {
                    problems.error(format!("{place}/parameters"), error.code(), error.to_string());
                    return None;
                }
                let tools = tools_of(config, lookup, place, problems);
                let mut profile = AgentProfile::new(config.skill_id.as_str());
                profile.system_prompt.clone_from(&config.system_prompt);
                profile.budgets.clone_from(&config.budgets);
                Some(Self::Agent(Box::new(AgentSkill { definition, profile, tools, task })))
            }
            ExecutionMode::Function => function(config, id, caller, place, problems).map(Self::Function),
        }
    }
}

/// The task of a sub-agent, whose placeholders are its parameters.
fn task_template(
    config: &SkillConfig,
    parameters: &Value,
    place: &str,
    problems: &mut Problems,
) -> Option<Arc<TaskTemplate>> {
    let names = parameters.get("properties").and_then(Value::as_object).into_iter().flat_map(Map::keys);
    let names: Vec<&str> = names.map(String::as_str).collect();
    match ReplyTemplate::parse(config.task.as_deref()?, &names) {
        Ok(template) => Some(Arc::new(TaskTemplate(template))),
        Err(problem) => {
            problems.http(&format!("{place}/task"), problem);
            None
        }
    }
}

/// Default parameters of a sub-agent.
fn task() -> Value {
    json!({
        "type": "object",
        "properties": {"task": {"type": "string", "description": "what is to be done, with all that is needed for it"}},
        "required": ["task"],
        "additionalProperties": false
    })
}

fn titled(definition: ToolDefinition, config: &SkillConfig) -> ToolDefinition {
    match &config.title {
        Some(title) => definition.with_title(title.as_str()),
        None => definition,
    }
}

/// Description for the model; by default, the closest text in the file.
fn description(config: &SkillConfig, place: &str, problems: &mut Problems) -> String {
    if let Some(description) = config.description.clone().filter(|text| !text.trim().is_empty()) {
        return description;
    }
    let message = "the skill has no description for the model; write a `description`";
    problems.warning(place, "missing_description", message);
    let prompt = config.system_prompt.as_deref().and_then(|prompt| prompt.lines().next());
    let instead = config.title.as_deref().or(prompt).filter(|text| !text.trim().is_empty());
    instead.unwrap_or(&config.skill_id).to_owned()
}

/// The tools of a sub-agent. An unknown one is reported, and the skill does without it.
fn tools_of(config: &SkillConfig, lookup: &dyn ToolLookup, place: &str, problems: &mut Problems) -> Snapshot {
    let system = tool_system::system_tools().unwrap_or_default();
    let mut tools: Vec<Tool> = system.into_iter().filter(|tool| tool.id().as_str() == DONE).collect();
    for (index, name) in config.tools.iter().enumerate() {
        let path = format!("{place}/tools/{index}");
        match lookup.lookup(name) {
            Ok(tool) if tools.iter().any(|known| known.id() == tool.id()) => {
                problems.warning(path, "duplicate_tool", format!("`{}` is listed twice", tool.id()));
            }
            Ok(tool) => tools.push(tool),
            Err(none) => problems.missing_tool(path, none.message, none.near),
        }
    }
    Snapshot::new(tools).unwrap_or_default()
}

fn function(
    config: &SkillConfig,
    id: agent_types::ToolId,
    caller: &HttpCaller,
    place: &str,
    problems: &mut Problems,
) -> Option<Tool> {
    let Some(endpoint) = &config.endpoint else {
        problems.error(place, "no_target", "a function has an `endpoint`");
        return None;
    };
    let parameters = config.parameters.clone().unwrap_or_else(|| texts_of(endpoint));
    let file =
        HttpToolFile::new("function", description(config, place, problems), parameters, endpoint.clone());
    let tool = http_tool(&file, caller)
        .map_err(|error| crate::builder::http_problems(error, place, problems))
        .ok()?;
    let mut definition = titled(tool.definition().clone(), config);
    definition.id = id;
    definition.approval = config.approval.map(Into::into);
    let (kind, settings, parts) = (tool.kind(), tool.settings().clone(), tool.parts().clone());
    let skill =
        Tool::new(definition, kind, Delegate(tool)).with_settings(settings).with_parts(parts).checked();
    skill.map_err(|error| problems.error(place, error.code(), error.to_string())).ok()
}

/// Keys that say nothing in this mode.
fn unused(config: &SkillConfig, place: &str, problems: &mut Problems) {
    let (mode, keys) = match config.execution_mode {
        ExecutionMode::Agent => ("a sub-agent", vec![("endpoint", config.endpoint.is_some())]),
        ExecutionMode::Function => (
            "a function",
            vec![
                ("system_prompt", config.system_prompt.is_some()),
                ("tools", !config.tools.is_empty()),
                ("budgets", config.budgets.is_some()),
                ("task", config.task.is_some()),
            ],
        ),
    };
    for (key, _) in keys.into_iter().filter(|(_, is_there)| *is_there) {
        problems.warning(format!("{place}/{key}"), "unused_key", format!("{mode} has no use for `{key}`"));
    }
}
