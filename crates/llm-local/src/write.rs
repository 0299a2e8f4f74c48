//! One answer, token by token.

use std::time::{Duration, Instant};

use agent_types::Usage;
use llm_provider::{Finish, LlmError, LlmEvent, ModelParameters, StandardResponse};

use crate::forward::Transformer;
use crate::grammar_guard::GrammarGuard;
use crate::sample::Sampler;
use crate::vocabulary::Vocabulary;

/// The opener of a block: a limit of tokens does not cut one that has begun.
const OPENER: &str = "<ACTION>";

/// Measurements of one answer.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Figures {
    /// Tokens of the prompt.
    pub prompt: usize,
    /// Number of those tokens that were known from the previous prompt.
    pub known: usize,
    /// Tokens written.
    pub written: usize,
    /// Those of them that the grammar left no choice about.
    pub forced: usize,
    /// Masks of a grammar that were made.
    pub masks: u32,
    /// Time for compiling the grammar; none where it was known.
    pub compiling: Duration,
    /// Time for reading the prompt.
    pub reading: Duration,
    /// Time for writing, with the masks.
    pub writing: Duration,
    /// Time for the grammar while writing.
    pub masking: Duration,
}

/// Receiver of the answer; `emit` returns `false` once it is gone.
pub(crate) trait TokenSink {
    fn emit(&mut self, event: LlmEvent) -> bool;
    fn is_there(&self) -> bool;
}

/// Reason for which an answer stopped early: the receiver is gone, or an error.
pub(crate) enum Stopped {
    ReceiverGone,
    Failed(LlmError),
}

impl Stopped {
    pub(crate) fn failed(message: impl std::fmt::Display) -> Self {
        Self::Failed(LlmError::Stream { message: message.to_string() })
    }
}

/// An answer that is being written.
pub(crate) struct Writing<'w, L> {
    pub(crate) model: &'w mut Transformer,
    pub(crate) vocabulary: &'w Vocabulary,
    pub(crate) guard: Option<GrammarGuard>,
    pub(crate) parameters: &'w ModelParameters,
    pub(crate) sink: &'w mut L,
    pub(crate) figures: Figures,
}

impl<L: TokenSink> Writing<'_, L> {
    /// Reads the prompt and writes the answer to its end.
    pub(crate) fn run(mut self, prompt: &[u32]) -> Result<(StandardResponse, Figures), Stopped> {
        if prompt.len() >= self.model.context() {
            let message = format!(
                "it has {} tokens, and the model holds {} with the answer",
                prompt.len(),
                self.model.context()
            );
            return Err(Stopped::Failed(LlmError::Request { message }));
        }
        // The last token is read again, for what follows it.
        let known = common(self.model.read(), &prompt[..prompt.len() - 1]);
        self.model.truncate(known);
        self.figures.prompt = prompt.len();
        self.figures.known = known;
        let began = Instant::now();
        let mut numbers = self.read(&prompt[known..])?;
        self.figures.reading = began.elapsed();
        let mut sampler = Sampler::new(self.parameters);
        let mut outlet = Outlet::new(&self.parameters.stop);
        let began = Instant::now();
        let mut next: Vec<u32> = Vec::new();
        let finish = loop {
            let forced = self.guard.as_mut().map(GrammarGuard::forced).unwrap_or_default();
            self.figures.forced += forced.len();
            let mut stopped = false;
            for token in &forced {
                stopped = stopped || self.say(*token, &mut outlet)?;
            }
            next.extend(forced);
            if stopped || self.guard.as_ref().is_some_and(GrammarGuard::is_over) {
                break Finish::Stop;
            }
            if self.is_used_up(&next, &outlet) {
                break Finish::Length;
            }
            if !next.is_empty() {
                numbers = self.read(&next)?;
                next.clear();
            }
            if let Some(guard) = &mut self.guard {
                guard.mask(&mut numbers).map_err(Stopped::failed)?;
            }
            let token = sampler.choose(&numbers).ok_or_else(|| Stopped::failed("no token may follow"))?;
            if token == self.vocabulary.end || Some(token) == self.vocabulary.end_of_text {
                break Finish::Stop;
            }
            if let Some(guard) = &mut self.guard {
                guard.take(token).map_err(Stopped::failed)?;
            }
            if self.say(token, &mut outlet)? {
                break Finish::Stop;
            }
            next.push(token);
        };
        if let Some(rest) = outlet.rest() {
            self.emit(LlmEvent::Text(rest))?;
        }
        self.figures.writing = began.elapsed();
        if let Some(guard) = &self.guard {
            self.figures.masks = guard.masks;
            self.figures.masking = guard.elapsed;
        }
        let count = |tokens: usize| u64::try_from(tokens).unwrap_or(u64::MAX);
        let usage = Usage::new(count(self.figures.prompt), count(self.figures.written));
        let answer = StandardResponse { text: outlet.text, usage, finish, ..StandardResponse::default() };
        Ok((answer, self.figures))
    }

    /// Reads tokens piece by piece; a receiver that is gone is noticed between two pieces.
    fn read(&mut self, mut tokens: &[u32]) -> Result<Vec<f32>, Stopped> {
        loop {
            if !self.sink.is_there() {
                return Err(Stopped::ReceiverGone);
            }
            let (count, numbers) = self.model.read_tokens(tokens).map_err(Stopped::failed)?;
            tokens = &tokens[count..];
            if let Some(numbers) = numbers {
                return Ok(numbers);
            }
        }
    }

    /// Writes a token; whether a text to stop at is complete.
    fn say(&mut self, token: u32, outlet: &mut Outlet<'_>) -> Result<bool, Stopped> {
        self.figures.written += 1;
        outlet.push(self.vocabulary.bytes(token));
        if let Some(piece) = outlet.ready() {
            self.emit(LlmEvent::Text(piece))?;
        }
        Ok(outlet.stopped)
    }

    fn emit(&mut self, event: LlmEvent) -> Result<(), Stopped> {
        if self.sink.emit(event) { Ok(()) } else { Err(Stopped::ReceiverGone) }
    }

    /// Returns `true` when no further token fits: into the context, or the limit, which a block under a grammar may
    /// exceed.
    fn is_used_up(&self, next: &[u32], outlet: &Outlet<'_>) -> bool {
        let capacity = self.model.context() - self.model.read().len();
        let limit = self.parameters.max_tokens.and_then(|limit| usize::try_from(limit).ok());
        let is_over = limit.is_some_and(|limit| self.figures.written >= limit);
        let in_block = self.guard.is_some() && outlet.text.contains(OPENER);
        next.len() >= capacity || (is_over && !in_block)
    }
}

fn common(left: &[u32], right: &[u32]) -> usize {
    left.iter().zip(right).take_while(|(left, right)| left == right).count()
}

/// Bytes of tokens before they are emitted: whole characters only, without a possible beginning of a stop text.
struct Outlet<'s> {
    stops: &'s [String],
    /// Bytes that are not a whole character yet.
    bytes: Vec<u8>,
    text: String,
    emitted: usize,
    stopped: bool,
}

impl<'s> Outlet<'s> {
    const fn new(stops: &'s [String]) -> Self {
        Self { stops, bytes: Vec::new(), text: String::new(), emitted: 0, stopped: false }
    }

    fn push(&mut self, bytes: &[u8]) {
        if self.stopped {
            return;
        }
        self.bytes.extend_from_slice(bytes);
        let mut used = 0;
        for chunk in self.bytes.utf8_chunks() {
            self.text.push_str(chunk.valid());
            used += chunk.valid().len();
            let rest = chunk.invalid();
            let is_end = used + rest.len() == self.bytes.len();
            if rest.is_empty() || (is_end && rest.len() < 4) {
                break;
            }
            self.text.push(char::REPLACEMENT_CHARACTER);
            used += rest.len();
        }
        self.bytes.drain(..used);
        let ends = self
            .stops
            .iter()
            .filter(|stop| !stop.is_empty())
            .filter_map(|stop| self.text.find(stop.as_str()));
        if let Some(end) = ends.min() {
            self.text.truncate(end);
            self.emitted = self.emitted.min(end);
            self.stopped = true;
        }
    }

    /// Returns the text that can be emitted now.
    fn ready(&mut self) -> Option<String> {
        let held = self.stops.iter().map(|stop| begun(&self.text, stop)).max().unwrap_or(0);
        let held = if self.stopped { 0 } else { held };
        self.until(self.text.len() - held)
    }

    /// Everything that is left.
    fn rest(&mut self) -> Option<String> {
        if !self.bytes.is_empty() && !self.stopped {
            self.text.push(char::REPLACEMENT_CHARACTER);
            self.bytes.clear();
        }
        self.until(self.text.len())
    }

    fn until(&mut self, end: usize) -> Option<String> {
        let piece = self.text.get(self.emitted..end).filter(|piece| !piece.is_empty())?.to_owned();
        self.emitted = end;
        Some(piece)
    }
}

/// Number of bytes at the end of a text that are the beginning of `stop`.
fn begun(text: &str, stop: &str) -> usize {
    let lengths = (1..stop.len()).rev().filter(|&len| stop.is_char_boundary(len));
    lengths.into_iter().find(|&len| text.ends_with(&stop[..len])).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn emitted(stops: &[&str], pieces: &[&[u8]]) -> (Vec<String>, String, bool) {
        let stops: Vec<String> = stops.iter().map(|stop| (*stop).to_owned()).collect();
        let mut outlet = Outlet::new(&stops);
        let mut emitted = Vec::new();
        for piece in pieces {
            outlet.push(piece);
            emitted.extend(outlet.ready());
        }
        emitted.extend(outlet.rest());
        (emitted, outlet.text, outlet.stopped)
    }

    #[test]
    fn characters_are_emitted_whole() {
        let bytes = "é中".as_bytes();
        let (emitted, text, _) = emitted(&[], &[&bytes[..1], &bytes[1..3], &bytes[3..]]);
        assert_eq!((emitted, text.as_str()), (vec!["é".to_owned(), "中".into()], "é中"));
        assert_eq!(self::emitted(&[], &[b"a\xFFb\xC3"]).1, "a\u{FFFD}b\u{FFFD}");
    }

    #[test]
    fn what_may_be_a_stop_is_held_back() {
        let (emitted, text, stopped) = emitted(&["END"], &[b"a E", b"N", b"X E", b"ND b"]);
        assert_eq!((emitted.concat().as_str(), text.as_str(), stopped), ("a ENX ", "a ENX ", true));
        assert_eq!(emitted[0], "a ");
        let (emitted, _, stopped) = self::emitted(&["END"], &[b"a EN"]);
        assert_eq!((emitted.concat().as_str(), stopped), ("a EN", false));
    }
}
