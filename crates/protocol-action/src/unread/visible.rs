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
        let mut view = Self { prose: String::with_capacity(text.len()), last_fence: None };
        let mut bare = text.as_bytes().to_vec();
        for segment in segments.iter().filter(|segment| segment.kind != SegmentKind::Text) {
            blank(&mut bare, segment.span);
        }
        let mut fence: Option<Fence> = None;
        let mut at = 0;
        for line in text.split_inclusive('\n') {
            let span = Span::new(at, at + line.len());
            at = span.end;
            let trimmed = line.trim_start();
            match (&fence, fence_mark(trimmed)) {
                (Some(open), Some((mark, len, true))) if mark == open.mark && len >= open.len => {
                    view.last_fence = Some(Span::new(open.inner, span.start));
                    fence = None;
                }
                (Some(_), _) => {}
                (None, Some((mark, len, _))) if bare[span.start..span.end].contains(&mark) => {
                    let inner = span.end - trimmed.len() + len;
                    fence = Some(Fence { mark, len, inner });
                }
                (None, _) if is_quotation(trimmed) => {}
                (None, _) => {
                    if !trimmed.is_empty() && !bare[span.start..span.end].iter().all(u8::is_ascii_whitespace)
                    {
                        view.last_fence = None;
                    }
                    blank_inline_code(&mut bare, line, span.start);
                    continue;
                }
            }
            blank(&mut bare, span);
        }
        if let Some(open) = fence {
            view.last_fence = Some(Span::new(open.inner, text.len()));
        }
        blank_comments(&mut bare);
        // Only whole stretches between ASCII bytes were blanked, so this is UTF-8 still.
        view.prose = String::from_utf8_lossy(&bare).into_owned();
        if view.prose.trim().is_empty() && view.last_fence.is_none() {
            view.last_fence = whole_inline_code(text);
        }
        view
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
