//! Following a run: its events are printed as they come, and Ctrl-C ends it.

use agent_types::EventBody;
use futures::poll;
use llm_provider::ModelInfo;
use serde_json::json;
use weft_runs::{LocalRuns, RunEvents, RunHandle, RunOutcome, RunService};

use crate::arguments::Output;
use crate::failure::Failure;
use crate::timeline::Timeline;
use crate::{interrupt, output};

/// Follows a run to its outcome. A reader of stdout that goes away ends the run.
pub(crate) async fn drive(form: Output, runs: &LocalRuns, run: RunHandle) -> Result<RunOutcome, Failure> {
    let RunHandle { id, mut events, outcome, .. } = run;
    let cancel = async || {
        if let Err(error) = runs.cancel(&id).await {
            note!("{id} could not be cancelled: {error}");
        }
    };
    let following = async {
        let printed = print(form, runs.is_scripted(), &mut events, &cancel).await;
        let outcome = outcome.await;
        printed?;
        Ok(outcome?)
    };
    interrupt::run(following, &cancel).await
}

/// The same, and on through the waits for work that its calls have begun.
pub(crate) async fn to_the_end(
    form: Output,
    runs: &LocalRuns,
    run: RunHandle,
) -> Result<RunOutcome, Failure> {
    let mut outcome = drive(form, runs, run).await?;
    while let Some(next) = continued(runs, &outcome).await? {
        outcome = drive(form, runs, next).await?;
    }
    Ok(outcome)
}

/// Waits for pending work of a run that this process executes.
async fn continued(runs: &LocalRuns, outcome: &RunOutcome) -> Result<Option<RunHandle>, Failure> {
    let mut next = runs.continued(outcome.run());
    if let std::task::Poll::Ready(next) = poll!(next.as_mut()) {
        return Ok(next?);
    }
    let tasks: Vec<&str> = outcome.pending().iter().map(agent_runtime::PendingCall::task).collect();
    note!("waiting for {}; Ctrl-C to stop", tasks.join(", "));
    tokio::select! {
        next = next => Ok(next?),
        () = interrupt::interrupted() => Ok(None),
    }
}

async fn print(
    form: Output,
    is_scripted: bool,
    events: &mut RunEvents,
    cancel: &impl AsyncFn(),
) -> Result<(), Failure> {
    let mut timeline = Timeline::new();
    let (mut asked, mut is_noted) = (false, false);
    while let Some(group) = events.next().await? {
        for event in &group {
            let plays = match &event.body {
                EventBody::AgentTurnStarted {} => is_scripted,
                EventBody::AgentLlmStarted { model, .. } => model == ModelInfo::SCRIPTED,
                _ => false,
            };
            if plays && !std::mem::replace(&mut is_noted, true) {
                note_script(form);
            }
            match form {
                Output::Text => timeline.show(event),
                Output::Jsonl => output::json(event)?,
                Output::Json => {}
            }
        }
        if output::is_closed() && !std::mem::replace(&mut asked, true) {
            cancel().await;
        }
    }
    Ok(())
}

/// Says that the replies come from a script.
pub(crate) fn note_script(form: Output) {
    let message = "a script plays the model's part: the replies are written down beforehand";
    let help = "docs/guide/models.md shows how to set a model";
    match form {
        Output::Text => note!("note: {message}; {help}"),
        Output::Json | Output::Jsonl => {
            note!("{}", json!({"note": {"code": "script", "message": message, "help": help}}));
        }
    }
}
