//! Answering open questions.

use agent_types::{AskSummary, RunId};
use run_store::StoreError;
use tokio_util::sync::CancellationToken;
use weft_project::Project;

use super::LocalRuns;
use super::known::known_run;
use super::resume::check_resumable;
use crate::answer::Answer;
use crate::error::RunsError;
use crate::handle::RunHandle;
use crate::request::{AnswerRequest, Then, Version};

impl LocalRuns {
    pub(super) async fn answer_ask(&self, request: AnswerRequest) -> Result<Option<RunHandle>, RunsError> {
        let AnswerRequest { run, ask, answer, version, then } = request;
        // A run that has just put the question, or was resumed by the answer to another one, is waited for.
        while let Some(over) = self.over(&run) {
            if !self.nearly_over(&over).await {
                return Err(StoreError::RunBusy { run: run.to_string() }.into());
            }
        }
        // Nothing is recorded that could not be acted upon.
        drop(self.admit()?);
        let (runs, of) = (self.clone(), run.clone());
        self.with_project(move |project| {
            let resumes = (then == Then::Resume).then_some(version);
            record(&*runs.for_one_run(project)?, &of, ask.as_deref(), &answer, resumes)
        })
        .await?;
        match then {
            Then::Stay => Ok(None),
            Then::Resume => match self.resume_run(run.clone(), version, CancellationToken::new()).await {
                // The answer is recorded: whoever was faster resumes the run with it.
                Err(error) if error.is_lost_race() => known_run(self, run).map(Some),
                resumed => resumed.map(Some),
            },
        }
    }
}

fn record(
    project: &Project,
    run: &RunId,
    ask: Option<&str>,
    answer: &Answer,
    resumes: Option<Version>,
) -> Result<(), RunsError> {
    let store = project.required_store(run)?;
    store.known(run)?;
    let asks = store.asks(run)?;
    let open: Vec<&AskSummary> =
        asks.iter().filter(|record| record.answer.is_none()).map(|record| &record.summary).collect();
    let summary = chosen(run, &open, ask)?;
    let value = answer.to_value(run, summary)?;
    if let (Some(changed), Some(tool)) = (answer.changed(), &summary.tool)
        && let Some(agent) = store.known(run)?.new.agent
        && let Some(message) = project.agent(&agent)?.check_arguments(tool.as_str(), changed)
    {
        return Err(RunsError::InvalidArguments { tool: tool.to_string(), message });
    }
    if let Some(version) = resumes {
        check_resumable(project, run, version)?;
    }
    Ok(store.answer(run, &summary.ask, &value)?)
}

/// The question that is answered: the one that is named, or the only one.
fn chosen<'a>(
    run: &RunId,
    open: &[&'a AskSummary],
    named: Option<&str>,
) -> Result<&'a AskSummary, RunsError> {
    let run = run.to_string();
    let names = || open.iter().map(|ask| ask.ask.to_string()).collect();
    match (named, open) {
        (Some(name), _) => match open.iter().find(|ask| *ask.ask == *name) {
            Some(ask) => Ok(ask),
            None => Err(RunsError::UnknownAsk { run, ask: Some(name.to_owned()), open: names() }),
        },
        (None, [only]) => Ok(only),
        (None, []) => Err(RunsError::UnknownAsk { run, ask: None, open: Vec::new() }),
        (None, _) => Err(RunsError::WhichAsk { run, open: names() }),
    }
}
