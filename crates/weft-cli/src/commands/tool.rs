//! `weft tool`: list, show, check, call.

use agent_types::{EventBody, RunId};
use serde_json::json;
use tokio_util::sync::CancellationToken;
use tool_registry::{BrokenTool, CallEnd, CallOutcome, Reach, Services, Tool, ToolErrorKind};
use tool_schema::{CompiledSchema, Typed};
use weft_project::{Project, ProjectError};
use weft_runs::{CallHandle, CallRequest, LocalRuns, RunService};

use super::agent::fixed;
use super::{Context, block_on, warn_of_secrets};
use crate::arguments::{ContextArguments, InputArguments, Output, ToolCommand, ToolScope};
use crate::failure::{Exit, Failure, shown};
use crate::timeline::Timeline;
use crate::{inputs, interrupt, output};

pub(super) fn run(context: &Context, command: ToolCommand) -> Result<Exit, Failure> {
    let project = context.project(None)?;
    match command {
        ToolCommand::List(scope) => list(context, &project, &scope),
        ToolCommand::Show { id, scope } => show(context, &find(&project, &id, &scope)?),
        ToolCommand::Check { id: Some(id), scope, inputs } => {
            let tool = find(&project, &id, &scope)?;
            let file = project.providers().place(&id).map(|place| place.path);
            warn_of_secrets(context, &project, |path| file.as_deref() == Some(path));
            check(context, &tool, &inputs)
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
    let canonical = project.canonical_id(id);
    let Some(agent) = &scope.agent else { return Ok(project.tool(&canonical)?) };
    let tools = project.tools_of(project.agent_file(agent)?)?;
    tools.get(id).or_else(|| tools.get(&canonical)).cloned().ok_or_else(|| {
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

/// Services of a tool that is called from the command line.
fn services(project: &Project, tool: &Tool, scope: &ToolScope) -> Result<Services, Failure> {
    let mut agents = project.agents();
    let agent = match (&scope.agent, agents.next(), agents.next()) {
        (Some(agent), ..) => Some(project.agent_file(agent)?),
        // What the only agent keeps is meant when none is named.
        (None, only, None) => only,
        (None, ..) => None,
    };
    let services = project.tool_services(agent)?;
    project.providers().check_reach(tool, &services).map_err(ProjectError::from)?;
    Ok(services)
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
            Failure::of_problems(&typed.problems).print(Output::Text);
        }
    } else {
        output::json(
            &json!({"ok": ok, "arguments": typed.arguments, "coercions": typed.coercions, "problems": typed.problems}),
        )?;
    }
    Ok(if ok { Exit::Ok } else { Exit::Invalid })
}

/// All tool files, or the tools of an agent.
fn check_files(context: &Context, project: &Project, scope: &ToolScope) -> Result<Exit, Failure> {
    let ids: Vec<String> = match &scope.agent {
        Some(agent) => {
            project.tools_of(project.agent_file(agent)?)?.tools().map(|tool| tool.id().to_string()).collect()
        }
        None => project.providers().in_files(),
    };
    let broken: Vec<BrokenTool> = match &scope.agent {
        Some(_) => Vec::new(),
        None => project.providers().list(Reach::Local).into_iter().filter_map(Result::err).collect(),
    };
    let files = project.providers().files();
    warn_of_secrets(context, project, |path| files.contains(path));
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
        let failure = Failure::of_problems(&typed.problems);
        if context.output == Output::Json {
            let error = json!({"code": failure.code, "message": failure.message, "retryable": true});
            output::json(&json!({"ok": false, "error": error, "problems": typed.problems, "run": null}))?;
        }
        failure.print(context.output);
        return Ok(failure.exit);
    }
    let values = inputs::context(values)?;
    let request = CallRequest {
        tool: tool.clone(),
        arguments: typed.arguments,
        services,
        values,
        given_up: CancellationToken::new(),
    };
    let runs = fixed(project.clone());
    let (run, called) = block_on(follow_call(context.output, &runs, request))??;
    print_call(context, tool, &run, &called)
}

/// Follows a single call to its outcome.
async fn follow_call(
    form: Output,
    runs: &LocalRuns,
    request: CallRequest,
) -> Result<(RunId, CallOutcome), Failure> {
    let CallHandle { id, mut events, outcome, .. } = runs.call(request).await?;
    let printing = async {
        let mut timeline = Timeline::new();
        while let Some(group) = events.next().await? {
            for event in &group {
                match form {
                    // How the call itself ended is printed below.
                    Output::Text if ends_call(&event.body) => {}
                    Output::Text => timeline.show(event),
                    Output::Jsonl => output::json(event)?,
                    Output::Json => {}
                }
            }
        }
        Ok::<(), Failure>(())
    };
    let cancel = async || drop(runs.cancel(&id).await);
    let (printed, outcome) = interrupt::run(async { futures::join!(printing, outcome) }, cancel).await;
    printed?;
    Ok((id, outcome?))
}

fn ends_call(body: &EventBody) -> bool {
    matches!(
        body,
        EventBody::AgentToolFinished { .. } | EventBody::RunFinished { .. } | EventBody::RunStarted { .. }
    )
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

/// Fault of a call: its code, `true` where a retry may help, and the fix.
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

fn print_call(context: &Context, tool: &Tool, run: &RunId, outcome: &CallOutcome) -> Result<Exit, Failure> {
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
        "missing_secret" | "secret_not_allowed" => Exit::Configuration,
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
