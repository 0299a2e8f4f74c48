//! Continuing runs: resume, retry, fork, answer, approve, cancel.

use std::collections::HashMap;

use agent_types::RunId;
use weft_runs::{
    Answer, AnswerRequest, Cancelled, ForkRequest, LocalRuns, NodeValue, RunService, Then, Version,
};

use super::super::agent::fixed;
use super::super::{Context, block_on};
use super::{chosen, chosen_to_act, store};
use crate::arguments::{
    RunsAnswerArguments, RunsApproveArguments, RunsForkArguments, RunsResumeArguments, RunsRetryArguments,
};
use crate::failure::{Exit, Failure};
use crate::{follow, inputs, outcome, output};

/// The runs of the project, and the one that a command continues or ends.
fn open(
    context: &Context,
    run: &str,
    script: Option<std::path::PathBuf>,
) -> Result<(LocalRuns, RunId), Failure> {
    let project = context.project(script)?;
    let run = chosen_to_act(store(&project)?, run)?;
    Ok((fixed(project), run))
}

pub(super) fn resume(context: &Context, arguments: &RunsResumeArguments) -> Result<Exit, Failure> {
    let (runs, run) = open(context, &arguments.run, arguments.script.clone())?;
    let version = version(arguments.as_it_was);
    let ended = block_on(async {
        let run = runs.resume(&run, version).await?;
        follow::to_the_end(context.output, &runs, run).await
    })??;
    outcome::print(context.output, &ended)
}

pub(super) fn retry(context: &Context, arguments: &RunsRetryArguments) -> Result<Exit, Failure> {
    let (runs, run) = open(context, &arguments.run, arguments.script.clone())?;
    let ended = block_on(async {
        let run = runs.retry(&run).await?;
        note!("{}", run.id);
        follow::to_the_end(context.output, &runs, run).await
    })??;
    outcome::print(context.output, &ended)
}

fn version(as_it_was: bool) -> Version {
    if as_it_was { Version::AsItWas } else { Version::Current }
}

pub(super) fn fork(context: &Context, arguments: &RunsForkArguments) -> Result<Exit, Failure> {
    let project = context.project(arguments.script.clone())?;
    let of = chosen(store(&project)?, &arguments.run)?;
    let runs = fixed(project);
    let changes: HashMap<String, NodeValue> =
        arguments.set.iter().map(|text| inputs::change(text)).collect::<Result<_, _>>()?;
    let request = ForkRequest { of, at: arguments.at, changes, version: version(arguments.as_it_was) };
    let ended = block_on(async {
        let run = runs.fork(request).await?;
        note!("{}", run.id);
        follow::to_the_end(context.output, &runs, run).await
    })??;
    outcome::print(context.output, &ended)
}

pub(super) fn answer(context: &Context, arguments: &RunsAnswerArguments) -> Result<Exit, Failure> {
    let (runs, run) = open(context, &arguments.run, arguments.script.clone())?;
    let request = AnswerRequest {
        run,
        ask: arguments.ask.clone(),
        answer: Answer::written(&arguments.value),
        version: version(arguments.as_it_was),
        then: then(arguments.no_resume),
    };
    send(context, &runs, request)
}

pub(super) fn approve(context: &Context, arguments: &RunsApproveArguments) -> Result<Exit, Failure> {
    let (runs, run) = open(context, &arguments.run, arguments.script.clone())?;
    let changed = arguments.arguments.as_deref().map(|text| {
        agent_types::read_json(text.as_bytes()).map_err(|error| {
            Failure::usage(format!("`--arguments`: {error}")).with_help("write a JSON object")
        })
    });
    let answer = match &arguments.deny {
        Some(reason) => Answer::Deny { reason: reason.clone() },
        None => Answer::Approve { arguments: changed.transpose()? },
    };
    let request = AnswerRequest {
        run,
        ask: arguments.ask.clone(),
        answer,
        version: Version::Current,
        then: then(arguments.no_resume),
    };
    send(context, &runs, request)
}

fn then(no_resume: bool) -> Then {
    if no_resume { Then::Stay } else { Then::Resume }
}

fn send(context: &Context, runs: &LocalRuns, request: AnswerRequest) -> Result<Exit, Failure> {
    let ended = block_on(async {
        match runs.answer(request).await? {
            Some(run) => follow::to_the_end(context.output, runs, run).await.map(Some),
            None => Ok(None),
        }
    })??;
    ended.map_or(Ok(Exit::Ok), |ended| outcome::print(context.output, &ended))
}

/// Ends a run: by a request to the process that executes it, or here.
pub(super) fn cancel(context: &Context, run: &str) -> Result<Exit, Failure> {
    let (runs, run) = open(context, run, None)?;
    block_on(async {
        match runs.cancel(&run).await? {
            Cancelled::HadEnded(status) => output::line(&format!("{run}: {status}"))?,
            Cancelled::Asked => note!("{run} executes elsewhere and is asked to end"),
            Cancelled::Ending(handle) => {
                follow::drive(context.output, &runs, handle).await?;
                output::line(&format!("{run}: cancelled"))?;
            }
            Cancelled::Ended => output::line(&format!("{run}: cancelled"))?,
        }
        Ok(Exit::Ok)
    })?
}
