//! A run that is interrupted after any of its events resumes to the same end, and repeats no effect.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

use agent_types::{
    Durable, EventPersister, EventSink, ExitReason, KeepError, ResumeLog, RunId, StoredEvent, Timestamp,
    TraceEvent, UnsequencedEvent,
};
use async_trait::async_trait;
use executors_flow_system::{
    Entry, Handled, MemorySessions, Resume, Session, SessionError, SessionState, SessionStore, Swap,
    TurnContext, UserMessage,
};
use serde_json::{Value, json};
use weft_harness::old_log;

use crate::common::{Setup, Stub, World};

/// Keeps so many events; then the process is dead, and nothing more is kept.
#[derive(Debug)]
struct Log {
    run: RunId,
    kept: Mutex<Vec<StoredEvent>>,
    limit: usize,
    spans: AtomicU64,
    dead: AtomicBool,
}

impl Log {
    fn new(kept: Vec<StoredEvent>, limit: usize) -> Arc<Self> {
        let dead = AtomicBool::new(false);
        Arc::new(Self { run: RunId::new("r"), kept: Mutex::new(kept), limit, spans: AtomicU64::new(1), dead })
    }

    fn is_dead(&self) -> bool {
        self.dead.load(Ordering::SeqCst)
    }

    fn kept(&self) -> Vec<StoredEvent> {
        self.kept.lock().unwrap().clone()
    }
}

impl EventSink for Log {
    fn record(&self, drafts: &mut Vec<UnsequencedEvent>) {
        let mut kept = self.kept.lock().unwrap();
        for draft in drafts.drain(..) {
            if kept.len() >= self.limit {
                self.dead.store(true, Ordering::SeqCst);
                return;
            }
            let seq = kept.len() as u64 + 1;
            let event = TraceEvent::new(self.run.clone(), seq, Timestamp::default(), draft.place, draft.body);
            kept.push(StoredEvent { event, record: draft.record.map(|record| *record) });
        }
    }

    fn new_span(&self) -> u64 {
        self.spans.fetch_add(1, Ordering::SeqCst)
    }

    fn run(&self) -> &RunId {
        &self.run
    }

    fn persister(&self) -> Option<&dyn EventPersister> {
        Some(self)
    }
}

impl EventPersister for Log {
    fn durable(&self) -> Durable {
        if self.is_dead() { Box::pin(std::future::pending()) } else { Box::pin(std::future::ready(Ok(()))) }
    }

    fn is_behind(&self) -> bool {
        false
    }

    fn fault(&self) -> Option<KeepError> {
        None
    }

    fn snapshot(&self, _: String) {}

    fn answered(&self, _: &str, _: &Value) {}
}

/// Sessions of a process that may be dead.
#[derive(Debug)]
struct Mortal {
    sessions: Arc<MemorySessions>,
    log: Arc<Log>,
}

impl Mortal {
    async fn alive(&self) {
        if self.log.is_dead() {
            std::future::pending::<()>().await;
        }
    }
}

#[async_trait]
impl SessionStore for Mortal {
    async fn load(&self, session: &str) -> Result<Session, SessionError> {
        self.sessions.load(session).await
    }

    async fn swap(
        &self,
        session: &str,
        expected: &SessionState,
        state: &SessionState,
    ) -> Result<Swap, SessionError> {
        self.alive().await;
        self.sessions.swap(session, expected, state).await
    }

    async fn append(&self, session: &str, exchanges: &[Entry]) -> Result<(), SessionError> {
        self.alive().await;
        self.sessions.append(session, exchanges).await
    }

    async fn list(&self) -> Result<Vec<(String, SessionState)>, SessionError> {
        self.sessions.list().await
    }
}

fn file(stub: &Stub) -> Value {
    let post = |path: &str| json!({"url": stub.url(path), "method": "POST"});
    json!({
        "flows": [{"flow_id": "leave", "trigger_patterns": ["leave"], "endpoint": post("/leave")}],
        "system_actions": [
            {"action_id": "before", "handler": "update_profile", "when": "before_turn", "endpoint": post("/before")},
            {"action_id": "human", "handler": "handoff", "trigger_patterns": ["person"], "endpoint": post("/handoff")},
            {"action_id": "after", "handler": "update_profile", "when": "after_turn", "endpoint": post("/after")}]})
}

fn world(stub: &Stub, store: Arc<dyn SessionStore>) -> World {
    let mut setup = Setup::new(file(stub)).with(stub).says(&["Hi."]);
    setup.store = store;
    setup.build()
}

fn names(kept: &[StoredEvent]) -> Vec<String> {
    kept.iter().map(|kept| kept.event.body.name().to_owned()).collect()
}

/// Interrupts the run of a message after `limit` events, and resumes it. `None` if it ended before.
async fn cut(message: &str, limit: usize) -> Option<(ExitReason, String)> {
    let stub = Stub::new(&[(200, json!({"id": 7}))]).await;
    let sessions = MemorySessions::new();
    let log = Log::new(Vec::new(), limit);
    let first = world(&stub, Arc::new(Mortal { sessions: Arc::clone(&sessions), log: Arc::clone(&log) }));
    {
        let entered = first.orchestrator.enter("s").await.unwrap();
        let handling = entered.handle(UserMessage::new(message), TurnContext::new(Arc::clone(&log) as _));
        let death = async {
            while !log.is_dead() {
                tokio::task::yield_now().await;
            }
        };
        tokio::select! {
            biased;
            () = death => {}
            handled = handling => {
                handled.unwrap();
                if !log.is_dead() {
                    return None;
                }
            }
        }
    }
    let past = log.kept();
    let log = Log::new(past.clone(), usize::MAX);
    let again = world(&stub, sessions);
    let resume = Resume { log: ResumeLog { events: past.clone(), ..ResumeLog::default() }, before: 0 };
    let cx = TurnContext::new(Arc::clone(&log) as _).resuming(Some(resume));
    let handled =
        again.orchestrator.enter("s").await.unwrap().handle(UserMessage::new(message), cx).await.unwrap();

    let mut asked: BTreeMap<String, usize> = BTreeMap::new();
    for path in stub.paths() {
        *asked.entry(path).or_default() += 1;
    }
    assert!(asked.values().all(|times| *times == 1), "{message} cut at {limit}: {asked:?}");
    let all = names(&log.kept());
    for once in
        ["run.started", "run.finished", "flow.matched", "flow.finished", "system.handed_off", "agent.message"]
    {
        let times = all.iter().filter(|name| *name == once).count();
        assert!(times <= 1, "{message} cut at {limit}: {once} {times} times in {all:?}");
    }
    assert_eq!(all.last().map(String::as_str), Some("run.finished"));
    let heard = again.heard("s").await;
    assert!(heard.len() <= 1, "{message} cut at {limit}: {heard:?}");
    Some((handled.exit, format!("{:?}", names(&past).last())))
}

/// Log of a message of a session.
async fn logged(message: &str) -> Vec<StoredEvent> {
    let stub = Stub::new(&[(200, json!({"id": 7}))]).await;
    let log = Log::new(Vec::new(), usize::MAX);
    let entered = world(&stub, MemorySessions::new()).orchestrator.enter("s").await.unwrap();
    entered.handle(UserMessage::new(message), TurnContext::new(Arc::clone(&log) as _)).await.unwrap();
    log.kept()
}

#[tokio::test]
async fn a_log_of_an_earlier_version_resumes() {
    for message in ["leave", "person", "hello"] {
        let now = logged(message).await;
        let old = old_log(&format!("session-{message}"), || ResumeLog {
            events: now.clone(),
            ..ResumeLog::default()
        });
        assert_eq!(names(&old.events), names(&now));
        for upto in 1..old.events.len() {
            let stub = Stub::new(&[(200, json!({"id": 7}))]).await;
            let past = old.events[..upto].to_vec();
            let log = Log::new(past.clone(), usize::MAX);
            let resume = Resume { log: ResumeLog { events: past, ..ResumeLog::default() }, before: 0 };
            let context = TurnContext::new(Arc::clone(&log) as _).resuming(Some(resume));
            let again = world(&stub, MemorySessions::new());
            let entered = again.orchestrator.enter("s").await.unwrap();
            entered.handle(UserMessage::new(message), context).await.unwrap();
            let mut all = names(&log.kept());
            let finished = all.pop();
            assert_eq!(finished.as_deref(), Some("run.finished"), "{message} cut at {upto}: {all:?}");
            let own = |names: &[String]| -> Vec<String> {
                names
                    .iter()
                    .filter(|name| name.starts_with("flow.") || name.starts_with("system."))
                    .cloned()
                    .collect()
            };
            assert_eq!(own(&all), own(&names(&now)), "{message} cut at {upto}");
        }
    }
}

#[tokio::test]
async fn every_cut_comes_to_an_end() {
    let mut rows = Vec::new();
    for message in ["leave", "person", "hello"] {
        let mut limit = 1;
        while let Some((exit, last)) = cut(message, limit).await {
            rows.push(format!("{message}, cut behind {last}: {exit}"));
            limit += 1;
        }
    }
    insta::assert_snapshot!(rows.join("\n"));
}

/// Handles a message in processes that die after so many further events each; the last one lives.
async fn cut_often(message: &str, cuts: &[usize]) -> (Handled, SessionState, Vec<String>, Vec<StoredEvent>) {
    let stub = Stub::new(&[(200, json!({"id": 7}))]).await;
    let (sessions, mut past) = (MemorySessions::new(), Vec::new());
    for limit in cuts.iter().copied().map(Some).chain([None]) {
        let limit = limit.map_or(usize::MAX, |more| past.len() + more);
        let log = Log::new(past.clone(), limit);
        let store = Mortal { sessions: Arc::clone(&sessions), log: Arc::clone(&log) };
        let world = world(&stub, Arc::new(store));
        let resume = Resume { log: ResumeLog { events: past, ..ResumeLog::default() }, before: 0 };
        let cx = TurnContext::new(Arc::clone(&log) as _).resuming(Some(resume));
        let entered = world.orchestrator.enter("s").await.unwrap();
        let death = async {
            while !log.is_dead() {
                tokio::task::yield_now().await;
            }
        };
        let handled = tokio::select! {
            biased;
            () = death => None,
            handled = entered.handle(UserMessage::new(message), cx) => Some(handled.unwrap()),
        };
        past = log.kept();
        if let Some(handled) = handled.filter(|_| !log.is_dead()) {
            let state = sessions.load("s").await.unwrap().state;
            return (handled, state, stub.paths(), past);
        }
    }
    unreachable!("the last process lives")
}

#[tokio::test]
async fn n01_a_message_that_is_cut_often_ends_as_one_that_is_not() {
    for message in ["leave", "person", "hello"] {
        let (whole, state, mut paths, log) = cut_often(message, &[]).await;
        paths.sort();
        for first in (1..log.len()).step_by(2) {
            for second in (1..log.len()).step_by(3) {
                let cuts = [first, second, 1 + (first + second) % 3];
                let (handled, cut_state, mut cut_paths, events) = cut_often(message, &cuts).await;
                cut_paths.sort();
                let mut once = cut_paths.clone();
                once.dedup();
                assert_eq!(cut_paths, once, "{message} cut at {cuts:?}");
                let ends = names(&events).iter().filter(|name| *name == "run.finished").count();
                assert_eq!(ends, 1, "{message} cut at {cuts:?}");
                let text = serde_json::to_string(&events.iter().map(|kept| &kept.event).collect::<Vec<_>>());
                // An effect that was interrupted is not repeated, and says so.
                if text.unwrap().contains("its outcome is unknown") {
                    continue;
                }
                assert_eq!(cut_paths, paths, "{message} cut at {cuts:?}");
                assert_eq!(
                    (handled.exit, &handled.text),
                    (whole.exit, &whole.text),
                    "{message} cut at {cuts:?}"
                );
                assert_eq!(cut_state.profile(), state.profile(), "{message} cut at {cuts:?}");
            }
        }
    }
}
