//! Going on with runs: resume, fork, answer, cancel.

use std::collections::HashMap;

use agent_runtime::{ApprovalMode, approval_digest};
use agent_types::{AskKind, RunId};
use run_store::AskRecord;
use serde_json::{Map, Value, json};
use tokio_util::sync::CancellationToken;
use weft_project::{Project, Version, WorkflowResume};

use super::super::{Context, agent, block_on, session};
use super::{chosen, store};
use crate::arguments::{RunsAnswerArguments, RunsApproveArguments, RunsForkArguments, RunsResumeArguments};
use crate::failure::{Exit, Failure};
use crate::workflow_run::{self, Start};
use crate::{follow, output};

pub(super) fn resume(context: &Context, arguments: &RunsResumeArguments) -> Result<Exit, Failure> {
    let project = context.project(arguments.script.clone())?;
    let run = chosen(store(&project)?, &arguments.run)?;
    go_on_with(context, &project, &run, version(arguments.as_it_was))
}

/// Takes a run up again, whatever runs in it.
fn go_on_with(context: &Context, project: &Project, run: &RunId, version: Version) -> Result<Exit, Failure> {
    if !project.is_agent_run(run)? {
        let resume = project.resume_workflow(run, version)?;
        return go_on(context, project, resume, CancellationToken::new());
    }
    let start = project.resume_agent(run)?;
    project.skip_replies(&start);
    if start.plan.in_session {
        return session::go_on(context, project, start, CancellationToken::new());
    }
    let agent = agent::as_planned(project.agent(&start.plan.agent)?, &start.plan);
    agent::run_agent(context, project, &agent, start)
}

fn version(as_it_was: bool) -> Version {
    if as_it_was { Version::AsItWas } else { Version::Current }
}

fn go_on(
    context: &Context,
    project: &Project,
    resume: WorkflowResume,
    cancel: CancellationToken,
) -> Result<Exit, Failure> {
    let WorkflowResume { desk, log, id, plan, inputs, values } = resume;
    project.skip_replies_of(&log);
    let approval = ApprovalMode::default();
    let start =
        Start { project, id: &id, plan: &plan, inputs, values, approval, desk, resume: Some(log), cancel };
    let outcome = block_on(workflow_run::drive(context.output, start))??;
    workflow_run::tell(context.output, &outcome)
}

pub(super) fn fork(context: &Context, arguments: &RunsForkArguments) -> Result<Exit, Failure> {
    let project = context.project(arguments.script.clone())?;
    let of = chosen(store(&project)?, &arguments.run)?;
    let changes = arguments.set.iter().map(|text| change(text)).collect::<Result<HashMap<_, _>, _>>()?;
    if project.is_agent_run(&of)? {
        if !changes.is_empty() {
            return Err(Failure::usage("the run of an agent has no nodes whose values could be set"));
        }
        let start = project.fork_agent(&of, arguments.at)?;
        project.skip_replies(&start);
        note!("{}", start.desk.sink().run());
        let agent = agent::as_planned(project.agent(&start.plan.agent)?, &start.plan);
        return agent::run_agent(context, &project, &agent, start);
    }
    let resume = project.fork_workflow(&of, arguments.at, &changes, version(arguments.as_it_was))?;
    note!("{}", resume.desk.sink().run());
    go_on(context, &project, resume, CancellationToken::new())
}

/// `path=text` or `path:=json`.
fn change(text: &str) -> Result<(String, Value), Failure> {
    let bad = || {
        Failure::usage(format!("`--set {text}` is no change"))
            .with_help("write PATH=TEXT or PATH:=JSON, with the path of a node as `weft runs show` prints it")
    };
    let (path, value) = text.split_once('=').ok_or_else(bad)?;
    match path.strip_suffix(':') {
        Some(path) => Ok((path.to_owned(), serde_json::from_str(value).map_err(|_| bad())?)),
        None => Ok((path.to_owned(), value.into())),
    }
}

pub(super) fn answer(context: &Context, arguments: &RunsAnswerArguments) -> Result<Exit, Failure> {
    let project = context.project(arguments.script.clone())?;
    let store = store(&project)?;
    let run = chosen(store, &arguments.run)?;
    store.known(&run).map_err(|error| Failure::of_store(&error))?;
    let asks = store.asks(&run).map_err(|error| Failure::of_store(&error))?;
    let ask = question(&run, &asks, arguments.ask.as_deref())?;
    // What reads as JSON is JSON; anything else is a text.
    let value =
        serde_json::from_str(&arguments.value).unwrap_or_else(|_| Value::from(arguments.value.as_str()));
    let version = version(arguments.as_it_was);
    if !arguments.no_resume {
        project.check_going_on(&run, version)?;
    }
    store.answer(&run, &ask, &value).map_err(|error| Failure::of_store(&error))?;
    if arguments.no_resume {
        return Ok(Exit::Ok);
    }
    go_on_with(context, &project, &run, version)
}

pub(super) fn approve(context: &Context, arguments: &RunsApproveArguments) -> Result<Exit, Failure> {
    let project = context.project(arguments.script.clone())?;
    let store = store(&project)?;
    let run = chosen(store, &arguments.run)?;
    store.known(&run).map_err(|error| Failure::of_store(&error))?;
    let asks = store.asks(&run).map_err(|error| Failure::of_store(&error))?;
    let ask = question(&run, &asks, arguments.ask.as_deref())?;
    let summary = asks.iter().map(|own| &own.summary).find(|summary| *summary.ask == *ask);
    let summary = summary.filter(|summary| summary.kind == AskKind::Approval);
    let call = summary.and_then(|summary| summary.tool.as_ref().zip(summary.arguments.as_deref()));
    let Some((tool, own)) = call else {
        return Err(Failure::new(Exit::Usage, "no_approval", format!("`{ask}` is a question, not a call"))
            .with_help(format!("weft runs answer {run} VALUE")));
    };
    let mut word = json!({"approve": true, "digest": approval_digest(tool.as_str(), own)});
    if let Some(reason) = &arguments.deny {
        word = json!({"deny": reason});
    }
    if let Some(text) = &arguments.arguments {
        let changed: Map<String, Value> = serde_json::from_str(text).map_err(|error| {
            Failure::usage(format!("`--arguments`: {error}")).with_help("write a JSON object")
        })?;
        if let Some(faults) = project.check_changed(&run, tool.as_str(), &changed)? {
            return Err(Failure::new(Exit::Invalid, "invalid_argument", faults)
                .with_help(format!("the call waits as before; see `weft tool show {tool}`")));
        }
        word["arguments"] = Value::Object(changed);
    }
    if !arguments.no_resume {
        project.check_going_on(&run, Version::Current)?;
    }
    store.answer(&run, &ask, &word).map_err(|error| Failure::of_store(&error))?;
    if arguments.no_resume {
        return Ok(Exit::Ok);
    }
    go_on_with(context, &project, &run, Version::Current)
}

/// The question that is answered: the one that is named, or the only one.
fn question(run: &RunId, asks: &[AskRecord], named: Option<&str>) -> Result<String, Failure> {
    let open: Vec<&str> =
        asks.iter().filter(|ask| ask.answer.is_none()).map(|ask| &*ask.summary.ask).collect();
    match (named, open.as_slice()) {
        (Some(named), open) if open.contains(&named) => Ok(named.to_owned()),
        (Some(named), open) => {
            let near = agent_types::nearest(named, open.iter().copied());
            let help = near.map_or_else(
                || format!("open are: {}", open.join(", ")),
                |near| format!("did you mean `{near}`?"),
            );
            Err(Failure::new(
                Exit::Usage,
                "unknown_ask",
                format!("the run `{run}` has no open question `{named}`"),
            )
            .with_help(help))
        }
        (None, [only]) => Ok((*only).to_owned()),
        (None, []) => {
            Err(Failure::new(Exit::Usage, "unknown_ask", format!("the run `{run}` has no open question")))
        }
        (None, several) => {
            let message = format!("the run `{run}` has {} open questions", several.len());
            Err(Failure::new(Exit::Usage, "which_ask", message)
                .with_help(format!("name one with --ask: {}", several.join(", "))))
        }
    }
}

/// Ends a run: by a wish to the process that works on it, or here.
pub(super) fn cancel(context: &Context, run: &str) -> Result<Exit, Failure> {
    let project = context.project(None)?;
    let store = store(&project)?;
    let run = &chosen(store, run)?;
    let record = store.known(run).map_err(|error| Failure::of_store(&error))?;
    if record.state.phase.has_ended() {
        output::line(&format!("{run}: {}", record.state.phase.as_str()))?;
        return Ok(Exit::Ok);
    }
    if store.is_at_work(run) {
        store.put(&follow::cancel_key(run), Some(&true.into()));
        store.flush().map_err(|error| Failure::of_store(&error))?;
        note!("{run} is at work elsewhere and is asked to end");
        return Ok(Exit::Ok);
    }
    if end_by_going_on(context, &project, run).is_err() {
        // What it needs to go on is not there any more.
        project.end_cancelled(run)?;
        output::line(&format!("{run}: cancelled"))?;
    }
    Ok(Exit::Ok)
}

/// Takes a run up only to end it, so that all that has begun in it has its end.
fn end_by_going_on(context: &Context, project: &Project, run: &RunId) -> Result<(), Failure> {
    let cancel = CancellationToken::new();
    cancel.cancel();
    if project.is_agent_run(run)? {
        let start = project.resume_agent(run)?;
        if start.plan.in_session {
            session::go_on(context, project, start, cancel)?;
            return Ok(());
        }
        let agent = project.agent(&start.plan.agent)?.with_cancel(cancel);
        block_on(agent::drive(context.output, project, &agent, start))??;
        output::line(&format!("{run}: cancelled"))?;
        return Ok(());
    }
    let resume = project.resume_workflow(run, Version::AsItWas)?;
    go_on(context, project, resume, cancel)?;
    Ok(())
}
