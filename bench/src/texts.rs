//! One call with one long value, written the way each reader takes it.

use serde_json::{Value, json};

/// Code of our own: one byte in 60 is a bracket or an ampersand.
const CODE: &str = include_str!("../data/code.txt");
/// A page: one byte in 5 is.
const PAGE: &str = include_str!("../data/page.txt");

/// The sizes of values that are read whole, in bytes.
pub(crate) const SIZES: [(&str, usize); 3] = [("10 KB", 10_000), ("100 KB", 100_000), ("1 MB", 1_000_000)];

/// What the long value is and how it is written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    /// Code with `&lt;` and the like.
    Entities,
    /// A page with `&lt;` and the like.
    PageEntities,
    /// Code in one CDATA section.
    Cdata,
    /// Code as it is, brackets and all; no XML.
    Raw,
}

impl Kind {
    pub(crate) const ALL: [Self; 4] = [Self::Entities, Self::PageEntities, Self::Cdata, Self::Raw];

    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::Entities => "code, entities",
            Self::PageEntities => "page, entities",
            Self::Cdata => "code, CDATA",
            Self::Raw => "code, raw",
        }
    }

    fn write(self, value: &str) -> String {
        match self {
            Self::Entities | Self::PageEntities => escaped(value),
            Self::Cdata => format!("<![CDATA[{value}]]>"),
            Self::Raw => value.to_owned(),
        }
    }
}

/// A value of that many bytes, without blanks at its ends.
pub(crate) fn value(kind: Kind, size: usize) -> String {
    let sample = match kind {
        Kind::Entities | Kind::Cdata | Kind::Raw => CODE,
        Kind::PageEntities => PAGE,
    };
    let mut value: String = sample.chars().cycle().take(size).collect();
    value.truncate(value.trim_end().len());
    while value.len() < size {
        value.push(';');
    }
    value
}

/// The taught form.
pub(crate) fn action(kind: Kind, value: &str) -> String {
    format!(
        "I write the file.\n<ACTION>\n  <write_file>\n    <path>src/lib.rs</path>\n    <line>7</line>\n    <content>{}</content>\n  </write_file>\n</ACTION>",
        kind.write(value)
    )
}

fn escaped(value: &str) -> String {
    value.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;")
}

/// The schema of the tool that all readers are given.
pub(crate) fn parameters() -> Value {
    json!({
        "type": "object",
        "properties": {
            "path": {"type": "string"},
            "line": {"type": "integer"},
            "content": {"type": "string"},
        },
        "required": ["path", "content"],
        "additionalProperties": false,
    })
}

/// Forms of the peers; values stand in them as they are.
pub(crate) fn qwen_xml(value: &str) -> String {
    format!(
        "I write the file.\n<tool_call>\n<function=write_file>\n<parameter=path>\nsrc/lib.rs\n</parameter>\n<parameter=line>\n7\n</parameter>\n<parameter=content>\n{value}\n</parameter>\n</function>\n</tool_call>"
    )
}

pub(crate) fn minimax(value: &str) -> String {
    format!(
        "I write the file.\n<minimax:tool_call>\n<invoke name=\"write_file\">\n<parameter name=\"path\">src/lib.rs</parameter>\n<parameter name=\"line\">7</parameter>\n<parameter name=\"content\">{value}</parameter>\n</invoke>\n</minimax:tool_call>"
    )
}

pub(crate) fn glm(value: &str) -> String {
    format!(
        "I write the file.\n<tool_call>write_file<arg_key>path</arg_key><arg_value>src/lib.rs</arg_value><arg_key>line</arg_key><arg_value>7</arg_value><arg_key>content</arg_key><arg_value>{value}</arg_value></tool_call>"
    )
}

pub(crate) fn hermes(value: &str) -> String {
    let call =
        json!({"name": "write_file", "arguments": {"path": "src/lib.rs", "line": 7, "content": value}});
    format!("I write the file.\n<tool_call>\n{call}\n</tool_call>")
}
