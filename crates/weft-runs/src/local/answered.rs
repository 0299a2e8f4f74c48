//! Messages of a session that answer the question of a flow.

use agent_types::{AskKind, AskSummary, RunId};
use executors_flow_system::{Author, Said, Triggered};
use run_store::StoreError;
use serde_json::Value;
use weft_project::Project;

use super::LocalRuns;
use super::cancel::end_cancelled;
use super::conversation::{extend, waiting};
use super::known::{message_key, replace};
use crate::error::RunsError;
use crate::handle::RunHandle;
use crate::request::{AgentRequest, SessionParty, ThreadName, Version};
use crate::service::RunService;

/// Beginning of the names of questions that flows ask.
const OF_FLOW: &str = "flow:";

/// Meaning of a message for the run of its conversation that waits.
enum Meaning {
    /// Nothing: it is a message like any other.
    Other,
    /// It is the answer to this question.
    Answer(RunId, AskSummary),
    /// All questions are answered: the run only has to resume.
    Resume(RunId),
    /// It is for another party than the flow, which waits no more.
    Leaves(RunId),
}

/// Answers the question of a flow that waits in the conversation of a message, and resumes its run; `None` where the
/// message is one like any other.
pub(super) async fn answer_flow(
    runs: &LocalRuns,
    request: &AgentRequest,
    own: &RunId,
) -> Result<Option<RunHandle>, RunsError> {
    let Some(thread) = request.thread.as_deref().filter(|_| is_plain(request)) else { return Ok(None) };
    let name = ThreadName::new(&request.plan.agent, thread);
    let (of, text) = (name.clone(), request.plan.message.clone());
    let meaning = runs.with_project(move |project| meaning_of(project, &of, &text)).await?;
    // Where a person has the session, the message is theirs.
    let is_theirs =
        matches!(meaning, Meaning::Answer(..)) && runs.session(thread).await?.with != SessionParty::Agent;
    match meaning {
        Meaning::Other => Ok(None),
        Meaning::Answer(run, ask) if !is_theirs => {
            record(runs, request, (&run, own), ask).await?;
            runs.resume(&run, Version::Current).await.map(Some)
        }
        Meaning::Answer(run, _) | Meaning::Leaves(run) => {
            runs.with_project(move |project| end_cancelled(project, &run)).await?;
            Ok(None)
        }
        Meaning::Resume(run) => {
            runs.resume(&run, Version::Current).await?;
            Ok(None)
        }
    }
}

/// Records the answer to a question of `run`, and that the message has this run, not the one that was to be `own`.
async fn record(
    runs: &LocalRuns,
    request: &AgentRequest,
    (run, own): (&RunId, &RunId),
    ask: AskSummary,
) -> Result<(), RunsError> {
    // A run that has just put the question is waited for.
    while let Some(over) = runs.over(run) {
        if !runs.nearly_over(&over).await {
            return Err(StoreError::RunBusy { run: run.to_string() }.into());
        }
    }
    let text = request.plan.message.clone();
    let name = ThreadName::new(&request.plan.agent, request.thread.clone().unwrap_or_default());
    let said = Said::new(Author::User, runs.0.clock.now()).text(text.clone()).of_run(run);
    let (key, run, own) = (message_key(request), run.clone(), own.clone());
    runs.with_project(move |project| {
        let store = project.required_store(&run)?;
        store.answer(&run, &ask.ask, &Value::from(text))?;
        if let Some(key) = key {
            replace(store, &key, own.as_str().into(), run.as_str().into())?;
        }
        extend(project, &name, &[said.into()])
    })
    .await
}

/// Returns `true` for words of a user.
const fn is_plain(request: &AgentRequest) -> bool {
    request.plan.target.is_none() && request.plan.event.is_none()
}

fn meaning_of(project: &Project, name: &ThreadName, text: &str) -> Result<Meaning, RunsError> {
    let Some(run) = waiting(project, name)? else { return Ok(Meaning::Other) };
    let store = project.required_store(&run)?;
    let asks = store.asks(&run)?;
    if asks.is_empty() || asks.iter().any(|record| !record.summary.ask.starts_with(OF_FLOW)) {
        return Ok(Meaning::Other);
    }
    let open = asks.into_iter().find(|record| record.answer.is_none()).map(|record| record.summary);
    let Some(ask) = open.filter(|ask| ask.kind == AskKind::Question) else { return Ok(Meaning::Resume(run)) };
    // Who asks for a person has not answered.
    let is_action =
        project.flows()?.is_some_and(|flows| matches!(flows.matched(text), Triggered::Action { .. }));
    Ok(if is_action { Meaning::Leaves(run) } else { Meaning::Answer(run, ask) })
}
