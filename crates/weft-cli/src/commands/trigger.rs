//! `weft trigger`: list, fire, dead.

use agent_triggers::due;
use serde_json::{Map, Value, json};
use weft_runs::{Firing, trigger_request};

use super::Context;
use super::agent::{mode_of, run_agent, watched};
use crate::arguments::{Output, TriggerCommand, TriggerFireArguments};
use crate::failure::{Exit, Failure};
use crate::{inputs, output};

pub(super) fn run(context: &Context, command: TriggerCommand) -> Result<Exit, Failure> {
    match command {
        TriggerCommand::List => list(context),
        TriggerCommand::Fire(arguments) => fire(context, &arguments),
        TriggerCommand::Dead => dead(context),
    }
}

fn list(context: &Context) -> Result<Exit, Failure> {
    let project = context.project(None)?;
    let broken = project.broken_triggers();
    broken.iter().for_each(|error| Failure::of_project(error).print(context.output));
    let now = project.clock().now();
    let mut all = Vec::new();
    for entry in project.triggers() {
        let trigger = &entry.trigger;
        let record = project.trigger_store()?.record(&trigger.id)?;
        all.push(json!({"id": trigger.id, "agent": entry.agent, "kind": trigger.kind.as_str(),
            "enabled": trigger.enabled, "next": due(trigger, &record, now).next, "runs": record.runs()}));
    }
    for file in project.agents() {
        for event in &file.profile.subscribed_event_types {
            let id = format!("{}:{}", file.profile.id, event.name());
            let runs = project.trigger_store()?.record(&id)?.runs().to_vec();
            all.push(
                json!({"id": id, "agent": file.profile.id, "kind": "event", "enabled": true, "runs": runs}),
            );
        }
    }
    match context.output {
        Output::Json => output::json(&all)?,
        Output::Jsonl => all.iter().try_for_each(output::json)?,
        Output::Text => {
            for entry in &all {
                let text = |key: &str| entry[key].as_str().unwrap_or_default();
                let when = if entry["enabled"] == false { "disabled" } else { text("next") };
                let runs = entry["runs"].as_array().map_or(0, Vec::len);
                let (id, kind, agent) = (text("id"), text("kind"), text("agent"));
                output::line(&format!("{id}\t{kind}\t{agent}\t{when}\t{runs} runs"))?;
            }
        }
    }
    Ok(if broken.is_empty() { Exit::Ok } else { Exit::Invalid })
}

fn fire(context: &Context, arguments: &TriggerFireArguments) -> Result<Exit, Failure> {
    let project = context.project(arguments.script.clone())?;
    let entry = project.trigger(&arguments.id)?.clone();
    let mut payload = Map::new();
    for input in &arguments.inputs {
        let (name, value) = inputs::pair(input)?;
        payload.insert(name, value);
    }
    let payload = if payload.is_empty() { Value::Null } else { payload.into() };
    let mut request = trigger_request(&entry, &Firing::manual(payload));
    request.approval = mode_of(arguments.approve);
    run_agent(context, &watched(project), request)
}

fn dead(context: &Context) -> Result<Exit, Failure> {
    let letters = context.project(None)?.trigger_store()?.dead_letters()?;
    match context.output {
        Output::Json => output::json(&letters)?,
        Output::Jsonl => letters.iter().try_for_each(output::json)?,
        Output::Text => {
            for letter in &letters {
                let agent = letter.agent.as_deref().unwrap_or("-");
                output::line(&format!("{}\t{}\t{agent}\t{}", letter.at, letter.event, letter.reason))?;
            }
        }
    }
    Ok(Exit::Ok)
}
