//! The chat of a user over a WebSocket: `hello` with the key, then messages both ways.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use axum::extract::ws::{Message, WebSocket};
use futures::StreamExt;
use futures::stream::{BoxStream, SelectAll, SplitSink, SplitStream};
use http::HeaderMap;
use serde::Deserialize;
use serde_json::{Value, json};
use session_channels::{Channel, ChannelError, Frame, Incoming, Outgoing};
use tokio::sync::Mutex;
use weft_project::WidgetSettings;
use weft_runs::ThreadName;

use super::key::UserKey;
use super::{begin, events, reply};
use crate::app::App;
use crate::channels::outgoing;
use crate::connection::Connection;
use crate::live::send_frame;
use crate::problem::Problem;

/// Interval at which the conversation is checked for new messages.
const LOOK: Duration = Duration::from_millis(300);

/// Checks between two pings.
const SILENCE: u32 = 100;

/// Message of a client.
#[derive(Debug, Deserialize)]
#[serde(tag = "type", rename_all = "snake_case", deny_unknown_fields)]
enum UserFrame {
    Hello {
        key: String,
        /// Messages that are known.
        #[serde(default)]
        after: usize,
    },
    Message {
        text: String,
        id: Option<String>,
    },
}

/// The channel of one user.
struct SocketChannel {
    app: Arc<App>,
    sink: Mutex<SplitSink<WebSocket, Message>>,
    conversation: String,
}

impl std::fmt::Debug for SocketChannel {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("SocketChannel").field("conversation", &self.conversation).finish_non_exhaustive()
    }
}

#[async_trait]
impl Channel for SocketChannel {
    fn receive(&self, frame: Frame<'_>) -> Result<Incoming, ChannelError> {
        match serde_json::from_slice(frame.body) {
            Ok(UserFrame::Message { text, id }) => Ok(Incoming::new(&self.conversation, text).with_id(id)),
            Ok(UserFrame::Hello { .. }) => {
                Err(ChannelError::BadMessage { message: "`hello` comes once".to_owned() })
            }
            Err(error) => Err(ChannelError::BadMessage { message: error.to_string() }),
        }
    }

    async fn send(&self, message: &Outgoing) -> Result<(), ChannelError> {
        let mut frame = json!(message);
        frame["type"] = json!("message");
        self.frame(&frame).await
    }
}

impl SocketChannel {
    async fn frame(&self, frame: &Value) -> Result<(), ChannelError> {
        self.raw(Message::text(frame.to_string())).await
    }

    async fn raw(&self, message: Message) -> Result<(), ChannelError> {
        let mut sink = self.sink.lock().await;
        send_frame(&self.app, &mut *sink, message).await.map_err(|_| ChannelError::Closed)
    }

    async fn error(&self, problem: &Problem, id: Option<&str>) -> Result<(), ChannelError> {
        let error = json!({"type": "error", "code": problem.code, "message": problem.detail, "id": id});
        self.frame(&error).await
    }
}

/// A user's chat.
struct Chat {
    app: Arc<App>,
    widget: WidgetSettings,
    user: UserKey,
    channel: SocketChannel,
    /// Answers that are being written.
    replies: SelectAll<BoxStream<'static, Value>>,
    /// Entries of the conversation that the client has.
    seen: usize,
    /// The state that the client has.
    state: Option<Value>,
    looks: u32,
}

/// Serves a socket until one side has enough.
pub(super) async fn serve(
    app: Arc<App>,
    name: String,
    widget: WidgetSettings,
    socket: WebSocket,
    connection: Arc<Connection>,
) {
    let (sink, mut frames) = socket.split();
    let hello = tokio::select! {
        first = frames.next() => first,
        () = app.clock.sleep(app.options.slow) => None,
        () = connection.evicted() => None,
    };
    let user = match hello.and_then(Result::ok) {
        Some(Message::Text(text)) => user_of(&name, &text),
        Some(_) | None => None,
    };
    let conversation = user.as_ref().map(|(user, _)| user.thread().to_owned()).unwrap_or_default();
    let channel = SocketChannel { app: Arc::clone(&app), sink: Mutex::new(sink), conversation };
    let Some((user, seen)) = user else {
        let problem = Problem::bad_request("bad_key", "the first message must be `hello` with the key");
        let _ = channel.error(&problem, None).await;
        return;
    };
    let (replies, state, looks) = (SelectAll::new(), None, 0);
    let mut chat = Chat { app, widget, user, channel, replies, seen, state, looks };
    // The client ended it, or was sent the reason.
    let _ = chat.run(frames, &connection).await;
}

fn user_of(widget: &str, text: &str) -> Option<(UserKey, usize)> {
    match serde_json::from_str(text) {
        Ok(UserFrame::Hello { key, after }) => Some((UserKey::new(widget, &key)?, after)),
        Ok(UserFrame::Message { .. }) | Err(_) => None,
    }
}

impl Chat {
    async fn run(
        &mut self,
        mut frames: SplitStream<WebSocket>,
        connection: &Connection,
    ) -> Result<(), ChannelError> {
        let app = Arc::clone(&self.app);
        self.look().await?;
        let mut next = Box::pin(app.clock.sleep(LOOK));
        loop {
            tokio::select! {
                frame = frames.next() => match frame {
                    Some(Ok(Message::Text(text))) => self.take(&text).await?,
                    Some(Ok(Message::Ping(_) | Message::Pong(_))) => {}
                    Some(_) | None => return Err(ChannelError::Closed),
                },
                Some(piece) = self.replies.next() => self.channel.frame(&piece).await?,
                () = &mut next => {
                    self.look().await?;
                    next = Box::pin(app.clock.sleep(LOOK));
                }
                () = connection.evicted() => return Err(ChannelError::Closed),
                () = app.closed.cancelled() => return self.channel.raw(Message::Close(None)).await,
            }
        }
    }

    /// Takes a message of the user.
    async fn take(&mut self, text: &str) -> Result<(), ChannelError> {
        let headers = HeaderMap::new();
        let received = self.channel.receive(Frame { headers: &headers, body: text.as_bytes() });
        let id = received.as_ref().ok().and_then(|incoming| incoming.id.clone());
        let begun = match received {
            Ok(incoming) => begin(&self.app, &self.widget, &self.user, incoming).await,
            Err(error) => Err(error.into()),
        };
        match begun {
            Ok(run) => {
                let accepted =
                    json!({"type": "accepted", "id": id, "place": run.place, "repeated": run.repeated});
                self.channel.frame(&accepted).await?;
                self.replies.push(reply::pieces(&self.app, run).filter_map(frame_of).boxed());
                Ok(())
            }
            Err(problem) => self.channel.error(&problem, id.as_deref()).await,
        }
    }

    /// Sends what was said meanwhile, by whichever author, and the state where it has changed.
    async fn look(&mut self) -> Result<(), ChannelError> {
        let name = ThreadName::new(&self.widget.agent, self.user.thread());
        if let Ok(behind) = self.app.runs.said_behind(&name, self.seen).await {
            for (number, message) in behind.messages {
                let message = outgoing(&name, "", number, message);
                self.channel.send(&as_user_sees(message, number)).await?;
            }
            self.seen = behind.entries;
        }
        let state = events::state(&self.app, &name).await;
        if self.state.as_ref() != Some(&state) {
            let mut frame = state.clone();
            frame["type"] = json!("state");
            self.channel.frame(&frame).await?;
            self.state = Some(state);
        }
        self.looks += 1;
        if self.looks.is_multiple_of(SILENCE) {
            self.channel.raw(Message::Ping(bytes::Bytes::new())).await?;
        }
        Ok(())
    }
}

/// Part of a message that its user sees; its id is its place, behind which a client continues.
fn as_user_sees(message: Outgoing, number: usize) -> Outgoing {
    let name = message.name.filter(|_| message.author == "person");
    Outgoing { id: number.to_string(), session: String::new(), name, ..message }
}

async fn frame_of(piece: reply::Piece) -> Option<Value> {
    match piece {
        reply::Piece::Delta(text) => Some(json!({"type": "delta", "text": text})),
        reply::Piece::End => Some(json!({"type": "end"})),
        reply::Piece::Silence => None,
    }
}
