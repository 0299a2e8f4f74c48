//! Thousands of tools at once: registering, listing, the catalogue, resolving a name.

use std::fs;

use agent_types::ToolDefinition;
use anyhow::{Context, Result, ensure};
use async_trait::async_trait;
use protocol_action::Lang;
use serde_json::{Map, Value, json};
use tool_registry::{Registry, Selection, Tool, ToolContext, ToolError, ToolHandler, ToolKind, ToolOutput};
use tool_schema::Catalogue;

use crate::measure::{Work, count, medians};
use crate::table::{Aim, Figure, begin, row};

/// How many tools are made where no file of tools is named.
const MADE: usize = 2_400;

/// Tools that a typical agent lists.
const LISTED: usize = 32;

struct Nothing;

#[async_trait]
impl ToolHandler for Nothing {
    async fn call(&self, _: Map<String, Value>, _: &ToolContext) -> Result<ToolOutput, ToolError> {
        Ok(ToolOutput::Text(String::new()))
    }
}

/// One table. `file` holds a tool a line: `{id, description, parameters}`, offered as `bfcl:<id>`.
pub(crate) fn run(file: Option<&str>) -> Result<()> {
    let definitions = match file {
        Some(file) => read(file)?,
        None => (0..MADE).map(made).collect::<Result<_>>()?,
    };
    begin(&format!("A registry of {} tools", definitions.len()));
    let tools = definitions
        .iter()
        .map(|definition| Ok(Tool::new(definition.clone(), ToolKind::NATIVE, Nothing).checked()?))
        .collect::<Result<Vec<_>>>()?;
    let registry = registered(&tools)?;
    let snapshot = registry.snapshot();
    let all = snapshot.tool_set()?;
    let names: Vec<&str> = tools.iter().map(|tool| tool.id().as_str()).collect();
    let wire: Vec<String> = names.iter().map(|name| tool_schema::wire_name(name)).collect();
    order_changes_nothing(&tools)?;
    ensure!(wire.iter().zip(&names).all(|(wire, name)| all.get(wire).is_some_and(|tool| tool.name == *name)));

    let mut every = Catalogue::new(Lang::En);
    for tool in &tools {
        every = every.tool(tool.offered()?);
    }
    let few = || names.iter().step_by((names.len() / LISTED).max(1)).copied();
    let figures = medians(&mut [
        Work::repeated(|| {
            definitions
                .iter()
                .filter(|definition| {
                    Tool::new((*definition).clone(), ToolKind::NATIVE, Nothing).checked().is_ok()
                })
                .count()
        }),
        Work::repeated(|| registered(&tools).map(|registry| registry.snapshot().tools().count()).ok()),
        Work::repeated(|| {
            registry.snapshot().tools().filter(|tool| tool.definition().annotations.effect).count()
        }),
        Work::repeated(|| snapshot.tool_set().map(|set| set.tools().len()).ok()),
        Work::repeated(|| every.render()),
        Work::repeated(|| wire.iter().filter(|name| all.get(name).is_some()).count()),
        Work::repeated(|| Selection::new(few()).from(&snapshot).tools.tools().count()),
        Work::repeated(|| snapshot.unresolved("bfcl:no_such_tool")),
    ]);
    let each = count(tools.len());
    let rows = [
        ("a tool with its schema compiled", figures[0] / each),
        ("registering one", figures[1] / each),
        ("listing one", figures[2] / each),
        ("offering one to a model", figures[3] / each),
        ("one in the catalogue", figures[4] / each),
        ("resolving a name", figures[5] / each),
        ("choosing 32 for an agent", figures[6]),
        ("an unknown name, with the nearest one", figures[7]),
    ];
    for (what, nanos) in rows {
        row(what, Figure::Nanos(nanos), Aim::None);
    }
    Ok(())
}

fn registered(tools: &[Tool]) -> Result<Registry> {
    let registry = Registry::new();
    for tool in tools {
        registry.register(tool.clone())?;
    }
    Ok(registry)
}

/// Names mean the same whatever came first.
fn order_changes_nothing(tools: &[Tool]) -> Result<()> {
    let reversed: Vec<Tool> = tools.iter().rev().cloned().collect();
    let (one, other) =
        (registered(tools)?.snapshot().tool_set()?, registered(&reversed)?.snapshot().tool_set()?);
    for tool in tools {
        let name = tool.id().as_str();
        for name in [name, &tool_schema::wire_name(name), &name.to_uppercase()] {
            let resolved = |set: &tool_schema::ToolSet| set.get(name).map(|tool| tool.name.clone());
            ensure!(resolved(&one) == resolved(&other), "`{name}` depends on the order");
        }
    }
    Ok(())
}

fn read(file: &str) -> Result<Vec<ToolDefinition>> {
    let text = fs::read_to_string(file).with_context(|| file.to_owned())?;
    let definition = |line: &str| {
        let tool: Value = serde_json::from_str(line)?;
        let id = tool["id"].as_str().context("a tool without `id`")?;
        let description = tool["description"].as_str().unwrap_or_default();
        Ok(ToolDefinition::new(format!("bfcl:{id}").parse()?, description, tool["parameters"].clone()))
    };
    text.lines().filter(|line| !line.trim().is_empty()).map(definition).collect()
}

/// A tool of middling size.
fn made(number: usize) -> Result<ToolDefinition> {
    let parameters = json!({
        "type": "object",
        "properties": {
            "query": {"type": "string", "description": "words to look for"},
            "limit": {"type": "integer", "minimum": 1, "maximum": 50},
            "order": {"enum": ["newest", "oldest", "best"]},
            format!("filter_{number}"): {"type": "array", "items": {"type": "string"}}
        },
        "required": ["query"],
        "additionalProperties": false
    });
    let description = format!("Searches collection {number} and gives what fits best.");
    Ok(ToolDefinition::new(format!("made:search_{number}").parse()?, description, parameters))
}
