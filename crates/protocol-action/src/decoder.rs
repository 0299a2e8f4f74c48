//! Reading whole texts and pieces of them.

use std::sync::Arc;

use crate::doubt::Doubt;
use crate::event::Event;
use crate::read::{Machine, Source, has_block, settled};
use crate::{Code, Diagnostic, FinishReason, NativeCall, Options, Parsed, Span, Vocabulary};

/// Reads a whole reply.
///
/// ```
/// use protocol_action::{parse, StaticVocabulary};
///
/// let tools = StaticVocabulary::builder().tool("read_file", |tool| tool.text("path")).build();
/// let parsed = parse("Look.\n<ACTION><read_file><path>a.txt</path></read_file></ACTION>", &tools);
/// assert_eq!(parsed.text_before, "Look.\n");
/// assert_eq!(parsed.runnable()[0].tool, "read_file");
/// ```
pub fn parse(text: &str, vocabulary: &dyn Vocabulary) -> Parsed {
    parse_with(text, vocabulary, &Options::default())
}

/// Reads a whole reply with limits, a reason why the model stopped, and native calls.
pub fn parse_with(text: &str, vocabulary: &dyn Vocabulary, options: &Options) -> Parsed {
    crate::read::read_whole(text, vocabulary, options)
}

/// Reads a reply piece by piece. The final result is the one of [`parse_with`] on the whole text,
/// wherever the pieces were cut.
///
/// ```
/// use std::sync::Arc;
/// use protocol_action::{Decoder, Event, FinishReason, Options, StaticVocabulary};
///
/// let tools = StaticVocabulary::builder().tool("say", |tool| tool.text("text")).build();
/// let mut decoder = Decoder::new(Arc::new(tools), Options::default());
/// let mut said = String::new();
/// for piece in ["<ACT", "ION><say><te", "xt>Hel", "lo</text></say></ACTION>"] {
///     for event in decoder.push(piece.as_bytes()) {
///         if let Event::ParamDelta { text } = event {
///             said.push_str(text);
///         }
///     }
/// }
/// assert_eq!(said, "Hello");
/// assert_eq!(decoder.finish(FinishReason::Stop).runnable().len(), 1);
/// ```
pub struct Decoder {
    vocabulary: Arc<dyn Vocabulary>,
    native: Vec<NativeCall>,
    machine: Machine,
    text: String,
    /// The beginning of a character that a piece cut: at most three bytes.
    partial: Vec<u8>,
    bad: Vec<Span>,
    closed: bool,
    /// Length of the text that is certain to stand before the end of the block.
    settled: usize,
    doubt: Doubt,
}

impl std::fmt::Debug for Decoder {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Decoder")
            .field("bytes", &self.text.len())
            .field("closed", &self.closed)
            .finish_non_exhaustive()
    }
}

impl Decoder {
    /// Starts at the beginning of a reply. `options.finish` is not used: [`Decoder::finish`] receives the reason.
    pub fn new(vocabulary: Arc<dyn Vocabulary>, options: Options) -> Self {
        let mut machine = Machine::new(options.limits);
        machine.out.live = true;
        Self {
            vocabulary,
            native: options.native,
            machine,
            text: String::new(),
            partial: Vec::new(),
            bad: Vec::new(),
            closed: false,
            settled: 0,
            doubt: Doubt::default(),
        }
    }

    /// Adds native calls that came beside the text; at any time before the end.
    pub fn add_native(&mut self, native: impl IntoIterator<Item = NativeCall>) {
        self.native.extend(native);
    }

    /// Reads the next bytes, cut anywhere, also inside a character. What comes out are the events
    /// that are certain by now; those that are not taken are lost.
    pub fn push(&mut self, bytes: &[u8]) -> Events<'_> {
        self.machine.out.clear_taken();
        if !self.closed {
            self.append(bytes);
            let src = Source { text: &self.text, end: None };
            self.machine.run(src, self.vocabulary.as_ref());
            self.settle();
        }
        self.events()
    }

    /// Ends the input and returns the final events. Later pieces are ignored.
    pub fn close(&mut self, finish: FinishReason) -> Events<'_> {
        self.machine.out.clear_taken();
        if !self.closed {
            self.closed = true;
            if !self.partial.is_empty() {
                self.partial.clear();
                self.replace_bad();
            }
            let src = Source { text: &self.text, end: Some(finish) };
            self.machine.run(src, self.vocabulary.as_ref());
            self.note_bad_bytes();
            let src = Source { text: &self.text, end: Some(finish) };
            self.machine.finish(src, self.vocabulary.as_ref(), &self.native);
            self.settle();
        }
        self.events()
    }

    /// Ends the input, if [`Decoder::close`] did not, and gives the result.
    pub fn finish(mut self, finish: FinishReason) -> Parsed {
        let _last = self.close(finish);
        self.machine.into_parsed(&self.text)
    }

    /// The text read so far, invalid bytes replaced: what spans refer to.
    pub fn text(&self) -> &str {
        &self.text
    }

    /// The text read so far without what stands behind its block, or may yet turn out to: what can be shown as it was
    /// written. It only grows.
    pub fn settled_text(&self) -> &str {
        self.text.get(..self.settled).unwrap_or_default()
    }

    /// The reader may step back over blanks.
    fn settle(&mut self) {
        let certain = settled(&self.machine);
        let is_open = !self.closed && !has_block(&self.machine);
        let certain = if is_open { self.doubt.limit(&self.text, certain) } else { certain };
        self.settled = self.settled.max(certain);
    }

    fn events(&self) -> Events<'_> {
        Events { decoder: self, next: 0 }
    }

    fn append(&mut self, bytes: &[u8]) {
        if self.partial.is_empty() {
            self.append_valid(bytes);
            return;
        }
        let mut joined = std::mem::take(&mut self.partial);
        joined.extend_from_slice(bytes);
        self.append_valid(&joined);
    }

    fn append_valid(&mut self, mut bytes: &[u8]) {
        loop {
            let error = match std::str::from_utf8(bytes) {
                Ok(text) => return self.text.push_str(text),
                Err(error) => error,
            };
            let (valid, rest) = bytes.split_at(error.valid_up_to());
            self.text.push_str(std::str::from_utf8(valid).unwrap_or_default());
            match error.error_len() {
                None => return self.partial.extend_from_slice(rest),
                Some(len) => {
                    self.replace_bad();
                    bytes = &rest[len..];
                }
            }
        }
    }

    fn replace_bad(&mut self) {
        let start = self.text.len();
        self.text.push(char::REPLACEMENT_CHARACTER);
        match self.bad.last_mut() {
            Some(last) if last.end == start => last.end = self.text.len(),
            Some(_) | None => self.bad.push(Span::new(start, self.text.len())),
        }
    }

    /// Adds one note, at the first span: more of them would add no information.
    fn note_bad_bytes(&mut self) {
        let Some(&first) = self.bad.first() else { return };
        let message = format!("bytes that are not UTF-8 were replaced in {} places", self.bad.len());
        self.machine.out.diagnose(&self.text, Diagnostic::new(Code::BadUtf8, message), first);
    }
}

/// The events of one piece, in source order.
#[derive(Debug)]
pub struct Events<'a> {
    decoder: &'a Decoder,
    next: usize,
}

impl<'a> Iterator for Events<'a> {
    type Item = Event<'a>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.next >= self.decoder.machine.out.ready() {
            return None;
        }
        self.next += 1;
        self.decoder.machine.out.event(&self.decoder.text, self.next - 1)
    }
}
