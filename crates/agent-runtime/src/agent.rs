//! An agent and its runs.

use std::sync::Arc;

use agent_types::{
    Budget, BudgetLimits, CallId, Clock, EventBroadcast, EventLocation, EventSink, EventSubscription,
    FormerInputs, Recorder, ResumeLog, RunId, SystemClock,
};
use llm_provider::{LlmProvider, LlmRequest};
use schemars::JsonSchema;
use serde_json::{Map, Value};
use tokio_util::sync::CancellationToken;
use tool_registry::{IntoTool, Services, Snapshot, TaskBoard, TaskCall, ToolContext, ToolSource, UsageMeter};

use crate::driver::answer_schema::AnswerSchema;
use crate::driver::calls::typed;
use crate::driver::compact::{Need, compaction};
use crate::driver::context::RunContext;
use crate::driver::deliberate::{Deliberator, ModelDeliberator};
use crate::driver::offer::ToolOffer;
use crate::driver::parts::Driver;
use crate::driver::request::{parameters, request};
use crate::driver::session;
use crate::driver::trace::Trace;
use crate::error::AgentError;
use crate::guardrail::Guardrail;
use crate::input::AgentInput;
use crate::machine::{ApprovalMode, compiled};
use crate::outcome::RunOutcome;
use crate::profile::{AgentProfile, ApprovalChoice, ProtocolChoice};
use crate::prompt::text::Protocol;
use crate::resume::RunLog;
use crate::services;
use crate::state::AgentState;

/// A profile, a model and tools.
#[derive(Debug, Clone)]
pub struct Agent {
    profile: Arc<AgentProfile>,
    model: Arc<dyn LlmProvider>,
    /// Replacement of the model.
    deliberator: Option<Arc<dyn Deliberator>>,
    source: Arc<dyn ToolSource>,
    approval: ApprovalMode,
    values: Arc<Map<String, Value>>,
    clock: Arc<dyn Clock>,
    services: Services,
    guardrails: Vec<Arc<dyn Guardrail>>,
    cancel: CancellationToken,
    /// First invalid setting, reported when the agent is to run.
    refused: Option<AgentError>,
}

impl Agent {
    /// Creates an agent with a default profile and without tools.
    #[must_use]
    pub fn new(model: impl LlmProvider + 'static) -> Self {
        Self::from_profile(AgentProfile::new("agent"), Arc::new(model), Snapshot::default())
    }

    /// An agent of a profile, with the tools that it may use.
    ///
    /// Its private state, tasks and large results live in memory as long as the agent; [`with`](Self::with)
    /// replaces them.
    #[must_use]
    pub fn from_profile(profile: AgentProfile, model: Arc<dyn LlmProvider>, tools: Snapshot) -> Self {
        let (services, refused) = match services::in_memory(&profile) {
            Ok(services) => (services, None),
            Err(error) => (Services::new(), Some(error)),
        };
        Self {
            profile: Arc::new(profile),
            model,
            deliberator: None,
            source: Arc::new(tools),
            approval: ApprovalMode::default(),
            values: Arc::default(),
            clock: Arc::new(SystemClock),
            services,
            guardrails: Vec::new(),
            cancel: CancellationToken::new(),
            refused,
        }
    }

    /// Takes the tools from a source that may change: each turn uses those at its beginning, and a change emits
    /// `registry.changed`. Tools offered before are replaced.
    #[must_use]
    pub fn with_source(mut self, source: Arc<dyn ToolSource>) -> Self {
        self.source = source;
        self
    }

    /// The same agent with those of its present tools that are read-only. One whose replies may have effects is refused
    /// as it runs.
    #[must_use]
    pub fn read_only(mut self) -> Self {
        let acting = self.deliberator.as_ref().filter(|deliberator| deliberator.has_effect());
        if let Some(acting) = acting {
            let refused = AgentError::NotReadOnly { deliberator: acting.name().to_owned() };
            self.refused = self.refused.or(Some(refused));
        }
        let tools = self.offered().read_only();
        self.with_source(Arc::new(tools))
    }

    /// Replaces the model as the author of replies. The model then only writes summaries of long conversations.
    /// Calls are written in text, whatever the model supports.
    #[must_use]
    pub fn with_deliberator(mut self, deliberator: Arc<dyn Deliberator>) -> Self {
        self.deliberator = Some(deliberator);
        self
    }

    /// Offers one more tool. An invalid one is reported by [`check`](Self::check), and before a run.
    #[must_use]
    pub fn tool(self, tool: impl IntoTool) -> Self {
        self.tools([tool])
    }

    /// Offers more tools, such as `tools![add, subtract]`.
    #[must_use]
    pub fn tools<T: IntoTool>(mut self, tools: impl IntoIterator<Item = T>) -> Self {
        let more: Result<Vec<_>, _> = tools.into_iter().map(IntoTool::into_tool).collect();
        let before = self.source.snapshot();
        let all = more.and_then(|more| Snapshot::new(before.tools().cloned().chain(more)));
        match all {
            Ok(all) => self.source = Arc::new(all),
            Err(error) => self.refused = self.refused.or(Some(error.into())),
        }
        self
    }

    /// Gives tools a dependency: a `Dep<T>` of a function is found by its type. Another of the same type replaces it.
    #[must_use]
    pub fn with<T: ?Sized + Send + Sync + 'static>(mut self, dependency: Arc<T>) -> Self {
        self.services = self.services.with(dependency);
        self
    }

    /// Adds a check of one's own; each must say yes.
    #[must_use]
    pub fn with_guardrail(mut self, guardrail: Arc<dyn Guardrail>) -> Self {
        self.guardrails.push(guardrail);
        self
    }

    /// Requires structured output of this type; [`RunOutcome::parse`] returns it. An answer that does not fit is
    /// reported
    /// to the model, which may try again.
    #[must_use]
    pub fn output<T: JsonSchema>(mut self) -> Self {
        Arc::make_mut(&mut self.profile).output_schema = Some(schemars::schema_for!(T).to_value());
        self
    }

    /// Background tasks that its calls started.
    #[must_use]
    pub fn tasks(&self) -> Option<Arc<TaskBoard>> {
        self.services.get::<TaskBoard>()
    }

    /// Continues a task that another process began, on this board; `false` where its tool is gone or cannot continue.
    ///
    /// # Panics
    /// Outside a tokio runtime.
    pub fn resume_task(
        &self,
        board: &TaskBoard,
        call: &TaskCall,
        run: Arc<dyn EventSink>,
        log: ResumeLog,
        saved: Option<Value>,
    ) -> bool {
        let snapshot = self.offered();
        let Some(tool) = snapshot.get(call.tool.as_str()).filter(|tool| tool.resumes()) else { return false };
        let id = CallId::new(call.task.trim_start_matches("task-"));
        let (clock, budget) = (Arc::clone(&self.clock), Budget::new(self.profile.limits()));
        let cx = ToolContext::new(id, call.tool.clone(), clock, budget, run, EventLocation::default())
            .with_cancel(self.cancel.child_token())
            .with_services(self.services.clone())
            .with_values(Arc::clone(&self.values))
            .with_resume(Some(log))
            .with_saved(saved);
        board.resume(tool.clone(), call.clone(), cx);
        true
    }

    /// Returns `true` for an event that triggers the agent: `subscribed_event_types` of its profile name it, and the
    /// condition there holds.
    #[must_use]
    pub fn listens_to(&self, event: &str, payload: &Value) -> bool {
        self.profile.listens_to(event, payload)
    }

    /// Adds to the system prompt of the profile.
    #[must_use]
    pub fn with_instructions(mut self, text: &str) -> Self {
        let prompt = &mut Arc::make_mut(&mut self.profile).system_prompt;
        *prompt = Some(match prompt.take() {
            Some(own) => format!("{own}\n\n{text}"),
            None => text.to_owned(),
        });
        self
    }

    /// Lowers its limits; lower ones of the profile stay.
    #[must_use]
    pub fn with_limits(mut self, limits: &BudgetLimits) -> Self {
        let profile = Arc::make_mut(&mut self.profile);
        profile.budgets = Some(profile.limits().lowered_by(limits));
        self
    }

    /// Wants the answer as JSON of this schema, whatever the profile says.
    #[must_use]
    pub fn with_output_schema(mut self, schema: Value) -> Self {
        Arc::make_mut(&mut self.profile).output_schema = Some(schema);
        self
    }

    /// Checks arguments that a user wants a call to have; `None` when they fit, or when the tool does not exist.
    #[must_use]
    pub fn check_arguments(&self, tool: &str, arguments: &Map<String, Value>) -> Option<String> {
        typed(self.source.snapshot().get(tool)?, arguments.clone()).err()
    }

    /// Checks that the agent can run, without running it.
    ///
    /// # Errors
    /// An invalid tool, tools that cannot be offered together, a missing dependency of a tool, or a protocol
    /// that the model does not support.
    pub fn check(&self) -> Result<(), AgentError> {
        self.offer()?;
        self.protocol()?;
        self.answers()?;
        self.check_conditions()
    }

    fn check_conditions(&self) -> Result<(), AgentError> {
        let Some(policy) = &self.profile.approval else { return Ok(()) };
        for (tool, choice) in &policy.tools {
            if let ApprovalChoice::AskIf(condition) = choice
                && let Err(error) = compiled(condition)
            {
                return Err(AgentError::Condition { tool: tool.clone(), message: error.to_string() });
            }
        }
        Ok(())
    }

    fn answers(&self) -> Result<Option<AnswerSchema>, AgentError> {
        let schema = self.profile.output_schema.as_ref().map(AnswerSchema::new).transpose();
        schema.map_err(|error| AgentError::OutputSchema { message: error.to_string() })
    }

    /// The tools of now, if they can be offered.
    fn offer(&self) -> Result<ToolOffer, AgentError> {
        if let Some(refused) = &self.refused {
            return Err(refused.clone());
        }
        let tools = self.source.snapshot();
        for tool in tools.tools() {
            let types = tool.missing(&self.services);
            if !types.is_empty() {
                return Err(AgentError::MissingDependency { tool: tool.id().clone(), types });
            }
        }
        let set = tools.tool_set()?;
        Ok(ToolOffer::new(tools, set))
    }

    /// Sets what is done where a person would have to be asked.
    #[must_use]
    pub fn with_approval(mut self, approval: ApprovalMode) -> Self {
        self.approval = approval;
        self
    }

    /// Sets the context values: tools may use them, the model can neither see nor set them.
    #[must_use]
    pub fn with_values(mut self, values: Map<String, Value>) -> Self {
        self.values = Arc::new(values);
        self
    }

    /// Ends all its runs when it is cancelled.
    #[must_use]
    pub fn with_cancel(mut self, cancel: CancellationToken) -> Self {
        self.cancel = cancel;
        self
    }

    /// Sets where time comes from.
    #[must_use]
    pub fn with_clock(mut self, clock: Arc<dyn Clock>) -> Self {
        self.clock = clock;
        self
    }

    /// The profile.
    #[must_use]
    pub fn profile(&self) -> &AgentProfile {
        &self.profile
    }

    /// The tools that are offered now.
    #[must_use]
    pub fn offered(&self) -> Snapshot {
        self.source.snapshot()
    }

    /// Answers one message and waits for the end.
    ///
    /// # Errors
    /// Reasons for which the agent cannot run at all; everything later is in the outcome.
    ///
    /// # Cancel safety
    /// Dropping the future drops the run with its calls.
    pub async fn run(&self, input: impl Into<AgentInput>) -> Result<RunOutcome, AgentError> {
        Ok(self.start(AgentState::default(), input)?.outcome().await.0)
    }

    /// Prepares a run that continues from `state`; nothing happens before [`AgentRun::outcome`] is polled.
    ///
    /// # Errors
    /// Reasons for which the agent cannot run at all.
    pub fn start(&self, state: AgentState, input: impl Into<AgentInput>) -> Result<AgentRun, AgentError> {
        let recorder = Recorder::new(RunId::generate(), Arc::clone(&self.clock));
        let log = RunLog::new(Arc::clone(&recorder) as Arc<dyn EventSink>, 0);
        let run = self.prepare(state, input.into(), log)?;
        Ok(AgentRun { recorder: Some(recorder), ..run })
    }

    /// Prepares a run whose events go to `sink`. With the log of a stopped run, it resumes that run: `state`
    /// and `input` must be those that it began with.
    ///
    /// # Errors
    /// As [`start`](Self::start).
    pub fn start_in(
        &self,
        state: AgentState,
        input: impl Into<AgentInput>,
        sink: Arc<dyn EventSink>,
        resume: Option<ResumeLog>,
    ) -> Result<AgentRun, AgentError> {
        let log = match resume.filter(|log| !log.events.is_empty()) {
            Some(log) => RunLog::resumed(sink, log, 0),
            None => RunLog::new(sink, 0),
        };
        self.prepare(state, input.into(), log)
    }

    /// Prepares a run inside a call of another agent.
    pub(crate) fn start_inside(
        &self,
        message: String,
        sink: Arc<dyn EventSink>,
        cx: &ToolContext,
        budget: Budget,
    ) -> Result<AgentRun, AgentError> {
        let log = match cx.resume.as_deref().filter(|log| !log.events.is_empty()) {
            Some(log) => RunLog::resumed(sink, log.clone(), budget.depth()),
            None => RunLog::new(sink, budget.depth()),
        };
        let mut run = self.prepare(AgentState::default(), message.into(), log)?;
        run.driver.context.clock = Arc::clone(&cx.clock);
        run.driver.context.values = Arc::clone(&cx.values);
        run.driver.context.cancel = cx.cancel.child_token();
        if let Some(mode) = cx.services.get::<ApprovalMode>() {
            run.driver.context.approval = *mode;
        }
        if cx.services.get::<FormerInputs>().is_some() {
            let services = std::mem::take(&mut run.driver.context.services);
            run.driver.context.services = services.with(Arc::new(FormerInputs));
        }
        run.driver.context.inside = Some(cx.call.clone());
        run.driver.context.budget = budget;
        Ok(run)
    }

    /// Compacts the older part of a conversation now, whatever its length; the event goes to `sink`.
    /// Returns `true` when there was something to compact.
    ///
    /// # Errors
    /// Reasons for which the agent cannot run at all. A failing model is not an error: the summary is made without it.
    pub async fn compact(
        &self,
        state: &mut AgentState,
        sink: Arc<dyn EventSink>,
    ) -> Result<bool, AgentError> {
        let log = RunLog::new(sink, 0);
        let trace = Trace::root(Arc::clone(&log), 0);
        let run = self.prepare(AgentState::default(), AgentInput::from(""), log)?;
        let Some(summary) = compaction(&run.driver, &state.conversation, Need::Asked, None).await else {
            return Ok(false);
        };
        trace.perform_all([state.compact(summary)]);
        Ok(true)
    }

    fn prepare(
        &self,
        state: AgentState,
        input: AgentInput,
        log: Arc<RunLog>,
    ) -> Result<AgentRun, AgentError> {
        let deliberator = match &self.deliberator {
            Some(deliberator) => Arc::clone(deliberator),
            None => Arc::new(ModelDeliberator(Arc::clone(&self.model))),
        };
        let context = RunContext {
            profile: Arc::clone(&self.profile),
            approval: self.approval,
            values: Arc::clone(&self.values),
            clock: Arc::clone(&self.clock),
            services: self.services.clone(),
            budget: Budget::new(self.profile.limits()),
            meter: Arc::new(UsageMeter::default()),
            cancel: self.cancel.child_token(),
            log,
            inside: None,
        };
        let driver = Driver {
            context,
            model: Arc::clone(&self.model),
            deliberator,
            is_replaced: self.deliberator.is_some(),
            source: Arc::clone(&self.source),
            offer: self.offer()?,
            protocol: self.protocol()?,
            parameters: parameters(&self.profile),
            answers: self.answers()?,
            guardrails: self.guardrails.clone(),
        };
        Ok(AgentRun { driver, state, input, recorder: None })
    }

    fn protocol(&self) -> Result<Protocol, AgentError> {
        if self.deliberator.is_some() {
            return Ok(Protocol::Text);
        }
        let native = self.model.info().native_tools;
        match self.profile.protocol.unwrap_or_default() {
            ProtocolChoice::Text => Ok(Protocol::Text),
            ProtocolChoice::Auto => Ok(if native { Protocol::Native } else { Protocol::Text }),
            ProtocolChoice::Native if native || self.model.info().scripted => Ok(Protocol::Native),
            ProtocolChoice::Native => Err(AgentError::NotNative { model: self.model.info().name.clone() }),
        }
    }
}

/// A run that is ready to go.
pub struct AgentRun {
    driver: Driver,
    state: AgentState,
    input: AgentInput,
    /// Recorder of its events if no sink was given.
    recorder: Option<Arc<Recorder>>,
}

impl std::fmt::Debug for AgentRun {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("AgentRun").field("run", self.id()).field("input", &self.input).finish_non_exhaustive()
    }
}

impl AgentRun {
    /// Its id.
    #[must_use]
    pub fn id(&self) -> &RunId {
        self.driver.context.log.run()
    }

    /// Subscribes to its events, from the first one if called before the run starts. Holds `capacity` events.
    /// With a sink of the caller nothing arrives here: subscribe to the sink instead.
    #[must_use]
    pub fn subscribe(&self, capacity: usize) -> EventSubscription {
        if let Some(recorder) = &self.recorder {
            return recorder.subscribe(capacity);
        }
        let nothing = EventBroadcast::new();
        nothing.close();
        nothing.subscribe(capacity)
    }

    /// Ends the run when it is cancelled: calls under way end as cancelled, the outcome says so.
    #[must_use]
    pub fn cancel_token(&self) -> CancellationToken {
        self.driver.context.cancel.clone()
    }

    /// The request that the first turn would send, without sending it.
    #[must_use]
    pub fn first_request(self) -> LlmRequest {
        let Self { driver, state, input, .. } = self;
        let AgentState { mut conversation, mut window } = state;
        conversation.begin(input);
        let trace = Trace::root(Arc::clone(&driver.context.log), 0);
        request(&driver, &conversation, &mut window, &driver.offer, &trace).into_request()
    }

    /// Runs to the end; returns the outcome and the state for the next run.
    ///
    /// # Cancel safety
    /// Dropping the future drops the run with its calls.
    pub async fn outcome(mut self) -> (RunOutcome, AgentState) {
        // A run is a large future; boxed, it does not enlarge the future of the caller.
        let outcome = Box::pin(session::run(&self.driver, &mut self.state, self.input)).await;
        if let Some(recorder) = &self.recorder {
            recorder.close();
        }
        (outcome, self.state)
    }
}
