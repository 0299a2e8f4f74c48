//! Going on with runs: resume, fork, answer, cancel.

use std::collections::HashMap;

use agent_types::{EventBody, RunId};
use run_store::AskRecord;
use serde_json::Value;
use tokio_util::sync::CancellationToken;
use weft_project::{Project, Version, WorkflowResume};
use workflow_engine::Plan;
use workflow_model::World;

use super::super::{Context, block_on};
use super::store;
use crate::arguments::{RunsAnswerArguments, RunsForkArguments, RunsResumeArguments};
use crate::failure::{Exit, Failure};
use crate::workflow_run::{self, Start};
use crate::{follow, output};

pub(super) fn resume(context: &Context, arguments: &RunsResumeArguments) -> Result<Exit, Failure> {
    let project = context.project(arguments.script.clone())?;
    let run = RunId::new(arguments.run.as_str());
    let resume = project.resume_workflow(&run, version(arguments.as_it_was))?;
    go_on(context, &project, resume, CancellationToken::new())
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
    let WorkflowResume { desk, log, id, workflow, inputs, values } = resume;
    let world = World::new(&**project.catalog(), &**project.workflows()).with_own_id(Some(&id));
    let plan = Plan::in_world(&workflow, project.catalog(), &world)
        .map_err(|error| Failure::new(Exit::Invalid, "invalid", error.to_string()))?;
    let start = Start { project, id: &id, plan: &plan, inputs, values, desk, resume: Some(log), cancel };
    let outcome = block_on(workflow_run::drive(context.output, start))??;
    workflow_run::tell(context.output, &outcome)
}

pub(super) fn fork(context: &Context, arguments: &RunsForkArguments) -> Result<Exit, Failure> {
    let project = context.project(arguments.script.clone())?;
    let of = RunId::new(arguments.run.as_str());
    let at = match arguments.at {
        Some(at) => at,
        None => last_before_the_end(&project, &of)?,
    };
    let changes = arguments.set.iter().map(|text| change(text)).collect::<Result<HashMap<_, _>, _>>()?;
    let resume = project.fork_workflow(&of, at, &changes, version(arguments.as_it_was))?;
    note!("{}", resume.desk.sink().run());
    go_on(context, &project, resume, CancellationToken::new())
}

/// The last event of a run that is not its end.
fn last_before_the_end(project: &Project, run: &RunId) -> Result<u64, Failure> {
    let events = store(project)?.events(run, 0, usize::MAX).map_err(|error| Failure::of_store(&error))?;
    let last = events.iter().rev().find(|kept| !matches!(kept.event.body, EventBody::RunFinished { .. }));
    let none = || Failure::usage(format!("the run `{run}` has no events"));
    last.map(|kept| kept.event.seq).ok_or_else(none)
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
    let run = RunId::new(arguments.run.as_str());
    let store = store(&project)?;
    store.known(&run).map_err(|error| Failure::of_store(&error))?;
    let asks = store.asks(&run).map_err(|error| Failure::of_store(&error))?;
    let ask = chosen(&run, &asks, arguments.ask.as_deref())?;
    // What reads as JSON is JSON; anything else is a text.
    let value =
        serde_json::from_str(&arguments.value).unwrap_or_else(|_| Value::from(arguments.value.as_str()));
    store.answer(&run, &ask, &value).map_err(|error| Failure::of_store(&error))?;
    if arguments.no_resume {
        return Ok(Exit::Ok);
    }
    let resume = project.resume_workflow(&run, version(arguments.as_it_was))?;
    go_on(context, &project, resume, CancellationToken::new())
}

/// The question that is answered: the one that is named, or the only one.
fn chosen(run: &RunId, asks: &[AskRecord], named: Option<&str>) -> Result<String, Failure> {
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
pub(super) fn cancel(context: &Context, run: &RunId) -> Result<Exit, Failure> {
    let project = context.project(None)?;
    let store = store(&project)?;
    let record = store.known(run).map_err(|error| Failure::of_store(&error))?;
    if record.state.phase.has_ended() {
        output::line(&format!("{run}: {}", record.state.phase.as_str()))?;
        return Ok(Exit::Ok);
    }
    if store.is_at_work(run) {
        store.put(&follow::wish_to_end(run), Some(&true.into()));
        store.flush().map_err(|error| Failure::of_store(&error))?;
        note!("{run} is at work elsewhere and is asked to end");
        return Ok(Exit::Ok);
    }
    let resume = project.resume_workflow(run, Version::AsItWas)?;
    let cancel = CancellationToken::new();
    cancel.cancel();
    go_on(context, &project, resume, cancel)?;
    Ok(Exit::Ok)
}
