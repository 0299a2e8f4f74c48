//! Messages of a session that answer the question of a flow.

use agent_types::{AskKind, RunId};
use executors_flow_system::{Author, Said, Triggered};
use run_store::{Store, StoreError};
use serde_json::Value;
use tokio_util::sync::CancellationToken;
use weft_project::Project;

use super::LocalRuns;
use super::cancel::end_cancelled;
use super::conversation::{all_waiting, extend};
use super::known::{known_run, message_key, replace};
use crate::error::RunsError;
use crate::handle::RunHandle;
use crate::request::{AgentRequest, SessionParty, ThreadName, Version};
use crate::service::RunService;

/// Beginning of the names of questions that flows ask.
const OF_FLOW: &str = "flow:";

/// Meaning of a message for the runs of its conversation that wait.
enum Meaning {
    /// Nothing: it is a message like any other.
    Other,
    /// It is the answer to this question.
    Answer(RunId, String),
    /// All questions are answered: the run only has to resume.
    Resume(RunId),
    /// It is for another party than the flow, which waits no more.
    Leaves(RunId),
}

/// Questions of flows that a run has put.
pub(super) enum Questions {
    /// It has put none, or others too.
    Other,
    /// This one is open.
    Open(String),
    Answered,
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
    match read_meaning(runs, request, &name).await? {
        Meaning::Other => Ok(None),
        Meaning::Resume(run) => resume_answered(runs, &run).await.map(|()| None),
        Meaning::Answer(..) | Meaning::Leaves(_) => match answer_in_turn(runs, request, &name, own).await {
            // Another message was faster: this one waits for its turn like any other.
            Err(error) if error.is_lost_race() => Ok(None),
            answered => answered,
        },
    }
}

async fn read_meaning(
    runs: &LocalRuns,
    request: &AgentRequest,
    name: &ThreadName,
) -> Result<Meaning, RunsError> {
    let (of, text) = (name.clone(), request.plan.message.clone());
    runs.with_project(move |project| meaning_of(project, &of, &text)).await
}

/// Resumes a run whose questions are all answered, unless it is resumed already, or has to wait.
async fn resume_answered(runs: &LocalRuns, run: &RunId) -> Result<(), RunsError> {
    if runs.over(run).is_some() {
        return Ok(());
    }
    match runs.resume(run, Version::Current).await {
        Err(error) if !error.is_lost_race() && !error.is_transient() => Err(error),
        Err(_) | Ok(_) => Ok(()),
    }
}

/// Answers the question with the right to resume its run at hand. A run that has just put the question is waited for.
async fn answer_in_turn(
    runs: &LocalRuns,
    request: &AgentRequest,
    name: &ThreadName,
    own: &RunId,
) -> Result<Option<RunHandle>, RunsError> {
    let admission = runs.admit()?;
    let hold = runs.take_thread(name).await?;
    // Where a user of the team has the session, the message is theirs.
    let (run, ask) = match read_meaning(runs, request, name).await? {
        Meaning::Answer(run, ask) if runs.session(&name.thread).await?.with == SessionParty::Agent => {
            (run, ask)
        }
        Meaning::Answer(run, _) | Meaning::Leaves(run) => {
            runs.with_project(move |project| end_cancelled(project, &run)).await?;
            return Ok(None);
        }
        Meaning::Other | Meaning::Resume(_) => return Ok(None),
    };
    record(runs, request, (&run, own), ask).await?;
    let held = (admission, Some(hold));
    match runs.resume_held((run.clone(), Version::Current), held, CancellationToken::new()).await {
        // The answer is recorded: whoever was faster resumes the run with it, or the next check does.
        Err(error) if error.is_lost_race() || error.is_transient() => known_run(runs, run).map(Some),
        resumed => resumed.map(Some),
    }
}

/// Records the answer to a question of `run`, and that the message has this run, not the one that was to be `own`.
async fn record(
    runs: &LocalRuns,
    request: &AgentRequest,
    (run, own): (&RunId, &RunId),
    ask: String,
) -> Result<(), RunsError> {
    let text = request.plan.message.clone();
    let name = ThreadName::new(&request.plan.agent, request.thread.clone().unwrap_or_default());
    let said = Said::new(Author::User, runs.0.clock.now()).text(text.clone()).of_run(run);
    let (key, run, own) = (message_key(request), run.clone(), own.clone());
    runs.with_project(move |project| {
        let store = project.required_store(&run)?;
        let note = |from: &RunId, to: &RunId| match &key {
            Some(key) => replace(store, key, from.as_str().into(), to.as_str().into()).map(drop),
            None => Ok(()),
        };
        // The message has its run before the answer counts, so that it cannot come again as another message.
        note(&own, &run)?;
        if let Err(error) = store.answer(&run, &ask, &Value::from(text)) {
            note(&run, &own)?;
            return Err(error.into());
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
    let mut meaning = Meaning::Other;
    for run in all_waiting(project, name)? {
        match questions_of(project.required_store(&run)?, &run)? {
            Questions::Other => {}
            Questions::Answered => meaning = Meaning::Resume(run),
            Questions::Open(ask) => {
                // Who asks for a user of the team has not answered.
                let is_action = project
                    .flows()?
                    .is_some_and(|flows| matches!(flows.matched(text), Triggered::Action { .. }));
                return Ok(if is_action { Meaning::Leaves(run) } else { Meaning::Answer(run, ask) });
            }
        }
    }
    Ok(meaning)
}

/// The questions of flows that a run has put.
pub(super) fn questions_of(store: &Store, run: &RunId) -> Result<Questions, StoreError> {
    let asks = store.asks(run)?;
    if asks.is_empty() || asks.iter().any(|record| !record.summary.ask.starts_with(OF_FLOW)) {
        return Ok(Questions::Other);
    }
    let mut open = asks.into_iter().filter(|record| record.answer.is_none()).map(|record| record.summary);
    Ok(match open.find(|ask| ask.kind == AskKind::Question) {
        Some(ask) => Questions::Open(ask.ask.to_string()),
        None => Questions::Answered,
    })
}
