//! Messages as strict servers want them: ids unique, each result behind its call, no empty message, roles in turn.

use std::collections::{HashMap, HashSet, VecDeque};

use serde_json::{Map, Value, json};

use crate::attachment::Sent;
use crate::{Attachment, AttachmentSource, Message, ModelInfo, NativeCall};

/// Text of a message of the user that has none.
const NO_TEXT: &str = "(no text)";

/// Result of a call that has none in the conversation.
const NO_RESULT: &str = "Error - the result of this call is missing";

/// Most characters of names and ids.
const MAX_NAME: usize = 64;

/// Most characters of an id that a number stands behind.
const MAX_STEM: usize = MAX_NAME - 11;

/// A part of the conversation as it is sent.
#[derive(Debug, PartialEq)]
pub(super) enum Said {
    /// Instructions.
    System(String),
    /// A message of the user; the attachments are those that the model reads.
    User { text: String, attachments: Vec<Attachment> },
    /// A reply of the model: text, calls or both.
    Assistant { text: String, calls: Vec<NativeCall> },
    /// The results of the calls before it, in their order.
    Results(Vec<ToolResult>),
}

/// The result of a call.
#[derive(Debug, PartialEq)]
pub(super) struct ToolResult {
    pub(super) id: String,
    pub(super) name: String,
    pub(super) text: String,
}

/// The conversation of a request.
pub(super) fn conversation(messages: &[Message], model: &ModelInfo) -> Vec<Said> {
    let mut said = Vec::new();
    let mut ids = Ids::default();
    let mut rest = messages;
    while let Some((message, behind)) = rest.split_first() {
        rest = behind;
        match message {
            Message::System { text } if text.trim().is_empty() => {}
            Message::System { text } => said.push(Said::System(text.clone())),
            Message::User { text, attachments } => add_user(&mut said, text, attachments, model),
            Message::Assistant { text, calls } if calls.is_empty() => add_text(&mut said, text),
            Message::Assistant { text, calls } => {
                let count =
                    behind.iter().take_while(|next| !matches!(next, Message::Assistant { .. })).count();
                let results = results(calls, &behind[..count]);
                add_calls(&mut said, (&mut ids, model), text, calls, results);
            }
            // A result whose call is not in the conversation any more.
            Message::Tool { call, name, text } if !is_answer(messages, rest.len() + 1, call) => {
                add_user(&mut said, &format!("[result of {name}]\n{text}"), &[], model);
            }
            Message::Tool { .. } => {}
        }
    }
    said
}

/// Returns `true` when the reply before a result, which stands so far from the end, made its call.
fn is_answer(messages: &[Message], from_end: usize, call: &str) -> bool {
    let before = &messages[..messages.len() - from_end];
    let reply = before.iter().rev().find_map(|message| match message {
        Message::Assistant { calls, .. } => Some(calls),
        _ => None,
    });
    reply.is_some_and(|calls| calls.iter().any(|known| known.id == call))
}

/// The results of calls, in their order; of calls that share an id, each takes the next one.
fn results<'m>(calls: &[NativeCall], behind: &'m [Message]) -> Vec<Option<&'m str>> {
    let mut given: VecDeque<(&str, &str)> = behind
        .iter()
        .filter_map(|message| match message {
            Message::Tool { call, text, .. } => Some((call.as_str(), text.as_str())),
            _ => None,
        })
        .collect();
    let take = |call: &NativeCall| {
        let position = given.iter().position(|(id, _)| *id == call.id)?;
        given.remove(position).map(|(_, text)| text)
    };
    calls.iter().map(take).collect()
}

fn add_calls(
    said: &mut Vec<Said>,
    (ids, model): (&mut Ids, &ModelInfo),
    text: &str,
    calls: &[NativeCall],
    results: Vec<Option<&str>>,
) {
    let sent = |call: &NativeCall| {
        let is_own = call.source.as_ref().is_none_or(|source| *source == model.source);
        let kept = if is_own { call.clone() } else { NativeCall::new("", "", call.arguments.clone()) };
        NativeCall { id: ids.unique(&call.id), name: accepted_name(&call.name), source: None, ..kept }
    };
    let calls: Vec<NativeCall> = calls.iter().map(sent).collect();
    let results = calls.iter().zip(results).map(|(call, text)| ToolResult {
        id: call.id.clone(),
        name: call.name.clone(),
        text: text.unwrap_or(NO_RESULT).to_owned(),
    });
    let results = results.collect();
    add_text(said, text);
    match said.last_mut() {
        Some(Said::Assistant { calls: before, .. }) if before.is_empty() => *before = calls,
        _ => said.push(Said::Assistant { text: String::new(), calls }),
    }
    said.push(Said::Results(results));
}

/// The ids of the calls so far.
#[derive(Debug, Default)]
struct Ids {
    taken: HashSet<String>,
    /// Number that comes next behind an id.
    next: HashMap<String, u32>,
}

impl Ids {
    /// An id that no call before has: this one, or this one with a number.
    fn unique(&mut self, id: &str) -> String {
        let mut id = accepted(id, "call");
        if self.taken.insert(id.clone()) {
            return id;
        }
        let stem = id[..id.len().min(MAX_STEM)].to_owned();
        let next = self.next.entry(stem.clone()).or_insert(2);
        while !self.taken.insert(id.clone()) {
            id = format!("{stem}_{next}");
            *next += 1;
        }
        id
    }
}

/// The name of a tool in the characters and the length that every server accepts.
pub(super) fn accepted_name(name: &str) -> String {
    accepted(name, "unknown")
}

/// A name or an id in the characters and the length that every server accepts.
fn accepted(name: &str, instead: &str) -> String {
    let accepted = |letter: char| match letter {
        'A'..='Z' | 'a'..='z' | '0'..='9' | '_' | '-' => letter,
        _ => '_',
    };
    let name = if name.is_empty() { instead } else { name };
    name.chars().take(MAX_NAME).map(accepted).collect()
}

fn add_text(said: &mut Vec<Said>, text: &str) {
    if text.trim().is_empty() {
        return;
    }
    match said.last_mut() {
        Some(Said::Assistant { text: before, calls }) if calls.is_empty() => before.extend_from(text),
        _ => said.push(Said::Assistant { text: text.to_owned(), calls: Vec::new() }),
    }
}

/// Adds the text, with what the model cannot read as text behind it, and the attachments that it reads.
fn add_user(said: &mut Vec<Said>, text: &str, attachments: &[Attachment], model: &ModelInfo) {
    let mut whole = text.to_owned();
    let mut read = Vec::new();
    for attachment in attachments {
        match attachment.sent_to(model) {
            Sent::Whole => read.push(attachment.clone()),
            Sent::Text(instead) => whole.extend_from(&instead),
        }
    }
    if whole.trim().is_empty() {
        whole = if read.is_empty() { NO_TEXT.to_owned() } else { String::new() };
    }
    match said.last_mut() {
        Some(Said::User { text, attachments }) if attachments.is_empty() => {
            text.extend_from(&whole);
            *attachments = read;
        }
        _ => said.push(Said::User { text: whole, attachments: read }),
    }
}

/// Text that grows by paragraphs.
trait Paragraphs {
    fn extend_from(&mut self, text: &str);
}

impl Paragraphs for String {
    fn extend_from(&mut self, text: &str) {
        if !self.is_empty() && !text.is_empty() {
            self.push_str("\n\n");
        }
        self.push_str(text);
    }
}

/// Splits off the instructions, for providers that want them apart, and has the user speak first.
pub(super) fn instructions_apart(said: Vec<Said>) -> (Option<String>, Vec<Said>) {
    let mut system: Option<String> = None;
    let mut rest = Vec::new();
    for part in said {
        match part {
            Said::System(text) => system.get_or_insert_default().extend_from(&text),
            Said::User { text, attachments } => match rest.last_mut() {
                Some(Said::User { text: before, attachments: others }) if others.is_empty() => {
                    before.extend_from(&text);
                    *others = attachments;
                }
                _ => rest.push(Said::User { text, attachments }),
            },
            Said::Assistant { text, calls } => match rest.last_mut() {
                Some(Said::Assistant { text: before, calls: none }) if none.is_empty() => {
                    if !text.trim().is_empty() {
                        before.extend_from(&text);
                    }
                    *none = calls;
                }
                _ => rest.push(Said::Assistant { text, calls }),
            },
            results @ Said::Results(_) => rest.push(results),
        }
    }
    if !matches!(rest.first(), Some(Said::User { .. })) {
        rest.insert(0, Said::User { text: NO_TEXT.into(), attachments: Vec::new() });
    }
    (system, rest)
}

/// The arguments of a call as an object. Other values go back inside one, so that the model can see it.
pub(super) fn argument_object(call: &NativeCall) -> Value {
    let text = call.arguments.trim();
    match serde_json::from_str::<Value>(text) {
        Ok(Value::Object(members)) => Value::Object(members),
        Ok(Value::Null) => Value::Object(Map::new()),
        Ok(_) | Err(_) if !text.is_empty() => json!({"not_an_object": text}),
        Ok(_) | Err(_) => Value::Object(Map::new()),
    }
}

/// The arguments of a call as the text of an object, unchanged where they are one.
pub(super) fn argument_text(call: &NativeCall) -> String {
    let is_object = serde_json::from_str::<Map<String, Value>>(&call.arguments).is_ok();
    if is_object { call.arguments.clone() } else { argument_object(call).to_string() }
}

/// The address of an attachment, or one that holds its bytes.
pub(super) fn address(attachment: &Attachment) -> String {
    match &attachment.source {
        AttachmentSource::Data(data) => format!("data:{};base64,{data}", attachment.mime),
        AttachmentSource::Url(url) => url.clone(),
    }
}

/// Returns `true` for images; other attachments that models read are documents.
pub(super) fn is_image(attachment: &Attachment) -> bool {
    attachment.mime.starts_with("image/")
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn call(id: &str) -> NativeCall {
        NativeCall::new(id, "look", "{}")
    }

    fn reply(text: &str, ids: &[&str]) -> Message {
        Message::Assistant { text: text.into(), calls: ids.iter().map(|id| call(id)).collect() }
    }

    fn result(id: &str, text: &str) -> Message {
        Message::Tool { call: id.into(), name: "look".into(), text: text.into() }
    }

    fn said(messages: &[Message]) -> Vec<Said> {
        conversation(messages, &ModelInfo::default())
    }

    fn results_of(said: &[Said]) -> Vec<(&str, &str)> {
        let results = said.iter().filter_map(|part| match part {
            Said::Results(results) => Some(results),
            _ => None,
        });
        results.flatten().map(|result| (result.id.as_str(), result.text.as_str())).collect()
    }

    #[test]
    fn ids_are_unique_and_results_follow_them() {
        let said = said(&[
            reply("", &["c", "c", ""]),
            result("c", "one"),
            Message::user("meanwhile"),
            result("", "three"),
            result("c", "two"),
            reply("", &["c"]),
            result("c", "four"),
        ]);
        assert_eq!(results_of(&said), [("c", "one"), ("c_2", "two"), ("call", "three"), ("c_3", "four")]);
        assert!(matches!(&said[1], Said::Results(results) if results.len() == 3));
        assert!(matches!(&said[2], Said::User { text, .. } if text == "meanwhile"));
    }

    #[test]
    fn names_and_ids_are_such_as_every_server_accepts() {
        let long = "x".repeat(80);
        let long = long.as_str();
        for (id, name, expected) in [
            ("a", "", ("a", "unknown")),
            ("a", "fs.read", ("a", "fs_read")),
            ("fc:1|ü", "look-up_2", ("fc_1__", "look-up_2")),
            ("", long, ("call", &long[..64])),
            (long, "look", (&long[..64], "look")),
        ] {
            let calls = vec![NativeCall::new(id, name, "{}")];
            let said = said(&[Message::Assistant { text: String::new(), calls }, result(id, "one")]);
            let Said::Assistant { calls, .. } = &said[0] else { panic!("{said:?}") };
            let Said::Results(results) = &said[1] else { panic!("{said:?}") };
            assert_eq!((calls[0].id.as_str(), calls[0].name.as_str()), expected);
            assert_eq!((results[0].id.as_str(), results[0].name.as_str()), expected);
            assert_eq!(results[0].text, "one");
        }
        let mut ids = Ids::default();
        let found =
            [ids.unique(long), ids.unique(long), ids.unique("a.b"), ids.unique("a:b"), ids.unique("a_b")];
        let numbered = format!("{}_2", &long[..MAX_STEM]);
        assert_eq!(found, [&long[..64], numbered.as_str(), "a_b", "a_b_2", "a_b_3"]);
    }

    #[test]
    fn nothing_is_empty_and_nothing_is_left_open() {
        let said = said(&[
            Message::user(" "),
            reply("\n", &[]),
            Message::user("again"),
            reply(" ", &["a"]),
            result("b", "lost"),
        ]);
        let expected = [
            Said::User { text: " \n\nagain".into(), attachments: Vec::new() },
            Said::Assistant { text: String::new(), calls: vec![call("a")] },
            Said::Results(vec![ToolResult { id: "a".into(), name: "look".into(), text: NO_RESULT.into() }]),
            Said::User { text: "[result of look]\nlost".into(), attachments: Vec::new() },
        ];
        assert_eq!(said[1..], expected[1..]);
        assert!(matches!(&said[0], Said::User { text, .. } if text == "(no text)\n\nagain"), "{:?}", said[0]);
    }

    #[test]
    fn arguments_go_back_as_an_object() {
        for (written, expected) in [
            ("", "{}"),
            ("null", "{}"),
            (r#"{"a": 1}"#, r#"{"a": 1}"#),
            ("[1]", r#"{"not_an_object":"[1]"}"#),
            (r#"{"a": "#, r#"{"not_an_object":"{\"a\":"}"#),
        ] {
            assert_eq!(argument_text(&NativeCall::new("c", "look", written)), expected);
        }
    }

    #[test]
    fn replies_around_an_instruction_are_one() {
        let messages = [reply("x", &[]), Message::system("s"), reply("", &["a"])];
        let (_, apart) = instructions_apart(said(&messages));
        assert_eq!(apart[1], Said::Assistant { text: "x".into(), calls: vec![call("a")] });
    }

    fn message() -> impl Strategy<Value = Message> {
        let id = || prop::sample::select(vec!["a", "b", "call", "a_2", ""]);
        prop_oneof![
            Just(Message::system("s")),
            "[x ]{0,2}".prop_map(Message::user),
            ("[x ]{0,2}", prop::collection::vec(id(), 0..3)).prop_map(|(text, ids)| reply(&text, &ids)),
            id().prop_map(|id| result(id, "r")),
        ]
    }

    proptest! {
        #[test]
        fn a_strict_server_takes_it(messages in prop::collection::vec(message(), 0..12)) {
            let (_, said) = instructions_apart(said(&messages));
            let begins = matches!(said.first(), Some(Said::User { .. }));
            prop_assert!(begins);
            let mut ids = HashSet::new();
            for pair in said.windows(2) {
                match (&pair[0], &pair[1]) {
                    (Said::Assistant { calls, .. }, Said::Results(results)) => {
                        let called: Vec<_> = calls.iter().map(|call| &call.id).collect();
                        let answered: Vec<_> = results.iter().map(|result| &result.id).collect();
                        prop_assert_eq!(&called, &answered);
                        prop_assert!(called.iter().all(|id| !id.is_empty() && ids.insert((*id).clone())));
                    }
                    (Said::Assistant { calls, text }, next) => {
                        prop_assert!(calls.is_empty() && !text.trim().is_empty());
                        let is_user = matches!(next, Said::User { .. });
                        prop_assert!(is_user, "{:?}", next);
                    }
                    (_, Said::Results(_)) => prop_assert!(false, "results without calls"),
                    (Said::User { .. }, Said::User { .. }) => prop_assert!(false, "the user twice"),
                    _ => {}
                }
            }
        }
    }
}
