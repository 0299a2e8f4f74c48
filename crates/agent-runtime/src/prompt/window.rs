//! View of the tools and the conversation that the model has received, and updates when they change.
//!
//! Within one window the instructions and the catalogue stay as they were, so that what was sent before is the
//! beginning of what is sent next. A change is reported once, at the time it happens. A conversation that is
//! loaded or compacted begins a new window.

use std::sync::Arc;

use llm_provider::recorded::MessageDigest;
use llm_provider::{Message, tokens_of_tools};
use protocol_action::neutralize;
use tool_registry::{Snapshot, Tool};
use tool_schema::Catalogue;

use crate::history::{Exchange, visible};
use crate::profile::{AgentProfile, Language};
use crate::prompt::text::{Protocol, direct, exchange_messages, lang, summary_text, system_text};
use crate::requests::Logged;

/// Conversation as the model sees it, as messages that are only appended.
#[derive(Debug, Clone)]
pub(crate) struct Window {
    shown: Snapshot,
    messages: Arc<Vec<Message>>,
    /// Exchanges that are among the messages.
    upto: usize,
    /// Over the messages so far.
    digest: MessageDigest,
    /// Estimated, of the messages so far.
    tokens: usize,
    /// Estimated, of the instructions, which no compaction shortens.
    pinned: usize,
    /// Estimated, of the tools that are offered beside the messages.
    tool_tokens: usize,
    /// Part of it that the log of the run has.
    pub(crate) logged: Logged,
}

/// The window of a conversation, once there is one. It can be made anew at any time, so that two states differ in
/// nothing by it.
#[derive(Debug, Clone, Default)]
pub(crate) struct Shown(pub(crate) Option<Window>);

impl PartialEq for Shown {
    fn eq(&self, _: &Self) -> bool {
        true
    }
}

impl Window {
    /// Beginning of the window: instructions, the catalogue, and the summary of earlier messages.
    fn new(profile: &AgentProfile, tools: &Snapshot, protocol: Protocol, history: &[Exchange]) -> Self {
        let (summary, from) = visible_from(history);
        let mut window = Self {
            shown: tools.clone(),
            messages: Arc::default(),
            upto: from,
            digest: MessageDigest::default(),
            tokens: 0,
            pinned: 0,
            tool_tokens: native_tokens(tools, protocol),
            logged: Logged::default(),
        };
        let system = system_text(profile, tools, protocol);
        let mut begin = Vec::new();
        if !system.is_empty() {
            begin.push(Message::system(system));
        }
        window.pinned = begin.iter().map(Message::tokens).sum();
        begin.extend(summary.map(|text| Message::user(summary_text(text))));
        window.push(begin);
        window
    }

    fn push(&mut self, messages: Vec<Message>) {
        for message in &messages {
            self.digest.add(message);
            self.tokens += message.tokens();
        }
        // The previous request has released them, so that nothing is copied.
        Arc::make_mut(&mut self.messages).extend(messages);
    }

    /// Appends new messages. A change of the tools precedes the next message of the user.
    fn grow(&mut self, view: &View<'_>, tools: &Snapshot, history: &[Exchange]) {
        let mut change = None;
        if !tools.is_same(&self.shown) {
            if view.protocol == Protocol::Text {
                change = describe_change(view.profile, &self.shown, tools);
            }
            self.shown = tools.clone();
            self.tool_tokens = native_tokens(tools, view.protocol);
        }
        let mut messages = Vec::new();
        for (index, exchange) in history.iter().enumerate().skip(self.upto) {
            if index + 1 == history.len() && matches!(exchange, Exchange::User { .. }) {
                messages.extend(change.take().map(Message::user));
            }
            exchange_messages(exchange, view.protocol, view.frame, &mut messages);
        }
        messages.extend(change.map(Message::user));
        self.upto = history.len();
        self.push(messages);
    }

    /// The messages.
    pub(crate) fn messages(&self) -> Arc<Vec<Message>> {
        Arc::clone(&self.messages)
    }

    /// A short name for the messages, equal where they are equal.
    pub(crate) fn digest(&self) -> String {
        self.digest.name()
    }

    /// Estimated tokens that no compaction can save.
    pub(crate) const fn pinned(&self) -> usize {
        self.pinned + self.tool_tokens
    }

    /// Estimated tokens of the messages and of the tools beside them.
    pub(crate) const fn tokens(&self) -> usize {
        self.tokens + self.tool_tokens
    }
}

/// Estimated tokens of tools that are offered in the provider's own form.
fn native_tokens(tools: &Snapshot, protocol: Protocol) -> usize {
    match protocol {
        Protocol::Text => 0,
        Protocol::Native => {
            let specs: Vec<_> = direct(tools).map(|tool| tool_schema::tool_spec(tool.definition())).collect();
            tokens_of_tools(&specs)
        }
    }
}

/// Parameters of a window.
pub(crate) struct View<'v> {
    pub(crate) profile: &'v AgentProfile,
    pub(crate) protocol: Protocol,
    /// Delimits results whose turn has no separate frame.
    pub(crate) frame: &'v str,
}

impl Shown {
    /// The window for another run, whose log has nothing of it.
    pub(crate) fn begin_run(mut self) -> Self {
        if let Some(window) = &mut self.0 {
            window.logged = Logged::default();
        }
        self
    }

    /// The window of now, with all that was said so far in it.
    pub(crate) fn grown(&mut self, view: &View<'_>, tools: &Snapshot, history: &[Exchange]) -> &Window {
        let new = || Window::new(view.profile, tools, view.protocol, history);
        let window = self.0.get_or_insert_with(new);
        window.grow(view, tools, history);
        window
    }
}

/// Last summary, and the start of the exchanges after the summarized part.
fn visible_from(history: &[Exchange]) -> (Option<&str>, usize) {
    let (summary, mut seen) = visible(history);
    (summary, seen.next().map_or(history.len(), |(index, _)| index))
}

/// Description of added and removed tools, for the model.
fn describe_change(profile: &AgentProfile, before: &Snapshot, now: &Snapshot) -> Option<String> {
    let change = before.change_to(now);
    let is_new = |tool: &&Tool| change.added.contains(tool.id()) || change.changed.contains(tool.id());
    let language = profile.language.unwrap_or_default();
    let [came, gone] = match language {
        Language::En => ["The tools have changed. New ones:", "No longer there: "],
        Language::Zh => ["工具有变化。新增：", "不再可用："],
    };
    let mut catalogue = Catalogue::new(lang(language));
    let mut names = 0;
    for offered in direct(now).filter(is_new).filter_map(|tool| tool.offered().ok()) {
        catalogue = catalogue.tool(offered);
        names += 1;
    }
    let mut parts = Vec::new();
    if names > 0 {
        parts.push(format!("{came}\n{}", catalogue.render()));
    }
    if !change.removed.is_empty() {
        let removed: Vec<&str> = change.removed.iter().map(agent_types::ToolId::as_str).collect();
        parts.push(format!("{gone}{}", neutralize(&removed.join(", "))));
    }
    (!parts.is_empty()).then(|| parts.join("\n\n"))
}
