//! Secrets in texts of others: found in the forms in which servers and formats write them.

use std::borrow::Cow;
use std::fmt;
use std::ops::Range;
use std::sync::Arc;

use aho_corasick::automaton::Automaton;
use aho_corasick::nfa::contiguous::NFA;
use aho_corasick::{AhoCorasick, Anchored, MatchKind};
use base64::Engine;
use base64::engine::general_purpose::{STANDARD_NO_PAD, URL_SAFE_NO_PAD};
use serde_json::{Map, Value};

use crate::escapes::{Bytes, Escape, Seen};

/// Shortest secret that is masked in texts of any kind. Masking shorter values would destroy ordinary text.
const SHORTEST: usize = 6;

/// Shortest piece of base64 that is looked for, in characters: a shorter one would be found everywhere.
const SHORTEST_BASE64: usize = 6;

/// Escapes inside escapes that are followed.
const MAX_LEVELS: usize = 3;

/// Masks known secrets wherever they stand: as they are, escaped as in JSON (`\/` and `\u0041` too) or in a URL, those inside
/// each other, in base64 at any offset, and in hexadecimal digits.
///
/// ```
/// use agent_types::Redactor;
///
/// let masks = Redactor::new(["S3/CR3T".to_owned()]);
/// assert_eq!(masks.mask(r#"{"a": "S3\/CR3T", "b": "S3%2fCR3T"}"#), r#"{"a": "***", "b": "***"}"#);
/// ```
#[derive(Clone, Default)]
pub struct Redactor {
    finder: Option<Arc<Finder>>,
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
        let finder = (!patterns.is_empty()).then(|| Finder::new(&patterns)).flatten();
        Self { finder: finder.map(Arc::new), mask: None }
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
        let mut found = finder.find(text);
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

/// Automata that find secrets: one in a text as it stands, one byte by byte in what its escapes stand for.
struct Finder {
    plain: AhoCorasick,
    stepwise: NFA,
}

impl Finder {
    fn new(patterns: &[String]) -> Option<Self> {
        let plain = AhoCorasick::builder().match_kind(MatchKind::LeftmostLongest).build(patterns).ok()?;
        Some(Self { plain, stepwise: NFA::new(patterns).ok()? })
    }

    /// The places of secrets in a text.
    fn find(&self, text: &str) -> Vec<Range<usize>> {
        let mut found: Vec<_> = self.plain.find_iter(text).map(|found| found.range()).collect();
        let bytes = text.as_bytes();
        let seen = Seen { is_read: true, json: bytes.contains(&b'\\'), url: bytes.contains(&b'%') };
        self.find_in_escapes(text, &mut Vec::new(), seen, &mut found);
        found
    }

    /// Finds secrets in what escapes stand for, and in what the escapes in that stand for. `read` are the kinds of escapes
    /// that are read already, one in the other. Nothing of what is read is kept but the places of the last bytes.
    fn find_in_escapes(&self, text: &str, read: &mut Vec<Escape>, seen: Seen, found: &mut Vec<Range<usize>>) {
        if read.len() == MAX_LEVELS || !seen.is_read {
            return;
        }
        for escape in [Escape::Json, Escape::Url].into_iter().filter(|escape| seen.has(*escape)) {
            read.push(escape);
            let mut bytes = Bytes::new(text, read);
            self.step_through(&mut bytes, text.len(), found);
            let inner = bytes.seen();
            self.find_in_escapes(text, read, inner, found);
            read.pop();
        }
    }

    fn step_through(&self, bytes: &mut Bytes<'_>, end: usize, found: &mut Vec<Range<usize>>) {
        let automaton = &self.stepwise;
        let Ok(mut state) = automaton.start_state(Anchored::No) else { return };
        // Places of the last bytes, as many as the longest secret has.
        let mut places = vec![0; automaton.max_pattern_len()];
        let length = places.len();
        let (mut count, mut ended) = (0, None);
        for (byte, place) in bytes {
            found.extend(ended.take().map(|start| start..place));
            places[count % length] = place;
            count += 1;
            state = automaton.next_state(Anchored::No, state, byte);
            if automaton.is_match(state) {
                let lengths = (0..automaton.match_len(state))
                    .map(|at| automaton.pattern_len(automaton.match_pattern(state, at)));
                ended = lengths.max().map(|longest| places[(count - longest) % length]);
            }
        }
        found.extend(ended.map(|start| start..end));
    }
}

/// Forms that no reading of escapes gives back.
fn forms(secret: &str) -> Vec<String> {
    let hex: Vec<String> = secret.bytes().map(|byte| format!("{byte:02x}")).collect();
    let hex = hex.concat();
    let mut forms = vec![secret.to_owned(), secret.replace(' ', "+"), hex.to_uppercase(), hex];
    // Digits of a short secret would be found everywhere.
    forms.truncate(if secret.len() < SHORTEST { 2 } else { 4 });
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
            percent.replace('%', ""),
            percent.replace('%', "").to_uppercase(),
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
    fn n14_secrets_in_each_other_are_masked_as_a_whole() {
        let masks = Redactor::of_any_length(["abcdef".to_owned(), "bcd".to_owned(), "efgh".to_owned()]);
        assert_eq!(masks.mask(r"abcdefgh"), "***gh");
        for (text, masked) in [(r"\u0061bcdefgh", "***"), (r"xa\u0062cd\u0065y", "xa***\\u0065y")] {
            assert_eq!(masks.mask(text), masked, "{text}");
        }
    }

    #[cfg(target_os = "linux")]
    #[test]
    fn n14_a_large_text_is_masked_in_little_memory() {
        let resident = || {
            let status = std::fs::read_to_string("/proc/self/status").unwrap();
            let line = status.lines().find(|line| line.starts_with("VmHWM")).unwrap();
            line.split_whitespace().nth(1).unwrap().parse::<usize>().unwrap() / 1024
        };
        let masks = Redactor::new(["S3/CR3T-KEY".to_owned()]);
        let text = r#"{\\\"a%20\\n\": \"\u0041\"}"#.repeat(40_000);
        let before = resident();
        let masked = masks.mask(&text);
        let grown = resident() - before;
        assert!(matches!(masked, Cow::Borrowed(_)));
        assert!(grown < 8, "{grown} MiB for a text of {} MiB", text.len() >> 20);
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
