//! Calls as they were written: untyped trees with places.

use serde::ser::SerializeMap;
use serde::{Serialize, Serializer};
use serde_json::Value;

use crate::Code;

/// A range of bytes in the reply, after invalid UTF-8 was replaced.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default, Serialize)]
pub struct Span {
    /// First byte.
    pub start: usize,
    /// One past the last byte.
    pub end: usize,
}

impl Span {
    /// The bytes from `start` up to `end`.
    pub const fn new(start: usize, end: usize) -> Self {
        Self { start, end }
    }

    /// The text it covers, or nothing if it does not fit `text`.
    pub fn slice(self, text: &str) -> &str {
        text.get(self.start..self.end).unwrap_or("")
    }
}

/// The way a call was written.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum Dialect {
    /// `<tool><param>…</param></tool>` or `<tool name="…">` in a block.
    Action,
    /// `<tool_call name="…"><param name="…">…`, bare or in a block.
    ToolCall,
    /// `<tool_use><tool_name>…</tool_name><parameters>…`, bare or in a block.
    ToolUse,
    /// A JSON object in a block, in `<tool_call>` or between `<<<TOOL_CALL>>>` markers.
    Json,
    /// A native tool call of the provider.
    Native,
}

/// One call that was closed, untyped. Typing and validation are `tool-schema`'s job.
///
/// Serialises as `{"tool", "tree": {"name", "children"}, "dialect"}`.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct RawCall {
    /// The tag or name as written.
    pub tool: String,
    /// Byte range of the call in the reply; empty for a native call.
    pub span: Span,
    /// Dialect in which the call was written.
    pub dialect: Dialect,
    /// In the order written, repeats included.
    pub arguments: Vec<RawArgument>,
    /// Repairs made inside the call; each code once.
    pub repairs: Vec<Code>,
    /// Arguments, and members inside them, that JSON text gave twice with different values, as JSON pointers
    /// relative to the arguments. The last value stands in the arguments; the intended one is unknown.
    pub conflicts: Vec<String>,
    /// Text between the tags outside of any parameter, as written. Only an element that is not a known tool can
    /// have some; elsewhere it is an error.
    pub text: String,
}

/// A named value: a parameter, a field or an item.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct RawArgument {
    /// The tag, attribute or JSON key as written.
    pub name: String,
    /// Byte range with its tags; empty for values that came from JSON.
    pub span: Span,
    /// Value between the tags.
    pub value: RawValue,
}

/// Value as written. The variants are exhaustive, so consumers may match all of them.
#[derive(Debug, Clone, PartialEq)]
pub enum RawValue {
    /// Text after layout was removed and entities and CDATA were decoded. For a declared string this
    /// is the value; for other shapes it may be a number, JSON text and so on.
    Text(String),
    /// Child elements; a list is children named `item` or of one repeated name.
    Elements {
        /// In the order written.
        children: Vec<RawArgument>,
        /// The inner text as written, for a consumer that decides that it is a string after all.
        source: String,
        /// Text that is not blank stands between the children.
        mixed: bool,
    },
    /// A value out of JSON text that was the whole of the arguments.
    Json(Value),
}

impl RawCall {
    /// A call without arguments.
    pub fn new(tool: impl Into<String>, dialect: Dialect, span: Span) -> Self {
        Self {
            tool: tool.into(),
            span,
            dialect,
            arguments: Vec::new(),
            repairs: Vec::new(),
            conflicts: Vec::new(),
            text: String::new(),
        }
    }

    /// Adds a repair once.
    pub fn repair(&mut self, code: Code) {
        if !self.repairs.contains(&code) {
            self.repairs.push(code);
        }
    }
}

impl RawArgument {
    /// Creates a named value at a span.
    pub fn new(name: impl Into<String>, span: Span, value: RawValue) -> Self {
        Self { name: name.into(), span, value }
    }
}

impl Serialize for RawCall {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(Some(3))?;
        map.serialize_entry("tool", &self.tool)?;
        map.serialize_entry("tree", &Tree { name: &self.tool, children: &self.arguments, text: &self.text })?;
        map.serialize_entry("dialect", &self.dialect)?;
        map.end()
    }
}

struct Tree<'a> {
    name: &'a str,
    children: &'a [RawArgument],
    text: &'a str,
}

impl Serialize for Tree<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(Some(2))?;
        map.serialize_entry("name", self.name)?;
        if self.children.is_empty() && !self.text.trim().is_empty() {
            map.serialize_entry("text", self.text.trim())?;
        } else {
            map.serialize_entry("children", self.children)?;
        }
        map.end()
    }
}

/// Serialises as `{"name", "text"}`, `{"name", "children"}` or, out of JSON, `{"name", "json"}`.
impl Serialize for RawArgument {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(Some(2))?;
        map.serialize_entry("name", &self.name)?;
        match &self.value {
            RawValue::Text(text) => map.serialize_entry("text", text)?,
            RawValue::Elements { children, .. } => map.serialize_entry("children", children)?,
            RawValue::Json(value) => map.serialize_entry("json", value)?,
        }
        map.end()
    }
}
