//! Grammars: what they say, what they let through, what they refuse.

#![expect(clippy::unwrap_used, reason = "a test may stop at the first surprise")]

mod accepts;
mod damage;
mod gbnf;
mod lark;
mod laws;
mod shown;

use serde_json::Value;
use tool_schema::{OfferedTool, ToolSet};

/// Tools of any names with these parameters.
fn tools(tools: &[(&str, Value)]) -> ToolSet {
    let offered = tools.iter().map(|(name, schema)| OfferedTool::new(*name, "", schema.clone()).unwrap());
    ToolSet::of_tools(offered).unwrap()
}
