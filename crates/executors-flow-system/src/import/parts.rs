//! The parts of a configuration, one by one.

use std::collections::HashMap;

use serde::de::DeserializeOwned;
use serde_json::{Map, Value, json};

use super::{prompt, request};
use crate::config::{
    ActionConfig, ExecutionMode, FlowConfig, FlowsFile, KnowledgeConfig, KnowledgeMode, MatchKind, OnError,
    Problems, SkillConfig, TargetConfig, TimerAction, TimerConfig, When, escaped,
};
use crate::step::USER_MESSAGE;

/// The tool through which their flows are run.
const FLOW_EXECUTOR: &str = "flow_executor";

/// Names of system actions that may not run at every message.
const DANGEROUS: [(&str, &str); 5] = [
    ("handoff", "handoff"),
    ("hand_off", "handoff"),
    ("transfer", "handoff"),
    ("close", "close"),
    ("end_", "close"),
];

pub(super) struct Reader {
    pub(super) problems: Problems,
    pub(super) file: FlowsFile,
    pub(super) profile: prompt::Profile,
    pub(super) places: Places,
}

/// Where in their file the parts of ours stand, by list and in order.
#[derive(Debug, Default)]
pub(super) struct Places(HashMap<&'static str, Vec<String>>);

impl Places {
    fn add(&mut self, list: &'static str, place: &str) {
        self.0.entry(list).or_default().push(place.to_owned());
    }

    /// A path of our file as one of theirs.
    pub(super) fn theirs(&self, path: &str) -> String {
        let mut steps = path.splitn(4, '/').skip(1);
        let list = steps.next().unwrap_or_default();
        let place = steps.next().and_then(|at| self.0.get(list)?.get(at.parse::<usize>().ok()?));
        match (place, steps.next()) {
            (Some(place), Some(rest)) => format!("{place}/{rest}"),
            (Some(place), None) => place.clone(),
            (None, _) => path.to_owned(),
        }
    }

    pub(super) fn remove(&mut self, list: &str, at: usize) {
        if let Some(places) = self.0.get_mut(list).filter(|places| at < places.len()) {
            places.remove(at);
        }
    }
}

/// A list of theirs; a single value is one of one.
fn items(value: Option<&Value>) -> Vec<Value> {
    value.and_then(Value::as_array).cloned().unwrap_or_default()
}

fn word<'v>(entry: &'v Map<String, Value>, key: &str) -> Option<&'v str> {
    entry.get(key).and_then(Value::as_str).filter(|text| !text.trim().is_empty())
}

impl Reader {
    pub(super) fn read(&mut self, members: &Map<String, Value>) {
        let tools = items(members.get("tools"));
        let executor =
            tools.iter().find(|tool| tool.get("name").and_then(Value::as_str) == Some(FLOW_EXECUTOR));
        if let Some(Value::Object(settings)) = members.get("basic_settings") {
            self.profile.settings(settings, &mut self.problems);
        }
        for (key, value) in members {
            let place = format!("/{}", escaped(key));
            match (key.as_str(), value) {
                (_, Value::Null) | ("basic_settings", Value::Object(_)) => {}
                ("instructions", Value::String(text)) => self.profile.section("Instructions", text),
                ("constraints", Value::String(text)) => self.profile.section("Constraints", text),
                ("need_greeting", Value::String(text)) => {
                    self.profile.section("Begin the conversation with", text);
                    self.problems.warning(
                        place,
                        "changed",
                        "the agent is told to say it; nothing is said before the user writes",
                    );
                }
                ("max_iterations", Value::Number(number)) => match number.as_u64() {
                    Some(number) => self.profile.iterations(number),
                    None => self.left_out(&place, key),
                },
                ("action_books", Value::Array(entries)) => self.rules(entries, &place),
                ("skills", Value::Array(entries)) => self.skills(entries),
                ("tools", Value::Array(entries)) => {
                    self.tools(entries, executor.is_some() && members.contains_key("flows"));
                }
                ("flows", Value::Array(entries)) => self.flows(entries, executor),
                ("system_actions", Value::Array(entries)) => self.actions(entries, &tools),
                ("retrieve_knowledge", value @ Value::Object(_)) => {
                    self.file.retrieve_knowledge = self.ours(value.clone(), &place);
                }
                ("retrieve_knowledge_url", Value::String(url)) => {
                    self.knowledge(url, members.get("basic_settings"));
                }
                ("timers", Value::Array(entries)) => self.timers(entries),
                ("agent", Value::String(id)) => self.file.agent = Some(id.clone()),
                ("agent_actions", _) => {
                    self.problems.warning(
                        place,
                        "left_out",
                        "the agent is offered all tools; what it may use is said in its profile",
                    );
                }
                _ => self.left_out(&place, key),
            }
        }
    }

    fn left_out(&mut self, place: &str, key: &str) {
        self.problems.warning(place, "left_out", format!("`{key}` has no counterpart"));
    }

    /// A part that has our form.
    fn ours<T: DeserializeOwned>(&mut self, value: Value, place: &str) -> Option<T> {
        let read = serde_path_to_error::deserialize(value);
        let told = |error: serde_path_to_error::Error<serde_json::Error>| {
            self.problems.warning(place, "left_out", format!("it is left out: {}", error.inner()));
        };
        read.map_err(told).ok()
    }

    /// Says which keys of an entry mean nothing here.
    fn tell_unused(&mut self, entry: &Map<String, Value>, used: &[&str], place: &str) {
        for key in entry.keys().filter(|key| !used.contains(&key.as_str())) {
            self.left_out(&format!("{place}/{}", escaped(key)), key);
        }
    }

    fn rules(&mut self, entries: &[Value], place: &str) {
        for (at, entry) in entries.iter().enumerate() {
            match entry.as_object() {
                Some(entry) => {
                    self.profile.rule(entry);
                    self.tell_unused(entry, &["condition", "action", "tools"], &format!("{place}/{at}"));
                }
                None => self.left_out(&format!("{place}/{at}"), "a rule that is no object"),
            }
        }
    }

    fn skills(&mut self, entries: &[Value]) {
        for (at, entry) in entries.iter().enumerate() {
            let place = format!("/skills/{at}");
            let Some(entry) = entry.as_object() else {
                self.left_out(&place, "a skill that is no object");
                continue;
            };
            let Some(id) = word(entry, "skill_id") else {
                self.profile.rule(entry);
                self.tell_unused(entry, &["condition", "action", "tools"], &place);
                continue;
            };
            let mode = match word(entry, "execution_mode") {
                Some("function") => ExecutionMode::Function,
                _ => ExecutionMode::Agent,
            };
            let endpoint = entry.get("endpoint").and_then(|endpoint| {
                let names = placeholder_names(endpoint);
                let names: Vec<&str> = names.iter().map(String::as_str).collect();
                request::endpoint(endpoint, &names, &format!("{place}/endpoint"), &mut self.problems)
            });
            let named = items(entry.get("tools"));
            let budgets = entry.get("budgets").cloned();
            let budgets = budgets.and_then(|budgets| self.ours(budgets, &format!("{place}/budgets")));
            self.places.add("skills", &place);
            self.file.skills.push(SkillConfig {
                skill_id: id.to_owned(),
                title: word(entry, "title").or_else(|| word(entry, "name")).map(str::to_owned),
                description: word(entry, "description").map(str::to_owned),
                execution_mode: mode,
                system_prompt: word(entry, "system_prompt").map(str::to_owned),
                tools: named.iter().filter_map(Value::as_str).map(str::to_owned).collect(),
                budgets,
                endpoint,
                parameters: entry.get("parameters").filter(|parameters| parameters.is_object()).cloned(),
            });
            let used = [
                "skill_id",
                "title",
                "name",
                "description",
                "execution_mode",
                "system_prompt",
                "tools",
                "budgets",
                "endpoint",
                "parameters",
            ];
            self.tell_unused(entry, &used, &place);
        }
    }

    fn tools(&mut self, entries: &[Value], has_flows: bool) {
        for (at, entry) in entries.iter().enumerate() {
            let place = format!("/tools/{at}");
            if has_flows && entry.get("name").and_then(Value::as_str) == Some(FLOW_EXECUTOR) {
                self.problems.warning(
                    place,
                    "left_out",
                    "flows run by themselves; the model needs no tool for them",
                );
                continue;
            }
            let entry = match self.profile.id() {
                Some(id) => request::with_bot(entry, id),
                None => entry.clone(),
            };
            if let Some(tool) = request::tool(&entry, &place, &mut self.problems) {
                self.places.add("tools", &place);
                self.file.tools.push(tool);
            }
        }
    }

    fn flows(&mut self, entries: &[Value], executor: Option<&Value>) {
        for (at, entry) in entries.iter().enumerate() {
            let place = format!("/flows/{at}");
            let Some((entry, id)) =
                entry.as_object().and_then(|entry| Some((entry, word(entry, "flow_id")?)))
            else {
                self.left_out(&place, "a flow without `flow_id`");
                continue;
            };
            if word(entry, "type") == Some("intent") {
                self.intent(entry, id, executor, &place);
            } else {
                self.keyword(entry, id, executor, &place);
            }
        }
    }

    /// A flow that the model chooses is a skill.
    fn intent(&mut self, entry: &Map<String, Value>, id: &str, executor: Option<&Value>, place: &str) {
        let Some(endpoint) = self.endpoint_of(entry, id, executor, place) else { return };
        let message = format!("the model chooses it: it is the skill `skill:{id}` now");
        self.problems.warning(place, "changed", message);
        self.places.add("skills", place);
        self.file.skills.push(SkillConfig {
            skill_id: id.to_owned(),
            title: word(entry, "name").map(str::to_owned),
            description: word(entry, "description").map(str::to_owned),
            execution_mode: ExecutionMode::Function,
            system_prompt: None,
            tools: Vec::new(),
            budgets: None,
            endpoint: Some(endpoint),
            parameters: None,
        });
        self.tell_unused(entry, &["flow_id", "name", "type", "description", "endpoint"], place);
    }

    fn keyword(&mut self, entry: &Map<String, Value>, id: &str, executor: Option<&Value>, place: &str) {
        let other = entry.get("target").cloned();
        let target: Option<TargetConfig> = match other {
            Some(target) => self.ours(target, &format!("{place}/target")),
            None => self.endpoint_of(entry, id, executor, place).map(Box::new).map(TargetConfig::Endpoint),
        };
        let Some(target) = target else { return };
        let kind = match word(entry, "match").or_else(|| word(entry, "match_type")) {
            Some("exact") => MatchKind::Exact,
            Some("regex") => MatchKind::Regex,
            _ => MatchKind::Contains,
        };
        let texts = |key: &str| {
            items(entry.get(key)).iter().filter_map(Value::as_str).map(str::to_owned).collect::<Vec<_>>()
        };
        let (endpoint, target) = match target {
            TargetConfig::Endpoint(endpoint) => (Some(*endpoint), None),
            target => (None, Some(target)),
        };
        let mapping = entry.get("parameter_mapping").filter(|mapping| mapping.is_object());
        let on_error: Option<OnError> =
            entry.get("on_error").and_then(|rule| self.ours(rule.clone(), &format!("{place}/on_error")));
        self.places.add("flows", place);
        self.file.flows.push(FlowConfig {
            flow_id: id.to_owned(),
            title: word(entry, "title").or_else(|| word(entry, "name")).map(str::to_owned),
            trigger_patterns: texts("trigger_patterns"),
            kind,
            exclude: texts("exclude"),
            priority: entry.get("priority").and_then(Value::as_i64).unwrap_or_default(),
            target,
            endpoint,
            parameter_mapping: mapping
                .and_then(|mapping| serde_json::from_value(mapping.clone()).ok())
                .unwrap_or_default(),
            silent: entry.get("silent").and_then(Value::as_bool).unwrap_or_default(),
            response_template: word(entry, "response_template").map(request::text),
            on_error,
        });
        let used = [
            "flow_id",
            "title",
            "name",
            "type",
            "match",
            "match_type",
            "trigger_patterns",
            "exclude",
            "priority",
            "target",
            "endpoint",
            "parameter_mapping",
            "silent",
            "response_template",
            "on_error",
        ];
        self.tell_unused(entry, &used, place);
    }

    /// A flow's own request, else that of the tool through which their flows are run.
    fn endpoint_of(
        &mut self,
        entry: &Map<String, Value>,
        id: &str,
        executor: Option<&Value>,
        place: &str,
    ) -> Option<http_caller::EndpointConfig> {
        let own = entry.get("endpoint").cloned();
        let shared = || {
            executor
                .and_then(|executor| executor.get("endpoint"))
                .map(|endpoint| request::fixed(endpoint, "flow_id", id))
        };
        let Some(endpoint) = own.or_else(shared) else {
            self.problems.warning(
                place,
                "left_out",
                "it has no `endpoint`, and there is no tool `flow_executor`",
            );
            return None;
        };
        let mapped = entry.get("parameter_mapping").and_then(Value::as_object);
        let names: Vec<&str> =
            mapped.into_iter().flat_map(Map::keys).map(String::as_str).chain([USER_MESSAGE]).collect();
        request::endpoint(&endpoint, &names, &format!("{place}/endpoint"), &mut self.problems)
    }

    fn actions(&mut self, entries: &[Value], tools: &[Value]) {
        for (at, entry) in entries.iter().enumerate() {
            let place = format!("/system_actions/{at}");
            match entry {
                Value::Object(entry) => {
                    let mut entry = entry.clone();
                    if let Some(endpoint) = entry.shift_remove("endpoint") {
                        let mapped = entry.get("parameters").and_then(Value::as_object);
                        let names: Vec<&str> = mapped
                            .into_iter()
                            .flat_map(Map::keys)
                            .map(String::as_str)
                            .chain([USER_MESSAGE])
                            .collect();
                        let endpoint = request::endpoint(
                            &endpoint,
                            &names,
                            &format!("{place}/endpoint"),
                            &mut self.problems,
                        );
                        let endpoint = endpoint.and_then(|endpoint| serde_json::to_value(endpoint).ok());
                        entry.extend(endpoint.map(|endpoint| ("endpoint".to_owned(), endpoint)));
                    }
                    if let Some(action) = self.ours(Value::Object(entry), &place) {
                        self.places.add("system_actions", &place);
                        self.file.system_actions.push(action);
                    }
                }
                Value::String(name) => self.action_of_tool(name, tools, &place),
                _ => self.left_out(&place, "a system action that is neither a name nor an object"),
            }
        }
    }

    /// Their system actions are names of tools that are called at every message, and whose answers fill replies in.
    fn action_of_tool(&mut self, name: &str, tools: &[Value], place: &str) {
        let Some(tool) = tools.iter().find(|tool| tool.get("name").and_then(Value::as_str) == Some(name))
        else {
            self.problems.warning(place, "left_out", format!("there is no tool `{name}`"));
            return;
        };
        let tool = self.profile.id().map_or_else(|| tool.clone(), |id| request::with_bot(tool, id));
        let endpoint = tool.get("endpoint").cloned().unwrap_or_default();
        let endpoint =
            request::endpoint(&endpoint, &[USER_MESSAGE], &format!("{place}/endpoint"), &mut self.problems);
        let dangerous = DANGEROUS.iter().find(|(part, _)| name.contains(part));
        let (handler, when, message) = if let Some((_, handler)) = dangerous {
            let message =
                format!("`{name}` at every message would be {handler}: write `trigger_patterns` for it");
            (*handler, When::OnMatch, message)
        } else {
            let message =
                "it runs before each message, and what it answers is the user's profile: `{$ctx.profile.…}`";
            ("update_profile", When::BeforeTurn, message.to_owned())
        };
        self.problems.warning(place, "changed", message);
        self.places.add("system_actions", place);
        self.file.system_actions.push(ActionConfig {
            action_id: name.to_owned(),
            title: None,
            handler: handler.to_owned(),
            when,
            trigger_patterns: Vec::new(),
            kind: MatchKind::default(),
            exclude: Vec::new(),
            priority: 0,
            endpoint,
            parameters: indexmap::IndexMap::new(),
            silent: when != When::OnMatch,
            response_template: None,
        });
    }

    fn knowledge(&mut self, url: &str, settings: Option<&Value>) {
        let bot = settings.and_then(|settings| settings.get("chatbot_id"));
        let mut query = json!({"keywords": "{keywords}"});
        if let Some(bot) = bot {
            query["chatbotId"] = bot.clone();
        }
        let place = "/retrieve_knowledge_url";
        self.problems.warning(
            place,
            "changed",
            "the message is looked up beside the agent, as `keywords` in the query",
        );
        let endpoint = json!({"url": url, "method": "GET", "query_params": query});
        let endpoint = request::endpoint(&endpoint, &["keywords"], place, &mut self.problems);
        let mode = KnowledgeMode::Prefetch;
        self.file.retrieve_knowledge = endpoint.map(|endpoint| KnowledgeConfig {
            mode,
            kb: None,
            endpoint: Some(endpoint),
            description: None,
            parameters: None,
        });
    }

    fn timers(&mut self, entries: &[Value]) {
        for (at, entry) in entries.iter().enumerate() {
            let place = format!("/timers/{at}");
            let Some((entry, id)) =
                entry.as_object().and_then(|entry| Some((entry, word(entry, "timer_id")?)))
            else {
                self.left_out(&place, "a timer without `timer_id`");
                continue;
            };
            if entry.contains_key("action") {
                if let Some(timer) = self.ours(Value::Object(entry.clone()), &place) {
                    self.places.add("timers", &place);
                    self.file.timers.push(timer);
                }
                continue;
            }
            let says = word(entry, "tool_name").is_none_or(|tool| tool == "generate_response");
            let Some(message) = word(entry, "message").filter(|_| says) else {
                self.problems.warning(place, "left_out", "only a timer with a `message` can be honoured");
                continue;
            };
            let seconds = entry.get("delay_seconds").and_then(Value::as_u64).unwrap_or(300);
            let most = entry.get("max_triggers").and_then(Value::as_u64).unwrap_or(1);
            self.problems.warning(
                format!("{place}/message"),
                "changed",
                "it is said as it is; no model is asked",
            );
            self.places.add("timers", &place);
            self.file.timers.push(TimerConfig {
                timer_id: id.to_owned(),
                delay_ms: Some(seconds.saturating_mul(1000)),
                cron: None,
                time_zone: None,
                max_triggers: u32::try_from(most).unwrap_or(u32::MAX),
                action: TimerAction::Reply(request::text(message)),
            });
            self.tell_unused(
                entry,
                &["timer_id", "delay_seconds", "max_triggers", "tool_name", "message"],
                &place,
            );
        }
    }
}

/// Names in single braces anywhere in a request.
fn placeholder_names(endpoint: &Value) -> Vec<String> {
    let config = json!({"url": "http://x", "body": endpoint});
    let config: Option<http_caller::EndpointConfig> = serde_json::from_value(config).ok();
    config.map(|config| crate::step::placeholders(&config).into_iter().collect()).unwrap_or_default()
}
