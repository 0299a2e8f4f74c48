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

use super::subscription::{Subscription, Told};
use crate::app::App;

/// How often a silent stream says that it is there.
const KEEP_ALIVE: Duration = Duration::from_secs(15);

/// The answer that tells a run's events until it has ended. Each has its number as its id, so that a browser resumes by itself.
pub(crate) fn stream(app: &Arc<App>, subscription: Subscription) -> Response {
    let clock = Arc::clone(&app.clock);
    let told = stream::unfold((subscription, clock), |(mut subscription, clock)| async move {
        let silence = clock.sleep(KEEP_ALIVE);
        let text = tokio::select! {
            told = subscription.next() => text(&told?),
            () = silence => ": here\n\n".to_owned(),
        };
        Some((Ok::<_, Infallible>(Bytes::from(text)), (subscription, clock)))
    });
    let headers = [(header::CONTENT_TYPE, "text/event-stream"), (header::CACHE_CONTROL, "no-store")];
    (headers, Body::from_stream(told)).into_response()
}

fn text(told: &Told) -> String {
    let mut text = String::new();
    // Writing to a text cannot fail.
    let _ = match told {
        Told::Event(frame) => write!(text, "id: {}\ndata: {}\n\n", frame.seq, frame.json),
        // A comment: whoever reads events is not disturbed.
        Told::Live { seq } => write!(text, ": live {seq}\n\n"),
        Told::Lag { missed, after_seq } => {
            write!(text, "event: lag\ndata: {{\"missed\":{missed},\"after_seq\":{after_seq}}}\n\n")
        }
    };
    text
}
