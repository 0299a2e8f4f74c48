//! The generated files of the repository.

use std::fmt::Write;

use agent_runtime::AgentProfile;
use agent_triggers::TriggerFile;
use executors_flow_system::FlowsFile;
use schemars::JsonSchema;
use schemars::generate::SchemaSettings;
use serde_json::{Map, Value};
use tool_command::CommandToolFile;
use tool_http::HttpToolFile;
use weft_project::Settings;
use workflow_model::{NodeDefinition, SlotDefinition, Workflow};

use crate::{events, settings_page};

/// First line of a generated page.
pub(crate) const HEAD: &str = "<!-- written by `cargo xtask codegen` -->\n";

/// Every generated file: path in the repository to text.
pub(crate) fn files() -> Result<Map<String, Value>, Box<dyn std::error::Error>> {
    let mut files = Map::new();
    let mut put = |path: &str, text: String| files.insert(path.to_owned(), text.into());
    put("docs/schema/workflow.schema.json", schema::<Workflow>("A workflow file.")?);
    put("docs/schema/agent-profile.schema.json", schema::<AgentProfile>("An agent_profile.json.")?);
    put("docs/schema/http-tool.schema.json", schema::<HttpToolFile>("A *.tool.json.")?);
    put("docs/schema/command-tool.schema.json", schema::<CommandToolFile>("A *.command.json.")?);
    put("docs/schema/triggers.schema.json", schema::<TriggerFile>("A *.triggers.json.")?);
    put("docs/schema/flows.schema.json", schema::<FlowsFile>("A flows.json.")?);
    put("docs/schema/weft-toml.schema.json", schema::<Settings>("A weft.toml, as JSON.")?);
    put("docs/reference/nodes.md", nodes()?);
    put("docs/reference/weft-toml.md", settings_page::page()?);
    for (path, text) in events::files()? {
        put(path, text);
    }
    Ok(files)
}

fn schema<T: JsonSchema>(title: &str) -> Result<String, serde_json::Error> {
    let mut schema = SchemaSettings::draft2020_12().into_generator().into_root_schema_for::<T>();
    schema.insert("title".into(), title.into());
    schema.insert("$comment".into(), "written by `cargo xtask codegen`".into());
    Ok(serde_json::to_string_pretty(&schema)? + "\n")
}

/// Every type of node with its slots and settings.
fn nodes() -> Result<String, std::fmt::Error> {
    let catalog = weft_project::node_catalog();
    let mut page = format!(
        "{HEAD}# Nodes\n\nTypes of nodes that a workflow file may use. `weft node show TYPE` prints one as JSON.\n"
    );
    let mut definitions: Vec<&NodeDefinition> = catalog.definitions().collect();
    definitions.sort_by(|left, right| left.node_type.cmp(&right.node_type));
    for node in definitions {
        write!(page, "\n## {}\n\n{}\n", node.node_type, node.description)?;
        slots(&mut page, "takes", node.inputs.iter())?;
        slots(&mut page, "gives", node.outputs.iter())?;
        if !node.config.is_empty() {
            page.push_str("\n| setting | type | what it is for |\n| --- | --- | --- |\n");
            for (name, config) in &node.config {
                let required = if config.required { ", required" } else { "" };
                let default =
                    config.default.as_ref().map(|value| format!(" Default `{value}`.")).unwrap_or_default();
                let about = cell(&config.description);
                writeln!(page, "| `{name}` | {}{required} | {about}{default} |", config.data_flow_type)?;
            }
        }
    }
    Ok(page)
}

fn slots<'d>(
    page: &mut String,
    heading: &str,
    slots: impl ExactSizeIterator<Item = (&'d String, &'d SlotDefinition)>,
) -> std::fmt::Result {
    if slots.len() == 0 {
        return Ok(());
    }
    write!(page, "\n| {heading} | type | what it is for |\n| --- | --- | --- |\n")?;
    for (name, slot) in slots {
        let mut kind = slot.data_flow_type.to_string();
        for (is, word) in
            [(slot.required, ", required"), (slot.multi, ", several"), (slot.is_stream, ", stream")]
        {
            kind.push_str(if is { word } else { "" });
        }
        writeln!(page, "| `{name}` | {kind} | {} |", cell(&slot.description))?;
    }
    Ok(())
}

pub(crate) fn cell(text: &str) -> String {
    text.replace('|', "\\|").replace('\n', " ")
}
