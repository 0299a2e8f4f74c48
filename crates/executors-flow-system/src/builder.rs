//! From a file to what it does: every name is looked up, every pattern and request is checked, once.

use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;

use agent_types::nearest;
use http_caller::{HttpCaller, NetworkPolicy, ReplyTemplate};
use tool_http::{HttpToolError, http_tool};
use tool_registry::{Services, Snapshot, Tool};
use tool_schema::CompiledSchema;

use crate::config::{
    ActionConfig, Approval, FlowConfig, FlowsError, FlowsFile, OnConflict, Problem, Problems, TargetConfig,
    TimerAction, When, escaped,
};
use crate::flows::{Action, ActionKind, Counters, Flow, Flows, Inner, Trigger};
use crate::knowledge::Knowledge;
use crate::lookup::{Handlers, NoTool, ToolLookup};
use crate::mapping::Mapping;
use crate::matcher::{MatcherBuilder, TriggerConfig};
use crate::skill::Skill;
use crate::step::{Step, USER_MESSAGE};
use crate::timer::{Schedule, Timer, TimerStep};

/// Handlers of system actions that are always there.
const HANDLERS: [&str; 3] = ["handoff", "close", "update_profile"];

/// Name of the context values in replies.
const CONTEXT: &str = "$ctx";

/// Makes [`Flows`] of a file.
#[must_use = "`build` makes the flows"]
pub struct FlowsBuilder<'f> {
    file: &'f FlowsFile,
    lookup: Option<&'f dyn ToolLookup>,
    handlers: Handlers,
    caller: Option<HttpCaller>,
    services: Services,
}

impl std::fmt::Debug for FlowsBuilder<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("FlowsBuilder").field("handlers", &self.handlers).finish_non_exhaustive()
    }
}

impl<'f> FlowsBuilder<'f> {
    /// With nothing but the file: requests reach the public internet, names of workflows, tools and handlers lead nowhere.
    pub fn new(file: &'f FlowsFile) -> Self {
        Self { file, lookup: None, handlers: Handlers::default(), caller: None, services: Services::new() }
    }

    /// With workflows, knowledge bases, and the tools that skills use.
    pub fn tools(mut self, lookup: &'f dyn ToolLookup) -> Self {
        self.lookup = Some(lookup);
        self
    }

    /// With code that flows and system actions name.
    pub fn handlers(mut self, handlers: Handlers) -> Self {
        self.handlers = handlers;
        self
    }

    /// With the program's HTTP client, which everything shares.
    pub fn caller(mut self, caller: HttpCaller) -> Self {
        self.caller = Some(caller);
        self
    }

    /// With what handlers need, by type.
    pub fn services(mut self, services: Services) -> Self {
        self.services = services;
        self
    }

    /// Checks everything.
    ///
    /// # Errors
    /// All problems at once, warnings among them. Where there are only warnings, [`Flows::warnings`] has them.
    pub fn build(self) -> Result<Flows, FlowsError> {
        let caller = self.caller.unwrap_or_else(|| HttpCaller::builder(NetworkPolicy::public_only()).build());
        let file = self.file;
        let mut build = Build {
            lookup: self.lookup,
            handlers: self.handlers,
            services: self.services,
            problems: Problems::default(),
            triggers: MatcherBuilder::default(),
            order: Vec::new(),
            profile: None,
        };
        build.refuse_equal_ids(file);
        build.profile = build.profile_schema(file);
        let used = used_by_timers(file);
        let flows: Vec<Option<Flow>> =
            file.flows.iter().enumerate().map(|(at, config)| build.flow(at, config, &used)).collect();
        let actions: Vec<Option<Action>> = file
            .system_actions
            .iter()
            .enumerate()
            .map(|(at, config)| build.action(at, config, &used))
            .collect();
        let timers = build.timers(file);
        let own = build.tools(file, &caller);
        let (mut tools, mut skills) = (own.clone(), Vec::new());
        let known = OwnFirst { own: Snapshot::new(own).unwrap_or_default(), lookup: build.lookup };
        for (at, config) in file.skills.iter().enumerate() {
            let place = format!("/skills/{at}");
            match Skill::parse(config, &known, &caller, &place, &mut build.problems) {
                Some(Skill::Agent(skill)) => skills.push(*skill),
                Some(Skill::Function(tool)) => tools.push(tool),
                None => {}
            }
        }
        let knowledge = file.retrieve_knowledge.as_ref();
        let knowledge =
            knowledge.and_then(|config| Knowledge::parse(config, build.lookup, &caller, &mut build.problems));
        build.refuse_equal_tools(&tools, knowledge.as_ref());
        build.note_approvals(file);
        let Build { mut problems, triggers, mut order, services, .. } = build;
        order.sort_by_key(|(rank, ..)| *rank);
        let numbers: Vec<usize> = order.iter().map(|(_, number, _)| *number).collect();
        let matcher = triggers.build(&numbers, &mut problems);
        let warnings: Vec<Problem> = problems.into_result()?;
        Ok(Flows(Arc::new(Inner {
            agent: file.agent.clone(),
            flows: flows.into_iter().flatten().collect(),
            actions: actions.into_iter().flatten().collect(),
            timers,
            matcher,
            order: order.into_iter().map(|(.., trigger)| trigger).collect(),
            knowledge,
            tools,
            skills,
            caller,
            services,
            warnings,
        })))
    }
}

/// The tools of the file itself, then those from outside.
struct OwnFirst<'f> {
    own: Snapshot,
    lookup: Option<&'f dyn ToolLookup>,
}

impl ToolLookup for OwnFirst<'_> {
    fn lookup(&self, id: &str) -> Result<Tool, NoTool> {
        match (self.own.lookup(id), self.lookup) {
            (Err(_), Some(lookup)) => lookup.lookup(id),
            (found, _) => found,
        }
    }
}

/// Ids that timers name.
struct UsedByTimers<'f> {
    flows: BTreeSet<&'f str>,
    actions: BTreeSet<&'f str>,
}

fn used_by_timers(file: &FlowsFile) -> UsedByTimers<'_> {
    let mut used = UsedByTimers { flows: BTreeSet::new(), actions: BTreeSet::new() };
    for timer in &file.timers {
        match &timer.action {
            TimerAction::Flow(id) => used.flows.insert(id),
            TimerAction::SystemAction(id) => used.actions.insert(id),
            TimerAction::Reply(_) | TimerAction::Ask(_) => false,
        };
    }
    used
}

/// The higher priority first, system actions before flows, the order of the file.
type Rank = (std::cmp::Reverse<i64>, u8, usize);

struct Build<'f> {
    lookup: Option<&'f dyn ToolLookup>,
    handlers: Handlers,
    services: Services,
    problems: Problems,
    triggers: MatcherBuilder,
    /// The rank of a trigger, its number in the matcher, and what it is.
    order: Vec<(Rank, usize, Trigger)>,
    /// Schema of the users' profiles.
    profile: Option<CompiledSchema>,
}

impl Build<'_> {
    fn refuse_equal_ids(&mut self, file: &FlowsFile) {
        let lists: [(&str, &str, Vec<&str>); 4] = [
            ("skills", "skill_id", file.skills.iter().map(|skill| skill.skill_id.as_str()).collect()),
            ("flows", "flow_id", file.flows.iter().map(|flow| flow.flow_id.as_str()).collect()),
            (
                "system_actions",
                "action_id",
                file.system_actions.iter().map(|action| action.action_id.as_str()).collect(),
            ),
            ("timers", "timer_id", file.timers.iter().map(|timer| timer.timer_id.as_str()).collect()),
        ];
        for (list, key, ids) in lists {
            let mut seen = HashMap::new();
            for (at, id) in ids.into_iter().enumerate() {
                let place = format!("/{list}/{at}/{key}");
                if id.trim().is_empty() {
                    self.problems.error(place.as_str(), "bad_id", "an id is not empty");
                }
                if let Some(first) = seen.insert(id, at) {
                    let message = format!("`{id}` is the id of /{list}/{first}, too");
                    self.problems.error(place, "duplicate_id", message);
                }
            }
        }
    }

    /// Notes which effects run without approval because the operator wrote so, and approvals of tools that are missing.
    fn note_approvals(&mut self, file: &FlowsFile) {
        let of_skills =
            file.skills.iter().enumerate().map(|(at, skill)| {
                (format!("/skills/{at}/approval"), skill.skill_id.as_str(), skill.approval)
            });
        let of_tools = file.tool_approvals.iter().map(|(name, approval)| {
            (format!("/tool_approvals/{}", escaped(name)), name.as_str(), Some(*approval))
        });
        for (place, name, approval) in of_skills.chain(of_tools).collect::<Vec<_>>() {
            if approval == Some(Approval::Auto) {
                let message = format!("calls of `{name}` run without approval, as this says");
                self.problems.warning(place, "runs_unasked", message);
            }
        }
        let known = || file.tools.iter().map(|tool| tool.name.as_str());
        for name in file.tool_approvals.keys().filter(|name| known().all(|known| known != *name)) {
            let near = nearest(name, known()).map(str::to_owned);
            let place = format!("/tool_approvals/{}", escaped(name));
            self.problems.near(place, "unknown_tool", format!("`tools` has no `{name}`"), near);
        }
    }

    fn profile_schema(&mut self, file: &FlowsFile) -> Option<CompiledSchema> {
        let compiled = CompiledSchema::new(file.profile_schema.as_ref()?);
        let place = "/profile_schema";
        compiled.map_err(|error| self.problems.error(place, error.code(), error.to_string())).ok()
    }

    fn refuse_equal_tools(&mut self, tools: &[Tool], knowledge: Option<&Knowledge>) {
        let mut seen = BTreeSet::new();
        let own = knowledge.map(|knowledge| &knowledge.tool);
        for tool in tools.iter().chain(own) {
            if !seen.insert(tool.id()) {
                let message = format!("there are two tools `{}`", tool.id());
                self.problems.error("/tools", "duplicate_tool", message);
            }
        }
    }

    fn flow(&mut self, at: usize, config: &FlowConfig, used: &UsedByTimers<'_>) -> Option<Flow> {
        let place = format!("/flows/{at}");
        let trigger =
            TriggerConfig { kind: config.kind, patterns: &config.trigger_patterns, exclude: &config.exclude };
        let number = self.triggers.add(trigger, &place, &mut self.problems);
        let groups = self.triggers.groups(number);
        self.order.push(((std::cmp::Reverse(config.priority), 1, at), number, Trigger::Flow(at)));
        if config.trigger_patterns.is_empty() && !used.flows.contains(config.flow_id.as_str()) {
            self.never_fires(&place, &config.flow_id);
        }
        let mapping = Mapping::parse(
            &config.parameter_mapping,
            &groups,
            &format!("{place}/parameter_mapping"),
            &mut self.problems,
        );
        let unasked = if config.silent {
            Some("a silent flow says nothing")
        } else {
            let is_timed = used.flows.contains(config.flow_id.as_str());
            is_timed.then_some("no user is there when a timer runs the flow")
        };
        let step = self.target(config, &mapping, unasked, &place);
        let reply =
            self.reply(config.response_template.as_deref(), &["result", USER_MESSAGE, CONTEXT], &place);
        if config.silent && config.response_template.is_some() {
            self.unheard(&format!("{place}/response_template"), "a silent flow replies nothing");
        }
        Some(Flow {
            id: config.flow_id.clone(),
            step: step?,
            mapping,
            silent: config.silent,
            reply,
            on_error: config.on_error.clone(),
            counters: Counters::default(),
        })
    }

    fn target(
        &mut self,
        config: &FlowConfig,
        mapping: &Mapping,
        unasked: Option<&str>,
        place: &str,
    ) -> Option<Step> {
        let (target, place) = match (&config.target, &config.endpoint) {
            (Some(_), Some(_)) => {
                self.problems.error(
                    place,
                    "two_targets",
                    "`endpoint` is short for `target.endpoint`: write one of them",
                );
                return None;
            }
            (None, None) => {
                self.problems.error(
                    place,
                    "no_target",
                    "a flow has a `target`: an endpoint, a workflow or a handler",
                );
                return None;
            }
            (None, Some(endpoint)) => {
                return Step::request(endpoint, mapping, &format!("{place}/endpoint"), &mut self.problems);
            }
            (Some(target), None) => (target, format!("{place}/target")),
        };
        let (found, place) = match target {
            TargetConfig::Endpoint(endpoint) => {
                return Step::request(endpoint, mapping, &format!("{place}/endpoint"), &mut self.problems);
            }
            TargetConfig::Workflow(id) => {
                let place = format!("{place}/workflow");
                (self.workflow(id, unasked, &place), place)
            }
            TargetConfig::Handler(name) => {
                let place = format!("{place}/handler");
                (self.handler(name, &[], &place), place)
            }
        };
        let tool = found?;
        Some(Step::tool(tool, mapping, &self.services, &place, &mut self.problems))
    }

    /// The tool of a workflow. One that asks the user has no place where `unasked` says that none can answer.
    fn workflow(&mut self, id: &str, unasked: Option<&str>, place: &str) -> Option<Tool> {
        if let Some(reason) = unasked.filter(|_| self.lookup.is_some_and(|lookup| lookup.asks(id))) {
            let message = format!("`{id}` asks a question, and {reason}");
            self.problems.error(place, "asks_question", message);
            return None;
        }
        match self.lookup.map(|lookup| lookup.lookup_in("workflow", id)) {
            Some(Ok(tool)) => Some(tool),
            Some(Err(none)) => {
                self.problems.near(place, "unknown_workflow", none.message, none.near);
                None
            }
            None => {
                self.problems.error(place, "unknown_workflow", format!("unknown workflow `{id}`"));
                None
            }
        }
    }

    fn handler(&mut self, name: &str, others: &[&str], place: &str) -> Option<Tool> {
        match self.handlers.get(name, others) {
            Ok(tool) => Some(tool),
            Err(near) => {
                self.problems.near(
                    place,
                    "unknown_handler",
                    format!("no handler is registered as `{name}`"),
                    near,
                );
                None
            }
        }
    }

    fn action(&mut self, at: usize, config: &ActionConfig, used: &UsedByTimers<'_>) -> Option<Action> {
        let place = format!("/system_actions/{at}");
        let kind = match config.handler.as_str() {
            "handoff" => ActionKind::HandOff,
            "close" => ActionKind::Close,
            "update_profile" => ActionKind::UpdateProfile,
            _ => ActionKind::Registered,
        };
        let groups = self.action_trigger(at, config, used, &place);
        if config.when == When::BeforeTurn && matches!(kind, ActionKind::HandOff | ActionKind::Close) {
            let message = format!("every message would set `{}` off before it is answered", config.handler);
            self.problems.error(format!("{place}/when"), "unsafe_action", message);
        }
        let mapping =
            Mapping::parse(&config.parameters, &groups, &format!("{place}/parameters"), &mut self.problems);
        let step = match (&config.endpoint, kind) {
            (Some(endpoint), _) => {
                Some(Step::request(endpoint, &mapping, &format!("{place}/endpoint"), &mut self.problems)?)
            }
            (None, ActionKind::Registered) => {
                let place = format!("{place}/handler");
                let tool = self.handler(&config.handler, &HANDLERS, &place)?;
                Some(Step::tool(tool, &mapping, &self.services, &place, &mut self.problems))
            }
            (None, ActionKind::HandOff | ActionKind::Close | ActionKind::UpdateProfile) => None,
        };
        let is_profile = kind == ActionKind::UpdateProfile;
        let is_answered = is_profile && config.endpoint.is_some();
        if !config.result_mapping.is_empty() && !is_answered {
            self.unheard(&format!("{place}/result_mapping"), "only the answer of `update_profile` is mapped");
        }
        if config.on_conflict != OnConflict::default() && !is_profile {
            self.unheard(&format!("{place}/on_conflict"), "only `update_profile` has conflicts");
        }
        if config.endpoint.is_some() && kind == ActionKind::Registered {
            self.problems.error(
                format!("{place}/endpoint"),
                "two_targets",
                "code of the program has no `endpoint`",
            );
        }
        let reply =
            self.reply(config.response_template.as_deref(), &["result", USER_MESSAGE, CONTEXT], &place);
        if config.response_template.is_some() && (config.silent || config.when != When::OnMatch) {
            self.unheard(&format!("{place}/response_template"), "nothing is replied here");
        }
        Some(Action {
            id: config.action_id.clone(),
            kind,
            when: config.when,
            step,
            mapping,
            silent: config.silent,
            reply,
            result_mapping: config.result_mapping.clone(),
            on_conflict: config.on_conflict,
            profile: self.profile.clone().filter(|_| is_profile),
        })
    }

    /// The groups of an action's patterns.
    fn action_trigger(
        &mut self,
        at: usize,
        config: &ActionConfig,
        used: &UsedByTimers<'_>,
        place: &str,
    ) -> BTreeSet<String> {
        if config.when != When::OnMatch {
            if !config.trigger_patterns.is_empty() {
                self.unheard(
                    &format!("{place}/trigger_patterns"),
                    "it runs at every message, whatever it says",
                );
            }
            return BTreeSet::new();
        }
        let trigger =
            TriggerConfig { kind: config.kind, patterns: &config.trigger_patterns, exclude: &config.exclude };
        let number = self.triggers.add(trigger, place, &mut self.problems);
        self.order.push(((std::cmp::Reverse(config.priority), 0, at), number, Trigger::Action(at)));
        if config.trigger_patterns.is_empty() && !used.actions.contains(config.action_id.as_str()) {
            self.never_fires(place, &config.action_id);
        }
        self.triggers.groups(number)
    }

    fn never_fires(&mut self, place: &str, id: &str) {
        let message =
            format!("`{id}` has no `trigger_patterns`, and no timer names it: it fires by its id only");
        self.problems.warning(place, "never_fires", message);
    }

    fn unheard(&mut self, place: &str, message: &str) {
        self.problems.warning(place, "unused_key", message);
    }

    fn reply(&mut self, text: Option<&str>, roots: &[&str], place: &str) -> Option<ReplyTemplate> {
        let parsed = ReplyTemplate::parse(text?, roots);
        parsed.map_err(|problem| self.problems.http(&format!("{place}/response_template"), problem)).ok()
    }

    fn timers(&mut self, file: &FlowsFile) -> Vec<Timer> {
        let mut timers = Vec::with_capacity(file.timers.len());
        for (at, config) in file.timers.iter().enumerate() {
            let place = format!("/timers/{at}");
            let schedule = Schedule::parse(config, &place, &mut self.problems);
            let place = format!("{place}/action");
            let step = match &config.action {
                TimerAction::Reply(text) => ReplyTemplate::parse(text, &[CONTEXT])
                    .map_err(|problem| self.problems.http(&format!("{place}/reply"), problem))
                    .ok()
                    .map(TimerStep::Reply),
                TimerAction::Ask(text) => ReplyTemplate::parse(text, &[CONTEXT])
                    .map_err(|problem| self.problems.http(&format!("{place}/ask"), problem))
                    .ok()
                    .map(TimerStep::Ask),
                TimerAction::Flow(id) => {
                    let ids = file.flows.iter().map(|flow| flow.flow_id.as_str()).collect();
                    self.place_of(id, ids, "flow", &place).map(TimerStep::Flow)
                }
                TimerAction::SystemAction(id) => {
                    let ids = file.system_actions.iter().map(|action| action.action_id.as_str()).collect();
                    self.place_of(id, ids, "system_action", &place).map(TimerStep::Action)
                }
            };
            if let (Some(schedule), Some(step)) = (schedule, step) {
                let (id, max_triggers) = (config.timer_id.clone(), config.max_triggers);
                timers.push(Timer { id, schedule, max_triggers, step });
            }
        }
        timers
    }

    fn place_of(&mut self, id: &str, ids: Vec<&str>, key: &str, place: &str) -> Option<usize> {
        let found = ids.iter().position(|known| *known == id);
        if found.is_none() {
            let near = nearest(id, ids).map(str::to_owned);
            let (code, what) =
                if key == "flow" { ("unknown_flow", "flow") } else { ("unknown_action", "system action") };
            self.problems.near(format!("{place}/{key}"), code, format!("unknown {what} `{id}`"), near);
        }
        found
    }

    fn tools(&mut self, file: &FlowsFile, caller: &HttpCaller) -> Vec<Tool> {
        let mut tools = Vec::with_capacity(file.tools.len());
        for (at, config) in file.tools.iter().enumerate() {
            match http_tool(config, caller) {
                Ok(tool) => match file.tool_approvals.get(&config.name) {
                    Some(approval) => tools.push(tool.with_approval((*approval).into())),
                    None => tools.push(tool),
                },
                Err(error) => http_problems(error, &format!("/tools/{at}"), &mut self.problems),
            }
        }
        tools
    }
}

/// The problems of an HTTP tool, below its place.
pub(crate) fn http_problems(error: HttpToolError, place: &str, problems: &mut Problems) {
    match error {
        HttpToolError::Endpoint(error) => {
            error.problems.into_iter().for_each(|problem| problems.http(place, problem));
        }
        HttpToolError::Schema(_) | HttpToolError::Parameters(_) => {
            problems.error(format!("{place}/parameters"), error.code(), error.to_string());
        }
        other => problems.error(format!("{place}/name"), other.code(), other.to_string()),
    }
}
