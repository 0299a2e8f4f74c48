//! Readers side by side: ours, quick-xml, and the peers.

mod dynamo;
mod ours;
mod quick;
mod tool_parser;

use anyhow::{Context, Result, ensure};
use serde_json::Value;

pub(crate) use ours::{decode_in_pieces, interpret, tools};
pub(crate) use quick::quick_xml;

/// What a reader made of a call.
#[derive(Debug)]
pub(crate) enum Read {
    /// Arguments as JSON text, as the peers give them.
    Json(String),
    /// Typed arguments.
    Typed(Value),
}

/// A reader of one form of calls.
pub(crate) trait Reader {
    /// Crate and form.
    fn name(&self) -> &'static str;
    /// One call with that value.
    fn text(&self, value: &str) -> String;
    /// Reads the text at once.
    fn whole(&self, text: &str) -> Result<Read>;
    /// Reads the text in pieces of that many bytes.
    fn pieces(&self, text: &str, size: usize) -> Result<Read>;
}

/// Writes a call with that value.
type Form = fn(&str) -> String;

/// All peers.
pub(crate) fn peers() -> Vec<Box<dyn Reader>> {
    let mut peers = tool_parser::readers();
    peers.extend(dynamo::readers());
    peers
}

/// Fails where a reader does not give back the value that was written: such a one must not be timed.
pub(crate) fn check(read: Result<Read>, value: &str) -> Result<()> {
    let arguments = match read? {
        Read::Json(text) => serde_json::from_str(&text).context("its arguments are no JSON")?,
        Read::Typed(arguments) => arguments,
    };
    ensure!(arguments["content"] == *value, "it changes the value");
    ensure!(arguments["line"] == 7, "it does not type the number");
    Ok(())
}

/// A text of ASCII cut into pieces.
fn cut(text: &str, size: usize) -> impl Iterator<Item = &str> {
    (0..text.len()).step_by(size).map(move |at| &text[at..text.len().min(at + size)])
}
