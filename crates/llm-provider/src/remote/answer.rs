//! An answer as it is put together from the parts that dialects find.

use std::collections::VecDeque;

use agent_types::Usage;
use serde_json::{Value, json};

use super::calls::{Calls, Lost, Piece};
use super::conversation::accepted_name;
use crate::{Finish, LlmError, LlmEvent, LlmRequest, NativeCall, StandardResponse};

/// Most bytes of text, reasoning and arguments of one answer.
const MAX_BYTES: usize = 64 << 20;

/// Most warnings about one answer: a server that sends something odd sends it again and again.
const MAX_WARNINGS: usize = 8;

/// Progress towards the end of an answer.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum End {
    /// More must come.
    #[default]
    Open,
    /// The server has said why the model stopped; more may come.
    Told,
    /// Nothing more comes.
    Last,
}

/// An answer that is put together.
#[derive(Debug, Default)]
pub(super) struct Answer {
    text: String,
    reasoning: String,
    calls: Calls,
    /// Reasoning for the next call, in the provider's form.
    kept: Vec<Value>,
    /// Bytes that are held beyond the texts.
    kept_bytes: usize,
    finish: Option<Finish>,
    end: End,
    is_refused: bool,
    input: u64,
    output: u64,
    /// Tokens read out of the provider's cache, and written into it.
    cache: (u64, u64),
    /// Bytes that came before the server last said how many tokens it had written.
    counted: usize,
    bytes: usize,
    warnings: Vec<String>,
    events: VecDeque<LlmEvent>,
}

impl Answer {
    pub(super) fn text(&mut self, piece: &str) {
        if !piece.is_empty() {
            self.bytes += piece.len();
            self.text.push_str(piece);
            self.events.push_back(LlmEvent::Text(piece.to_owned()));
        }
    }

    /// Text of a refusal: it is the answer, and the answer is marked.
    pub(super) fn refusal(&mut self, piece: &str) {
        self.is_refused |= !piece.is_empty();
        self.text(piece);
    }

    /// The whole text, of which a part may have come.
    pub(super) fn whole_text(&mut self, whole: &str) {
        match whole.strip_prefix(self.text.as_str()) {
            Some(new) => self.text(new),
            None if self.text.contains(whole.trim()) => {}
            None => self.unread("a text that differs from its pieces"),
        }
    }

    pub(super) fn reasoning(&mut self, piece: &str) {
        if !piece.is_empty() {
            self.bytes += piece.len();
            self.reasoning.push_str(piece);
            self.events.push_back(LlmEvent::Reasoning(piece.to_owned()));
        }
    }

    /// The whole reasoning, of which a part may have come.
    pub(super) fn whole_reasoning(&mut self, whole: &str) {
        let new = rest(&self.reasoning, whole).to_owned();
        self.reasoning(&new);
    }

    /// Keeps reasoning in the provider's form for the next call.
    pub(super) fn keep(&mut self, reasoning: Value) {
        self.retain_value(&reasoning);
        self.kept.push(reasoning);
    }

    /// Counts bytes that are held for the answer, here or by its dialect.
    pub(super) const fn retain(&mut self, bytes: usize) {
        self.kept_bytes = self.kept_bytes.saturating_add(bytes);
    }

    /// Counts a value that is held.
    pub(super) fn retain_value(&mut self, value: &Value) {
        self.retain(size_of::<Value>() + value.to_string().len());
    }

    /// Keeps the reasoning text under the name in which the server gave it.
    pub(super) fn keep_text(&mut self, name: &str) {
        if !self.reasoning.trim().is_empty() {
            self.kept.push(json!({name: self.reasoning}));
        }
    }

    pub(super) fn call(&mut self, piece: Piece<'_>) -> Result<(), LlmError> {
        let has_content = piece.arguments.is_some_and(|arguments| !matches!(arguments.as_str(), Some("")));
        match self.calls.push(piece) {
            Ok(grown) => {
                self.bytes += grown.arguments.len() + grown.name.len();
                self.retain(grown.held);
                // Each event repeats the name, so one event of the server can make many large ones.
                if self.is_too_long() {
                    return Err(Self::too_long());
                }
                if grown.is_new {
                    self.calls.add_reasoning(grown.index, std::mem::take(&mut self.kept));
                }
                if grown.is_new || !grown.arguments.is_empty() {
                    let (index, name, arguments) = (grown.index, grown.name, grown.arguments);
                    self.events.push_back(LlmEvent::ToolCall { index, name, arguments });
                }
                Ok(())
            }
            Err(Lost::NoCall) if has_content => {
                self.unread("arguments that belong to no call");
                Ok(())
            }
            Err(Lost::NoCall) => Ok(()),
            Err(Lost::TooMany) => Err(Self::too_many()),
        }
    }

    /// Adds a signature to the last call.
    pub(super) fn sign(&mut self, signature: &str) {
        self.retain(size_of::<String>() + signature.len());
        self.calls.sign(signature);
    }

    /// Warns of a part that could not be read.
    pub(super) fn unread(&mut self, part: &str) {
        let message = format!("the answer holds {part}, which could not be read");
        if self.warnings.len() < MAX_WARNINGS && !self.warnings.contains(&message) {
            self.warnings.push(message.clone());
            self.events.push_back(LlmEvent::Unread { message });
        }
    }

    pub(super) fn heartbeat(&mut self) {
        if self.events.is_empty() {
            self.events.push_back(LlmEvent::Heartbeat);
        }
    }

    /// Takes what the server says of tokens. Later numbers replace earlier ones; zero says nothing.
    pub(super) fn tokens(&mut self, input: Option<u64>, output: Option<u64>) {
        self.input = input.filter(|tokens| *tokens > 0).unwrap_or(self.input);
        if let Some(output) = output.filter(|tokens| *tokens > 0) {
            self.output = output;
            self.counted = self.bytes;
        }
    }

    /// Takes what the server says of its cache. Zero says nothing.
    pub(super) fn cache(&mut self, read: Option<u64>, written: Option<u64>) {
        let known = |tokens: Option<u64>, before| tokens.filter(|tokens| *tokens > 0).unwrap_or(before);
        self.cache = (known(read, self.cache.0), known(written, self.cache.1));
    }

    /// A whole message begins, which repeats the calls before it.
    pub(super) fn begin_whole(&mut self) {
        self.calls.begin_whole();
    }

    /// Takes the reason for which the model stopped. An unnatural end outweighs a natural one.
    pub(super) fn stop(&mut self, word: &str) {
        if word.is_empty() {
            return;
        }
        let finish = Finish::from_word(word);
        if self.finish.as_ref().is_none_or(Finish::is_whole) {
            self.finish = Some(finish);
        }
        self.end = self.end.max(End::Told);
    }

    /// Takes the last event of the format.
    pub(super) fn last(&mut self) {
        self.end = End::Last;
    }

    pub(super) const fn end(&self) -> End {
        self.end
    }

    pub(super) const fn is_too_long(&self) -> bool {
        self.bytes + self.kept_bytes > MAX_BYTES
    }

    /// Ends an answer that is far longer than the request allowed: a server that does not stop is stopped here.
    pub(super) fn keep_to(&mut self, max_tokens: Option<u64>) {
        let tokens = u64::try_from(self.bytes / 4).unwrap_or(u64::MAX);
        if max_tokens.is_some_and(|most| tokens > most.saturating_mul(2).saturating_add(1024)) {
            self.stop("length");
            self.last();
        }
    }

    pub(super) fn too_long() -> LlmError {
        LlmError::Stream { message: "the answer is too long".into() }
    }

    pub(super) fn too_many() -> LlmError {
        LlmError::Stream { message: "it holds too many calls".into() }
    }

    pub(super) const fn has_text(&self) -> bool {
        !self.text.is_empty()
    }

    /// The next event for the reader of the answer.
    pub(super) fn next(&mut self) -> Option<LlmEvent> {
        self.events.pop_front()
    }

    /// The whole answer to a request.
    pub(super) fn finish(mut self, request: &LlmRequest, source: &str) -> StandardResponse {
        let finish = match self.finish.take().unwrap_or_default() {
            finish if finish.is_whole() && self.is_refused => Finish::Other("refusal".into()),
            // Some servers say that they stopped, and mean that they wait for the results of calls.
            Finish::Stop if !self.calls.is_empty() => Finish::ToolCalls,
            finish => finish,
        };
        let kept = std::mem::take(&mut self.kept);
        self.calls.add_reasoning(0, kept);
        let usage = self.usage(request);
        StandardResponse {
            text: self.text,
            reasoning: Some(self.reasoning).filter(|text| !text.is_empty()),
            tool_calls: self.calls.finish().into_iter().map(|call| named(call, request, source)).collect(),
            usage,
            finish,
        }
    }

    /// The tokens. Those that the server did not report are estimated from the lengths of the texts.
    fn usage(&self, request: &LlmRequest) -> Usage {
        let uncounted = u64::try_from((self.bytes - self.counted).div_ceil(4)).unwrap_or(u64::MAX);
        let asked = || u64::try_from(request.tokens()).unwrap_or(u64::MAX);
        let input = if self.input == 0 { asked() } else { self.input };
        let (cached, written) = self.cache;
        let usage = Usage::new(input, self.output.saturating_add(uncounted)).with_cache(cached, written);
        if self.input == 0 || uncounted > 0 { usage.as_estimate() } else { usage }
    }
}

/// The part of a whole that has not come yet; nothing where what came is something else.
pub(super) fn rest<'w>(came: &str, whole: &'w str) -> &'w str {
    whole.strip_prefix(came).unwrap_or_default()
}

/// A call under the name by which its tool was offered, with the source of what belongs to its model alone.
fn named(mut call: NativeCall, request: &LlmRequest, source: &str) -> NativeCall {
    let is_it =
        |tool: &&agent_types::ToolSpec| tool.name != call.name && accepted_name(&tool.name) == call.name;
    if let Some(tool) = request.tools.iter().find(is_it) {
        call.name.clone_from(&tool.name);
    }
    if !call.reasoning.is_empty() || !call.signatures.is_empty() {
        call.source = Some(source.to_owned());
    }
    call
}
