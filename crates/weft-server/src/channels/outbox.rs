//! The outbox of a channel: everything that is said in its sessions is sent in order, with retries, until it has arrived.
//!
//! The messages are those of the conversations; a cursor for each session says how many have arrived. A message is sent again
//! under its id where the process died before the cursor was kept. One server at a time delivers for a channel.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;
use std::time::Duration;

use agent_types::Backoff;
use serde::{Deserialize, Serialize};
use serde_json::json;
use session_channels::{Channel, ChannelError, Outgoing, WebhookChannel};
use sha2::{Digest, Sha256};
use tokio::task::JoinSet;
use weft_runs::{ChatMessage, RunsError, ThreadName};

use crate::app::App;
use crate::problem::Problem;

/// Interval at which sessions are checked for new messages.
const LOOK: Duration = Duration::from_millis(300);

/// Sessions to which is sent at once.
const AT_ONCE: usize = 16;

/// First and longest wait before a message is sent again.
const BACKOFF: (Duration, Duration) = (Duration::from_secs(1), Duration::from_mins(5));

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

/// Makes the cursor of a session where it has none: what was said before is not sent.
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
        if store.value(&key)?.is_none() {
            let sent = store.thread_length(&name.stored())?;
            let cursor = json!(Cursor { agent: name.agent, conversation, sent });
            let _ = store.update(&key, |old| if old.is_none() { Ok(cursor) } else { Err(()) })?;
        }
        Ok(())
    })
    .await
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

/// A session to which is sent.
type Sent = (String, Result<(), DeliveryError>);

/// Reason for which a message has to be sent again.
#[derive(Debug, thiserror::Error)]
enum DeliveryError {
    #[error(transparent)]
    Channel(#[from] ChannelError),
    #[error(transparent)]
    Runs(#[from] RunsError),
}

struct Outbox {
    app: Arc<App>,
    name: String,
    channel: Arc<WebhookChannel>,
    /// Sessions to which is sent just now.
    busy: HashSet<String>,
    /// Sessions that wait after failures: how many, and until when.
    failures: HashMap<String, (u32, Duration)>,
    sending: JoinSet<Sent>,
}

impl Outbox {
    fn new(app: Arc<App>, name: &str, channel: WebhookChannel) -> Self {
        let (busy, failures, sending) = (HashSet::new(), HashMap::new(), JoinSet::new());
        Self { app, name: name.to_owned(), channel: Arc::new(channel), busy, failures, sending }
    }

    /// Delivers until the server ends. What is not delivered then is delivered by the next one.
    async fn deliver(mut self) {
        let app = Arc::clone(&self.app);
        let mut lock = None;
        loop {
            tokio::select! {
                Some(sent) = self.sending.join_next() => self.note(sent.ok()),
                () = app.clock.sleep(LOOK) => {
                    if lock.is_none() {
                        // Another server delivers, until it ends.
                        let (store, work) = (app.store.clone(), prefix(&self.name));
                        let taken = app.blocking(move || Ok(store.work_lock(&work).ok()));
                        lock = taken.await.ok().flatten();
                    }
                    if lock.is_some() && let Err(problem) = self.look().await {
                        log::warn!("the channel `{}` cannot be read: {}", self.name, problem.detail);
                    }
                }
                () = app.closed.cancelled() => return,
            }
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
        for (name, cursor) in open.await? {
            let waits = self.failures.get(&name.thread).is_some_and(|(_, until)| *until > now);
            if waits || self.busy.len() >= AT_ONCE || !self.busy.insert(name.thread.clone()) {
                continue;
            }
            let (app, channel) = (Arc::clone(&self.app), Arc::clone(&self.channel));
            let key = prefix(&self.name) + &name.thread;
            self.sending.spawn(async move {
                let sent = send_all(&app, &*channel, &key, &name, cursor).await;
                (name.thread, sent)
            });
        }
        Ok(())
    }

    fn note(&mut self, sent: Option<Sent>) {
        let Some((session, sent)) = sent else { return };
        self.busy.remove(&session);
        let Err(error) = sent else {
            self.failures.remove(&session);
            return;
        };
        let count = self.failures.get(&session).map_or(0, |(count, _)| *count).saturating_add(1);
        let wait = Backoff::new(BACKOFF.0).with_max(BACKOFF.1).after(count);
        log::warn!(
            "a message of {session} did not go through the channel `{}` and is sent again in {} s: {error}",
            self.name,
            wait.as_secs()
        );
        self.failures.insert(session, (count, self.app.clock.elapsed().saturating_add(wait)));
    }
}

/// Sends what was said in a session behind its cursor, in order, and moves the cursor behind each message.
async fn send_all(
    app: &App,
    channel: &dyn Channel,
    key: &str,
    name: &ThreadName,
    mut cursor: Cursor,
) -> Result<(), DeliveryError> {
    let behind = app.runs.said_behind(name, cursor.sent).await?;
    for (number, message) in behind.messages {
        let message = outgoing(name, &cursor.conversation, number, message);
        if message.author == "user" {
            continue;
        }
        channel.send(&message).await?;
        cursor.sent = number;
        app.store.put(key, Some(&json!(cursor)));
    }
    cursor.sent = behind.entries;
    app.store.put(key, Some(&json!(cursor)));
    Ok(())
}

/// A message on its way out. Its id is the same each time that it is sent, and that of no other.
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
