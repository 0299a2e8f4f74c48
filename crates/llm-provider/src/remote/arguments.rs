//! The argument text of a call, from whatever pieces a server sends it in.

use serde_json::Value;

/// Argument text as it comes: in pieces, whole, whole again, or each piece with all that came before it.
#[derive(Debug, Clone, Default)]
pub(super) struct Arguments {
    /// All pieces behind each other.
    text: String,
    /// Position of the last piece.
    last: usize,
    /// Each piece so far began with the one before it.
    is_cumulative: bool,
    /// Length of the text when its object had come to its end.
    closed: Option<usize>,
    /// The whole, from an event that gives it as such.
    whole: Option<String>,
    nesting: Nesting,
}

impl Arguments {
    /// Takes a piece, and returns the part of it that is new, as far as that can be known now.
    pub(super) fn push(&mut self, piece: &str) -> String {
        let repeats_whole = self.closed.is_some_and(|closed| self.text[..closed].trim() == piece.trim());
        if piece.is_empty() || repeats_whole {
            return String::new();
        }
        let before = &self.text[self.last..];
        let is_first = self.text.is_empty();
        self.is_cumulative = is_first || self.is_cumulative && piece.starts_with(before);
        let new = match self.closed {
            Some(_) => "",
            // Two objects can only stand behind each other where the second repeats the first.
            None if self.is_cumulative && (before == "{" || before.starts_with("{\"")) => {
                &piece[before.len()..]
            }
            None => piece,
        };
        self.nesting.read(new);
        let new = new.to_owned();
        self.last = self.text.len();
        self.text.push_str(piece);
        if self.closed.is_none() && self.nesting.is_closed() {
            self.closed = Some(self.text.len());
        }
        new
    }

    /// Takes the whole of the arguments.
    pub(super) fn set_whole(&mut self, whole: &str) {
        if !whole.trim().is_empty() {
            self.whole = Some(whole.to_owned());
        }
    }

    /// Returns `true` when an object has begun and has not come to its end.
    pub(super) fn is_open(&self) -> bool {
        !self.text.trim().is_empty() && self.closed.is_none() && self.whole.is_none()
    }

    /// Returns `true` when what has come is the beginning of a text, and not a whole object.
    pub(super) fn is_beginning_of(&self, text: &str) -> bool {
        let own = self.whole.as_deref().unwrap_or(&self.text).trim();
        text.len() > own.len() && text.trim_start().starts_with(own) && (own.is_empty() || !is_object(own))
    }

    /// Bytes that are held.
    pub(super) fn held(&self) -> usize {
        self.text.len() + self.whole.as_ref().map_or(0, String::len)
    }

    /// Returns `true` when nothing has come.
    pub(super) fn is_empty(&self) -> bool {
        self.text.trim().is_empty() && self.whole.is_none()
    }

    /// Returns `true` when a text is a whole object, and another one than the object that has come.
    pub(super) fn is_contradicted_by(&self, text: &str) -> bool {
        let Some(closed) = self.closed else { return false };
        let object = |text: &str| serde_json::from_str::<Value>(text).ok().filter(|value| !is_empty(value));
        match object(text).filter(Value::is_object) {
            // The same object would need as much room, whatever its blanks.
            Some(_) if text.len() * 8 + 64 < closed => true,
            Some(value) => object(&self.text[..closed]).is_some_and(|own| own != value),
            None => false,
        }
    }

    /// The arguments as the model wrote them. What cannot be made sense of stays as it came, for the model to hear of it.
    pub(super) fn finish(self) -> String {
        let Self { text, last, is_cumulative, whole, .. } = self;
        let streamed = once(&text).or_else(|| is_cumulative.then(|| once(&text[last..])).flatten());
        let whole = whole.map(|whole| once(&whole).unwrap_or(whole));
        let found = match (streamed, whole) {
            (Some(streamed), Some(whole)) => believed(streamed, whole),
            (Some(streamed), _) => streamed,
            (None, Some(whole)) if text.trim().is_empty() || is_object(&whole) => whole,
            (None, _) => text,
        };
        unquoted(found)
    }
}

/// The one value that a text holds once, or several times alike. Empty objects beside it only hold the place.
fn once(text: &str) -> Option<String> {
    let mut values = serde_json::Deserializer::from_str(text).into_iter::<Value>();
    let mut found: Option<(Value, &str)> = None;
    let mut from = 0;
    while let Some(value) = values.next() {
        let (value, to) = (value.ok()?, values.byte_offset());
        let written = text[from..to].trim();
        from = to;
        match &found {
            Some((known, _)) if *known == value || is_empty(&value) => {}
            Some((known, _)) if !is_empty(known) => return None,
            Some(_) | None => found = Some((value, written)),
        }
    }
    found.map(|(_, written)| written.to_owned())
}

/// The whole, unless it only holds the place, is cut off, or differs in form alone.
fn believed(streamed: String, whole: String) -> String {
    let read = |text: &str| serde_json::from_str::<Value>(text).ok();
    let value = read(&whole).filter(|value| value.is_object() && !is_empty(value));
    if value.is_some() && value != read(&streamed) { whole } else { streamed }
}

fn is_object(text: &str) -> bool {
    serde_json::from_str::<Value>(text).is_ok_and(|value| value.is_object())
}

fn is_empty(value: &Value) -> bool {
    value.as_object().is_some_and(serde_json::Map::is_empty)
}

/// An object that was written as JSON text once more is that object.
fn unquoted(text: String) -> String {
    if !text.starts_with('"') {
        return text;
    }
    match serde_json::from_str::<Value>(&text) {
        Ok(Value::String(inner)) if is_object(&inner) => inner,
        Ok(_) | Err(_) => text,
    }
}

/// Depth of a JSON text that comes in pieces.
#[derive(Debug, Clone, Copy, Default)]
struct Nesting {
    depth: usize,
    in_text: bool,
    escaped: bool,
    has_begun: bool,
}

impl Nesting {
    fn read(&mut self, piece: &str) {
        for byte in piece.bytes() {
            match byte {
                _ if std::mem::take(&mut self.escaped) => {}
                b'\\' if self.in_text => self.escaped = true,
                b'"' => self.in_text = !self.in_text,
                b'{' | b'[' if !self.in_text => {
                    self.depth += 1;
                    self.has_begun = true;
                }
                b'}' | b']' if !self.in_text => self.depth = self.depth.saturating_sub(1),
                _ => {}
            }
        }
    }

    const fn is_closed(self) -> bool {
        self.has_begun && self.depth == 0 && !self.in_text
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn finished(pieces: &[&str], whole: Option<&str>) -> String {
        let mut arguments = Arguments::default();
        for piece in pieces {
            arguments.push(piece);
        }
        if let Some(whole) = whole {
            arguments.set_whole(whole);
        }
        arguments.finish()
    }

    #[track_caller]
    fn check(pieces: &[&str], expected: &str) {
        assert_eq!(finished(pieces, None), expected, "{pieces:?}");
    }

    #[test]
    fn pieces_make_up_the_text() {
        check(&[], "");
        check(&["{\"q\": ", "\"oak\"}"], "{\"q\": \"oak\"}");
        check(&["{\"q\":\"100", "00", "00", "{}", "{}", "\"}"], "{\"q\":\"1000000{}{}\"}");
        check(&["{\"a\":", "{\"a\":1}}"], "{\"a\":{\"a\":1}}");
        check(&["[", "[", "]", "]"], "[[]]");
        check(&["null"], "null");
    }

    #[test]
    fn what_is_repeated_counts_once() {
        check(&["{\"q\": \"oak\"}", "{\"q\": \"oak\"}"], "{\"q\": \"oak\"}");
        check(&["{\"q\":", " \"oak\"}", "{\"q\":\"oak\"}"], "{\"q\": \"oak\"}");
        check(&["{\"q\":1}", "{\"q\"", ":1}"], "{\"q\":1}");
        check(&["{", "{\"q\"", "{\"q\":1", "{\"q\":1}"], "{\"q\":1}");
        check(&["{\"q\":1", "{\"q\":1}", "{\"q\":1}"], "{\"q\":1}");
        check(&["{}", "{\"q\":1}", "{}"], "{\"q\":1}");
        check(&["{\"q\":1}", "\n"], "{\"q\":1}");
    }

    #[test]
    fn what_contradicts_itself_stays_as_it_is() {
        check(&["{\"q\":1}", "{\"q\":2}"], "{\"q\":1}{\"q\":2}");
        check(&["{\"q\":1}", "}"], "{\"q\":1}}");
        check(&["{\"q\": oak"], "{\"q\": oak");
    }

    #[test]
    fn an_object_in_text_is_the_object() {
        check(&[r#""{\"q\":1}""#], "{\"q\":1}");
        check(&[r#""oak""#], r#""oak""#);
    }

    #[test]
    fn the_whole_is_believed() {
        for (pieces, whole, expected) in [
            (&["{\"q\":"][..], "{\"q\":1}", "{\"q\":1}"),
            (&["{\"q\": 1}"], "{\"q\":1}", "{\"q\": 1}"),
            (&["{\"q\":1}"], "{}", "{\"q\":1}"),
            (&["{\"q\":1}"], "{\"q\":2}", "{\"q\":2}"),
            (&["{\"q\":1}"], "{\"q\":", "{\"q\":1}"),
            (&[], "{\"q\":", "{\"q\":"),
            (&["{\"q\":"], "", "{\"q\":"),
        ] {
            assert_eq!(finished(pieces, Some(whole)), expected, "{pieces:?}, then {whole}");
        }
    }

    fn value() -> impl Strategy<Value = Value> {
        let leaf = prop_oneof![
            Just(Value::Null),
            any::<i32>().prop_map(Value::from),
            "[a{}\"\\\\: ]{0,5}".prop_map(Value::from),
        ];
        leaf.prop_recursive(3, 16, 4, |inner| {
            prop_oneof![
                prop::collection::vec(inner.clone(), 0..4).prop_map(Value::from),
                prop::collection::vec(("[ab{\"]{0,2}", inner), 0..4)
                    .prop_map(|pairs| Value::Object(pairs.into_iter().collect())),
            ]
        })
    }

    fn object() -> impl Strategy<Value = String> {
        prop::collection::vec(("[ab{\"]{0,2}", value()), 0..4)
            .prop_map(|pairs| Value::Object(pairs.into_iter().collect()).to_string())
    }

    fn cut(text: &str, size: usize) -> Vec<String> {
        text.chars().collect::<Vec<_>>().chunks(size).map(|piece| piece.iter().collect()).collect()
    }

    proptest! {
        #[test]
        fn any_cut_gives_the_same(text in object(), size in 1_usize..9) {
            let mut arguments = Arguments::default();
            for piece in cut(&text, size) {
                arguments.push(&piece);
            }
            prop_assert_eq!(arguments.finish(), text);
        }

        #[test]
        fn pieces_that_hold_all_before_them_give_the_same(text in object(), size in 1_usize..9) {
            let mut arguments = Arguments::default();
            let mut so_far = String::new();
            for piece in cut(&text, size) {
                so_far.push_str(&piece);
                arguments.push(&so_far);
            }
            prop_assert_eq!(arguments.finish(), text);
        }

        #[test]
        fn the_whole_again_changes_nothing(text in object(), size in 1_usize..9) {
            let mut arguments = Arguments::default();
            for piece in cut(&text, size) {
                arguments.push(&piece);
            }
            arguments.push(&text);
            prop_assert_eq!(arguments.finish(), text);
        }
    }
}
