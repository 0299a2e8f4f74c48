//! The parts of a configuration, one by one.

use std::collections::HashMap;

use serde::de::DeserializeOwned;
use serde_json::{Map, Value, json};

use executors_flow_system::{
    ActionConfig, ExecutionMode, FlowConfig, FlowsFile, KnowledgeConfig, KnowledgeMode, MatchKind,
    OnConflict, OnError, SkillConfig, TargetConfig, TimerAction, TimerConfig, USER_MESSAGE, When,
    placeholders,
};

use super::{prompt, request};
use crate::fields::{Fields, Ledger, escaped};
use crate::report::LEFT_OUT;
use crate::tools::{endpoint_config, tool_config};

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

/// Words for the ways of matching.
const KINDS: [(&str, MatchKind); 3] =
    [("contains", MatchKind::Contains), ("exact", MatchKind::Exact), ("regex", MatchKind::Regex)];

/// The file that is written, and where its parts come from.
pub(super) struct Reader<'d> {
    pub(super) ledger: &'d Ledger<'d>,
    pub(super) file: FlowsFile,
    pub(super) profile: prompt::Profile,
    pub(super) places: Places,
}

/// Locations of the written entries in the file they came from, by list and in order.
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

/// The tool of a name.
fn tool_named<'d>(tools: &[Fields<'d>], name: &str) -> Option<Fields<'d>> {
    tools.iter().copied().find(|tool| tool.peek()["name"] == *name)
}

impl<'d> Reader<'d> {
    pub(super) fn read(&mut self, file: Fields<'d>) {
        let tools: Vec<Fields<'d>> = file.get("tools").into_iter().flat_map(Fields::items).collect();
        let executor = tool_named(&tools, FLOW_EXECUTOR);
        let has_flows = file.get("flows").is_some();
        if let Some(settings) = file.get("basic_settings") {
            self.profile.settings(settings);
        }
        for (key, value) in file.members() {
            let place = format!("/{}", escaped(key));
            match key.as_str() {
                "instructions" => self.section("Instructions", value),
                "constraints" => self.section("Constraints", value),
                "need_greeting" if value.peek().is_string() => {
                    self.section("Begin the conversation with", value);
                    self.changed(
                        &place,
                        "the agent is instructed to say it; nothing is said before the user writes",
                    );
                }
                "max_iterations" => {
                    value.whole().into_iter().for_each(|number| self.profile.iterations(number));
                }
                "action_books" => value.items().for_each(|entry| self.rule(entry)),
                "skills" => value.items().enumerate().for_each(|(at, entry)| self.skill(at, entry)),
                "tools" => self.tools(&tools, executor.is_some() && has_flows),
                "flows" => value.items().enumerate().for_each(|(at, entry)| self.flow(at, entry, executor)),
                "system_actions" => {
                    value.items().enumerate().for_each(|(at, entry)| self.action(at, entry, &tools));
                }
                "retrieve_knowledge" if value.peek().is_object() => {
                    self.file.retrieve_knowledge = self.ours(value.take().clone(), &place);
                }
                "retrieve_knowledge_url" => {
                    let url = value.text();
                    url.into_iter().for_each(|url| self.knowledge(url, file.get("basic_settings")));
                }
                "timers" => value.items().enumerate().for_each(|(at, entry)| self.timer(at, entry)),
                "agent" => self.file.agent = value.text().map(str::to_owned),
                "agent_actions" => {
                    let message = "the agent is offered all tools; what it may use is said in its profile";
                    self.left_out(&place, message);
                }
                _ => {}
            }
        }
    }

    fn section(&mut self, heading: &str, text: Fields<'d>) {
        text.text().into_iter().for_each(|text| self.profile.section(heading, text));
    }

    fn left_out(&self, place: &str, message: &str) {
        self.ledger.unsupported(place, LEFT_OUT, message);
    }

    fn changed(&self, place: &str, message: &str) {
        self.ledger.changed(place, "changed", message);
    }

    /// A part that is written as `flows.json` writes it.
    fn ours<T: DeserializeOwned>(&self, value: Value, place: &str) -> Option<T> {
        let read = serde_path_to_error::deserialize(value);
        read.map_err(|error: serde_path_to_error::Error<serde_json::Error>| {
            self.left_out(place, &format!("it is left out: {}", error.inner()));
        })
        .ok()
    }

    fn rule(&mut self, entry: Fields<'d>) {
        if entry.peek().is_object() {
            self.profile.rule(entry);
        }
    }

    fn skill(&mut self, at: usize, entry: Fields<'d>) {
        let place = format!("/skills/{at}");
        let Some(id) = entry.word("skill_id") else { return self.rule(entry) };
        let modes = [("function", ExecutionMode::Function), ("agent", ExecutionMode::Agent)];
        let mode = entry.one_of("execution_mode", &modes).unwrap_or(ExecutionMode::Agent);
        let endpoint = entry.get("endpoint").and_then(|endpoint| {
            let endpoint = endpoint_config(endpoint);
            let names = placeholder_names(&endpoint);
            let names: Vec<&str> = names.iter().map(String::as_str).collect();
            request::endpoint(&endpoint, &names, &format!("{place}/endpoint"), self.ledger)
        });
        let budgets = entry.get("budgets").map(|budgets| budgets.take().clone());
        let budgets = budgets.and_then(|budgets| self.ours(budgets, &format!("{place}/budgets")));
        let parameters = entry.get("parameters").and_then(Fields::object);
        self.places.add("skills", &place);
        self.file.skills.push(SkillConfig {
            skill_id: id.to_owned(),
            title: entry.word("title").or_else(|| entry.word("name")).map(str::to_owned),
            description: entry.word("description").map(str::to_owned),
            execution_mode: mode,
            system_prompt: entry.word("system_prompt").map(str::to_owned),
            tools: entry.texts("tools"),
            budgets,
            endpoint,
            parameters: parameters.cloned().map(Value::Object),
            task: None,
            approval: None,
        });
    }

    fn tools(&mut self, entries: &[Fields<'d>], has_flows: bool) {
        for (at, entry) in entries.iter().enumerate() {
            let place = format!("/tools/{at}");
            if has_flows && entry.peek()["name"] == FLOW_EXECUTOR {
                self.left_out(&place, "flows run by themselves; the model needs no tool for them");
                continue;
            }
            let config = tool_config(*entry);
            let config = match self.profile.id() {
                Some(id) => request::with_bot(&config, id),
                None => config,
            };
            if let Some(tool) = request::tool(&config, &place, self.ledger) {
                self.places.add("tools", &place);
                self.file.tools.push(tool);
            }
        }
    }

    fn flow(&mut self, at: usize, entry: Fields<'d>, executor: Option<Fields<'d>>) {
        let place = format!("/flows/{at}");
        let Some(id) = entry.word("flow_id") else {
            return self.left_out(&place, "a flow without `flow_id` is unsupported");
        };
        if entry.one_of("type", &[("intent", true), ("keyword", false)]) == Some(true) {
            self.intent(entry, id, executor, &place);
        } else {
            self.keyword(entry, id, executor, &place);
        }
    }

    /// A flow that the model chooses is a skill.
    fn intent(&mut self, entry: Fields<'d>, id: &str, executor: Option<Fields<'d>>, place: &str) {
        let Some(endpoint) = self.endpoint_of(entry, id, executor, place) else { return };
        self.changed(place, &format!("the model chooses it: it is the skill `skill:{id}` now"));
        self.places.add("skills", place);
        self.file.skills.push(SkillConfig {
            skill_id: id.to_owned(),
            title: entry.word("name").map(str::to_owned),
            description: entry.word("description").map(str::to_owned),
            execution_mode: ExecutionMode::Function,
            system_prompt: None,
            tools: Vec::new(),
            budgets: None,
            endpoint: Some(endpoint),
            parameters: None,
            task: None,
            approval: None,
        });
    }

    fn keyword(&mut self, entry: Fields<'d>, id: &str, executor: Option<Fields<'d>>, place: &str) {
        let target: Option<TargetConfig> = match entry.get("target") {
            Some(target) => self.ours(target.take().clone(), &format!("{place}/target")),
            None => self.endpoint_of(entry, id, executor, place).map(Box::new).map(TargetConfig::Endpoint),
        };
        let Some(target) = target else { return };
        let kind = entry.one_of("match", &KINDS).or_else(|| entry.one_of("match_type", &KINDS));
        let (endpoint, target) = match target {
            TargetConfig::Endpoint(endpoint) => (Some(*endpoint), None),
            target => (None, Some(target)),
        };
        let part = |name: &str| entry.get(name).map(|part| (part.take().clone(), format!("{place}/{name}")));
        let mapping = part("parameter_mapping").and_then(|(mapping, place)| self.ours(mapping, &place));
        let on_error = part("on_error").and_then(|(rule, place)| self.ours::<OnError>(rule, &place));
        self.places.add("flows", place);
        self.file.flows.push(FlowConfig {
            flow_id: id.to_owned(),
            title: entry.word("title").or_else(|| entry.word("name")).map(str::to_owned),
            trigger_patterns: entry.texts("trigger_patterns"),
            kind: kind.unwrap_or(MatchKind::Contains),
            exclude: entry.texts("exclude"),
            priority: entry.get("priority").and_then(Fields::integer).unwrap_or_default(),
            target,
            endpoint,
            parameter_mapping: mapping.unwrap_or_default(),
            silent: entry.get("silent").and_then(Fields::truth).unwrap_or_default(),
            response_template: entry.word("response_template").map(request::text),
            on_error,
        });
    }

    /// A flow's own request, else that of the tool through which flows are run.
    fn endpoint_of(
        &self,
        entry: Fields<'d>,
        id: &str,
        executor: Option<Fields<'d>>,
        place: &str,
    ) -> Option<http_caller::EndpointConfig> {
        let own = entry.get("endpoint").map(endpoint_config);
        let shared = || {
            let endpoint = executor?.get("endpoint")?;
            Some(request::fixed(&endpoint_config(endpoint), "flow_id", id))
        };
        let Some(endpoint) = own.or_else(shared) else {
            self.left_out(place, "it has no `endpoint`, and the tool `flow_executor` is missing");
            return None;
        };
        let names = mapped_names(entry, "parameter_mapping");
        request::endpoint(&endpoint, &names, &format!("{place}/endpoint"), self.ledger)
    }

    fn action(&mut self, at: usize, entry: Fields<'d>, tools: &[Fields<'d>]) {
        let place = format!("/system_actions/{at}");
        if let Some(name) = entry.text() {
            return self.action_of_tool(name, tools, &place);
        }
        let Some(members) = entry.peek().as_object() else {
            return self.left_out(&place, "a system action that is neither a name nor an object");
        };
        let mut members = members.clone();
        if let Some(endpoint) = entry.get("endpoint") {
            members.shift_remove("endpoint");
            let names = mapped_names(entry, "parameters");
            let place = format!("{place}/endpoint");
            let endpoint = request::endpoint(&endpoint_config(endpoint), &names, &place, self.ledger);
            let endpoint = endpoint.and_then(|endpoint| serde_json::to_value(endpoint).ok());
            members.extend(endpoint.map(|endpoint| ("endpoint".to_owned(), endpoint)));
        }
        if let Some(action) = self.ours(Value::Object(members), &place) {
            // The type knows every member but those of the request, and refuses others.
            entry.members().filter(|(name, _)| *name != "endpoint").for_each(|(_, member)| {
                member.take();
            });
            self.places.add("system_actions", &place);
            self.file.system_actions.push(action);
        }
    }

    /// Their system actions are names of tools that are called at every message, and whose answers fill replies in.
    fn action_of_tool(&mut self, name: &str, tools: &[Fields<'d>], place: &str) {
        let Some(tool) = tool_named(tools, name) else {
            return self.left_out(place, &format!("unknown tool `{name}`"));
        };
        let tool = tool_config(tool);
        let tool = self.profile.id().map_or_else(|| tool.clone(), |id| request::with_bot(&tool, id));
        let endpoint = tool.get("endpoint").cloned().unwrap_or_default();
        let endpoint =
            request::endpoint(&endpoint, &[USER_MESSAGE], &format!("{place}/endpoint"), self.ledger);
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
        self.changed(place, &message);
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
            result_mapping: indexmap::IndexMap::new(),
            on_conflict: OnConflict::default(),
            silent: when != When::OnMatch,
            response_template: None,
        });
    }

    fn knowledge(&mut self, url: &str, settings: Option<Fields<'d>>) {
        let bot = settings.and_then(|settings| settings.get("chatbot_id"));
        let mut query = json!({"keywords": "{keywords}"});
        if let Some(bot) = bot {
            query["chatbotId"] = bot.peek().clone();
        }
        let place = "/retrieve_knowledge_url";
        self.changed(place, "the message is looked up beside the agent, as `keywords` in the query");
        let endpoint = json!({"url": url, "method": "GET", "query_params": query});
        let endpoint = request::endpoint(&endpoint, &["keywords"], place, self.ledger);
        let mode = KnowledgeMode::Prefetch;
        self.file.retrieve_knowledge = endpoint.map(|endpoint| KnowledgeConfig {
            mode,
            kb: None,
            endpoint: Some(endpoint),
            description: None,
            parameters: None,
        });
    }

    fn timer(&mut self, at: usize, entry: Fields<'d>) {
        let place = format!("/timers/{at}");
        let Some(id) = entry.word("timer_id") else {
            return self.left_out(&place, "a timer without `timer_id` is unsupported");
        };
        if entry.get("action").is_some() {
            if let Some(timer) = self.ours(entry.take().clone(), &place) {
                self.places.add("timers", &place);
                self.file.timers.push(timer);
            }
            return;
        }
        let says = entry.word("tool_name").is_none_or(|tool| tool == "generate_response");
        let Some(message) = entry.word("message").filter(|_| says) else {
            return self.left_out(&place, "only a timer with a `message` can be honoured");
        };
        let number = |name: &str, default| entry.get(name).and_then(Fields::whole).unwrap_or(default);
        self.changed(&format!("{place}/message"), "it is said as it is; no model is asked");
        self.places.add("timers", &place);
        self.file.timers.push(TimerConfig {
            timer_id: id.to_owned(),
            delay_ms: Some(number("delay_seconds", 300).saturating_mul(1000)),
            cron: None,
            time_zone: None,
            max_triggers: u32::try_from(number("max_triggers", 1)).unwrap_or(u32::MAX),
            action: TimerAction::Reply(request::text(message)),
        });
    }
}

/// Names that an object maps, and that of the user's message.
fn mapped_names<'d>(entry: Fields<'d>, name: &str) -> Vec<&'d str> {
    let mapped = entry.peek().get(name).and_then(Value::as_object).into_iter().flat_map(Map::keys);
    mapped.map(String::as_str).chain([USER_MESSAGE]).collect()
}

/// Names in single braces anywhere in a request.
fn placeholder_names(endpoint: &Value) -> Vec<String> {
    let config = json!({"url": "http://x", "body": endpoint});
    let config: Option<http_caller::EndpointConfig> = serde_json::from_value(config).ok();
    config.map(|config| placeholders(&config).into_iter().collect()).unwrap_or_default()
}
