//! The conversation of a user as it is said, in whichever process.

use std::convert::Infallible;
use std::fmt::Write;
use std::sync::Arc;
use std::time::Duration;

use axum::body::Body;
use axum::response::IntoResponse;
use bytes::Bytes;
use http::header;
use serde_json::{Value, json};
use weft_runs::{ChatMessage, RunService, SessionParty, ThreadAction, ThreadName};

use super::key::UserKey;
use crate::app::App;

/// Interval at which the conversation is read.
const LOOK: Duration = Duration::from_millis(300);

/// Readings between two comments on a silent stream.
const SILENCE: u32 = 50;

/// A user that follows the own conversation.
struct Follower {
    app: Arc<App>,
    name: ThreadName,
    /// Messages that the user has received.
    seen: usize,
    /// State that the user has received.
    state: Option<Value>,
    is_first: bool,
}

/// Answer that streams a conversation until the server ends.
pub(super) fn stream(
    app: &Arc<App>,
    agent: String,
    user: &UserKey,
    seen: usize,
) -> impl IntoResponse + use<> {
    let name = ThreadName::new(agent, user.thread());
    let follower = Follower { app: Arc::clone(app), name, seen, state: None, is_first: true };
    let pieces = futures::stream::unfold(follower, |mut follower| async move {
        let piece = follower.next().await?;
        Some((Ok::<_, Infallible>(Bytes::from(piece)), follower))
    });
    let headers = [(header::CONTENT_TYPE, "text/event-stream"), (header::CACHE_CONTROL, "no-store")];
    (headers, Body::from_stream(pieces))
}

impl Follower {
    /// The next messages and the state, when there are some; a comment now and then. `None` at shutdown.
    async fn next(&mut self) -> Option<String> {
        for _ in 0..SILENCE {
            if !std::mem::take(&mut self.is_first) {
                tokio::select! {
                    () = self.app.clock.sleep(LOOK) => {}
                    () = self.app.closing.cancelled() => return None,
                }
            }
            let text = self.news().await;
            if !text.is_empty() {
                return Some(text);
            }
        }
        Some(": here\n\n".to_owned())
    }

    async fn news(&mut self) -> String {
        // Writing to a text cannot fail.
        let mut text = String::new();
        // A conversation that has not begun cannot be read yet.
        if let Ok(thread) = self.app.runs.thread(&self.name, ThreadAction::Read).await {
            let shown: Vec<Value> = thread.messages().iter().filter_map(shown).collect();
            // A message that was taken back is followed by others in its place.
            self.seen = self.seen.min(shown.len());
            for message in shown.iter().skip(self.seen) {
                self.seen += 1;
                let _ = write!(text, "id: {}\nevent: message\ndata: {message}\n\n", self.seen);
            }
        }
        let state = self.state().await;
        if self.state.as_ref() != Some(&state) {
            let _ = write!(text, "event: state\ndata: {state}\n\n");
            self.state = Some(state);
        }
        text
    }

    /// Party that answers, and the name of a person.
    async fn state(&self) -> Value {
        match self.app.runs.session(&self.name.thread).await {
            Ok(info) if info.agent == self.name.agent => json!({"with": info.with, "person": info.person}),
            Ok(_) | Err(_) => json!({"with": SessionParty::Agent}),
        }
    }
}

/// Part of a message that its user sees: the words, and who said them. Calls, notes and events are not theirs.
fn shown(message: &ChatMessage) -> Option<Value> {
    let is_said = matches!(message.role, "user" | "assistant") && !message.text.trim().is_empty();
    is_said.then(|| {
        let author = json!(message.author);
        let name = (author == "person").then_some(message.name.as_deref()).flatten();
        json!({"role": message.role, "author": author, "name": name, "text": message.text, "at": message.at})
    })
}
