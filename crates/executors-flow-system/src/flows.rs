//! A file that was checked: what it does with a message.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use agent_runtime::Language;
use agent_types::ToolId;
use http_caller::{HttpCaller, ReplyTemplate};
use llm_provider::LlmProvider;
use serde::Serialize;
use tool_registry::{Services, Tool};
use tool_schema::ToolSetError;

use crate::config::{OnError, Problem, When};
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
