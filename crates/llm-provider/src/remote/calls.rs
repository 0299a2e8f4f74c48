//! The calls of an answer: pieces belong together by block or index, and are distinguished by id.

use std::hash::{DefaultHasher, Hash, Hasher};

use serde_json::Value;

use super::arguments::Arguments;
use crate::NativeCall;

/// Most calls of an answer, so that looking one up stays cheap.
pub(super) const MAX_CALLS: usize = 256;

/// A piece of a call, as far as its dialect names it.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Piece<'p> {
    /// Block or index: a number, or a number as text.
    pub(super) slot: Option<&'p Value>,
    /// Name of the item that pieces belong to, where it is another than the id.
    pub(super) item: Option<&'p str>,
    pub(super) id: Option<&'p str>,
    pub(super) name: Option<&'p str>,
    /// JSON, or its text.
    pub(super) arguments: Option<&'p Value>,
    /// The arguments are all that there are, whatever came before.
    pub(super) is_whole: bool,
    /// The piece is a whole call, never a continuation.
    pub(super) is_call: bool,
    /// The piece is a whole call of the whole answer at the end, which may have been streamed under another id.
    pub(super) is_last: bool,
}

/// A new part of a call.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Grown {
    pub(super) index: usize,
    pub(super) name: String,
    pub(super) arguments: String,
    /// Bytes that are held because of the piece, beyond its arguments.
    pub(super) held: usize,
    /// The piece began the call.
    pub(super) is_new: bool,
}

/// Reason for which a piece belongs to no call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Lost {
    /// It continues a call that never began.
    NoCall,
    /// There are too many calls.
    TooMany,
}

#[derive(Debug, Default)]
struct Call {
    slot: Option<String>,
    item: Option<String>,
    id: String,
    name: String,
    arguments: Arguments,
    signatures: Vec<String>,
    reasoning: Vec<Value>,
    /// The whole answer at the end has it.
    is_matched: bool,
    /// Hash of the arguments, once the whole answer is looked up.
    value: Option<u64>,
}

/// The calls so far, in the order in which they began.
#[derive(Debug, Default)]
pub(super) struct Calls(Vec<Call>);

impl Calls {
    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Takes a piece.
    pub(super) fn push(&mut self, piece: Piece<'_>) -> Result<Grown, Lost> {
        let slot = piece.slot.and_then(slot_name);
        let id = piece.id.filter(|id| !id.is_empty());
        let name = piece.name.filter(|name| !name.is_empty());
        let text = piece.arguments.map(argument_text).unwrap_or_default();
        let found =
            if piece.is_call && id.is_none() { None } else { self.find(&piece, slot.as_deref(), &text) };
        let found = found.or_else(|| if piece.is_last { self.find_streamed(name?, &text) } else { None });
        let is_new = found.is_none();
        let index = match found {
            Some(index) => index,
            None if id.is_none() && name.is_none() => return Err(Lost::NoCall),
            None if self.0.len() == MAX_CALLS => return Err(Lost::TooMany),
            None => {
                self.0.push(Call::default());
                self.0.len() - 1
            }
        };
        let call = &mut self.0[index];
        let before = call.held();
        call.is_matched |= piece.is_last;
        call.value = None;
        call.slot = slot.or(call.slot.take());
        call.item = piece.item.map(str::to_owned).or(call.item.take());
        if let (Some(id), true) = (id, call.id.is_empty()) {
            id.clone_into(&mut call.id);
        }
        if let Some(name) = name.filter(|name| name.len() > call.name.len()) {
            name.clone_into(&mut call.name);
        }
        let arguments = if piece.is_whole {
            let is_first = call.arguments.is_empty();
            call.arguments.set_whole(&text);
            if is_first { text } else { String::new() }
        } else {
            call.arguments.push(&text)
        };
        let held = call.held().saturating_sub(before + arguments.len());
        Ok(Grown { index, name: call.name.clone(), arguments, held, is_new })
    }

    /// A whole answer begins: it may have each call once more.
    pub(super) fn begin_whole(&mut self) {
        self.0.iter_mut().for_each(|call| call.is_matched = false);
    }

    /// The first call of this name and these arguments, or the beginning of them, that the whole answer has not had yet.
    fn find_streamed(&mut self, name: &str, text: &str) -> Option<usize> {
        let wanted = argument_hash(text);
        let same = self.0.iter_mut().position(|call| {
            !call.is_matched && call.name == name && {
                let arguments = &call.arguments;
                *call.value.get_or_insert_with(|| argument_hash(&arguments.clone().finish())) == wanted
            }
        });
        same.or_else(|| {
            let is_begun =
                |call: &Call| !call.is_matched && call.name == name && call.arguments.is_beginning_of(text);
            self.0.iter().position(is_begun)
        })
    }

    /// The call that a piece continues, if it continues one.
    fn find(&self, piece: &Piece<'_>, slot: Option<&str>, text: &str) -> Option<usize> {
        let id = piece.id.filter(|id| !id.is_empty());
        let name = piece.name.filter(|name| !name.is_empty());
        let last = |fits: &dyn Fn(&Call) -> bool| self.0.iter().rposition(fits);
        let by_item = piece.item.and_then(|item| last(&|call| call.item.as_deref() == Some(item)));
        let by_slot = || slot.and_then(|slot| last(&|call| call.slot.as_deref() == Some(slot)));
        let by_id = || id.and_then(|id| last(&|call| call.id == id));
        // Of calls that share a place, the id distinguishes them.
        let fits_slot = |call: &Call| slot.is_none() || call.slot.is_none() || call.slot.as_deref() == slot;
        let exact = id.and_then(|id| last(&|call| call.id == id && fits_slot(call)));
        let found = by_item.or(exact).or_else(by_slot).or_else(|| by_id().filter(|_| name.is_none()));
        let index = found.or_else(|| self.last_continued(slot, id, name))?;
        let call = &self.0[index];
        let is_another = name.is_some_and(|name| call.is_another(id, name))
            || name.is_some() && !piece.is_whole && call.arguments.is_contradicted_by(text);
        (!is_another).then_some(index)
    }

    /// The call that was begun last, where nothing says that a piece belongs elsewhere.
    fn last_continued(&self, slot: Option<&str>, id: Option<&str>, name: Option<&str>) -> Option<usize> {
        let last = self.0.last()?;
        let continues = match (slot, id, name) {
            (None, None, None) => true,
            // Some servers name the call in each piece, or begin it without an index or with an id for each piece.
            (Some(_), None, None) => last.slot.is_none(),
            (None, Some(_), None) => last.arguments.is_open(),
            (None, None, Some(name)) => last.name == name && last.arguments.is_open(),
            (Some(_) | None, ..) => false,
        };
        continues.then(|| self.0.len() - 1)
    }

    /// Adds a signature to the last call.
    pub(super) fn sign(&mut self, signature: &str) {
        if let Some(call) = self.0.last_mut() {
            call.signatures.push(signature.to_owned());
        }
    }

    /// Puts reasoning before a call, or before the last one there is.
    pub(super) fn add_reasoning(&mut self, index: usize, reasoning: impl IntoIterator<Item = Value>) {
        let index = index.min(self.0.len().saturating_sub(1));
        if let Some(call) = self.0.get_mut(index) {
            call.reasoning.extend(reasoning);
        }
    }

    /// The calls. Those without an id are given one that no other has.
    pub(super) fn finish(self) -> Vec<NativeCall> {
        let ids: Vec<String> = self.0.iter().map(|call| call.id.clone()).collect();
        let own = |index: usize| {
            let mut id = format!("call_{index}");
            while ids.contains(&id) {
                id.push('_');
            }
            id
        };
        let calls = self.0.into_iter().enumerate().map(|(index, call)| NativeCall {
            signatures: call.signatures,
            reasoning: call.reasoning,
            ..NativeCall::new(
                if call.id.is_empty() { own(index) } else { call.id },
                call.name,
                call.arguments.finish(),
            )
        });
        calls.collect()
    }
}

impl Call {
    /// Bytes of what pieces have brought; signatures and reasoning are counted as they come.
    fn held(&self) -> usize {
        let places = [&self.slot, &self.item].into_iter().flatten().map(String::len).sum::<usize>();
        places + self.id.len() + self.name.len() + self.arguments.held()
    }

    /// Returns `true` when id or name of a piece show that another call begins in the same place.
    fn is_another(&self, id: Option<&str>, name: &str) -> bool {
        let is_other_id = id.is_some_and(|id| !self.id.is_empty() && self.id != id);
        is_other_id || !(name.starts_with(&self.name) || self.name.starts_with(name))
    }
}

/// The name of a block or an index; nothing where none is given.
fn slot_name(slot: &Value) -> Option<String> {
    match slot {
        Value::Null => None,
        Value::String(text) => Some(text.trim().to_owned()).filter(|text| !text.is_empty()),
        other => Some(other.to_string()),
    }
}

/// Arguments as text, whether they come as JSON or as JSON text.
fn argument_text(arguments: &Value) -> String {
    match arguments {
        Value::Null => String::new(),
        Value::String(text) => text.clone(),
        other => other.to_string(),
    }
}

/// Hash of the value of arguments, whatever their blanks; none are an empty object.
fn argument_hash(text: &str) -> u64 {
    let text = if text.trim().is_empty() { "{}" } else { text };
    let value = serde_json::from_str(text).unwrap_or_else(|_| Value::String(text.to_owned()));
    let mut hasher = DefaultHasher::new();
    value.hash(&mut hasher);
    hasher.finish()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    /// A piece in the form of chat completions.
    fn piece(entry: &Value) -> Piece<'_> {
        Piece {
            slot: entry.get("index"),
            id: entry["id"].as_str(),
            name: entry["name"].as_str(),
            arguments: entry.get("arguments"),
            is_whole: entry["last"] == true,
            is_last: entry["last"] == true,
            ..Piece::default()
        }
    }

    #[track_caller]
    fn check(entries: &Value, expected: &[(&str, &str, &str)]) {
        let mut calls = Calls::default();
        for entry in entries.as_array().expect("a list") {
            calls.push(piece(entry)).expect("a call");
        }
        let calls = calls.finish();
        let found: Vec<_> = calls
            .iter()
            .map(|call| (call.id.as_str(), call.name.as_str(), call.arguments.as_str()))
            .collect();
        assert_eq!(found, expected, "{entries}");
    }

    #[test]
    fn pieces_belong_together_by_index() {
        check(
            &json!([{"index": 1, "id": "a", "name": "x", "arguments": "{\"q\":"},
                {"index": 0, "id": "b", "name": "x", "arguments": "{\"q\":"},
                {"index": 1, "arguments": "1}"}, {"index": 0, "id": "", "arguments": "2}"}]),
            &[("a", "x", r#"{"q":1}"#), ("b", "x", r#"{"q":2}"#)],
        );
        check(
            &json!([{"index": "0", "name": "x", "arguments": "{"}, {"index": 0, "arguments": "}"},
                {"index": 4_000_000_000_u64, "name": "y"}]),
            &[("call_0", "x", "{}"), ("call_1", "y", "")],
        );
    }

    #[test]
    fn without_an_index_they_belong_to_the_call_begun_last() {
        check(
            &json!([{"id": "a", "name": "x", "arguments": "{"}, {"arguments": "\"q\":"}, {"index": null, "arguments": "1}"},
                {"index": null, "id": "b", "name": "x", "arguments": "{}"}]),
            &[("a", "x", r#"{"q":1}"#), ("b", "x", "{}")],
        );
        check(
            &json!([{"name": "x", "arguments": "{\"q\""}, {"name": "x", "arguments": ":1}"}, {"name": "x", "arguments": "{}"}]),
            &[("call_0", "x", r#"{"q":1}"#), ("call_1", "x", "{}")],
        );
    }

    #[test]
    fn a_new_id_begins_a_new_call() {
        check(
            &json!([{"index": 0, "id": "a", "name": "x", "arguments": "{}"}, {"index": 0, "id": "b", "name": "x", "arguments": "{}"}]),
            &[("a", "x", "{}"), ("b", "x", "{}")],
        );
        // An id for each piece of one call.
        check(
            &json!([{"index": 0, "id": "a", "name": "x", "arguments": "{"}, {"index": 0, "id": "b", "arguments": "}"}]),
            &[("a", "x", "{}")],
        );
        // One id for all calls.
        check(
            &json!([{"index": 0, "id": "a", "name": "x", "arguments": "{\"q\":1}"}, {"index": 1, "id": "a", "name": "x", "arguments": "{\"q\":2}"}]),
            &[("a", "x", r#"{"q":1}"#), ("a", "x", r#"{"q":2}"#)],
        );
        check(
            &json!([{"id": "a", "name": "x", "arguments": "{\"q\":1}"}, {"id": "a", "name": "y", "arguments": "{}"}]),
            &[("a", "x", r#"{"q":1}"#), ("a", "y", "{}")],
        );
    }

    #[test]
    fn what_is_finished_is_not_continued_by_something_else() {
        check(
            &json!([{"index": 0, "name": "x", "arguments": {"q": 1}}, {"index": 0, "name": "x", "arguments": {"q": 2}},
                {"index": 0, "name": "x", "arguments": {"q": 2}}, {"index": 0, "name": "y", "arguments": null}]),
            &[("call_0", "x", r#"{"q":1}"#), ("call_1", "x", r#"{"q":2}"#), ("call_2", "y", "")],
        );
    }

    #[test]
    fn a_call_of_the_whole_answer_is_the_one_that_was_streamed() {
        let streamed = |id: &str| json!({"index": id, "id": id, "name": "x", "arguments": "{\"q\":1}"});
        let last = |id: Option<&str>, q: u64| json!({"id": id, "name": "x", "arguments": format!("{{\"q\": {q}}}"), "last": true});
        let (one, two) = (("a", "x", r#"{"q":1}"#), ("b", "x", r#"{"q":1}"#));
        check(&json!([streamed("a"), last(Some("c"), 1)]), &[one]);
        check(&json!([streamed("a"), last(None, 1)]), &[one]);
        check(&json!([streamed("a"), streamed("b"), last(Some("c"), 1), last(Some("d"), 1)]), &[one, two]);
        check(&json!([streamed("a"), streamed("b"), last(None, 1), last(None, 1)]), &[one, two]);
        check(&json!([streamed("a"), last(Some("c"), 2)]), &[one, ("c", "x", r#"{"q": 2}"#)]);
        check(
            &json!([last(Some("c"), 1), last(Some("d"), 1)]),
            &[("c", "x", r#"{"q": 1}"#), ("d", "x", r#"{"q": 1}"#)],
        );
    }

    #[test]
    fn a_piece_without_a_call_is_lost() {
        let (mut calls, entry) = (Calls::default(), json!({"index": 0, "arguments": "{}"}));
        assert_eq!(calls.push(piece(&entry)), Err(Lost::NoCall));
        let entries: Vec<Value> = (0..=MAX_CALLS).map(|index| json!({"index": index, "name": "x"})).collect();
        let lost = entries.iter().find_map(|entry| calls.push(piece(entry)).err());
        assert_eq!(lost, Some(Lost::TooMany));
    }

    #[test]
    fn an_id_that_is_made_up_is_not_there_yet() {
        let entries = json!([{"name": "x"}, {"id": "call_0", "name": "y"}]);
        check(&entries, &[("call_0_", "x", ""), ("call_0", "y", "")]);
    }
}
