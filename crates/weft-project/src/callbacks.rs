//! One-time addresses of calls, in the store: what is sent to them is the result of the call, in this process or the next.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use agent_types::{CallId, Clock, RunId, Timestamp};
use async_trait::async_trait;
use futures::future::select;
use run_store::{Store, StoreError};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use sha2::{Digest, Sha256};
use tokio::sync::Notify;
use tool_http::{CallbackRequest, Callbacks, OpenCallback};
use tool_registry::{ToolError, ToolErrorKind};

use crate::server_settings::PublicUrl;

/// Beginning of the keys.
const KEY: &str = "callbacks/";

/// Beginning of the keys of bodies.
const BODY_KEY: &str = "callback-bodies/";

/// Path of the addresses below that of the server.
const PATH: &str = "/hooks/calls";

/// Bytes of a secret, and of an id.
const RANDOM_BYTES: usize = 32;

/// Pause after which a body that another process took is seen.
const PAUSE: Duration = Duration::from_secs(1);

/// Servers that take callbacks for this process.
#[derive(Debug, Clone, Default)]
pub(crate) enum CallbackServer {
    /// None: the process serves nothing.
    #[default]
    Absent,
    /// One, which other systems do not reach as far as the settings say.
    Private,
    /// One at this address.
    Public(PublicUrl),
}

/// State of an address.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
enum State {
    /// Nothing came yet.
    Open,
    /// The body came.
    Used,
    /// The call needs it no more.
    Closed,
}

/// State of the run of a call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum CallRun {
    Open,
    Ended,
    /// The store does not have it, or not any more.
    Unknown,
}

/// End of the wait for a body.
enum Arrival {
    Body(Value),
    /// Its time is over, or its call needs it no more.
    Never,
}

/// An address as the store keeps it. Its secret is not kept, only the digest.
#[derive(Debug, Clone, Serialize, Deserialize)]
struct Entry {
    run: RunId,
    call: CallId,
    sha256: String,
    expires: Timestamp,
    max_body: usize,
    state: State,
    /// Key of the body that came.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    body: Option<String>,
}

/// An address that a request may name.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct KnownCallback {
    /// Digest of its secret: SHA-256 in hexadecimal digits.
    pub sha256: String,
    /// Longest body, in bytes.
    pub max_body: usize,
    /// Set until a body came, its time is over or its run has ended.
    pub is_open: bool,
}

/// The one-time addresses of a project. Clones share them.
#[derive(Debug, Clone)]
pub struct StoredCallbacks {
    store: Store,
    clock: Arc<dyn Clock>,
    server: CallbackServer,
    arrived: Arc<Notify>,
}

impl StoredCallbacks {
    pub(crate) const fn new(
        store: Store,
        clock: Arc<dyn Clock>,
        server: CallbackServer,
        arrived: Arc<Notify>,
    ) -> Self {
        Self { store, clock, server, arrived }
    }

    /// An address by its id.
    ///
    /// # Errors
    /// The store cannot be read.
    pub fn known(&self, id: &str) -> Result<Option<KnownCallback>, StoreError> {
        let Some(entry) = self.entry(id)? else { return Ok(None) };
        let is_open = entry.state == State::Open
            && self.clock.now() < entry.expires
            && self.run_of(&entry)? != CallRun::Ended;
        Ok(Some(KnownCallback { sha256: entry.sha256, max_body: entry.max_body, is_open }))
    }

    /// Takes the body of an address; `false` where it is not open any more.
    ///
    /// # Errors
    /// The store cannot be written.
    pub fn take(&self, id: &str, body: &Value) -> Result<bool, StoreError> {
        let now = self.clock.now();
        if !self.known(id)?.is_some_and(|known| known.is_open) {
            return Ok(false);
        }
        // Addresses are read often, their bodies once: each is a value of its own, there before the address names it.
        let digest = Sha256::digest(body.to_string());
        let place = format!("{BODY_KEY}{id}/{digest:x}");
        self.store.put(&place, Some(body));
        self.store.flush()?;
        let own = place.clone();
        let taken = self.change(id, move |entry| {
            let is_open = entry.state == State::Open && now < entry.expires;
            is_open.then_some(Entry { state: State::Used, body: Some(own), ..entry })
        })?;
        if !taken && self.entry(id)?.and_then(|entry| entry.body).as_ref() != Some(&place) {
            self.store.put(&place, None);
        }
        self.arrived.notify_waiters();
        Ok(taken)
    }

    /// State of the run of an address, which another process may execute.
    fn run_of(&self, entry: &Entry) -> Result<CallRun, StoreError> {
        match self.store.known(&entry.run) {
            Ok(run) if run.state.finished.is_some() => Ok(CallRun::Ended),
            Ok(_) => Ok(CallRun::Open),
            Err(StoreError::UnknownRun { .. }) => Ok(CallRun::Unknown),
            Err(error) => Err(error),
        }
    }

    /// Removes the addresses of runs that have ended, with what came to them; those of runs that the store does not know
    /// are removed by their time.
    fn sweep(&self) -> Result<(), StoreError> {
        let now = self.clock.now();
        for (key, kept) in self.store.values(KEY)? {
            let Some(entry) = read(kept) else {
                self.store.put(&key, None);
                continue;
            };
            let is_over = match self.run_of(&entry)? {
                CallRun::Open => false,
                CallRun::Ended => true,
                CallRun::Unknown => entry.expires < now,
            };
            if is_over {
                self.store.put(&key, None);
                entry.body.iter().for_each(|body| self.store.put(body, None));
            }
        }
        Ok(())
    }

    /// The body of an address where it came; `None` while it may come.
    fn arrived_body(&self, id: &str) -> Result<Option<Arrival>, StoreError> {
        Ok(match self.entry(id)? {
            Some(Entry { state: State::Used, body, .. }) => {
                let body = body.map(|body| self.store.value(&body)).transpose()?;
                Some(Arrival::Body(body.flatten().unwrap_or_default()))
            }
            Some(entry) if entry.state == State::Open && self.clock.now() < entry.expires => None,
            Some(_) | None => Some(Arrival::Never),
        })
    }

    fn entry(&self, id: &str) -> Result<Option<Entry>, StoreError> {
        Ok(self.store.value(&key(id))?.and_then(read))
    }

    /// Changes an address; `false` where nothing is changed.
    fn change(
        &self,
        id: &str,
        change: impl FnOnce(Entry) -> Option<Entry> + Send + 'static,
    ) -> Result<bool, StoreError> {
        let changed =
            move |old: Option<Value>| old.and_then(read).and_then(change).map(|entry| json!(entry)).ok_or(());
        Ok(self.store.update(&key(id), changed)?.is_ok())
    }

    /// Keeps an address for a call, and removes those of earlier runs.
    fn add(&self, request: CallbackRequest, id: &str, secret: &str) -> Result<(), StoreError> {
        self.sweep()?;
        let CallbackRequest { run, call, limit, max_body, .. } = request;
        let sha256 = format!("{:x}", Sha256::digest(secret));
        let (expires, state, body) = (self.clock.now().plus(limit), State::Open, None);
        let entry = Entry { run, call, sha256, expires, max_body, state, body };
        self.store.put(&key(id), Some(&json!(entry)));
        self.store.flush()
    }

    /// Does work of the store away from the calls.
    async fn blocking<T: Send + 'static>(
        &self,
        work: impl FnOnce(&Self) -> Result<T, StoreError> + Send + 'static,
    ) -> Result<T, ToolError> {
        let own = self.clone();
        let done = tokio::task::spawn_blocking(move || work(&own)).await;
        let failed = |error: &dyn fmt::Display| ToolError::failed(error.to_string());
        done.map_err(|error| failed(&error))?.map_err(|error| failed(&error))
    }
}

#[async_trait]
impl Callbacks for StoredCallbacks {
    async fn open(&self, request: CallbackRequest) -> Result<OpenCallback, ToolError> {
        let server = match &self.server {
            CallbackServer::Public(server) => server.as_str(),
            CallbackServer::Absent => {
                let message = "the tool waits for a callback, and no server runs to take it";
                return Err(refused(message, "no_callback_server", "begin the run under `weft serve`"));
            }
            CallbackServer::Private => {
                let message = "the tool waits for a callback, and the server has no public address";
                return Err(refused(
                    message,
                    "no_public_url",
                    "set `public_url` in [server] of weft.toml to the address at which other systems reach it",
                ));
            }
        };
        let (id, secret) = (random()?, random()?);
        let url = format!("{server}{PATH}/{id}/{secret}");
        let own = id.clone();
        self.blocking(move |callbacks| callbacks.add(request, &own, &secret)).await?;
        Ok(OpenCallback { id, url })
    }

    async fn body(&self, id: &str) -> Result<Value, ToolError> {
        loop {
            // It is enabled before the store is read: a body that comes in between is not missed.
            let mut arrived = std::pin::pin!(self.arrived.notified());
            arrived.as_mut().enable();
            let own = id.to_owned();
            match self.blocking(move |callbacks| callbacks.arrived_body(&own)).await? {
                Some(Arrival::Body(body)) => return Ok(body),
                Some(Arrival::Never) => {
                    let message = "the other system did not report the end of its work in time";
                    return Err(ToolError::new(ToolErrorKind::Timeout, message).with_code("callback_expired"));
                }
                None => {}
            }
            select(arrived, self.clock.sleep(PAUSE)).await;
        }
    }

    async fn flush(&self) -> Result<(), ToolError> {
        self.blocking(|callbacks| callbacks.store.flush()).await
    }

    async fn close(&self, id: &str) {
        let own = id.to_owned();
        let close = move |entry: Entry| {
            (entry.state == State::Open).then_some(Entry { state: State::Closed, ..entry })
        };
        if let Err(error) = self.blocking(move |callbacks| callbacks.change(&own, close)).await {
            log::warn!("an address of a call is not closed: {}", error.message_for_model);
        }
    }
}

fn refused(message: &str, code: &'static str, help: &str) -> ToolError {
    ToolError::new(ToolErrorKind::Refused, message).with_code(code).with_detail(help)
}

fn key(id: &str) -> String {
    format!("{KEY}{id}")
}

fn read(kept: Value) -> Option<Entry> {
    serde_json::from_value(kept).ok()
}

/// Random hexadecimal digits.
fn random() -> Result<String, ToolError> {
    let mut bytes = [0_u8; RANDOM_BYTES];
    getrandom::fill(&mut bytes)
        .map_err(|error| ToolError::failed(format!("no secret could be drawn: {error}")))?;
    // A digest of random bytes is as random, and has the form of the others.
    Ok(format!("{:x}", Sha256::digest(bytes)))
}

#[cfg(test)]
mod tests {
    use agent_types::{EventBody, EventLocation, EventSink, RunStatus, UnsequencedEvent, VirtualClock};
    use run_store::NewRun;

    use super::*;

    struct Calls {
        callbacks: StoredCallbacks,
        clock: VirtualClock,
    }

    impl Calls {
        fn new() -> Self {
            let clock = VirtualClock::new(Timestamp::default());
            let server = CallbackServer::Public("https://weft.example".to_owned().try_into().unwrap());
            let (store, arrived) = (Store::memory().unwrap(), Arc::default());
            let callbacks = StoredCallbacks::new(store, Arc::new(clock.clone()), server, arrived);
            Self { callbacks, clock }
        }

        fn begin(&self, run: &str) -> Arc<dyn EventSink> {
            let new = NewRun::new(RunId::new(run));
            self.callbacks.store.begin(new, Arc::new(self.clock.clone())).unwrap()
        }

        fn open(&self, run: &str, id: &str) {
            let request =
                CallbackRequest::new(RunId::new(run), CallId::new("c"), Duration::from_secs(9), 100);
            self.callbacks.add(request, id, "secret").unwrap();
        }

        fn bodies(&self) -> usize {
            self.callbacks.store.values(BODY_KEY).unwrap().len()
        }
    }

    fn end(run: &dyn EventSink) {
        let (status, exit, kind, partial, message) = (RunStatus::Cancelled, None, None, None, None);
        let body = EventBody::RunFinished { status, exit, kind, partial, message };
        run.record(&mut vec![UnsequencedEvent::new(EventLocation::default(), body)]);
    }

    #[tokio::test]
    async fn a_body_stays_until_its_run_has_ended() {
        let calls = Calls::new();
        let run = calls.begin("r");
        calls.open("r", "one");
        assert!(calls.callbacks.take("one", &json!({"report": 1})).unwrap());
        assert!(!calls.callbacks.take("one", &json!({"report": 2})).unwrap());
        assert_eq!(calls.bodies(), 1);
        calls.clock.advance(Duration::from_hours(1));
        calls.open("r", "two");
        assert_eq!(calls.callbacks.body("one").await.unwrap(), json!({"report": 1}));
        end(&*run);
        calls.open("s", "three");
        assert_eq!((calls.callbacks.known("one").unwrap(), calls.bodies()), (None, 0));
    }

    #[tokio::test]
    async fn the_addresses_of_a_run_that_has_ended_take_nothing() {
        let calls = Calls::new();
        let run = calls.begin("r");
        calls.open("r", "one");
        assert!(calls.callbacks.known("one").unwrap().unwrap().is_open);
        end(&*run);
        assert!(!calls.callbacks.known("one").unwrap().unwrap().is_open);
        assert!(!calls.callbacks.take("one", &json!({})).unwrap());
        assert_eq!(calls.bodies(), 0);
    }
}
