//! Both backends keep the same promises.
#![expect(clippy::unwrap_used, reason = "helpers of tests: a wrong case may panic")]

use std::collections::HashMap;
use std::path::Path;
use std::sync::Arc;

use agent_types::{
    AskKind, AskSummary, Delivery, EventBody, EventLocation, EventPersister, EventSink, ReplayData, RunId,
    RunStatus, SystemClock, Timestamp, UnsequencedEvent, VirtualClock,
};
use futures::FutureExt;
use run_store::{
    Backend, Memory, MemoryIndex, NewRun, Passage, RunFilter, RunPhase, Sqlite, Store, StoreError,
    StoreOptions, StoredRun, Sync, TextIndex,
};
use serde_json::{Value, json};

fn stores(options: &StoreOptions) -> Vec<(Store, Option<tempfile::TempDir>)> {
    let folder = tempfile::tempdir().unwrap();
    let file = open(folder.path());
    vec![
        (Store::new(Arc::new(Memory::default()), options.clone()).unwrap(), None),
        (Store::new(Arc::new(file), options.clone()).unwrap(), Some(folder)),
    ]
}

fn open(folder: &Path) -> Sqlite {
    Sqlite::open(&folder.join("weft.db"), Sync::Normal).unwrap()
}

fn clock() -> Arc<SystemClock> {
    Arc::new(SystemClock)
}

fn begin(store: &Store, id: &str) -> Arc<StoredRun> {
    let new = NewRun { workflow: Some("w".to_owned()), ..NewRun::new(RunId::new(id)) };
    let run = store.begin(new, clock()).unwrap();
    emit(&run, EventBody::RunStarted { agent: None, workflow: None, message: None, inputs: None });
    run
}

fn emit(run: &StoredRun, body: EventBody) {
    run.record(&mut vec![UnsequencedEvent::new(EventLocation::default(), body)]);
}

fn finished(path: &str, value: Value, record: Option<ReplayData>) -> UnsequencedEvent {
    let place = EventLocation { path: Some(path.into()), span: 3, ..EventLocation::default() };
    let body = EventBody::node_finished(Some(Arc::new(value)));
    UnsequencedEvent { place, body, record: record.map(Box::new) }
}

fn ended(status: RunStatus) -> EventBody {
    EventBody::RunFinished { status, exit: None, kind: None, partial: None, message: None }
}

#[test]
fn what_was_recorded_is_read_back_with_large_values_in_place() {
    for (store, _folder) in stores(&StoreOptions::default()) {
        let run = begin(&store, "r");
        let large: Value = "x".repeat(5000).into();
        let record = ReplayData {
            values: vec![("b".into(), Arc::new(large.clone()))],
            how: Some("stop".into()),
            usage: None,
        };
        // As deep as values may be; its event and its line are deeper.
        let deep = (0..127).fold(Value::Null, |inner, _| json!([inner]));
        let others = [("c".into(), Arc::new(large.clone())), ("d".into(), Arc::new(deep.clone()))];
        let mut several = finished("s", 4.into(), None);
        if let EventBody::NodeFinished { outputs, .. } = &mut several.body {
            *outputs = Some(Arc::new(others.into()));
        }
        let looks_like_a_blob = json!({"$blob": "no", "bytes": 1});
        run.record(&mut vec![
            finished("a", large.clone(), Some(record.clone())),
            finished("b", looks_like_a_blob.clone(), None),
            finished("n", Value::Null, None),
            several.clone(),
        ]);
        let id = RunId::new("r");
        store.flush().unwrap();
        let events = store.events(&id, 0, 100).unwrap();
        let value = serde_json::to_value(&events[1].event).unwrap();
        assert_eq!(value["data"]["value"]["bytes"], 5002);
        let sha = value["data"]["value"]["$blob"].as_str().unwrap();
        assert_eq!(store.blob(sha).unwrap().unwrap().len(), 5002);
        let value = serde_json::to_value(&events[4].event).unwrap();
        assert_eq!(value["data"]["outputs"], json!({"c": {"$blob": sha, "bytes": 5002}, "d": deep}));
        drop(run);
        let (_run, log) = store.resume(&id, clock()).unwrap();
        let values: Vec<Value> = log
            .events
            .iter()
            .filter_map(|kept| match &kept.event.body {
                EventBody::NodeFinished { value, .. } => Some((**value.as_ref().unwrap()).clone()),
                _ => None,
            })
            .collect();
        assert_eq!(values, [large, looks_like_a_blob, Value::Null, 4.into()]);
        assert_eq!(log.events[4].event.body, several.body);
        assert_eq!(log.events[1].record.as_ref(), Some(&record));
        assert_eq!(log.events.iter().map(|kept| kept.event.seq).collect::<Vec<_>>(), [1, 2, 3, 4, 5]);
    }
}

#[test]
fn an_effect_waits_for_a_commit_where_something_is_left_to_go_on_with() {
    for (store, folder) in stores(&StoreOptions::default()) {
        let run = begin(&store, "r");
        let safe = run.durable();
        if folder.is_some() {
            futures::executor::block_on(safe).unwrap();
            assert_eq!(store.known(run.run()).unwrap().last_seq, 1);
        } else {
            assert!(matches!(safe.now_or_never(), Some(Ok(()))));
        }
    }
}

#[test]
fn a_run_that_is_left_takes_nothing_more_and_goes_on_later() {
    for (store, _folder) in stores(&StoreOptions::default()) {
        let run = begin(&store, "r");
        run.leave();
        emit(&run, ended(RunStatus::Cancelled));
        run.snapshot("state".to_owned());
        drop(run);
        assert_eq!(store.known(&RunId::new("r")).unwrap().state.phase, RunPhase::Running);
        let (again, log) = store.resume(&RunId::new("r"), clock()).unwrap();
        assert_eq!((log.events.len(), log.snapshot), (1, None));
        emit(&again, ended(RunStatus::Ok));
        drop(again);
        assert_eq!(store.known(&RunId::new("r")).unwrap().last_seq, 2);
    }
}

#[test]
fn a_run_is_interrupted_only_where_it_has_no_end_and_no_process_executes_it() {
    for (store, _folder) in stores(&StoreOptions::default()) {
        let interrupted = |id: &str| store.is_interrupted(&RunId::new(id)).unwrap();
        let [left, ended_run] = ["left", "ended"].map(|id| begin(&store, id));
        let before = store.runs(&RunFilter::default()).unwrap();
        assert!(before.iter().all(|record| record.state.phase == RunPhase::Running));
        assert!(!interrupted("left") && !interrupted("ended"));
        emit(&ended_run, ended(RunStatus::Ok));
        drop((left, ended_run));
        // What was read before its end does not count.
        assert!(interrupted("left") && !interrupted("ended") && !interrupted("unknown"));
    }
}

#[test]
fn a_run_is_worked_on_by_one_at_a_time_and_goes_on_with_its_numbers() {
    for (store, _folder) in stores(&StoreOptions::default()) {
        let run = begin(&store, "r");
        let id = RunId::new("r");
        assert_eq!(store.resume(&id, clock()).unwrap_err().code(), "run_busy");
        assert!(store.is_at_work(&id));
        let span = run.new_span();
        emit(&run, EventBody::AgentThinking {});
        drop(run);
        let (run, _) = store.resume(&id, clock()).unwrap();
        assert_eq!(run.last_seq(), 2);
        assert!(run.new_span() > span);
        emit(&run, ended(RunStatus::Ok));
        drop(run);
        assert_eq!(store.resume(&id, clock()).unwrap_err().code(), "run_ended");
        assert_eq!(store.resume(&RunId::new("x"), clock()).unwrap_err().code(), "unknown_run");
        assert_eq!(store.known(&id).unwrap().state.phase, RunPhase::Ok);
    }
}

#[test]
fn runs_are_listed_newest_first_and_removed_with_all_they_had() {
    for (store, _folder) in stores(&StoreOptions::default()) {
        for id in ["a", "b", "c"] {
            let run = begin(&store, id);
            run.record(&mut vec![finished("n", "y".repeat(3000).into(), None)]);
            if id == "b" {
                emit(&run, ended(RunStatus::Error));
            }
        }
        let ids = |filter: &RunFilter| -> Vec<String> {
            store.runs(filter).unwrap().iter().map(|record| record.new.run.to_string()).collect()
        };
        assert_eq!(ids(&RunFilter::default()), ["c", "b", "a"]);
        let failed = RunFilter { phase: Some(RunPhase::Error), ..RunFilter::default() };
        assert_eq!(ids(&failed), ["b"]);
        assert_eq!(ids(&RunFilter { limit: Some(1), ..RunFilter::default() }), ["c"]);
        let events = store.events(&RunId::new("a"), 1, 9).unwrap();
        let sha = serde_json::to_value(&events[0].event).unwrap()["data"]["value"]["$blob"].clone();
        store.remove(&RunId::new("a")).unwrap();
        store.remove(&RunId::new("c")).unwrap();
        assert!(store.blob(sha.as_str().unwrap()).unwrap().is_some(), "b still has the value");
        store.remove(&RunId::new("b")).unwrap();
        assert_eq!(store.footprint().unwrap().runs, 0);
    }
}

#[test]
fn questions_stay_open_until_they_are_answered() {
    for (store, _folder) in stores(&StoreOptions::default()) {
        let run = begin(&store, "r");
        let id = RunId::new("r");
        let asks = ["p", "q"].map(|ask| AskSummary {
            kind: AskKind::Outcome,
            ask: ask.into(),
            tool: None,
            arguments: None,
            path: Some(ask.into()),
            prompt: Some("?".to_owned()),
            definition: agent_types::DefinitionDigests::new(),
        });
        emit(&run, EventBody::RunWaiting { exit: None, asks: asks.to_vec() });
        drop(run);
        assert_eq!(store.known(&id).unwrap().state.phase, RunPhase::Waiting);
        assert_eq!(store.answer(&id, "x", &json!(1)).unwrap_err().code(), "unknown_ask");
        let unfit = store.answer(&id, "q", &Value::Null).unwrap_err();
        assert_eq!((unfit.code(), store.asks(&id).unwrap()[1].answer.is_none()), ("unfit_answer", true));
        store.answer(&id, "q", &json!("skip")).unwrap();
        assert_eq!(store.answer(&id, "q", &json!(1)).unwrap_err().code(), "unknown_ask");
        let open: Vec<_> =
            store.asks(&id).unwrap().iter().map(|ask| ask.answer.clone().map(|(value, _)| value)).collect();
        assert_eq!(open, [None, Some(json!("skip"))]);
        let (_run, log) = store.resume(&id, clock()).unwrap();
        assert_eq!(log.answers, HashMap::from([("q".to_owned(), json!("skip"))]));
    }
}

#[test]
fn a_fork_begins_with_the_events_up_to_the_cut_and_other_values() {
    for (store, _folder) in stores(&StoreOptions::default()) {
        let run = begin(&store, "r");
        run.record(&mut vec![finished("a", json!(1), None), finished("b", json!(2), None)]);
        emit(&run, ended(RunStatus::Ok));
        drop(run);
        let new = NewRun::new(RunId::new("f"));
        let changes = HashMap::from([("a".to_owned(), json!(9))]);
        let (fork, log) = store.fork(&RunId::new("r"), new, 2, &changes, |_| true, clock()).unwrap();
        assert_eq!((log.events.len(), fork.last_seq()), (2, 2));
        drop(fork);
        let (_fork, again) = store.resume(&RunId::new("f"), clock()).unwrap();
        assert_eq!(again.events, log.events);
        let value = serde_json::to_value(&again.events[1].event).unwrap();
        assert_eq!((&value["run"], &value["data"]["value"]), (&json!("f"), &json!(9)));
        assert_eq!(store.known(&RunId::new("f")).unwrap().new.parent, Some(RunId::new("r")));
    }
}

#[test]
fn a_fork_changes_what_stands_before_a_snapshot_too() {
    for (store, _folder) in stores(&StoreOptions::default()) {
        let (id, run) = (RunId::new("r"), begin(&store, "r"));
        run.record(&mut vec![finished("first", json!(1), None)]);
        run.snapshot("state".to_owned());
        run.record(&mut vec![finished("second", json!(2), None), finished("third", json!(3), None)]);
        emit(&run, ended(RunStatus::Ok));
        drop(run);
        let fork = |run: &str, upto: Option<u64>, changed: &[&str]| {
            let changes: HashMap<String, Value> =
                changed.iter().map(|path| ((*path).to_owned(), json!(9))).collect();
            let upto = store.place_to_fork(&id, upto, &changes)?;
            let (_, log) =
                store.fork(&id, NewRun::new(RunId::new(run)), upto, &changes, |_| true, clock())?;
            Ok::<_, StoreError>((upto, log.snapshot.is_some(), log.events.len()))
        };
        assert_eq!(fork("1", None, &[]).unwrap(), (4, true, 2), "nothing changes before it");
        assert_eq!(fork("2", None, &["second"]).unwrap(), (3, true, 1));
        assert_eq!(fork("3", None, &["second", "first"]).unwrap(), (3, false, 3));
        assert_eq!(fork("4", Some(4), &["first"]).unwrap(), (4, false, 4));
        let early = fork("5", Some(2), &["first", "second"]).unwrap_err();
        let wrong = fork("6", None, &["secnd"]).unwrap_err();
        assert_eq!((early.code(), wrong.code()), ("unknown_node", "unknown_node"));
        assert!(
            early.to_string().ends_with("no node `second` has ended in the run `r` up to there"),
            "{early}"
        );
        assert!(wrong.to_string().ends_with("did you mean `second`?"), "{wrong}");
    }
}

#[test]
fn secrets_are_neither_kept_nor_shown() {
    let options = StoreOptions { secrets: vec!["S3CR3T-1".to_owned()], ..StoreOptions::default() };
    for (store, _folder) in stores(&options) {
        let run = begin(&store, "r");
        let mut subscriber = run.subscribe(10);
        let long = format!("{}S3CR3T-1", "z".repeat(4000));
        run.record(&mut vec![finished("a", "key S3CR3T-1!".into(), None), finished("b", long.into(), None)]);
        store.flush().unwrap();
        let mut text = String::new();
        while let Some(Delivery::Events(batch)) = subscriber.try_next() {
            text.push_str(&serde_json::to_string(&batch[..]).unwrap());
        }
        for kept in store.events(&RunId::new("r"), 0, 9).unwrap() {
            text.push_str(&serde_json::to_string(&kept.event).unwrap());
        }
        let sha = store.events(&RunId::new("r"), 2, 9).unwrap();
        let sha = serde_json::to_value(&sha[0].event).unwrap()["data"]["value"]["$blob"].clone();
        let blob = store.blob(sha.as_str().unwrap()).unwrap().unwrap();
        text.push_str(&String::from_utf8(blob).unwrap());
        assert!(text.contains("key ***!") && !text.contains("S3CR3T"), "{text}");
    }
}

#[test]
fn old_events_go_when_a_snapshot_stands_for_them() {
    let options = StoreOptions { log_bytes: 20_000, ..StoreOptions::default() };
    for (store, _folder) in stores(&options) {
        let run = begin(&store, "r");
        let id = RunId::new("r");
        for round in 0..50 {
            for _ in 0..20 {
                run.record(&mut vec![finished("n", round.into(), None)]);
            }
            run.snapshot(format!("state {round}"));
        }
        let record = store.known(&id).unwrap();
        assert_eq!(record.last_seq, 1001);
        // A row goes as a whole: of up to 256 events.
        assert!(record.first_seq > 600, "{}", record.first_seq);
        assert_eq!(store.events(&id, 0, 1).unwrap()[0].event.seq, record.first_seq);
        drop(run);
        let (_run, log) = store.resume(&id, clock()).unwrap();
        assert_eq!(log.snapshot, Some((1001, "state 49".to_owned())));
        assert_eq!(log.events, []);
    }
}

#[test]
fn the_log_of_a_run_of_an_earlier_version_is_trimmed() {
    let folder = tempfile::tempdir().unwrap();
    let options = StoreOptions { log_bytes: 20_000, ..StoreOptions::default() };
    let store = || Store::new(Arc::new(open(folder.path())), options.clone()).unwrap();
    let fill = |run: &StoredRun| {
        for number in 0..40 {
            run.record(&mut (0..20).map(|_| finished("n", number.into(), None)).collect());
        }
        run.snapshot("state".to_owned());
    };
    drop(begin(&store(), "r"));
    rusqlite::Connection::open(folder.path().join("weft.db"))
        .unwrap()
        .execute_batch("UPDATE runs SET log_bytes = NULL")
        .unwrap();
    let first = |rounds: usize| {
        let store = store();
        let (run, _) = store.resume(&RunId::new("r"), clock()).unwrap();
        (0..rounds).for_each(|_| fill(&run));
        drop(run);
        let record = store.known(&RunId::new("r")).unwrap();
        (record.first_seq, record.last_seq)
    };
    // Once something went, the size is known.
    for (rounds, last) in [(1, 801), (2, 2401)] {
        let (first, found) = first(rounds);
        assert_eq!(found, last);
        assert!(first > last - 400 && first < last, "{first} of {last}");
    }
}

#[test]
fn threads_and_named_values_last() {
    for (store, _folder) in stores(&StoreOptions::default()) {
        store.add_messages("t", &[json!("a"), json!("b")]);
        store.add_messages("t", &[json!("c")]);
        store.add_messages("u", &[json!("d")]);
        assert_eq!(store.messages("t").unwrap(), [json!("a"), json!("b"), json!("c")]);
        store.cut_thread("t", 2);
        store.add_messages("t", &[json!("e")]);
        assert_eq!(store.messages("t").unwrap(), [json!("a"), json!("b"), json!("e")]);
        store.cut_thread("t", 0);
        assert_eq!(store.messages("t").unwrap(), [] as [Value; 0]);
        store.put("k", Some(&json!({"x": 1})));
        assert_eq!(store.value("k").unwrap(), Some(json!({"x": 1})));
        store.put("k", None);
        assert_eq!(store.value("k").unwrap(), None);
        for key in ["s/b", "s/a", "s", "t/a", "s/\u{10FFFE}"] {
            store.put(key, Some(&key.into()));
        }
        let found = store.values("s/").unwrap();
        let keys: Vec<&str> = found.iter().map(|(key, _)| key.as_str()).collect();
        assert_eq!(keys, ["s/a", "s/b", "s/\u{10FFFE}"]);
    }
}

#[test]
fn nothing_comes_between_reading_and_writing_a_named_value() {
    let add = |old: Option<Value>| Ok::<_, String>(json!(old.map_or(0, |old| old.as_i64().unwrap()) + 1));
    for (store, folder) in stores(&StoreOptions::default()) {
        // Two stores of one file stand for two processes.
        let other = match &folder {
            Some(folder) => Store::new(Arc::new(open(folder.path())), StoreOptions::default()).unwrap(),
            None => store.clone(),
        };
        std::thread::scope(|scope| {
            for store in [&store, &other, &store] {
                scope.spawn(move || (0..20).for_each(|_| drop(store.update("n", add).unwrap().unwrap())));
            }
        });
        assert_eq!(store.value("n").unwrap(), Some(json!(60)));
        let refused = store.update("n", |_| Err("no")).unwrap();
        assert_eq!(refused, Err("no"));
        let panicked = store.update("n", |_| -> Result<Value, String> { panic!("oh") });
        assert!(panicked.unwrap_err().to_string().contains("panicked"));
        assert_eq!(other.value("n").unwrap(), Some(json!(60)), "it stays as it was, and the writer lives");
    }
}

#[test]
fn time_that_goes_back_changes_no_order() {
    let folder = tempfile::tempdir().unwrap();
    let store = Store::new(Arc::new(open(folder.path())), StoreOptions::default()).unwrap();
    let at = |millis| Arc::new(VirtualClock::new(Timestamp::from_millis(millis)));
    let run = store.begin(NewRun::new(RunId::new("r")), at(5_000_000)).unwrap();
    emit(&run, EventBody::AgentThinking {});
    drop(run);
    let (run, _) = store.resume(&RunId::new("r"), at(1_000)).unwrap();
    emit(&run, EventBody::RunQueued { place: None });
    store.flush().unwrap();
    let events = store.events(&RunId::new("r"), 0, 9).unwrap();
    let seen: Vec<_> = events.iter().map(|kept| (kept.event.seq, kept.event.body.name())).collect();
    assert_eq!(seen, [(1, "agent.thinking"), (2, "run.queued")]);
}

#[test]
fn a_file_that_cannot_be_used_says_why() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("weft.db");
    std::fs::write(&path, "this is no database, and it is long enough to be looked at as one").unwrap();
    assert_eq!(Sqlite::open(&path, Sync::Full).unwrap_err().code(), "store_corrupt");
    std::fs::remove_file(&path).unwrap();
    drop(open(folder.path()));
    let db = rusqlite::Connection::open(&path).unwrap();
    db.pragma_update(None, "user_version", 1000).unwrap();
    drop(db);
    let error = Sqlite::open(&path, Sync::Full).unwrap_err();
    assert!(matches!(error, StoreError::Newer { found: 1000, .. }), "{error}");
    assert!(!error.hint().is_empty());
}

#[test]
fn a_damaged_page_is_reported_and_other_runs_are_still_read() {
    let folder = tempfile::tempdir().unwrap();
    let store = Store::new(Arc::new(open(folder.path())), StoreOptions::default()).unwrap();
    for id in ["a", "b"] {
        let run = begin(&store, id);
        for _ in 0..200 {
            run.record(&mut vec![finished("n", "v".repeat(1500).into(), None)]);
            store.flush().unwrap();
        }
    }
    drop(store);
    let path = folder.path().join("weft.db");
    let db = rusqlite::Connection::open(&path).unwrap();
    db.execute_batch("PRAGMA wal_checkpoint(TRUNCATE)").unwrap();
    drop(db);
    let mut bytes = std::fs::read(&path).unwrap();
    // A page in the middle of what belongs to the second run.
    let at = bytes.len() * 4 / 5 / 4096 * 4096;
    bytes[at..at + 4096].fill(0xAA);
    std::fs::write(&path, bytes).unwrap();
    let store = Store::new(Arc::new(open(folder.path())), StoreOptions::default()).unwrap();
    assert_eq!(store.events(&RunId::new("a"), 0, 1000).unwrap().len(), 201);
    assert_eq!(store.events(&RunId::new("b"), 0, 1000).unwrap_err().code(), "store_corrupt");
}

#[test]
fn a_full_disk_ends_the_run_and_loses_nothing_that_was_acknowledged() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("weft.db");
    let file = Arc::new(open(folder.path()));
    // A limit on pages is what a full disk looks like to the database.
    file.limit_pages(60).unwrap();
    let store = Store::new(Arc::clone(&file) as Arc<dyn Backend>, StoreOptions::default()).unwrap();
    let run = begin(&store, "r");
    let mut subscriber = run.subscribe(100_000);
    let mut acknowledged = 1;
    let error = loop {
        run.record(&mut vec![finished("n", "v".repeat(1900).into(), None)]);
        match futures::executor::block_on(run.durable()) {
            Ok(()) => acknowledged = run.last_seq(),
            Err(error) => break error,
        }
    };
    assert_eq!(error.code, "store_full");
    assert_eq!(run.fault().unwrap().code, "store_full");
    assert!(acknowledged > 10);
    let mut seen = 1;
    while let Some(Delivery::Events(batch)) = subscriber.try_next() {
        seen = batch.last().unwrap().seq;
    }
    assert_eq!(seen, acknowledged, "only what is safe was shown");
    // A run whose beginning cannot be kept keeps nothing, also where there is room again for its events.
    let plan = Value::from("p".repeat(100_000));
    let late = store.begin(NewRun { plan, ..NewRun::new(RunId::new("late")) }, clock()).unwrap();
    assert_eq!(futures::executor::block_on(late.durable()).unwrap_err().code, "store_full");
    file.limit_pages(6000).unwrap();
    emit(&late, ended(RunStatus::Ok));
    assert_eq!(futures::executor::block_on(late.durable()).unwrap_err().code, "store_full");
    drop((late, run, store, file));
    let store =
        Store::new(Arc::new(Sqlite::open(&path, Sync::Full).unwrap()), StoreOptions::default()).unwrap();
    assert_eq!(store.known(&RunId::new("late")).unwrap_err().code(), "unknown_run");
    assert_eq!(store.events(&RunId::new("r"), 0, usize::MAX).unwrap().len() as u64, acknowledged);
    let (run, _) = store.resume(&RunId::new("r"), clock()).unwrap();
    emit(&run, ended(RunStatus::Ok));
    assert_eq!(store.known(&RunId::new("r")).unwrap().state.phase, RunPhase::Ok);
}

/// A small file system of its own, where this process may mount one.
#[cfg(target_os = "linux")]
struct SmallDisk(tempfile::TempDir);

#[cfg(target_os = "linux")]
impl SmallDisk {
    fn mount(size: &str) -> Option<Self> {
        let folder = tempfile::tempdir().unwrap();
        let mut mount = std::process::Command::new("mount");
        mount.args(["-t", "tmpfs", "-o", &format!("size={size}"), "weft-test"]).arg(folder.path());
        mount.output().is_ok_and(|done| done.status.success()).then_some(Self(folder))
    }

    /// Writes until nothing more fits.
    fn fill(&self) {
        use std::io::Write;
        let mut file = std::fs::File::create(self.0.path().join("others")).unwrap();
        for size in [1 << 16, 1 << 12, 1] {
            while file.write_all(&vec![1; size]).is_ok() {}
        }
    }
}

#[cfg(target_os = "linux")]
impl Drop for SmallDisk {
    fn drop(&mut self) {
        let unmounted = std::process::Command::new("umount").arg("-l").arg(self.0.path()).status();
        assert!(unmounted.is_ok_and(|status| status.success()), "{} stays mounted", self.0.path().display());
    }
}

#[cfg(target_os = "linux")]
#[test]
fn n21_runs_are_removed_on_a_disk_that_is_really_full() {
    let Some(disk) = SmallDisk::mount("12m") else {
        eprintln!("SKIPPED: this process may not mount a file system, so that no disk can be full");
        return;
    };
    let path = disk.0.path().join("weft.db");
    let open =
        || Store::new(Arc::new(Sqlite::open(&path, Sync::Full).unwrap()), StoreOptions::default()).unwrap();
    let store = open();
    let runs: Vec<RunId> = (0..40).map(|at| RunId::new(format!("r{at}"))).collect();
    for id in &runs {
        let run = begin(&store, id.as_str());
        let large = || finished("n", "v".repeat(1900).into(), None);
        run.record(&mut (0..60).map(|_| large()).collect());
        emit(&run, ended(RunStatus::Ok));
        futures::executor::block_on(run.durable()).unwrap();
    }
    disk.fill();
    let full = begin(&store, "full");
    // The write-ahead log has room of its own, which is used up first.
    let error = loop {
        full.record(&mut (0..400).map(|_| finished("n", "v".repeat(1900).into(), None)).collect());
        if let Err(error) = futures::executor::block_on(full.durable()) {
            break error;
        }
    };
    assert_eq!(error.code, "store_full");
    drop(full);
    // Two processes remove side by side.
    let other = open();
    std::thread::scope(|scope| {
        for (store, runs) in [(&store, &runs[..20]), (&other, &runs[20..])] {
            scope.spawn(move || runs.iter().for_each(|run| store.remove(run).unwrap()));
        }
    });
    assert!(store.runs(&RunFilter::default()).unwrap().iter().all(|run| !runs.contains(&run.new.run)));
    // What was removed is room for others.
    let run = begin(&store, "next");
    futures::executor::block_on(run.durable()).unwrap();
}

#[test]
fn passages_are_found_by_words_and_by_pairs_of_letters() {
    let folder = tempfile::tempdir().unwrap();
    let file = open(folder.path());
    let other = file.index("other").unwrap();
    other.replace(vec![Passage { source: "x".into(), text: "sick leave 病假".into() }]);
    let passages: Vec<Passage> = [
        ("leave.md", "Annual leave must be asked for two weeks ahead. 年假须提前两周申请。"),
        ("sick.md", "Sick leave needs a note from the third day on. 病假超过三天须交证明。"),
        ("pay.md", "Salaries (AND \"bonuses\") are paid on the last day of the month."),
    ]
    .map(|(source, text)| Passage { source: source.into(), text: text.into() })
    .into();
    let (sqlite, memory) = (file.index("kb").unwrap(), MemoryIndex::new(passages.clone()));
    for _ in 0..2 {
        sqlite.try_replace(&passages).unwrap();
    }
    for query in ["sick leave", "病假", "年假怎么申请", "  ,;", "\"AND\" bonuses*", "NEAR(pay", "假"]
    {
        let sources = |index: &dyn TextIndex| -> Vec<String> {
            index.search(query, 5).into_iter().map(|hit| hit.passage.source).collect()
        };
        assert_eq!(sources(&sqlite), sources(&memory), "{query}");
    }
    assert_eq!(sqlite.try_search("sick leave", 1).unwrap()[0].passage.source, "sick.md");
}

#[test]
fn an_older_file_is_brought_up_to_date() {
    let folder = tempfile::tempdir().unwrap();
    drop(open(folder.path()));
    let path = folder.path().join("weft.db");
    let db = rusqlite::Connection::open(&path).unwrap();
    db.execute_batch(
        "DROP TABLE passages; DROP TABLE passage_terms; ALTER TABLE runs DROP COLUMN log_bytes;
         PRAGMA user_version = 1;",
    )
    .unwrap();
    drop(db);
    open(folder.path()).index("kb").unwrap().try_replace(&[]).unwrap();
}

#[cfg(unix)]
#[test]
fn a_read_only_folder_is_reported() {
    let file = tempfile::NamedTempFile::new().unwrap();
    // No folder can be made below a file, not even by root.
    let error = Sqlite::open(&file.path().join("sub").join("weft.db"), Sync::Full).unwrap_err();
    assert!(matches!(error, StoreError::Io { .. } | StoreError::ReadOnly { .. }), "{error:?}");
    assert!(error.to_string().contains("sub"));
}

/// Keeps log lines of this process.
struct Lines(std::sync::Mutex<Vec<(std::time::Instant, String)>>);

static LINES: Lines = Lines(std::sync::Mutex::new(Vec::new()));

impl log::Log for Lines {
    fn enabled(&self, _: &log::Metadata<'_>) -> bool {
        true
    }

    fn log(&self, record: &log::Record<'_>) {
        self.0.lock().unwrap().push((std::time::Instant::now(), record.args().to_string()));
    }

    fn flush(&self) {}
}

#[test]
fn a_locked_store_is_reported_within_a_second_and_waited_for() {
    let _ = log::set_logger(&LINES);
    log::set_max_level(log::LevelFilter::Warn);
    let folder = tempfile::tempdir().unwrap();
    let store = Store::new(Arc::new(open(folder.path())), StoreOptions::default()).unwrap();
    let run = begin(&store, "r");
    store.flush().unwrap();
    let other = rusqlite::Connection::open(folder.path().join("weft.db")).unwrap();
    other.execute_batch("BEGIN IMMEDIATE").unwrap();
    let began = std::time::Instant::now();
    emit(&run, ended(RunStatus::Ok));
    let holder = std::thread::spawn(move || {
        std::thread::sleep(std::time::Duration::from_millis(1_500));
        other.execute_batch("COMMIT").unwrap();
    });
    futures::executor::block_on(run.durable()).unwrap();
    holder.join().unwrap();
    assert!(began.elapsed() >= std::time::Duration::from_millis(1_400), "it waited");
    assert_eq!(store.known(&RunId::new("r")).unwrap().state.phase, RunPhase::Ok);
    let lines = LINES.0.lock().unwrap();
    let (at, _) =
        lines.iter().find(|(_, line)| line.contains("locked") && line.contains("up to 30 s")).unwrap();
    assert!(at.duration_since(began) < std::time::Duration::from_secs(1));
}

#[test]
fn n17_the_newest_run_is_the_one_that_the_store_took_last() {
    let at = |millis| Arc::new(VirtualClock::new(Timestamp::from_millis(millis)));
    for (store, _folder) in stores(&StoreOptions::default()) {
        for (id, millis) in [("first", 9_000), ("second", 1_000)] {
            drop(store.begin(NewRun::new(RunId::new(id)), at(millis)).unwrap());
        }
        let newest = store.runs(&RunFilter { limit: Some(1), ..RunFilter::default() }).unwrap();
        assert_eq!(newest[0].new.run, RunId::new("second"));
    }
}
