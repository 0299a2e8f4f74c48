//! `weft runs`: list, show, watch, replay, resume, fork, answer, cancel, export, rm.

mod go;
mod look;
mod remove;

use agent_types::RunId;
use run_store::{RunPhase, RunRecord, Store};
use weft_project::Project;

use super::Context;
use crate::arguments::RunsCommand;
use crate::failure::{Exit, Failure};

pub(super) fn run(context: &Context, command: RunsCommand) -> Result<Exit, Failure> {
    match command {
        RunsCommand::List(filter) => look::list(context, &filter),
        RunsCommand::Show { run, log } => look::show(context, &RunId::new(run), log),
        RunsCommand::Watch { run, after } => look::watch(context, &RunId::new(run), after),
        RunsCommand::Replay { run } => look::replay(context, &RunId::new(run)),
        RunsCommand::Export { run } => look::export(context, &RunId::new(run)),
        RunsCommand::Resume(arguments) => go::resume(context, &arguments),
        RunsCommand::Fork(arguments) => go::fork(context, &arguments),
        RunsCommand::Answer(arguments) => go::answer(context, &arguments),
        RunsCommand::Cancel { run } => go::cancel(context, &RunId::new(run)),
        RunsCommand::Rm(arguments) => remove::remove(context, &arguments),
    }
}

/// The store of the project.
fn store(project: &Project) -> Result<&Store, Failure> {
    let none = || Failure::new(Exit::Configuration, "no_store", "this project keeps no runs");
    project.store().map_err(|error| Failure::of_store(&error))?.ok_or_else(none)
}

/// How a run stands, as people say it: one that nobody works on and that has no end was interrupted.
fn word(store: &Store, record: &RunRecord) -> &'static str {
    match record.state.phase {
        RunPhase::Running if !store.is_at_work(&record.new.run) => "interrupted",
        phase => phase.as_str(),
    }
}
