//! Conversations: one run at a time is in each, and messages wait in order.

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;
use std::sync::atomic::Ordering;

use agent_runtime::{AgentState, Exchange};
use agent_types::RunId;
use futures::future::{Either, pending, select};
use parking_lot::{Mutex, MutexGuard};
use tokio::sync::oneshot;
use tokio_util::sync::CancellationToken;

use super::LocalRuns;
use crate::error::RunsError;
use crate::request::ThreadName;

/// Conversations whose state is kept in memory at most.
const MAX_STATES: usize = 256;

/// Messages that wait in one conversation at most.
pub(super) const MAX_QUEUE: usize = 16;

/// The conversations that are held or waited for.
#[derive(Debug, Clone, Default)]
pub(super) struct Threads {
    held: Arc<Mutex<HashMap<ThreadName, ThreadQueue>>>,
    /// States of the threads; the tools that a model was shown stay unchanged.
    states: Arc<Mutex<HashMap<ThreadName, AgentState>>>,
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
}

/// A message that waits.
#[derive(Debug)]
struct Waiter {
    turn: oneshot::Sender<ThreadHold>,
    end: QueueEnd,
}

/// The right to be in a conversation, until it is dropped.
#[derive(Debug)]
pub(super) struct ThreadHold {
    threads: Threads,
    pub(super) name: ThreadName,
    /// End of the queue at which it waited.
    end: QueueEnd,
    is_parked: bool,
}

/// A place in the queue of a conversation.
#[derive(Debug)]
pub(super) struct Ticket {
    pub(super) name: ThreadName,
    /// Messages before it, the one that is answered included.
    pub(super) place: usize,
    threads: Threads,
    turn: oneshot::Receiver<ThreadHold>,
    has_had_turn: bool,
}

/// End of a queue at which a message waits.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum QueueEnd {
    Back,
    /// Behind those that came to the front before.
    Front,
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

    fn hold(&self, name: &ThreadName, end: QueueEnd) -> ThreadHold {
        ThreadHold { threads: self.clone(), name: name.clone(), end, is_parked: false }
    }

    /// Returns `true` if no run is in a conversation and no message waits there.
    pub(super) fn is_free(&self, name: &ThreadName) -> bool {
        !self.held().contains_key(name)
    }

    /// Holds a conversation; where it is held, gives what is cancelled when that run leaves.
    pub(super) fn take(&self, name: &ThreadName) -> Result<ThreadHold, CancellationToken> {
        let mut held = self.held();
        let place = held.entry(name.clone()).or_default();
        if place.is_taken {
            return Err(place.over.clone());
        }
        (place.is_taken, place.over) = (true, CancellationToken::new());
        Ok(self.hold(name, QueueEnd::Back))
    }

    /// Holds a conversation, or waits in its queue.
    pub(super) fn join(&self, name: &ThreadName, end: QueueEnd, limit: usize) -> Joined {
        let mut held = self.held();
        let place = held.entry(name.clone()).or_default();
        if !place.is_taken && place.queue.is_empty() {
            (place.is_taken, place.over) = (true, CancellationToken::new());
            return Joined::Taken(self.hold(name, end));
        }
        if place.queue.len() >= limit {
            return Joined::Full;
        }
        Joined::Queued(place.queued(self, name, end))
    }

    /// Holds a conversation, or waits in its queue if that has room.
    pub(super) fn join_as_user(&self, name: &ThreadName, end: QueueEnd) -> Joined {
        self.join(name, end, MAX_QUEUE)
    }

    /// Waits for a conversation as long as it takes.
    pub(super) async fn wait(&self, name: &ThreadName) -> ThreadHold {
        loop {
            match self.join(name, QueueEnd::Back, usize::MAX) {
                Joined::Taken(hold) => return hold,
                Joined::Queued(mut ticket) => {
                    if let Some(hold) = ticket.turn(pending()).await {
                        return hold;
                    }
                }
                Joined::Full => {}
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
        let Some(Waiter { turn, end }) = place.queue.pop_front() else {
            held.remove(name);
            return;
        };
        (place.is_taken, place.over) = (true, CancellationToken::new());
        drop(held);
        // Where the waiter is gone, the hold is dropped, and the next one has its turn.
        let _ = turn.send(self.hold(name, end));
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
    fn queued(&mut self, threads: &Threads, name: &ThreadName, end: QueueEnd) -> Ticket {
        let at = match end {
            QueueEnd::Back => self.queue.len(),
            QueueEnd::Front => self.queue.iter().take_while(|waiter| waiter.end == end).count(),
        };
        self.queued_at(at, threads, name, end)
    }

    fn queued_at(&mut self, at: usize, threads: &Threads, name: &ThreadName, end: QueueEnd) -> Ticket {
        let (send, turn) = oneshot::channel();
        self.queue.insert(at, Waiter { turn: send, end });
        Ticket { name: name.clone(), place: at + 1, threads: threads.clone(), turn, has_had_turn: false }
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
                hold.ok()
            }
            Either::Right(((), _)) => None,
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
    /// Leaves the conversation to the run of it that waits, and stays the first in its queue.
    pub(super) fn park(mut self) -> Ticket {
        self.is_parked = true;
        let mut held = self.threads.held();
        let place = held.entry(self.name.clone()).or_default();
        place.is_taken = false;
        place.over.cancel();
        place.queued_at(0, &self.threads, &self.name, self.end)
    }
}

impl Drop for ThreadHold {
    fn drop(&mut self) {
        if self.is_parked {
            return;
        }
        if let Some(place) = self.threads.held().get_mut(&self.name) {
            place.is_taken = false;
            place.over.cancel();
        }
        self.threads.pass_on(&self.name);
    }
}

impl LocalRuns {
    /// Holds a conversation; a run in it that is about to be over is waited for.
    pub(super) async fn take_thread(&self, name: &ThreadName) -> Result<ThreadHold, RunsError> {
        loop {
            let over = match self.0.threads.take(name) {
                Ok(hold) => return Ok(hold),
                Err(over) => over,
            };
            if !self.nearly_over(&over).await {
                return Err(RunsError::ThreadBusy { run: self.in_thread(name).map(|run| run.to_string()) });
            }
        }
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

    fn queued(threads: &Threads, name: &ThreadName, end: QueueEnd) -> Ticket {
        match threads.join(name, end, MAX_QUEUE) {
            Joined::Queued(ticket) => ticket,
            Joined::Taken(_) | Joined::Full => panic!("nothing is before it"),
        }
    }

    #[tokio::test]
    async fn messages_that_steer_keep_their_order() {
        let (threads, name) = (Threads::default(), ThreadName::new("a", "t"));
        let hold = threads.take(&name).unwrap();
        let ends = [QueueEnd::Back, QueueEnd::Front, QueueEnd::Front];
        let mut tickets = ends.map(|end| queued(&threads, &name, end));
        assert_eq!(tickets.each_ref().map(|ticket| ticket.place), [1, 1, 2]);
        drop(hold);
        for at in [1, 2, 0] {
            let hold = tickets[at].turn(ready(())).await;
            assert!(hold.is_some(), "{at}");
        }
        drop(tickets);
        assert!(threads.is_free(&name));
    }

    #[tokio::test]
    async fn a_parked_message_that_goes_away_passes_its_turn_on() {
        let (threads, name) = (Threads::default(), ThreadName::new("a", "t"));
        let hold = threads.take(&name).unwrap();
        let mut second = queued(&threads, &name, QueueEnd::Back);
        let parked = hold.park();
        assert!(second.turn(ready(())).await.is_none(), "the parked one is before it");
        drop(parked);
        let hold = second.turn(ready(())).await;
        assert!(hold.is_some());
        drop(hold);
        assert!(threads.is_free(&name));
    }
}
