//! Conversations: one run at a time is in each.

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio_util::sync::CancellationToken;

use super::nearly_over;
use crate::app::App;
use crate::problem::Problem;

/// Agent and thread.
type Name = (String, String);

/// The conversations that somebody is in, each with what is cancelled when it is free again.
#[derive(Debug, Clone, Default)]
pub(super) struct Threads(Arc<Mutex<HashMap<Name, CancellationToken>>>);

/// The right to be in a conversation: nobody else is in it until it is dropped.
#[derive(Debug)]
pub(crate) struct ThreadHold {
    threads: Threads,
    pub(super) name: Name,
}

impl Threads {
    fn held(&self) -> MutexGuard<'_, HashMap<Name, CancellationToken>> {
        // Nothing that can panic runs under this lock.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Takes a conversation; where somebody is in it, gives what is cancelled when it is free.
    pub(super) fn take(&self, agent: &str, thread: &str) -> Result<ThreadHold, CancellationToken> {
        let name = (agent.to_owned(), thread.to_owned());
        match self.held().entry(name.clone()) {
            Entry::Occupied(held) => Err(held.get().clone()),
            Entry::Vacant(place) => {
                place.insert(CancellationToken::new());
                Ok(ThreadHold { threads: self.clone(), name })
            }
        }
    }

    /// Waits for a conversation as long as it takes.
    pub(super) async fn wait(&self, agent: &str, thread: &str) -> ThreadHold {
        loop {
            match self.take(agent, thread) {
                Ok(hold) => return hold,
                Err(over) => over.cancelled().await,
            }
        }
    }
}

impl Drop for ThreadHold {
    fn drop(&mut self) {
        let over = self.threads.held().remove(&self.name);
        over.iter().for_each(CancellationToken::cancel);
    }
}

/// Takes a conversation; a run in it that is about to be over is waited for.
pub(super) async fn take_thread(app: &App, agent: &str, thread: &str) -> Result<ThreadHold, Problem> {
    loop {
        let over = match app.runs.threads.take(agent, thread) {
            Ok(hold) => return Ok(hold),
            Err(over) => over,
        };
        if !nearly_over(app, &over).await {
            let busy = Problem::conflict("thread_busy", "a run of this conversation is at work")
                .with_help("wait for its end, or cancel it");
            return Err(match app.runs.in_thread(agent, thread) {
                Some(run) => busy.with("run", run.as_str()),
                None => busy,
            });
        }
    }
}
