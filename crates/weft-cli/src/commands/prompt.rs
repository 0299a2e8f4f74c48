//! `weft prompt`: the tool prompt that a model receives.

use agent_runtime::AgentState;
use agent_types::ToolDefinition;
use protocol_action::Lang;
use tool_schema::{Catalogue, OfferedTool, SchemaDialect, render};

use super::{Context, tools};
use crate::arguments::{DialectArgument, LangArgument, PromptArguments};
use crate::failure::{Exit, Failure};
use crate::output;

pub(super) fn run(context: &Context, arguments: &PromptArguments) -> Result<Exit, Failure> {
    match (&arguments.tools, &arguments.agent) {
        (Some(path), _) => {
            let set = tools::read(path)?;
            if let Some(dialect) = arguments.dialect {
                return print_dialect(set.tools().iter().map(definition), dialect);
            }
            let lang = lang_of(arguments.lang, None);
            let catalogue = set.tools().iter().fold(Catalogue::new(lang), Catalogue::tool);
            print(arguments, &catalogue)
        }
        (None, Some(id)) => {
            let project = context.project(None)?;
            if let Some(message) = &arguments.turn {
                let run = project.agent(id)?.start(AgentState::default(), message.as_str());
                let run =
                    run.map_err(|error| Failure::new(Exit::Invalid, error.code(), error.to_string()))?;
                output::pretty(&run.first_request())?;
                return Ok(Exit::Ok);
            }
            let file = project.agent_file(id)?;
            let snapshot = project.tools_of(file)?;
            if let Some(dialect) = arguments.dialect {
                return print_dialect(snapshot.tools().map(|tool| Ok(tool.definition().clone())), dialect);
            }
            let lang = lang_of(arguments.lang, file.profile.language);
            let skills = file.profile.skill_ids();
            let set = tools::set_of(&snapshot)?;
            let catalogue = set.tools().iter().fold(Catalogue::new(lang), |catalogue, tool| {
                let is_skill = skills.contains(&tool.name);
                if is_skill { catalogue.skill(tool) } else { catalogue.tool(tool) }
            });
            print(arguments, &catalogue)
        }
        (None, None) => Err(Failure::usage("name --tools FILE or --agent AGENT")),
    }
}

/// A foreign tool as a definition, whose id must be one of ours.
fn definition(tool: &OfferedTool) -> Result<ToolDefinition, Failure> {
    let id = tool.name.parse().map_err(|error: agent_types::InvalidToolId| {
        Failure::new(Exit::Invalid, error.code(), error.to_string())
    })?;
    Ok(ToolDefinition::new(id, tool.description.as_str(), tool.parameters.clone()))
}

fn print_dialect(
    definitions: impl Iterator<Item = Result<ToolDefinition, Failure>>,
    dialect: DialectArgument,
) -> Result<Exit, Failure> {
    let dialect = match dialect {
        DialectArgument::Openai => SchemaDialect::OpenAi,
        DialectArgument::Anthropic => SchemaDialect::Anthropic,
        DialectArgument::Gemini => SchemaDialect::Gemini,
        DialectArgument::Mcp => SchemaDialect::Mcp,
    };
    let rendered = definitions.map(|definition| Ok(render(&definition?, dialect)));
    output::json(&rendered.collect::<Result<Vec<_>, Failure>>()?)?;
    Ok(Exit::Ok)
}

fn print(arguments: &PromptArguments, catalogue: &Catalogue<'_>) -> Result<Exit, Failure> {
    if arguments.count {
        output::json(&catalogue.size())?;
    } else {
        output::line(&format!("{}\n\n{}", catalogue.rules(), catalogue.render()))?;
    }
    Ok(Exit::Ok)
}

fn lang_of(asked: Option<LangArgument>, agent: Option<agent_runtime::Language>) -> Lang {
    match (asked, agent) {
        (Some(LangArgument::Zh), _) | (None, Some(agent_runtime::Language::Zh)) => Lang::Zh,
        (Some(LangArgument::En), _) | (None, Some(agent_runtime::Language::En) | None) => Lang::En,
    }
}
