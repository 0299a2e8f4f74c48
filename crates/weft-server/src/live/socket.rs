//! Runs over a WebSocket: `hello`, then any number of `sub`.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use agent_types::RunId;
use axum::extract::ws::{CloseFrame, Message, WebSocket, close_code};
use futures::future::{Either, select};
use futures::stream::{self, AbortHandle, BoxStream, SelectAll};
use futures::{Sink, SinkExt, StreamExt};
use serde::Deserialize;
use serde_json::{Map, Value, json};
use weft_runs::{AgentPlan, AgentRequest, WhenBusy};

use super::subscription::{Subscription, Update};
use crate::app::App;
use crate::connection::Connection;
use crate::runs::{begin_agent, check_message_id};

/// Interval of pings to a silent client.
const PING: Duration = Duration::from_secs(30);

/// Message to a client that does not begin with `hello`.
const NO_HELLO: &str = "the first message must be `hello` with the token";

/// Message of a client.
#[derive(Debug, Deserialize)]
#[serde(tag = "type", rename_all = "snake_case", deny_unknown_fields)]
enum ClientFrame {
    Hello {
        token: String,
    },
    Sub {
        run: String,
        #[serde(default)]
        after_seq: u64,
    },
    Unsub {
        run: String,
    },
    /// A message to a conversation, whose run is then followed.
    Say {
        agent: String,
        thread: String,
        text: String,
        #[serde(default)]
        context: Map<String, Value>,
        #[serde(default)]
        busy: WhenBusy,
        message_id: Option<String>,
    },
}

/// Message about one of the runs that a socket follows; `None` after the last one.
type Followed = (RunId, Option<Update>);

/// A socket and what it follows.
struct Session {
    app: Arc<App>,
    socket: WebSocket,
    /// It counts as long as the socket is open.
    connection: Arc<Connection>,
    updates: SelectAll<BoxStream<'static, Followed>>,
    subscriptions: HashMap<RunId, AbortHandle>,
}

/// End of a session.
pub(crate) struct Over;

/// Serves a socket until one side has enough. `is_known` says that the token came with the request.
pub(crate) async fn open(app: Arc<App>, socket: WebSocket, connection: Arc<Connection>, is_known: bool) {
    let updates = SelectAll::new();
    let mut session = Session { app, socket, connection, updates, subscriptions: HashMap::new() };
    // The client ended the session, or was sent the reason.
    let _ = session.serve(is_known).await;
}

impl Session {
    async fn serve(&mut self, is_known: bool) -> Result<(), Over> {
        if !is_known {
            self.hello().await?;
        }
        self.connection.is_known();
        self.greet().await?;
        let app = Arc::clone(&self.app);
        loop {
            tokio::select! {
                message = self.socket.recv() => self.heed(message).await?,
                Some((run, update)) = self.updates.next() => match update {
                    Some(update) => self.send(Message::text(text(&run, update))).await?,
                    None => drop(self.subscriptions.remove(&run)),
                },
                () = app.clock.sleep(PING) => self.send(Message::Ping(bytes::Bytes::new())).await?,
                () = app.closed.cancelled() => {
                    return self.close(close_code::AWAY, "the server ends").await;
                }
            }
        }
    }

    /// Waits for the token; nothing else is heard before it.
    async fn hello(&mut self) -> Result<(), Over> {
        let late = self.app.clock.sleep(self.app.options.slow);
        let first = tokio::select! {
            first = self.socket.recv() => first,
            () = late => return self.close(close_code::POLICY, "no hello in time").await,
            () = self.connection.evicted() => return Err(Over),
        };
        let text = match first {
            Some(Ok(Message::Text(text))) => text,
            None | Some(Err(_)) => return Err(Over),
            Some(Ok(_)) => return self.refuse("token_required", NO_HELLO).await,
        };
        match serde_json::from_str(&text) {
            Ok(ClientFrame::Hello { token }) if self.app.access.opens(Some(&token)) => Ok(()),
            Ok(ClientFrame::Hello { .. }) => {
                self.refuse("bad_token", "the token is not that of this server").await
            }
            Ok(_) | Err(_) => self.refuse("token_required", NO_HELLO).await,
        }
    }

    async fn greet(&mut self) -> Result<(), Over> {
        let hello = json!({
            "type": "hello",
            "version": env!("CARGO_PKG_VERSION"),
            "max_subscriptions": self.app.options.settings.max_subscriptions,
        });
        self.send(Message::text(hello.to_string())).await
    }

    async fn heed(&mut self, message: Option<Result<Message, axum::Error>>) -> Result<(), Over> {
        let text = match message {
            None | Some(Ok(Message::Close(_))) => return Err(Over),
            // A frame that is too long or broken: the library has said so already where it could.
            Some(Err(_)) => return self.close(close_code::SIZE, "a message may have 1 MiB").await,
            Some(Ok(Message::Ping(_) | Message::Pong(_))) => return Ok(()),
            Some(Ok(Message::Binary(_))) => {
                return self.error(None, "bad_frame", "messages are texts").await;
            }
            Some(Ok(Message::Text(text))) => text,
        };
        match agent_types::read_json(text.as_bytes()) {
            Ok(ClientFrame::Hello { .. }) => self.greet().await,
            Ok(ClientFrame::Sub { run, after_seq }) => self.subscribe(RunId::new(run), after_seq).await,
            Ok(ClientFrame::Unsub { run }) => {
                if let Some(handle) = self.subscriptions.remove(&RunId::new(run)) {
                    handle.abort();
                }
                Ok(())
            }
            Ok(ClientFrame::Say { agent, thread, text, context, busy, message_id }) => {
                let plan = AgentPlan { message_id, values: context, ..AgentPlan::new(agent, text) };
                let thread = Some(thread);
                self.say(AgentRequest { plan, thread, busy, ..AgentRequest::default() }).await
            }
            // Results of tools and approvals come by other ways, and from people only.
            Err(error) => self.error(None, "bad_frame", &error.to_string()).await,
        }
    }

    /// Follows a run. Following it again begins anew behind another event.
    async fn subscribe(&mut self, run: RunId, after_seq: u64) -> Result<(), Over> {
        if let Some(handle) = self.subscriptions.remove(&run) {
            handle.abort();
        }
        let limit = self.app.options.settings.max_subscriptions;
        if self.subscriptions.len() >= limit {
            let detail = format!("a socket may follow {limit} runs");
            return self.error(Some(&run), "too_many_subscriptions", &detail).await;
        }
        let subscription = match Subscription::new(&self.app, run.clone(), after_seq).await {
            Ok(subscription) => subscription,
            Err(problem) => return self.error(Some(&run), &problem.code, &problem.detail).await,
        };
        let named = run.clone();
        let updates = stream::unfold(subscription, move |mut subscription| {
            let run = named.clone();
            async move { subscription.next().await.map(|update| ((run, Some(update)), subscription)) }
        });
        let over = run.clone();
        let updates = updates.chain(stream::once(async move { (over, None) }));
        let (updates, handle) = stream::abortable(updates);
        self.updates.push(updates.boxed());
        self.subscriptions.insert(run, handle);
        Ok(())
    }

    /// Begins the run of a message and follows it.
    async fn say(&mut self, request: AgentRequest) -> Result<(), Over> {
        let id = request.plan.message_id.clone();
        let begun = match check_message_id(id.as_deref()) {
            Ok(()) => begin_agent(&self.app, request).await,
            Err(problem) => Err(problem),
        };
        match begun {
            Ok(begun) => {
                let accepted = json!({"type": "accepted", "run": begun.id, "place": begun.place,
                    "repeated": begun.repeated, "message_id": id});
                self.send(Message::text(accepted.to_string())).await?;
                self.subscribe(begun.id.clone(), 0).await
            }
            Err(problem) => {
                let error = json!({"type": "error", "code": problem.code, "message": problem.detail,
                    "message_id": id});
                self.send(Message::text(error.to_string())).await
            }
        }
    }

    async fn error(&mut self, run: Option<&RunId>, code: &str, message: &str) -> Result<(), Over> {
        let mut error = json!({"type": "error", "code": code, "message": message});
        if let Some(run) = run {
            error["run"] = Value::from(run.as_str());
        }
        self.send(Message::text(error.to_string())).await
    }

    async fn refuse(&mut self, code: &str, message: &str) -> Result<(), Over> {
        self.error(None, code, message).await?;
        self.close(close_code::POLICY, message).await
    }

    async fn close(&mut self, code: u16, reason: &str) -> Result<(), Over> {
        let frame = CloseFrame { code, reason: reason.into() };
        self.send(Message::Close(Some(frame))).await?;
        Err(Over)
    }

    async fn send(&mut self, message: Message) -> Result<(), Over> {
        send_frame(&self.app, &mut self.socket, message).await
    }
}

/// Sends, unless the client has taken nothing for too long.
pub(crate) async fn send_frame(
    app: &App,
    socket: &mut (impl Sink<Message> + Unpin),
    message: Message,
) -> Result<(), Over> {
    match select(socket.send(message), app.clock.sleep(app.options.stalled)).await {
        Either::Left((Ok(()), _)) => Ok(()),
        Either::Left((Err(_), _)) | Either::Right(((), _)) => Err(Over),
    }
}

fn text(run: &RunId, update: Update) -> String {
    match update {
        // The event is JSON already.
        Update::Event(frame) => format!(r#"{{"type":"event","run":{},"event":{}}}"#, json!(run), frame.json),
        Update::Live { seq } => json!({"type": "live", "run": run, "seq": seq}).to_string(),
        Update::Lag { missed, after_seq } => {
            json!({"type": "lag", "run": run, "missed": missed, "after_seq": after_seq}).to_string()
        }
    }
}
