//! `weft tool`: list, show, check, call.

use std::sync::Arc;

use agent_types::{
    Budget, BudgetLimits, CallId, EventBody, EventLocation, EventSink, Recorder, RunId, ToolStatus, Watched,
};
use serde_json::{Map, Value, json};
use tokio_util::sync::CancellationToken;
use tool_registry::{CallEnd, CallOutcome, Reach, Services, Tool, ToolContext, ToolErrorKind};
use tool_schema::{CompiledSchema, Typed};
use weft_project::Project;

use super::{Context, block_on};
use crate::arguments::{ContextArguments, InputArguments, Output, ToolCommand, ToolScope};
use crate::failure::{Exit, Failure, shown};
use crate::timeline::Timeline;
use crate::{inputs, interrupt, output};

/// Events that the printer may be behind: none is lost, however slow the reader of stdout is.
const BEHIND: usize = usize::MAX;

pub(super) fn run(context: &Context, command: ToolCommand) -> Result<Exit, Failure> {
    let project = context.project(None)?;
    match command {
        ToolCommand::List(scope) => list(context, &project, &scope),
        ToolCommand::Show { id, scope } => show(context, &find(&project, &id, &scope)?),
        ToolCommand::Check { id: Some(id), scope, inputs } => {
            check(context, &find(&project, &id, &scope)?, &inputs)
        }
        ToolCommand::Check { id: None, scope, inputs } => {
            if !inputs.inputs.is_empty() || inputs.input.is_some() {
                return Err(Failure::usage("name the tool that the arguments are for"));
            }
            check_files(context, &project, &scope)
        }
        ToolCommand::Call { id, scope, inputs, values } => {
            let tool = find(&project, &id, &scope)?;
            let services = services(&project, &tool, &scope)?;
            call(context, &project, &tool, services, &inputs, &values)
        }
    }
}

/// The tool of an id: of the project, or of those that an agent may use.
fn find(project: &Project, id: &str, scope: &ToolScope) -> Result<Tool, Failure> {
    let Some(agent) = &scope.agent else { return Ok(project.tool(id)?) };
    let tools = project.tools_of(project.agent_file(agent)?)?;
    tools.get(id).cloned().ok_or_else(|| {
        let unresolved = tools.unresolved(id);
        let failure =
            Failure::new(Exit::Usage, unresolved.code(), format!("agent `{agent}` has no tool `{id}`"));
        let help = unresolved.near.map_or_else(
            || format!("see `weft tool list --agent {agent}`"),
            |near| format!("did you mean `{near}`?"),
        );
        failure.with_help(help)
    })
}

/// What a tool works on when it is called by hand.
fn services(project: &Project, tool: &Tool, scope: &ToolScope) -> Result<Services, Failure> {
    let id = tool.id().as_str();
    let mut agents = project.agents();
    let agent = match (&scope.agent, agents.next(), agents.next()) {
        (Some(agent), ..) => Some(project.agent_file(agent)?),
        // What the only agent keeps is meant when none is named.
        (None, only, None) => only,
        (None, ..) => None,
    };
    let services = project.tool_services(agent)?;
    let missing = tool.missing(&services);
    let Some(first) = missing.first() else { return Ok(services) };
    Err(match id {
        "system:read_state" | "system:update_state" => {
            Failure::new(Exit::Usage, "missing_agent", format!("`{id}` is about what one agent keeps"))
                .with_help("name the agent: --agent ID")
        }
        "system:task_status" | "system:task_result" | "system:task_cancel" => {
            let message = "tasks end with the run that started them, and a call by hand has none";
            Failure::new(Exit::Usage, "no_tasks", format!("`{id}`: {message}"))
                .with_help("the events of a run tell what became of its tasks: weft runs show RUN")
        }
        _ => Failure::new(
            Exit::Usage,
            "missing_dependency",
            format!("`{id}` needs {first}, which only an agent's run has"),
        ),
    })
}

fn list(context: &Context, project: &Project, scope: &ToolScope) -> Result<Exit, Failure> {
    let mut exit = Exit::Ok;
    let mut refuse = |failure: Failure| {
        failure.print(context.output);
        exit = Exit::Invalid;
    };
    let mut tools = Vec::new();
    if let Some(agent) = &scope.agent {
        tools.extend(project.tools_of(project.agent_file(agent)?)?.tools().cloned());
    } else {
        for tool in project.tools(Reach::Remote) {
            match tool {
                Ok(tool) => tools.push(tool),
                Err(error) => refuse(Failure::of_project(&error)),
            }
        }
    }
    let values = tools.iter().map(|tool| {
        let definition = tool.definition();
        json!({"id": definition.id, "title": definition.title, "description": definition.description,
            "kind": tool.kind(), "approval": tool.approval()})
    });
    match context.output {
        Output::Json => output::json(&values.collect::<Vec<_>>())?,
        Output::Jsonl => values.into_iter().try_for_each(|value| output::json(&value))?,
        Output::Text => {
            for tool in &tools {
                let about = tool.definition().description.lines().next().unwrap_or_default();
                output::line(&format!("{}\t{about}", tool.id()))?;
            }
        }
    }
    Ok(exit)
}

fn show(context: &Context, tool: &Tool) -> Result<Exit, Failure> {
    let definition = tool.definition();
    if context.output != Output::Text {
        let mut value = serde_json::to_value(definition).unwrap_or_default();
        value["kind"] = tool.kind().as_str().into();
        value["approval"] = serde_json::to_value(tool.approval()).unwrap_or_default();
        output::json(&value)?;
        return Ok(Exit::Ok);
    }
    output::line(&format!("{} ({}, approval: {})", definition.id, tool.kind(), approval(tool)))?;
    output::line(&definition.description)?;
    output::pretty(&definition.parameters)?;
    Ok(Exit::Ok)
}

fn approval(tool: &Tool) -> String {
    let word = serde_json::to_value(tool.approval()).unwrap_or_default();
    word.as_str().unwrap_or_default().to_owned()
}

fn schema_of(tool: &Tool) -> Result<&CompiledSchema, Failure> {
    tool.schema().map_err(|error| Failure::new(Exit::Invalid, error.code(), error.to_string()))
}

/// The arguments by the tool's schema, with its defaults.
fn typed(tool: &Tool, arguments: &InputArguments) -> Result<Typed, Failure> {
    let mut typed = inputs::typed_by(arguments, schema_of(tool)?)?;
    for (name, value) in &tool.definition().defaults {
        typed.arguments.entry(name.as_str()).or_insert_with(|| value.clone());
    }
    Ok(typed)
}

fn check(context: &Context, tool: &Tool, arguments: &InputArguments) -> Result<Exit, Failure> {
    let typed = typed(tool, arguments)?;
    let ok = typed.problems.is_empty();
    if context.output == Output::Text {
        for coercion in &typed.coercions {
            note!("note: {} was {} and is {}", coercion.path, coercion.from, coercion.to);
        }
        if ok {
            output::line(&format!("{}: ok", tool.id()))?;
        } else {
            problem_failure(&typed).print(Output::Text);
        }
    } else {
        output::json(
            &json!({"ok": ok, "arguments": typed.arguments, "coercions": typed.coercions, "problems": typed.problems}),
        )?;
    }
    Ok(if ok { Exit::Ok } else { Exit::Invalid })
}

fn problem_failure(typed: &Typed) -> Failure {
    let messages: Vec<&str> = typed.problems.iter().map(|problem| problem.message.as_str()).collect();
    let code = typed.problems.first().map_or("invalid_argument", |problem| problem.code.as_str());
    let failure = Failure::new(Exit::Invalid, code, messages.join("; "));
    match typed.problems.iter().find_map(|problem| problem.suggest.as_deref()) {
        Some(near) => failure.with_help(format!("did you mean `{near}`?")),
        None => failure,
    }
}

/// All tool files, or the tools of an agent.
fn check_files(context: &Context, project: &Project, scope: &ToolScope) -> Result<Exit, Failure> {
    let ids: Vec<String> = match &scope.agent {
        Some(agent) => {
            project.tools_of(project.agent_file(agent)?)?.tools().map(|tool| tool.id().to_string()).collect()
        }
        None => project.tool_files().map(|file| file.tool.id().to_string()).collect(),
    };
    let broken = if scope.agent.is_none() { project.broken_tools() } else { Vec::new() };
    let good = ids.iter().map(|id| json!({"id": id, "ok": true}));
    let bad = broken.iter().map(
        |tool| json!({"id": tool.id, "file": tool.place.as_ref().map(|at| shown(&at.path)), "ok": false}),
    );
    match context.output {
        Output::Json => output::json(&good.chain(bad).collect::<Vec<_>>())?,
        Output::Jsonl => good.chain(bad).try_for_each(|value| output::json(&value))?,
        Output::Text => ids.iter().try_for_each(|id| output::line(&format!("{id}: ok")))?,
    }
    let exit = if broken.is_empty() { Exit::Ok } else { Exit::Invalid };
    broken.into_iter().for_each(|tool| Failure::of_project(&tool.into()).print(context.output));
    Ok(exit)
}

fn call(
    context: &Context,
    project: &Project,
    tool: &Tool,
    services: Services,
    arguments: &InputArguments,
    values: &ContextArguments,
) -> Result<Exit, Failure> {
    let typed = typed(tool, arguments)?;
    if !typed.problems.is_empty() {
        let failure = problem_failure(&typed);
        if context.output == Output::Json {
            let error = json!({"code": failure.code, "message": failure.message, "retryable": true});
            output::json(&json!({"ok": false, "error": error, "problems": typed.problems, "run": null}))?;
        }
        failure.print(context.output);
        return Ok(failure.exit);
    }
    let values = inputs::context(values)?;
    let run = RunId::generate();
    let call = HandCall { services, arguments: typed.arguments, values };
    let outcome = block_on(drive(context.output, project, tool, &run, call))??;
    tell(context, tool, &run, &outcome)
}

/// What a call by hand is made with.
struct HandCall {
    services: Services,
    arguments: Map<String, Value>,
    values: Map<String, Value>,
}

async fn drive(
    form: Output,
    project: &Project,
    tool: &Tool,
    run: &RunId,
    call: HandCall,
) -> Result<CallOutcome, Failure> {
    let clock = Arc::clone(project.clock());
    let recorder = Recorder::new(run.clone(), Arc::clone(&clock));
    let mut watcher = recorder.watch(BEHIND);
    let cancel = CancellationToken::new();
    let id = CallId::new("c1");
    let place = EventLocation { call: Some(id.clone()), ..EventLocation::default() };
    let sink = Arc::clone(&recorder) as Arc<dyn EventSink>;
    let budget = Budget::new(BudgetLimits::default());
    let cx = ToolContext::new(id, tool.id().clone(), clock, budget, sink, place)
        .with_cancel(cancel.clone())
        .with_services(call.services)
        .with_values(Arc::new(call.values));
    let telling = async {
        let mut timeline = Timeline::new();
        while let Some(watched) = watcher.next().await {
            let Watched::Events(batch) = watched else { continue };
            for event in batch.iter() {
                match form {
                    // How the call itself ended is told below.
                    Output::Text if matches!(event.body, EventBody::AgentToolFinished { .. }) => {}
                    Output::Text => timeline.show(event),
                    Output::Jsonl => output::json(event)?,
                    Output::Json => {}
                }
            }
        }
        Ok::<(), Failure>(())
    };
    let running = async {
        cx.emit(EventBody::AgentToolStarted { tool: tool.id().clone() });
        let outcome = interrupt::run(tool.invoke(call.arguments, cx.clone()), &cancel).await;
        let ms = u64::try_from(outcome.took.as_millis()).unwrap_or(u64::MAX);
        cx.emit(EventBody::AgentToolFinished {
            tool: tool.id().clone(),
            status: status(&outcome.end),
            summary: message(&outcome.end).chars().take(200).collect(),
            blob: None,
            ms,
        });
        recorder.close();
        outcome
    };
    let (outcome, told) = futures::join!(running, telling);
    told?;
    Ok(outcome)
}

fn status(end: &CallEnd) -> ToolStatus {
    match end {
        CallEnd::Ok(_) => ToolStatus::Ok,
        CallEnd::Failed(error) if error.kind == ToolErrorKind::Refused => ToolStatus::Refused,
        CallEnd::Failed(error) if error.kind == ToolErrorKind::Timeout => ToolStatus::Timeout,
        CallEnd::TimedOut { .. } => ToolStatus::Timeout,
        CallEnd::Panicked { .. } => ToolStatus::Panicked,
        CallEnd::Cancelled => ToolStatus::Cancelled,
        _ => ToolStatus::Failed,
    }
}

fn message(end: &CallEnd) -> String {
    match end {
        CallEnd::Ok(output) => output.text(),
        CallEnd::Failed(error) => error.message_for_model.clone(),
        CallEnd::Panicked { message } => message.clone(),
        CallEnd::TimedOut { limit } => format!("no answer within {} ms", limit.as_millis()),
        _ => "cancelled".to_owned(),
    }
}

/// What went wrong: code, whether another try may help, a way out.
fn fault(end: &CallEnd) -> Option<(&'static str, bool, Option<String>)> {
    match end {
        CallEnd::Ok(_) => None,
        CallEnd::Failed(error) => {
            let by_kind = match error.kind {
                ToolErrorKind::InvalidArguments => "invalid_argument",
                ToolErrorKind::Timeout => "timeout",
                ToolErrorKind::Refused => "refused",
                _ => "failed",
            };
            Some((error.code.unwrap_or(by_kind), error.retryable, error.detail.clone()))
        }
        CallEnd::Panicked { .. } => Some(("panicked", false, None)),
        CallEnd::TimedOut { .. } => Some(("timeout", true, None)),
        _ => Some(("cancelled", true, None)),
    }
}

fn tell(context: &Context, tool: &Tool, run: &RunId, outcome: &CallOutcome) -> Result<Exit, Failure> {
    let Some((code, retryable, help)) = fault(&outcome.end) else {
        let CallEnd::Ok(answer) = &outcome.end else { return Ok(Exit::Ok) };
        match context.output {
            Output::Text => output::line(&answer.text())?,
            Output::Json => output::json(&json!({"ok": true, "result": answer.value(), "run": run}))?,
            Output::Jsonl => {}
        }
        return Ok(Exit::Ok);
    };
    let exit = match code {
        "timeout" => Exit::Limit,
        "cancelled" => Exit::Interrupted,
        "http_unreachable" => Exit::Unreachable,
        "missing_context" => Exit::Usage,
        "missing_secret" => Exit::Configuration,
        "invalid_argument" | "invalid_header_value" => Exit::Invalid,
        _ => Exit::Tool,
    };
    let message = message(&outcome.end);
    if context.output == Output::Json {
        let error = json!({"code": code, "message": message, "retryable": retryable});
        output::json(&json!({"ok": false, "error": error, "run": run}))?;
    }
    let failure = Failure::new(exit, code, format!("{}: {message}", tool.id()));
    match help {
        Some(help) => failure.with_help(help),
        None => failure,
    }
    .print(context.output);
    Ok(exit)
}
