//! The part of a reply in which a call would be one: without code, quotations, comments and reasoning.

use crate::{Segment, SegmentKind, Span};

/// A reply with everything that only mentions calls blanked out, byte for byte.
pub(super) struct View {
    pub(super) prose: String,
    /// Inside of a code fence, or of inline code, that is the whole or the last thing of the reply: from its
    /// label on.
    pub(super) last_fence: Option<Span>,
}

/// A code fence that is open.
struct Fence {
    mark: u8,
    len: usize,
    inner: usize,
}

impl View {
    pub(super) fn new(text: &str, segments: &[Segment]) -> Self {
        let mut lines = Lines { bare: text.as_bytes().to_vec(), fence: None, last_fence: None };
        for segment in segments.iter().filter(|segment| segment.kind != SegmentKind::Text) {
            blank(&mut lines.bare, segment.span);
        }
        let mut at = 0;
        for line in text.split_inclusive('\n') {
            lines.pass(line, at);
            at += line.len();
        }
        let open = lines.fence.map(|open| Span::new(open.inner, text.len()));
        blank_comments(&mut lines.bare);
        // Only whole stretches between ASCII bytes were blanked, so this is UTF-8 still.
        let prose = String::from_utf8_lossy(&lines.bare).into_owned();
        let whole = prose.trim().is_empty().then(|| whole_inline_code(text)).flatten();
        Self { prose, last_fence: open.or(lines.last_fence).or(whole) }
    }
}

/// A walk over the lines, which blanks out fences, quotations and inline code.
struct Lines {
    bare: Vec<u8>,
    fence: Option<Fence>,
    last_fence: Option<Span>,
}

impl Lines {
    fn pass(&mut self, line: &str, start: usize) {
        let span = Span::new(start, start + line.len());
        let trimmed = line.trim_start();
        let mark = fence_mark(trimmed);
        if let Some(open) = &self.fence {
            if mark.is_some_and(|(mark, len, alone)| mark == open.mark && len >= open.len && alone) {
                self.last_fence = Some(Span::new(open.inner, span.start));
                self.fence = None;
            }
            return blank(&mut self.bare, span);
        }
        let shown = &self.bare[span.start..span.end];
        match mark {
            Some((mark, len, _)) if shown.contains(&mark) => {
                self.fence = Some(Fence { mark, len, inner: span.end - trimmed.len() + len });
                blank(&mut self.bare, span);
            }
            Some(_) | None => {
                if !shown.iter().all(u8::is_ascii_whitespace) {
                    self.last_fence = None;
                }
                if is_quotation(trimmed) {
                    blank(&mut self.bare, span);
                } else {
                    blank_inline_code(&mut self.bare, line, span.start);
                }
            }
        }
    }
}

/// Mark and length of the fence that a line begins, and `true` if nothing else stands on the line.
fn fence_mark(trimmed: &str) -> Option<(u8, usize, bool)> {
    let mark = trimmed.bytes().next().filter(|&byte| byte == b'`' || byte == b'~')?;
    let len = trimmed.bytes().take_while(|&byte| byte == mark).count();
    let rest = trimmed[len..].trim();
    (len >= 3 && !(mark == b'`' && rest.contains('`'))).then_some((mark, len, rest.is_empty()))
}

fn is_quotation(trimmed: &str) -> bool {
    const OBSERVATION: &str = "observation:";
    let begins = trimmed.get(..OBSERVATION.len());
    trimmed.starts_with('>') || begins.is_some_and(|begins| begins.eq_ignore_ascii_case(OBSERVATION))
}

/// The inside of a reply that is one piece of inline code.
fn whole_inline_code(text: &str) -> Option<Span> {
    let trimmed = text.trim();
    let inner = trimmed.trim_matches('`');
    let start = text.find(inner)?;
    (inner.len() < trimmed.len() && !inner.is_empty() && !inner.contains('`'))
        .then(|| Span::new(start, start + inner.len()))
}

fn blank_inline_code(bare: &mut [u8], line: &str, offset: usize) {
    let bytes = line.as_bytes();
    let mut runs = Vec::new();
    let mut at = 0;
    while let Some(found) = memchr::memchr(b'`', &bytes[at..]) {
        let start = at + found;
        let len = bytes[start..].iter().take_while(|&&byte| byte == b'`').count();
        runs.push((start, len));
        at = start + len;
    }
    let mut next = std::collections::HashMap::new();
    let mut closes = vec![None; runs.len()];
    for (index, &(start, len)) in runs.iter().enumerate().rev() {
        closes[index] = next.insert(len, (index, start + len));
    }
    let mut index = 0;
    while index < runs.len() {
        let Some((closing, end)) = closes[index] else {
            index += 1;
            continue;
        };
        blank(bare, Span::new(offset + runs[index].0, offset + end));
        index = closing + 1;
    }
}

fn blank_comments(bare: &mut [u8]) {
    let mut at = 0;
    while let Some(found) = memchr::memmem::find(&bare[at..], b"<!--") {
        let start = at + found;
        let Some(len) = memchr::memmem::find(&bare[start + 4..], b"-->") else { return };
        at = start + 4 + len + 3;
        blank(bare, Span::new(start, at));
    }
}

/// Blanks out a stretch; its line breaks stay.
fn blank(bare: &mut [u8], span: Span) {
    for byte in &mut bare[span.start..span.end] {
        if *byte != b'\n' {
            *byte = b' ';
        }
    }
}
