//! A conversation as `text/event-stream`: its messages and states as they come, in whichever process.

use std::convert::Infallible;
use std::fmt::Write;
use std::sync::Arc;
use std::time::Duration;

use axum::body::Body;
use axum::response::{IntoResponse, Response};
use bytes::Bytes;
use futures::stream;
use http::header;
use serde_json::Value;
use weft_runs::{ThreadChanges, ThreadName};

use crate::app::App;

/// First and longest interval at which the conversation is read for what other processes add. What this process adds is
/// read at once.
const LOOK: (Duration, Duration) = (Duration::from_millis(300), Duration::from_millis(1200));

/// Readings between two comments on a silent stream.
const SILENCE: u32 = 13;

/// A conversation at a moment, as one kind of clients sees it.
#[derive(Debug, Default)]
pub(crate) struct Reading {
    /// The messages, oldest first.
    pub(crate) messages: Vec<Value>,
    /// The state that is sent when it changes.
    pub(crate) state: Value,
    /// Part of the state whose change is news.
    pub(crate) news: Value,
}

/// A client that follows a conversation.
struct Follower<R> {
    app: Arc<App>,
    read: R,
    /// Messages that it has received.
    seen: usize,
    /// News that it has received.
    news: Option<Value>,
    changes: ThreadChanges,
    is_first: bool,
}

/// Answer that streams what was said behind `seen` messages, and then what is said, until the server ends or the
/// conversation cannot be read.
pub(crate) fn stream<R, F>(app: &Arc<App>, name: &ThreadName, seen: usize, read: R) -> Response
where
    R: FnMut() -> F + Send + 'static,
    F: Future<Output = Option<Reading>> + Send + 'static,
{
    let changes = app.runs.thread_changes(name);
    let follower = Follower { app: Arc::clone(app), read, seen, news: None, changes, is_first: true };
    let pieces = stream::unfold(follower, |mut follower| async move {
        let piece = follower.next().await?;
        Some((Ok::<_, Infallible>(Bytes::from(piece)), follower))
    });
    let headers = [(header::CONTENT_TYPE, "text/event-stream"), (header::CACHE_CONTROL, "no-store")];
    (headers, Body::from_stream(pieces)).into_response()
}

impl<R, F> Follower<R>
where
    R: FnMut() -> F + Send,
    F: Future<Output = Option<Reading>> + Send,
{
    /// The next messages and the state, when there are some; a comment now and then. `None` at shutdown.
    async fn next(&mut self) -> Option<String> {
        let mut pause = LOOK.0;
        for _ in 0..SILENCE {
            if !std::mem::take(&mut self.is_first) {
                tokio::select! {
                    () = self.changes.next() => {}
                    () = self.app.clock.sleep(pause) => pause = (2 * pause).min(LOOK.1),
                    () = self.app.closing.cancelled() => return None,
                }
            }
            let reading = (self.read)().await?;
            let text = self.take(reading);
            if !text.is_empty() {
                return Some(text);
            }
        }
        Some(": here\n\n".to_owned())
    }

    fn take(&mut self, reading: Reading) -> String {
        // Writing to a text cannot fail.
        let mut text = String::new();
        // A message that was taken back is followed by others in its place.
        self.seen = self.seen.min(reading.messages.len());
        for message in reading.messages.iter().skip(self.seen) {
            self.seen += 1;
            let _ = write!(text, "id: {}\nevent: message\ndata: {message}\n\n", self.seen);
        }
        if self.news.as_ref() != Some(&reading.news) {
            let _ = write!(text, "event: state\ndata: {}\n\n", reading.state);
            self.news = Some(reading.news);
        }
        text
    }
}
