//! The outbox of a channel: everything that is said in its sessions is sent in order, with retries, until it has arrived.
//!
//! The messages are those of the conversations; a cursor for each session says how many have arrived. A message is sent again
//! under its id where the process died before the cursor was kept. One server at a time delivers for a channel.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use agent_types::Backoff;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use session_channels::{Channel, ChannelError, Outgoing, WebhookChannel};
use sha2::{Digest, Sha256};
use tokio::task::{Id, JoinSet};
use weft_runs::{ChatMessage, RunsError, ThreadName};

use crate::app::App;
use crate::problem::Problem;

/// Interval at which sessions are checked for new messages.
const LOOK: Duration = Duration::from_millis(300);

/// Sessions to which is sent at once.
const AT_ONCE: usize = 16;

/// First and longest wait before a message is sent again.
const BACKOFF: (Duration, Duration) = (Duration::from_secs(1), Duration::from_mins(5));

/// Time after which a message that the other side refuses, by a status of the client's faults, is left out, so that those
/// behind it are sent.
const GIVE_UP: Duration = Duration::from_hours(24);

/// Cursor of a session, as the store has it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
struct Cursor {
    agent: String,
    /// Name of the conversation on the other side.
    conversation: String,
    /// Entries of the conversation that need no sending any more.
    sent: usize,
}

/// Beginning of the names of the cursors of a channel.
fn prefix(channel: &str) -> String {
    format!("channel:{channel}/")
}

/// Makes the cursor of a session where it has none, or one for another agent: what was said before is not sent.
pub(super) async fn open(
    app: &App,
    channel: &str,
    agent: &str,
    session: &str,
    conversation: &str,
) -> Result<(), Problem> {
    let (store, key) = (app.store.clone(), prefix(channel) + session);
    let name = ThreadName::new(agent, session);
    let conversation = conversation.to_owned();
    app.blocking(move || {
        if !is_of_agent(store.value(&key)?.as_ref(), &name.agent) {
            let sent = store.thread_length(&name.stored())?;
            let cursor = json!(Cursor { agent: name.agent.clone(), conversation, sent });
            let change = move |old: Option<Value>| match old {
                Some(old) if is_of_agent(Some(&old), &name.agent) => Err(()),
                _ => Ok(cursor),
            };
            // Another request may have made it.
            let _ = store.update(&key, change)?;
        }
        Ok(())
    })
    .await
}

fn is_of_agent(cursor: Option<&Value>, agent: &str) -> bool {
    cursor.is_some_and(|cursor| cursor["agent"] == *agent)
}

/// Delivers for all channels until the server ends.
pub(crate) async fn deliver_all(app: Arc<App>) {
    let mut channels = JoinSet::new();
    let project = app.project();
    for (name, settings) in &project.settings().channels {
        if settings.to.is_none() {
            continue;
        }
        match project.channel(name) {
            Ok(Some(channel)) => {
                let outbox = Outbox::new(Arc::clone(&app), name, channel);
                channels.spawn(outbox.deliver());
            }
            Ok(None) => {}
            Err(error) => log::error!("nothing is sent through the channel `{name}`: {error}"),
        }
    }
    while channels.join_next().await.is_some() {}
}

/// Reason for which a message has to be sent again.
#[derive(Debug, thiserror::Error)]
enum DeliveryError {
    #[error(transparent)]
    Channel(#[from] ChannelError),
    #[error(transparent)]
    Runs(#[from] RunsError),
}

impl DeliveryError {
    /// Returns `true` if the other side has the message, and does not want it.
    const fn is_refusal(&self) -> bool {
        matches!(self, Self::Channel(error) if error.is_refusal())
    }
}

/// A session that waits after failures.
struct Failing {
    count: u32,
    since: Duration,
    until: Duration,
    /// The message is left out when it fails once more.
    gives_up: bool,
}

struct Outbox {
    app: Arc<App>,
    name: String,
    channel: Arc<WebhookChannel>,
    /// Sessions to which is sent just now, by their tasks.
    busy: HashMap<Id, String>,
    /// The session that was served last: those behind it are next.
    last: String,
    /// Sessions have to wait until another has been served.
    is_full: bool,
    failures: HashMap<String, Failing>,
    sending: JoinSet<Result<(), DeliveryError>>,
}

impl Outbox {
    fn new(app: Arc<App>, name: &str, channel: WebhookChannel) -> Self {
        let (name, channel, last) = (name.to_owned(), Arc::new(channel), String::new());
        let (busy, failures, sending) = (HashMap::new(), HashMap::new(), JoinSet::new());
        Self { app, name, channel, busy, last, is_full: false, failures, sending }
    }

    /// Delivers until the server ends. What is not delivered then is delivered by the next one.
    async fn deliver(mut self) {
        let app = Arc::clone(&self.app);
        let mut lock = None;
        loop {
            tokio::select! {
                Some(sent) = self.sending.join_next_with_id() => {
                    match sent {
                        Ok((task, sent)) => self.note(task, sent),
                        // It failed in a way of its own; the next look begins it again.
                        Err(error) => drop(self.busy.remove(&error.id())),
                    }
                    if self.is_full {
                        self.look_or_warn().await;
                    }
                }
                () = app.clock.sleep(LOOK) => {
                    if lock.is_none() {
                        // Another server delivers, until it ends.
                        let (store, work) = (app.store.clone(), prefix(&self.name));
                        let taken = app.blocking(move || Ok(store.work_lock(&work).ok()));
                        lock = taken.await.ok().flatten();
                    }
                    if lock.is_some() {
                        self.look_or_warn().await;
                    }
                }
                () = app.closed.cancelled() => return,
            }
        }
    }

    async fn look_or_warn(&mut self) {
        if let Err(problem) = self.look().await {
            log::warn!("the channel `{}` cannot be read: {}", self.name, problem.detail);
        }
    }

    /// Begins to send to sessions in which something was said.
    async fn look(&mut self) -> Result<(), Problem> {
        let (store, cursors) = (self.app.store.clone(), prefix(&self.name));
        let open = self.app.blocking(move || {
            let mut open = Vec::new();
            for (key, value) in store.values(&cursors)? {
                let Ok(mut cursor) = serde_json::from_value::<Cursor>(value) else { continue };
                let Some(session) = key.strip_prefix(&cursors) else { continue };
                let name = ThreadName::new(cursor.agent.clone(), session);
                let length = store.thread_length(&name.stored())?;
                if length > cursor.sent {
                    open.push((name, cursor));
                } else if length < cursor.sent {
                    // A message was taken back, and others take its place.
                    cursor.sent = length;
                    store.put(&key, Some(&json!(cursor)));
                }
            }
            Ok(open)
        });
        let now = self.app.clock.elapsed();
        let mut open = open.await?;
        // All have their turn, however many there are.
        let next = open.iter().position(|(name, _)| name.thread > self.last).unwrap_or_default();
        open.rotate_left(next);
        self.is_full = false;
        for (name, cursor) in open {
            let failing = self.failures.get(&name.thread);
            if failing.is_some_and(|failing| failing.until > now)
                || self.busy.values().any(|busy| *busy == name.thread)
            {
                continue;
            }
            if self.busy.len() >= AT_ONCE {
                self.is_full = true;
                break;
            }
            let gives_up = failing.is_some_and(|failing| failing.gives_up);
            let (app, channel, session) =
                (Arc::clone(&self.app), Arc::clone(&self.channel), name.thread.clone());
            let key = prefix(&self.name) + &session;
            let sending = async move { send_all(&app, &*channel, &key, &name, cursor, gives_up).await };
            self.busy.insert(self.sending.spawn(sending).id(), session.clone());
            self.last = session;
        }
        Ok(())
    }

    fn note(&mut self, task: Id, sent: Result<(), DeliveryError>) {
        let Some(session) = self.busy.remove(&task) else { return };
        let Err(error) = sent else {
            self.failures.remove(&session);
            return;
        };
        let now = self.app.clock.elapsed();
        let failing = self.failures.get(&session);
        let count = failing.map_or(0, |failing| failing.count).saturating_add(1);
        let since = failing.map_or(now, |failing| failing.since);
        let gives_up = error.is_refusal() && now.saturating_sub(since) >= GIVE_UP;
        let wait = Backoff::new(BACKOFF.0).with_max(BACKOFF.1).after(count);
        log::warn!(
            "a message of {session} did not go through the channel `{}` and is sent again in {} s: {error}",
            self.name,
            wait.as_secs()
        );
        self.failures.insert(session, Failing { count, since, until: now.saturating_add(wait), gives_up });
    }
}

/// Sends what was said in a session behind its cursor, in order, and moves the cursor behind each message. With `gives_up` the
/// first message is left out where it is refused.
async fn send_all(
    app: &App,
    channel: &dyn Channel,
    key: &str,
    name: &ThreadName,
    mut cursor: Cursor,
    mut gives_up: bool,
) -> Result<(), DeliveryError> {
    let behind = app.runs.said_behind(name, cursor.sent).await?;
    for (number, message) in behind.messages {
        let message = outgoing(name, &cursor.conversation, number, message);
        if message.author == "user" {
            continue;
        }
        match channel.send(&message).await.map_err(DeliveryError::from) {
            Err(error) if gives_up && error.is_refusal() => {
                log::error!(
                    "message {} of {} was refused for a day and is left out: {error}",
                    message.id,
                    name.thread
                );
            }
            sent => sent?,
        }
        gives_up = false;
        cursor.sent = number;
        app.store.put(key, Some(&json!(cursor)));
    }
    cursor.sent = behind.entries;
    app.store.put(key, Some(&json!(cursor)));
    Ok(())
}

/// An outgoing message. Its id is the same each time that it is sent, and that of no other.
pub(crate) fn outgoing(name: &ThreadName, conversation: &str, number: usize, said: ChatMessage) -> Outgoing {
    let author = json!(said.author).as_str().unwrap_or_default().to_owned();
    let place = json!([name.agent, name.thread, number, author, said.at, said.text]);
    Outgoing {
        id: format!("{:.32x}", Sha256::digest(place.to_string())),
        conversation: conversation.to_owned(),
        session: name.thread.clone(),
        author,
        name: said.name,
        text: said.text,
        at: said.at,
        failed: said.failed,
    }
}
