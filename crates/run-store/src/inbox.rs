//! Queue of jobs for the writer.
//!
//! Waking a thread costs more than most jobs do. Events that no caller waits for therefore linger for a
//! moment, so that one wake-up serves many jobs.

use std::collections::VecDeque;
use std::mem;
use std::sync::Arc;
use std::time::Duration;

use agent_types::ClockHold;
use parking_lot::{Condvar, Mutex, MutexGuard};

use crate::encode::NumberedEvent;
use crate::run::RunCore;
use crate::writer::{GROUP, Job, ROW};

/// Longest delay before events that no caller waits for are written. Subscribers see them later by this time.
const LINGER: Duration = Duration::from_micros(500);

/// Queue of jobs for the writer, in the order in which they were sent.
#[derive(Default)]
pub(crate) struct Inbox {
    queue: Mutex<Queue>,
    woken: Condvar,
}

#[derive(Default)]
struct Queue {
    jobs: VecDeque<Job>,
    events: usize,
    /// A caller waits for one of them.
    urgent: bool,
    rest: Rest,
}

/// Activity of the writer while it has no job.
#[derive(Default, PartialEq, Eq)]
enum Rest {
    /// It executes jobs, and polls the queue when it is done.
    #[default]
    Works,
    /// It sleeps until a job arrives.
    Sleeps,
    /// It waits for more jobs to batch.
    Lingers,
}

impl Queue {
    fn is_due(&self) -> bool {
        self.urgent || self.events >= GROUP
    }
}

impl Inbox {
    pub(crate) fn send(&self, job: Job) {
        let mut queue = self.queue.lock();
        queue.urgent |= job.is_urgent();
        queue.jobs.push_back(job);
        self.wake(queue);
    }

    /// Sends events of a run. Behind others of the same run they become a part of that job: a row holds them all.
    pub(crate) fn send_events(
        &self,
        core: &Arc<RunCore>,
        events: impl ExactSizeIterator<Item = NumberedEvent>,
        last_span: u64,
        hold: Option<ClockHold>,
    ) {
        let mut queue = self.queue.lock();
        queue.events += events.len();
        queue.urgent |= hold.is_some();
        match queue.jobs.back_mut() {
            Some(Job::Events { core: other, numbered, last_span: last, hold: held })
                if Arc::ptr_eq(core, other) && numbered.len() + events.len() <= ROW =>
            {
                numbered.extend(events);
                *last = last_span;
                // One hold is enough: both are of the clock of the run.
                *held = held.take().or(hold);
            }
            _ => {
                let (core, numbered) = (Arc::clone(core), events.collect());
                queue.jobs.push_back(Job::Events { core, numbered, last_span, hold });
            }
        }
        self.wake(queue);
    }

    /// Wakes the writer if it rests and has something to do.
    fn wake(&self, mut queue: MutexGuard<'_, Queue>) {
        let wakes = match queue.rest {
            Rest::Works => false,
            Rest::Sleeps => true,
            Rest::Lingers => queue.is_due(),
        };
        if wakes {
            // One waking is enough, whatever comes until the writer has taken the jobs.
            queue.rest = if queue.is_due() { Rest::Works } else { Rest::Lingers };
            drop(queue);
            self.woken.notify_one();
        }
    }

    /// Waits for jobs and puts all that there are into `jobs`, which must be empty.
    pub(crate) fn take(&self, jobs: &mut VecDeque<Job>) {
        let mut queue = self.queue.lock();
        while queue.jobs.is_empty() {
            queue.rest = Rest::Sleeps;
            self.woken.wait(&mut queue);
        }
        if !queue.is_due() {
            queue.rest = Rest::Lingers;
            self.woken.wait_while_for(&mut queue, |queue| !queue.is_due(), LINGER);
        }
        queue.rest = Rest::Works;
        queue.urgent = false;
        queue.events = 0;
        mem::swap(&mut queue.jobs, jobs);
    }
}
