//! `weft agent`: list, show, check, run.

use std::path::Path;

use agent_runtime::{Agent, AgentProfile, AgentState, ApprovalMode, Exchange, PendingCall, RunOutcome};
use agent_types::{AskKind, ExitReason, Observation, ObservationCode, nearest};
use futures::future::{Either, select};
use llm_provider::ModelSource;
use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;
use tool_registry::TaskBoard;
use tool_schema::CompiledSchema;
use weft_project::{AgentPlan, AgentStart, PlannedEvent, Project, ProjectWatch};

use super::{Context, agent_tools, block_on, chat};
use crate::arguments::{AgentCommand, AgentRunArguments, Approve, Output};
use crate::failure::{Exit, Failure, shown};
use crate::{follow, inputs, interrupt, output};

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
    }
    for file in files {
        let result = project.agent(&file.profile.id);
        checked.push(json!({"id": file.profile.id, "ok": result.is_ok()}));
        match result {
            Ok(_) if context.output == Output::Text => output::line(&format!("{}: ok", file.profile.id))?,
            Ok(_) => {}
            Err(error) => failures.push(Failure::of_project(&error)),
        }
    }
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
    let agent = project.agent(&arguments.id)?.with_approval(mode_of(arguments.approve));
    let mut plan = plan_of(arguments)?;
    if let Some(event) = plan.event.as_mut().filter(|_| arguments.payload.is_none()) {
        // An event that another agent published has its own payload.
        let waiting = project.take_event(&arguments.id, Some(&event.name))?;
        event.payload = waiting.map(|waiting| waiting.payload).unwrap_or_default();
    }
    if plan.event.is_none() && plan.attachments.is_empty() && plan.message.trim().is_empty() {
        return Err(
            Failure::usage("there is no message").with_help("write it behind the agent; `-` reads stdin")
        );
    }
    let agent = as_planned(agent, &plan);
    if let Some(event) = &plan.event
        && !agent.listens_to(&event.name, &event.payload)
    {
        return Err(not_heard(agent.profile(), &event.name));
    }
    if let Some(thread) = &arguments.thread
        && let Some(run) = project.waiting_run(&arguments.id, thread)?
    {
        let message = format!("the run `{run}` of this conversation waits for an answer");
        return Err(Failure::new(Exit::NeedsPerson, "run_waiting", message).with_help(format!(
            "weft runs approve {run}, weft runs answer {run} VALUE, or weft runs cancel {run}"
        )));
    }
    if arguments.script.is_none() {
        note_script(&project, &agent);
    }
    let (agent, _watch) = with_live_tools(agent, &project)?;
    let start = project.begin_agent(plan, arguments.thread.as_deref())?;
    run_agent(context, &project, &agent, start)
}

/// An event that does not set the agent to work: one that it does not listen to, or one that its condition keeps out.
fn not_heard(profile: &AgentProfile, event: &str) -> Failure {
    let listed = profile.extra.get("subscribed_event_types").and_then(Value::as_array).into_iter().flatten();
    let names: Vec<&str> =
        listed.filter_map(|entry| entry.as_str().or_else(|| entry.get("type")?.as_str())).collect();
    let (message, help) = if names.contains(&event) {
        (
            format!("the agent `{}` listens to `{event}`, and its condition does not hold", profile.id),
            "see `filter_condition` in `subscribed_event_types` of its profile, and the payload".to_owned(),
        )
    } else {
        let near = nearest(event, names.iter().copied());
        (
            format!("the agent `{}` does not listen to `{event}`", profile.id),
            near.map_or_else(
                || "name it in `subscribed_event_types` of its profile".to_owned(),
                |near| format!("did you mean `{near}`?"),
            ),
        )
    };
    Failure::new(Exit::Usage, "not_subscribed", message).with_help(help)
}

/// The agent with tools that follow their files, for as long as the watch lives.
pub(super) fn with_live_tools(
    agent: Agent,
    project: &Project,
) -> Result<(Agent, Option<ProjectWatch>), Failure> {
    // The built-in agent has no file to follow.
    if project.agent_file(&agent.profile().id).is_err() {
        return Ok((agent, None));
    }
    match project.watch() {
        Ok(watch) => {
            let tools = watch.tools_of(&agent.profile().id)?;
            Ok((agent.with_source(project.following(tools)), Some(watch)))
        }
        Err(error) => {
            note!("note: {error}");
            Ok((agent, None))
        }
    }
}

/// The agent as a run of this plan needs it.
pub(super) fn as_planned(agent: Agent, plan: &AgentPlan) -> Agent {
    let agent = agent.with_values(plan.values.clone());
    match &plan.schema {
        Some(schema) => agent.with_output_schema(schema.clone()),
        None => agent,
    }
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
        plan.event = Some(PlannedEvent { name: name.clone(), payload });
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

/// Says so where replies come from the project's script because no model is set.
pub(super) fn note_script(project: &Project, agent: &Agent) {
    let profile = agent.profile().llm.as_ref().and_then(|llm| llm.profile.as_deref());
    if project.models().model(profile).is_ok_and(|model| model.info().scripted) {
        note!(
            "note: no model is set, so the replies are played from a script; set OPENAI_BASE_URL and OPENAI_MODEL to talk to one"
        );
    }
}

/// Runs an agent to its end, telling what happens as the output form wants it.
pub(super) fn run_agent(
    context: &Context,
    project: &Project,
    agent: &Agent,
    start: AgentStart,
) -> Result<Exit, Failure> {
    let outcome = block_on(to_the_end(context.output, project, agent, start))??;
    let exit = exit_of(&outcome);
    match context.output {
        // What was said on the way to a call that waits is no answer.
        Output::Text if outcome.text.is_empty() || exit == Exit::NeedsPerson => {}
        Output::Text => output::line(&outcome.text)?,
        Output::Json => output::json(&outcome)?,
        Output::Jsonl => {}
    }
    if exit != Exit::Ok {
        failure_of(&outcome, exit).print(context.output);
    }
    Ok(exit)
}

/// Drives a run, and takes it up again when work ends that it waits for and that goes on in this process.
async fn to_the_end(
    form: Output,
    project: &Project,
    agent: &Agent,
    start: AgentStart,
) -> Result<RunOutcome, Failure> {
    let (mut outcome, _) = drive(form, project, agent, start).await?;
    while outcome.exit == ExitReason::AwaitingResult
        && work_ends(project, agent.tasks().as_deref(), &outcome.pending).await
    {
        let start = project.resume_agent(&outcome.run)?;
        (outcome, _) = drive(form, project, agent, start).await?;
    }
    Ok(outcome)
}

/// Waits for the end of work that a run waits for and that goes on in this process. Gives whether the run can go on: not where
/// nothing is kept, the work is elsewhere, or the user does not want to wait.
pub(super) async fn work_ends(project: &Project, board: Option<&TaskBoard>, pending: &[PendingCall]) -> bool {
    let Some(board) = board.filter(|_| project.store().is_ok_and(|store| store.is_some())) else {
        return false;
    };
    let tasks: Vec<&str> = pending.iter().map(PendingCall::task).collect();
    if !tasks.iter().all(|task| board.status(task).is_some()) {
        return false;
    }
    note!("waiting for {}; Ctrl-C to stop", tasks.join(", "));
    let cancel = CancellationToken::new();
    let ended = std::pin::pin!(board.any_end(tasks.iter().copied()));
    let stopped = std::pin::pin!(cancel.cancelled());
    let waiting = select(ended, stopped);
    matches!(interrupt::run(waiting, &cancel).await, Either::Left(_))
}

pub(super) async fn drive(
    form: Output,
    project: &Project,
    agent: &Agent,
    start: AgentStart,
) -> Result<(RunOutcome, AgentState), Failure> {
    let AgentStart { desk, log, state, plan, thread } = start;
    let before = state.history().len();
    let run = agent
        .start_in(state, plan.input(), desk.sink(), log)
        .map_err(|error| Failure::new(Exit::Invalid, error.code(), error.to_string()))?;
    let (id, cancel) = (run.id().clone(), run.cancel_token());
    let telling = follow::tell(form, desk.watch(follow::BEHIND), &cancel);
    let running = async {
        let outcome = interrupt::run(run.outcome(), &cancel);
        let heeding = follow::poll_cancel_requests(project, &id, &cancel);
        let outcome = match select(Box::pin(outcome), Box::pin(heeding)).await {
            Either::Left((outcome, _)) => outcome,
            Either::Right(((), outcome)) => outcome.await,
        };
        (outcome, desk.close().await)
    };
    let (((outcome, state), closed), told) = futures::join!(running, telling);
    told?;
    closed?;
    let waits = exit_of(&outcome) == Exit::NeedsPerson;
    if let Some(thread) = thread.filter(|_| !waits) {
        project.extend_thread(&plan.agent, &thread, outcome.history.get(before..).unwrap_or_default())?;
    }
    Ok((outcome, state))
}

pub(super) fn exit_of(outcome: &RunOutcome) -> Exit {
    exit_of_reason(outcome.exit)
}

pub(super) fn exit_of_reason(exit: ExitReason) -> Exit {
    match exit {
        ExitReason::Completed
        | ExitReason::HandedOff
        | ExitReason::Closed
        | ExitReason::FlowCompleted
        | ExitReason::FlowSilent => Exit::Ok,
        ExitReason::LlmFailed => Exit::Unreachable,
        ExitReason::ToolError => Exit::Tool,
        ExitReason::MaxTurns | ExitReason::BudgetExceeded | ExitReason::LoopDetected => Exit::Limit,
        ExitReason::AwaitingApproval | ExitReason::AwaitingResult | ExitReason::NeedsReconciliation => {
            Exit::NeedsPerson
        }
        ExitReason::Cancelled => Exit::Interrupted,
        _ => Exit::Failed,
    }
}

pub(super) fn failure_of(outcome: &RunOutcome, exit: Exit) -> Failure {
    let message = outcome.error.clone().unwrap_or_else(|| format!("the run ended: {}", outcome.exit));
    let failure = Failure::new(exit, outcome.exit.as_str(), message);
    match outcome.exit {
        ExitReason::AwaitingApproval => {
            let run = &outcome.run;
            let question = outcome.pending.iter().find(|pending| pending.kind == AskKind::Question);
            if let Some(PendingCall { ask, tool, prompt, .. }) = question {
                let prompt = prompt.as_deref().unwrap_or("it asks something");
                return failure.with_help(format!("{tool}: {prompt} Answer with: weft runs answer {run} --ask {ask} VALUE"));
            }
            let tools: Vec<&str> = outcome.pending.iter().map(|pending| pending.tool.as_str()).collect();
            failure.with_help(format!("{} must be approved: weft runs approve {run}", tools.join(", ")))
        }
        ExitReason::NeedsReconciliation => {
            let run = &outcome.run;
            failure.with_help(format!("say what became of it: weft runs answer {run} retry, skip or done"))
        }
        ExitReason::AwaitingResult => {
            let run = &outcome.run;
            failure.with_help(format!("when the result is there: weft runs answer {run} VALUE"))
        }
        ExitReason::LlmFailed if outcome.error.as_deref().is_some_and(|error| error.contains("the script ")) => {
            failure.with_help("the scripted replies are used up or do not fit; see `weft test` and the guide on models")
        }
        ExitReason::LlmFailed => {
            failure.with_help("is the model's server up, and the key right? see OPENAI_BASE_URL, OPENAI_MODEL, OPENAI_API_KEY and [models] in weft.toml")
        }
        ExitReason::BudgetExceeded => {
            failure.with_help("raise that limit in budgets of the agent's profile, or of the agent that called it")
        }
        ExitReason::LoopDetected => failure.with_help(
            "the same call gave the same result again and again: say more in the tool's answer or description",
        ),
        ExitReason::MaxTurns => failure.with_help("raise budgets.turns in the agent's profile"),
        ExitReason::SelfCorrectionFailed => {
            let message = corrections(outcome).unwrap_or_else(|| failure.message.clone());
            let failure = Failure { message, ..failure };
            failure.with_help(
                "see `weft prompt`, make the schema simpler or try another model; budgets.corrections in the agent's profile allows more replies",
            )
        }
        _ => failure,
    }
}

/// What the last replies were about that could not be used, and how many they were.
fn corrections(outcome: &RunOutcome) -> Option<String> {
    let turns = outcome.history.iter().rev().map_while(|exchange| match exchange {
        Exchange::Turn(turn) => turn.observations().find(|seen| is_fault(seen.code)),
        _ => None,
    });
    let faults: Vec<&Observation> = turns.collect();
    let last = faults.first()?;
    let about = if last.tool.is_empty() { String::new() } else { format!(" for `{}`", last.tool) };
    let count = match faults.len() {
        1 => "a reply".to_owned(),
        count => format!("{count} replies in a row"),
    };
    Some(format!("{count} could not be used, the last{about}: {}", last.text))
}

/// Whether it is about a reply, and not about what a tool did.
fn is_fault(code: ObservationCode) -> bool {
    use ObservationCode as Code;
    matches!(
        code,
        Code::UnknownTool
            | Code::UnknownParameter
            | Code::MissingParameter
            | Code::DuplicateParameter
            | Code::InvalidArgument
            | Code::Malformed
            | Code::OutputSchema
    )
}
