//! The other direction: calls to text in the form that is taught to models.
//!
//! ```
//! use protocol_action::encode::{encode, EncodeCall};
//!
//! let arguments = serde_json::json!({"path": "a.txt", "content": "if a < b {}"});
//! let call = EncodeCall::new("write_file", arguments.as_object().unwrap());
//! assert_eq!(encode(&[call]), "\
//! <ACTION>
//!   <write_file>
//!     <path>a.txt</path>
//!     <content><![CDATA[if a < b {}]]></content>
//!   </write_file>
//! </ACTION>");
//! ```

mod text;
mod tree;

use serde_json::{Map, Value};

pub use text::is_tag;

use crate::{NoVocabulary, RawCall, Vocabulary};

/// A call to be written.
#[derive(Debug, Clone, Copy)]
#[non_exhaustive]
pub struct EncodeCall<'a> {
    /// Tag or name of the tool. A name that is not a valid tag is written as `<tool name="…">`.
    pub tool: &'a str,
    /// Its arguments.
    pub arguments: &'a Map<String, Value>,
}

impl<'a> EncodeCall<'a> {
    /// A call of a tool.
    pub const fn new(tool: &'a str, arguments: &'a Map<String, Value>) -> Self {
        Self { tool, arguments }
    }
}

/// Writes calls as one block, for people and for examples: objects as nested elements, lists as
/// `<item>` elements, strings raw, in CDATA where they hold markup.
///
/// Nothing is known of the types here. To get exactly the same values back, use [`encode_with`] and
/// read with the same vocabulary.
pub fn encode(calls: &[EncodeCall<'_>]) -> String {
    encode_with(calls, &NoVocabulary)
}

/// Writes calls so that reading them with the same vocabulary, and taking what it declares as text
/// for strings, gives the same values. Declared values go into elements; anything that plain text would make
/// ambiguous (a string `7` where no type is declared) is JSON text.
pub fn encode_with(calls: &[EncodeCall<'_>], vocabulary: &dyn Vocabulary) -> String {
    let trees: Vec<RawCall> = calls.iter().map(|call| tree::tree(call, vocabulary)).collect();
    encode_trees(&trees, vocabulary)
}

/// Writes calls that are trees already: reading them with the same vocabulary gives the same trees
/// (names, texts and order). Values out of JSON text become JSON text.
pub fn encode_trees(calls: &[RawCall], vocabulary: &dyn Vocabulary) -> String {
    let mut out = String::from("<ACTION>\n");
    for call in calls {
        text::call(&mut out, call, vocabulary);
    }
    out.push_str("</ACTION>");
    out
}

/// The open and the close tag that [`encode_trees`] writes around a call of this tool.
///
/// ```
/// use protocol_action::{NoVocabulary, encode::call_tags};
///
/// assert_eq!(call_tags("kb:Query", &NoVocabulary), ("<tool name=\"kb:Query\">".into(), "</tool>".into()));
/// ```
pub fn call_tags(tool: &str, vocabulary: &dyn Vocabulary) -> (String, String) {
    let (open, close) = text::tags(tool, vocabulary);
    (format!("<{open}>"), format!("</{close}>"))
}

/// The open and the close tag that [`encode_trees`] writes around a parameter or field of this name; `is_field` knows
/// the names that are declared beside it.
///
/// ```
/// use protocol_action::encode::parameter_tags;
///
/// assert_eq!(parameter_tags("城市", |_| false), ("<城市>".into(), "</城市>".into()));
/// assert_eq!(parameter_tags("city name", |_| false), ("<param name=\"city name\">".into(), "</param>".into()));
/// ```
pub fn parameter_tags(name: &str, is_field: impl Fn(&str) -> bool) -> (String, String) {
    let (open, close) = text::parameter_tags(name, is_field);
    (format!("<{open}>"), format!("</{close}>"))
}

/// A text as it stands between its tags: as it is, or in a CDATA section where it holds markup.
pub fn element_text(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    text::value(&mut out, text);
    out
}
