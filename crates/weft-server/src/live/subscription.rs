//! Subscription of one client to a run: first the backlog, then live events.

use std::collections::VecDeque;
use std::sync::Arc;

use agent_types::RunId;
use run_store::Store;
use tokio::sync::broadcast;
use tokio::sync::broadcast::error::RecvError;

use super::hub::{Frame, Hub};
use crate::app::App;
use crate::problem::Problem;

/// Maximum bytes of the backlog that are read at once.
const PAGE_BYTES: usize = 64 * 1024;

/// Message to a subscriber.
#[derive(Debug, Clone)]
pub(crate) enum Update {
    /// An event.
    Event(Frame),
    /// The backlog has been sent, up to this event; the following events are live.
    Live { seq: u64 },
    /// Number of events behind `after_seq` that are skipped, because the client was too slow or they were deleted.
    Lag { missed: u64, after_seq: u64 },
}

/// A reader of a run.
#[derive(Debug)]
pub(crate) struct Subscription {
    app: Arc<App>,
    run: RunId,
    hub: Arc<Hub>,
    frames: broadcast::Receiver<Frame>,
    /// The last event that the reader has.
    last: u64,
    ready: VecDeque<Frame>,
    phase: Phase,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Phase {
    /// Reading the store.
    Backlog,
    /// The store had no more a moment ago; what happened since is caught by `frames`.
    NearlyLive,
    Live,
    Over,
}

/// Events behind `after`, about `bytes` of them; an empty list after the last one.
pub(crate) fn read_page(store: &Store, run: &RunId, after: u64, bytes: usize) -> Result<Vec<Frame>, Problem> {
    let mut page = Vec::new();
    let mut size = 0;
    for kept in store.next_group(run, after)? {
        let frame = Frame::from_event(&kept.event);
        size += frame.json.len();
        if !page.is_empty() && size > bytes {
            break;
        }
        page.push(frame);
    }
    Ok(page)
}

impl Subscription {
    /// Follows a run from behind its event `after_seq`.
    ///
    /// # Errors
    /// The run is unknown.
    pub(crate) async fn new(app: &Arc<App>, run: RunId, after_seq: u64) -> Result<Self, Problem> {
        let (store, of) = (app.store.clone(), run.clone());
        app.blocking(move || Ok(store.known(&of)?)).await?;
        let hub = app.hubs.get_or_create(app, &run);
        let frames = hub.subscribe();
        Ok(Self {
            app: Arc::clone(app),
            run,
            hub,
            frames,
            last: after_seq,
            ready: VecDeque::new(),
            phase: Phase::Backlog,
        })
    }

    /// Returns the next message; `None` after the last event of a run that has ended, or when the server shuts down.
    ///
    /// # Cancel safety
    /// Nothing is lost when the future is dropped.
    pub(crate) async fn next(&mut self) -> Option<Update> {
        loop {
            if let Some(update) = self.take_ready() {
                return Some(update);
            }
            match self.phase {
                Phase::Over => return None,
                Phase::Backlog | Phase::NearlyLive => {
                    if let Some(update) = self.read_backlog().await {
                        return update;
                    }
                }
                Phase::Live => self.receive().await?,
            }
        }
    }

    /// The next event that is there, or what is missing before it.
    fn take_ready(&mut self) -> Option<Update> {
        while let Some(frame) = self.ready.pop_front_if(|frame| frame.seq <= self.last) {
            // The end of a run whose events the reader has, or says that it has.
            if frame.is_last {
                self.phase = Phase::Over;
            }
        }
        let first = self.ready.front()?;
        let after_seq = self.last;
        if first.seq > after_seq + 1 {
            self.last = first.seq - 1;
            return Some(Update::Lag { missed: first.seq - 1 - after_seq, after_seq });
        }
        let frame = self.ready.pop_front()?;
        self.last = frame.seq;
        if frame.is_last {
            self.phase = Phase::Over;
        }
        Some(Update::Event(frame))
    }

    /// Reads on. Gives what ends the reading: that the run is followed live from here, or that it cannot be read.
    async fn read_backlog(&mut self) -> Option<Option<Update>> {
        let (store, run, last) = (self.app.store.clone(), self.run.clone(), self.last);
        let page = self.app.blocking(move || read_page(&store, &run, last, PAGE_BYTES)).await;
        match page {
            Err(_) => {
                self.phase = Phase::Over;
                return Some(None);
            }
            Ok(page) if !page.is_empty() => {
                self.phase = Phase::Backlog;
                self.ready.extend(page);
            }
            // What came while the store was read is no lag: it is read again.
            Ok(_) if self.phase == Phase::Backlog => {
                tokio::select! {
                    () = self.hub.placed() => {}
                    () = self.app.closed.cancelled() => {
                        self.phase = Phase::Over;
                        return Some(None);
                    }
                }
                self.frames = self.hub.subscribe();
                self.phase = Phase::NearlyLive;
            }
            Ok(_) => {
                self.phase = if self.has_ended().await { Phase::Over } else { Phase::Live };
                return Some(Some(Update::Live { seq: self.last }));
            }
        }
        None
    }

    /// Returns `true` when the run has ended and the client has all of it. A later end comes through `frames`.
    pub(crate) async fn has_ended(&self) -> bool {
        let (store, run) = (self.app.store.clone(), self.run.clone());
        let record = self.app.blocking(move || Ok(store.known(&run)?)).await;
        record.is_ok_and(|record| record.state.phase.has_ended() && record.last_seq <= self.last)
    }

    async fn receive(&mut self) -> Option<()> {
        tokio::select! {
            received = self.frames.recv() => match received {
                Ok(frame) => self.ready.push_back(frame),
                // The next frame shows the number.
                Err(RecvError::Lagged(_)) => {}
                Err(RecvError::Closed) => return None,
            },
            () = self.app.closed.cancelled() => return None,
        }
        Some(())
    }
}
