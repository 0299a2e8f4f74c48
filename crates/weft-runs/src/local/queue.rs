//! Messages that come while a run of their conversation executes: queued in order, ahead of the others, or refused.

use std::collections::HashSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use agent_types::{EventBody, EventLocation, ExitReason, RunId, RunStatus, TraceEvent, UnsequencedEvent};
use executors_flow_system::{Author, Handled, Said};
use run_store::StoreError;
use tokio_util::sync::CancellationToken;
use weft_project::Project;

use super::admission::{Admission, note_queued, place};
use super::checks::check_queued;
use super::conversation::{Ahead, Entered, entries, extend, forget_before, open_runs, rank_of};
use super::launch::{Ended, Executed, Launched, Prepared, execute, track};
use super::open::{Opening, StoredAgentRun, begin, new_agent_run, skip_replies};
use super::resume::prepare_resumed;
use super::threads::{Joined, RankClass, ThreadHold, Ticket};
use super::{LocalRuns, events};
use crate::error::RunsError;
use crate::handle::RunHandle;
use crate::outcome::RunOutcome;
use crate::request::{AgentRequest, ThreadName, WhenBusy};
use crate::sink::RunSink;

/// First and longest interval of checks for the run that a parked message waits behind.
const PARKED: (Duration, Duration) = (Duration::from_millis(15), Duration::from_millis(300));

/// Makes the work of a message when its turn has come.
type Prepare = Box<dyn FnOnce(&Arc<Project>, ThreadHold) -> Result<Prepared, RunsError> + Send>;

/// A message that waits for its turn.
struct QueuedMessage {
    sink: RunSink,
    cancel: CancellationToken,
    is_queued: Arc<AtomicBool>,
    /// The text, which is kept, whatever comes of it.
    text: String,
    /// `true` for one that was interrupted.
    is_resumed: bool,
    prepare: Prepare,
}

impl QueuedMessage {
    fn new(sink: RunSink, text: String, cancel: CancellationToken, prepare: Prepare) -> Self {
        let is_queued = Arc::new(AtomicBool::new(true));
        Self { sink, cancel, is_queued, text, is_resumed: false, prepare }
    }
}

/// Holds a conversation for a message, or queues it.
pub(super) async fn join(runs: &LocalRuns, name: &ThreadName, busy: WhenBusy) -> Result<Joined, RunsError> {
    let class = match busy {
        WhenBusy::Reject => return runs.take_thread(name).await.map(Joined::Taken),
        WhenBusy::Queue => RankClass::Queued,
        WhenBusy::Steer => RankClass::Steers,
    };
    let joined = runs.0.threads.join(name, class);
    if busy == WhenBusy::Steer && matches!(joined, Joined::Queued(_)) {
        interrupt_after_call(runs, name);
    }
    Ok(joined)
}

/// Records the run of a message that waits for its turn.
pub(super) async fn begin_queued(
    runs: &LocalRuns,
    mut request: AgentRequest,
    mut ticket: Ticket,
    run: RunId,
) -> Result<RunHandle, RunsError> {
    // Once it is recorded, the queue of its conversation limits how many wait.
    let waiting = place(runs)?;
    let (own, name) = (runs.clone(), ticket.name.clone());
    let record = move |project: &Arc<Project>| {
        check_queued(&own, project, &mut request)?;
        let sink = begin(project, new_agent_run(run, &request.plan, request.thread.clone()))?;
        let rank = recorded_rank(project, &name, sink.sink().run())?;
        Ok((sink, request, rank))
    };
    let (sink, request, recorded) = runs.with_project(record).await?;
    drop(waiting);
    let mut place = ticket.place;
    if let Some((order, before)) = recorded {
        ticket.set_order(order);
        place = before.max(1);
    }
    note_queued(&sink, u64::try_from(place).ok());
    let (own, cancel) = (runs.clone(), CancellationToken::new());
    let text = request.plan.message.clone();
    let run = sink.sink().run().clone();
    let opening = Opening { run, sink: Some(sink.clone()), cancel: cancel.clone() };
    let prepare: Prepare =
        Box::new(move |project, hold| own.prepare_agent(project, request, Some(hold), opening));
    let message = QueuedMessage::new(sink, text, cancel, prepare);
    let mut handle = track_in_turn(runs, message, ticket);
    handle.place = Some(place);
    Ok(handle)
}

/// Place of a run in the order of the store, and the number of runs of its conversation that go before it. It is safe then.
fn recorded_rank(
    project: &Project,
    name: &ThreadName,
    run: &RunId,
) -> Result<Option<(u64, usize)>, StoreError> {
    let Some(store) = project.store()? else { return Ok(None) };
    let own = store.known(run)?;
    let rank = rank_of(&own);
    let before = open_runs(store, name)?.iter().filter(|record| rank_of(record) < rank).count();
    Ok(Some((own.order, before)))
}

fn track_in_turn(runs: &LocalRuns, message: QueuedMessage, ticket: Ticket) -> RunHandle {
    let QueuedMessage { sink, cancel, is_queued, .. } = &message;
    let launched = Launched {
        sink: sink.clone(),
        cancel: cancel.clone(),
        thread: Some(ticket.name.clone()),
        is_queued: Arc::clone(is_queued),
    };
    let own = runs.clone();
    track(runs, launched, async move { execute_in_turn(&own, message, ticket).await })
}

/// Resumes a message that was interrupted, in the order of its conversation.
pub(super) async fn resume_in_turn(
    runs: &LocalRuns,
    name: &ThreadName,
    run: RunId,
) -> Result<RunHandle, RunsError> {
    if runs.0.options.closing.is_cancelled() {
        return Err(RunsError::ShuttingDown);
    }
    let open = move |project: &Arc<Project>| {
        let rank = rank_of(&project.required_store(&run)?.known(&run)?);
        Ok((StoredAgentRun::open(project, &run)?, rank))
    };
    let (stored, rank) = runs.with_project(open).await?;
    let ticket = runs.0.threads.enqueue(name, rank);
    let (own, cancel) = (runs.clone(), CancellationToken::new());
    let (sink, text, token) = (stored.sink.clone(), stored.plan.message.clone(), cancel.clone());
    let prepare: Prepare = Box::new(move |project, hold| {
        let project = own.for_one_run(project)?;
        let open = stored.with_history(&project, &own.0.threads)?;
        skip_replies(&project, open.log.as_ref());
        own.skip_conversation(&project, &open);
        prepare_resumed(&own, project, open, Some(hold), token)
    });
    let message = QueuedMessage { is_resumed: true, ..QueuedMessage::new(sink, text, cancel, prepare) };
    Ok(track_in_turn(runs, message, ticket))
}

/// Waits for the turn of a message, and executes its run.
async fn execute_in_turn(runs: &LocalRuns, message: QueuedMessage, ticket: Ticket) -> Executed {
    let QueuedMessage { sink, cancel, is_queued, text, is_resumed, prepare } = message;
    let name = ticket.name.clone();
    let hold = match turn_of(runs, sink.sink().run(), ticket, &cancel).await {
        Turn::Come(hold) => hold,
        Turn::Cancelled => {
            return Executed::without_work(end_unstarted(runs, &sink, &name, None).await);
        }
        Turn::Left => {
            sink.leave();
            let run = sink.sink().run().to_string();
            return Executed::without_work(Err(RunsError::Left { run }));
        }
    };
    is_queued.store(false, Ordering::Relaxed);
    match runs.with_project(move |project| prepare(project, hold)).await {
        Ok(prepared) => {
            let executed = execute(runs, Admission::InConversation, prepared).await;
            let is_done = executed.ended.as_ref().is_ok_and(|outcome| outcome.status() == RunStatus::Ok);
            if let Some(store) = sink.store().filter(|_| is_done) {
                // One that failed can be retried.
                forget_before(store, sink.sink().run());
            }
            if let Err(error) = &executed.ended
                && is_resumed
                && !error.is_transient()
            {
                runs.0.sessions.give_up(sink.sink().run(), error);
            }
            executed
        }
        Err(error) if is_resumed && error.is_transient() => {
            // It stays interrupted.
            sink.leave();
            Executed::without_work(Err(error))
        }
        Err(error) => {
            if is_resumed {
                log::warn!("{} is ended, as it cannot be resumed: {error}", sink.sink().run());
            }
            Executed::without_work(end_unstarted(runs, &sink, &name, Some((text, error))).await)
        }
    }
}

/// Result of waiting for a turn.
enum Turn {
    Come(ThreadHold),
    Cancelled,
    /// The service shuts down, and the run before the message waits for an answer.
    Left,
}

/// Waits for a turn, and for the ends of all runs of the conversation that go before: of those that wait for an answer, of
/// those of other processes, and of interrupted ones. Where the store cannot be read, it is read again.
async fn turn_of(runs: &LocalRuns, run: &RunId, mut ticket: Ticket, cancel: &CancellationToken) -> Turn {
    let (mut is_parked, mut pause, closing) = (false, PARKED.0, &runs.0.options.closing);
    // One that is parked may be behind it.
    ticket.ask();
    loop {
        let patience = async {
            tokio::select! {
                () = cancel.cancelled() => {}
                () = closing.cancelled(), if is_parked => {}
                () = runs.0.clock.sleep(pause), if is_parked => {}
            }
        };
        let hold = ticket.turn(patience).await;
        if cancel.is_cancelled() {
            return Turn::Cancelled;
        }
        if is_parked && closing.is_cancelled() {
            return Turn::Left;
        }
        let Some(hold) = hold else {
            ticket.ask();
            continue;
        };
        let (own, of) = (runs.clone(), run.clone());
        let enter = move |project: &Arc<Project>| Ok(hold.enter(&own, project, Some(&of)));
        match runs.with_project(enter).await {
            Ok(Entered::Taken(hold)) => return Turn::Come(hold),
            Ok(Entered::Blocked(hold, ahead)) => {
                if matches!(ahead, Ahead::Interrupted { resumes: true, .. }) {
                    runs.0.sessions.sweep.notify_one();
                }
                ticket = hold.park();
                if matches!(ahead, Ahead::Here) {
                    ticket.ask();
                }
            }
            Ok(Entered::Failed(hold, error)) => {
                if !is_parked {
                    log::warn!("{run} waits for its turn, as the store cannot be read: {error}");
                }
                ticket = hold.park();
            }
            Err(_) => return Turn::Left,
        }
        (is_parked, pause) = (true, (2 * pause).min(PARKED.1));
    }
}

/// Emits the end of a run that had no turn: it was cancelled, or could not be executed.
async fn end_unstarted(
    runs: &LocalRuns,
    sink: &RunSink,
    name: &ThreadName,
    failure: Option<(String, RunsError)>,
) -> Ended {
    let run = sink.sink().run().clone();
    let (status, exit, kind, message) = match &failure {
        None => (RunStatus::Cancelled, Some(ExitReason::Cancelled), None, None),
        Some((_, error)) => (RunStatus::Error, None, Some(error.code().to_owned()), Some(error.to_string())),
    };
    let body = EventBody::RunFinished { status, exit, kind, partial: None, message };
    sink.sink().record(&mut vec![UnsequencedEvent::new(EventLocation::default(), body)]);
    // A fault of the store shows with the next read.
    let _ = sink.close().await;
    let Some((text, error)) = failure else {
        let handled = Handled::recorded(run, &name.thread, ExitReason::Cancelled);
        return Ok(RunOutcome::Session(Box::new(handled)));
    };
    if text.is_empty() {
        return Err(error);
    }
    // The message was said, also where it was not answered.
    let said = Said::new(Author::User, runs.0.clock.now()).text(text).of_run(&run);
    let name = name.clone();
    let keep = move |project: &Arc<Project>| {
        // One that was interrupted may be there.
        let is_kept = entries(project, &name)?.iter().any(|entry| entry.is_of(&run));
        if is_kept { Ok(()) } else { extend(project, &name, &[said.into()]) }
    };
    let _ = runs.with_project(keep).await;
    Err(error)
}

/// Interrupts the run of a conversation when its current calls and its flow have ended.
fn interrupt_after_call(runs: &LocalRuns, name: &ThreadName) {
    let Some(run) = runs.in_thread(name) else { return };
    let Some(live) = runs.live().get(&run).cloned() else { return };
    let mut events = events::from_start(&run, &live.sink);
    runs.spawn(async move {
        let (mut open, mut last) = (HashSet::new(), 0);
        loop {
            if open.is_empty() && last >= live.sink.last_seq() {
                live.cancel.cancel();
                return;
            }
            let Ok(Some(batch)) = events.next().await else { return };
            for event in &batch {
                last = event.seq;
                note_open(&mut open, event);
            }
        }
    });
}

/// Notes the calls and flows that an event begins or ends. A call that is refused ends without a beginning.
fn note_open(open: &mut HashSet<String>, event: &TraceEvent) {
    let call = || event.place.call.as_ref().map(|call| format!("call {call}")).unwrap_or_default();
    match &event.body {
        EventBody::AgentToolStarted { .. } => {
            open.insert(call());
        }
        EventBody::AgentToolFinished { .. } => {
            open.remove(&call());
        }
        EventBody::FlowMatched { flow, .. } => {
            open.insert(format!("flow {flow}"));
        }
        EventBody::FlowFinished { flow, .. } | EventBody::FlowFailed { flow, .. } => {
            open.remove(&format!("flow {flow}"));
        }
        _ => {}
    }
}
