//! One message, from its beginning to its end: actions before it, flows, the agent, actions after it.

mod said;
mod timer;

use std::sync::Arc;

use agent_runtime::{AgentState, Exchange, exit_status};
use agent_types::{
    Budget, BudgetLimits, CallId, EventBody, EventLocation, EventSink, ExitReason, Recorder, ResumeLog,
    RunStatus, StoredEvent, Timestamp,
};
use futures::future::{Either, select};
use serde_json::{Map, Value};
use tool_registry::ToolContext;

use crate::config::When;
use crate::conversation::{Author, Entry, Said, entries_of_run};
use crate::error::OrchestratorError;
use crate::executor::Decision;
use crate::flows::Trigger;
use crate::knowledge::{Lookup, Prefetched, Underway};
use crate::matcher::Hit;
use crate::message::{Handled, UserMessage};
use crate::session::{Answered, Phase};
use crate::shared::Shared;
use crate::step::StepContext;
use crate::store::Session;
use crate::turn_context::{FlowEventSink, SessionStart, TurnContext, is_own};
use crate::words::Sentence;

use said::{asked, author_of, kind_of, reply_said, user_said};
use timer::recorded_question;

/// A message that is being handled.
pub(crate) struct Turn<'t> {
    pub(crate) shared: &'t Arc<Shared>,
    session: &'t str,
    pub(crate) kept: &'t mut Session,
    pub(crate) message: UserMessage,
    pub(crate) cx: TurnContext,
    pub(crate) events: Arc<FlowEventSink>,
    /// Key under which effects are recorded: the message's id, else the run's.
    key: String,
    /// `true` if the actions before the turn have run.
    acted: bool,
    /// Time at which the message came.
    asked: Timestamp,
    /// The timer that asks the agent, where no user does.
    asked_by: Option<String>,
    /// `true` if a flow failed that leaves its message to the agent, without a message.
    has_continued: bool,
}

impl<'t> Turn<'t> {
    pub(crate) fn new(
        shared: &'t Arc<Shared>,
        session: &'t str,
        kept: &'t mut Session,
        message: UserMessage,
        cx: TurnContext,
    ) -> Self {
        let events = FlowEventSink::new(&cx);
        let key = message.id.clone().unwrap_or_else(|| cx.sink.run().to_string());
        let asked = shared.clock.now();
        Self {
            shared,
            session,
            kept,
            message,
            cx,
            events,
            key,
            acted: false,
            asked,
            asked_by: None,
            has_continued: false,
        }
    }

    /// Handles the message. The run always gets an end.
    pub(crate) async fn handle(mut self) -> Result<Handled, OrchestratorError> {
        let resumed = self.cx.was_in_agent();
        if let Some(asked) = recorded_question(&self.cx) {
            self.cx.is_answered = false;
            self.begin(None, Some(&asked.timer), resumed);
            let result = self.ask_for_timer(resumed, asked).await;
            return self.finish(result, true);
        }
        self.begin(Some(self.message.text.clone()), None, resumed);
        let result = self.answer(resumed).await;
        if result.is_err() {
            // The message was said, whatever came of it.
            let _ = self.record(vec![user_said(&self)]).await;
        }
        self.finish(result, false)
    }

    /// Runs a flow or a system action by its id.
    pub(crate) async fn run_by_id(mut self, target: Trigger) -> Result<Handled, OrchestratorError> {
        self.begin(Some(self.message.text.clone()).filter(|text| !text.is_empty()), None, false);
        let result = self.run_target(target).await;
        self.finish(result, false)
    }

    async fn run_target(&mut self, target: Trigger) -> Result<Handled, OrchestratorError> {
        let given = self.message.parameters.clone();
        let (decision, flow, action) = self.run_one(target, "id", &given).await?;
        let mut handled = match decision {
            Decision::End { exit, text, error } => {
                Handled { flow, action, ..self.handled(exit, text, error) }
            }
            Decision::Ask(asks) => asked(self, flow, asks),
            Decision::Continue => self.continued(flow, action),
        };
        self.say(&mut handled);
        let reply = reply_said(self, &handled);
        self.record(reply.into_iter().collect()).await?;
        if handled.asks.is_empty() {
            self.kept.state.end(&self.key);
            self.kept.state.rest(&self.shared.flows.0.timers, self.shared.clock.now());
        }
        self.save().await?;
        Ok(handled)
    }

    /// Runs a flow or a system action.
    async fn run_one(
        &mut self,
        target: Trigger,
        why: &str,
        groups: &Map<String, Value>,
    ) -> Result<(Decision, Option<String>, Option<String>), OrchestratorError> {
        let shared = Arc::clone(self.shared);
        let flows = &shared.flows.0;
        Ok(match target {
            Trigger::Flow(at) => {
                let flow = &flows.flows[at];
                (self.run_flow(flow, why, groups).await?, Some(flow.id.clone()), None)
            }
            Trigger::Action(at) => {
                let action = &flows.actions[at];
                (self.run_action(action, groups).await?, None, Some(action.id.clone()))
            }
        })
    }

    /// A flow that failed and leaves its message to the agent, without a message: it failed all the same.
    fn continued(&mut self, flow: Option<String>, action: Option<String>) -> Handled {
        self.has_continued = true;
        let name = flow.as_deref().unwrap_or_default();
        let error = format!("the flow `{name}` failed without a message that the agent could answer");
        Handled { flow, action, ..self.handled(ExitReason::ToolError, None, Some(error)) }
    }

    fn begin(&self, message: Option<String>, timer: Option<&str>, resumed: bool) {
        let agent = Some(self.shared.agent.profile().id.clone());
        let started = EventBody::RunStarted { agent, workflow: None, message, inputs: None };
        self.events.begin(started, resumed, || SessionStart::record(&self.kept.state, timer));
    }

    async fn answer(&mut self, resumed: bool) -> Result<Handled, OrchestratorError> {
        let answered = self.message.id.as_deref().and_then(|id| self.kept.state.answered(id)).cloned();
        if let Some(Answered { exit, reply, .. }) = answered {
            return Ok(Handled { repeated: true, ..self.handled(exit, reply, None) });
        }
        match self.kept.state.phase {
            Phase::Open => {}
            Phase::HandedOver { .. } => return self.only_record(ExitReason::HandedOff).await,
            Phase::Closed { .. } => return self.only_record(ExitReason::Closed).await,
        }
        let shared = Arc::clone(self.shared);
        let flows = &shared.flows.0;
        self.kept.state.hear(&flows.timers);
        let found =
            if resumed { crate::matcher::Found::default() } else { flows.matcher.find(&self.message.text) };
        let hit = found.hit;
        let by_flow = match hit {
            Some(hit) => {
                self.actions(When::BeforeTurn).await?;
                self.acted = true;
                self.run_trigger(&hit).await?
            }
            None => None,
        };
        let handled = match by_flow {
            Some(handled) => handled,
            None => self.by_agent(resumed).await?,
        };
        self.settle(handled).await
    }

    /// Runs the trigger of a matched pattern; `None` if it leaves the message to the agent.
    async fn run_trigger(&mut self, hit: &Hit) -> Result<Option<Handled>, OrchestratorError> {
        let target = self.shared.flows.0.order[hit.trigger];
        let (decision, flow, action) = self.run_one(target, &hit.why.to_string(), &hit.groups).await?;
        Ok(match decision {
            Decision::End { exit, text, error } => {
                Some(Handled { flow, action, ..self.handled(exit, text, error) })
            }
            Decision::Ask(asks) => Some(asked(self, flow, asks)),
            Decision::Continue => None,
        })
    }

    /// Actions before the turn, if they have not been yet, and the agent. Meanwhile the message is looked up.
    async fn by_agent(&mut self, resumed: bool) -> Result<Handled, OrchestratorError> {
        let shared = Arc::clone(self.shared);
        let knowledge = shared.flows.0.knowledge.as_ref();
        // A run that is resumed may have its result already.
        let lookup = knowledge.and_then(|knowledge| knowledge.prefetch.as_ref());
        let lookup = lookup.filter(|_| self.cx.resume.is_none());
        let underway = lookup.map(|lookup| self.prefetch(lookup));
        let prefetched = underway.clone().map(|underway| Arc::new(Prefetched::new(underway)));
        let work = Box::pin(async {
            if !resumed && !self.acted {
                self.actions(When::BeforeTurn).await?;
            }
            self.ask_agent(resumed, prefetched.clone()).await
        });
        let handled = match underway {
            Some(underway) => match select(work, underway).await {
                Either::Left((handled, _)) => handled,
                Either::Right((_, work)) => work.await,
            },
            None => work.await,
        };
        // Nobody asks any more.
        prefetched.iter().for_each(|prefetched| prefetched.drop_it());
        handled
    }

    /// All actions of that moment, in the order of the file. None of them ends the turn.
    async fn actions(&mut self, when: When) -> Result<(), OrchestratorError> {
        let shared = Arc::clone(self.shared);
        for action in shared.flows.0.actions.iter().filter(|action| action.when == when) {
            if self.cx.cancel.is_cancelled() {
                return Ok(());
            }
            self.run_action(action, &Map::new()).await?;
        }
        Ok(())
    }

    /// The agent's own turns.
    async fn ask_agent(
        &mut self,
        resumed: bool,
        prefetched: Option<Arc<Prefetched>>,
    ) -> Result<Handled, OrchestratorError> {
        let agent = self.shared.agent.clone().with_values(self.context());
        let mut agent = agent.with_cancel(self.cx.cancel.clone()).with(Arc::clone(&self.cx.tasks));
        if let Some(prefetched) = prefetched {
            agent = agent.with(prefetched);
        }
        let mut history = self.kept.history();
        if let Some(resume) = &self.cx.resume {
            history.truncate(resume.before);
        }
        let before = history.len();
        let log = self.cx.resume.as_ref().filter(|_| resumed).map(|resume| agents_part(&resume.log));
        let sink = Arc::clone(&self.events) as Arc<dyn EventSink>;
        let run = agent.start_in(AgentState::from_history(history), self.message.text.clone(), sink, log)?;
        let (outcome, _) = Box::pin(run.outcome()).await;
        if exit_status(outcome.exit) != RunStatus::Waiting {
            let added = outcome.history.get(before..).unwrap_or_default();
            // An earlier life may have kept them already.
            if !self.kept.history().get(before..).is_some_and(|kept| kept.starts_with(added)) {
                let (run, agent) = (self.cx.sink.run(), &self.shared.agent.profile().id);
                let mut entries = entries_of_run(added, run, agent, [self.asked, self.shared.clock.now()]);
                if let (Some(timer), Some(said)) =
                    (&self.asked_by, entries.first_mut().and_then(|entry| entry.said.as_mut()))
                {
                    // It is addressed to the agent: no user reads it.
                    (said.author, said.name) = (Author::Note, Some(timer.clone()));
                }
                self.record(entries).await?;
            }
        }
        let text = Some(outcome.text.clone()).filter(|text| !text.is_empty());
        Ok(Handled {
            value: outcome.value.clone(),
            partial: outcome.partial,
            usage: outcome.usage,
            pending: outcome.pending.clone(),
            outcome: Some(outcome.clone()),
            ..self.handled(outcome.exit, text, outcome.error.clone())
        })
    }

    /// Runs the actions and timers that follow an answer, then saves the session.
    async fn settle(&mut self, mut handled: Handled) -> Result<Handled, OrchestratorError> {
        if handled.outcome.is_none() {
            self.say(&mut handled);
            let reply = reply_said(self, &handled);
            self.record([user_said(self)].into_iter().chain(reply).collect()).await?;
        }
        if handled.asks.is_empty() && exit_status(handled.exit) != RunStatus::Waiting {
            if handled.exit != ExitReason::Cancelled {
                self.actions(When::AfterTurn).await?;
            }
            self.kept.state.end(&self.key);
            self.kept.state.rest(&self.shared.flows.0.timers, self.shared.clock.now());
            if let Some(id) = self.message.id.clone().filter(|_| handled.exit != ExitReason::Cancelled) {
                self.kept.state.remember(Answered { id, exit: handled.exit, reply: handled.text.clone() });
            }
        }
        self.save().await?;
        Ok(handled)
    }

    /// Records a message that is not answered here, for the party that answers later.
    async fn only_record(&mut self, exit: ExitReason) -> Result<Handled, OrchestratorError> {
        // A run that goes on behind its own hand-over has nothing to record.
        let is_action = |body: &EventBody| matches!(body, EventBody::SystemAction { .. }).then_some(());
        let is_own = self.cx.recorded(is_action).is_some();
        let entry = if is_own {
            user_said(self)
        } else {
            let said = Said::new(Author::User, self.asked).of_run(self.cx.sink.run());
            Entry::new(Exchange::user(self.message.text.clone()), said)
        };
        self.record(vec![entry]).await?;
        if let Some(id) = self.message.id.clone() {
            self.kept.state.remember(Answered { id, exit, reply: None });
            self.save().await?;
        }
        let sent = self.cx.recorded(sent_message).filter(|_| is_own);
        Ok(self.handled(exit, sent, None))
    }

    /// Emits the reply of a flow or a system action. One that is recorded was sent, and stays as it was.
    fn say(&self, handled: &mut Handled) {
        // Before each wait for an answer one question was sent.
        let sent = self.cx.recorded_all(sent_message).nth(self.cx.waits());
        handled.text = sent.or(handled.text.take());
        if let Some(text) = handled.text.clone() {
            self.emit(EventBody::AgentMessage { text, r#final: true, warning: None });
        }
    }

    /// Keeps entries of this run, unless an earlier life has kept some.
    async fn record(&self, entries: Vec<Entry>) -> Result<(), OrchestratorError> {
        let (run, waits) = (self.cx.sink.run(), self.cx.waits());
        let kept: Vec<&Entry> = self.kept.entries.iter().filter(|entry| entry.is_of(run)).collect();
        let mut new = entries;
        let of_flows = kept.iter().filter(|entry| author_of(entry) == Some(Author::Flow)).count();
        // Of a flow's words, a question was kept before each wait for an answer.
        let is_new =
            |entry: &Entry| author_of(entry) == Some(Author::Flow) && (1..=waits).contains(&of_flows);
        new.retain(|entry| kept.is_empty() || is_new(entry));
        if new.is_empty() {
            return Ok(());
        }
        Ok(self.shared.store.append(self.session, &new).await?)
    }

    /// Emits the end of the run.
    fn finish(
        &self,
        result: Result<Handled, OrchestratorError>,
        of_timer: bool,
    ) -> Result<Handled, OrchestratorError> {
        if self.events.finish() {
            return result;
        }
        let body = match &result {
            Ok(handled) if !handled.asks.is_empty() => {
                EventBody::RunWaiting { exit: Some(ExitReason::AwaitingResult), asks: handled.asks.clone() }
            }
            Ok(handled) => EventBody::RunFinished {
                status: exit_status(handled.exit),
                exit: Some(handled.exit),
                kind: (handled.exit == ExitReason::ToolError)
                    .then(|| kind_of(handled, of_timer, self.has_continued).to_owned()),
                partial: Some(handled.partial),
                message: handled.error.clone(),
            },
            Err(error) => EventBody::RunFinished {
                status: RunStatus::Error,
                exit: None,
                kind: Some(error.code().to_owned()),
                partial: None,
                message: Some(error.to_string()),
            },
        };
        self.emit(body);
        result
    }

    fn handled(&self, exit: ExitReason, text: Option<String>, error: Option<String>) -> Handled {
        Handled { text, error, ..Handled::recorded(self.cx.sink.run().clone(), self.session, exit) }
    }

    /// Begins to look the message up.
    fn prefetch(&self, lookup: &Lookup) -> Underway {
        // Events of the lookup belong to no run; its result is recorded by the call that asks for it.
        let unheard = Recorder::new(self.cx.sink.run().clone(), Arc::clone(&self.shared.clock));
        let (call, tool) = (CallId::new("prefetch"), lookup.tool_id());
        let budget = Budget::new(BudgetLimits::default());
        let cx = ToolContext::new(
            call,
            tool,
            Arc::clone(&self.shared.clock),
            budget,
            unheard,
            EventLocation::default(),
        )
        .with_cancel(self.cx.cancel.clone())
        .with_values(Arc::new(self.context()));
        lookup.begin(&self.message.text, cx)
    }

    /// Notes that an effect begins, and waits until that is safe; false where it was begun before.
    pub(crate) async fn begin_effect(&mut self, name: &str) -> Result<bool, OrchestratorError> {
        loop {
            let before = self.kept.state.clone();
            if !self.kept.state.begin(&self.key, name.to_owned()) {
                return Ok(false);
            }
            let Some(other) = self.shared.swap(self.session, self.kept).await? else { break };
            // Another process may have begun it.
            self.kept.state = before;
            self.kept.rebase(other);
        }
        if let Some(persister) = self.cx.sink.persister() {
            persister
                .durable()
                .await
                .map_err(|error| crate::store::SessionError { code: error.code, message: error.message })?;
        }
        Ok(true)
    }

    async fn save(&mut self) -> Result<(), OrchestratorError> {
        Ok(self.shared.save(self.session, self.kept).await?)
    }

    pub(crate) fn emit(&self, body: EventBody) {
        self.events.emit(body);
    }

    pub(crate) fn sentence(&self, sentence: Sentence) -> String {
        let known = [&self.message.values, &self.kept.state.profile];
        let wanted = known.iter().find_map(|values| values.get("language")?.as_str());
        let agent = self.shared.agent.profile().language.unwrap_or_default();
        self.shared.texts.sentence(sentence, wanted, agent)
    }

    /// Context values: those of the message, the session's id, and what is known of the user.
    pub(crate) fn context(&self) -> Map<String, Value> {
        let mut context = self.message.values.clone();
        context.entry("session").or_insert_with(|| self.session.into());
        context.entry("profile").or_insert_with(|| self.kept.state.profile.clone().into());
        context
    }

    pub(crate) fn step_context(&self) -> StepContext {
        let flows = &self.shared.flows.0;
        StepContext {
            caller: flows.caller.clone(),
            services: flows.services.clone(),
            clock: Arc::clone(&self.shared.clock),
            cancel: self.cx.cancel.clone(),
            sink: Arc::clone(&self.events) as Arc<dyn EventSink>,
            context: Arc::new(self.context()),
            log: None,
        }
    }
}

/// The text of a message that was sent.
fn sent_message(body: &EventBody) -> Option<String> {
    match body {
        EventBody::AgentMessage { text, .. } => Some(text.clone()),
        _ => None,
    }
}

/// The log without the events of flows and system actions.
fn agents_part(log: &ResumeLog) -> ResumeLog {
    let is_agents = |kept: &&StoredEvent| {
        matches!(kept.event.body, EventBody::AgentMessage { .. }) || !is_own(&kept.event.body)
    };
    let events = log.events.iter().filter(is_agents).cloned().collect();
    ResumeLog { events, ..log.clone() }
}
