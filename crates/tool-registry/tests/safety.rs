//! Reserved names, and calls that go wrong: each ends in an outcome, and the others continue.
//! A test is named after the threat that it answers.
#![expect(
    clippy::unwrap_used,
    clippy::panic,
    reason = "a wrong case may panic, and some tools are there to do so"
)]

mod common;

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Condvar, Mutex};
use std::time::Duration;

use agent_types::{
    Budget, BudgetLimits, CallId, Clock, EventLocation, Recorder, RunId, SystemClock, Timestamp, VirtualClock,
};
use futures::Stream;
use serde_json::{Map, json};
use tool_registry::{
    CallEnd, Dep, Selection, Services, Snapshot, TaskBoard, TaskState, Tool, ToolContext, ToolOutput,
    ToolSettings, stuck_threads, tool, tools,
};

fn context(clock: Arc<dyn Clock>, tool: &Tool) -> ToolContext {
    let sink = Recorder::new(RunId::new("r"), Arc::clone(&clock));
    let budget = Budget::new(BudgetLimits::default());
    ToolContext::new(CallId::new("c"), tool.id().clone(), clock, budget, sink, EventLocation::default())
}

/// Moves time whenever everybody waits for it.
async fn pass(clock: &VirtualClock) {
    loop {
        for _ in 0..20 {
            tokio::task::yield_now().await;
        }
        clock.advance_to_next();
    }
}

async fn in_virtual_time<T>(clock: &VirtualClock, work: impl Future<Output = T>) -> T {
    tokio::select! {
        biased;
        done = work => done,
        () = pass(clock) => unreachable!("time never ends"),
    }
}

#[test]
fn s35_unlisted_tools_are_unknown() {
    let all =
        Snapshot::new(["read_page", "read_pages", "write_page"].map(|id| common::described(id, "Echoes.")))
            .unwrap();
    let mine = Selection::new(["read_page", "write_page", "gone"]).hide(["write_page"]).from(&all);
    assert_eq!(mine.tools.tools().map(|tool| tool.id().as_str()).collect::<Vec<_>>(), ["read_page"]);
    assert_eq!(mine.unknown.len(), 1);
    let unresolved = mine.tools.unresolved("read_pages");
    assert_eq!(unresolved.near.unwrap().as_str(), "read_page", "only from what is allowed");
    assert_eq!(mine.tools.ranked("write_page"), ["read_page"]);
}

/// Says when it is dropped.
struct DropFlag(Arc<AtomicBool>);

impl Drop for DropFlag {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

/// Sleeps for ever.
#[tool(timeout = "5s")]
async fn hang(dropped: Dep<AtomicBoolFlag>, cx: &ToolContext) -> i64 {
    let _flag = DropFlag(Arc::clone(&dropped.0));
    loop {
        cx.clock.sleep(Duration::from_hours(1)).await;
    }
}

struct AtomicBoolFlag(Arc<AtomicBool>);

/// Answers.
#[tool]
async fn answer() -> i64 {
    42
}

#[tokio::test]
async fn s43_a_tool_that_hangs_is_given_up_and_dropped() {
    let [hang, answer] = tools![hang, answer].map(Result::unwrap);
    let clock = VirtualClock::new(Timestamp::default());
    let dropped = Arc::new(AtomicBool::new(false));
    let services = Services::new().with(Arc::new(AtomicBoolFlag(Arc::clone(&dropped))));
    let shared: Arc<dyn Clock> = Arc::new(clock.clone());
    let hanging = hang.invoke(Map::new(), context(Arc::clone(&shared), &hang).with_services(services));
    let answering = answer.invoke(Map::new(), context(shared, &answer));
    let (hung, answered) = in_virtual_time(&clock, async { futures::join!(hanging, answering) }).await;
    assert_eq!(hung.end, CallEnd::TimedOut { limit: Duration::from_secs(5) });
    assert_eq!(hung.took, Duration::from_secs(5));
    assert!(dropped.load(Ordering::Relaxed));
    assert_eq!(answered.end, CallEnd::Ok(ToolOutput::Json(json!(42))));
}

/// A door that a thread waits at.
#[derive(Default)]
struct Door(Mutex<bool>, Condvar);

impl Door {
    fn wait(&self) {
        let mut open = self.0.lock().unwrap();
        while !*open {
            open = self.1.wait(open).unwrap();
        }
    }

    fn open(&self) {
        *self.0.lock().unwrap() = true;
        self.1.notify_all();
    }
}

/// Holds its thread.
#[tool(timeout = "100ms")]
fn block(door: Dep<Door>) -> &'static str {
    door.wait();
    "free"
}

#[tokio::test]
async fn s44_a_tool_that_blocks_its_thread_holds_nobody_else() {
    let [block, answer] = tools![block, answer].map(Result::unwrap);
    let door = Arc::new(Door::default());
    // A real thread is blocked, so time is the real one.
    let clock: Arc<dyn Clock> = Arc::new(SystemClock);
    let cx = context(Arc::clone(&clock), &block).with_services(Services::new().with(Arc::clone(&door)));
    let blocking = block.invoke(Map::new(), cx);
    let answering = answer.invoke(Map::new(), context(clock, &answer));
    let (blocked, answered) = futures::join!(blocking, answering);
    assert_eq!(answered.end, CallEnd::Ok(ToolOutput::Json(json!(42))));
    assert_eq!(blocked.end, CallEnd::TimedOut { limit: Duration::from_millis(100) });
    assert_eq!(stuck_threads(), 1, "the thread is counted");
    door.open();
    while stuck_threads() > 0 {
        std::thread::yield_now();
    }
}

/// Panics in one of several ways.
#[tool]
fn explode(how: String, shared: Dep<Mutex<i64>>) -> i64 {
    let _guard = shared.lock();
    match how.as_str() {
        "str" => panic!("boom"),
        "string" => panic!("boom {}", how.len()),
        _ => std::panic::panic_any(3),
    }
}

/// Panics while it is dropped.
#[tool(timeout = "1s")]
async fn slam(cx: &ToolContext) -> i64 {
    struct Slam;
    impl Drop for Slam {
        fn drop(&mut self) {
            panic!("slammed");
        }
    }
    let _slam = Slam;
    cx.clock.sleep(Duration::from_hours(1)).await;
    1
}

#[tokio::test]
async fn s45_a_panic_is_the_outcome_of_its_call() {
    let [explode, answer] = tools![explode, answer].map(Result::unwrap);
    let clock: Arc<dyn Clock> = Arc::new(SystemClock);
    let services = Services::new().with(Arc::new(Mutex::new(1_i64)));
    for (how, message) in [("str", "boom"), ("string", "boom 6"), ("other", "")] {
        let arguments = json!({"how": how}).as_object().unwrap().clone();
        let cx = context(Arc::clone(&clock), &explode).with_services(services.clone());
        let exploding = explode.invoke(arguments, cx);
        let answering = answer.invoke(Map::new(), context(Arc::clone(&clock), &answer));
        let (exploded, answered) = futures::join!(exploding, answering);
        assert_eq!(exploded.end, CallEnd::Panicked { message: message.into() }, "no place, no backtrace");
        assert_eq!(answered.end, CallEnd::Ok(ToolOutput::Json(json!(42))));
    }
}

#[tokio::test]
async fn s45_a_panic_while_a_call_is_given_up_changes_nothing() {
    let [slam] = tools![slam].map(Result::unwrap);
    let clock = VirtualClock::new(Timestamp::default());
    let call = slam.invoke(Map::new(), context(Arc::new(clock.clone()), &slam));
    let end = in_virtual_time(&clock, call).await.end;
    assert_eq!(end, CallEnd::TimedOut { limit: Duration::from_secs(1) });
}

/// Gives a gigabyte in pieces.
#[tool]
fn flood() -> impl Stream<Item = String> {
    let piece = "x".repeat(64 * 1024);
    futures::stream::iter(std::iter::repeat_n(piece, 16 * 1024))
}

#[tokio::test]
async fn s46_a_flood_is_read_up_to_its_limit() {
    let [flood] = tools![flood].map(Result::unwrap);
    let CallEnd::Ok(output) = flood.invoke(Map::new(), context(Arc::new(SystemClock), &flood)).await.end
    else {
        unreachable!("it answers")
    };
    let text = output.into_text();
    assert!(text.len() < 1_200_000, "{} bytes", text.len());
    assert!(text.ends_with("(more than a call may give; the rest was not read)"));
}

#[tokio::test]
async fn calls_beyond_the_room_of_a_tool_wait_within_their_time() {
    let clock = VirtualClock::new(Timestamp::default());
    let [hang] = tools![hang].map(Result::unwrap);
    let hang =
        hang.with_settings(ToolSettings::default().with_timeout(Duration::from_secs(5)).with_concurrency(1));
    let flag = || Services::new().with(Arc::new(AtomicBoolFlag(Arc::default())));
    let shared: Arc<dyn Clock> = Arc::new(clock.clone());
    let call = || hang.invoke(Map::new(), context(Arc::clone(&shared), &hang).with_services(flag()));
    let both = async { futures::join!(call(), call()) };
    let (first, second) = in_virtual_time(&clock, both).await;
    assert_eq!(first.end, CallEnd::TimedOut { limit: Duration::from_secs(5) });
    assert_eq!(second.took, Duration::from_secs(5), "waiting counts");
}

/// Counts slowly.
#[tool(long_running)]
async fn count(to: u64, cx: &ToolContext) -> u64 {
    for n in 1..=to {
        cx.clock.sleep(Duration::from_mins(1)).await;
        cx.chunk(format!("{n} "));
    }
    to
}

#[tokio::test]
async fn long_work_answers_at_once_and_is_read_later() {
    let [count] = tools![count].map(Result::unwrap);
    let clock = VirtualClock::new(Timestamp::default());
    let board = TaskBoard::new();
    let services = Services::new().with(Arc::new(board.clone()));
    let shared: Arc<dyn Clock> = Arc::new(clock.clone());
    let call = |to: u64, services: Services| {
        let arguments = json!({"to": to}).as_object().unwrap().clone();
        let mut cx = context(Arc::clone(&shared), &count).with_services(services);
        cx.call = CallId::new(format!("c{to}"));
        count.invoke(arguments, cx)
    };
    let end = call(3, services.clone()).await.end;
    assert_eq!(end, CallEnd::Ok(ToolOutput::Json(json!({"task": "task-c3", "state": "running"}))));
    assert_eq!(board.status("task-c3").unwrap().state, TaskState::Running);
    in_virtual_time(&clock, async {
        while board.status("task-c3").unwrap().bytes < 4 {
            tokio::task::yield_now().await;
        }
    })
    .await;
    let part = board.read("task-c3", 2, 2).unwrap();
    assert_eq!((part.text.as_str(), part.next, part.result), ("2 ", 4, None));
    in_virtual_time(&clock, async {
        while !board.open().is_empty() {
            tokio::task::yield_now().await;
        }
    })
    .await;
    let part = board.read("task-c3", 4, 100).unwrap();
    assert_eq!((part.state, part.text.as_str(), part.result), (TaskState::Done, "3 ", Some(json!(3))));

    let _ = call(1000, services).await;
    assert_eq!(board.cancel("task-c1000"), Some(TaskState::Running));
    while !board.open().is_empty() {
        tokio::task::yield_now().await;
    }
    assert_eq!(board.status("task-c1000").unwrap().state, TaskState::Cancelled);
    assert_eq!(board.status("task-c4"), None);
    let CallEnd::Failed(error) = call(1, Services::new()).await.end else { unreachable!("nobody keeps it") };
    assert_eq!(error.message_for_model, "long work is not possible here");
}
