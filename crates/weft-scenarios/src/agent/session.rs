//! One case at work: its agent, its conversation, the run that waits.

mod answers;
mod replay;

use std::collections::{BTreeSet, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use agent_runtime::{Agent, AgentInput, AgentProfile, AgentState, Exchange, PendingCall};
use agent_types::{AskSummary, Delivery, EventSink, ExitReason, Recorder, ResumeLog, RunId, RunStatus};
use executors_flow_system::Flows;
use run_store::{NewRun, Store, StoredRun};
use serde_json::{Map, Value, json};
use tool_registry::{Registry, Services, Snapshot, TaskBoard};
use tool_system::{BlobSource, PrivateState, World as SharedWorld};

use super::canvas::{self, Parts, Trail};
use super::case::{Case, Deed, Turn};
use super::crash_injection::{Life, Meanwhile, Remains};
use super::front::Front;
use super::history::{agent_of, history};
use super::observed::Seen;
use super::tools::Workshop;
use crate::Fault;

/// State that outlives a process.
#[derive(Clone)]
pub(crate) struct Lasting {
    pub(crate) store: Store,
    pub(crate) blobs: Arc<dyn BlobSource>,
    pub(crate) private: Option<Arc<PrivateState>>,
    pub(crate) shared: Option<Arc<SharedWorld>>,
}

/// A case at work.
pub(crate) struct Session {
    workshop: Workshop,
    profile: AgentProfile,
    registry: Arc<Registry>,
    lasting: Lasting,
    agent: Agent,
    flows: Option<Flows>,
    front: Option<Front>,
    board: Arc<TaskBoard>,
    state: AgentState,
    open: Option<Open>,
    /// Tools whose executions are noted where they happen.
    noted: BTreeSet<String>,
    /// Actions that are due while a run of this step executes.
    meanwhile: VecDeque<Meanwhile>,
    /// Executions and requests before this step.
    before: (usize, usize),
    /// Set when the run is resumed only to end.
    ends: bool,
    /// Messages of the conversation where a loop of nodes answers instead of the agent.
    nodes: Option<Value>,
    pub(crate) runs: Vec<Begun>,
}

/// A run of the case, with what it began with.
pub(crate) struct Begun {
    pub(crate) run: RunId,
    base: Vec<Exchange>,
    /// Its message or event; none of a timer.
    input: Option<AgentInput>,
    tools: Snapshot,
}

/// End of a run, or its waiting.
enum Ended {
    Agent(Box<(agent_runtime::RunOutcome, AgentState)>),
    Nodes(Box<workflow_engine::RunOutcome>),
}

/// A run that waits.
struct Open {
    run: RunId,
    base: AgentState,
    input: AgentInput,
    pending: Vec<PendingCall>,
}

/// Way in which a run is begun.
enum Start {
    New(AgentInput),
    Resume(Box<Open>),
}

impl Session {
    pub(crate) fn new(
        case: &Case,
        profile: AgentProfile,
        tools: &Snapshot,
        workshop: Workshop,
        lasting: Lasting,
        flows: Option<Flows>,
    ) -> Result<Self, Fault> {
        let registry = Arc::new(Registry::new());
        for tool in tools.tools() {
            registry.register(tool.clone()).map_err(|error| error.to_string())?;
        }
        if let Some(flows) = &flows {
            let offered = flows.offered(&workshop.model, profile.language);
            for tool in offered.map_err(|error| error.to_string())? {
                registry.register(tool).map_err(|error| error.to_string())?;
            }
        }
        let board = Arc::new(TaskBoard::new());
        let agent = agent_of(&profile, &workshop, &registry, &lasting, &board);
        agent.check().map_err(|error| error.to_string())?;
        let front = flows.as_ref().map(|flows| front_of(flows, &agent, &workshop, &lasting));
        let noted = case.tools.iter().filter(|tool| Workshop::notes(tool)).map(|tool| tool.name.clone());
        Ok(Self {
            noted: noted.collect(),
            meanwhile: VecDeque::new(),
            before: (0, 0),
            ends: false,
            state: AgentState::from_history(history(&case.history)?),
            workshop,
            profile,
            registry,
            lasting,
            agent,
            flows,
            front,
            board,
            open: None,
            nodes: None,
            runs: Vec::new(),
        })
    }

    /// The same with a loop of nodes instead of the agent.
    pub(crate) fn on_canvas(mut self) -> Self {
        self.nodes = Some(canvas::conversation(self.state.history()));
        self
    }

    /// The trail of all runs, which have emitted these events.
    pub(crate) fn trail(&self, events: &[Value]) -> Trail {
        let runs: Vec<RunId> = self.runs.iter().map(|begun| begun.run.clone()).collect();
        Trail::new(&self.workshop.world, &self.noted, &runs, events)
    }

    /// Runs the loop of nodes.
    async fn run_nodes(
        &self,
        life: &Arc<Life>,
        history: &Value,
        input: &AgentInput,
        log: Option<ResumeLog>,
    ) -> Result<Ended, Fault> {
        let AgentInput::Message(text) = input else {
            return Err("a workflow is begun by its caller, not by an event".to_owned());
        };
        let Self { workshop, profile, lasting, board, .. } = self;
        let mut services = Services::new().with::<dyn BlobSource>(Arc::clone(&lasting.blobs));
        services = services.with(Arc::clone(board));
        if let Some(private) = &lasting.private {
            services = services.with(Arc::clone(private));
        }
        if let Some(shared) = &lasting.shared {
            services = services.with(Arc::clone(shared));
        }
        let (model, clock) = (Arc::clone(&workshop.model), Arc::clone(&workshop.clock));
        let tools = self.registry.snapshot();
        let parts = Parts { profile, tools, model, services, clock };
        let inputs = Map::from_iter([
            ("query".to_owned(), text.as_str().into()),
            ("history".to_owned(), history.clone()),
        ]);
        canvas::run(parts, inputs, life, log).await.map(|outcome| Ended::Nodes(Box::new(outcome)))
    }

    /// Runs the agent.
    async fn run_agent(
        &self,
        life: &Arc<Life>,
        base: &AgentState,
        input: &AgentInput,
        log: Option<ResumeLog>,
    ) -> Result<Ended, Fault> {
        let agent = self.agent.clone().with_cancel(life.cancel.clone());
        let sink = Arc::clone(life) as Arc<dyn EventSink>;
        let run = agent.start_in(base.clone(), input.clone(), sink, log);
        let ended = run.map_err(|error| error.to_string())?.outcome().await;
        Ok(Ended::Agent(Box::new(ended)))
    }

    /// Puts what the thread holds before the first turn where it belongs.
    pub(crate) async fn begin(&mut self) -> Result<(), Fault> {
        match &self.front {
            Some(front) => front.begin(self.state.history()).await,
            None => Ok(()),
        }
    }

    /// Does one step of the case, and gives what was seen.
    pub(crate) async fn step(&mut self, turn: &Turn, meanwhile: VecDeque<Meanwhile>) -> Result<Seen, Fault> {
        let before = self.workshop.world.now();
        (self.before, self.meanwhile) = (before, meanwhile);
        let started = self.workshop.clock.elapsed();
        let mut seen = Seen::default();
        self.act(turn, &mut seen).await?;
        self.wake(&mut seen).await?;
        if let Some(deed) = self.meanwhile.pop_front() {
            return Err(format!("event {} did not come while the run executed", deed.on));
        }
        (seen.executed, seen.requested) = self.workshop.world.since(before);
        seen.took = self.workshop.clock.elapsed().saturating_sub(started);
        if let Some(front) = &self.front {
            seen.take_history(&front.history().await?);
            if seen.exit.is_none() {
                seen.exit = front.standing().await?.map(str::to_owned);
            }
        } else if seen.history.is_empty() {
            seen.take_history(self.state.history());
        }
        Ok(seen)
    }

    async fn act(&mut self, turn: &Turn, seen: &mut Seen) -> Result<(), Fault> {
        if let Some(text) = &turn.user {
            self.put_aside(seen).await?;
            return self.go(Start::New(text.as_str().into()), seen).await;
        }
        if let Some(name) = &turn.event {
            let input = AgentInput::Event { name: name.clone(), payload: turn.payload.clone() };
            if !self.agent.listens_to(name, &turn.payload) {
                return Ok(());
            }
            self.put_aside(seen).await?;
            return self.go(Start::New(input), seen).await;
        }
        match turn.r#do.ok_or("a turn needs `user`, `event` or `do`")? {
            Deed::Restart => self.restart(seen).await,
            Deed::Compact => self.compact(seen).await,
            Deed::Approve | Deed::Deny | Deed::Edit | Deed::Answer => self.answer(turn, seen).await,
            Deed::Tools => self.change_tools(turn, seen),
            Deed::AdvanceMs => self.advance(turn.ms, seen).await,
            Deed::Cancel if self.open.is_some() => self.give_up(seen).await,
            Deed::Cancel => Err("there is nothing to cancel".to_owned()),
            Deed::GiveBack => {
                let front = self.front.as_ref().ok_or("the case has no flows")?;
                front.give_back().await
            }
        }
    }

    /// Resumes a run whose task has ended meanwhile.
    async fn wake(&mut self, seen: &mut Seen) -> Result<(), Fault> {
        while let Some(open) = self.open.take() {
            let ended = open.pending.iter().any(|pending| {
                self.board.status(pending.task()).is_some_and(|status| status.state.is_over())
            });
            if !ended {
                self.open = Some(open);
                return Ok(());
            }
            self.go(Start::Resume(Box::new(open)), seen).await?;
        }
        Ok(())
    }

    /// Lets time pass, and timers go off.
    async fn advance(&mut self, ms: u64, seen: &mut Seen) -> Result<(), Fault> {
        let until = self.workshop.clock.elapsed() + Duration::from_millis(ms);
        loop {
            let now = self.workshop.clock.elapsed();
            if let Some(front) = &self.front {
                while front.is_due().await? {
                    let run = RunId::generate();
                    let (base, tools) = (front.history().await?, self.registry.snapshot());
                    self.runs.push(Begun { run: run.clone(), base, input: None, tools });
                    let clock = Arc::clone(&self.workshop.clock);
                    let stored = self.lasting.store.begin(NewRun::new(run), clock);
                    let stored = stored.map_err(|error| error.to_string())?;
                    let life = self.life(stored, seen);
                    let handled = front.fire(Arc::clone(&life) as Arc<dyn EventSink>).await?;
                    seen.events = self.closed(&life).await?.events;
                    if let Some(handled) = handled {
                        seen.take_handled(&handled);
                    }
                }
            }
            if now >= until {
                return Ok(());
            }
            let step = until.saturating_sub(now).min(Duration::from_millis(100));
            self.workshop.clock.sleep(step).await;
        }
    }

    /// Life of a process for a run, which adds to what was observed so far.
    fn life(&self, stored: Arc<StoredRun>, seen: &mut Seen) -> Arc<Life> {
        let (world, events) = (Arc::clone(&self.workshop.world), std::mem::take(&mut seen.events));
        Life::new(
            stored,
            Arc::clone(&self.workshop.clock),
            world,
            self.noted.clone(),
            self.meanwhile.clone(),
            events,
        )
    }

    /// Closes a run that is over or waits.
    async fn closed(&self, life: &Life) -> Result<Remains, Fault> {
        let _busy = self.workshop.clock.busy();
        life.close().await.map_err(|error| error.to_string())
    }

    /// Resumes a run whose process ended while it executed.
    async fn next_life(&mut self, life: Arc<Life>, open: Open, seen: &mut Seen) -> Result<(), Fault> {
        let remains = life.remains();
        drop(life);
        self.die(remains, seen);
        // What was at work is let go when its tasks are looked at the next time.
        for _ in 0..1000 {
            if !self.lasting.store.is_at_work(&open.run) {
                break;
            }
            tokio::task::yield_now().await;
        }
        self.open = Some(open);
        Box::pin(self.restart(seen)).await
    }

    /// Notes where the process ended.
    fn die(&mut self, remains: Remains, seen: &mut Seen) {
        (seen.events, self.meanwhile) = (remains.events, remains.meanwhile);
        seen.cuts.push(Life::cut(&seen.events, &self.workshop.world, self.before));
    }

    /// Ends a run that waits for a person when another message comes; a run that waits for a task leaves the task
    /// running.
    async fn put_aside(&mut self, seen: &mut Seen) -> Result<(), Fault> {
        let waits_for_task =
            |open: &Open| open.pending.iter().any(|pending| self.board.status(pending.task()).is_some());
        match &self.open {
            Some(open) if waits_for_task(open) => self.open = None,
            Some(_) => {
                let meanwhile = std::mem::take(&mut self.meanwhile);
                self.give_up(seen).await?;
                self.meanwhile = meanwhile;
            }
            None => {}
        }
        Ok(())
    }

    /// Ends a run that waits, with all that it has gathered.
    async fn give_up(&mut self, seen: &mut Seen) -> Result<(), Fault> {
        let Some(open) = self.open.take() else { return Ok(()) };
        self.ends = true;
        let gone = self.go(Start::Resume(Box::new(open)), seen).await;
        self.ends = false;
        gone
    }

    /// A message through the flows.
    async fn go_through(&mut self, start: Start, seen: &mut Seen) -> Result<(), Fault> {
        let Some(front) = &self.front else { return Ok(()) };
        let spoken = front.history().await?;
        let before = spoken.len();
        let is_new = matches!(start, Start::New(_));
        let (base, input, stored, log) = self.begin_run(start)?;
        if let Some(begun) = self.runs.last_mut().filter(|_| is_new) {
            begun.base = spoken;
        }
        let before = if is_new { before } else { base.history().len() };
        let run = stored.run().clone();
        let life = self.life(stored, seen);
        if self.ends {
            life.cancel.cancel();
        }
        let Some(front) = &self.front else { return Ok(()) };
        let log = log.map(|log| (log, before));
        let (text, sink) = (input.text(), Arc::clone(&life) as Arc<dyn EventSink>);
        let ended = life.work(Box::pin(front.handle(&text, sink, log, life.cancel.clone()))).await;
        let mut history = front.history().await?;
        history.truncate(before);
        let base = AgentState::from_history(history);
        let Some(handled) = ended else {
            let open = Open { run, base, input, pending: Vec::new() };
            return self.next_life(life, open, seen).await;
        };
        let handled = handled?;
        let remains = self.closed(&life).await?;
        drop(life);
        seen.take_handled(&handled);
        if agent_runtime::exit_status(handled.exit) == agent_types::RunStatus::Waiting {
            self.open = Some(Open { run, base, input, pending: handled.pending });
        }
        self.after(remains, seen).await
    }

    async fn go(&mut self, start: Start, seen: &mut Seen) -> Result<(), Fault> {
        if self.front.is_some() && !matches!(&start, Start::New(AgentInput::Event { .. })) {
            return Box::pin(self.go_through(start, seen)).await;
        }
        let (base, input, stored, log) = self.begin_run(start)?;
        let run = stored.run().clone();
        let life = self.life(stored, seen);
        if self.ends {
            life.cancel.cancel();
        }
        let ended = match &self.nodes {
            None => life.work(Box::pin(self.run_agent(&life, &base, &input, log))).await,
            Some(history) => life.work(Box::pin(self.run_nodes(&life, history, &input, log))).await,
        };
        let Some(ended) = ended else {
            let open = Open { run, base, input, pending: Vec::new() };
            return self.next_life(life, open, seen).await;
        };
        let ended = ended?;
        let remains = self.closed(&life).await?;
        drop(life);
        if let Some(pending) = self.take_ended(ended, seen) {
            self.open = Some(Open { run, base, input, pending });
        }
        self.after(remains, seen).await
    }

    /// Takes the state of a run that has ended. Returns the open questions of one that waits.
    fn take_ended(&mut self, ended: Ended, seen: &mut Seen) -> Option<Vec<PendingCall>> {
        match ended {
            Ended::Agent(ended) => {
                let (outcome, state) = *ended;
                seen.take_outcome(&outcome);
                seen.take_history(&outcome.history);
                let waits = agent_runtime::exit_status(outcome.exit) == RunStatus::Waiting;
                // What has been answered stays, whatever becomes of the tasks that it waits for.
                if !waits || outcome.exit == ExitReason::AwaitingResult {
                    self.state = state;
                }
                waits.then_some(outcome.pending)
            }
            Ended::Nodes(mut outcome) => {
                if let Some(history) = outcome.outputs.remove("history") {
                    self.nodes = Some(history);
                }
                let waits = outcome.status == RunStatus::Waiting;
                waits.then(|| outcome.asks.iter().filter_map(pending).collect())
            }
        }
    }

    /// Performs the remaining actions once a run has ended.
    async fn after(&mut self, remains: Remains, seen: &mut Seen) -> Result<(), Fault> {
        if remains.ends_after {
            self.die(remains, seen);
            return Box::pin(self.restart(seen)).await;
        }
        (seen.events, self.meanwhile) = (remains.events, remains.meanwhile);
        Ok(())
    }

    fn begin_run(
        &mut self,
        start: Start,
    ) -> Result<(AgentState, AgentInput, Arc<StoredRun>, Option<ResumeLog>), Fault> {
        let clock = Arc::clone(&self.workshop.clock);
        match start {
            Start::New(input) => {
                let run = RunId::generate();
                let tools = self.registry.snapshot();
                let base = self.state.history().to_vec();
                self.runs.push(Begun { run: run.clone(), base, input: Some(input.clone()), tools });
                self.open = None;
                let stored = self.lasting.store.begin(NewRun::new(run), clock);
                Ok((self.state.clone(), input, stored.map_err(|error| error.to_string())?, None))
            }
            Start::Resume(open) => {
                let Open { run, base, input, .. } = *open;
                let resumed = self.lasting.store.resume(&run, clock);
                let (stored, log) = resumed.map_err(|error| error.to_string())?;
                Ok((base, input, stored, Some(log)))
            }
        }
    }

    /// The next process: what is loaded is what was kept.
    async fn restart(&mut self, seen: &mut Seen) -> Result<(), Fault> {
        self.workshop.world.revive();
        self.board = Arc::new(TaskBoard::new());
        self.agent = agent_of(&self.profile, &self.workshop, &self.registry, &self.lasting, &self.board);
        self.front =
            self.flows.as_ref().map(|flows| front_of(flows, &self.agent, &self.workshop, &self.lasting));
        self.state = AgentState::from_history(self.state.history().to_vec());
        let Some(open) = self.open.take() else { return Ok(()) };
        let base = AgentState::from_history(open.base.history().to_vec());
        self.go(Start::Resume(Box::new(Open { base, ..open })), seen).await
    }

    async fn compact(&mut self, seen: &mut Seen) -> Result<(), Fault> {
        if self.nodes.is_some() {
            return Err("a loop of nodes compacts with a node of its own".to_owned());
        }
        let recorder = Recorder::new(RunId::generate(), Arc::clone(&self.workshop.clock));
        let mut watcher = recorder.subscribe(usize::MAX);
        let sink = Arc::clone(&recorder) as Arc<dyn EventSink>;
        self.agent.compact(&mut self.state, sink).await.map_err(|error| error.to_string())?;
        recorder.close();
        while let Some(Delivery::Events(batch)) = watcher.try_next() {
            seen.events.extend(batch.iter().filter_map(|event| serde_json::to_value(event).ok()));
        }
        Ok(())
    }

    fn change_tools(&mut self, turn: &Turn, seen: &mut Seen) -> Result<(), Fault> {
        let removed = turn.remove.iter().map(|id| id.parse().map_err(|_| format!("`{id}` is not an id")));
        let removed: Vec<agent_types::ToolId> = removed.collect::<Result<_, _>>()?;
        let added = turn.add.iter().map(|spec| self.workshop.tool(spec)).collect::<Result<Vec<_>, _>>()?;
        self.noted.extend(turn.add.iter().filter(|tool| Workshop::notes(tool)).map(|tool| tool.name.clone()));
        let change = self.registry.replace(&removed, added).map_err(|error| error.to_string())?;
        seen.events.extend(serde_json::to_value(change.into_event()).ok());
        Ok(())
    }
}

/// A question of a node as one of an agent. Not every node asks about a tool.
fn pending(ask: &AskSummary) -> Option<PendingCall> {
    let mut value = json!({"tool": "core:Ask", "arguments": {}});
    value.as_object_mut()?.extend(serde_json::to_value(ask).ok()?.as_object()?.clone());
    serde_json::from_value(value).ok()
}

fn front_of(flows: &Flows, agent: &Agent, workshop: &Workshop, lasting: &Lasting) -> Front {
    Front::new(flows.clone(), agent.clone(), lasting.store.clone(), Arc::clone(&workshop.clock))
}
