//! `weft flow`: list, check, match, run.

use executors_flow_system::{FlowsFile, Problem, TimerAction, Triggered, When};
use serde_json::{Value, json};
use weft_project::{Project, ProjectError};
use weft_runs::{AgentPlan, AgentRequest, FlowCall, WhenBusy};

use super::agent::{fixed, run_agent};
use super::{Context, warn_of_secrets};
use crate::arguments::{FlowCommand, Output};
use crate::failure::{Exit, Failure};
use crate::{inputs, output};

/// Message for a project without flows, whose agent answers everything.
const NO_FILE: &str = "this project has no flows.json: its agent answers every message";

pub(super) fn run(context: &Context, command: FlowCommand) -> Result<Exit, Failure> {
    let project = context.project(None)?;
    match command {
        FlowCommand::List => list(context, &project),
        FlowCommand::Check => check(context, &project),
        FlowCommand::Match { text } => {
            let text = if text == "-" { inputs::stdin()? } else { text };
            matched(context, &project, &text)
        }
        FlowCommand::Run { id, inputs, session, values } => {
            let parameters = inputs::plain(&inputs)?;
            let target = Some(FlowCall { id, kind: None, parameters });
            let agent = project.flows_agent()?;
            let values = inputs::context(&values)?;
            let plan = AgentPlan { target, values, ..AgentPlan::new(agent, "") };
            let request =
                AgentRequest { plan, thread: session, busy: WhenBusy::Reject, ..AgentRequest::default() };
            run_agent(context, &fixed(project), request)
        }
    }
}

fn list(context: &Context, project: &Project) -> Result<Exit, Failure> {
    let file = project.flows_file()?;
    if file.is_none() {
        note!("{NO_FILE}");
    }
    let entries = file.map(entries).unwrap_or_default();
    match context.output {
        Output::Json => output::json(&entries)?,
        Output::Jsonl => entries.iter().try_for_each(output::json)?,
        Output::Text => {
            for entry in &entries {
                let text = |key: &str| entry[key].as_str().unwrap_or_default().to_owned();
                let about = entry["title"].as_str().or(entry["when"].as_str()).unwrap_or_default();
                output::line(format!("{}\t{}\t{about}", text("id"), text("kind")).trim_end())?;
            }
        }
    }
    Ok(Exit::Ok)
}

/// Entries of a file, in its order.
fn entries(file: &FlowsFile) -> Vec<Value> {
    let mut entries = Vec::new();
    for flow in &file.flows {
        entries.push(json!({"id": flow.flow_id, "kind": "flow", "title": flow.title, "match": flow.kind,
            "trigger_patterns": flow.trigger_patterns, "priority": flow.priority, "silent": flow.silent,
            "when": flow.trigger_patterns.join(" | ")}));
    }
    for action in &file.system_actions {
        let when = match action.when {
            When::OnMatch => action.trigger_patterns.join(" | "),
            When::BeforeTurn => "before each message".to_owned(),
            When::AfterTurn => "after each message".to_owned(),
        };
        entries.push(json!({"id": action.action_id, "kind": "system_action", "title": action.title, "handler": action.handler,
            "match": action.kind, "trigger_patterns": action.trigger_patterns, "priority": action.priority,
            "silent": action.silent, "when": when}));
    }
    for timer in &file.timers {
        let action = match &timer.action {
            TimerAction::Reply(_) => "reply",
            TimerAction::Ask(_) => "ask the agent",
            TimerAction::Flow(id) | TimerAction::SystemAction(id) => id,
        };
        let when = match (&timer.delay_ms, &timer.cron) {
            (Some(delay), _) => format!("after {delay} ms: {action}"),
            (None, cron) => format!("at {}: {action}", cron.as_deref().unwrap_or_default()),
        };
        entries.push(json!({"id": timer.timer_id, "kind": "timer", "delay_ms": timer.delay_ms, "cron": timer.cron, "when": when}));
    }
    entries.into_iter().map(without_nulls).collect()
}

fn without_nulls(value: Value) -> Value {
    match value {
        Value::Object(members) => members
            .into_iter()
            .filter(|(_, value)| !value.is_null())
            .collect::<serde_json::Map<_, _>>()
            .into(),
        other => other,
    }
}

fn check(context: &Context, project: &Project) -> Result<Exit, Failure> {
    // What the file names must be there, the agent too.
    let checked = project.flows().and_then(|flows| project.flows_agent().map(|_| flows));
    let mut done = "flows.json: ok";
    let problems: Vec<Problem> = match checked {
        Ok(Some(flows)) => flows.warnings().to_vec(),
        Ok(None) => {
            done = NO_FILE;
            Vec::new()
        }
        Err(ProjectError::Flows { source, path }) => match *source {
            executors_flow_system::FlowsError::Problems { problems } => problems,
            other => return Err(Failure::of_project(&ProjectError::Flows { source: Box::new(other), path })),
        },
        Err(error) => return Err(error.into()),
    };
    let ok = Problem::are_warnings(&problems);
    warn_of_secrets(context, project, |path| path.ends_with("flows.json"));
    match context.output {
        Output::Json => output::json(&json!({"ok": ok, "problems": problems}))?,
        Output::Jsonl => problems.iter().try_for_each(output::json)?,
        Output::Text => {
            problems.iter().for_each(|problem| output::problem("flows.json ", problem, None));
            if ok {
                output::line(done)?;
            }
        }
    }
    Ok(if ok { Exit::Ok } else { Exit::Invalid })
}

fn matched(context: &Context, project: &Project, text: &str) -> Result<Exit, Failure> {
    let triggered = project.flows()?.map(|flows| flows.matched(text));
    let (key, id, why) = match triggered {
        Some(Triggered::Flow { id, why }) => ("flow", id, why.to_string()),
        Some(Triggered::Action { id, why }) => ("action", id, why.to_string()),
        Some(Triggered::Nothing { excluded }) if !excluded.is_empty() => {
            let kept = excluded.iter().map(|(id, why)| format!("`{id}` is kept back by {why}"));
            ("", String::new(), kept.collect::<Vec<_>>().join("; "))
        }
        _ => ("", String::new(), "no pattern fits".to_owned()),
    };
    if context.output != Output::Text {
        let named = (!key.is_empty()).then(|| (key.to_owned(), Value::from(id)));
        let value: serde_json::Map<_, _> =
            named.into_iter().chain([("why".to_owned(), why.into())]).collect();
        output::json(&value)?;
        return Ok(Exit::Ok);
    }
    match key {
        "flow" => output::line(&format!("flow {id}: {why}"))?,
        "action" => output::line(&format!("system action {id}: {why}"))?,
        _ => output::line(&format!("the agent answers: {why}"))?,
    }
    Ok(Exit::Ok)
}
