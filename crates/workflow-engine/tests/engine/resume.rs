//! A run that is cut anywhere in its log resumes to the same end.

use std::collections::BTreeMap;
use std::sync::Arc;

use agent_types::{AskKind, EventBody, EventPersister, ResumeLog, RunStatus, TraceEvent};
use proptest::prelude::*;
use serde_json::{Value, json};
use workflow_engine::{Cache, OnFail, OnWaiting, Plan, RunOptions, RunOutcome};
use workflow_model::{NoWorkflows, Workflow};

use crate::common::{catalog, flow};
use weft_harness::VirtualTime;

use crate::laws::{build, drawn};
use crate::persister::{Log, State};

pub(crate) fn options() -> RunOptions {
    RunOptions {
        on_fail: OnFail::FinishOthers,
        on_waiting: OnWaiting::End,
        snapshot_events: 5,
        ..RunOptions::new()
    }
}

pub(crate) fn run(plan: &Plan, log: &Arc<Log>, resume: Option<ResumeLog>, options: RunOptions) -> RunOutcome {
    let time = VirtualTime::default();
    let options = RunOptions { resume: resume.map(Box::new), ..options }
        .with_clock(time.shared_clock())
        .with_sink(log.clone());
    time.block_on(async { plan.run(serde_json::Map::new(), options).outcome().await })
}

/// Cuts a run behind each of its events and resumes it.
pub(crate) fn check(workflow: &Workflow, options: &RunOptions) {
    let plan = Plan::new(workflow, &catalog(), &NoWorkflows).unwrap_or_else(|error| panic!("{error}"));
    let whole = Arc::new(Log::default());
    let wanted = run(&plan, &whole, None, options.clone());
    check_log(&plan, &whole, &wanted, options);
}

/// Cuts a log behind each of its events and resumes the run.
fn check_log(plan: &Plan, whole: &Log, wanted: &RunOutcome, options: &RunOptions) {
    let length = whole.state().events.len();
    for upto in 1..length {
        for with_snapshot in [false, true] {
            let (left, resume) = whole.cut(upto, with_snapshot);
            if with_snapshot && resume.snapshot.is_none() {
                continue;
            }
            let got = run(plan, &left, Some(resume), options.clone());
            let place = || {
                let state = left.state();
                let lines: Vec<String> = state.events.iter().map(|kept| line(&kept.event)).collect();
                format!("cut at {upto} of {length}, snapshot: {with_snapshot}\n{}", lines.join("\n"))
            };
            assert_eq!(got.status, wanted.status, "{:?} {}", got.error, place());
            assert_eq!(got.outputs, wanted.outputs, "{}", place());
            assert_eq!(kind(&got), kind(wanted), "{}", place());
            let asks = |outcome: &RunOutcome| -> Vec<String> {
                let mut asks: Vec<_> = outcome.asks.iter().map(|ask| ask.ask.to_string()).collect();
                asks.sort();
                asks
            };
            assert_eq!(asks(&got), asks(wanted), "{}", place());
            let lives = left.state().clone();
            if let Err(fault) = settled(&lives, got.status) {
                panic!("{fault}: {}", place());
            }
        }
    }
}

fn kind(outcome: &RunOutcome) -> Option<(String, Option<Arc<str>>)> {
    outcome.error.as_ref().map(|error| (error.kind.clone(), error.path.clone()))
}

fn line(event: &TraceEvent) -> String {
    format!(
        "{} {}",
        event.seq,
        serde_json::to_string(event).unwrap().split_once("\"Z\"").map_or_else(
            || serde_json::to_string(event).unwrap()[60..].to_owned(),
            |(_, rest)| rest.to_owned()
        )
    )
}

/// Every start has one end in the two lives together; what had ended does not start again.
fn settled(state: &State, status: RunStatus) -> Result<(), String> {
    let mut open: BTreeMap<String, u64> = BTreeMap::new();
    let mut ended: BTreeMap<String, usize> = BTreeMap::new();
    for (at, kept) in state.events.iter().enumerate() {
        let event = &kept.event;
        let path = event.place.path.as_deref().unwrap_or_default().to_owned();
        match &event.body {
            EventBody::NodeStarted { .. } => {
                if ended.contains_key(&path) {
                    return Err(format!("{path} starts again"));
                }
                if open.insert(path.clone(), event.place.span).is_some() {
                    return Err(format!("{path} starts twice"));
                }
            }
            EventBody::NodeCancelled { cause } if **cause == *"interrupted" => {
                let started = open.remove(&path);
                if started != Some(event.place.span) {
                    return Err(format!("{path} is interrupted, and was not at work"));
                }
            }
            EventBody::NodeFinished { .. } | EventBody::NodeFailed { .. } => {
                if open.remove(&path) != Some(event.place.span) {
                    return Err(format!("{path} ends without its start"));
                }
                ended.insert(path, at);
            }
            EventBody::NodeCancelled { .. }
            | EventBody::NodeSkipped { .. }
            | EventBody::NodeCached { .. } => {
                open.remove(&path);
                if ended.insert(path.clone(), at).is_some() {
                    return Err(format!("{path} ends twice"));
                }
            }
            EventBody::NodeRetrying { .. } => {
                ended.retain(|inner, _| {
                    !inner.starts_with(&format!("{path}/")) && !inner.starts_with(&format!("{path}["))
                });
            }
            _ => {}
        }
    }
    let resumed = state.events[state.resumed_at..].iter();
    if resumed.filter(|kept| matches!(kept.event.body, EventBody::RunResumed { .. })).count() != 1 {
        return Err("it does not emit that it resumes".to_owned());
    }
    if status != RunStatus::Waiting && !open.is_empty() {
        return Err(format!("without an end: {open:?}"));
    }
    Ok(())
}

fn zone(id: &str, config: Value) -> (&str, &str, Value) {
    (id, "core:LoopZone", json!({"configValues": config}))
}

fn inside(parent: &str, config: Value) -> Value {
    let mut config = config;
    config["parentNode"] = json!(parent);
    config
}

#[test]
fn joins_branches_and_handled_failures() {
    let workflow = flow(
        &[
            ("a", "emit", json!({"v": true})),
            ("w", "wait", json!({"ms": 20})),
            ("i", "if", json!({})),
            ("t", "wait", json!({"ms": 5})),
            ("e", "id", json!({})),
            ("f", "fail", json!({"onError": "branch"})),
            ("d", "fail", json!({"onError": {"default": 7}})),
            ("s", "fail", json!({"onError": "skip"})),
            ("k", "id", json!({})),
            ("r", "fail", json!({"times": 2, "retry": {"max": 3, "backoffMs": 10}})),
            ("j", "list", json!({})),
        ],
        &[
            "a.out -> w.in",
            "w.out -> i.in",
            "i.then -> t.in",
            "i.else -> e.in",
            "a.out -> f.in",
            "a.out -> d.in",
            "a.out -> s.in",
            "s.out -> k.in",
            "a.out -> r.in",
            "t.out -> j.in",
            "e.out -> j.in",
            "d.out -> j.in",
            "k.out -> j.in",
            "r.out -> j.in",
        ],
        &[("j", "j.out")],
    );
    check(&workflow, &options());
    check(&workflow, &RunOptions { max_parallel: Some(1), ..options() });
}

#[test]
fn nested_loops_with_carried_state() {
    let workflow = flow(
        &[
            zone(
                "L",
                json!({"mode": "until", "state": [{"key": "n", "dataFlowType": "INTEGER", "initial": 0}],
                "condition": "state.n >= 3", "collect": ["v"]}),
            ),
            ("ls", "core:LoopState", inside("L", json!({}))),
            (
                "M",
                "core:LoopZone",
                json!({"parentNode": "L", "configValues": {"mode": "times", "times": 2,
                "state": [{"key": "m", "dataFlowType": "INTEGER", "initial": 0}]}}),
            ),
            ("ms", "core:LoopState", inside("M", json!({}))),
            ("mw", "wait", inside("M", json!({"ms": 3}))),
            ("ma", "add", inside("M", json!({}))),
            ("mn", "core:LoopNext", inside("M", json!({}))),
            ("la", "add", inside("L", json!({}))),
            ("ln", "core:LoopNext", inside("L", json!({}))),
            ("lo", "core:GroupOutput", inside("L", json!({}))),
        ],
        &[
            "ms.m -> mw.in",
            "mw.out -> ma.in",
            "ma.out -> mn.m",
            "ls.n -> la.in",
            "la.out -> ln.n",
            "M.m -> lo.v",
        ],
        &[("n", "L.n"), ("v", "L.collected.v")],
    );
    check(&workflow, &options());
}

#[test]
fn parallel_passes_that_fail_or_take_their_time() {
    for on_item in ["null", "drop", "fail"] {
        let workflow = flow(
            &[
                ("items", "emit", json!({"v": [1, 2, 3, 4]})),
                (
                    "E",
                    "core:LoopZone",
                    json!({"onError": "skip", "configValues": {"mode": "each", "parallel": 2, "collect": ["v"],
                    "onItemError": on_item}}),
                ),
                ("s", "core:LoopState", inside("E", json!({}))),
                ("w", "wait", inside("E", json!({"ms": 7}))),
                ("f", "fail", inside("E", json!({"on": 3}))),
                ("o", "core:GroupOutput", inside("E", json!({}))),
            ],
            &["items.out -> E.items", "s.item -> w.in", "w.out -> f.in", "f.out -> o.v"],
            &[("v", "E.collected.v")],
        );
        check(&workflow, &options());
    }
}

#[test]
fn streams_between_nodes_and_out_of_zones() {
    let workflow = flow(
        &[
            ("s", "stream", json!({"chunks": ["a", "b", "c"], "ms": 4})),
            ("t", "tap", json!({})),
            ("j", "join", json!({})),
            ("w", "id", json!({})),
            ("r", "stream", json!({"chunks": ["x", "y"], "fail_after": 1, "retry": {"max": 1}})),
            ("k", "join", json!({})),
            zone("Z", json!({"mode": "times", "times": 3})),
            ("zs", "core:LoopState", inside("Z", json!({}))),
            ("zw", "wait", inside("Z", json!({"ms": 5}))),
            ("zo", "core:GroupOutput", inside("Z", json!({}))),
            ("zj", "join", json!({})),
        ],
        &[
            "s.out -> t.in",
            "t.out -> j.in",
            "s.out -> w.in",
            "r.out -> k.in",
            "zs.index -> zw.in",
            "zw.out -> zo.v",
            "Z.stream -> zj.in",
        ],
        &[("j", "j.out"), ("w", "w.out"), ("k", "k.out"), ("z", "zj.out")],
    );
    check(&workflow, &options());
}

#[test]
fn a_zone_that_a_slow_reader_holds_back() {
    let workflow = flow(
        &[
            zone("Z", json!({"mode": "times", "times": 70})),
            ("zs", "core:LoopState", inside("Z", json!({}))),
            ("zo", "core:GroupOutput", inside("Z", json!({}))),
            ("zt", "tap", json!({"ms": 2})),
            ("zj", "join", json!({})),
        ],
        &["zs.index -> zo.v", "Z.stream -> zt.in", "zt.out -> zj.in"],
        &[("z", "zj.out")],
    );
    check(&workflow, &options());
}

#[test]
fn first_come_lazy_inputs_and_nodes_that_cancel_others() {
    let workflow = flow(
        &[
            ("a", "wait", json!({"ms": 5})),
            ("b", "wait", json!({"ms": 9})),
            ("f", "list", json!({"first": true, "cancelRest": true})),
            ("c", "emit", json!({"v": true})),
            ("x", "wait", json!({"ms": 3})),
            ("l", "lazy", json!({})),
            ("z", "wait", json!({"ms": 90})),
            ("k", "cancel", json!({"node": "z"})),
            ("y", "id", json!({})),
        ],
        &[
            "a.out -> f.in",
            "b.out -> f.in",
            "c.out -> l.in",
            "x.out -> l.other",
            "f.out -> k.in",
            "z.out -> y.in",
        ],
        &[("f", "f.out"), ("l", "l.out"), ("y", "y.out")],
    );
    check(&workflow, &options());
}

#[test]
fn stops_of_loops_and_of_the_run() {
    let workflow = flow(
        &[
            zone(
                "L",
                json!({"mode": "times", "times": 9, "state": [{"key": "n", "dataFlowType": "INTEGER", "initial": 0}]}),
            ),
            ("s", "core:LoopState", inside("L", json!({}))),
            ("a", "add", inside("L", json!({}))),
            ("w", "wait", inside("L", json!({"ms": 2}))),
            ("n", "core:LoopNext", inside("L", json!({}))),
            ("q", "fail", inside("L", json!({"on": 3, "onError": "branch"}))),
            ("p", "stop", inside("L", json!({"scope": "loop"}))),
            ("t", "wait", json!({"ms": 4})),
            ("x", "stop", json!({})),
            ("v", "wait", json!({"ms": 50})),
        ],
        &[
            "s.n -> a.in",
            "a.out -> w.in",
            "w.out -> n.n",
            "s.n -> q.in",
            "q.error -> p.in",
            "L.n -> t.in",
            "t.out -> x.in",
        ],
        &[],
    );
    check(&workflow, &options());
}

#[test]
fn containers_with_limits_of_time_and_further_attempts() {
    for (rules, wait) in [
        (json!({"timeoutMs": 30, "retry": {"max": 2, "backoffMs": 5}, "onError": {"default": 1}}), 20),
        (json!({"totalMs": 30, "onError": "skip"}), 20),
        (json!({"retry": {"max": 1, "backoffMs": 5}, "onError": "branch"}), 3),
    ] {
        let mut zone = json!({"configValues": {"mode": "times", "times": 3}});
        for (key, value) in rules.as_object().unwrap() {
            zone[key] = value.clone();
        }
        let workflow = Workflow::from_value(json!({
            "interfaceOutputs": {"a": {"dataFlowType": "WILDCARD"}, "b": {"dataFlowType": "WILDCARD"}},
            "nodes": [
                {"id": "L", "type": "core:LoopZone", "configValues": zone["configValues"], "timeoutMs": zone["timeoutMs"],
                 "totalMs": zone["totalMs"], "retry": zone["retry"], "onError": zone["onError"]},
                {"id": "s", "type": "core:LoopState", "parentNode": "L"},
                {"id": "w", "type": "t:wait", "parentNode": "L", "configValues": {"ms": wait}},
                {"id": "f", "type": "t:fail", "parentNode": "L", "configValues": {"on": if wait == 3 { 1 } else { 99 }}},
                {"id": "o", "type": "core:GroupOutput", "parentNode": "L"},
                {"id": "x", "type": "t:wait", "configValues": {"ms": 25}},
                {"id": "out", "type": "core:GroupOutput"}],
            "edges": [
                {"source": "s", "sourceHandle": "index", "target": "w", "targetHandle": "in"},
                {"source": "w", "sourceHandle": "out", "target": "f", "targetHandle": "in"},
                {"source": "f", "sourceHandle": "out", "target": "o", "targetHandle": "v"},
                {"source": "x", "sourceHandle": "out", "target": "out", "targetHandle": "a"},
                {"source": "L", "sourceHandle": "v", "target": "out", "targetHandle": "b"}]
        }))
        .unwrap();
        check(&workflow, &options());
    }
}

#[test]
fn questions_stay_open_and_answers_are_found() {
    let workflow = flow(
        &[
            ("a", "ask", json!({})),
            ("b", "id", json!({})),
            zone("L", json!({"mode": "times", "times": 2})),
            ("q", "ask", inside("L", json!({}))),
            ("o", "core:GroupOutput", inside("L", json!({}))),
            ("w", "wait", json!({"ms": 3})),
            ("j", "list", json!({})),
        ],
        &["a.out -> b.in", "q.out -> o.v", "b.out -> j.in", "L.v -> j.in", "w.out -> j.in"],
        &[("j", "j.out")],
    );
    check(&workflow, &options());
    let plan = Plan::new(&workflow, &catalog(), &NoWorkflows).unwrap();
    let mut log = Arc::new(Log::default());
    let mut outcome = run(&plan, &log, None, options());
    for (ask, value) in [("L[0]/q", json!(1)), ("a", Value::Null), ("L[1]/q", json!(false))] {
        assert_eq!(outcome.status, RunStatus::Waiting);
        log.answered(ask, &value);
        let length = log.state().events.len();
        let (left, resume) = log.cut(length, true);
        log = left;
        outcome = run(&plan, &log, Some(resume), options());
    }
    assert_eq!(outcome.outputs["j"], json!([null, false, null]));
}

#[test]
fn an_effect_of_unknown_end_is_asked_about_and_never_repeated_alone() {
    let workflow = flow(
        &[("e", "wait", json!({"effect": true, "ms": 10})), ("n", "list", json!({}))],
        &["e.out -> n.in"],
        &[("n", "n.out")],
    );
    let plan = Plan::new(&workflow, &catalog(), &NoWorkflows).unwrap();
    let log = Arc::new(Log::default());
    run(&plan, &log, None, options());
    let started = log.state().events.iter().position(|kept| {
        matches!(kept.event.body, EventBody::NodeStarted { .. })
            && kept.event.place.path.as_deref() == Some("e")
    });
    for (answer, wanted, starts) in [
        (json!({"outcome": "done", "value": 5}), json!([5]), 1),
        (json!("skip"), Value::Null, 1),
        (json!({"outcome": "retry"}), json!([null]), 2),
    ] {
        let (left, resume) = log.cut(started.unwrap() + 1, false);
        let outcome = run(&plan, &left, Some(resume), options());
        assert_eq!(outcome.status, RunStatus::Waiting);
        assert_eq!(outcome.asks[0].ask.to_string(), "e");
        left.answered("e", &answer);
        let length = left.state().events.len();
        let (left, resume) = left.cut(length, false);
        let outcome = run(&plan, &left, Some(resume), options());
        assert_eq!(outcome.outputs.get("n").cloned().unwrap_or_default(), wanted, "{answer}");
        let events = left.state().events.clone();
        let count = events.iter().filter(|kept| {
            matches!(kept.event.body, EventBody::NodeStarted { .. })
                && kept.event.place.path.as_deref() == Some("e")
        });
        assert_eq!(count.count(), starts, "{answer}");
        // The process dies with the second start: the answer was for the first one.
        let last = events.iter().rposition(|kept| {
            matches!(kept.event.body, EventBody::NodeStarted { .. })
                && kept.event.place.path.as_deref() == Some("e")
        });
        let (left, resume) = left.cut(last.unwrap() + 1, false);
        let outcome = run(&plan, &left, Some(resume), options());
        if starts == 2 {
            assert_eq!(outcome.status, RunStatus::Waiting);
            assert_eq!((&*outcome.asks[0].ask, outcome.asks[0].kind), ("e~2", AskKind::Outcome));
        }
    }
}

#[test]
fn a_branch_that_was_known_takes_no_other() {
    let workflow = flow(
        &[
            ("a", "emit", json!({"v": 0})),
            ("i", "if", json!({"cache": true})),
            ("t", "wait", json!({"ms": 5})),
            ("e", "wait", json!({"ms": 5})),
            ("j", "list", json!({})),
        ],
        &["a.out -> i.in", "i.then -> t.in", "i.else -> e.in", "t.out -> j.in", "e.out -> j.in"],
        &[("j", "j.out")],
    );
    let options = RunOptions { cache: Some(Cache::new()), ..options() };
    // Not known yet, then known.
    check(&workflow, &options);
    check(&workflow, &options);
    let plan = Plan::new(&workflow, &catalog(), &NoWorkflows).unwrap();
    let log = Arc::new(Log::default());
    let outcome = run(&plan, &log, None, options);
    assert_eq!(outcome.outputs["j"], json!([0]));
    let state = log.state();
    let cached = state.events.iter().find(|kept| matches!(kept.event.body, EventBody::NodeCached { .. }));
    let cached = serde_json::to_value(&cached.unwrap().event.body).unwrap();
    assert_eq!(cached["data"], json!({"outputs": {"else": 0}}));
}

#[test]
fn a_log_of_an_earlier_version_resumes() {
    let workflow = flow(
        &[
            ("a", "emit", json!({"v": true})),
            ("i", "if", json!({})),
            ("t", "wait", json!({"ms": 5})),
            ("e", "id", json!({})),
            ("s", "stream", json!({"chunks": ["x", "y"], "ms": 4})),
            ("k", "join", json!({})),
            ("d", "fail", json!({"onError": {"default": 7}})),
            ("r", "fail", json!({"times": 1, "retry": {"max": 2, "backoffMs": 10}})),
            zone(
                "L",
                json!({"mode": "times", "times": 6, "state": [{"key": "n", "dataFlowType": "INTEGER", "initial": 0}]}),
            ),
            ("ls", "core:LoopState", inside("L", json!({}))),
            ("lw", "wait", inside("L", json!({"ms": 2}))),
            ("ln", "core:LoopNext", inside("L", json!({}))),
            ("j", "list", json!({})),
            ("q", "ask", json!({"prompt": "sure?"})),
        ],
        &[
            "a.out -> i.in",
            "i.then -> t.in",
            "i.else -> e.in",
            "a.out -> d.in",
            "a.out -> r.in",
            "ls.index -> lw.in",
            "lw.out -> ln.n",
            "s.out -> k.in",
            "t.out -> j.in",
            "d.out -> j.in",
            "r.out -> j.in",
            "L.n -> j.in",
            "k.out -> j.in",
            "j.out -> q.in",
        ],
        &[("j", "j.out"), ("q", "q.out")],
    );
    let plan = Plan::new(&workflow, &catalog(), &NoWorkflows).unwrap_or_else(|error| panic!("{error}"));
    let now = Arc::new(Log::default());
    let wanted = run(&plan, &now, None, options());
    let old = Log::written(weft_harness::old_log("engine", || now.whole()));
    // Members of a checkpoint have no order: it counts that the run resumes from the old one.
    let mut events = now.whole().events;
    events.iter_mut().for_each(|kept| drop_later_members(&mut kept.event.body));
    assert_eq!(old.whole().events, events, "events are written as before, but for what they have more");
    check_log(&plan, &old, &wanted, &options());
}

/// Takes out what events did not have when the old log was written.
fn drop_later_members(body: &mut EventBody) {
    match body {
        EventBody::LoopEntered { state, .. } => *state = None,
        EventBody::LoopIterStarted { item } => *item = None,
        EventBody::LoopIterFinished { values, decision, .. } => {
            values.clear();
            *decision = None;
        }
        _ => {}
    }
}

#[test]
fn a_changed_workflow_is_no_panic() {
    let before = flow(
        &[("a", "wait", json!({"ms": 1})), ("b", "id", json!({}))],
        &["a.out -> b.in"],
        &[("b", "b.out")],
    );
    let after = flow(
        &[("c", "wait", json!({"ms": 1})), ("b", "list", json!({}))],
        &["c.out -> b.in"],
        &[("b", "b.out")],
    );
    let plan = |workflow: &Workflow| Plan::new(workflow, &catalog(), &NoWorkflows).unwrap();
    let log = Arc::new(Log::default());
    run(&plan(&before), &log, None, options());
    let length = log.state().events.len();
    for upto in 1..length {
        let (left, resume) = log.cut(upto, false);
        run(&plan(&after), &left, Some(resume), options());
    }
}

#[test]
fn a_snapshot_fits_plans_that_number_their_parts_alike() {
    let looped = |nodes: &[(&'static str, &'static str, Value)]| {
        let state = json!([{"key": "k", "dataFlowType": "INTEGER", "initial": 0}]);
        let body = [
            zone("L", json!({"mode": "times", "times": 9, "state": state})),
            ("s", "core:LoopState", inside("L", json!({}))),
            ("w", "wait", inside("L", json!({"ms": 1}))),
            ("n", "core:LoopNext", inside("L", json!({}))),
        ];
        let edges = ["s.index -> w.in", "w.out -> n.k"];
        let workflow = flow(&[nodes, &body].concat(), &edges, &[("k", "L.k")]);
        Plan::new(&workflow, &catalog(), &NoWorkflows).unwrap()
    };
    let a = |v: i64| ("a", "emit", json!({"v": v}));
    let b = ("b", "id", json!({}));
    let plan = looped(&[a(1), b.clone()]);
    let log = Arc::new(Log::default());
    run(&plan, &log, None, options());
    let length = log.state().events.len();
    let (left, resume) = log.cut(length - 1, true);
    let (_, snapshot) = resume.snapshot.clone().unwrap();
    for (other, fits) in [
        (looped(&[a(1), b.clone()]), true),
        (looped(&[a(2), b.clone()]), true),
        (looped(&[b.clone(), a(1)]), false),
        (looped(&[a(1)]), false),
    ] {
        assert_eq!(other.fits(&snapshot), fits);
    }
    assert!(!plan.fits("{}") && !plan.fits("x"));
    // A subscriber that lags is notified.
    let refused = run(&looped(&[a(1)]), &left, Some(resume), options());
    assert_eq!(kind(&refused), Some(("bad_snapshot".to_owned(), None)));
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 150, ..ProptestConfig::default() })]

    #[test]
    fn any_graph_cut_anywhere(graph in prop::collection::vec(drawn(), 1..12)) {
        check(&build(&graph).0, &options());
    }
}
