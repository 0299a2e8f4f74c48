//! A file that was checked: what it does with a message.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use agent_runtime::Language;
use agent_types::{ToolId, nearest};
use http_caller::{HttpCaller, ReplyTemplate};
use indexmap::IndexMap;
use llm_provider::LlmProvider;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use tool_registry::{Services, Tool};
use tool_schema::{CompiledSchema, ToolSetError};

use crate::config::{OnConflict, OnError, Problem, When};
use crate::knowledge::Knowledge;
use crate::mapping::Mapping;
use crate::matcher::{Matcher, Why};
use crate::skill::AgentSkill;
use crate::step::Step;
use crate::timer::Timer;

/// A flow, ready to run.
#[derive(Debug)]
pub(crate) struct Flow {
    pub(crate) id: String,
    pub(crate) step: Step,
    pub(crate) mapping: Mapping,
    pub(crate) silent: bool,
    pub(crate) reply: Option<ReplyTemplate>,
    pub(crate) on_error: Option<OnError>,
    pub(crate) counters: Counters,
}

/// Counters of a flow's matches and outcomes.
#[derive(Debug, Default)]
pub(crate) struct Counters {
    matched: AtomicU64,
    finished: AtomicU64,
    failed: AtomicU64,
}

impl Counters {
    pub(crate) fn matched(&self) {
        self.matched.fetch_add(1, Ordering::Relaxed);
    }

    pub(crate) fn finished(&self) {
        self.finished.fetch_add(1, Ordering::Relaxed);
    }

    pub(crate) fn failed(&self) {
        self.failed.fetch_add(1, Ordering::Relaxed);
    }
}

/// Number of matches and outcomes of a flow since the file was read.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct FlowCounts {
    /// The flow.
    pub flow: String,
    /// It was set off.
    pub matched: u64,
    /// It did what it should.
    pub finished: u64,
    /// It failed.
    pub failed: u64,
}

/// Effect of a system action on the session.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ActionKind {
    HandOff,
    Close,
    UpdateProfile,
    /// Nothing: it is code of the program.
    Registered,
}

#[derive(Debug)]
pub(crate) struct Action {
    pub(crate) id: String,
    pub(crate) kind: ActionKind,
    pub(crate) when: When,
    pub(crate) step: Option<Step>,
    pub(crate) mapping: Mapping,
    pub(crate) silent: bool,
    pub(crate) reply: Option<ReplyTemplate>,
    /// Members of the profile, each with a dotted path in the answer.
    pub(crate) result_mapping: IndexMap<String, String>,
    pub(crate) on_conflict: OnConflict,
    /// Schema of the users' profiles, of an action that updates one.
    pub(crate) profile: Option<CompiledSchema>,
}

/// Flow or action that a message triggers, by its index.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Trigger {
    Flow(usize),
    Action(usize),
}

/// A `flows.json` that was checked. Cheap to clone; [`FlowsBuilder`](crate::FlowsBuilder) makes one.
#[derive(Debug, Clone)]
pub struct Flows(pub(crate) Arc<Inner>);

#[derive(Debug)]
pub(crate) struct Inner {
    pub(crate) agent: Option<String>,
    pub(crate) flows: Vec<Flow>,
    pub(crate) actions: Vec<Action>,
    pub(crate) timers: Vec<Timer>,
    pub(crate) matcher: Matcher,
    /// Triggers in the order of the matcher.
    pub(crate) order: Vec<Trigger>,
    pub(crate) knowledge: Option<Knowledge>,
    pub(crate) tools: Vec<Tool>,
    pub(crate) skills: Vec<AgentSkill>,
    pub(crate) caller: HttpCaller,
    pub(crate) services: Services,
    pub(crate) warnings: Vec<Problem>,
}

/// Flow or action that a message would trigger.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum Triggered {
    /// A flow.
    Flow {
        /// Its id.
        id: String,
        /// The pattern that fits.
        why: Why,
    },
    /// A system action.
    Action {
        /// Its id.
        id: String,
        /// The pattern that fits.
        why: Why,
    },
    /// Nothing: the agent answers.
    Nothing {
        /// Ids of what would have been set off, and the pattern that kept it from it.
        excluded: Vec<(String, Why)>,
    },
}

/// Kind of what is run by its id.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum TargetKind {
    /// A flow.
    Flow,
    /// A system action.
    SystemAction,
}

/// Reason for which a flow or system action cannot be run by its id.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ByIdError {
    /// The file has no such flow or system action.
    #[error("unknown flow or system action `{id}`")]
    Unknown {
        /// The id.
        id: String,
        /// A similar one.
        near: Option<String>,
    },
    /// It does not take this parameter.
    #[error("unknown parameter `{name}`")]
    UnknownParameter {
        /// The parameter.
        name: String,
        /// A similar one.
        near: Option<String>,
    },
}

impl ByIdError {
    /// Stable code for logs, tests and the wire.
    #[must_use]
    pub const fn code(&self) -> &'static str {
        match self {
            Self::Unknown { .. } => "unknown_flow",
            Self::UnknownParameter { .. } => "unknown_parameter",
        }
    }

    /// Suggestion, if a similar name is known.
    #[must_use]
    pub fn near(&self) -> Option<&str> {
        match self {
            Self::Unknown { near, .. } | Self::UnknownParameter { near, .. } => near.as_deref(),
        }
    }
}

impl Flows {
    /// Id of the agent that the file names.
    #[must_use]
    pub fn agent(&self) -> Option<&str> {
        self.0.agent.as_deref()
    }

    /// Tools that the model is offered besides the agent's own: those of the file, its skills, and its knowledge base.
    /// Sub-agents use `model`.
    ///
    /// # Errors
    /// None in practice: the definitions were checked with the file.
    pub fn offered(
        &self,
        model: &Arc<dyn LlmProvider>,
        language: Option<Language>,
    ) -> Result<Vec<Tool>, ToolSetError> {
        let own = self.0.tools.iter().cloned();
        let skills = self.0.skills.iter().map(|skill| skill.tool(Arc::clone(model), language));
        let knowledge = self.0.knowledge.iter().map(|knowledge| Ok(knowledge.tool.clone()));
        own.map(Ok).chain(skills).chain(knowledge).collect()
    }

    /// Ids of what [`offered`](Self::offered) gives.
    pub fn offered_ids(&self) -> impl Iterator<Item = &ToolId> {
        let own = self.0.tools.iter().map(Tool::id);
        let skills = self.0.skills.iter().map(|skill| &skill.definition.id);
        own.chain(skills).chain(self.0.knowledge.iter().map(|knowledge| knowledge.tool.id()))
    }

    /// Checks that a flow or system action of this id takes these parameters.
    ///
    /// # Errors
    /// The id or a parameter is unknown.
    pub fn check_call(
        &self,
        kind: Option<TargetKind>,
        id: &str,
        parameters: &Map<String, Value>,
    ) -> Result<(), ByIdError> {
        self.check_parameters(self.by_id(kind, id)?, parameters)
    }

    /// The flow or system action of an id; where both have it, `kind` decides.
    pub(crate) fn by_id(&self, kind: Option<TargetKind>, id: &str) -> Result<Trigger, ByIdError> {
        let Inner { flows, actions, .. } = &*self.0;
        let flow = flows.iter().position(|flow| flow.id == id).map(Trigger::Flow);
        let action = actions.iter().position(|action| action.id == id).map(Trigger::Action);
        let found = match kind {
            Some(TargetKind::Flow) => flow,
            Some(TargetKind::SystemAction) => action,
            None => flow.or(action),
        };
        found.ok_or_else(|| {
            let ids = flows.iter().map(|flow| flow.id.as_str());
            let near = nearest(id, ids.chain(actions.iter().map(|action| action.id.as_str())));
            ByIdError::Unknown { id: id.to_owned(), near: near.map(str::to_owned) }
        })
    }

    /// Refuses parameters that a flow or system action does not take.
    pub(crate) fn check_parameters(
        &self,
        target: Trigger,
        parameters: &Map<String, Value>,
    ) -> Result<(), ByIdError> {
        let mapping = match target {
            Trigger::Flow(at) => &self.0.flows[at].mapping,
            Trigger::Action(at) => &self.0.actions[at].mapping,
        };
        let known: Vec<&str> = mapping.parameters().collect();
        match parameters.keys().find(|name| !known.contains(&name.as_str())) {
            Some(name) => {
                let near = nearest(name, known).map(str::to_owned);
                Err(ByIdError::UnknownParameter { name: name.clone(), near })
            }
            None => Ok(()),
        }
    }

    /// Warnings about the file, for the operator.
    #[must_use]
    pub fn warnings(&self) -> &[Problem] {
        &self.0.warnings
    }

    /// Matches a message without running anything.
    ///
    /// ```
    /// use executors_flow_system::{FlowsBuilder, FlowsFile, Triggered};
    ///
    /// let file = FlowsFile::from_json(r#"{"flows": [{"flow_id": "leave", "trigger_patterns": ["sick leave"],
    ///     "endpoint": {"url": "https://hr.example.com/leave"}}]}"#)?;
    /// let flows = FlowsBuilder::new(&file).build()?;
    /// match flows.matched("I need SICK  LEAVE") {
    ///     Triggered::Flow { id, why } => assert_eq!((id.as_str(), why.to_string().as_str()), ("leave", "contains \"sick leave\"")),
    ///     other => unreachable!("{other:?}"),
    /// }
    /// # Ok::<(), executors_flow_system::FlowsError>(())
    /// ```
    #[must_use]
    pub fn matched(&self, message: &str) -> Triggered {
        let found = self.0.matcher.find(message);
        let Some(hit) = found.hit else {
            let excluded = found.excluded.into_iter().map(|(rank, why)| (self.0.id_of(rank).to_owned(), why));
            return Triggered::Nothing { excluded: excluded.collect() };
        };
        let (id, why) = (self.0.id_of(hit.trigger).to_owned(), hit.why);
        match self.0.order[hit.trigger] {
            Trigger::Flow(_) => Triggered::Flow { id, why },
            Trigger::Action(_) => Triggered::Action { id, why },
        }
    }

    /// Number of matches and outcomes of each flow since the file was read, in the order of the file.
    #[must_use]
    pub fn counts(&self) -> Vec<FlowCounts> {
        let counts = self.0.flows.iter().map(|Flow { id, counters, .. }| FlowCounts {
            flow: id.clone(),
            matched: counters.matched.load(Ordering::Relaxed),
            finished: counters.finished.load(Ordering::Relaxed),
            failed: counters.failed.load(Ordering::Relaxed),
        });
        counts.collect()
    }
}

impl Inner {
    fn id_of(&self, rank: usize) -> &str {
        match self.order[rank] {
            Trigger::Flow(at) => &self.flows[at].id,
            Trigger::Action(at) => &self.actions[at].id,
        }
    }
}
