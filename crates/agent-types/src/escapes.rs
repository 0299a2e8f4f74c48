//! Escapes in texts, read byte by byte.

use std::collections::VecDeque;

/// Longest escape, in bytes: a pair of `\u`, or four bytes of a URL.
const LONGEST: usize = 12;

/// Kind of escapes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Escape {
    /// `\n`, `\/`, `\u0041`.
    Json,
    /// `%41`.
    Url,
}

impl Escape {
    const fn first(self) -> u8 {
        match self {
            Self::Json => b'\\',
            Self::Url => b'%',
        }
    }

    /// Character that an escape stands for, and its length in bytes.
    fn read(self, bytes: &[u8]) -> Option<(char, usize)> {
        match self {
            Self::Json => json(bytes),
            Self::Url => url(bytes),
        }
    }
}

/// Signs that were seen in what was read.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Seen {
    /// An escape of the kind that was read last.
    pub(crate) is_read: bool,
    /// First sign of an escape of JSON.
    pub(crate) json: bool,
    /// First sign of an escape of a URL.
    pub(crate) url: bool,
}

impl Seen {
    pub(crate) const fn has(self, escape: Escape) -> bool {
        match escape {
            Escape::Json => self.json,
            Escape::Url => self.url,
        }
    }
}

/// Bytes of a text with its escapes read, each with the place in the text that it comes from.
pub(crate) enum Bytes<'t> {
    Plain(std::iter::Enumerate<std::str::Bytes<'t>>),
    Read(Box<Reading<'t>>),
}

/// The bytes of another reading with the escapes of one kind read.
pub(crate) struct Reading<'t> {
    escape: Escape,
    inner: Bytes<'t>,
    /// Bytes that may be the rest of an escape.
    ahead: VecDeque<(u8, usize)>,
    /// Bytes of a character that was read.
    char: VecDeque<(u8, usize)>,
    seen: Seen,
}

impl<'t> Bytes<'t> {
    /// The bytes of a text with escapes of these kinds read, the first kind first.
    pub(crate) fn new(text: &'t str, kinds: &[Escape]) -> Self {
        kinds.iter().fold(Self::Plain(text.bytes().enumerate()), |inner, escape| {
            Self::Read(Box::new(Reading {
                escape: *escape,
                inner,
                ahead: VecDeque::with_capacity(LONGEST),
                char: VecDeque::with_capacity(4),
                seen: Seen::default(),
            }))
        })
    }

    /// Signs that were seen so far.
    pub(crate) fn seen(&self) -> Seen {
        match self {
            Self::Plain(_) => Seen::default(),
            Self::Read(reading) => reading.seen,
        }
    }
}

impl Iterator for Bytes<'_> {
    type Item = (u8, usize);

    fn next(&mut self) -> Option<(u8, usize)> {
        match self {
            Self::Plain(bytes) => bytes.next().map(|(place, byte)| (byte, place)),
            Self::Read(reading) => reading.next_byte(),
        }
    }
}

impl Reading<'_> {
    fn next_byte(&mut self) -> Option<(u8, usize)> {
        let next = if let Some(next) = self.char.pop_front() {
            next
        } else {
            let next = self.ahead.pop_front().or_else(|| self.inner.next())?;
            if next.0 == self.escape.first() { self.unescaped(next) } else { next }
        };
        self.seen.json |= next.0 == Escape::Json.first();
        self.seen.url |= next.0 == Escape::Url.first();
        Some(next)
    }

    /// The first byte of the character that an escape stands for; the first of the escape where it is none.
    fn unescaped(&mut self, first: (u8, usize)) -> (u8, usize) {
        while self.ahead.len() < LONGEST - 1
            && let Some(next) = self.inner.next()
        {
            self.ahead.push_back(next);
        }
        let mut bytes = [first.0; LONGEST];
        for (byte, (ahead, _)) in bytes[1..].iter_mut().zip(&self.ahead) {
            *byte = *ahead;
        }
        let Some((char, length)) = self.escape.read(&bytes[..=self.ahead.len()]) else { return first };
        self.seen.is_read = true;
        self.ahead.drain(..length - 1);
        let mut utf8 = [0; 4];
        let utf8 = char.encode_utf8(&mut utf8).bytes();
        self.char.extend(utf8.map(|byte| (byte, first.1)));
        self.char.pop_front().unwrap_or(first)
    }
}

/// Reads an escape of JSON.
fn json(bytes: &[u8]) -> Option<(char, usize)> {
    let simple = |char| Some((char, 2));
    match bytes.get(1)? {
        b'u' => {
            let first = hex(bytes.get(2..6)?)?;
            if let Some(char) = char::from_u32(first) {
                return Some((char, 6));
            }
            let second = hex(bytes.get(6..12)?.strip_prefix(b"\\u")?)?;
            let pair = [u16::try_from(first).ok()?, u16::try_from(second).ok()?];
            Some((char::decode_utf16(pair).next()?.ok()?, 12))
        }
        b'n' => simple('\n'),
        b't' => simple('\t'),
        b'r' => simple('\r'),
        char @ (b'/' | b'"' | b'\\') => simple(char::from(*char)),
        _ => None,
    }
}

/// Reads an escape of a URL. Only ASCII is read by the byte; longer characters are read where they are whole.
fn url(bytes: &[u8]) -> Option<(char, usize)> {
    let byte = |at: usize| match bytes.get(at..at + 3)? {
        [b'%', digits @ ..] => u8::try_from(hex(digits)?).ok(),
        _ => None,
    };
    let first = byte(0)?;
    let length = match first {
        0..0x80 => 1,
        0xc2..0xe0 => 2,
        0xe0..0xf0 => 3,
        _ => 4,
    };
    let whole: Option<Vec<u8>> = (0..length).map(|at| byte(3 * at)).collect();
    let char = std::str::from_utf8(&whole?).ok()?.chars().next()?;
    Some((char, 3 * length))
}

fn hex(digits: &[u8]) -> Option<u32> {
    digits.iter().try_fold(0, |number, digit| Some(16 * number + char::from(*digit).to_digit(16)?))
}
