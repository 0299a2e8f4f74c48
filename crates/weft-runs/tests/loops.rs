//! Records of loops: read from the log of a run, page by page.
#![expect(clippy::unwrap_used, reason = "a test may stop at the first surprise")]

use std::sync::Arc;
use std::time::Instant;

use agent_types::{
    CallId, EventBody, EventLocation, EventSink, LoopEnd, NodeErrorKind, PassDecision, ReplayData, RunId,
    SystemClock, ToolStatus, UnsequencedEvent, Usage,
};
use run_store::{NewRun, Store, StoredRun};
use serde_json::{Value, json};
use weft_runs::{LoopEntry, LoopReader, PassRecord};

fn begin(store: &Store) -> Arc<StoredRun> {
    store.begin(NewRun::new(RunId::new("r")), Arc::new(SystemClock)).unwrap()
}

fn at(path: &str, iteration: Option<u64>) -> EventLocation {
    EventLocation { path: Some(path.into()), iteration, ..EventLocation::default() }
}

fn emit(run: &StoredRun, place: EventLocation, body: EventBody) {
    run.record(&mut vec![UnsequencedEvent::new(place, body)]);
}

fn entered(mode: &str, state: &Value) -> EventBody {
    let state = state.as_object().unwrap().clone().into_iter();
    let state = state.map(|(key, value)| (key.into(), Arc::new(value))).collect();
    EventBody::LoopEntered { mode: mode.into(), state: Some(Arc::new(state)) }
}

fn left(key: &str, value: Value, decision: PassDecision) -> EventBody {
    EventBody::LoopIterFinished {
        changed: vec![key.into()],
        values: vec![Arc::new(value)],
        decision: Some(decision),
    }
}

/// All records, read in pages of a size; each page by a reader that its cursor made.
fn pages(store: &Store, limit: usize) -> Vec<LoopEntry> {
    let (mut all, mut reader) = (Vec::new(), LoopReader::default());
    loop {
        let page = reader.read(store, &RunId::new("r"), limit, |_| true).unwrap();
        all.extend(page.entries);
        if page.is_last {
            return all;
        }
        reader = LoopReader::from_cursor(&reader.cursor()).unwrap();
    }
}

fn passes(entries: &[LoopEntry]) -> Vec<&PassRecord> {
    entries
        .iter()
        .filter_map(|entry| if let LoopEntry::Pass(pass) = entry { Some(pass) } else { None })
        .collect()
}

#[test]
fn a_pass_has_what_it_began_with_did_and_decided() {
    let store = Store::memory().unwrap();
    let run = begin(&store);
    let long = "x".repeat(5000);
    emit(&run, at("Z", None), entered("until", &json!({"n": 0, "text": long})));
    emit(&run, at("Z", Some(0)), EventBody::LoopIterStarted { item: Some(Arc::new(json!("first"))) });
    let tool: agent_types::ToolId = "search".parse().unwrap();
    let call = EventLocation { call: Some(CallId::new("c1")), ..at("Z[0]/exec", Some(0)) };
    emit(&run, call.clone(), EventBody::AgentToolStarted { tool: tool.clone() });
    // A node of the workflow that the tool is: no node of the pass.
    let inside = EventLocation { call: Some(CallId::new("c1")), ..at("Z[0]/exec", Some(0)) };
    emit(&run, inside, EventBody::node_finished(None));
    let summary = "y".repeat(3000);
    let body = EventBody::AgentToolFinished {
        tool,
        status: ToolStatus::Ok,
        summary,
        blob: None,
        ms: 7,
        error: None,
    };
    emit(&run, call, body);
    let record = ReplayData { usage: Some(Usage::new(10, 5)), ..ReplayData::default() };
    run.record(&mut vec![UnsequencedEvent {
        place: at("Z[0]/exec", Some(0)),
        body: EventBody::node_finished(Some(Arc::new(json!(1)))),
        record: Some(Box::new(record)),
    }]);
    let failed = EventBody::NodeFailed {
        kind: NodeErrorKind::Failed,
        message: "no".to_owned(),
        limit_ms: None,
        attempts: None,
        detached: None,
    };
    emit(&run, at("Z[0]/b", Some(0)), failed);
    emit(&run, at("Z", Some(0)), left("n", json!(1), PassDecision::Condition));
    emit(&run, at("Z", None), EventBody::LoopExited { passes: 1, why: LoopEnd::Condition });
    emit(&run, at("Y", None), entered("times", &json!({})));
    emit(&run, at("Y", Some(0)), EventBody::LoopIterStarted { item: None });
    store.flush().unwrap();

    let entries = pages(&store, 100);
    let [LoopEntry::Pass(pass), LoopEntry::Loop(own), LoopEntry::Pass(open)] = &entries[..] else {
        panic!("{entries:#?}");
    };
    assert_eq!((&*pass.r#loop, pass.pass, pass.nodes), ("Z", 0, 2));
    assert_eq!(pass.item, Some(json!("first")));
    assert_eq!(pass.before["n"], 0);
    assert_eq!(pass.before["text"]["bytes"], 5002, "a blob by its name");
    assert_eq!(pass.after.as_ref().unwrap()["n"], 1);
    assert_eq!((&pass.changed[..], pass.decision), (&["n".to_owned()][..], Some(PassDecision::Condition)));
    assert_eq!((pass.calls.len(), pass.calls[0].ms, &*pass.calls[0].tool), (1, Some(7), "search"));
    assert!(pass.calls[0].observation.as_ref().unwrap().len() < 500, "in short");
    assert_eq!(pass.failures[0].message, "no");
    assert_eq!(pass.usage, Some(Usage::new(10, 5)));
    assert!(pass.ms.is_some());
    assert_eq!((own.passes, own.why, own.usage), (1, LoopEnd::Condition, Some(Usage::new(10, 5))));
    assert_eq!((&own.before["n"], &own.after["n"]), (&json!(0), &json!(1)));
    assert_eq!((&*open.r#loop, open.ms, open.decision), ("Y", None, None), "open where the log ends");
}

#[test]
fn tokens_of_a_loop_inside_a_pass_are_those_of_the_pass_as_well() {
    let store = Store::memory().unwrap();
    let run = begin(&store);
    emit(&run, at("Z", None), entered("times", &json!({})));
    emit(&run, at("Z", Some(0)), EventBody::LoopIterStarted { item: None });
    emit(&run, at("Z[0]/I", None), entered("times", &json!({"k": 0})));
    for number in 0..2 {
        emit(&run, at("Z[0]/I", Some(number)), EventBody::LoopIterStarted { item: None });
        let usage = Usage { cost_micros: 40, ..Usage::new(3, 1) };
        let record = ReplayData { usage: Some(usage), ..ReplayData::default() };
        run.record(&mut vec![UnsequencedEvent {
            place: at(&format!("Z[0]/I[{number}]/a"), Some(number)),
            body: EventBody::node_finished(None),
            record: Some(Box::new(record)),
        }]);
        emit(&run, at("Z[0]/I", Some(number)), left("k", json!(number), PassDecision::Next));
    }
    emit(&run, at("Z[0]/I", None), EventBody::LoopExited { passes: 2, why: LoopEnd::Times });
    emit(&run, at("Z", Some(0)), left("x", json!(1), PassDecision::Next));
    store.flush().unwrap();
    let entries = pages(&store, 2);
    let own = passes(&entries);
    assert_eq!(own.iter().map(|pass| &*pass.r#loop).collect::<Vec<_>>(), ["Z[0]/I", "Z[0]/I", "Z"]);
    assert_eq!(own[2].usage, Some(Usage { cost_micros: 80, ..Usage::new(6, 2) }));
    assert_eq!(own[2].nodes, 2);
}

#[test]
fn a_hundred_thousand_passes_are_read_page_by_page() {
    const PASSES: u64 = 100_000;
    let store = Store::memory().unwrap();
    let run = begin(&store);
    emit(&run, at("Z", None), entered("times", &json!({"n": 0})));
    for number in 0..PASSES {
        emit(&run, at("Z", Some(number)), EventBody::LoopIterStarted { item: None });
        emit(&run, at("Z", Some(number)), left("n", json!(number + 1), PassDecision::Next));
    }
    emit(&run, at("Z", None), EventBody::LoopExited { passes: PASSES, why: LoopEnd::Times });
    store.flush().unwrap();
    let begun = Instant::now();
    let entries = pages(&store, 500);
    let read = passes(&entries);
    assert_eq!((read.len() as u64, entries.len() as u64), (PASSES, PASSES + 1));
    for (number, pass) in (0..).zip(read) {
        assert_eq!((pass.pass, &pass.before["n"]), (number, &json!(number)));
        assert_eq!(pass.after.as_ref().unwrap()["n"], number + 1);
    }
    assert!(begun.elapsed().as_secs() < 60, "each page goes on where the one before it ended");
}

#[test]
fn a_cursor_stays_short_however_much_is_open() {
    let store = Store::memory().unwrap();
    let run = begin(&store);
    emit(&run, at("Z", None), entered("each", &json!({"text": "x".repeat(300)})));
    for number in 0..100 {
        emit(&run, at("Z", Some(number)), EventBody::LoopIterStarted { item: None });
    }
    store.flush().unwrap();
    for number in 0..100 {
        emit(&run, at("Z", Some(number)), left("text", json!(number), PassDecision::Next));
        store.flush().unwrap();
    }
    let mut reader = LoopReader::default();
    reader.read(&store, &RunId::new("r"), 1, |_| true).unwrap();
    assert!(reader.cursor().len() < 10_000);
    let entries = pages(&store, 1);
    let numbers: Vec<u64> = passes(&entries).iter().map(|pass| pass.pass).collect();
    assert_eq!(numbers, (0..100).collect::<Vec<u64>>(), "each once");
}
