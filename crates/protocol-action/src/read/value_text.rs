//! The text of a value: entities decoded once, CDATA kept as it is, layout removed.
//!
//! A value is a row of parts: text, sections, text. The reader says where sections begin and end and
//! up to where the value is certain; what comes out is final and only ever grows.

use std::collections::VecDeque;

use memchr::memmem;

use super::lenient_tags::SECTION;
use super::source::is_blank;

/// No entity that is decoded is longer, `&` and `;` included.
const LONGEST_ENTITY: usize = 32;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Mark {
    Enter(usize),
    Leave(usize),
}

impl Mark {
    const fn at(self) -> usize {
        match self {
            Self::Enter(at) | Self::Leave(at) => at,
        }
    }
}

/// Builds the text of one value.
#[derive(Debug, Default)]
#[expect(clippy::struct_excessive_bools, reason = "each is one fact about the part that is being read")]
pub(crate) struct Builder {
    pub(crate) out: String,
    from: usize,
    marks: VecDeque<Mark>,
    in_section: bool,
    /// Nothing of this part was taken yet.
    fresh: bool,
    /// This part began with a line break.
    block: bool,
    /// The first text began with a line break: the last one ends with layout too.
    outer_block: bool,
    sections: bool,
    /// Blanks around a value of one line that stands on lines of its own are layout.
    trims: bool,
    /// A line break stands in what was looked at.
    lines: bool,
    /// End of what was looked at for line breaks.
    scanned: usize,
    /// Blanks were taken away so.
    pub(crate) trimmed: bool,
}

impl Builder {
    pub(crate) fn new(start: usize) -> Self {
        Self { from: start, fresh: true, ..Self::default() }
    }

    /// The same for a declared string, where the indentation of a line of its own is layout.
    pub(crate) fn of_string(start: usize) -> Self {
        Self { trims: true, ..Self::new(start) }
    }

    /// A section begins at its `<![CDATA[`.
    pub(crate) fn enter(&mut self, at: usize) {
        self.marks.push_back(Mark::Enter(at));
    }

    /// The section ends at its `]]>`.
    pub(crate) fn leave(&mut self, at: usize) {
        self.marks.push_back(Mark::Leave(at));
    }

    /// Takes what is certain: everything before `limit`, which stands after a byte that is not blank.
    pub(crate) fn take(&mut self, text: &str, limit: usize) {
        self.pass_marks(text, limit);
        if limit <= self.from {
            return;
        }
        if self.in_section {
            self.take_section(text, limit);
        } else {
            self.open_part(text, limit);
            if !self.may_trim(text, limit) {
                self.from += decode(&text[self.from..limit], &mut self.out, Rest::MayCome);
            }
        }
    }

    /// Returns `true` for the beginning of a value that may be one line with indentation.
    fn may_trim(&mut self, text: &str, limit: usize) -> bool {
        if !self.trims || !self.outer_block || self.sections {
            return false;
        }
        let from = self.scanned.max(self.from);
        self.lines |= memchr::memchr(b'\n', &text.as_bytes()[from..limit.max(from)]).is_some();
        self.scanned = limit;
        !self.lines && self.out.is_empty() && text[self.from..].starts_with([' ', '\t'])
    }

    /// Takes the rest of the value, which ends at `end`.
    pub(crate) fn end(&mut self, text: &str, end: usize) {
        self.pass_marks(text, end);
        if self.in_section {
            self.end_section(text, end);
        } else {
            self.end_text(text, end, Next::End);
        }
        self.from = end;
    }

    fn pass_marks(&mut self, text: &str, limit: usize) {
        while let Some(mark) = self.marks.front().copied().filter(|mark| mark.at() <= limit) {
            self.marks.pop_front();
            match mark {
                Mark::Enter(at) => {
                    self.end_text(text, at, Next::Section);
                    self.begin(at + SECTION.len(), true);
                }
                Mark::Leave(at) if self.marks.front() == Some(&Mark::Enter(at + 3)) => {
                    // Sections side by side are one, split because of a `]]>` in it.
                    self.marks.pop_front();
                    self.take_section(text, at);
                    self.from = at + 3 + SECTION.len();
                }
                Mark::Leave(at) => {
                    self.end_section(text, at);
                    self.begin(at + 3, false);
                }
            }
        }
    }

    fn take_section(&mut self, text: &str, limit: usize) {
        self.open_part(text, limit);
        if self.from < limit {
            self.out.push_str(&text[self.from..limit]);
            self.from = limit;
        }
    }

    fn begin(&mut self, from: usize, section: bool) {
        self.sections |= section;
        self.from = from;
        self.in_section = section;
        self.fresh = true;
        self.block = false;
    }

    /// Removes the line break that a part in block layout begins with.
    fn open_part(&mut self, text: &str, limit: usize) {
        if !self.fresh || self.from >= limit {
            return;
        }
        self.fresh = false;
        if !self.in_section && self.sections {
            return;
        }
        let len = line_break(&text[self.from..limit]);
        self.block = len > 0;
        if !self.in_section {
            self.outer_block = self.block;
        }
        self.from += len;
    }

    fn end_section(&mut self, text: &str, end: usize) {
        if self.from >= end {
            return;
        }
        let untouched = self.fresh;
        self.open_part(text, end);
        let rest = &text[self.from..end];
        self.out.push_str(if self.block { without_last_line(rest, untouched) } else { rest });
    }

    fn end_text(&mut self, text: &str, end: usize, next: Next) {
        if self.from >= end {
            return;
        }
        let rest = &text[self.from..end];
        let blank = rest.bytes().all(is_blank);
        let beside_section = self.sections || next == Next::Section;
        if self.fresh && blank && beside_section {
            return;
        }
        let untouched = self.fresh;
        self.open_part(text, end);
        let mut rest = &text[self.from..end];
        if next == Next::End && self.outer_block {
            let ends_line = rest.trim_end_matches([' ', '\t', '\r']).ends_with('\n');
            rest = without_last_line(rest, untouched);
            rest = if ends_line { self.one_line(rest) } else { rest };
        }
        decode(rest, &mut self.out, Rest::Never);
    }
}

impl Builder {
    /// The rest of a value without the blanks around its only line.
    fn one_line<'t>(&mut self, rest: &'t str) -> &'t str {
        let blanks = [' ', '\t', '\r'];
        if !self.trims || self.sections || self.lines || rest.contains('\n') {
            return rest;
        }
        let kept =
            if self.out.is_empty() { rest.trim_matches(blanks) } else { rest.trim_end_matches(blanks) };
        let is_layout = kept.len() < rest.len() && !(kept.is_empty() && self.out.is_empty());
        self.trimmed |= is_layout;
        if is_layout { kept } else { rest }
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Next {
    Section,
    End,
}

/// The length of the line break that the text begins with.
fn line_break(text: &str) -> usize {
    match text.as_bytes() {
        [b'\r', b'\n', ..] => 2,
        [b'\n', ..] => 1,
        _none => 0,
    }
}

/// Drops the last line break and the blank line after it. When the line break that the part begins
/// with stood right before the text, it is that one, and only the blank line is dropped.
fn without_last_line(text: &str, after_first_break: bool) -> &str {
    let solid = text.trim_end_matches([' ', '\t', '\r']);
    match solid.strip_suffix('\n') {
        Some(kept) => kept.strip_suffix('\r').unwrap_or(kept),
        None if after_first_break && solid.is_empty() => "",
        None => text,
    }
}

/// Possible continuation of the text after the given part.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Rest {
    MayCome,
    Never,
}

/// The text with its entities decoded once.
pub(crate) fn decoded(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    decode(text, &mut out, Rest::Never);
    out
}

/// A whole value of `builder` that holds neither child elements nor sections.
pub(crate) fn plain(text: &str, mut builder: Builder, end: usize) -> Builder {
    builder.end(text, end);
    builder
}

/// A whole value that holds no child elements.
pub(crate) fn whole(text: &str, start: usize, end: usize) -> String {
    let mut builder = Builder::new(start);
    let mut at = start;
    while let Some(open) = memmem::find(&text.as_bytes()[at..end], SECTION.as_bytes()) {
        let inner = at + open + SECTION.len();
        let Some(close) = memmem::find(&text.as_bytes()[inner..end], b"]]>") else { break };
        builder.enter(at + open);
        builder.leave(inner + close);
        at = inner + close + 3;
    }
    builder.end(text, end);
    builder.out
}

/// Decodes into `out` and returns the length taken. Text that may still become an entity stays.
fn decode(text: &str, out: &mut String, rest: Rest) -> usize {
    let mut at = 0;
    while let Some(found) = memchr::memchr(b'&', &text.as_bytes()[at..]) {
        let amp = at + found;
        out.push_str(&text[at..amp]);
        match entity(&text.as_bytes()[amp..]) {
            Entity::Is(character, len) => {
                out.push(character);
                at = amp + len;
            }
            Entity::Partial if rest == Rest::MayCome => return amp,
            Entity::Partial | Entity::Not => {
                out.push('&');
                at = amp + 1;
            }
        }
    }
    out.push_str(&text[at..]);
    text.len()
}

enum Entity {
    Is(char, usize),
    /// The text ends before it is decided.
    Partial,
    Not,
}

fn entity(text: &[u8]) -> Entity {
    let window = &text[1..text.len().min(LONGEST_ENTITY)];
    let len = window.iter().take_while(|&&byte| byte.is_ascii_alphanumeric() || byte == b'#').count();
    match window.get(len) {
        None if 1 + len < LONGEST_ENTITY => return Entity::Partial,
        Some(b';') => {}
        None | Some(_) => return Entity::Not,
    }
    let character = match &window[..len] {
        b"lt" => '<',
        b"gt" => '>',
        b"amp" => '&',
        b"quot" => '"',
        b"apos" => '\'',
        [b'#', b'x' | b'X', digits @ ..] => match number(digits, 16) {
            Some(character) => character,
            None => return Entity::Not,
        },
        [b'#', digits @ ..] => match number(digits, 10) {
            Some(character) => character,
            None => return Entity::Not,
        },
        _unknown => return Entity::Not,
    };
    Entity::Is(character, len + 2)
}

fn number(digits: &[u8], radix: u32) -> Option<char> {
    let digits = std::str::from_utf8(digits).ok()?;
    if digits.is_empty() || digits.starts_with('+') {
        return None;
    }
    let code = u32::from_str_radix(digits, radix).ok()?;
    if code == 0 { None } else { char::from_u32(code) }
}
