//! `weft agent`: list, show, check, run.

use std::path::Path;
use std::sync::Arc;

use agent_runtime::ApprovalMode;
use serde_json::{Value, json};
use tool_schema::CompiledSchema;
use weft_project::{PlannedEvent, Project};
use weft_runs::{
    AgentPlan, AgentRequest, LocalRuns, ProjectFiles, RunEnv, RunService, RunsOptions, WhenBusy,
};

use super::{Context, agent_tools, block_on, chat, warn_of_secrets};
use crate::arguments::{AgentCommand, AgentRunArguments, Approve, Output};
use crate::failure::{Exit, Failure, shown};
use crate::{follow, inputs, outcome, output};

pub(super) fn run(context: &Context, command: AgentCommand) -> Result<Exit, Failure> {
    match command {
        AgentCommand::List => list(context),
        AgentCommand::Show { id } => show(context, &id),
        AgentCommand::Check { id } => check(context, id.as_deref()),
        AgentCommand::Run(arguments) => answer(context, &arguments),
        AgentCommand::Chat(arguments) => chat::run(context, &arguments),
        AgentCommand::AddTool(arguments) => agent_tools::add(context, &arguments),
        AgentCommand::RemoveTool(arguments) => agent_tools::remove(context, &arguments),
    }
}

fn list(context: &Context) -> Result<Exit, Failure> {
    let project = context.project(None)?;
    let agents: Vec<Value> = project
        .agents()
        .map(|file| {
            json!({"id": file.profile.id, "title": file.profile.name, "description": file.profile.description,
                "tools": file.profile.tool_ids()})
        })
        .collect();
    match context.output {
        Output::Json => output::json(&agents)?,
        Output::Jsonl => agents.iter().try_for_each(output::json)?,
        Output::Text => {
            for file in project.agents() {
                let about = file.profile.description.as_deref().unwrap_or(&file.profile.name);
                output::line(&format!("{}\t{about}", file.profile.id))?;
            }
        }
    }
    project.broken_agents().iter().for_each(|broken| Failure::of_file(broken).print(context.output));
    Ok(if project.broken_agents().is_empty() { Exit::Ok } else { Exit::Invalid })
}

fn show(context: &Context, id: &str) -> Result<Exit, Failure> {
    let project = context.project(None)?;
    let file = project.agent_file(id)?;
    let tools = project.tools_of(file)?;
    if context.output != Output::Text {
        let definitions: Vec<_> = tools.tools().map(tool_registry::Tool::definition).collect();
        output::json(&json!({"id": id, "profile": file.profile, "tools": definitions}))?;
        return Ok(Exit::Ok);
    }
    output::line(&format!("{} ({})", file.profile.id, shown(&file.path).display()))?;
    if let Some(description) = &file.profile.description {
        output::line(description)?;
    }
    output::line("tools:")?;
    for tool in tools.tools() {
        output::line(&format!("  {}\t{}", tool.id(), tool.definition().description))?;
    }
    Ok(Exit::Ok)
}

fn check(context: &Context, id: Option<&str>) -> Result<Exit, Failure> {
    let project = context.project(None)?;
    let files = match id {
        Some(id) => vec![project.agent_file(id)?],
        None => project.agents().collect(),
    };
    let mut failures = Vec::new();
    let mut checked = Vec::new();
    if id.is_none() {
        failures.extend(project.broken_agents().iter().map(Failure::of_file));
        failures.extend(project.broken_triggers().iter().map(Failure::of_project));
    }
    for file in files {
        let mut faults = project.faults_of(file).unwrap_or_default();
        if faults.is_empty() {
            faults.extend(project.agent(&file.profile.id).err());
        }
        checked.push(json!({"id": file.profile.id, "ok": faults.is_empty()}));
        if faults.is_empty() && context.output == Output::Text {
            output::line(&format!("{}: ok", file.profile.id))?;
        }
        failures.extend(faults.iter().map(Failure::of_project));
        file.ignored_names().for_each(|message| Failure::of_ignored_name(file, message).warn(context.output));
    }
    warn_of_secrets(context, &project, |_| true);
    match context.output {
        Output::Json => output::json(&checked)?,
        Output::Jsonl => checked.iter().try_for_each(output::json)?,
        Output::Text => {}
    }
    failures.iter().for_each(|failure| failure.print(context.output));
    Ok(failures.last().map_or(Exit::Ok, |failure| failure.exit))
}

fn answer(context: &Context, arguments: &AgentRunArguments) -> Result<Exit, Failure> {
    let project = context.project(arguments.script.clone())?;
    let mut plan = plan_of(arguments)?;
    if plan.event.is_none() && plan.attachments.is_empty() && plan.message.trim().is_empty() {
        return Err(
            Failure::usage("the message is missing").with_help("write it behind the agent; `-` reads stdin")
        );
    }
    project.agent(&arguments.id)?;
    if let Some(event) = plan.event.as_mut().filter(|_| arguments.payload.is_none()) {
        // An event that another agent published has its own payload.
        let waiting =
            project.trigger_store()?.take_event(&arguments.id, &event.name, project.clock().now())?;
        event.payload = waiting.map(|waiting| waiting.payload).unwrap_or_default();
    }
    let thread = arguments.thread.clone();
    let approval = mode_of(arguments.approve);
    let request =
        AgentRequest { plan, thread, approval, surroundings: RunEnv::AgentOnly, busy: WhenBusy::Reject };
    run_agent(context, &watched(project), request)
}

/// Runs an agent to its end, printing what happens as the output form wants it.
pub(super) fn run_agent(context: &Context, runs: &LocalRuns, request: AgentRequest) -> Result<Exit, Failure> {
    let outcome = block_on(async {
        let run = runs.begin(request.into()).await?;
        follow::to_the_end(context.output, runs, run).await
    })??;
    outcome::print(context.output, &outcome)
}

/// Runs of a project whose files are followed.
pub(super) fn watched(project: Project) -> LocalRuns {
    let (files, fault) = ProjectFiles::watched(project);
    if let Some(error) = fault {
        note!("note: {error}");
    }
    LocalRuns::new(Arc::new(files), RunsOptions::default())
}

/// Runs of a project as it was read.
pub(super) fn fixed(project: Project) -> LocalRuns {
    LocalRuns::new(Arc::new(ProjectFiles::fixed(project)), RunsOptions::default())
}

pub(super) fn mode_of(approve: Approve) -> ApprovalMode {
    match approve {
        Approve::Ask => ApprovalMode::Ask,
        Approve::All => ApprovalMode::All,
        Approve::None => ApprovalMode::None,
    }
}

fn plan_of(arguments: &AgentRunArguments) -> Result<AgentPlan, Failure> {
    let mut plan = AgentPlan {
        agent: arguments.id.clone(),
        values: inputs::context(&arguments.values)?,
        ..AgentPlan::default()
    };
    plan.message = match arguments.message.as_deref() {
        Some("-") => inputs::stdin()?,
        Some(message) => message.to_owned(),
        None => String::new(),
    };
    if let Some(name) = &arguments.event {
        let payload = arguments.payload.as_deref().map(inputs::json_file).transpose()?.unwrap_or_default();
        plan.event = Some(PlannedEvent::new(name.clone(), payload));
    }
    plan.attachments =
        arguments.attach.iter().map(|file| inputs::attachment(file)).collect::<Result<_, _>>()?;
    plan.schema = arguments.schema.as_deref().map(schema_file).transpose()?;
    Ok(plan)
}

/// The schema that an answer must fit.
fn schema_file(file: &Path) -> Result<Value, Failure> {
    let schema = inputs::json_file(file)?;
    match CompiledSchema::new(&schema) {
        Ok(_) => Ok(schema),
        Err(error) => {
            let message = format!("the schema of --schema cannot be used: {error}");
            Err(Failure::new(Exit::Invalid, error.code(), message).at(file, None, None))
        }
    }
}
