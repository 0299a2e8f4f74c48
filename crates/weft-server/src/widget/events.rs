//! The conversation of a user as the user sees it.

use std::sync::Arc;

use axum::response::Response;
use serde_json::{Value, json};
use weft_runs::{ChatMessage, RunService, SessionParty, ThreadAction, ThreadName};

use super::key::UserKey;
use crate::app::App;
use crate::live::conversation::{self, Reading};

/// Answer that streams a conversation until the server ends.
pub(super) fn stream(app: &Arc<App>, agent: String, user: &UserKey, seen: usize) -> Response {
    let name = Arc::new(ThreadName::new(agent, user.thread()));
    let of = Arc::clone(app);
    let followed = Arc::clone(&name);
    conversation::stream(app, &followed, seen, move || {
        let (app, name) = (Arc::clone(&of), Arc::clone(&name));
        async move { Some(reading(&app, &name).await) }
    })
}

/// A conversation that has not begun cannot be read yet, and is empty.
async fn reading(app: &App, name: &ThreadName) -> Reading {
    let thread = app.runs.thread(name, ThreadAction::Read).await;
    let messages = thread.map(|thread| thread.messages().iter().filter_map(shown).collect());
    let state = state(app, name).await;
    Reading { messages: messages.unwrap_or_default(), news: state.clone(), state }
}

/// Party that answers, and the name of a person.
pub(super) async fn state(app: &App, name: &ThreadName) -> Value {
    match app.runs.session(&name.thread).await {
        Ok(info) if info.agent == name.agent => json!({"with": info.with, "person": info.person}),
        Ok(_) | Err(_) => json!({"with": SessionParty::Agent}),
    }
}

/// Part of a message that its user sees: the words, and who said them. Calls, notes and events are not theirs.
fn shown(message: &ChatMessage) -> Option<Value> {
    message.is_said().then(|| {
        let author = json!(message.author);
        let name = (author == "person").then_some(message.name.as_deref()).flatten();
        json!({"role": message.role, "author": author, "name": name, "text": message.text, "at": message.at})
    })
}
