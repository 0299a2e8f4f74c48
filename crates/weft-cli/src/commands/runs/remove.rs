//! Removing runs that are not needed any more.

use agent_types::{RunId, Timestamp};
use run_store::RunFilter;

use super::super::Context;
use super::{chosen, store};
use crate::arguments::{Output, RunsRmArguments};
use crate::failure::{Exit, Failure};
use crate::output;

const DAY_MS: i64 = 24 * 60 * 60 * 1000;

pub(super) fn remove(context: &Context, arguments: &RunsRmArguments) -> Result<Exit, Failure> {
    let project = context.project(None)?;
    let store = store(&project)?;
    let of_store = |error| Failure::of_store(&error);
    let named = arguments.runs.iter().map(|run| chosen(store, run));
    let mut gone: Vec<RunId> = named.collect::<Result<_, _>>()?;
    for run in &gone {
        let phase = store.known(run).map_err(of_store)?.state.phase;
        if !phase.has_ended() {
            let message = format!("the run `{run}` has not ended: {}", phase.as_str());
            return Err(Failure::new(Exit::Usage, "run_not_ended", message)
                .with_help(format!("weft runs cancel {run}")));
        }
    }
    if arguments.older_than.is_some() || arguments.keep.is_some() {
        let before = arguments.older_than.map(|days| {
            let kept = i64::from(days) * DAY_MS;
            Timestamp::from_millis(project.clock().now().as_millis().saturating_sub(kept))
        });
        let filter = RunFilter { before, ..RunFilter::default() };
        let ended = store.runs(&filter).map_err(of_store)?;
        let ended = ended.iter().filter(|record| record.state.phase.has_ended());
        gone.extend(ended.skip(arguments.keep.unwrap_or(0)).map(|record| record.new.run.clone()));
    }
    if gone.is_empty()
        && arguments.runs.is_empty()
        && arguments.older_than.is_none()
        && arguments.keep.is_none()
    {
        return Err(Failure::usage("nothing to remove is named")
            .with_help("name runs, or use --older-than DAYS or --keep N"));
    }
    for run in &gone {
        store.remove(run).map_err(of_store)?;
        match context.output {
            Output::Text => output::line(run.as_str())?,
            Output::Jsonl => output::json(run)?,
            Output::Json => {}
        }
    }
    if context.output == Output::Json {
        output::json(&gone)?;
    }
    Ok(Exit::Ok)
}
