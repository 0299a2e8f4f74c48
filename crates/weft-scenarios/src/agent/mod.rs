//! Cases of agents: a script of what the model says, tools that answer as written, and what must come of it.

mod canvas;
mod case;
mod crash_injection;
mod expect;
mod fixtures;
mod front;
mod history;
mod observed;
mod session;
mod tools;

use std::collections::VecDeque;
use std::sync::Arc;

use agent_types::{Clock, Timestamp, VirtualClock};
use http_caller::{HttpCaller, NetworkPolicy};
use llm_provider::{CallPolicy, GuardedModel, LlmProvider, Reply, ScriptedModel};
use run_store::Store;
use serde_json::{Map, Value};
use tool_registry::Snapshot;
use tool_system::{MemoryBlobs, MemoryState, PrivateState, StateSource, World as SharedWorld};
use weft_project::Project;
use weft_runs::{ReplayDifference, replay};

use crate::Fault;
use crate::pattern::Pattern;
use case::{Case, Deed, Line, Turn};
use crash_injection::Meanwhile;
pub use expect::Difference;
use fixtures::{Mortal, Outside, World};
use observed::Seen;
use session::{Lasting, Session};
use tools::Workshop;

/// Runs cases of agents. An agent that a case names is one of the project.
#[derive(Debug, Clone, Copy, Default)]
pub struct AgentCases<'p> {
    project: Option<&'p Project>,
}

/// Results of the cases of a file.
#[derive(Debug, Default)]
#[non_exhaustive]
pub struct TestReport {
    /// Cases that went as they should.
    pub passed: usize,
    /// Those that did not.
    pub failed: Vec<FailedCase>,
}

/// A case that went another way.
#[derive(Debug)]
#[non_exhaustive]
pub struct FailedCase {
    /// Its id, or the number of its line.
    pub id: String,
    /// Differences, in order of their position.
    pub differences: Vec<Difference>,
}

impl<'p> AgentCases<'p> {
    /// Cases with profiles of their own.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Cases that may name agents of a project.
    #[must_use]
    pub fn for_project(project: &'p Project) -> Self {
        Self { project: Some(project) }
    }

    /// Runs every line of a file whose id `wanted` accepts; each in virtual time.
    #[must_use]
    pub fn run(self, text: &str, wanted: impl Fn(&str) -> bool) -> TestReport {
        let mut report = TestReport::default();
        for (number, line) in text.lines().enumerate().filter(|(_, line)| !line.trim().is_empty()) {
            let (id, case) = match serde_json::from_str::<Value>(line) {
                Ok(value) => {
                    let id =
                        value["id"].as_str().map_or_else(|| format!("line {}", number + 1), str::to_owned);
                    (id, Line::read(value))
                }
                Err(error) => (format!("line {}", number + 1), Err(error.to_string())),
            };
            if !wanted(&id) {
                continue;
            }
            match case.and_then(|line| self.run_line(&line)) {
                Ok(differences) if differences.is_empty() => report.passed += 1,
                Ok(differences) => report.failed.push(FailedCase { id, differences }),
                Err(fault) => {
                    let wanted = "a case that can be run".to_owned();
                    let difference = Difference { at: "the case".to_owned(), wanted, got: fault };
                    report.failed.push(FailedCase { id, differences: vec![difference] });
                }
            }
        }
        report
    }

    /// Answers each case with the built-in loop and with a loop of nodes. Returns the ids, with the first difference in
    /// requests, executions or events of the agent, or the reason why nodes cannot run it.
    #[must_use]
    pub fn both_ways(self, text: &str) -> Vec<(String, Option<String>)> {
        let lines = text.lines().filter(|line| !line.trim().is_empty());
        let compared = lines.map(|line| {
            let line: Value = serde_json::from_str(line).unwrap_or_default();
            let id = line["id"].as_str().unwrap_or_default().to_owned();
            let case = Case::read(line);
            let difference = case.and_then(|case| Self::in_virtual_time(|clock| self.compare(case, clock)));
            (id, difference.unwrap_or_else(Some))
        });
        compared.collect()
    }

    /// Replays each run of each case from its log, at once. Returns the ids, with the first difference.
    #[must_use]
    pub fn replayed(self, text: &str) -> Vec<(String, Option<String>)> {
        let lines = text.lines().filter(|line| !line.trim().is_empty());
        let replayed = lines.map(|line| {
            let line: Value = serde_json::from_str(line).unwrap_or_default();
            let id = line["id"].as_str().unwrap_or_default().to_owned();
            let case = Case::read(line);
            let difference =
                case.and_then(|case| Self::in_virtual_time(|clock| self.replay_runs(case, clock)));
            (id, difference.unwrap_or_else(Some))
        });
        replayed.collect()
    }

    async fn replay_runs(self, case: Case, clock: Arc<dyn Clock>) -> Result<Option<String>, Fault> {
        let store = Store::memory().map_err(|error| error.to_string())?;
        let mut session = self.session(&case, &clock, store)?;
        perform(&case, &mut session).await?;
        for (number, begun) in session.runs.iter().enumerate() {
            if let Some(ReplayDifference { at, wanted, got }) = Box::pin(session.replay(begun)).await? {
                return Ok(Some(format!("run {number}: {at}: wanted {wanted}, got {got}")));
            }
        }
        Ok(None)
    }

    async fn compare(self, case: Case, clock: Arc<dyn Clock>) -> Result<Option<String>, Fault> {
        let session = || {
            let store = Store::memory().map_err(|error| error.to_string())?;
            self.session(&case, &clock, store)
        };
        let (mut agent, mut nodes) = (session()?, session()?.on_canvas());
        let built_in = Box::pin(perform(&case, &mut agent)).await?.0;
        let other = Box::pin(perform(&case, &mut nodes)).await?.0;
        Ok(agent.trail(&built_in.events).difference(&nodes.trail(&other.events)))
    }

    fn run_line(self, line: &Line) -> Result<Vec<Difference>, Fault> {
        match line {
            Line::Case(case) => Self::in_virtual_time(|clock| self.play(case, clock)),
            Line::Recorded(recorded) => {
                let project = self.project.ok_or("a recording is replayed with its project")?;
                let found = Self::in_virtual_time(|clock| async move {
                    let replayed = replay(project, &recorded.recording, clock).await;
                    replayed.map_err(|error| error.to_string())
                })?;
                let differs = |ReplayDifference { at, wanted, got }| Difference { at, wanted, got };
                Ok(found.map(differs).into_iter().collect())
            }
        }
    }

    fn in_virtual_time<T, F: Future<Output = Result<T, Fault>>>(
        work: impl FnOnce(Arc<dyn Clock>) -> F,
    ) -> Result<T, Fault> {
        let clock = VirtualClock::new(Timestamp::default());
        let parked = clock.clone();
        let runtime = tokio::runtime::Builder::new_current_thread()
            .on_thread_park(move || {
                parked.advance_to_next();
            })
            .build()
            .map_err(|error| error.to_string())?;
        runtime.block_on(work(Arc::new(clock)))
    }

    async fn play(self, case: &Case, clock: Arc<dyn Clock>) -> Result<Vec<Difference>, Fault> {
        let store = Store::memory().map_err(|error| error.to_string())?;
        let mut session = self.session(case, &clock, store.clone())?;
        let (whole, mut differences) = perform(case, &mut session).await?;
        if let Some(expect) = &case.expect {
            expect.check()?;
            differences.extend(expect.differences("all turns", &whole));
        }
        for begun in &session.runs {
            differences.extend(kept_well(&store, &begun.run)?);
        }
        Ok(differences)
    }

    fn session(self, case: &Case, clock: &Arc<dyn Clock>, store: Store) -> Result<Session, Fault> {
        let replies = case.script.iter().enumerate().map(|(number, reply)| {
            serde_json::from_value::<Reply>(reply.clone())
                .map_err(|error| format!("script[{number}]: {error}"))
        });
        let model = ScriptedModel::new(replies.collect::<Result<_, _>>()?).with_clock(Arc::clone(clock));
        let world = Arc::new(World::default());
        let model = Mortal { model, world: Arc::clone(&world) };
        // Errors and silence of a script meet the attempts and waits of a real model.
        let model = GuardedModel::new(Arc::new(model), CallPolicy::default(), Arc::clone(clock));
        let model: Arc<dyn LlmProvider> = Arc::new(model);
        let outside = Outside::new(Arc::clone(&world), case.http.clone(), Arc::clone(clock));
        let caller = HttpCaller::builder(NetworkPolicy::public_only())
            .transport(Arc::new(outside))
            .clock(Arc::clone(clock))
            .build();
        let workshop = Workshop::new(case, world, model, caller, Arc::clone(clock))?;
        let (profile, tools) = match &case.agent {
            Some(Value::String(name)) => self.agent_of_project(name, case, &workshop)?,
            Some(profile) => agent_of_case(&workshop.profile(profile)?, case, &workshop)?,
            None => agent_of_case(&workshop.profile(&Value::Object(Map::new()))?, case, &workshop)?,
        };
        let lasting = Lasting {
            store,
            blobs: Arc::new(MemoryBlobs::default()),
            private: private_state(&profile)?,
            shared: Some(Arc::new(SharedWorld(Arc::new(MemoryState::new(Map::new()))))),
        };
        let flows = case.flows.as_ref().map(|flows| front::flows(flows, &workshop, &tools)).transpose()?;
        Session::new(case, profile, &tools, workshop, lasting, flows)
    }

    /// An agent of the project, with the tools of the case in place of its own of the same name.
    fn agent_of_project(
        self,
        name: &str,
        case: &Case,
        workshop: &Workshop,
    ) -> Result<(agent_runtime::AgentProfile, Snapshot), Fault> {
        let project = self.project.ok_or("an agent is named, and the case has no project")?;
        let file = project.agent_file(name).map_err(|error| error.to_string())?;
        let own = project.tools_of(file).map_err(|error| error.to_string())?;
        let mut tools = Vec::new();
        for spec in &case.tools {
            tools.push(match own.get(&spec.name).filter(|_| spec.parameters.is_none()) {
                Some(own) => workshop.stub(spec, own),
                None => workshop.tool(spec)?,
            });
        }
        for tool in own.tools() {
            if tools.iter().all(|stub| stub.id() != tool.id()) {
                tools.push(tool.clone());
            }
        }
        Ok((file.profile.clone(), Snapshot::new(tools).map_err(|error| error.to_string())?))
    }
}

/// Performs all turns of a case. Returns everything that was observed, with the differences to what each turn expects.
async fn perform(case: &Case, session: &mut Session) -> Result<(Seen, Vec<Difference>), Fault> {
    session.begin().await?;
    let mut whole = Seen::default();
    let mut differences = Vec::new();
    let mut turns = case.turns.iter().enumerate().peekable();
    while let Some((number, turn)) = turns.next() {
        // What is done while this turn goes on.
        let mut meanwhile = VecDeque::new();
        let mut expected = vec![turn];
        while let Some((_, next)) = turns.next_if(|(_, next)| next.on.is_some()) {
            let on = Pattern::read(next.on.as_ref().unwrap_or(&Value::Null))?;
            let restarts = match next.r#do {
                Some(Deed::Restart) => true,
                Some(Deed::Cancel) => false,
                _ => return Err("only `cancel` and `restart` may be done `on` an event".to_owned()),
            };
            meanwhile.push_back(Meanwhile { on, restarts });
            expected.push(next);
        }
        let seen = Box::pin(session.step(turn, meanwhile))
            .await
            .map_err(|fault| format!("turn {number}: {fault}"))?;
        for (offset, expect) in expected.iter().enumerate() {
            if let Some(expect) = &expect.expect {
                expect.check()?;
                let part = part_of(&seen, offset, &expected);
                differences.extend(expect.differences(&format!("turn {}", number + offset), &part));
            }
        }
        whole.add(&seen);
    }
    Ok((whole, differences))
}

/// An agent that the case writes out.
fn agent_of_case(
    profile: &agent_runtime::AgentProfile,
    case: &Case,
    workshop: &Workshop,
) -> Result<(agent_runtime::AgentProfile, Snapshot), Fault> {
    let mut tools = case.tools.iter().map(|spec| workshop.tool(spec)).collect::<Result<Vec<_>, _>>()?;
    let ids = profile.tool_ids();
    for id in &ids {
        if tools.iter().all(|tool| tool.id().as_str() != id) {
            tools.push(workshop.known(id)?.ok_or_else(|| format!("unknown tool `{id}`"))?);
        }
    }
    let all = Snapshot::new(tools).map_err(|error| error.to_string())?;
    let offered = if ids.is_empty() { all } else { profile.selection().from(&all).tools };
    Ok((profile.clone(), offered))
}

fn private_state(profile: &agent_runtime::AgentProfile) -> Result<Option<Arc<PrivateState>>, Fault> {
    let state = MemoryState::new(profile.initial_private_state_values.clone().unwrap_or_default());
    let state = match &profile.initial_private_state_schema {
        Some(schema) => state.with_schema(schema).map_err(|error| error.to_string())?,
        None => state,
    };
    let state: Arc<dyn StateSource> = Arc::new(state);
    Ok(Some(Arc::new(PrivateState(state))))
}

/// Part of one of the steps that were done together: a restart ends the turn before it.
fn part_of(seen: &Seen, offset: usize, steps: &[&Turn]) -> Seen {
    let restarts = steps.iter().take(offset + 1).filter(|step| step.on.is_some());
    seen.life(restarts.filter(|step| step.r#do == Some(Deed::Restart)).count())
}

/// Invariants of every run: its numbers have no holes, and a call that is over has one observation.
fn kept_well(store: &Store, run: &agent_types::RunId) -> Result<Vec<Difference>, Fault> {
    let events = store.events(run, 0, usize::MAX).map_err(|error| error.to_string())?;
    let mut found = Vec::new();
    let differs = |at: &str, wanted: String, got: String| Difference { at: at.to_owned(), wanted, got };
    if let Some((wanted, kept)) = (1..).zip(&events).find(|(wanted, kept)| kept.event.seq != *wanted) {
        found.push(differs("seq", wanted.to_string(), kept.event.seq.to_string()));
    }
    let values: Vec<Value> =
        events.iter().filter_map(|kept| serde_json::to_value(&kept.event).ok()).collect();
    let is_over = values.last().is_some_and(|event| event["type"] == "run.finished");
    for ready in values.iter().filter(|event| is_over && event["type"] == "agent.call.ready") {
        let observations = values
            .iter()
            .filter(|event| event["type"] == "agent.observation" && event["call"] == ready["call"]);
        let count = observations.count();
        if count != 1 {
            let at = format!("observations of call {}", ready["call"]);
            found.push(differs(&at, "1".to_owned(), count.to_string()));
        }
    }
    Ok(found)
}
