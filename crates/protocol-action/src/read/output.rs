//! Results of reading so far: events for the caller, and the parts of the final result.

use crate::event::Event;
use crate::{Code, Diagnostic, RawCall, Segment, SegmentKind, Severity, Span};

/// Most notes of one kind in a reply.
pub(crate) const MOST_NOTES: usize = 32;

/// An event as it is stored until the caller takes it: places instead of text.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Item {
    Text(Span),
    Reasoning(Span),
    Retracted,
    BlockStart,
    CallStart { call: usize, name: Span },
    ParamStart { call: usize, path: Span },
    ParamDelta(Span),
    ParamEnd,
    CallEnd(usize),
    BlockEnd,
    Diagnostic(usize),
}

/// A state to return to.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Mark {
    calls: usize,
    diagnostics: usize,
    segments: usize,
    segment_end: usize,
    reasoning: usize,
}

/// Collects what reading brings.
#[derive(Debug, Default)]
pub(crate) struct Output {
    /// Flag that events are collected for the caller.
    pub(crate) live: bool,
    /// Flag that this block does not count.
    pub(crate) mute: bool,
    pub(crate) calls: Vec<RawCall>,
    pub(crate) diagnostics: Vec<Diagnostic>,
    pub(crate) segments: Vec<Segment>,
    pub(crate) reasoning: Vec<Span>,
    queue: Vec<Item>,
    scratch: String,
    held: Option<usize>,
    /// Position in the input from which on events are held back.
    held_from: usize,
    lines: Lines,
    second_blocks: usize,
}

impl Output {
    /// Forgets the events that were taken; called before new text is read.
    pub(crate) fn clear_taken(&mut self) {
        if let Some(held) = &mut self.held {
            self.queue.drain(..*held);
            *held = 0;
        } else {
            self.queue.clear();
            self.scratch.clear();
        }
    }

    /// The number of events that may be taken.
    pub(crate) fn ready(&self) -> usize {
        self.held.unwrap_or(self.queue.len())
    }

    pub(crate) fn push(&mut self, item: Item) {
        if self.live && !self.mute {
            self.queue.push(item);
        }
    }

    /// Stores text that is not part of the input.
    pub(crate) fn note(&mut self, text: &str) -> Span {
        let start = self.scratch.len();
        if self.live && !self.mute {
            self.scratch.push_str(text);
        }
        Span::new(start, self.scratch.len())
    }

    /// The stored event with its texts.
    pub(crate) fn event<'a>(&'a self, input: &'a str, index: usize) -> Option<Event<'a>> {
        Some(match *self.queue.get(index)? {
            Item::Text(span) => Event::Text { text: span.slice(input) },
            Item::Reasoning(span) => Event::Reasoning { text: span.slice(input) },
            Item::Retracted => Event::Retracted,
            Item::BlockStart => Event::BlockStart,
            Item::CallStart { call, name } => Event::CallStart { call, tool: name.slice(&self.scratch) },
            Item::ParamStart { call, path } => Event::ParamStart { call, path: path.slice(&self.scratch) },
            Item::ParamDelta(span) => Event::ParamDelta { text: span.slice(&self.scratch) },
            Item::ParamEnd => Event::ParamEnd,
            Item::CallEnd(call) => Event::CallEnd { call: self.calls.get(call)? },
            Item::BlockEnd => Event::BlockEnd,
            Item::Diagnostic(index) => Event::Diagnostic { diagnostic: self.diagnostics.get(index)? },
        })
    }

    /// Everything up to `end` that belongs to nothing yet is of this kind.
    pub(crate) fn segment(&mut self, kind: SegmentKind, end: usize) {
        let start = self.segment_end();
        if end <= start {
            return;
        }
        match self.segments.last_mut() {
            Some(last) if last.kind == kind => last.span.end = end,
            Some(_) | None => self.segments.push(Segment { kind, span: Span::new(start, end) }),
        }
    }

    pub(crate) fn segment_end(&self) -> usize {
        self.segments.last().map_or(0, |segment| segment.span.end)
    }

    pub(crate) fn diagnose(&mut self, input: &str, mut diagnostic: Diagnostic, span: Span) {
        if self.mute {
            return;
        }
        diagnostic.span = span;
        (diagnostic.line, diagnostic.column) = self.lines.place(input, span.start);
        self.add(diagnostic);
    }

    /// Notes a block that is not run; after the first few, further notes add no information.
    pub(crate) fn second_block(&mut self, input: &str, span: Span) {
        self.second_blocks += 1;
        if self.second_blocks <= MOST_NOTES {
            let note = Diagnostic::new(Code::SecondBlock, "a block after the first is not run");
            self.diagnose(input, note.with_hint("Send one block a reply."), span);
        }
    }

    /// Adds a finding without a position.
    pub(crate) fn add(&mut self, diagnostic: Diagnostic) {
        self.diagnostics.push(diagnostic);
        self.push(Item::Diagnostic(self.diagnostics.len() - 1));
    }

    pub(crate) fn has_errors(&self) -> bool {
        self.diagnostics.iter().any(|diagnostic| diagnostic.severity == Severity::Error)
    }

    pub(crate) fn mark(&self) -> Mark {
        Mark {
            calls: self.calls.len(),
            diagnostics: self.diagnostics.len(),
            segments: self.segments.len(),
            segment_end: self.segment_end(),
            reasoning: self.reasoning.len(),
        }
    }

    /// Holds back events from here on.
    pub(crate) fn hold(&mut self) {
        self.held = Some(self.queue.len());
        self.held_from = self.segment_end();
    }

    /// The position before which nothing is held back; `certain` where nothing is.
    pub(crate) fn settled(&self, certain: usize) -> usize {
        self.held.map_or(certain, |_| self.held_from.min(certain))
    }

    pub(crate) fn release(&mut self) {
        self.held = None;
    }

    /// Undoes everything since `mark`.
    pub(crate) fn roll_back(&mut self, mark: Mark) {
        if let Some(held) = self.held.take() {
            self.queue.truncate(held);
        }
        self.calls.truncate(mark.calls);
        self.diagnostics.truncate(mark.diagnostics);
        self.segments.truncate(mark.segments);
        if let Some(last) = self.segments.last_mut() {
            last.span.end = mark.segment_end;
        }
        self.reasoning.truncate(mark.reasoning);
    }

    /// Everything before `inner` was reasoning, and `end` ends its tag.
    pub(crate) fn retract(&mut self, inner: usize, end: usize) {
        self.held = None;
        self.queue.clear();
        self.calls.clear();
        self.diagnostics.retain(|diagnostic| diagnostic.code == Code::BadUtf8);
        self.segments.clear();
        self.segment(SegmentKind::Reasoning, end);
        self.reasoning = vec![Span::new(0, inner)];
        self.push(Item::Retracted);
        self.push(Item::Reasoning(Span::new(0, inner)));
    }
}

/// Counts lines and columns forward from the last position asked for.
#[derive(Debug, Default)]
struct Lines {
    at: usize,
    line: usize,
    column: usize,
}

impl Lines {
    fn place(&mut self, input: &str, at: usize) -> (usize, usize) {
        if at < self.at {
            *self = Self::default();
        }
        let between = &input[self.at..at];
        match between.rfind('\n') {
            Some(newline) => {
                self.line += memchr::memchr_iter(b'\n', between.as_bytes()).count();
                self.column = between[newline + 1..].chars().count();
            }
            None => self.column += between.chars().count(),
        }
        self.at = at;
        (self.line + 1, self.column + 1)
    }
}
