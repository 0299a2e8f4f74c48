//! A loop of nodes that is cut anywhere resumes to the same end, and does nothing twice.

use std::sync::Arc;

use agent_nodes::LlmNodeConfig;
use agent_runtime::ApprovalMode;
use agent_runtime::requests::{RequestPlace, RequestReader};
use agent_types::{
    EventBody, EventSink, ResumeLog, RunId, RunStatus, StoredEvent, SystemClock, UnsequencedEvent,
};
use run_store::{NewRun, Store, StoredRun};
use serde_json::{Value, json};
use weft_harness::{Cut, Cuts, old_log, replies};
use workflow_engine::RunOutcome;

use crate::common::{World, block, plan};
use crate::loops::agent_loop;

fn script() -> Vec<Value> {
    vec![
        json!({"text": "I look. <ACTION><say><say>a</say></say><say><say>b</say></say></ACTION>"}),
        block("<wrong/>"),
        json!({"text": "<ACTION><say><say>c</say></say><pay><say>x</say></pay></ACTION>", "usage": {"input": 5, "output": 7}}),
        json!({"text": "All is done."}),
    ]
}

fn go(world: &World, run: &Arc<StoredRun>, log: Option<ResumeLog>) -> RunOutcome {
    let mut options = world.options().with_sink(Arc::clone(run) as Arc<dyn EventSink>);
    options.resume = log.map(Box::new);
    let inputs = json!({"query": "pay x"}).as_object().cloned().unwrap_or_default();
    let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
    runtime.block_on(async {
        let outcome = plan(&agent_loop()).run(inputs, options).outcome().await;
        run.close().await.unwrap();
        outcome
    })
}

#[test]
fn the_log_has_the_request_of_each_node() {
    let store = Store::memory().unwrap();
    let run = store.begin(NewRun::new(RunId::new("r")), Arc::new(SystemClock)).unwrap();
    let world = world(0);
    go(&world, &run, None);
    let mut events = store.events(&RunId::new("r"), 0, usize::MAX).unwrap();
    store.put_values_back(&mut events).unwrap();
    let started = events.iter().filter(|kept| kept.event.body.name() == "agent.llm.started");
    let paths: Vec<String> =
        started.map(|kept| kept.event.place.path.as_deref().unwrap().to_owned()).collect();
    let sent = world.model.requests.lock().unwrap();
    assert_eq!((paths.len(), sent.len()), (4, 4));
    for (path, request) in paths.into_iter().zip(&*sent) {
        let place = RequestPlace { path: Some(path), turn: 1, ..RequestPlace::default() };
        let mut reader = RequestReader::new(place);
        events.iter().for_each(|kept| {
            if reader.needs(kept) {
                reader.add(kept);
            }
        });
        let recorded = Value::Object(reader.finish().unwrap().request);
        assert_eq!(recorded, serde_json::to_value(request).unwrap());
    }
}

fn world(skip: usize) -> World {
    let mut world = World::new(&script()[skip..]);
    let surroundings = LlmNodeConfig { approval: ApprovalMode::All, ..LlmNodeConfig::in_memory() };
    world.services = world.services.with(Arc::new(surroundings));
    world
}

#[test]
fn cut_anywhere_it_comes_to_the_same_end_and_pays_once() {
    let clock = || Arc::new(SystemClock);
    let store = Store::memory().unwrap();
    let whole = store.begin(NewRun::new(RunId::new("whole")), clock()).unwrap();
    let wanted = go(&world(0), &whole, None);
    assert_eq!(
        (wanted.status, &wanted.outputs["answer"]),
        (RunStatus::Ok, &json!("All is done.")),
        "{wanted:#?}"
    );
    drop(whole);
    resume_every_cut(&store, "whole", &wanted);
    // The same of a log that an earlier version wrote.
    let old = old_log("nodes", || store.log(&RunId::new("whole"), u64::MAX).unwrap());
    let stored = store.begin(NewRun::new(RunId::new("old")), clock()).unwrap();
    let drafts = old.events.into_iter().map(|StoredEvent { event, record }| UnsequencedEvent {
        place: event.place,
        body: event.body,
        record: record.map(Box::new),
    });
    stored.record(&mut drafts.collect());
    tokio::runtime::Builder::new_current_thread().build().unwrap().block_on(stored.close()).unwrap();
    drop(stored);
    resume_every_cut(&store, "old", &wanted);
}

fn resume_every_cut(store: &Store, run: &str, wanted: &RunOutcome) {
    let clock = || Arc::new(SystemClock);
    for Cut { upto, id: run, run: stored, log } in Cuts::new(store, run) {
        let began = |tool: &str| {
            log.events.iter().any(|kept| matches!(&kept.event.body, EventBody::AgentToolStarted { tool: own } if own.as_str() == tool))
        };
        let (paid, skip) = (began("pay"), replies(&log));
        let first = world(skip);
        let mut outcome = go(&first, &stored, Some(log));
        drop(stored);
        let mut pays = first.calls().iter().filter(|(tool, _)| tool == "pay").count();
        if outcome.status == RunStatus::Waiting {
            assert!(paid && outcome.asks.len() == 1, "cut at {upto}: {:?}", outcome.asks);
            let ask = outcome.asks[0].ask.to_string();
            store.answer(&run, &ask, &json!({"outcome": "done", "value": "x"})).unwrap();
            let (stored, log) = store.resume(&run, clock()).unwrap();
            let skip = replies(&log);
            let second = world(skip);
            outcome = go(&second, &stored, Some(log));
            pays += second.calls().iter().filter(|(tool, _)| tool == "pay").count();
        }
        assert_eq!(
            (outcome.status, &outcome.outputs),
            (wanted.status, &wanted.outputs),
            "cut at {upto}: {outcome:#?}"
        );
        assert!(pays <= usize::from(!paid), "cut at {upto}: paid twice");
        let events = store.events(&run, 0, usize::MAX).unwrap();
        assert!(events.iter().zip(1..).all(|(kept, seq)| kept.event.seq == seq));
        let count = |name: &str| events.iter().filter(|kept| kept.event.body.name() == name).count();
        assert_eq!(count("agent.tool.started"), count("agent.tool.finished"), "cut at {upto}");
        assert_eq!(count("agent.llm.finished"), 4, "cut at {upto}: nothing is asked twice");
        assert_eq!((count("agent.observation"), count("run.finished")), (5, 1), "cut at {upto}");
    }
}
