//! Open questions of all runs, and answers to them.

use std::sync::Arc;

use agent_types::{AskSummary, RunId};
use axum::Json;
use axum::extract::State;
use http::StatusCode;
use run_store::{RunFilter, RunPhase, Store};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use weft_runs::{Answer, AnswerRequest, RunService, Then, Version};

use super::accepted::{Accepted, accepted};
use super::{Operation, get, post};
use crate::app::App;
use crate::body::{JsonBody, Path, Query};
use crate::problem::Problem;

/// A question that waits for a person.
#[derive(Debug, Clone, Serialize, JsonSchema)]
pub(super) struct OpenAsk {
    /// A name that no other question has: run and question, joined by `.`.
    id: String,
    /// The run that waits.
    run: String,
    /// The agent or the workflow that asks.
    #[serde(skip_serializing_if = "Option::is_none")]
    agent: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    workflow: Option<String>,
    #[serde(flatten)]
    ask: AskSummary,
}

/// Answer of a user: one of `answer`, `approve` and `deny`.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct AnswerBody {
    /// The answer to a question; may be null.
    #[serde(default, deserialize_with = "present")]
    answer: Option<Value>,
    /// True lets the call run.
    approve: Option<bool>,
    /// Other arguments for the call.
    arguments: Option<Map<String, Value>>,
    /// Reason for denying the call.
    deny: Option<String>,
    /// The run, where several ask the same.
    run: Option<String>,
}

/// A value that is there, even if it is null.
fn present<'de, D: serde::Deserializer<'de>>(deserializer: D) -> Result<Option<Value>, D::Error> {
    Value::deserialize(deserializer).map(Some)
}

pub(super) fn operations() -> Vec<Operation> {
    vec![
        get("/api/asks", "Questions that wait for a person", list)
            .query(&[("run", "only those of this run")])
            .gives::<Vec<OpenAsk>>(),
        post("/api/asks/{ask}", "Answer a question and resume its run", say)
            .takes::<AnswerBody>()
            .gives::<Accepted>()
            .status(StatusCode::ACCEPTED),
    ]
}

#[derive(Debug, Deserialize)]
struct AsksQuery {
    run: Option<String>,
}

async fn list(
    State(app): State<Arc<App>>,
    Query(query): Query<AsksQuery>,
) -> Result<Json<Vec<OpenAsk>>, Problem> {
    let store = app.store.clone();
    let mut asks = app.blocking(move || open_asks(&store)).await?;
    asks.retain(|ask| query.run.as_ref().is_none_or(|run| *run == ask.run));
    Ok(Json(asks))
}

fn open_asks(store: &Store) -> Result<Vec<OpenAsk>, Problem> {
    let waiting = RunFilter { phase: Some(RunPhase::Waiting), ..RunFilter::default() };
    let mut open = Vec::new();
    for record in store.runs(&waiting)? {
        let run = &record.new.run;
        for ask in store.asks(run)?.into_iter().filter(|ask| ask.answer.is_none()) {
            open.push(OpenAsk {
                id: format!("{run}.{}", ask.summary.ask),
                run: run.to_string(),
                agent: record.new.agent.clone(),
                workflow: record.new.workflow.clone(),
                ask: ask.summary,
            });
        }
    }
    Ok(open)
}

async fn say(
    State(app): State<Arc<App>>,
    Path(id): Path<String>,
    JsonBody(body): JsonBody<AnswerBody>,
) -> Result<(StatusCode, Json<Accepted>), Problem> {
    let (named, answer) = answer_of(body)?;
    let store = app.store.clone();
    let (run, ask) = app.blocking(move || find(&store, &id, named)).await?;
    let (version, then) = (Version::Current, Then::Resume);
    let request = AnswerRequest { run: run.clone(), ask: Some(ask), answer, version, then };
    app.runs.answer(request).await?;
    Ok(accepted(&run))
}

fn answer_of(body: AnswerBody) -> Result<(Option<String>, Answer), Problem> {
    let AnswerBody { answer, approve, arguments, deny, run } = body;
    let answer = match (answer, approve, arguments, deny) {
        (Some(value), None, None, None) => Answer::Value(value),
        (None, Some(true), arguments, None) => Answer::Approve { arguments },
        (None, Some(false), None, None) => Answer::deny(""),
        (None, None, None, Some(reason)) => Answer::Deny { reason },
        _ => {
            let detail = "send one of `answer`, `approve: true` (with `arguments` or without) and `deny`";
            return Err(Problem::new(StatusCode::UNPROCESSABLE_ENTITY, "bad_value", detail));
        }
    };
    Ok((run, answer))
}

/// The run and the question that an id means: its whole name, or the question's where only one run asks it.
fn find(store: &Store, id: &str, named: Option<String>) -> Result<(RunId, String), Problem> {
    if let Some(run) = named {
        return Ok((RunId::new(run), id.to_owned()));
    }
    // A run that has just put its question is not waiting yet, but its whole name is known.
    let whole = id.match_indices('.').map(|(at, _)| (RunId::new(&id[..at]), id[at + 1..].to_owned()));
    for (run, ask) in whole {
        if store.known(&run).is_ok() {
            return Ok((run, ask));
        }
    }
    let mut fitting = open_asks(store)?;
    fitting.retain(|open| *open.ask.ask == *id);
    match fitting.as_slice() {
        [one] => Ok((RunId::new(one.run.as_str()), id.to_owned())),
        [] => Err(Problem::not_found("unknown_ask", format!("no question `{id}` is open"))),
        several => {
            let ids: Vec<&str> = several.iter().map(|open| open.id.as_str()).collect();
            Err(Problem::conflict("which_ask", format!("{} runs ask `{id}`", several.len()))
                .with("asks", ids)
                .with_help("use the whole name, or send `run`"))
        }
    }
}
