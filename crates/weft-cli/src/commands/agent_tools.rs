//! `weft agent add-tool` and `remove-tool`: changes of a profile, every other key of it as it was.

use weft_project::ProfileChange;

use super::Context;
use crate::arguments::{AgentToolArguments, Output};
use crate::failure::{Exit, Failure, shown};
use crate::output;

pub(super) fn add(context: &Context, arguments: &AgentToolArguments) -> Result<Exit, Failure> {
    let project = context.project(None)?;
    let edits = project.edits()?;
    let (agent, tool) = (&arguments.agent, &arguments.tool);
    let change = if arguments.skill { edits.add_skill(agent, tool)? } else { edits.add_tool(agent, tool)? };
    if !change.differs {
        note!("`{agent}` has `{}` already", project.canonical_id(tool));
    } else if !arguments.dry_run {
        change.write(&edits)?;
        note!("{} was written", shown(&change.path).display());
    }
    show(context, &change, arguments.dry_run)
}

pub(super) fn remove(context: &Context, arguments: &AgentToolArguments) -> Result<Exit, Failure> {
    let project = context.project(None)?;
    let edits = project.edits()?;
    let change = edits.remove_tool(&arguments.agent, &arguments.tool)?;
    if !arguments.dry_run {
        change.write(&edits)?;
        note!("{} was written", shown(&change.path).display());
    }
    show(context, &change, arguments.dry_run)
}

fn show(context: &Context, change: &ProfileChange, whole: bool) -> Result<Exit, Failure> {
    match context.output {
        Output::Text if whole => output::pretty(&change.profile)?,
        Output::Text => {}
        Output::Json | Output::Jsonl => output::json(&change.profile)?,
    }
    Ok(Exit::Ok)
}
