//! `weft agent add-tool` and `remove-tool`: changes of a profile, every other key of it as it was.

use std::path::Path;

use serde_json::{Value, json};
use tool_registry::canonical_id;

use super::Context;
use crate::arguments::{AgentToolArguments, Output};
use crate::failure::{Exit, Failure, shown};
use crate::{inputs, output};

const TOOLS: &str = "tool_ids_inventory";
const SKILLS: &str = "skill_workflow_ids_inventory";

pub(super) fn add(context: &Context, arguments: &AgentToolArguments) -> Result<Exit, Failure> {
    let project = context.project(None)?;
    let file = project.agent_file(&arguments.agent)?;
    let id = canonical_id(&arguments.tool);
    project.tool(&id)?;
    let is_there = file.profile.tool_ids().contains(&id);
    let mut profile = read(&file.path)?;
    if is_there {
        note!("`{}` has `{id}` already", arguments.agent);
        return show(context, &profile, arguments.dry_run);
    }
    let (key, entry) = if arguments.skill {
        let Some(workflow) = id.strip_prefix("workflow:") else {
            return Err(Failure::usage(format!("`{id}` is no workflow, and only workflows are skills")));
        };
        (SKILLS, workflow.to_owned())
    } else {
        (TOOLS, arguments.tool.clone())
    };
    let list = profile.as_object_mut().map(|profile| profile.entry(key).or_insert_with(|| json!([])));
    let Some(list) = list.and_then(Value::as_array_mut) else {
        return Err(Failure::new(Exit::Invalid, "bad_profile", format!("`{key}` is no list"))
            .at(&file.path, None, None));
    };
    list.push(entry.into());
    finish(context, arguments, &file.path, &profile)
}

pub(super) fn remove(context: &Context, arguments: &AgentToolArguments) -> Result<Exit, Failure> {
    let project = context.project(None)?;
    let file = project.agent_file(&arguments.agent)?;
    let id = canonical_id(&arguments.tool);
    let mut profile = read(&file.path)?;
    let mut removed = 0;
    for (key, is_skill) in [(TOOLS, false), (SKILLS, true)] {
        let Some(list) = profile.get_mut(key).and_then(Value::as_array_mut) else { continue };
        let before = list.len();
        list.retain(|entry| named(entry, is_skill).as_deref() != Some(id.as_str()));
        removed += before - list.len();
    }
    if removed == 0 {
        let own = file.profile.tool_ids();
        let near = agent_types::nearest(&id, own.iter().map(String::as_str));
        let failure = Failure::new(
            Exit::Usage,
            "unknown_tool",
            format!("the agent `{}` has no tool `{id}`", arguments.agent),
        );
        return Err(match near {
            Some(near) => failure.with_help(format!("did you mean `{near}`?")),
            None => failure,
        });
    }
    finish(context, arguments, &file.path, &profile)
}

/// The tool that an entry of an inventory means.
fn named(entry: &Value, is_skill: bool) -> Option<String> {
    let id = entry.as_str().or_else(|| entry.get("id")?.as_str())?;
    let is_bare_skill = is_skill && !id.contains(':');
    Some(if is_bare_skill { format!("workflow:{id}") } else { canonical_id(id) })
}

fn read(path: &Path) -> Result<Value, Failure> {
    let text = inputs::text_file(path)?;
    serde_json::from_str(&text).map_err(|error| {
        Failure::new(Exit::Invalid, "bad_profile", error.to_string()).at(path, Some(error.line()), None)
    })
}

fn finish(
    context: &Context,
    arguments: &AgentToolArguments,
    path: &Path,
    profile: &Value,
) -> Result<Exit, Failure> {
    if !arguments.dry_run {
        write(path, profile)?;
        note!("{} was written", shown(path).display());
    }
    show(context, profile, arguments.dry_run)
}

fn show(context: &Context, profile: &Value, whole: bool) -> Result<Exit, Failure> {
    match context.output {
        Output::Text if whole => output::pretty(profile)?,
        Output::Text => {}
        Output::Json | Output::Jsonl => output::json(profile)?,
    }
    Ok(Exit::Ok)
}

/// Writes the file beside itself first, so that nothing is lost half-way.
fn write(path: &Path, profile: &Value) -> Result<(), Failure> {
    let failed = |error: std::io::Error| {
        Failure::new(Exit::Failed, "not_written", error.to_string()).at(path, None, None)
    };
    let text = serde_json::to_string_pretty(profile)
        .map_err(|error| Failure::new(Exit::Failed, "no_json", error.to_string()))?;
    let beside = path.with_extension("json.new");
    std::fs::write(&beside, format!("{text}\n")).map_err(failed)?;
    std::fs::rename(&beside, path).map_err(failed)
}
