//! The law of effects: a run that is cut at any events, with any answers, has the effects and outputs of an uncut run in
//! which the same answers were given.

use std::collections::{BTreeMap, HashMap};
use std::fmt;
use std::future::{pending, ready};
use std::sync::{Arc, Mutex, MutexGuard};

use agent_types::{
    AskKind, Durable, EventPersister, EventSink, KeepError, ResumeLog, RunId, RunStatus, StoredEvent,
    Timestamp, TraceEvent, UnsequencedEvent,
};
use async_trait::async_trait;
use proptest::prelude::*;
use proptest::test_runner::{Config, TestRunner};
use serde_json::{Map, Value, json};
use tokio::sync::Notify;
use workflow_engine::{
    Before, Inputs, Node, NodeContext, NodeError, OnWaiting, Outputs, Plan, RunOptions, RunOutcome,
};
use workflow_model::{DataFlowType, NoWorkflows, NodeDefinition, SlotDefinition};

use crate::common::{catalog, flow};

/// Cases unless the variable `WEFT_PAID_CASES` says otherwise.
const CASES: u32 = 200;

/// Point at which a process is killed: behind so many events, or in the first effect behind them.
#[derive(Debug, Clone, Copy)]
enum Cut {
    Events(usize),
    Effect(usize),
}

#[derive(Default)]
struct State {
    events: Vec<StoredEvent>,
    snapshot: Option<(u64, String)>,
    answers: HashMap<String, Value>,
    spans: u64,
    dead: bool,
    /// Number of the process that lives.
    life: u64,
    cut: Option<Cut>,
    begun: usize,
    paid: Vec<String>,
    fates: BTreeMap<String, Value>,
    retries: HashMap<String, usize>,
}

/// The disk, and what nodes do outside.
struct World {
    state: Mutex<State>,
    death: Notify,
    run: RunId,
}

impl fmt::Debug for World {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("World").finish_non_exhaustive()
    }
}

impl World {
    fn new(fates: BTreeMap<String, Value>) -> Arc<Self> {
        let state = Mutex::new(State { fates, ..State::default() });
        Arc::new(Self { state, death: Notify::new(), run: RunId::new("r") })
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap()
    }

    fn start(&self, cut: Option<Cut>) -> Option<ResumeLog> {
        let mut state = self.state();
        (state.dead, state.cut, state.begun) = (false, cut, state.events.len());
        state.life += 1;
        let after = state.snapshot.as_ref().map_or(0, |(seq, _)| *seq);
        let events = state.events.iter().filter(|kept| kept.event.seq > after).cloned().collect();
        let log = ResumeLog { snapshot: state.snapshot.clone(), events, answers: state.answers.clone() };
        (!state.events.is_empty()).then_some(log)
    }

    async fn died(&self) {
        while !self.state().dead {
            self.death.notified().await;
        }
    }

    async fn pay(&self, life: u64, path: &str) {
        let is_over = {
            let mut state = self.state();
            if state.life != life {
                return;
            }
            if !state.dead {
                state.paid.push(path.to_owned());
            }
            let behind = state.events.len() - state.begun;
            let is_last = matches!(state.cut, Some(Cut::Effect(after)) if behind >= after);
            self.end(&mut state, is_last)
        };
        if is_over {
            pending::<()>().await;
        }
    }

    fn end(&self, state: &mut State, is_last: bool) -> bool {
        if is_last && !state.dead {
            state.dead = true;
            self.death.notify_one();
        }
        state.dead
    }
}

/// A process, which emits nothing when it is dead.
#[derive(Debug)]
struct Life(Arc<World>, u64);

impl Life {
    fn is_dead(&self, state: &State) -> bool {
        state.dead || state.life != self.1
    }
}

impl EventSink for Life {
    fn record(&self, drafts: &mut Vec<UnsequencedEvent>) {
        let mut state = self.0.state();
        for UnsequencedEvent { place, body, record } in drafts.drain(..) {
            if self.is_dead(&state) {
                continue;
            }
            let seq = state.events.len() as u64 + 1;
            let event = TraceEvent::new(self.0.run.clone(), seq, Timestamp::default(), place, body);
            state.events.push(StoredEvent { event, record: record.map(|record| *record) });
            let behind = state.events.len() - state.begun;
            let is_last = matches!(state.cut, Some(Cut::Events(count)) if behind >= count);
            self.0.end(&mut state, is_last);
        }
    }

    fn new_span(&self) -> u64 {
        let mut state = self.0.state();
        state.spans += 1;
        state.spans
    }

    fn run(&self) -> &RunId {
        &self.0.run
    }

    fn persister(&self) -> Option<&dyn EventPersister> {
        Some(self)
    }
}

impl EventPersister for Life {
    fn durable(&self) -> Durable {
        if self.is_dead(&self.0.state()) { Box::pin(pending()) } else { Box::pin(ready(Ok(()))) }
    }

    fn is_behind(&self) -> bool {
        false
    }

    fn fault(&self) -> Option<KeepError> {
        None
    }

    fn snapshot(&self, text: String) {
        let mut state = self.0.state();
        if !self.is_dead(&state) {
            state.snapshot = Some((state.events.len() as u64, text));
        }
    }

    fn answered(&self, _: &str, _: &Value) {}
}

/// A node with an effect.
struct Pay(NodeDefinition, Arc<World>, u64);

#[async_trait]
impl Node for Pay {
    fn definition(&self) -> &NodeDefinition {
        &self.0
    }

    async fn run(&self, ctx: NodeContext, inputs: Inputs) -> Result<Outputs, NodeError> {
        let stated = self.1.state().fates.get(&**ctx.path()).cloned();
        if let Some(value) = stated {
            return Ok(Outputs::value(value));
        }
        self.1.pay(self.2, ctx.path()).await;
        Ok(Outputs::value(json!([inputs.get("in")])))
    }
}

fn plan(world: &Arc<World>) -> Plan {
    let slot = || SlotDefinition::new(DataFlowType::Wildcard, "a value");
    let pay = NodeDefinition::new("t:pay", "pays").input("in", slot()).output("out", slot()).effect();
    let mut catalog = catalog();
    let life = world.state().life;
    catalog.register(Pay(pay, Arc::clone(world), life));
    let inside = |config: Value| {
        let mut config = config;
        config["parentNode"] = json!("L");
        config
    };
    let workflow = flow(
        &[
            ("a", "emit", json!({"v": 1})),
            ("p", "pay", json!({})),
            ("b", "pay", json!({})),
            ("q", "ask", json!({})),
            (
                "L",
                "core:LoopZone",
                json!({"configValues": {"mode": "times", "times": 3, "collect": ["v"],
                    "state": [{"key": "n", "dataFlowType": "WILDCARD", "initial": 0}]}}),
            ),
            ("s", "core:LoopState", inside(json!({}))),
            ("i", "pay", inside(json!({}))),
            ("n", "core:LoopNext", inside(json!({}))),
            ("o", "core:GroupOutput", inside(json!({}))),
            ("z", "pay", json!({})),
            ("all", "list", json!({})),
        ],
        &[
            "a.out -> p.in",
            "a.out -> b.in",
            "p.out -> q.in",
            "b -> L",
            "s.index -> i.in",
            "i.out -> n.n",
            "i.out -> o.v",
            "L.collected.v -> z.in",
            "z.out -> all.in",
            "q.out -> all.in",
        ],
        &[("all", "all.out"), ("v", "L.collected.v")],
    );
    Plan::new(&workflow, &catalog, &NoWorkflows).unwrap()
}

#[derive(Debug, Clone)]
struct Story {
    cuts: Vec<Cut>,
    picks: Vec<u8>,
    skipped: bool,
}

impl Story {
    fn run(&self, world: &Arc<World>, cuts: &[Cut]) -> RunOutcome {
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        let mut cuts = cuts.iter().copied();
        let mut cut = cuts.next();
        for _ in 0..60 {
            let log = world.start(cut);
            let plan = plan(world);
            let of = Arc::clone(world);
            let skips = move |path: &str| {
                let skip = of.state().fates.get(path).is_some_and(Value::is_null);
                if skip { Before::Skip } else { Before::Run }
            };
            let options = RunOptions {
                on_waiting: OnWaiting::End,
                resume: log.map(Box::new),
                snapshot_events: 20,
                before: Some(Arc::new(skips)),
                ..RunOptions::new()
            };
            let life = world.state().life;
            let sink = Arc::new(Life(Arc::clone(world), life)) as Arc<dyn EventSink>;
            let outcome = runtime.block_on(async {
                let run = plan.run(Map::new(), options.with_sink(sink));
                tokio::select! {
                    biased;
                    () = world.died() => None,
                    outcome = run.outcome() => Some(outcome),
                }
            });
            let Some(outcome) = outcome else {
                cut = cuts.next();
                continue;
            };
            if outcome.status != RunStatus::Waiting {
                return outcome;
            }
            for ask in &outcome.asks {
                self.answer(world, &ask.ask, ask.kind);
            }
        }
        panic!("it asks for ever: {self:?}");
    }

    fn answer(&self, world: &World, ask: &str, kind: AskKind) {
        let sum = ask.bytes().fold(7_usize, |sum, byte| (sum * 31 + usize::from(byte)) % 10_007);
        let mut state = world.state();
        if kind == AskKind::Question {
            assert_eq!(state.answers.insert(ask.to_owned(), json!(sum)), None, "{ask} is asked once");
            return;
        }
        let path = ask.split('~').next().unwrap().to_owned();
        let value = match self.picks[sum % self.picks.len()] {
            0 if self.skipped => {
                state.fates.insert(path, Value::Null);
                json!("skip")
            }
            0 | 1 => {
                state.fates.insert(path, json!([sum]));
                json!({"outcome": "done", "value": [sum]})
            }
            _ => {
                *state.retries.entry(path).or_default() += 1;
                json!("retry")
            }
        };
        assert_eq!(state.answers.insert(ask.to_owned(), value), None, "{ask} is asked once");
    }

    fn check(&self) {
        let cut = World::new(BTreeMap::new());
        let outcome = self.run(&cut, &self.cuts);
        let fates = cut.state().fates.clone();
        let whole = World::new(fates.clone());
        let wanted = self.run(&whole, &[]);
        assert_eq!((outcome.status, &outcome.outputs), (wanted.status, &wanted.outputs), "{self:?}");
        let (cut, whole) = (cut.state(), whole.state());
        let mut counts: BTreeMap<&str, usize> = BTreeMap::new();
        for path in &cut.paid {
            *counts.entry(path).or_default() += 1;
        }
        for (path, count) in &counts {
            let retries = cut.retries.get(*path).copied().unwrap_or(0);
            assert!(*count <= 1 + retries, "{path} was paid {count} times: {self:?}");
        }
        let settled = |paid: &[String]| {
            let mut paid: Vec<_> = paid.iter().filter(|path| !fates.contains_key(*path)).cloned().collect();
            paid.sort();
            paid.dedup();
            paid
        };
        assert_eq!(settled(&cut.paid), settled(&whole.paid), "{self:?}");
    }
}

#[test]
fn n01_effects_of_a_run_that_is_cut_anywhere_are_those_of_an_uncut_one() {
    let cases = std::env::var("WEFT_PAID_CASES").ok().and_then(|cases| cases.parse().ok()).unwrap_or(CASES);
    let cut = prop_oneof![(1..40usize).prop_map(Cut::Events), (0..25usize).prop_map(Cut::Effect)];
    let story = (prop::collection::vec(cut, 0..6), prop::collection::vec(0..3u8, 1..5), any::<bool>())
        .prop_map(|(cuts, picks, skipped)| Story { cuts, picks, skipped });
    let mut runner = TestRunner::new(Config { cases, failure_persistence: None, ..Config::default() });
    let checked = runner.run(&story, |story| {
        story.check();
        Ok(())
    });
    checked.unwrap();
}
