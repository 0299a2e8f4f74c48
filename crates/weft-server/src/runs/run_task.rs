//! Runs that are known: answering them, going on with them, ending them.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use agent_runtime::{ApprovalMode, approval_digest};
use agent_types::{AskKind, AskSummary, RunId};
use http::StatusCode;
use run_store::StoreError;
use serde_json::{Map, Value, json};
use tokio_util::sync::CancellationToken;
use weft_project::{Project, Version, WorkflowResume, cancel_key};

use super::begin::{WorkflowWork, agent_work, kept, session_work, with_live_tools};
use super::threads::take_thread;
use super::{Begun, Prepared, ThreadHold, admit, launch, nearly_over};
use crate::app::App;
use crate::problem::Problem;

/// How often it is looked whether somebody elsewhere wants a run to end.
const LOOK: Duration = Duration::from_millis(500);

/// What a person says to an open question.
#[derive(Debug, Clone)]
pub(crate) enum Answer {
    /// A value.
    Value(Value),
    /// The call may run, perhaps with other arguments.
    Approve(Option<Map<String, Value>>),
    /// It may not, for a reason.
    Deny(String),
}

/// Takes a run up again.
pub(crate) async fn resume(app: &Arc<App>, run: RunId, version: Version) -> Result<Begun, Problem> {
    go_on(app, run, version, CancellationToken::new()).await
}

async fn go_on(
    app: &Arc<App>,
    run: RunId,
    version: Version,
    cancel: CancellationToken,
) -> Result<Begun, Problem> {
    let admission = admit(app)?;
    let hold = take_thread_of(app, &run, &cancel).await?;
    let owner = Arc::clone(app);
    let prepared = app
        .with_project(move |project| {
            let project = project.for_one_run()?;
            if project.is_agent_run(&run)? {
                let start = project.resume_agent(&run)?;
                project.skip_replies(&start);
                project.skip_conversation(&start);
                if start.plan.in_session {
                    let orchestrator = owner.sessions.of(&project, ApprovalMode::Ask)?;
                    return Ok(session_work(orchestrator, start, hold, owner.runs.tasks.of(&run), cancel));
                }
                let agent = with_live_tools(&owner, &project, project.agent(&start.plan.agent)?)?;
                let agent = start.plan.prepared(agent).with(owner.runs.tasks.of(&run));
                return agent_work(project, agent, start, hold, cancel);
            }
            let resume = project.resume_workflow(&run, version)?;
            Ok(workflow_work(&project, resume, cancel))
        })
        .await?;
    Ok(launch(app, admission, prepared))
}

/// Takes the conversation of a run that is to go on. A run that only ends does so whoever is in it.
async fn take_thread_of(
    app: &App,
    run: &RunId,
    cancel: &CancellationToken,
) -> Result<Option<ThreadHold>, Problem> {
    let (store, of) = (app.store.clone(), run.clone());
    let new = app.blocking(move || Ok(store.known(&of)?.new)).await?;
    let (Some(agent), Some(thread)) = (new.agent, new.thread) else { return Ok(None) };
    if cancel.is_cancelled() {
        return Ok(app.runs.threads.take(&agent, &thread).ok());
    }
    // Its own work is no other run's.
    if app.runs.over(run).is_some() {
        return Err(StoreError::RunBusy { run: run.to_string() }.into());
    }
    take_thread(app, &agent, &thread).await.map(Some)
}

fn workflow_work(project: &Project, resume: WorkflowResume, cancel: CancellationToken) -> Prepared {
    let WorkflowResume { desk, log, id, plan, inputs, values } = resume;
    let approval = ApprovalMode::default();
    WorkflowWork { id, plan, inputs, values, approval, desk, resume: Some(log), cancel }.prepared(project)
}

/// Begins a run with what another one did up to its event `at`, with other values for some of its nodes.
pub(crate) async fn fork(
    app: &Arc<App>,
    of: RunId,
    at: Option<u64>,
    changes: HashMap<String, Value>,
    version: Version,
) -> Result<Begun, Problem> {
    let admission = admit(app)?;
    let owner = Arc::clone(app);
    let prepared = app
        .with_project(move |project| {
            let project = project.for_one_run()?;
            if !project.is_agent_run(&of)? {
                let resume = project.fork_workflow(&of, at, &changes, version)?;
                return kept(&owner, workflow_work(&project, resume, CancellationToken::new()));
            }
            if !changes.is_empty() {
                return Err(Problem::bad_request(
                    "no_nodes",
                    "the run of an agent has no nodes whose values could be set",
                ));
            }
            let start = project.fork_agent(&of, at)?;
            project.skip_replies(&start);
            let agent = start.plan.prepared(project.agent(&start.plan.agent)?);
            kept(&owner, agent_work(project, agent, start, None, CancellationToken::new())?)
        })
        .await?;
    Ok(launch(app, admission, prepared))
}

/// Records what a person says to an open question, and goes on with the run.
pub(crate) async fn answer(
    app: &Arc<App>,
    run: RunId,
    ask: String,
    answer: Answer,
    version: Version,
) -> Result<Begun, Problem> {
    // A run that has just put the question, or goes on with the answer to another one, is waited for.
    while let Some(over) = app.runs.over(&run) {
        if !nearly_over(app, &over).await {
            return Err(Problem::conflict("run_busy", "the run is at work")
                .with("run", run.as_str())
                .with_help("answer when it waits again"));
        }
    }
    // Nothing is taken down that could not be acted upon.
    drop(admit(app)?);
    let store = app.store.clone();
    let of = run.clone();
    app.with_project(move |project| {
        let asks = store.asks(&of)?;
        let open = asks.iter().filter(|record| record.answer.is_none()).map(|record| &record.summary);
        let summary = open.into_iter().find(|summary| *summary.ask == *ask);
        let value = word(&of, &ask, summary, answer)?;
        let project = project.for_one_run()?;
        if let (Some(changed), Some(tool)) =
            (value.get("arguments").and_then(Value::as_object), summary.and_then(|own| own.tool.as_ref()))
            && let Some(faults) = project.check_changed(&of, tool.as_str(), changed)?
        {
            return Err(Problem::new(StatusCode::UNPROCESSABLE_ENTITY, "invalid_argument", faults)
                .with_help("the call waits as before"));
        }
        project.check_going_on(&of, version)?;
        Ok(store.answer(&of, &ask, &value)?)
    })
    .await?;
    resume(app, run, version).await
}

/// The answer in the form in which it is kept.
fn word(run: &RunId, ask: &str, summary: Option<&AskSummary>, answer: Answer) -> Result<Value, Problem> {
    let Some(summary) = summary else {
        return Err(Problem::not_found("unknown_ask", format!("`{run}` has no open question `{ask}`")));
    };
    let call = summary.tool.as_ref().zip(summary.arguments.as_deref());
    let is_question = summary.kind != AskKind::Approval;
    match (answer, call) {
        (Answer::Value(value), _) => Ok(value),
        (Answer::Approve(changed), Some((tool, own))) if !is_question => {
            let mut word = json!({"approve": true, "digest": approval_digest(tool.as_str(), own)});
            if let Some(arguments) = changed {
                word["arguments"] = Value::Object(arguments);
            }
            Ok(word)
        }
        (Answer::Deny(reason), Some(_)) if !is_question => Ok(json!({ "deny": reason })),
        (Answer::Approve(_) | Answer::Deny(_), _) => Err(Problem::new(
            StatusCode::UNPROCESSABLE_ENTITY,
            "no_approval",
            format!("`{ask}` is a question, not a call"),
        )
        .with_help("send `answer`")),
    }
}

/// Asks a run to end, wherever it is. Gives whether it had ended before.
pub(crate) async fn cancel(app: &Arc<App>, run: RunId) -> Result<bool, Problem> {
    if let Some(live) = app.runs.live().get(&run) {
        live.cancel.cancel();
        return Ok(false);
    }
    let store = app.store.clone();
    let of = run.clone();
    let (has_ended, is_elsewhere) = app
        .blocking(move || {
            let has_ended = store.known(&of)?.state.phase.has_ended();
            let is_elsewhere = !has_ended && store.is_at_work(&of);
            if is_elsewhere {
                store.put(&cancel_key(&of), Some(&true.into()));
                store.flush()?;
            }
            Ok((has_ended, is_elsewhere))
        })
        .await?;
    if has_ended || is_elsewhere {
        return Ok(has_ended);
    }
    let cancel = CancellationToken::new();
    cancel.cancel();
    let of = run.clone();
    if go_on(app, run, Version::AsItWas, cancel).await.is_err() {
        // There is no room, or what it needs to go on is not there any more.
        app.with_project(move |project| Ok(project.end_cancelled(&of)?)).await?;
    }
    Ok(false)
}

/// Ends runs that another process, such as `weft runs cancel`, wants to end.
pub(crate) async fn poll_cancel_requests(app: Arc<App>) {
    loop {
        tokio::select! {
            () = app.closed.cancelled() => return,
            () = app.clock.sleep(LOOK) => {}
        }
        let runs: Vec<(RunId, CancellationToken)> =
            app.runs.live().iter().map(|(run, live)| (run.clone(), live.cancel.clone())).collect();
        if runs.is_empty() {
            continue;
        }
        let store = app.store.clone();
        let looked = app.blocking(move || {
            for (run, cancel) in runs {
                let key = cancel_key(&run);
                if store.value(&key)?.is_some() {
                    store.put(&key, None);
                    cancel.cancel();
                }
            }
            Ok(())
        });
        if let Err(problem) = looked.await {
            log::warn!("wishes to end could not be read: {}", problem.detail);
        }
    }
}
