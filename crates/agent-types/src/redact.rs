//! Secrets in texts of others: found in the forms in which servers and formats write them.

use std::borrow::Cow;
use std::fmt;
use std::ops::Range;

use aho_corasick::{AhoCorasick, MatchKind};
use base64::Engine;
use base64::engine::general_purpose::{STANDARD_NO_PAD, URL_SAFE_NO_PAD};
use serde_json::{Map, Value};

/// Shortest secret that is masked in texts of any kind. Masking shorter values would destroy ordinary text.
const SHORTEST: usize = 6;

/// Shortest piece of base64 that is looked for, in characters: a shorter one would be found everywhere.
const SHORTEST_BASE64: usize = 6;

/// Escapes inside escapes that are followed.
const MAX_LEVELS: usize = 3;

/// Masks known secrets wherever they stand: as they are, escaped as in JSON (`\/` and `\u0041` too) or in a URL, those inside
/// each other, and in base64 at any offset.
///
/// ```
/// use agent_types::Redactor;
///
/// let masks = Redactor::new(["S3/CR3T".to_owned()]);
/// assert_eq!(masks.mask(r#"{"a": "S3\/CR3T", "b": "S3%2fCR3T"}"#), r#"{"a": "***", "b": "***"}"#);
/// ```
#[derive(Clone, Default)]
pub struct Redactor {
    finder: Option<AhoCorasick>,
    mask: Option<&'static str>,
}

impl fmt::Debug for Redactor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Redactor").field("is_set", &self.is_set()).finish_non_exhaustive()
    }
}

impl Redactor {
    /// Masks these values. Those of less than six bytes are left alone.
    #[must_use]
    pub fn new(secrets: impl IntoIterator<Item = String>) -> Self {
        Self::of_any_length(secrets.into_iter().filter(|secret| secret.len() >= SHORTEST))
    }

    /// Masks these values, however short.
    #[must_use]
    pub fn of_any_length(secrets: impl IntoIterator<Item = String>) -> Self {
        let secrets = secrets.into_iter().filter(|secret| !secret.is_empty());
        let mut patterns: Vec<String> = secrets.flat_map(|secret| forms(&secret)).collect();
        patterns.sort();
        patterns.dedup();
        // Plain texts always compile; without a finder nothing would be masked, so none means none were given.
        let finder = (!patterns.is_empty())
            .then(|| AhoCorasick::builder().match_kind(MatchKind::LeftmostLongest).build(&patterns));
        Self { finder: finder.and_then(Result::ok), mask: None }
    }

    /// The same with another mask than `***`.
    #[must_use]
    pub const fn masked_as(mut self, mask: &'static str) -> Self {
        self.mask = Some(mask);
        self
    }

    /// Returns `true` if there is a secret to mask.
    #[must_use]
    pub const fn is_set(&self) -> bool {
        self.finder.is_some()
    }

    /// The text with every secret masked; borrowed where it holds none.
    #[must_use]
    pub fn mask<'a>(&self, text: &'a str) -> Cow<'a, str> {
        let Some(finder) = &self.finder else { return Cow::Borrowed(text) };
        let mut found = Vec::new();
        search(finder, &Reading::plain(text), 0, &mut found);
        if found.is_empty() {
            return Cow::Borrowed(text);
        }
        found.sort_by_key(|range| range.start);
        let (mut masked, mut at) = (String::with_capacity(text.len()), 0);
        for range in found {
            // A match inside of an earlier one is masked with it.
            if range.start >= at {
                masked.push_str(&text[at..range.start]);
                masked.push_str(self.mask.unwrap_or("***"));
            }
            at = at.max(range.end);
        }
        masked.push_str(&text[at..]);
        Cow::Owned(masked)
    }

    /// The value with every secret masked, names of members and numbers included. Values are at most as deep as a JSON reader
    /// makes them.
    #[must_use]
    pub fn value(&self, value: Value) -> Value {
        if !self.is_set() {
            return value;
        }
        match value {
            Value::String(text) => Value::String(self.mask(&text).into_owned()),
            Value::Array(items) => items.into_iter().map(|item| self.value(item)).collect(),
            Value::Object(members) => {
                let masked =
                    members.into_iter().map(|(key, value)| (self.mask(&key).into_owned(), self.value(value)));
                Value::Object(masked.collect::<Map<_, _>>())
            }
            Value::Number(number) => match self.mask(&number.to_string()) {
                Cow::Borrowed(_) => Value::Number(number),
                Cow::Owned(masked) => masked.into(),
            },
            Value::Null | Value::Bool(_) => value,
        }
    }
}

/// A text with its escapes read, and the place in the text that each byte comes from.
struct Reading<'t> {
    bytes: Cow<'t, [u8]>,
    /// Places of the bytes, and of the end; nothing where each byte is its own.
    places: Vec<usize>,
}

impl<'t> Reading<'t> {
    const fn plain(text: &'t str) -> Self {
        Self { bytes: Cow::Borrowed(text.as_bytes()), places: Vec::new() }
    }

    fn place(&self, at: usize) -> usize {
        self.places.get(at).copied().unwrap_or(at)
    }

    /// The same with escapes of one kind read; `None` where there are none.
    fn read(&self, escape: u8, unescape: fn(&[u8]) -> Option<(char, usize)>) -> Option<Reading<'static>> {
        let bytes = &*self.bytes;
        if !bytes.contains(&escape) {
            return None;
        }
        let (mut read, mut places) = (Vec::with_capacity(bytes.len()), Vec::with_capacity(bytes.len() + 1));
        let (mut at, mut any) = (0, false);
        while let Some(&byte) = bytes.get(at) {
            let place = self.place(at);
            let before = read.len();
            if let Some((char, length)) = (byte == escape).then(|| unescape(&bytes[at..])).flatten() {
                any = true;
                read.extend_from_slice(char.encode_utf8(&mut [0; 4]).as_bytes());
                at += length;
            } else {
                read.push(byte);
                at += 1;
            }
            places.resize(places.len() + read.len() - before, place);
        }
        places.push(self.place(bytes.len()));
        any.then_some(Reading { bytes: read.into(), places })
    }
}

/// Finds secrets in a text, and in what its escapes stand for.
fn search(finder: &AhoCorasick, reading: &Reading<'_>, level: usize, found: &mut Vec<Range<usize>>) {
    let matches = finder.find_iter(&*reading.bytes);
    found.extend(matches.map(|found| reading.place(found.start())..reading.place(found.end())));
    if level == MAX_LEVELS {
        return;
    }
    let inner = [reading.read(b'\\', of_json), reading.read(b'%', of_url)];
    for inner in inner.into_iter().flatten() {
        search(finder, &inner, level + 1, found);
    }
}

/// Reads an escape of JSON.
fn of_json(bytes: &[u8]) -> Option<(char, usize)> {
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
fn of_url(bytes: &[u8]) -> Option<(char, usize)> {
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

/// Forms that no reading of escapes gives back.
fn forms(secret: &str) -> Vec<String> {
    let mut forms = vec![secret.to_owned(), secret.replace(' ', "+")];
    for offset in 0..3 {
        for engine in [&STANDARD_NO_PAD, &URL_SAFE_NO_PAD] {
            let mut bytes = vec![0; offset];
            bytes.extend_from_slice(secret.as_bytes());
            let text = engine.encode(&bytes);
            // Characters at the ends also hold bits of the text around the secret.
            let (start, end) = ((offset * 8).div_ceil(6), bytes.len() * 8 / 6);
            let whole = text.get(start..end).filter(|whole| whole.len() >= SHORTEST_BASE64);
            forms.extend(whole.map(str::to_owned));
        }
    }
    forms
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn n14_a_secret_is_masked_in_every_form() {
        let secret = "S3/CR\"3T+é key😀1";
        let masks = Redactor::new([secret.to_owned(), "abc".to_owned()]);
        let escaped: Vec<String> = secret.encode_utf16().map(|unit| format!("\\u{unit:04X}")).collect();
        let percent: Vec<String> = secret.bytes().map(|byte| format!("%{byte:02x}")).collect();
        let (escaped, percent) = (escaped.concat(), percent.concat());
        let json = Value::from(secret).to_string();
        for text in [
            format!("Bearer {secret}."),
            json.replace('/', "\\/"),
            escaped.clone(),
            format!("{{\"a\": \"{}\"}}", escaped.to_lowercase()),
            Value::from(escaped.as_str()).to_string(),
            Value::from(json.as_str()).to_string(),
            Value::from(Value::from(json.as_str()).to_string()).to_string(),
            percent.clone(),
            format!("x={}&y", percent.to_uppercase()),
            "q=S3/CR\"3T+é+key😀1".to_owned(),
            format!("basic {}", STANDARD_NO_PAD.encode(format!("user:{secret}"))),
            format!("basic {}", URL_SAFE_NO_PAD.encode(format!("me:{secret}:x"))),
            STANDARD_NO_PAD.encode(secret).replace('+', "%2B").replace('/', "%2F"),
            STANDARD_NO_PAD.encode(format!("u:{secret}")).replace('/', "\\/"),
        ] {
            let masked = masks.mask(&text);
            assert!(
                masked.contains("***") && !masked.contains("3T") && !masked.contains("key"),
                "{text}: {masked}"
            );
            assert!(!masked.contains(&STANDARD_NO_PAD.encode(secret)[4..12]), "{masked}");
        }
        for plain in ["abc stays", r"C:\users\new", "100%", "%zz \\u12", "\\ud800 \\u", "é\\", ""] {
            assert!(matches!(masks.mask(plain), Cow::Borrowed(_)), "{plain}");
        }
    }

    #[test]
    fn n14_values_are_masked_with_names_and_numbers() {
        let masks = Redactor::of_any_length(["12345".to_owned(), "kéy".to_owned()]);
        assert_eq!(
            masks.value(json!({"a": 912_345, "kéy": ["kéy", 4]})),
            json!({"a": "9***", "***": ["***", 4]})
        );
        assert_eq!(masks.mask("12345 12345x kéykéy"), "*** ***x ******");
        assert_eq!(masks.clone().masked_as("[key]").mask("a 12345"), "a [key]");
    }
}
