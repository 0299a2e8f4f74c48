//! Runs that last: where they are kept, how they are begun, and how they go on.

use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;
use std::time::Duration;

use agent_runtime::{Agent, AgentInput, AgentState, Exchange};
use agent_types::{
    Clock, EventBody, EventLocation, EventSink, EventSubscription, ExitReason, Recorder, ResumeLog, RunId,
    RunStatus, Timestamp, UnsequencedEvent,
};
use llm_provider::{Attachment, ModelConfig};
use run_store::{NewRun, RunFilter, RunRecord, Sqlite, Store, StoreError, StoreOptions, StoredRun};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use workflow_engine::Plan;
use workflow_model::{Workflow, changed_nodes};

use crate::error::ProjectError;
use crate::models::replies;
use crate::project::Project;
use crate::settings::SyncSetting;

const DAY: Duration = Duration::from_hours(24);

/// Where the events of a run go.
#[derive(Debug, Clone)]
pub enum RunSink {
    /// They are shown and gone.
    Shown(Arc<Recorder>),
    /// They are kept, so that the run can be taken up again.
    Kept(Arc<StoredRun>),
}

impl RunSink {
    /// A desk that keeps nothing.
    #[must_use]
    pub fn shown(run: RunId, clock: Arc<dyn Clock>) -> Self {
        Self::Shown(Recorder::new(run, clock))
    }

    /// The sink for the run.
    #[must_use]
    pub fn sink(&self) -> Arc<dyn EventSink> {
        match self {
            Self::Shown(recorder) => Arc::clone(recorder) as Arc<dyn EventSink>,
            Self::Kept(run) => Arc::clone(run) as Arc<dyn EventSink>,
        }
    }

    /// A reader of its events that holds `capacity` of them.
    #[must_use]
    pub fn watch(&self, capacity: usize) -> EventSubscription {
        match self {
            Self::Shown(recorder) => recorder.watch(capacity),
            Self::Kept(run) => run.watch(capacity),
        }
    }

    /// Leaves the run as it stands, as the end of the process would: nothing more is told of it.
    pub fn leave(&self) {
        if let Self::Kept(run) = self {
            run.leave();
        }
    }

    /// Says that nothing follows, when all of it is safe.
    ///
    /// # Errors
    /// The last events could not be kept.
    pub async fn close(&self) -> Result<(), ProjectError> {
        match self {
            Self::Shown(recorder) => recorder.close(),
            Self::Kept(run) => run.close().await?,
        }
        Ok(())
    }
}

/// What is kept of a workflow's run besides its events: all that it needs to go on.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "kind", rename = "workflow")]
pub struct WorkflowPlan {
    /// Its id.
    pub id: String,
    /// The file as it was.
    pub workflow: Value,
    /// The arguments.
    pub inputs: Map<String, Value>,
    /// Values that no model sees or sets.
    #[serde(default, skip_serializing_if = "Map::is_empty")]
    pub values: Map<String, Value>,
}

/// What is kept of an agent's run besides its events.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(tag = "kind", rename = "agent")]
pub struct AgentPlan {
    /// The agent's id.
    pub agent: String,
    /// What was said to it.
    pub message: String,
    /// Images and files that go with it.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub attachments: Vec<Attachment>,
    /// The event that it answers in place of a message.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub event: Option<PlannedEvent>,
    /// The schema that the answer must fit, where it is not that of the profile.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub schema: Option<Value>,
    /// Whether it is a message of a session, which flows and system actions stand around.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub in_session: bool,
    /// What was said before, where no thread keeps it.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub history: Vec<Exchange>,
    /// What is added to the system prompt of the profile.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub instructions: Option<String>,
    /// Exchanges that its conversation had before.
    #[serde(default)]
    pub before: usize,
    /// Values that no model sees or sets.
    #[serde(default, skip_serializing_if = "Map::is_empty")]
    pub values: Map<String, Value>,
}

/// An event that sets an agent to work.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct PlannedEvent {
    /// Its name.
    pub name: String,
    /// What it says.
    #[serde(default)]
    pub payload: Value,
}

impl AgentPlan {
    /// The agent as a run of this plan needs it.
    #[must_use]
    pub fn prepared(&self, agent: Agent) -> Agent {
        let mut agent = agent.with_values(self.values.clone());
        if let Some(instructions) = &self.instructions {
            agent = agent.with_instructions(instructions);
        }
        match &self.schema {
            Some(schema) => agent.with_output_schema(schema.clone()),
            None => agent,
        }
    }

    /// What the agent is to answer.
    #[must_use]
    pub fn input(&self) -> AgentInput {
        match &self.event {
            Some(event) => AgentInput::Event { name: event.name.clone(), payload: event.payload.clone() },
            None if self.attachments.is_empty() => AgentInput::Message(self.message.clone()),
            None => {
                AgentInput::Attached { text: self.message.clone(), attachments: self.attachments.clone() }
            }
        }
    }
}

/// Name under which the wish to end a run is left for the process that works on it.
#[must_use]
pub fn cancel_key(run: &RunId) -> String {
    format!("cancel:{run}")
}

/// An agent's run that is about to begin or go on.
#[derive(Debug)]
pub struct AgentStart {
    /// Where its events go.
    pub desk: RunSink,
    /// What it has done.
    pub log: Option<ResumeLog>,
    /// The conversation before it.
    pub state: AgentState,
    /// What it is about.
    pub plan: AgentPlan,
    /// The thread that it belongs to.
    pub thread: Option<String>,
}

/// A workflow's run that is about to go on.
#[derive(Debug)]
pub struct WorkflowResume {
    /// Where its events go.
    pub desk: RunSink,
    /// What it has done.
    pub log: ResumeLog,
    /// Id of the workflow.
    pub id: String,
    /// The workflow, ready to run: as it is now, or as it was.
    pub plan: Plan,
    /// The arguments.
    pub inputs: Map<String, Value>,
    /// Values that no model sees or sets.
    pub values: Map<String, Value>,
}

/// Which version of its workflow a run goes on with.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Version {
    /// The one that the project has now; refused where it differs in what the run has done.
    Current,
    /// The one that it began with.
    AsItWas,
}

impl Project {
    /// Opens the store of the project's runs.
    pub(crate) fn open_store(&self) -> Result<Store, StoreError> {
        let settings = &self.settings().store;
        let path = self.root().join(&settings.path);
        let sync = match settings.sync {
            SyncSetting::Full => run_store::Sync::Full,
            SyncSetting::Normal => run_store::Sync::Normal,
        };
        let options = StoreOptions {
            secrets: self.secrets(),
            log_bytes: settings.log_mib << 20,
            locks: Some(path.with_extension("locks")),
        };
        Store::new(Arc::new(Sqlite::open(&path, sync)?), options)
    }

    /// Keys of models, values of the environment that are such keys, and what tools and servers are given.
    fn secrets(&self) -> Vec<String> {
        let usual = ["OPENAI_API_KEY", "ANTHROPIC_API_KEY", "GEMINI_API_KEY"];
        let usual = usual.iter().filter_map(|name| std::env::var(name).ok());
        let named = self.settings().models.values().filter_map(ModelConfig::secret);
        usual
            .chain(named)
            .chain(self.named_secrets().into_iter())
            .collect::<BTreeSet<String>>()
            .into_iter()
            .collect()
    }

    /// Begins a run: kept where the project keeps runs.
    ///
    /// # Errors
    /// The store cannot be used.
    pub fn begin(&self, new: NewRun) -> Result<RunSink, ProjectError> {
        match self.store()? {
            Some(store) => {
                self.let_old_runs_go(store)?;
                Ok(RunSink::Kept(store.begin(new, Arc::clone(self.clock()))?))
            }
            None => Ok(RunSink::shown(new.run, Arc::clone(self.clock()))),
        }
    }

    /// Begins a run of a workflow.
    ///
    /// # Errors
    /// The store cannot be used.
    pub fn begin_workflow(
        &self,
        id: &str,
        workflow: &Workflow,
        inputs: &Map<String, Value>,
        values: &Map<String, Value>,
    ) -> Result<RunSink, ProjectError> {
        let plan = WorkflowPlan {
            id: id.to_owned(),
            workflow: workflow.to_value(),
            inputs: inputs.clone(),
            values: values.clone(),
        };
        let plan = serde_json::to_value(&plan).unwrap_or_default();
        self.begin(NewRun { workflow: Some(id.to_owned()), plan, ..NewRun::new(RunId::generate()) })
    }

    /// Takes a run of a workflow up again.
    ///
    /// # Errors
    /// There is no such run, it has ended, somebody works on it, or its workflow has changed where it has been.
    pub fn resume_workflow(&self, run: &RunId, version: Version) -> Result<WorkflowResume, ProjectError> {
        let store = self.required_store(run)?;
        let WorkflowPlan { id, inputs, values, workflow } = plan_of(&store.known(run)?)?;
        let workflow = self.version(&id, workflow, store, (run, u64::MAX), version)?;
        let plan = self.plan(&id, &workflow)?;
        let (stored, log) = store.resume_where(run, |state| plan.fits(state), Arc::clone(self.clock()))?;
        Ok(WorkflowResume { desk: RunSink::Kept(stored), log, id, plan, inputs, values })
    }

    /// Begins a run with what another one did up to its event `upto`; what the nodes in `changes` gave is replaced.
    /// Without `upto` it begins behind the last of these nodes, so that what hangs on them runs anew, else before the end.
    ///
    /// # Errors
    /// As [`resume_workflow`](Self::resume_workflow), the event is no longer kept, or a node has not ended by then.
    pub fn fork_workflow(
        &self,
        of: &RunId,
        upto: Option<u64>,
        changes: &HashMap<String, Value>,
        version: Version,
    ) -> Result<WorkflowResume, ProjectError> {
        let store = self.required_store(of)?;
        let record = store.known(of)?;
        let WorkflowPlan { id, inputs, values, workflow } = plan_of(&record)?;
        let new = NewRun { run: RunId::generate(), ..record.new };
        let upto = store.place_to_fork(of, upto, changes)?;
        let workflow = self.version(&id, workflow, store, (of, upto), version)?;
        let plan = self.plan(&id, &workflow)?;
        let clock = Arc::clone(self.clock());
        let (stored, log) = store.fork(of, new, upto, changes, |state| plan.fits(state), clock)?;
        Ok(WorkflowResume { desk: RunSink::Kept(stored), log, id, plan, inputs, values })
    }

    /// Finds what keeps a run from going on, before anything is said about it: an agent, tool or workflow that is gone.
    ///
    /// # Errors
    /// There is no such run, or it cannot go on.
    pub fn check_going_on(&self, run: &RunId, version: Version) -> Result<(), ProjectError> {
        let store = self.required_store(run)?;
        let record = store.known(run)?;
        if record.new.agent.is_some() {
            let plan = agent_plan_of(&record)?;
            return if plan.in_session { Ok(()) } else { self.agent(&plan.agent).map(drop) };
        }
        let WorkflowPlan { id, workflow, .. } = plan_of(&record)?;
        let workflow = self.version(&id, workflow, store, (run, u64::MAX), version)?;
        self.plan(&id, &workflow).map(drop)
    }

    /// What is wrong with arguments that a person wants a call of a run to have; nothing where nobody can tell.
    ///
    /// # Errors
    /// There is no such run, or its agent is gone.
    pub fn check_changed(
        &self,
        run: &RunId,
        tool: &str,
        arguments: &Map<String, Value>,
    ) -> Result<Option<String>, ProjectError> {
        let record = self.required_store(run)?.known(run)?;
        let Some(agent) = record.new.agent else { return Ok(None) };
        Ok(self.agent(&agent)?.check_arguments(tool, arguments))
    }

    /// Ends a run that nobody works on as cancelled, as it stands: also one whose agent, tools or workflow are gone.
    ///
    /// # Errors
    /// There is no such run, it has ended, or somebody works on it.
    pub fn end_cancelled(&self, run: &RunId) -> Result<(), ProjectError> {
        let store = self.required_store(run)?;
        let (stored, _) = store.resume(run, Arc::clone(self.clock()))?;
        let exit = store.known(run)?.new.agent.map(|_| ExitReason::Cancelled);
        let status = RunStatus::Cancelled;
        let body = EventBody::RunFinished { status, exit, kind: None, partial: None, message: None };
        stored.record(&mut vec![UnsequencedEvent::new(EventLocation::default(), body)]);
        Ok(store.flush()?)
    }

    /// Begins a run of an agent, in a thread if one is named.
    ///
    /// # Errors
    /// The store cannot be used.
    pub fn begin_agent(&self, plan: AgentPlan, thread: Option<&str>) -> Result<AgentStart, ProjectError> {
        let history = self.history_before(&plan, thread)?;
        let plan = AgentPlan { before: history.len(), ..plan };
        let new = NewRun {
            agent: Some(plan.agent.clone()),
            thread: thread.map(str::to_owned),
            plan: serde_json::to_value(&plan).unwrap_or_default(),
            ..NewRun::new(RunId::generate())
        };
        let desk = self.begin(new)?;
        let (state, thread) = (AgentState::from_history(history), thread.map(str::to_owned));
        Ok(AgentStart { desk, log: None, state, plan, thread })
    }

    /// Takes a run of an agent up again.
    ///
    /// # Errors
    /// There is no such run, it has ended, or somebody works on it.
    pub fn resume_agent(&self, run: &RunId) -> Result<AgentStart, ProjectError> {
        let store = self.required_store(run)?;
        let record = store.known(run)?;
        let plan = agent_plan_of(&record)?;
        let (stored, log) = store.resume(run, Arc::clone(self.clock()))?;
        let mut history = self.history_before(&plan, record.new.thread.as_deref())?;
        history.truncate(plan.before);
        let state = AgentState::from_history(history);
        Ok(AgentStart { desk: RunSink::Kept(stored), log: Some(log), state, plan, thread: record.new.thread })
    }

    /// Lets scripts go on behind the replies that the conversation before a run has had.
    pub fn skip_conversation(&self, start: &AgentStart) {
        let history = start.state.history();
        self.models()
            .skip_replies(history.iter().filter(|exchange| matches!(exchange, Exchange::Turn(_))).count());
    }

    /// Lets scripts go on behind the replies that a run has had in another process.
    pub fn skip_replies(&self, start: &AgentStart) {
        if let Some(log) = &start.log {
            self.skip_replies_of(log);
        }
    }

    /// The same for the log of any run.
    pub fn skip_replies_of(&self, log: &ResumeLog) {
        self.models().skip_replies(replies(&log.events));
    }

    /// Begins a run with what an agent's run did up to its event `upto`, else up to its end. It belongs to no thread.
    ///
    /// # Errors
    /// There is no such run, the event is no longer kept, or the run went on with a conversation.
    pub fn fork_agent(&self, of: &RunId, upto: Option<u64>) -> Result<AgentStart, ProjectError> {
        let store = self.required_store(of)?;
        let record = store.known(of)?;
        let plan = agent_plan_of(&record)?;
        if plan.before > plan.history.len() {
            let message = "it went on with a conversation, which a fork would not have".to_owned();
            return Err(ProjectError::NotResumable { run: of.to_string(), message });
        }
        if plan.in_session {
            let message = "it is a message of a session, and another session did not get it".to_owned();
            return Err(ProjectError::NotResumable { run: of.to_string(), message });
        }
        let new = NewRun { run: RunId::generate(), thread: None, ..record.new };
        let upto = store.place_to_fork(of, upto, &HashMap::new())?;
        let (stored, log) = store.fork(of, new, upto, &HashMap::new(), |_| true, Arc::clone(self.clock()))?;
        let desk = RunSink::Kept(stored);
        let state = AgentState::from_history(plan.history.clone());
        Ok(AgentStart { desk, log: Some(log), state, plan, thread: None })
    }

    /// Whether a run is one of an agent.
    ///
    /// # Errors
    /// There is no such run.
    pub fn is_agent_run(&self, run: &RunId) -> Result<bool, ProjectError> {
        Ok(self.required_store(run)?.known(run)?.new.agent.is_some())
    }

    /// The store, which a command about runs cannot do without.
    ///
    /// # Errors
    /// The project keeps no runs, or the store cannot be used.
    pub fn required_store(&self, run: &RunId) -> Result<&Store, ProjectError> {
        let none = || StoreError::UnknownRun { run: run.to_string() };
        Ok(self.store()?.ok_or_else(none)?)
    }

    fn version(
        &self,
        id: &str,
        was: Value,
        store: &Store,
        (run, upto): (&RunId, u64),
        version: Version,
    ) -> Result<Arc<Workflow>, ProjectError> {
        let was = Workflow::from_value(was).map_err(|error| ProjectError::NotResumable {
            run: run.to_string(),
            message: error.to_string(),
        })?;
        // A file outside of the project has no version of now.
        let Ok((_, current)) = self.workflows().get(id) else { return Ok(Arc::new(was)) };
        if version == Version::AsItWas {
            return Ok(Arc::new(was));
        }
        let changed = changed_nodes(&was, &current);
        let mut nodes = BTreeSet::new();
        for group in store.groups(run).take_while(|_| !changed.is_empty()) {
            let group = group?;
            let done = group.iter().filter(|kept| kept.event.seq <= upto);
            let paths = done.filter_map(|kept| kept.event.place.path.as_deref());
            let touched = paths.filter_map(|path| path.split(['[', '/']).next());
            nodes.extend(touched.filter(|node| changed.contains(*node)).map(str::to_owned));
        }
        if nodes.is_empty() {
            Ok(current)
        } else {
            Err(ProjectError::PlanChanged { nodes: nodes.into_iter().collect() })
        }
    }

    /// Removes runs that the settings keep no longer.
    fn let_old_runs_go(&self, store: &Store) -> Result<(), ProjectError> {
        let settings = &self.settings().store;
        if settings.keep_runs.is_none() && settings.keep_days.is_none() {
            return Ok(());
        }
        let now = self.clock().now();
        let oldest = settings.keep_days.map(|days| {
            let kept = i64::try_from((DAY * days).as_millis()).unwrap_or(i64::MAX);
            Timestamp::from_millis(now.as_millis().saturating_sub(kept))
        });
        let runs = store.runs(&RunFilter::default())?;
        for (at, record) in runs.iter().enumerate() {
            let many = settings.keep_runs.is_some_and(|keep| at >= keep);
            let old = oldest.is_some_and(|oldest| record.started < oldest);
            if record.state.phase.has_ended() && (many || old) {
                match store.remove(&record.new.run) {
                    // It has just ended, or somebody else removed it: the next run sees to it.
                    Ok(()) | Err(StoreError::RunBusy { .. } | StoreError::UnknownRun { .. }) => {}
                    Err(error) => return Err(error.into()),
                }
            }
        }
        Ok(())
    }
}

fn agent_plan_of(record: &RunRecord) -> Result<AgentPlan, ProjectError> {
    serde_json::from_value(record.new.plan.clone()).map_err(|_| ProjectError::NotResumable {
        run: record.new.run.to_string(),
        message: "its record holds no agent".to_owned(),
    })
}

fn plan_of(record: &RunRecord) -> Result<WorkflowPlan, ProjectError> {
    serde_json::from_value(record.new.plan.clone()).map_err(|_| ProjectError::NotResumable {
        run: record.new.run.to_string(),
        message: "its record holds no workflow".to_owned(),
    })
}
