//! Attempts at a call in a stretch of text: openers, tags of tools, JSON objects.

use std::collections::HashMap;

use crate::read::lenient_tags::{Lex, OpenTag, Scanned, TagScan, attributes, lex};
use crate::read::{Source, is_arguments_child, is_parameter_tag};
use crate::{FinishReason, ShapeId, Vocabulary};

use super::dialects::{self, word};
use super::{Attempt, UnreadKind};

/// Longest stretch behind a marker in which a name is looked for.
const WINDOW: usize = 512;
/// Openers that a model wrote in other characters, as the whole of a reply.
const DISGUISED: [&str; 3] = ["&lt;action&gt;", "＜action＞", "&#60;action&#62;"];

/// Finds the first attempt in text that is not code.
pub(super) fn first(text: &str, vocabulary: &dyn Vocabulary) -> Option<Attempt> {
    let mut search = Search { src: source(text), vocabulary, closes: HashMap::new() };
    if let Some(disguised) = search.disguised() {
        return Some(disguised);
    }
    if is_json(text) {
        let start = text.len() - text.trim_start().len();
        return search.json_call(start);
    }
    let mut at = 0;
    while let Some(found) = memchr::memchr3(b'<', b'[', b'{', &text.as_bytes()[at..]) {
        at += found;
        if let Some(attempt) = search.at(at) {
            return Some(attempt);
        }
        at += 1;
    }
    None
}

/// Finds the first attempt inside a code fence, whose label may say that it is a call.
pub(super) fn in_fence(label: &str, inner: &str, vocabulary: &dyn Vocabulary) -> Option<Attempt> {
    if let Some(attempt) = first(inner, vocabulary) {
        return Some(attempt);
    }
    if !matches!(label.trim(), "tool_code" | "tool_call" | "tool_calls" | "tool_use" | "action") {
        return None;
    }
    let start = label.len();
    let tool = dialects::named_tool(&inner[start..], vocabulary)?;
    Some(Attempt { kind: UnreadKind::Fence, tool: Some(tool), start })
}

fn source(text: &str) -> Source<'_> {
    Source { text, end: Some(FinishReason::Stop) }
}

fn is_json(text: &str) -> bool {
    let trimmed = text.trim();
    trimmed.starts_with(['{', '[']) && serde_json::from_str::<serde::de::IgnoredAny>(trimmed).is_ok()
}

struct Search<'a> {
    src: Source<'a>,
    vocabulary: &'a dyn Vocabulary,
    /// The last close tag of each name that was asked for.
    closes: HashMap<String, Option<usize>>,
}

impl<'a> Search<'a> {
    fn at(&mut self, at: usize) -> Option<Attempt> {
        match self.src.byte(at) {
            Some(b'<') => self.tag(at),
            Some(b'{') => self.json_call(at),
            _bracket => self.dialect(at),
        }
    }

    fn tag(&mut self, at: usize) -> Option<Attempt> {
        let Lex::Open { name, after } = lex(self.src, at) else { return self.dialect(at) };
        let bare =
            |name: &str, start| Attempt { kind: UnreadKind::BareTag, tool: Some(name.to_owned()), start };
        let tool = self.vocabulary.tool(name);
        match (TagScan::new(at, after).scan(self.clipped(at), name.len()), tool) {
            (Scanned::Tag(tag), _) if name.eq_ignore_ascii_case("action") => self.opener(at, &tag),
            (Scanned::Tag(tag), Some(id)) if self.is_call(id, &tag, at) => Some(bare(name, at)),
            (Scanned::Broken(inner), Some(id)) if self.leads(id, self.window(inner)) => Some(bare(name, at)),
            (_, None) if self.begins_line(at) => {
                self.name_above(name, at).map(|(tool, start)| bare(tool, start))
            }
            (_, _) => None,
        }
        .or_else(|| self.dialect(at))
    }

    /// The tool whose name without brackets stands right before a tag of its parameters, with its position.
    fn name_above(&self, parameter: &str, at: usize) -> Option<(&'a str, usize)> {
        let before = self.src.text[..at].trim_end().trim_end_matches([':', '>']);
        let start = before.rfind(char::is_whitespace).map_or(0, |blank| blank + 1);
        let name = before.get(start..).and_then(word).filter(|name| start + name.len() == before.len())?;
        let declares = self.vocabulary.field(self.vocabulary.tool(name)?, parameter).is_some();
        (declares && self.begins_line(start)).then_some((name, start))
    }

    fn clipped(&self, at: usize) -> Source<'a> {
        Source { end: self.src.end, ..self.src.clipped(at + WINDOW) }
    }

    /// Text behind a position, up to the window's end.
    fn window(&self, at: usize) -> &'a str {
        &self.clipped(at).text[at..]
    }

    /// An opener counts where markup or JSON follows it, where it begins a line, and where a tool is named
    /// between it and its close tag.
    fn opener(&mut self, at: usize, tag: &OpenTag) -> Option<Attempt> {
        let rest = self.window(tag.after);
        let content = rest.split("</").next().unwrap_or_default().trim();
        let tool = dialects::any_tool(content, self.vocabulary);
        let begins = content.is_empty() && rest.trim_start().starts_with("</");
        let marked = rest.trim_start().starts_with(['<', '{', '[', '`', '~']) && !begins;
        let closed = self.close("action").is_some_and(|close| close >= tag.after);
        let counts = marked || !content.is_empty() && (self.begins_line(at) || closed && tool.is_some());
        let tool = tool.or_else(|| self.tool_in_tags(rest));
        counts.then_some(Attempt { kind: UnreadKind::Opener, tool, start: at })
    }

    /// The first tag in a text that is a tool's.
    fn tool_in_tags(&self, text: &str) -> Option<String> {
        let names = text.split('<').skip(1).filter_map(word);
        names.map(str::to_owned).find(|name| self.vocabulary.tool(name).is_some())
    }

    /// The whole reply is a block whose brackets are escaped.
    fn disguised(&self) -> Option<Attempt> {
        let trimmed = self.src.text.trim_start();
        let start = self.src.len() - trimmed.len();
        let begins =
            |opener: &&str| trimmed.chars().zip(opener.chars()).all(|(a, b)| a.to_ascii_lowercase() == b);
        let opener = DISGUISED.iter().find(|opener| trimmed.len() >= opener.len() && begins(opener))?;
        let tool = dialects::any_tool(&self.window(start)[opener.len()..], self.vocabulary);
        Some(Attempt { kind: UnreadKind::Opener, tool, start })
    }

    /// Returns `true` for the tag of a tool that holds its parameters or nothing but elements, is closed at once, or
    /// begins a line and is closed or cut in an element.
    fn is_call(&mut self, id: ShapeId, tag: &OpenTag, at: usize) -> bool {
        let mut named = attributes(self.src, tag).into_iter().map(|one| &self.src.text[one.name]);
        if tag.self_closed || named.any(|name| self.vocabulary.field(id, name).is_some()) {
            return true;
        }
        let name = self.src.text[tag.name.clone()].to_owned();
        let inner = self.window(tag.after);
        self.leads(id, inner)
            || holds_elements(inner, &name)
            || self.begins_line(at)
                && (is_cut_in_element(inner) || self.close(&name).is_some_and(|close| close >= tag.after))
    }

    /// Returns `true` when a text begins with arguments of a tool: a tag, JSON, or a name before its value.
    fn leads(&self, id: ShapeId, text: &str) -> bool {
        let declared = |name: &str| self.vocabulary.field(id, name).is_some();
        let inner = text.trim_start();
        match inner.chars().next() {
            Some('<') => word(inner[1..].trim_start_matches('/'))
                .is_some_and(|child| declared(child) || is_parameter_tag(child) || is_arguments_child(child)),
            Some('{') => true,
            Some(_) => {
                let name = inner.split([':', '=']).next().unwrap_or_default();
                name.len() < inner.len() && declared(name.trim())
            }
            None => false,
        }
    }

    /// A JSON object that names a tool and holds arguments, or holds nothing but the name.
    fn json_call(&mut self, at: usize) -> Option<Attempt> {
        let window = self.window(at);
        let tool = dialects::json_tool(window, self.vocabulary)?;
        Some(Attempt { kind: UnreadKind::Json, tool: Some(tool), start: at })
    }

    fn dialect(&self, at: usize) -> Option<Attempt> {
        let window = self.window(at);
        let tool = dialects::marked_tool(window, self.vocabulary)
            .or_else(|| self.begins_line(at).then(|| dialects::list_of_calls(window, self.vocabulary))?)?;
        Some(Attempt { kind: UnreadKind::Dialect, tool: Some(tool), start: at })
    }

    /// The last close tag of a name, looked for once.
    fn close(&mut self, name: &str) -> Option<usize> {
        if let Some(&known) = self.closes.get(name) {
            return known;
        }
        let mut closes = self.src.text.rmatch_indices("</");
        let last = closes.find_map(|(at, _)| closes_tag(&self.src.text[at..], name).then_some(at));
        self.closes.insert(name.to_owned(), last);
        last
    }

    fn begins_line(&self, at: usize) -> bool {
        let before = self.src.text[..at].trim_end_matches([' ', '\t']);
        before.is_empty() || before.ends_with('\n')
    }
}

/// Returns `true` when a text begins with the close tag of a name, in any case, also with blanks before the name.
fn closes_tag(text: &str, name: &str) -> bool {
    let rest = text.strip_prefix("</").map(str::trim_start);
    let split = rest.and_then(|rest| rest.split_at_checked(name.len()));
    split.is_some_and(|(closed, behind)| closed.eq_ignore_ascii_case(name) && word(behind).is_none())
}

/// Returns `true` when a text is cut inside of the element that it begins with.
fn is_cut_in_element(inner: &str) -> bool {
    let child = inner.trim_start().strip_prefix('<').and_then(word);
    child.is_some() && inner.contains('>') && !inner.contains("</")
}

/// Returns `true` when a tag holds nothing but elements, up to its close tag or to the end of the text.
fn holds_elements(inner: &str, name: &str) -> bool {
    let mut rest = inner.trim_start();
    let mut elements = 0;
    while let Some(child) = rest.strip_prefix('<').and_then(word) {
        let after = &rest[child.len() + 1..];
        let mut closes = after.match_indices("</").map(|(close, _)| close);
        let close = closes.find(|close| closes_tag(&after[*close..], child));
        let Some(end) = close.and_then(|close| Some(close + after[close..].find('>')? + 1)) else { break };
        elements += 1;
        rest = after[end..].trim_start();
    }
    elements > 0 && (rest.is_empty() || closes_tag(rest, name))
}
