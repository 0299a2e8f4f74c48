//! Trees to text.

use std::fmt::Write as _;

use serde_json::{Map, Value};

use crate::{RawArgument, RawCall, RawValue, Shape, ShapeId, Vocabulary};

/// Writes a call with two blanks of indentation, and a line break after it.
pub(super) fn call(out: &mut String, call: &RawCall, vocabulary: &dyn Vocabulary) {
    let (open, close) = tags(&call.tool, vocabulary);
    if call.arguments.is_empty() {
        let _ = writeln!(out, "  <{open}></{close}>");
        return;
    }
    if let Some(body) = json_body(&call.arguments) {
        let _ = writeln!(out, "  <{open}>{body}</{close}>");
        return;
    }
    let _ = writeln!(out, "  <{open}>");
    let shape = vocabulary.tool(&call.tool);
    for argument in &call.arguments {
        element(out, argument, shape, vocabulary, 2);
    }
    let _ = writeln!(out, "  </{close}>");
}

/// Contents of the open and the close tag of a call.
pub(super) fn tags<'a>(tool: &'a str, vocabulary: &dyn Vocabulary) -> (String, &'a str) {
    if let Some(tag) = tool_tag(tool, vocabulary) {
        return (tag.to_owned(), tag);
    }
    let tag = wrapper(vocabulary);
    (format!("{tag} name=\"{}\"", attribute(tool)), tag)
}

/// The arguments as one JSON object, if they came out of one.
fn json_body(arguments: &[RawArgument]) -> Option<String> {
    let mut members = Map::new();
    for argument in arguments {
        let RawValue::Json(value) = &argument.value else { return None };
        members.insert(argument.name.clone(), value.clone());
    }
    Some(Value::Object(members).to_string())
}

/// Writes an element on separate lines. Trees are at most as deep as they were built or read, which
/// is bounded.
fn element(
    out: &mut String,
    argument: &RawArgument,
    parent: Option<ShapeId>,
    vocabulary: &dyn Vocabulary,
    depth: usize,
) {
    let in_list = parent.is_some_and(|id| matches!(vocabulary.shape(id), Shape::List { .. }));
    let is_field =
        |tag: &str| in_list || parent.is_some_and(|object| vocabulary.field(object, tag).is_some());
    let (open, close) = parameter_tags(&argument.name, is_field);
    let indent = "  ".repeat(depth);
    let _ = write!(out, "{indent}<{open}>");
    match &argument.value {
        RawValue::Text(text) => value(out, text),
        RawValue::Json(json) => value(out, &json.to_string()),
        RawValue::Elements { children, .. } => {
            out.push('\n');
            let shape = inner_shape(parent, &argument.name, vocabulary);
            for child in children {
                element(out, child, shape, vocabulary, depth + 1);
            }
            out.push_str(&indent);
        }
    }
    let _ = writeln!(out, "</{close}>");
}

/// Contents of the open and the close tag of a parameter or field; `is_field` knows the names beside it.
pub(super) fn parameter_tags(name: &str, is_field: impl Fn(&str) -> bool) -> (String, String) {
    let generic = GENERIC.into_iter().find(|tag| !is_field(tag)).filter(|_| !is_tag(name));
    match generic {
        Some(tag) => (format!("{tag} name=\"{}\"", attribute(name)), tag.to_owned()),
        None => (name.to_owned(), name.to_owned()),
    }
}

fn inner_shape(parent: Option<ShapeId>, name: &str, vocabulary: &dyn Vocabulary) -> Option<ShapeId> {
    let parent = parent?;
    match vocabulary.shape(parent) {
        Shape::List { item } => Some(item),
        Shape::Object => vocabulary.field(parent, name),
        Shape::Text | Shape::Scalar | Shape::Any => None,
    }
}

/// Writes text so that it is read back byte for byte.
pub(super) fn value(out: &mut String, text: &str) {
    let block = text.starts_with('\n') || text.starts_with("\r\n");
    if !block && !text.contains(['<', '&']) && !text.contains("]]>") {
        out.push_str(text);
        return;
    }
    out.push_str("<![CDATA[");
    if block {
        // A line break at the start is layout, so the text's own one needs another before it.
        out.push('\n');
    }
    out.push_str(&text.replace("]]>", "]]]]><![CDATA[>"));
    if block {
        // So is the one at the end; `\r\n` counts as one.
        out.push_str(if text.ends_with('\r') { "\r\n" } else { "\n" });
    }
    out.push_str("]]>");
}

/// Text for an attribute in double quotes.
fn attribute(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for character in text.chars() {
        match character {
            '&' => out.push_str("&amp;"),
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '"' => out.push_str("&quot;"),
            '\n' => out.push_str("&#10;"),
            '\r' => out.push_str("&#13;"),
            plain => out.push(plain),
        }
    }
    out
}

/// Returns `true` for a name that is a valid tag as it stands.
pub fn is_tag(name: &str) -> bool {
    let mut characters = name.chars();
    let first = characters.next().is_some_and(|first| first.is_alphabetic() || matches!(first, '_' | '$'));
    first && name.len() <= 200 && characters.all(|other| other.is_alphanumeric() || "_-.$".contains(other))
}

/// Tag of the tool, unless its name is not a valid tag or has another meaning.
fn tool_tag<'a>(tool: &'a str, vocabulary: &dyn Vocabulary) -> Option<&'a str> {
    let taken = tool.eq_ignore_ascii_case("action") || WRAPPERS.contains(&tool) || tool == "tool_use";
    (is_tag(tool) && (!taken || vocabulary.tool(tool).is_some())).then_some(tool)
}

const WRAPPERS: [&str; 3] = ["tool", "invoke", "tool_call"];
const GENERIC: [&str; 4] = ["param", "parameter", "arg", "argument"];

/// Element for tools whose name is not a valid tag: one that is not a tool itself.
fn wrapper(vocabulary: &dyn Vocabulary) -> &'static str {
    WRAPPERS.into_iter().find(|tag| vocabulary.tool(tag).is_none()).unwrap_or(WRAPPERS[0])
}

/// Element for fields whose name is not a valid tag: one that is not a field itself.
pub(super) fn generic_tag(object: Option<ShapeId>, vocabulary: &dyn Vocabulary) -> Option<&'static str> {
    let Some(object) = object else { return Some(GENERIC[0]) };
    GENERIC.into_iter().find(|tag| vocabulary.field(object, tag).is_none())
}
