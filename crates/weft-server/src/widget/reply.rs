//! The text of an answer as it is written. Whatever else the run does is not the user's.

use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use axum::body::Body;
use axum::response::IntoResponse;
use bytes::Bytes;
use futures::stream::{self, Stream, StreamExt};
use http::header;
use serde_json::json;
use weft_runs::{RunEvents, RunHandle};

use crate::app::App;
use crate::openai::Content;

/// Interval of comments on a silent stream.
const KEEP_ALIVE: Duration = Duration::from_secs(15);

struct Reply {
    app: Arc<App>,
    /// Absent once the run has ended or waits.
    events: Option<RunEvents>,
    content: Content,
}

/// Piece of an answer.
pub(super) enum Piece {
    /// Text that follows.
    Delta(String),
    /// Nothing for a while.
    Silence,
    /// The run has ended or waits.
    End,
}

/// The pieces of the answer of a run. The run continues where the client leaves.
pub(super) fn pieces(app: &Arc<App>, begun: RunHandle) -> impl Stream<Item = Piece> + Send + use<> {
    let reply =
        Reply { app: Arc::clone(app), events: Some(begun.events), content: Content::new(true, false) };
    stream::unfold(reply, |mut reply| async move {
        let piece = reply.next().await?;
        Some((piece, reply))
    })
}

/// Answer that streams the text of a run.
pub(super) fn sse(app: &Arc<App>, begun: RunHandle) -> impl IntoResponse + use<> {
    let pieces = pieces(app, begun).map(|piece| {
        Ok::<_, Infallible>(Bytes::from(match piece {
            Piece::Delta(text) => format!("event: delta\ndata: {}\n\n", json!({"text": text})),
            Piece::Silence => ": here\n\n".to_owned(),
            Piece::End => "event: end\ndata: {}\n\n".to_owned(),
        }))
    });
    let headers = [(header::CONTENT_TYPE, "text/event-stream"), (header::CACHE_CONTROL, "no-store")];
    (headers, Body::from_stream(pieces))
}

impl Reply {
    async fn next(&mut self) -> Option<Piece> {
        loop {
            let events = self.events.as_mut()?;
            let batch = tokio::select! {
                batch = events.next() => batch,
                () = self.app.clock.sleep(KEEP_ALIVE) => return Some(Piece::Silence),
            };
            let Ok(Some(batch)) = batch else {
                self.events = None;
                return Some(Piece::End);
            };
            let text: String = batch.iter().flat_map(|event| self.content.take(event)).collect();
            if !text.is_empty() {
                return Some(Piece::Delta(text));
            }
        }
    }
}
