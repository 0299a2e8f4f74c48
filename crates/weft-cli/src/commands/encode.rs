//! `weft encode`: calls as a model would write them.

use std::path::Path;

use serde::Deserialize;
use serde_json::{Map, Value};
use tool_schema::CallFault;

use super::tools;
use crate::failure::{Exit, Failure};
use crate::{inputs, output};

/// One call on stdin.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Call {
    tool: String,
    #[serde(default)]
    arguments: Map<String, Value>,
}

pub(super) fn run(tools: &Path) -> Result<Exit, Failure> {
    let tools = tools::read(tools)?;
    let calls: Vec<Call> = serde_json::from_str(&inputs::stdin()?).map_err(|error| {
        Failure::new(Exit::Invalid, "bad_json", format!("stdin: {error}"))
            .with_help("write a list of {\"tool\", \"arguments\"}")
    })?;
    let calls: Vec<(&str, &Map<String, Value>)> =
        calls.iter().map(|call| (call.tool.as_str(), &call.arguments)).collect();
    let text = tools.encode(&calls).map_err(|fault| match fault {
        CallFault::UnknownTool { name, near, .. } => {
            let failure = Failure::new(Exit::Invalid, "unknown_tool", format!("unknown tool `{name}`"));
            match near {
                Some(near) => failure.with_help(format!("did you mean `{near}`?")),
                None => failure,
            }
        }
        other => Failure::new(Exit::Invalid, other.code(), "the call cannot be written"),
    })?;
    output::line(&text)?;
    Ok(Exit::Ok)
}
