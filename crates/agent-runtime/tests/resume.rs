//! An agent's run that is cut anywhere resumes to the same end.
#![expect(clippy::unwrap_used, reason = "helpers of tests: a wrong case may panic")]

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use agent_runtime::{Agent, AgentProfile, AgentState, RunOutcome, approval_digest};
use agent_types::ToolDefinition;
use agent_types::{
    Annotations, AskKind, EventBody, EventSink, ExitReason, ResumeLog, RunId, StoredEvent, SystemClock,
    UnsequencedEvent, VirtualClock,
};
use llm_provider::ScriptedModel;
use run_store::{NewRun, Store, StoredRun};
use serde_json::{Map, Value, json};
use tool_registry::{
    Snapshot, Tool, ToolContext, ToolError, ToolHandler, ToolKind, ToolOutput, ToolRetry, ToolSettings,
};
use weft_harness::{Cut, Cuts, old_log, replies};

#[derive(Default)]
struct World {
    looks: AtomicU32,
    pays: AtomicU32,
}

/// Counts its calls.
struct Counted {
    world: Arc<World>,
    pays: bool,
}

#[async_trait::async_trait]
impl ToolHandler for Counted {
    async fn call(&self, arguments: Map<String, Value>, _cx: &ToolContext) -> Result<ToolOutput, ToolError> {
        let counter = if self.pays { &self.world.pays } else { &self.world.looks };
        counter.fetch_add(1, Ordering::Relaxed);
        Ok(ToolOutput::Json(json!({"seen": arguments})))
    }
}

const SCRIPT: &str = r#"{"text": "I look. <ACTION><look><at>a</at></look><look><at>b</at></look></ACTION>"}
{"text": "<ACTION><wrong/></ACTION>"}
{"text": "<ACTION><look><at>c</at></look><pay><to>x</to></pay></ACTION>", "usage": {"input": 5, "output": 7}}
{"text": "All is done."}"#;

fn agent(world: &Arc<World>, approval: &Value, skip: usize) -> Agent {
    agent_of(world, approval, skip, &json!({}))
}

/// The agent whose payments are defined by `parts`.
fn agent_of(world: &Arc<World>, approval: &Value, skip: usize, parts: &Value) -> Agent {
    let script: Vec<&str> = SCRIPT.lines().skip(skip).collect();
    let model = ScriptedModel::from_jsonl(&script.join("\n")).unwrap();
    let profile: AgentProfile = serde_json::from_value(json!({
        "id": "a", "name": "a", "version": "1", "schema_version": "1", "tool_ids_inventory": ["look", "pay"],
        "approval": approval}))
    .unwrap();
    let tool = |id: &str, parameter: &str, annotations: Annotations| {
        let schema = json!({"type": "object", "additionalProperties": false,
            "properties": {parameter: {"type": "string"}}, "required": [parameter]});
        let definition = ToolDefinition::new(id.parse().unwrap(), "does it", schema);
        Tool::new(definition, ToolKind::NATIVE, Counted { world: Arc::clone(world), pays: id == "pay" })
            .with_annotations(annotations)
    };
    let look = tool("look", "at", Annotations { read_only: true, ..Annotations::default() });
    let pay = tool("pay", "to", Annotations { effect: true, ..Annotations::default() });
    let pay = pay.with_parts(parts.as_object().unwrap().clone());
    Agent::from_profile(profile, Arc::new(model), Snapshot::new([look, pay]).unwrap())
}

fn block_on<T>(future: impl Future<Output = T>) -> T {
    tokio::runtime::Builder::new_current_thread().build().unwrap().block_on(future)
}

async fn go(agent: &Agent, run: &Arc<StoredRun>, log: Option<ResumeLog>) -> RunOutcome {
    let sink = Arc::clone(run) as Arc<dyn EventSink>;
    let started = agent.start_in(AgentState::default(), "pay x", sink, log).unwrap();
    let outcome = started.outcome().await.0;
    run.close().await.unwrap();
    outcome
}

fn texts(outcome: &RunOutcome) -> Value {
    let mut history = outcome.history.clone();
    for exchange in &mut history {
        if let agent_runtime::Exchange::Turn(turn) = exchange {
            // It is made from the name of the run, which is another one.
            turn.frame.clear();
        }
    }
    serde_json::to_value(history).unwrap()
}

#[test]
fn cut_anywhere_it_comes_to_the_same_end_and_pays_once() {
    let auto = json!({"default": "auto"});
    let clock = || Arc::new(SystemClock);
    let store = Store::memory().unwrap();
    let world = Arc::new(World::default());
    let whole = store.begin(NewRun::new(RunId::new("whole")), clock()).unwrap();
    let wanted = block_on(go(&agent(&world, &auto, 0), &whole, None));
    assert_eq!((wanted.exit, wanted.text.as_str()), (ExitReason::Completed, "All is done."), "{wanted:#?}");
    drop(whole);
    resume_every_cut(&store, "whole", &wanted);
    // The same of a log that an earlier version wrote.
    let old = old_log("agent", || store.log(&RunId::new("whole"), u64::MAX).unwrap());
    let events = store.log(&RunId::new("whole"), u64::MAX).unwrap().events;
    assert_eq!(names(&old.events), names(&events));
    write(&store, "old", old);
    resume_every_cut(&store, "old", &wanted);
}

fn names(events: &[StoredEvent]) -> Vec<&'static str> {
    events.iter().map(|kept| kept.event.body.name()).collect()
}

/// Puts a log that another process wrote into a store.
fn write(store: &Store, run: &str, log: ResumeLog) {
    let stored = store.begin(NewRun::new(RunId::new(run)), Arc::new(SystemClock)).unwrap();
    let drafts = log.events.into_iter().map(|StoredEvent { event, record }| UnsequencedEvent {
        place: event.place,
        body: event.body,
        record: record.map(Box::new),
    });
    stored.record(&mut drafts.collect());
    block_on(stored.close()).unwrap();
}

fn resume_every_cut(store: &Store, run: &str, wanted: &RunOutcome) {
    let clock = || Arc::new(SystemClock);
    let auto = json!({"default": "auto"});
    for Cut { upto, id: run, run: stored, log } in Cuts::new(store, run) {
        let world = Arc::new(World::default());
        let started = |tool: &str| {
            log.events.iter().any(|kept| match &kept.event.body {
                EventBody::AgentToolStarted { tool: own } => own.as_str() == tool,
                _ => false,
            })
        };
        let paid = started("pay");
        let skip = replies(&log);
        let mut outcome = block_on(go(&agent(&world, &auto, skip), &stored, Some(log)));
        drop(stored);
        if outcome.exit == ExitReason::NeedsReconciliation {
            assert!(paid && outcome.pending.len() == 1, "cut at {upto}");
            let ask = outcome.pending[0].ask.clone();
            store.answer(&run, &ask, &json!({"outcome": "done", "value": {"seen": {"to": "x"}}})).unwrap();
            let (stored, log) = store.resume(&run, clock()).unwrap();
            let skip = replies(&log);
            outcome = block_on(go(&agent(&world, &auto, skip), &stored, Some(log)));
        }
        assert_eq!((outcome.exit, &outcome.text), (wanted.exit, &wanted.text), "cut at {upto}: {outcome:#?}");
        assert_eq!(texts(&outcome), texts(wanted), "cut at {upto}");
        assert_eq!(outcome.usage, wanted.usage, "cut at {upto}");
        assert!(world.pays.load(Ordering::Relaxed) <= u32::from(!paid), "cut at {upto}: paid twice");
        let events = store.events(&run, 0, usize::MAX).unwrap();
        assert!(events.iter().zip(1..).all(|(kept, seq)| kept.event.seq == seq));
        for (name, most) in [("agent.message", 2), ("run.finished", 1), ("agent.llm.finished", 4)] {
            let count = events.iter().filter(|kept| kept.event.body.name() == name).count();
            assert!(count <= most, "cut at {upto}: {name} {count} times");
        }
    }
}

#[test]
fn an_approval_lasts_and_counts_for_its_arguments_only() {
    let ask = json!({"default": "auto", "tools": {"pay": "ask"}});
    let clock = || Arc::new(VirtualClock::new(agent_types::Timestamp::default()));
    let outcome_of = |answer: Value| {
        let store = Store::memory().unwrap();
        let world = Arc::new(World::default());
        let run = RunId::new("r");
        let stored = store.begin(NewRun::new(run.clone()), clock()).unwrap();
        let first = block_on(go(&agent(&world, &ask, 0), &stored, None));
        drop(stored);
        assert_eq!(first.exit, ExitReason::AwaitingApproval);
        assert_eq!((first.pending.len(), world.pays.load(Ordering::Relaxed)), (1, 0));
        assert_eq!(world.looks.load(Ordering::Relaxed), 3, "what only reads does not wait");
        store.answer(&run, &first.pending[0].ask, &answer).unwrap();
        let (stored, log) = store.resume(&run, clock()).unwrap();
        let outcome = block_on(go(&agent(&world, &ask, 3), &stored, Some(log)));
        assert_eq!(world.looks.load(Ordering::Relaxed), 3, "nothing is looked at twice");
        (outcome, world.pays.load(Ordering::Relaxed))
    };
    let digest = |to: &str| {
        approval_digest("pay", json!({"to": to}).as_object().unwrap(), &agent_types::DefinitionDigests::new())
    };
    let (outcome, pays) = outcome_of(json!({"approve": true, "digest": digest("x")}));
    assert_eq!((outcome.exit, pays), (ExitReason::Completed, 1));
    let (outcome, pays) = outcome_of(json!({"approve": true, "digest": digest("y")}));
    assert_eq!(
        (outcome.exit, pays),
        (ExitReason::AwaitingApproval, 0),
        "the approval was for other arguments"
    );
    let (outcome, pays) = outcome_of(json!({"deny": "keep it"}));
    assert_eq!((outcome.exit, pays), (ExitReason::Completed, 0));
    assert!(texts(&outcome).to_string().contains("Error - Tool pay was not run: denied: keep it"));
    let (outcome, pays) = outcome_of(json!({"approve": true, "arguments": {"to": "bob"}}));
    assert_eq!((outcome.exit, pays), (ExitReason::Completed, 1));
    let text = texts(&outcome).to_string();
    assert!(
        text.contains(r#"\"to\":\"bob\""#) && text.contains("Note - arguments changed by the user"),
        "{text}"
    );
    let (outcome, pays) = outcome_of(json!({"approve": true, "arguments": {"too": "bob"}}));
    assert_eq!((outcome.exit, pays), (ExitReason::AwaitingApproval, 0), "edited arguments are checked again");
    let why = outcome.pending[0].prompt.as_deref().unwrap();
    assert!(why.contains("these arguments do not fit: ") && why.contains("'too'"), "{why}");
}

#[test]
fn what_became_of_a_call_is_asked_after_every_start_of_it() {
    let [ask, auto] = ["ask", "auto"].map(|pay| json!({"default": "auto", "tools": {"pay": pay}}));
    let clock = || Arc::new(VirtualClock::new(agent_types::Timestamp::default()));
    let store = Store::memory().unwrap();
    let world = Arc::new(World::default());
    let pays = || world.pays.load(Ordering::Relaxed);
    let id = |run: &str| RunId::new(run.to_owned());
    let skipped = |log: &ResumeLog, approval: &Value| agent(&world, approval, replies(log));
    let started = |run: &str| {
        let events = store.events(&id(run), 0, usize::MAX).unwrap();
        let is_start =
            |body: &EventBody| matches!(body, EventBody::AgentToolStarted { tool } if tool.as_str() == "pay");
        events.iter().rev().find(|kept| is_start(&kept.event.body)).unwrap().event.seq
    };
    // A process that died with the last start of the call.
    let died = |of: &str, run: &str, approval: &Value| {
        let new = NewRun::new(id(run));
        let (stored, log) =
            store.fork(&id(of), new, started(of), &HashMap::new(), |_| true, clock()).unwrap();
        let outcome = block_on(go(&skipped(&log, approval), &stored, Some(log)));
        assert_eq!((outcome.exit, outcome.pending.len()), (ExitReason::NeedsReconciliation, 1), "{run}");
        assert_eq!(outcome.pending[0].kind, AskKind::Outcome, "{run}");
        outcome.pending[0].ask.clone()
    };
    let answered = |run: &str, ask: &str, answer: Value| {
        store.answer(&id(run), ask, &answer).unwrap();
        let (stored, log) = store.resume(&id(run), clock()).unwrap();
        block_on(go(&skipped(&log, &json!({"default": "auto", "tools": {"pay": "ask"}})), &stored, Some(log)))
    };
    let stored = store.begin(NewRun::new(id("r")), clock()).unwrap();
    let first = block_on(go(&agent(&world, &ask, 0), &stored, None));
    drop(stored);
    let call = first.pending[0].ask.clone();
    assert_eq!(answered("r", &call, json!({"approve": true})).exit, ExitReason::Completed);
    assert_eq!(pays(), 1);
    // The question has a name of its own: the approval's was answered.
    let what = died("r", "once", &ask);
    assert_ne!(what, call);
    assert_eq!(store.answer(&id("once"), &what, &json!("perhaps")).unwrap_err().code(), "unfit_answer");
    assert_eq!(answered("once", &what, json!("retry")).exit, ExitReason::Completed);
    assert_eq!(pays(), 2);
    // That answer counted for the start that it was given for.
    let again = died("once", "twice", &ask);
    assert!(again != call && again != what, "{again}");
    assert_eq!(pays(), 2);
    assert_eq!(answered("twice", &again, json!("skip")).exit, ExitReason::Completed);
    assert_eq!(pays(), 2);
    // It was allowed for that life of the run only; what became of it is asked all the same.
    let stored = store.begin(NewRun::new(id("free")), clock()).unwrap();
    block_on(go(&agent(&world, &auto, 0), &stored, None));
    drop(stored);
    assert_eq!(died("free", "bound", &ask), call);
}

#[test]
fn n07_an_approval_counts_for_the_definition_that_was_shown() {
    let ask = json!({"default": "auto", "tools": {"pay": "ask"}});
    let clock = || Arc::new(VirtualClock::new(agent_types::Timestamp::default()));
    let parts = |url: &str| json!({"url": url, "method": "POST", "body": {"to": "{to}"}});
    let (store, world, run) = (Store::memory().unwrap(), Arc::new(World::default()), RunId::new("r"));
    let pays = || world.pays.load(Ordering::Relaxed);
    let stored = store.begin(NewRun::new(run.clone()), clock()).unwrap();
    let first = block_on(go(&agent_of(&world, &ask, 0, &parts("https://a")), &stored, None));
    drop(stored);
    let resumed = |url: &str| {
        let (stored, log) = store.resume(&run, clock()).unwrap();
        block_on(go(&agent_of(&world, &ask, replies(&log), &parts(url)), &stored, Some(log)))
    };
    let approve = |outcome: &RunOutcome| {
        let pending = &outcome.pending[0];
        let digest = approval_digest("pay", &pending.arguments, &pending.definition);
        let answer = json!({"approve": true, "digest": digest, "definition": pending.definition});
        store.answer(&run, &pending.ask, &answer).unwrap();
    };
    assert_eq!(first.pending[0].definition.keys().collect::<Vec<_>>(), ["body", "method", "url"]);
    approve(&first);
    let changed = resumed("https://b");
    assert_eq!((changed.exit, pays()), (ExitReason::AwaitingApproval, 0));
    assert_ne!(changed.pending[0].ask, first.pending[0].ask, "it is another question");
    assert_eq!(
        changed.pending[0].prompt.as_deref(),
        Some("`pay` has changed since it was approved: url"),
        "it says what has changed"
    );
    let again = resumed("https://b");
    assert_eq!((&again.pending[0].ask, pays()), (&changed.pending[0].ask, 0), "it waits for the same");
    approve(&changed);
    assert_eq!(resumed("https://b").exit, ExitReason::Completed);
    assert_eq!(pays(), 1);
}

#[test]
fn n08_a_fork_asks_again_for_what_it_has_not_done() {
    let ask = json!({"default": "auto", "tools": {"pay": "ask"}});
    let clock = || Arc::new(VirtualClock::new(agent_types::Timestamp::default()));
    let (store, world, run) = (Store::memory().unwrap(), Arc::new(World::default()), RunId::new("r"));
    let pays = || world.pays.load(Ordering::Relaxed);
    let stored = store.begin(NewRun::new(run.clone()), clock()).unwrap();
    let first = block_on(go(&agent(&world, &ask, 0), &stored, None));
    drop(stored);
    store.answer(&run, &first.pending[0].ask, &json!({"approve": true})).unwrap();
    let (stored, log) = store.resume(&run, clock()).unwrap();
    assert_eq!(
        block_on(go(&agent(&world, &ask, replies(&log)), &stored, Some(log))).exit,
        ExitReason::Completed
    );
    drop(stored);
    assert_eq!(pays(), 1);
    let events = store.events(&run, 0, usize::MAX).unwrap();
    let is_paid = |body: &EventBody| matches!(body, EventBody::AgentToolFinished { tool, .. } if tool.as_str() == "pay");
    let paid = events.iter().find(|kept| is_paid(&kept.event.body)).unwrap().event.seq;
    for (upto, id) in (1..=paid).map(|upto| (upto, RunId::new(format!("f{upto}")))) {
        let fork = |of: &RunId, id: &RunId| {
            let new = NewRun::new(id.clone());
            let (stored, log) = store.fork(of, new, upto, &HashMap::new(), |_| true, clock()).unwrap();
            let skip = replies(&log);
            block_on(go(&agent(&world, &ask, skip), &stored, Some(log)))
        };
        let outcome = fork(&run, &id);
        assert_eq!(pays(), 1, "a fork at {upto} pays with the approval of another run");
        let is_started = events[..usize::try_from(upto).unwrap()].iter().any(
            |kept| matches!(&kept.event.body, EventBody::AgentToolStarted { tool } if tool.as_str() == "pay"),
        );
        let wanted = match (upto == paid, is_started) {
            (true, _) => ExitReason::Completed,
            (false, true) => ExitReason::NeedsReconciliation,
            (false, false) => ExitReason::AwaitingApproval,
        };
        assert_eq!(outcome.exit, wanted, "fork at {upto}");
        if wanted == ExitReason::AwaitingApproval {
            assert!(store.asks(&id).unwrap().iter().all(|ask| ask.answer.is_none()), "fork at {upto}");
        }
        // What a fork holds it also holds in its next process, and in a fork of it.
        if wanted == ExitReason::Completed {
            assert_eq!(fork(&id, &RunId::new("second")).exit, ExitReason::Completed);
            assert_eq!(pays(), 1);
        }
    }
}

/// Fails with an error that may pass, twice of three times.
struct Flaky(Arc<World>);

#[async_trait::async_trait]
impl ToolHandler for Flaky {
    async fn call(&self, _: Map<String, Value>, _cx: &ToolContext) -> Result<ToolOutput, ToolError> {
        match self.0.looks.fetch_add(1, Ordering::Relaxed) % 3 {
            2 => Ok(ToolOutput::Json(json!("here"))),
            _ => Err(ToolError::failed("not yet").retryable(true)),
        }
    }
}

fn flaky_agent(world: &Arc<World>, skip: usize) -> Agent {
    let look = r#"{"text": "<ACTION><look/></ACTION>"}"#;
    let script = [look, look, r#"{"text": "Done."}"#];
    let model = ScriptedModel::from_jsonl(&script[skip..].join("\n")).unwrap();
    let profile: AgentProfile = serde_json::from_value(json!({"id": "a", "name": "a", "version": "1",
        "schema_version": "1", "tool_ids_inventory": ["look"], "approval": {"default": "auto"},
        "budgets": {"tool_calls": 5}}))
    .unwrap();
    let definition = ToolDefinition::new("look".parse().unwrap(), "looks", json!({"type": "object"}));
    let mut retry = ToolRetry::times(5);
    retry.backoff = std::time::Duration::ZERO;
    let look = Tool::new(definition, ToolKind::NATIVE, Flaky(Arc::clone(world)));
    let look = look.with_annotations(Annotations { read_only: true, ..Annotations::default() });
    let look = look.with_settings(ToolSettings::default().with_retry(retry));
    Agent::from_profile(profile, Arc::new(model), Snapshot::new([look]).unwrap())
}

#[test]
fn attempts_count_in_the_budget_of_a_run_that_is_resumed() {
    let clock = || Arc::new(SystemClock);
    let (store, world) = (Store::memory().unwrap(), Arc::new(World::default()));
    let looks = || world.looks.load(Ordering::Relaxed);
    let whole = store.begin(NewRun::new(RunId::new("whole")), clock()).unwrap();
    let outcome = block_on(go(&flaky_agent(&world, 0), &whole, None));
    drop(whole);
    assert_eq!((outcome.exit, looks()), (ExitReason::BudgetExceeded, 5));
    let events = store.log(&RunId::new("whole"), u64::MAX).unwrap().events;
    let is_end = |kept: &&StoredEvent| matches!(kept.event.body, EventBody::AgentToolFinished { .. });
    let ended = events.iter().find(is_end).unwrap().event.seq;
    write(&store, "cut", store.log(&RunId::new("whole"), ended).unwrap());
    let (stored, log) = store.resume(&RunId::new("cut"), clock()).unwrap();
    world.looks.store(3, Ordering::Relaxed);
    let outcome = block_on(go(&flaky_agent(&world, replies(&log)), &stored, Some(log)));
    assert_eq!((outcome.exit, looks()), (ExitReason::BudgetExceeded, 5));
}
