//! Conversations: one run at a time is in each, and messages wait in order.

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use agent_runtime::{AgentState, Exchange};
use agent_types::{RunId, Timestamp};
use futures::future::{Either, pending, select};
use parking_lot::{Mutex, MutexGuard};
use run_store::{StoreError, ThreadLock};
use tokio::sync::{oneshot, watch};
use tokio_util::sync::CancellationToken;
use weft_project::Project;

use super::LocalRuns;
use super::conversation::executing;
use crate::error::RunsError;
use crate::request::ThreadName;

/// Conversations whose state is kept in memory at most.
const MAX_STATES: usize = 256;

/// Attempts to take a conversation that another process has, and the pause between two.
const ATTEMPTS: (u32, Duration) = (40, Duration::from_millis(50));

/// Messages that wait in one conversation at most.
pub(super) const MAX_QUEUE: usize = 16;

/// The conversations that are held or waited for.
#[derive(Debug, Clone, Default)]
pub(super) struct Threads {
    held: Arc<Mutex<HashMap<ThreadName, ThreadQueue>>>,
    /// States of the threads; the tools that a model was shown stay unchanged.
    states: Arc<Mutex<HashMap<ThreadName, AgentState>>>,
    /// Conversations that another process had, and when to look again.
    elsewhere: Arc<Mutex<HashMap<ThreadName, Timestamp>>>,
    /// Conversations that have readers, which are notified of changes.
    readers: Arc<Mutex<HashMap<ThreadName, watch::Sender<()>>>>,
}

/// Notifications of the changes of a conversation in this process.
#[derive(Debug)]
pub struct ThreadChanges(watch::Receiver<()>);

impl ThreadChanges {
    /// Waits for the next change behind the last one that was seen.
    ///
    /// # Cancel safety
    /// No change is lost.
    pub async fn next(&mut self) {
        if self.0.changed().await.is_err() {
            // No process of this kind changes it any more.
            pending::<()>().await;
        }
    }
}

/// A conversation that is held, or that a parked message waits in.
#[derive(Debug, Default)]
struct ThreadQueue {
    /// `true` while a run is in it.
    is_taken: bool,
    /// Cancelled when the run that is in it leaves.
    over: CancellationToken,
    /// Messages that wait, in order.
    queue: VecDeque<Waiter>,
    /// Number of the last one.
    last: u64,
}

/// A message that waits.
#[derive(Debug)]
struct Waiter {
    turn: oneshot::Sender<ThreadHold>,
    rank: Rank,
    number: u64,
}

/// The right to be in a conversation, until it is dropped.
#[derive(Debug)]
pub(super) struct ThreadHold {
    threads: Threads,
    pub(super) name: ThreadName,
    pub(super) rank: Rank,
    is_parked: bool,
    /// The same right among all processes.
    lock: Option<ThreadLock>,
}

/// A place in the queue of a conversation.
#[derive(Debug)]
pub(super) struct Ticket {
    pub(super) name: ThreadName,
    /// Messages before it, the one that is answered included.
    pub(super) place: usize,
    pub(super) rank: Rank,
    number: u64,
    threads: Threads,
    turn: oneshot::Receiver<ThreadHold>,
    has_had_turn: bool,
}

/// Order of the messages of a conversation, in whichever processes they wait.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Rank {
    pub(super) class: RankClass,
    /// Place in the order of the store; behind all others before it is known.
    pub(super) order: u64,
}

/// Class of a message: those of an earlier one go first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum RankClass {
    /// A run that has begun.
    Begun,
    /// A message that steers.
    Steers,
    /// Another message.
    Queued,
}

impl Rank {
    /// Rank of a message that is not recorded yet.
    pub(super) const fn new(class: RankClass) -> Self {
        Self { class, order: u64::MAX }
    }
}

/// Result of joining a conversation.
pub(super) enum Joined {
    Taken(ThreadHold),
    Queued(Ticket),
    /// As many messages wait as may.
    Full,
}

impl Threads {
    fn held(&self) -> MutexGuard<'_, HashMap<ThreadName, ThreadQueue>> {
        // Nothing that can panic runs under this lock.
        self.held.lock()
    }

    fn states(&self) -> MutexGuard<'_, HashMap<ThreadName, AgentState>> {
        // Nothing that can panic runs under this lock.
        self.states.lock()
    }

    fn hold(&self, name: &ThreadName, rank: Rank) -> ThreadHold {
        ThreadHold { threads: self.clone(), name: name.clone(), rank, is_parked: false, lock: None }
    }

    /// Returns `true` if no run is in a conversation, as far as is known. A message that waits for an answer is not in it.
    pub(super) fn is_free(&self, name: &ThreadName, now: Timestamp) -> bool {
        let is_taken = self.held().get(name).is_some_and(|place| place.is_taken);
        !is_taken && self.elsewhere.lock().get(name).is_none_or(|until| *until <= now)
    }

    /// Notes that another process has a conversation, and when to look again.
    pub(super) fn note_elsewhere(&self, name: &ThreadName, until: Timestamp) {
        let mut elsewhere = self.elsewhere.lock();
        if elsewhere.len() >= MAX_STATES {
            elsewhere.clear();
        }
        elsewhere.insert(name.clone(), until);
    }

    /// Holds a conversation; where it is held, gives what is cancelled when that run leaves.
    pub(super) fn take(&self, name: &ThreadName) -> Result<ThreadHold, CancellationToken> {
        let mut held = self.held();
        let place = held.entry(name.clone()).or_default();
        if place.is_taken {
            return Err(place.over.clone());
        }
        (place.is_taken, place.over) = (true, CancellationToken::new());
        Ok(self.hold(name, Rank::new(RankClass::Queued)))
    }

    /// Holds a conversation, or waits in its queue.
    pub(super) fn join(&self, name: &ThreadName, class: RankClass) -> Joined {
        let rank = Rank::new(class);
        let mut held = self.held();
        let place = held.entry(name.clone()).or_default();
        if !place.is_taken && place.queue.is_empty() {
            (place.is_taken, place.over) = (true, CancellationToken::new());
            return Joined::Taken(self.hold(name, rank));
        }
        if place.queue.len() >= MAX_QUEUE {
            return Joined::Full;
        }
        Joined::Queued(place.queued(self, name, rank))
    }

    /// Waits in the queue of a conversation, however many wait there.
    pub(super) fn enqueue(&self, name: &ThreadName, rank: Rank) -> Ticket {
        self.held().entry(name.clone()).or_default().queued(self, name, rank)
    }

    /// Waits for a conversation as long as it takes.
    pub(super) async fn wait(&self, name: &ThreadName) -> ThreadHold {
        loop {
            match self.take(name) {
                Ok(hold) => return hold,
                Err(over) => over.cancelled().await,
            }
        }
    }

    /// Gives a conversation to the message that has waited longest, if no run is in it.
    fn pass_on(&self, name: &ThreadName) {
        let mut held = self.held();
        let Some(place) = held.get_mut(name) else { return };
        if place.is_taken {
            return;
        }
        let Some(Waiter { turn, rank, .. }) = place.queue.pop_front() else {
            held.remove(name);
            return;
        };
        (place.is_taken, place.over) = (true, CancellationToken::new());
        drop(held);
        // Where the waiter is gone, the hold is dropped, and the next one has its turn.
        let _ = turn.send(self.hold(name, rank));
    }

    /// Follows the changes of a conversation.
    pub(super) fn changes(&self, name: &ThreadName) -> ThreadChanges {
        let mut readers = self.readers.lock();
        readers.retain(|_, changes| changes.receiver_count() > 0);
        ThreadChanges(readers.entry(name.clone()).or_insert_with(|| watch::channel(()).0).subscribe())
    }

    /// Notifies the readers of a conversation of a change.
    pub(super) fn notify_readers(&self, name: &ThreadName) {
        if let Some(changes) = self.readers.lock().get(name) {
            changes.send_replace(());
        }
    }

    /// Remembers the state in which a run left a conversation.
    pub(super) fn remember(&self, name: &ThreadName, state: AgentState) {
        let mut states = self.states();
        if states.len() >= MAX_STATES {
            states.clear();
        }
        states.insert(name.clone(), state);
    }

    /// The state of a conversation with this history.
    pub(super) fn state(&self, name: Option<&ThreadName>, history: Vec<Exchange>) -> AgentState {
        let known = name.and_then(|name| self.states().get(name).cloned());
        known.filter(|state| state.history() == history).unwrap_or_else(|| AgentState::from_history(history))
    }
}

impl ThreadQueue {
    /// A place behind all of no higher rank.
    fn queued(&mut self, threads: &Threads, name: &ThreadName, rank: Rank) -> Ticket {
        let at = self.queue.partition_point(|waiter| waiter.rank <= rank);
        let (send, turn) = oneshot::channel();
        self.last += 1;
        let number = self.last;
        self.queue.insert(at, Waiter { turn: send, rank, number });
        let (name, threads) = (name.clone(), threads.clone());
        Ticket { name, place: at + 1, rank, number, threads, turn, has_had_turn: false }
    }
}

impl Ticket {
    /// Waits for the turn; `None` where it does not come before `patience` ends.
    ///
    /// # Cancel safety
    /// The place is kept.
    pub(super) async fn turn(&mut self, patience: impl Future<Output = ()>) -> Option<ThreadHold> {
        match select(&mut self.turn, std::pin::pin!(patience)).await {
            Either::Left((hold, _)) => {
                self.has_had_turn = true;
                let mut hold = hold.ok()?;
                hold.rank = self.rank;
                Some(hold)
            }
            Either::Right(((), _)) => None,
        }
    }

    /// Takes the place that the order of the store gives it, now that it is recorded.
    pub(super) fn set_order(&mut self, order: u64) {
        self.rank.order = order;
        let mut held = self.threads.held();
        let Some(place) = held.get_mut(&self.name) else { return };
        let Some(at) = place.queue.iter().position(|waiter| waiter.number == self.number) else { return };
        if let Some(mut own) = place.queue.remove(at) {
            own.rank = self.rank;
            let at = place.queue.partition_point(|waiter| waiter.rank <= own.rank);
            place.queue.insert(at, own);
        }
    }

    /// Asks for the turn where no run is in the conversation.
    pub(super) fn ask(&self) {
        self.threads.pass_on(&self.name);
    }
}

impl Drop for Ticket {
    fn drop(&mut self) {
        if self.has_had_turn {
            return;
        }
        self.turn.close();
        if let Some(place) = self.threads.held().get_mut(&self.name) {
            place.queue.retain(|waiter| !waiter.turn.is_closed());
        }
        // It may have been parked: those behind it must not wait for its turn.
        self.threads.pass_on(&self.name);
    }
}

impl ThreadHold {
    /// Returns `true` if messages wait in the conversation.
    pub(super) fn has_queue(&self) -> bool {
        self.threads.held().get(&self.name).is_some_and(|place| !place.queue.is_empty())
    }

    /// Returns `true` if a message that waits in this process goes before this one.
    pub(super) fn is_behind(&self) -> bool {
        let held = self.threads.held();
        let first = held.get(&self.name).and_then(|place| place.queue.front());
        first.is_some_and(|first| first.rank < self.rank)
    }

    /// Leaves the conversation to a run that goes before this one, and stays in the queue.
    pub(super) fn park(mut self) -> Ticket {
        self.is_parked = true;
        self.lock = None;
        let mut held = self.threads.held();
        let place = held.entry(self.name.clone()).or_default();
        place.is_taken = false;
        place.over.cancel();
        place.queued(&self.threads, &self.name, self.rank)
    }

    /// Takes the conversation among all processes; `false` while a run of another process is in it.
    pub(super) fn lock(&mut self, project: &Project) -> Result<bool, StoreError> {
        if self.lock.is_none()
            && let Some(store) = project.store()?
        {
            self.lock = store.lock_thread(&self.name.stored())?;
            return Ok(self.lock.is_some());
        }
        Ok(true)
    }

    /// Leaves the conversation to other processes.
    pub(super) fn unlock(&mut self) {
        self.lock = None;
    }
}

impl Drop for ThreadHold {
    fn drop(&mut self) {
        if self.is_parked {
            return;
        }
        // Other processes may have it before the next run of this one asks for it.
        self.lock = None;
        if let Some(place) = self.threads.held().get_mut(&self.name) {
            place.is_taken = false;
            place.over.cancel();
        }
        self.threads.pass_on(&self.name);
    }
}

impl LocalRuns {
    /// Follows the changes of a conversation in this process; those of other processes are in the store.
    #[must_use]
    pub fn thread_changes(&self, name: &ThreadName) -> ThreadChanges {
        self.0.threads.changes(name)
    }

    /// Holds a conversation; a run in it that is about to be over is waited for, in whichever process.
    pub(super) async fn take_thread(&self, name: &ThreadName) -> Result<ThreadHold, RunsError> {
        loop {
            let over = match self.0.threads.take(name) {
                Ok(hold) => return self.lock_thread(hold).await,
                Err(over) => over,
            };
            if !self.nearly_over(&over).await {
                return Err(RunsError::ThreadBusy { run: self.in_thread(name).map(|run| run.to_string()) });
            }
        }
    }

    /// Takes a conversation that is held here among all processes; a run that is about to be over is waited for.
    pub(super) async fn lock_thread(&self, hold: ThreadHold) -> Result<ThreadHold, RunsError> {
        let mut hold = hold;
        for _ in 0..ATTEMPTS.0 {
            let lock = move |project: &Arc<Project>| {
                let is_locked = hold.lock(project)?;
                Ok((hold, is_locked))
            };
            match self.with_project(lock).await? {
                (locked, true) => return Ok(locked),
                (other, false) => hold = other,
            }
            self.0.clock.sleep(ATTEMPTS.1).await;
        }
        let name = hold.name.clone();
        let executes = move |project: &Arc<Project>| Ok(executing(project, &name)?);
        let run = self.with_project(executes).await?.map(|run| run.to_string());
        Err(RunsError::ThreadBusy { run })
    }

    /// The run that executes in a conversation.
    pub(super) fn in_thread(&self, name: &ThreadName) -> Option<RunId> {
        let live = self.live();
        let mut of_thread = live.iter().filter(|(_, live)| live.thread.as_ref() == Some(name));
        of_thread.find(|(_, live)| !live.is_queued.load(Ordering::Relaxed)).map(|(run, _)| run.clone())
    }
}

#[cfg(test)]
mod tests {
    use std::future::ready;

    use super::*;

    fn queued(threads: &Threads, name: &ThreadName, class: RankClass) -> Ticket {
        match threads.join(name, class) {
            Joined::Queued(ticket) => ticket,
            Joined::Taken(_) | Joined::Full => panic!("nothing is before it"),
        }
    }

    #[tokio::test]
    async fn messages_that_steer_keep_their_order() {
        let (threads, name) = (Threads::default(), ThreadName::new("a", "t"));
        let hold = threads.take(&name).unwrap();
        let classes = [RankClass::Queued, RankClass::Steers, RankClass::Steers];
        let mut tickets = classes.map(|class| queued(&threads, &name, class));
        assert_eq!(tickets.each_ref().map(|ticket| ticket.place), [1, 1, 2]);
        drop(hold);
        for at in [1, 2, 0] {
            let hold = tickets[at].turn(ready(())).await;
            assert!(hold.is_some(), "{at}");
        }
        drop(tickets);
        assert!(threads.is_free(&name, Timestamp::from_millis(0)));
    }

    #[tokio::test]
    async fn messages_have_their_turns_in_the_order_of_the_store() {
        let (threads, name) = (Threads::default(), ThreadName::new("a", "t"));
        let hold = threads.take(&name).unwrap();
        let mut tickets = [(); 3].map(|()| queued(&threads, &name, RankClass::Queued));
        for (ticket, order) in tickets.iter_mut().zip([7, 5, 6]) {
            ticket.set_order(order);
        }
        // A run that was interrupted goes before them all.
        let mut begun = threads.enqueue(&name, Rank { class: RankClass::Begun, order: 9 });
        drop(hold);
        let hold = begun.turn(ready(())).await.unwrap();
        let mut begun = hold.park();
        begun.ask();
        drop(begun.turn(ready(())).await.unwrap());
        for at in [1, 2, 0] {
            assert!(tickets[at].turn(ready(())).await.is_some(), "{at}");
        }
    }

    #[tokio::test]
    async fn a_parked_message_that_goes_away_passes_its_turn_on() {
        let (threads, name) = (Threads::default(), ThreadName::new("a", "t"));
        let hold = threads.take(&name).unwrap();
        let mut second = queued(&threads, &name, RankClass::Queued);
        let parked = hold.park();
        assert!(second.turn(ready(())).await.is_none(), "the parked one is before it");
        // A timer does not wait for it.
        assert!(threads.is_free(&name, Timestamp::from_millis(0)));
        let timer = threads.take(&name).unwrap();
        assert!(timer.has_queue() && !threads.is_free(&name, Timestamp::from_millis(0)));
        drop(timer);
        drop(parked);
        let hold = second.turn(ready(())).await;
        assert!(hold.is_some());
        drop(hold);
        assert!(threads.is_free(&name, Timestamp::from_millis(0)));
    }
}
