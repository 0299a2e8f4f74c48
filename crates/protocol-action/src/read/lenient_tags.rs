//! Lenient tags: names that are not XML names, blanks in close tags, attributes of any kind.

use std::ops::Range;

use super::source::{Source, is_blank};

/// Maximum length of a tag name: it bounds how often a tag that arrives in pieces is scanned.
pub(crate) const LONGEST_NAME: usize = 512;

/// Token at a `<`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Lex<'a> {
    /// Undecided without more text.
    More,
    /// No markup.
    Data,
    /// The beginning of an open tag: its name, and where the name ends.
    Open { name: &'a str, after: usize },
    /// A close tag.
    Close { name: &'a str, after: usize },
    /// A close tag that the end of input cuts.
    CutClose { name: &'a str },
    /// `<!--`
    Comment,
    /// `<![CDATA[`
    Section,
    /// `<?`
    Instruction,
    /// `<!` and a letter.
    Declaration,
}

pub(crate) const SECTION: &str = "<![CDATA[";

/// Reads what stands at the `<` at `at`.
pub(crate) fn lex(src: Source<'_>, at: usize) -> Lex<'_> {
    match src.byte(at + 1) {
        None => more_or_data(src),
        Some(b'/') => close(src, at + 2),
        Some(b'!') => bang(src, at),
        Some(b'?') => Lex::Instruction,
        Some(byte) if starts_name(byte) => open(src, at + 1),
        Some(_) => Lex::Data,
    }
}

/// Returns `true` when the end of input cuts the tag at `at`: with more text it could have become one.
pub(crate) fn is_cut(src: Source<'_>, at: usize) -> bool {
    src.ended() && lex(Source { end: None, ..src }, at) == Lex::More
}

fn more_or_data(src: Source<'_>) -> Lex<'static> {
    if src.ended() { Lex::Data } else { Lex::More }
}

fn bang(src: Source<'_>, at: usize) -> Lex<'static> {
    match src.byte(at + 2) {
        None => return more_or_data(src),
        Some(byte) if byte.is_ascii_alphabetic() => return Lex::Declaration,
        Some(_) => {}
    }
    for (prefix, kind) in [("<!--", Lex::Comment), (SECTION, Lex::Section)] {
        match src.begins(at, prefix.as_bytes()) {
            Some(true) => return kind,
            Some(false) => {}
            None => return Lex::More,
        }
    }
    Lex::Data
}

pub(crate) fn starts_name(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'$') || byte >= 0x80
}

fn in_name(byte: u8) -> bool {
    starts_name(byte) || matches!(byte, b'-' | b'.' | b':' | b'/' | b'@')
}

/// The name that begins at `at`; `None` when it is too long.
fn name(src: Source<'_>, at: usize) -> Option<usize> {
    let rest = &src.bytes()[at..];
    let window = &rest[..rest.len().min(LONGEST_NAME + 1)];
    let len = window.iter().position(|&byte| !in_name(byte)).unwrap_or(window.len());
    (len <= LONGEST_NAME).then_some(at + len)
}

fn open(src: Source<'_>, at: usize) -> Lex<'_> {
    let Some(end) = name(src, at) else { return Lex::Data };
    match src.byte(end) {
        None => more_or_data(src),
        Some(b'>') => {
            let whole = &src.text[at..end];
            let name = whole.strip_suffix('/').unwrap_or(whole);
            Lex::Open { name, after: at + name.len() }
        }
        Some(byte) if is_blank(byte) => {
            let whole = &src.text[at..end];
            let name = whole.strip_suffix('/').unwrap_or(whole);
            Lex::Open { name, after: at + name.len() }
        }
        Some(_) => Lex::Data,
    }
}

fn close(src: Source<'_>, at: usize) -> Lex<'_> {
    let rest = &src.bytes()[at..];
    let blanks = rest.iter().take(LONGEST_NAME).take_while(|&&byte| is_blank(byte)).count();
    let start = at + blanks;
    match src.byte(start) {
        None => return cut(src, start, start),
        Some(byte) if starts_name(byte) => {}
        Some(_) => return Lex::Data,
    }
    let Some(end) = name(src, start) else { return Lex::Data };
    let rest = &src.bytes()[end..];
    let after = end + rest.iter().take(LONGEST_NAME).take_while(|&&byte| is_blank(byte)).count();
    match src.byte(after) {
        None => cut(src, start, end),
        Some(b'>') => Lex::Close { name: &src.text[start..end], after: after + 1 },
        Some(_) => Lex::Data,
    }
}

fn cut(src: Source<'_>, start: usize, end: usize) -> Lex<'_> {
    if src.ended() { Lex::CutClose { name: &src.text[start..end] } } else { Lex::More }
}

/// Damaged form of a close tag: without its `>`, or with an escaped slash.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Damaged {
    More,
    No,
    /// It ends here.
    Until(usize),
}

/// Looks for a damaged close tag of this name. Asked only where [`lex`] found no markup.
pub(crate) fn damaged_close(src: Source<'_>, at: usize, name: &str) -> Damaged {
    let undecided = if src.ended() { Damaged::No } else { Damaged::More };
    let rest = src.bytes().get(at + 1..).unwrap_or_default();
    let (slash, escaped) = match rest {
        [b'/', ..] => (1, false),
        [b'\\', b'/', ..] => (2, true),
        [b'\\'] | [] => return undecided,
        _other => return Damaged::No,
    };
    let blanks = rest[slash..].iter().take(LONGEST_NAME).take_while(|&&byte| is_blank(byte)).count();
    let start = slash + blanks;
    let found = &rest[start..rest.len().min(start + name.len())];
    if !found.eq_ignore_ascii_case(&name.as_bytes()[..found.len()]) {
        return Damaged::No;
    }
    let end = start + name.len();
    let after = at + 1 + end;
    match rest.get(end) {
        None if escaped || found.len() < name.len() || !src.ended() => undecided,
        Some(b'>') if escaped => Damaged::Until(after + 1),
        Some(&next) if escaped || in_name(next) || next == b'>' => Damaged::No,
        None | Some(_) => Damaged::Until(after),
    }
}

/// A search for the end of an open tag, resumed when more text arrives.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct TagScan {
    pub(crate) start: usize,
    at: usize,
    quote: Option<u8>,
}

/// A whole open tag.
#[derive(Debug, Clone)]
pub(crate) struct OpenTag {
    pub(crate) name: Range<usize>,
    /// One past its `>`.
    pub(crate) after: usize,
    pub(crate) self_closed: bool,
}

/// Result of a search for the end of an open tag.
pub(crate) enum Scanned {
    Tag(OpenTag),
    More,
    /// The end of input, or another tag, came first.
    Cut,
    Broken(usize),
}

impl TagScan {
    /// Starts at the name of the tag whose `<` is at `start`.
    pub(crate) fn new(start: usize, after_name: usize) -> Self {
        Self { start, at: after_name, quote: None }
    }

    pub(crate) fn scan(&mut self, src: Source<'_>, name_len: usize) -> Scanned {
        while let Some(byte) = src.byte(self.at) {
            match (self.quote, byte) {
                (Some(quote), _) if quote == byte => self.quote = None,
                (None, b'"' | b'\'') if self.follows_equals(src) => self.quote = Some(byte),
                (None, b'<') => return Scanned::Broken(self.at),
                (None, b'>') => return Scanned::Tag(self.tag(src, name_len)),
                (None | Some(_), _) => {}
            }
            self.at += 1;
        }
        if src.ended() { Scanned::Cut } else { Scanned::More }
    }

    /// A quote opens a value only after `=`: a stray one does not hide the end of the tag.
    fn follows_equals(&self, src: Source<'_>) -> bool {
        let before = &src.bytes()[self.start..self.at];
        let near = &before[before.len().saturating_sub(8)..];
        near.iter().rev().find(|&&byte| !is_blank(byte)) == Some(&b'=')
    }

    fn tag(&self, src: Source<'_>, name_len: usize) -> OpenTag {
        let name = self.start + 1..self.start + 1 + name_len;
        let inner = src.text[name.end..self.at].trim_end();
        OpenTag { name, after: self.at + 1, self_closed: inner.ends_with('/') }
    }
}

/// An attribute: places of its name and of its value without quotes.
pub(crate) struct Attribute {
    pub(crate) name: Range<usize>,
    pub(crate) value: Range<usize>,
}

/// The attributes between the name of a tag and its `>`.
pub(crate) fn attributes(src: Source<'_>, tag: &OpenTag) -> Vec<Attribute> {
    let bytes = src.bytes();
    let end = tag.after - 1;
    let mut at = tag.name.end;
    let mut found = Vec::new();
    loop {
        while at < end && (is_blank(bytes[at]) || bytes[at] == b'/') {
            at += 1;
        }
        if at >= end {
            return found;
        }
        let start = at;
        while at < end && bytes[at] != b'=' && !is_blank(bytes[at]) {
            at += 1;
        }
        let name = start..at;
        let equals = src.skip_blanks(at);
        if equals >= end || bytes[equals] != b'=' || name.is_empty() {
            at = at.max(start + 1);
            continue;
        }
        let (value, after) = attribute_value(src, src.skip_blanks(equals + 1).min(end), end);
        at = after;
        found.push(Attribute { name, value });
    }
}

fn attribute_value(src: Source<'_>, at: usize, end: usize) -> (Range<usize>, usize) {
    let bytes = src.bytes();
    match bytes.get(at) {
        Some(&quote @ (b'"' | b'\'')) if at < end => {
            let inner = &bytes[at + 1..end];
            let len = memchr::memchr(quote, inner).unwrap_or(inner.len());
            (at + 1..at + 1 + len, (at + 2 + len).min(end))
        }
        _unquoted => {
            let len = bytes[at..end].iter().take_while(|&&byte| !is_blank(byte)).count();
            let slash = usize::from(at + len == end && len > 0 && bytes[end - 1] == b'/');
            (at..at + len - slash, at + len)
        }
    }
}
