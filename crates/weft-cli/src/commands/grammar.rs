//! `weft grammar`: what a model may be held to.

use tool_schema::{CallChoice, GrammarFormat, GrammarOptions, GrammarScope, RefusedTool, grammar_with};

use super::{Context, tools};
use crate::arguments::{GrammarArguments, GrammarFormatArgument, Output};
use crate::failure::{Exit, Failure};
use crate::output;

pub(super) fn run(context: &Context, arguments: &GrammarArguments) -> Result<Exit, Failure> {
    let set = match (&arguments.tools, &arguments.agent) {
        (Some(path), _) => tools::read(path)?,
        (None, Some(id)) => {
            let project = context.project(None)?;
            let snapshot = project.tools_of(project.agent_file(id)?)?;
            tools::set_of(&snapshot)?
        }
        (None, None) => return Err(Failure::usage("name --tools FILE or --agent AGENT")),
    };
    let format = match arguments.format {
        GrammarFormatArgument::Lark => GrammarFormat::Lark,
        GrammarFormatArgument::Gbnf => GrammarFormat::Gbnf,
        GrammarFormatArgument::StructuralTag => GrammarFormat::StructuralTag,
    };
    let options = GrammarOptions {
        scope: if arguments.narrow { GrammarScope::Narrow } else { GrammarScope::Wide },
        call: if arguments.required { CallChoice::Required } else { CallChoice::Auto },
    };
    let grammar = grammar_with(&set, format, options);
    if arguments.required && grammar.tools == 0 {
        return Err(no_call(&grammar.refused));
    }
    if context.output != Output::Text {
        output::json(&grammar)?;
        return Ok(Exit::Ok);
    }
    for tool in &grammar.refused {
        note!("note: no call of {}", unwritable(tool));
    }
    for loose in &grammar.loose {
        note!(
            "note: {}: `{}` of {} is left to the check behind the reply",
            loose.tool,
            loose.keyword,
            shown(&loose.path)
        );
    }
    output::line(grammar.text.trim_end())?;
    Ok(Exit::Ok)
}

/// A call is demanded, and none can be written.
fn no_call(refused: &[RefusedTool]) -> Failure {
    let why = refused.iter().map(unwritable).collect::<Vec<_>>().join("; ");
    let (message, help) = if refused.is_empty() {
        ("a call is required, and no tools are named".to_owned(), "name tools, or leave `--required` out")
    } else {
        (
            format!("a call is required, and none can be written: {why}"),
            "fix the schemas of these tools, or leave `--required` out",
        )
    };
    Failure::new(Exit::Invalid, "bad_tools", message).with_help(help)
}

fn unwritable(tool: &RefusedTool) -> String {
    format!("{} can be written: {}: {}", tool.tool, shown(&tool.path), tool.why)
}

fn shown(path: &str) -> &str {
    if path.is_empty() { "the arguments" } else { path }
}
