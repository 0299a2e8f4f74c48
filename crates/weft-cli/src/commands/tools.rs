//! Files with tools: a list of `{name, parameters, description}`.

use std::path::Path;

use serde_json::{Value, json};
use tool_registry::Snapshot;
use tool_schema::{OfferedTool, ToolSet, map_schema};
use weft_project::read_json;

use crate::failure::{Exit, Failure};

/// The tools of a file, offered together.
pub(super) fn read(path: &Path) -> Result<ToolSet, Failure> {
    let value = read_json(path)?;
    tool_set(&value).map_err(|message| {
        Failure::new(Exit::Invalid, "bad_tools", message)
            .with_help("write a list of {\"name\", \"parameters\", \"description\"?}")
            .at(path, None, None)
    })
}

/// The tools of a list; names are used as they are, types in the words of other systems are mapped.
pub(super) fn tool_set(value: &Value) -> Result<ToolSet, String> {
    let list = value.as_array().ok_or("the tools are not a list")?;
    let tools = list
        .iter()
        .enumerate()
        .map(|(index, tool)| parse_tool(tool).map_err(|why| format!("tool {index}: {why}")));
    let tools = tools.collect::<Result<Vec<_>, _>>()?;
    ToolSet::of_tools(tools).map_err(|error| error.to_string())
}

fn parse_tool(tool: &Value) -> Result<OfferedTool, String> {
    let name = tool.get("name").and_then(Value::as_str).filter(|name| !name.is_empty());
    let name = name.ok_or("it has no name")?;
    let description = tool.get("description").and_then(Value::as_str).unwrap_or_default();
    let parameters = match tool.get("parameters") {
        None | Some(Value::Null) => json!({"type": "object", "properties": {}}),
        Some(schema @ Value::Object(_)) => map_schema(schema).schema,
        Some(_) => return Err("`parameters` is not a schema".into()),
    };
    OfferedTool::new(name, description, parameters).map_err(|error| error.to_string())
}

/// The tools of an agent as one set.
pub(super) fn set_of(snapshot: &Snapshot) -> Result<ToolSet, Failure> {
    snapshot.tool_set().map_err(|error| Failure::new(Exit::Invalid, "bad_tools", error.to_string()))
}
