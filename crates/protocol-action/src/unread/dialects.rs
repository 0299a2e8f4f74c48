//! Names of offered tools in the call forms of other systems.

use crate::Vocabulary;

/// Beginnings of calls elsewhere, in lower case.
const MARKERS: [&str; 21] = [
    "<tool_call",
    "<tool_use",
    "<tool>",
    "<tool ",
    "<tools",
    "<call",
    "<invoke",
    "<function",
    "<response>",
    "<|",
    "<｜",
    "<<<tool_call",
    "<tool=",
    "<parameter=",
    "<minimax:",
    "<steptml:",
    "<seed:",
    "[tool_call",
    "[tool_use",
    "[function_call",
    "[assistant: tool",
];
const NAME_KEYS: [&str; 4] = ["name", "tool", "tool_name", "function"];
const ARGUMENT_KEYS: [&str; 5] = ["arguments", "parameters", "params", "args", "input"];

/// The name at the start of a text, if there is one.
pub(super) fn word(text: &str) -> Option<&str> {
    let end = text.find(|c: char| !in_word(c)).unwrap_or(text.len());
    (end > 0).then(|| &text[..end])
}

fn in_word(c: char) -> bool {
    c.is_alphanumeric() || matches!(c, '_' | '-' | '.' | ':' | '/' | '$')
}

/// An offered tool of this name, also behind `functions.` and before a call's number.
fn offered<'t>(name: &'t str, vocabulary: &dyn Vocabulary) -> Option<&'t str> {
    let bare = name.trim_matches([':', '.', '/', '-']);
    let bare = bare.strip_prefix("functions.").unwrap_or(bare);
    let number = bare.rsplit_once(':').filter(|(_, number)| number.bytes().all(|b| b.is_ascii_digit()));
    let candidates = [Some(name), Some(bare), number.map(|(name, _)| name)];
    candidates.into_iter().flatten().find(|name| !name.is_empty() && vocabulary.tool(name).is_some())
}

/// Words of a text with the character before each.
fn words(text: &str) -> impl Iterator<Item = (Option<char>, &str)> {
    let mut rest = text;
    let mut before = None;
    std::iter::from_fn(move || {
        let start = rest.find(in_word)?;
        before = rest[..start].chars().next_back().or(before);
        let found = word(&rest[start..])?;
        let item = (before, found);
        rest = &rest[start + found.len()..];
        before = None;
        Some(item)
    })
}

/// The first offered tool that is named anywhere in a text.
pub(super) fn any_tool(text: &str, vocabulary: &dyn Vocabulary) -> Option<String> {
    words(text).find_map(|(_, word)| offered(word, vocabulary)).map(str::to_owned)
}

/// The tool that the text behind a marker of another system names.
pub(super) fn marked_tool(text: &str, vocabulary: &dyn Vocabulary) -> Option<String> {
    let marker = MARKERS.iter().find(|marker| begins(text, marker))?;
    named_tool(&text[marker.len()..], vocabulary)
}

fn begins(text: &str, marker: &str) -> bool {
    text.get(..marker.len()).is_some_and(|start| start.eq_ignore_ascii_case(marker))
}

/// The first offered tool in a text that stands where markup has names: behind a quote, a bracket or an equals
/// sign, or at the start of a line.
pub(super) fn named_tool(text: &str, vocabulary: &dyn Vocabulary) -> Option<String> {
    let names = words(text).filter(|(before, _)| match before {
        None => true,
        Some(before) => "\"'=<>[](){|｜▁\n".contains(*before),
    });
    let quoted = text.split('"').skip(1).step_by(2);
    let mut names = names.map(|(_, word)| word).chain(quoted);
    names.find_map(|name| offered(name, vocabulary)).map(str::to_owned)
}

/// The tool of a list of calls in the form of a programming language: `[name(key=value)]`.
pub(super) fn list_of_calls(text: &str, vocabulary: &dyn Vocabulary) -> Option<String> {
    let inner = text.strip_prefix('[')?.trim_start();
    let name = word(inner)?;
    let called = inner[name.len()..].trim_start().starts_with('(');
    offered(name, vocabulary).filter(|_| called).map(str::to_owned)
}

/// The tool that a JSON object names beside arguments, or alone.
pub(super) fn json_tool(text: &str, vocabulary: &dyn Vocabulary) -> Option<String> {
    let keys: Vec<(&str, &str)> = members(text).collect();
    let is_one_of = |names: &[&str], key: &str| names.contains(&key);
    let named = keys.iter().find_map(|(key, value)| {
        let quoted = value.strip_prefix(['"', '\''])?;
        let name = word(quoted).filter(|_| is_one_of(&NAME_KEYS, key))?;
        offered(name, vocabulary)
    })?;
    let alone = text[1..].split('}').next().is_some_and(|first| first.matches(':').count() == 1);
    let has_arguments = keys.iter().any(|(key, _)| is_one_of(&ARGUMENT_KEYS, key));
    (alone || has_arguments).then(|| named.to_owned())
}

/// Names before a colon in JSON-like text, with the text behind the colon.
fn members(text: &str) -> impl Iterator<Item = (&str, &str)> {
    text.match_indices(':').filter_map(|(at, _)| {
        let before = text[..at].trim_end();
        let key = before.trim_end_matches(['"', '\'']);
        let start = key
            .rfind(|c: char| !(c.is_alphanumeric() || c == '_'))
            .map_or(0, |found| found + key[found..].chars().next().map_or(1, char::len_utf8));
        let opens = key[..start].trim_end_matches(['"', '\'']).trim_end().ends_with(['{', ',']);
        (opens && start < key.len()).then(|| (&key[start..], text[at + 1..].trim_start()))
    })
}
