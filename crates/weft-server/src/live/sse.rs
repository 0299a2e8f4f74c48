//! A run as `text/event-stream`.

use std::convert::Infallible;
use std::fmt::Write;
use std::sync::Arc;
use std::time::Duration;

use axum::body::Body;
use axum::response::{IntoResponse, Response};
use bytes::Bytes;
use futures::stream;
use http::header;

use super::subscription::{Subscription, Update};
use crate::app::App;

/// Interval of comments on a silent stream.
const KEEP_ALIVE: Duration = Duration::from_secs(15);

/// Answer that streams a run's events until it has ended. The id of each is its number, so that a browser resumes by
/// itself.
pub(crate) fn stream(app: &Arc<App>, subscription: Subscription) -> Response {
    let clock = Arc::clone(&app.clock);
    let updates = stream::unfold((subscription, clock), |(mut subscription, clock)| async move {
        let silence = clock.sleep(KEEP_ALIVE);
        let text = tokio::select! {
            update = subscription.next() => text(&update?),
            () = silence => ": here\n\n".to_owned(),
        };
        Some((Ok::<_, Infallible>(Bytes::from(text)), (subscription, clock)))
    });
    let headers = [(header::CONTENT_TYPE, "text/event-stream"), (header::CACHE_CONTROL, "no-store")];
    (headers, Body::from_stream(updates)).into_response()
}

fn text(update: &Update) -> String {
    let mut text = String::new();
    // Writing to a text cannot fail.
    let _ = match update {
        Update::Event(frame) => write!(text, "id: {}\ndata: {}\n\n", frame.seq, frame.json),
        // A comment: readers of events ignore it.
        Update::Live { seq } => write!(text, ": live {seq}\n\n"),
        Update::Lag { missed, after_seq } => {
            write!(text, "event: lag\ndata: {{\"missed\":{missed},\"after_seq\":{after_seq}}}\n\n")
        }
    };
    text
}
