//! Structural tags: JSON that declares to a server where free text ends and a grammar begins.

use serde_json::json;

use super::form::Tool;
use super::free::OPENER;
use super::write::{Dialect, Writer};
use super::{CallChoice, GrammarOptions};

/// The value of `response_format` in a request.
pub(super) fn grammar(tools: &[Tool], options: GrammarOptions) -> String {
    let required = options.call == CallChoice::Required;
    let tags = if tools.is_empty() {
        // Without a tag a trigger means nothing.
        return json!({"type": "structural_tag", "format": {"type": "any_text"}}).to_string();
    } else {
        let content = Writer::new(Dialect::Gbnf, options).calls(tools);
        json!([{"type": "tag", "begin": OPENER, "content": {"type": "grammar", "grammar": content}, "end": "</ACTION>"}])
    };
    let format = json!({
        "type": "triggered_tags",
        "triggers": [OPENER],
        "tags": tags,
        "at_least_one": required,
        "stop_after_first": true,
    });
    json!({"type": "structural_tag", "format": format}).to_string()
}
