//! `weft runs`: list, show, watch, replay, resume, retry, fork, answer, cancel, export, rm.

mod passes;
mod remove;
mod request;
mod resume;
mod show;

use agent_types::RunId;
use run_store::{RunFilter, RunPhase, RunRecord, Store};
use weft_project::Project;

use super::Context;
use crate::arguments::RunsCommand;
use crate::failure::{Exit, Failure};

/// The word for the newest run.
const LAST: &str = "last";

/// Waiting runs that a message names at most.
const LISTED: usize = 10;

pub(super) fn run(context: &Context, command: RunsCommand) -> Result<Exit, Failure> {
    match command {
        RunsCommand::List(filter) => show::list(context, &filter),
        RunsCommand::Show { run, request: Some(turn), place, .. } => {
            request::show(context, &run, turn, place)
        }
        RunsCommand::Show { run, log, .. } => show::show(context, &run, log),
        RunsCommand::Watch { run, after } => show::watch(context, &run, after),
        RunsCommand::Replay { run } => show::replay(context, &run),
        RunsCommand::Export { run } => show::export(context, &run),
        RunsCommand::Resume(arguments) => resume::resume(context, &arguments),
        RunsCommand::Retry(arguments) => resume::retry(context, &arguments),
        RunsCommand::Fork(arguments) => resume::fork(context, &arguments),
        RunsCommand::Answer(arguments) => resume::answer(context, &arguments),
        RunsCommand::Approve(arguments) => resume::approve(context, &arguments),
        RunsCommand::Cancel { run } => resume::cancel(context, &run),
        RunsCommand::Rm(arguments) => remove::remove(context, &arguments),
    }
}

/// The run of an id; `last` is the one that the store took last, whatever clocks say. It is named on stderr.
pub(super) fn chosen(store: &Store, text: &str) -> Result<RunId, Failure> {
    if text != LAST {
        return Ok(RunId::new(text));
    }
    let newest = RunFilter { limit: Some(1), ..RunFilter::default() };
    let newest = store.runs(&newest).map_err(|error| Failure::of_store(&error))?;
    let none = || Failure::new(Exit::Usage, "unknown_run", "the project has no run yet");
    let newest = newest.into_iter().next().ok_or_else(none)?;
    note!("last is {}", described(store, &newest));
    Ok(newest.new.run)
}

/// The run of an id that a command continues or ends; `last` does not choose among runs that wait.
pub(super) fn chosen_to_act(store: &Store, text: &str) -> Result<RunId, Failure> {
    let waiting = RunFilter { phase: Some(RunPhase::Waiting), limit: Some(LISTED), ..RunFilter::default() };
    if text == LAST {
        let waiting = store.runs(&waiting).map_err(|error| Failure::of_store(&error))?;
        if waiting.len() > 1 {
            let names: Vec<String> = waiting.iter().map(|record| described(store, record)).collect();
            let failure = Failure::new(Exit::Usage, "which_run", "`last` is ambiguous: several runs wait");
            return Err(failure.with_help(format!("name one of them: {}", names.join(", "))));
        }
    }
    chosen(store, text)
}

/// Name, subject and state of a run.
fn described(store: &Store, record: &RunRecord) -> String {
    let of = record.new.agent.as_ref().or(record.new.workflow.as_ref()).map_or("a call", String::as_str);
    format!("{} ({of}, {})", record.new.run, word(store, record))
}

/// The store of the project.
pub(super) fn store(project: &Project) -> Result<&Store, Failure> {
    let none = || Failure::new(Exit::Configuration, "no_store", "this project keeps no runs");
    project.store().map_err(|error| Failure::of_store(&error))?.ok_or_else(none)
}

/// State of a run as it is printed: a run that has not ended and that no process executes was interrupted.
fn word(store: &Store, record: &RunRecord) -> &'static str {
    match record.state.phase {
        RunPhase::Running if store.is_interrupted(&record.new.run).unwrap_or(false) => "interrupted",
        phase => phase.as_str(),
    }
}
