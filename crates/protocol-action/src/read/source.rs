//! The text read so far, and places found in it once.

use crate::FinishReason;

/// The text read so far, and whether more may come.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Source<'a> {
    pub(crate) text: &'a str,
    /// Reason for which the model stopped; `None` while more may come.
    pub(crate) end: Option<FinishReason>,
}

impl<'a> Source<'a> {
    pub(crate) fn len(self) -> usize {
        self.text.len()
    }

    pub(crate) fn ended(self) -> bool {
        self.end.is_some()
    }

    pub(crate) fn bytes(self) -> &'a [u8] {
        self.text.as_bytes()
    }

    pub(crate) fn byte(self, at: usize) -> Option<u8> {
        self.text.as_bytes().get(at).copied()
    }

    /// The text up to a limit, as if more might come after it.
    pub(crate) fn clipped(self, limit: usize) -> Self {
        if self.len() <= limit {
            return self;
        }
        Self { text: &self.text[..self.text.floor_char_boundary(limit)], end: None }
    }

    /// Returns `true` when the text at `at` begins with `prefix`; `None` while more text may complete it.
    pub(crate) fn begins(self, at: usize, prefix: &[u8]) -> Option<bool> {
        let rest = &self.bytes()[at.min(self.len())..];
        let common = rest.len().min(prefix.len());
        if !rest[..common].eq_ignore_ascii_case(&prefix[..common]) {
            return Some(false);
        }
        if common == prefix.len() {
            return Some(true);
        }
        if self.ended() { Some(false) } else { None }
    }

    /// Position of the first byte after blanks; the length of the text when there is none.
    pub(crate) fn skip_blanks(self, at: usize) -> usize {
        let rest = &self.bytes()[at.min(self.len())..];
        at + rest.iter().position(|&byte| !is_blank(byte)).unwrap_or(rest.len())
    }
}

/// Space, tab and line breaks.
pub(crate) const fn is_blank(byte: u8) -> bool {
    matches!(byte, b' ' | b'\t' | b'\n' | b'\r')
}

/// State of a search.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Found {
    /// It begins here.
    At(usize),
    /// Not found yet; the bytes before this one hold no match.
    NotBefore(usize),
    /// No match up to the end of the input.
    Never,
}

/// All places of one needle, found once however often they are asked for: what keeps a flood of
/// openers of comments linear.
#[derive(Debug)]
pub(crate) struct Finder {
    needle: &'static [u8],
    scanned: usize,
    hits: Vec<usize>,
}

impl Finder {
    pub(crate) fn new(needle: &'static str) -> Self {
        Self { needle: needle.as_bytes(), scanned: 0, hits: Vec::new() }
    }

    /// Finds the first match at or after `from`.
    pub(crate) fn next(&mut self, src: Source<'_>, from: usize) -> Found {
        loop {
            let index = self.hits.partition_point(|&hit| hit < from);
            if let Some(&hit) = self.hits.get(index) {
                return if hit + self.needle.len() <= src.len() {
                    Found::At(hit)
                } else {
                    Found::NotBefore(from)
                };
            }
            let start = self.scanned.min(src.len());
            let Some(hit) = memchr::memmem::find(&src.bytes()[start..], self.needle) else { break };
            self.hits.push(start + hit);
            self.scanned = start + hit + 1;
        }
        let tail = src.len().saturating_sub(self.needle.len() - 1);
        self.scanned = self.scanned.max(tail);
        if src.ended() { Found::Never } else { Found::NotBefore(self.scanned.max(from)) }
    }
}

/// Search beyond the cursor that continues at its last position when more text arrives.
#[derive(Debug, Default)]
pub(crate) struct Probe {
    start: usize,
    at: usize,
}

impl Probe {
    /// Position at which the search from `start` continues.
    pub(crate) fn resume(&self, start: usize) -> usize {
        if self.start == start { self.at.max(start) } else { start }
    }

    pub(crate) fn keep(&mut self, start: usize, at: usize) {
        *self = Self { start, at };
    }
}
