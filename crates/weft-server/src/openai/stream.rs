//! The answer piece by piece.

use std::collections::VecDeque;
use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use agent_types::{RunId, TraceEvent};
use axum::body::Body;
use axum::response::{IntoResponse, Response};
use bytes::Bytes;
use http::header;
use serde_json::{Value, json};
use weft_runs::{Outcome, RunEvents, RunHandle};

use super::answer::{completion_id, end_of, extension, finish_reason, is_step, remaining_text, usage};
use super::content::Content;
use super::request::Form;
use super::{CancelOnDrop, error_of};
use crate::app::App;

/// Interval of comments on a silent stream.
const KEEP_ALIVE: Duration = Duration::from_secs(15);

/// End of a stream.
const DONE: &str = "data: [DONE]\n\n";

/// Characters of a piece at most; it ends behind a blank where there is one.
const PIECE: usize = 64;

/// End of the first piece of a text.
fn end_of_piece(text: &str) -> usize {
    let Some((limit, _)) = text.char_indices().nth(PIECE) else { return text.len() };
    let blank = text[..limit].rfind(char::is_whitespace);
    blank.map_or(limit, |at| at + text[at..].chars().next().map_or(1, char::len_utf8))
}

/// A run on its way to a client.
struct AnswerStream {
    app: Arc<App>,
    agent: String,
    run: RunId,
    events: RunEvents,
    done: Option<Outcome>,
    form: Form,
    content: Content,
    created: i64,
    ready: VecDeque<String>,
    guard: CancelOnDrop,
}

pub(super) fn answer(
    app: &Arc<App>,
    agent: String,
    begun: RunHandle,
    form: Form,
    content: Content,
) -> Response {
    let guard = CancelOnDrop::new(app, &begun);
    let RunHandle { id: run, events, outcome, .. } = begun;
    let created = app.clock.now().as_millis() / 1000;
    let mut answer = AnswerStream {
        app: Arc::clone(app),
        agent,
        run,
        events,
        done: Some(outcome),
        form,
        content,
        created,
        ready: VecDeque::new(),
        guard,
    };
    answer.delta(&json!({"role": "assistant", "content": ""}));
    let pieces = futures::stream::unfold(answer, |mut answer| async move {
        let piece = answer.next().await?;
        Some((Ok::<_, Infallible>(Bytes::from(piece)), answer))
    });
    let headers = [(header::CONTENT_TYPE, "text/event-stream"), (header::CACHE_CONTROL, "no-store")];
    (headers, Body::from_stream(pieces)).into_response()
}

impl AnswerStream {
    /// Returns the next piece of the stream; `None` after the last one.
    async fn next(&mut self) -> Option<String> {
        loop {
            if let Some(piece) = self.ready.pop_front() {
                return Some(piece);
            }
            self.done.as_ref()?;
            let silence = self.app.clock.sleep(KEEP_ALIVE);
            tokio::select! {
                batch = self.events.next() => match batch {
                    Ok(Some(batch)) => self.take(&batch),
                    Ok(None) => self.finish().await,
                    Err(error) => {
                        self.done = None;
                        self.send(&json!({"error": error_of(&error.into())}));
                    }
                },
                () = silence => return Some(": here\n\n".to_owned()),
            }
        }
    }

    fn take(&mut self, batch: &[TraceEvent]) {
        for event in batch {
            for piece in self.content.take(event) {
                self.send_text(&piece);
            }
            if self.form.steps && is_step(event) {
                let mut chunk = self.chunk(&json!([{"index": 0, "delta": {}, "finish_reason": null}]));
                chunk["weft"] = json!({"run": self.run, "event": event});
                self.send(&chunk);
            }
        }
    }

    async fn finish(&mut self) {
        let Some(done) = self.done.take() else { return };
        let ended = done.await;
        self.guard.has_ended = true;
        match end_of(ended, &self.run) {
            Ok(end) => {
                for piece in remaining_text(&end, &self.run, &mut self.content) {
                    self.send_text(&piece);
                }
                let choices = json!([{"index": 0, "delta": {}, "finish_reason": finish_reason(&end)}]);
                let mut last = self.chunk(&choices);
                if let Some(weft) = extension(&self.run, &end, self.form) {
                    last["weft"] = weft;
                }
                self.send(&last);
                if self.form.usage {
                    let mut chunk = self.chunk(&json!([]));
                    chunk["usage"] = usage(end.usage());
                    self.send(&chunk);
                }
                self.ready.push_back(DONE.to_owned());
            }
            Err(problem) => {
                self.send(&json!({"error": error_of(&problem)}));
                // The run is not over: it is the server that ends.
                if problem.code == "shutting_down" {
                    self.ready.push_back(DONE.to_owned());
                }
            }
        }
    }

    /// Sends a text in pieces of about a line, also where it came at once: clients show it as it is written.
    fn send_text(&mut self, text: &str) {
        let mut rest = text;
        while !rest.is_empty() {
            let (piece, more) = rest.split_at(end_of_piece(rest));
            self.delta(&json!({"content": piece}));
            rest = more;
        }
    }

    fn delta(&mut self, delta: &Value) {
        let chunk = self.chunk(&json!([{"index": 0, "delta": delta, "finish_reason": null}]));
        self.send(&chunk);
    }

    fn chunk(&self, choices: &Value) -> Value {
        json!({"id": completion_id(&self.run), "object": "chat.completion.chunk", "created": self.created,
            "model": self.agent, "choices": choices})
    }

    fn send(&mut self, chunk: &Value) {
        self.ready.push_back(format!("data: {chunk}\n\n"));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pieces_are_about_a_line_and_lose_nothing() {
        let broad = "\u{957f}".repeat(200);
        for text in ["", "short", &"word ".repeat(100), &broad, &format!("{}\n\n x", "y".repeat(63))] {
            let (mut rest, mut whole) = (text, String::new());
            while !rest.is_empty() {
                let (piece, more) = rest.split_at(end_of_piece(rest));
                assert!((1..=PIECE).contains(&piece.chars().count()));
                whole.push_str(piece);
                rest = more;
            }
            assert_eq!(whole, text);
        }
    }
}
