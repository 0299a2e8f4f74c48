//! Runs: those that were, those that are, new ones.

use std::collections::HashMap;
use std::sync::Arc;

use agent_runtime::ApprovalMode;
use agent_types::{AskSummary, EventBody, RunId, StoredEvent, Timestamp};
use axum::Json;
use axum::extract::State;
use axum::response::{IntoResponse, Response};
use http::{HeaderMap, StatusCode, header};
use run_store::{RunFilter, RunPhase, RunRecord};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
use serde_json::{Map, Value};
use weft_runs::{
    AgentPlan, AgentRequest, Cancelled, ForkRequest, NodeValue, RunService, Version, WhenBusy,
    WorkflowRequest,
};

use super::accepted::{Accepted, accepted, begun_run};
use super::standing::standing;
use super::{Operation, get, post};
use crate::app::App;
use crate::body::{JsonBody, OptionalBody, Path, Query};
use crate::live::{Subscription, event_stream, read_page};
use crate::problem::Problem;
use crate::runs::{IdempotencyKey, begin_agent};

/// Runs of a page, where nothing is said, and at most.
const PAGE: (usize, usize) = (50, 500);

/// Bytes of events in one answer.
const EVENT_BYTES: usize = 1 << 20;

/// Events at the end of a log in which what came of the run is looked for.
const TAIL: u64 = 64;

/// A run, in short.
#[derive(Debug, Serialize, JsonSchema)]
pub(super) struct RunSummary {
    /// Its id.
    run: String,
    /// `running waiting interrupted ok error cancelled`.
    status: &'static str,
    /// Reason for which an agent's run ended or waits.
    #[serde(skip_serializing_if = "Option::is_none")]
    exit: Option<&'static str>,
    /// The kind of the error that ended it.
    #[serde(skip_serializing_if = "Option::is_none")]
    kind: Option<String>,
    /// Start of the run.
    started: String,
    /// End of the run.
    #[serde(skip_serializing_if = "Option::is_none")]
    finished: Option<String>,
    /// The agent that runs.
    #[serde(skip_serializing_if = "Option::is_none")]
    agent: Option<String>,
    /// The workflow that runs.
    #[serde(skip_serializing_if = "Option::is_none")]
    workflow: Option<String>,
    /// Beginning of the message to the agent.
    #[serde(skip_serializing_if = "Option::is_none")]
    message: Option<String>,
    /// The conversation that it belongs to.
    #[serde(skip_serializing_if = "Option::is_none")]
    thread: Option<String>,
    /// The run that it was started or forked from.
    #[serde(skip_serializing_if = "Option::is_none")]
    parent: Option<String>,
    /// The tool, where it is a single call.
    #[serde(skip_serializing_if = "Option::is_none")]
    tool: Option<String>,
    /// The run that it is a retry of.
    #[serde(skip_serializing_if = "Option::is_none")]
    retry_of: Option<String>,
    /// Number of its last event.
    last_seq: u64,
}

/// A run with what came of it.
#[derive(Debug, Serialize, JsonSchema)]
pub(super) struct RunDetail {
    #[serde(flatten)]
    summary: RunSummary,
    /// The whole message to the agent.
    #[serde(skip_serializing_if = "Option::is_none")]
    input: Option<String>,
    /// The last text of an agent for the user.
    #[serde(skip_serializing_if = "Option::is_none")]
    text: Option<String>,
    /// Outputs of a workflow, by name.
    #[serde(skip_serializing_if = "Option::is_none")]
    outputs: Option<Map<String, Value>>,
    /// Set when the answer is not complete.
    #[serde(skip_serializing_if = "Option::is_none")]
    partial: Option<bool>,
    /// Message of the failure.
    #[serde(skip_serializing_if = "Option::is_none")]
    error: Option<String>,
    /// Questions that wait for a person.
    asks: Vec<AskSummary>,
}

/// Run to start: `agent` and `message`, or `workflow` and `inputs`.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct NewRunBody {
    /// The agent.
    agent: Option<String>,
    /// Message to the agent.
    message: Option<String>,
    /// The conversation that it belongs to.
    thread: Option<String>,
    /// The workflow.
    workflow: Option<String>,
    /// Its arguments.
    #[serde(default)]
    inputs: Map<String, Value>,
    /// Values that tools may use and no model sees or sets.
    #[serde(default)]
    context: Map<String, Value>,
    /// The schema that an agent's answer must fit.
    output_schema: Option<Value>,
    /// Decision on calls that need an approval.
    #[serde(default)]
    approve: Approve,
    /// Reaction to a run of the conversation that executes: `queue`, `steer` or `reject`.
    #[serde(default)]
    busy: WhenBusy,
    /// Id of the message, as the header `Idempotency-Key`: one that comes again has the run of the first.
    message_id: Option<String>,
}

/// Decision on calls that need an approval.
#[derive(Debug, Clone, Copy, Default, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
enum Approve {
    /// The run waits.
    #[default]
    Ask,
    /// Every call runs.
    All,
    /// No such call runs.
    None,
}

impl From<Approve> for ApprovalMode {
    fn from(approve: Approve) -> Self {
        match approve {
            Approve::Ask => Self::Ask,
            Approve::All => Self::All,
            Approve::None => Self::None,
        }
    }
}

impl NewRunBody {
    /// Names of what belongs to the other kind of run.
    fn foreign(&self) -> Vec<&'static str> {
        let of_agents = [
            ("message", self.message.is_some()),
            ("thread", self.thread.is_some()),
            ("output_schema", self.output_schema.is_some()),
        ];
        let of_workflows = [("inputs", !self.inputs.is_empty())];
        let foreign = match (&self.agent, &self.workflow) {
            (Some(_), None) => &of_workflows[..],
            (None, Some(_)) => &of_agents[..],
            (Some(_), Some(_)) | (None, None) => &[],
        };
        foreign.iter().filter(|(_, is_given)| *is_given).map(|(name, _)| *name).collect()
    }
}

/// From where a run is forked.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub(super) struct ForkBody {
    /// The last event that both have; absent, behind the nodes whose values change, else before the end.
    at: Option<u64>,
    /// Values that take the place of what nodes gave, by path.
    set: HashMap<String, Value>,
    /// Resume with the workflow as it was when the run began.
    as_it_was: bool,
}

/// Options for resuming a run.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub(super) struct ResumeBody {
    /// Resume with the workflow as it was when the run began.
    as_it_was: bool,
}

pub(super) fn operations() -> Vec<Operation> {
    vec![
        get("/api/runs", "Runs, newest first", list)
            .query(&[
                ("agent", "only those of this agent"),
                ("workflow", "only those of this workflow"),
                ("thread", "only those of this conversation"),
                ("status", "only those that stand so"),
                ("limit", "so many at most, 50 where nothing is said"),
                ("cursor", "from the `Link` of the page before"),
            ])
            .gives::<Vec<RunSummary>>(),
        post("/api/runs", "Begin a run of an agent or a workflow", begin)
            .takes::<NewRunBody>()
            .gives::<Accepted>()
            .status(StatusCode::ACCEPTED),
        get("/api/runs/{run}", "A run with what came of it", show).gives::<RunDetail>(),
        get(
            "/api/runs/{run}/events",
            "Its events as they come; with `Accept: application/json` a page of those that were",
            events,
        )
        .query(&[("after_seq", "only events behind this one")])
        .media("text/event-stream"),
        post("/api/runs/{run}/cancel", "Ask a run to end", cancel)
            .gives::<Accepted>()
            .status(StatusCode::ACCEPTED),
        post("/api/runs/{run}/resume", "Resume a run that was interrupted or is suspended", resume)
            .takes::<ResumeBody>()
            .gives::<Accepted>()
            .status(StatusCode::ACCEPTED),
        post(
            "/api/runs/{run}/retry",
            "Continue a failed or cancelled run from its failure, as a new run",
            retry,
        )
        .gives::<Accepted>()
        .status(StatusCode::ACCEPTED),
        post("/api/runs/{run}/fork", "Begin a run with the first events of another one", fork)
            .takes::<ForkBody>()
            .gives::<Accepted>()
            .status(StatusCode::ACCEPTED),
    ]
}

/// Number of entries of a page, within the limits.
pub(super) fn check_limit(limit: Option<usize>) -> usize {
    limit.unwrap_or(PAGE.0).clamp(1, PAGE.1)
}

#[derive(Debug, Serialize, Deserialize)]
struct ListQuery {
    agent: Option<String>,
    workflow: Option<String>,
    thread: Option<String>,
    status: Option<String>,
    limit: Option<usize>,
    cursor: Option<String>,
}

async fn list(State(app): State<Arc<App>>, Query(query): Query<ListQuery>) -> Result<Response, Problem> {
    let limit = check_limit(query.limit);
    let cursor = query.cursor.as_deref().map(read_cursor).transpose()?;
    // What stands in the store as running may be interrupted, which only a look at its lock tells.
    let phase = match query.status.as_deref() {
        None => None,
        Some("interrupted") => Some(RunPhase::Running),
        Some(word) => Some(RunPhase::parse(word).ok_or_else(|| {
            Problem::bad_request("bad_status", format!("no run stands as `{word}`"))
                .with_help("running, waiting, interrupted, ok, error or cancelled")
        })?),
    };
    let filter = RunFilter {
        phase,
        agent: query.agent.clone(),
        workflow: query.workflow.clone(),
        thread: query.thread.clone(),
        // The cursor's own millisecond is read again: several runs may have begun in it.
        before: cursor.as_ref().map(|(at, _)| Timestamp::from_millis(at.saturating_add(1))),
        ..RunFilter::default()
    };
    let store = app.store.clone();
    let status = query.status.clone();
    let (runs, next) = app
        .blocking(move || {
            let records = store.runs(&filter)?;
            let behind = records.iter().skip_while(|record| {
                cursor.as_ref().is_some_and(|(at, run)| {
                    (record.started.as_millis(), record.new.run.as_str()) >= (*at, run.as_str())
                })
            });
            let summaries = behind.map(|record| {
                let (now, status) = standing(&store, record);
                (record, summary(&now, status))
            });
            let mut wanted =
                summaries.filter(|(_, run)| status.as_deref().is_none_or(|word| word == run.status));
            let (mut runs, mut last) = (Vec::new(), None);
            for (record, run) in wanted.by_ref().take(limit) {
                last = Some(format!("{}.{}", record.started.as_millis(), record.new.run));
                runs.push(run);
            }
            let next = last.filter(|_| wanted.next().is_some());
            Ok((runs, next))
        })
        .await?;
    let mut response = Json(runs).into_response();
    if let Some(cursor) = next {
        let query = ListQuery { cursor: Some(cursor), limit: Some(limit), ..query };
        link_next(&mut response, "/api/runs", &query)?;
    }
    Ok(response)
}

/// Says where the next page is.
pub(super) fn link_next(response: &mut Response, path: &str, query: &impl Serialize) -> Result<(), Problem> {
    let failed = |error: &dyn std::fmt::Display| Problem::internal(&format!("a link: {error}"));
    let query = serde_urlencoded::to_string(query).map_err(|error| failed(&error))?;
    let link = format!("<{path}?{query}>; rel=\"next\"").parse().map_err(|error| failed(&error))?;
    response.headers_mut().insert(header::LINK, link);
    Ok(())
}

fn read_cursor(text: &str) -> Result<(i64, String), Problem> {
    let parts = text.split_once('.').and_then(|(at, run)| Some((at.parse().ok()?, run.to_owned())));
    parts.ok_or_else(|| Problem::bad_request("bad_cursor", "the cursor is invalid"))
}

fn summary(record: &RunRecord, status: &'static str) -> RunSummary {
    RunSummary {
        run: record.new.run.to_string(),
        status,
        exit: record.state.exit.map(agent_types::ExitReason::as_str),
        kind: record.state.kind.clone(),
        started: record.started.to_string(),
        finished: record.state.finished.map(|at| at.to_string()),
        agent: record.new.agent.clone(),
        workflow: record.new.workflow.clone(),
        message: title_of(record),
        thread: record.new.thread.clone(),
        parent: record.new.parent.as_ref().map(ToString::to_string),
        tool: weft_runs::called_tool(record).map(str::to_owned),
        retry_of: weft_runs::retry_of(record).map(str::to_owned),
        last_seq: record.last_seq,
    }
}

/// Beginning of the message to the agent of a run, on one line.
pub(super) fn title_of(record: &RunRecord) -> Option<String> {
    const CHARACTERS: usize = 160;
    let message = record.new.plan.get("message")?.as_str()?;
    let line = message.split_whitespace().collect::<Vec<_>>().join(" ");
    let (end, is_long) =
        line.char_indices().nth(CHARACTERS).map_or((line.len(), false), |(end, _)| (end, true));
    let title = format!("{}{}", line.get(..end)?, if is_long { "…" } else { "" });
    (!title.is_empty()).then_some(title)
}

async fn begin(
    State(app): State<Arc<App>>,
    key: IdempotencyKey,
    JsonBody(body): JsonBody<NewRunBody>,
) -> Result<(StatusCode, Json<Accepted>), Problem> {
    let foreign = body.foreign();
    if !foreign.is_empty() {
        let kind = if body.agent.is_some() { "an agent" } else { "a workflow" };
        let names: Vec<String> = foreign.iter().map(|name| format!("`{name}`")).collect();
        let detail = format!("a run of {kind} takes no {}", names.join(" and no "));
        return Err(Problem::new(StatusCode::UNPROCESSABLE_ENTITY, "bad_value", detail));
    }
    let approval = ApprovalMode::from(body.approve);
    let begun = match (body.agent, body.workflow) {
        (Some(agent), None) => {
            let message = body.message.ok_or_else(|| {
                Problem::new(StatusCode::UNPROCESSABLE_ENTITY, "bad_value", "an agent needs a `message`")
            })?;
            let plan = AgentPlan {
                agent,
                message,
                values: body.context,
                schema: body.output_schema,
                message_id: key.or(body.message_id)?,
                ..AgentPlan::default()
            };
            let (thread, busy) = (body.thread, body.busy);
            begin_agent(&app, AgentRequest { plan, thread, approval, busy, ..AgentRequest::default() })
                .await?
        }
        (None, Some(id)) => {
            let (inputs, values) = (body.inputs, body.context);
            let request = WorkflowRequest { id, workflow: None, inputs, values, approval };
            app.runs.begin(request.into()).await?
        }
        (Some(_), Some(_)) | (None, None) => {
            let detail = "name either an `agent` or a `workflow`";
            return Err(Problem::new(StatusCode::UNPROCESSABLE_ENTITY, "bad_value", detail));
        }
    };
    Ok(begun_run(&begun))
}

async fn show(State(app): State<Arc<App>>, Path(run): Path<String>) -> Result<Json<RunDetail>, Problem> {
    let store = app.store.clone();
    let detail = app
        .blocking(move || {
            let run = RunId::new(run);
            let known = store.known(&run)?;
            let (record, status) = standing(&store, &known);
            let asks = store.asks(&run)?.into_iter().filter(|ask| ask.answer.is_none());
            let mut detail = RunDetail {
                summary: summary(&record, status),
                input: record.new.plan.get("message").and_then(Value::as_str).map(str::to_owned),
                text: None,
                outputs: None,
                partial: None,
                error: None,
                asks: Vec::new(),
            };
            if matches!(detail.summary.status, "waiting" | "interrupted") {
                detail.asks = asks.map(|ask| ask.summary).collect();
            }
            let mut tail = store.events(&run, record.last_seq.saturating_sub(TAIL), usize::MAX)?;
            store.put_values_back(&mut tail)?;
            tail.iter().for_each(|kept| detail.learn(kept));
            Ok(detail)
        })
        .await?;
    Ok(Json(detail))
}

impl RunDetail {
    /// Takes from an event what came of the run.
    fn learn(&mut self, kept: &StoredEvent) {
        if kept.event.place.call.is_some() {
            return;
        }
        match &kept.event.body {
            EventBody::AgentMessage { text, .. } => self.text = Some(text.clone()),
            EventBody::RunFinished { partial, message, .. } => {
                self.partial = *partial;
                self.error.clone_from(message);
                if self.summary.workflow.is_some() {
                    let values = kept.record.iter().flat_map(|record| &record.values);
                    let outputs = values.map(|(name, value)| (name.to_string(), (**value).clone()));
                    self.outputs = Some(outputs.collect());
                }
            }
            _ => {}
        }
    }
}

#[derive(Debug, Serialize, Deserialize)]
struct EventsQuery {
    after_seq: Option<u64>,
}

async fn events(
    State(app): State<Arc<App>>,
    Path(run): Path<String>,
    Query(query): Query<EventsQuery>,
    headers: HeaderMap,
) -> Result<Response, Problem> {
    let run = RunId::new(run);
    let text = |name| headers.get(name).and_then(|value| value.to_str().ok()).unwrap_or_default();
    // A browser that comes back says how far it was; that counts before what stood in the address.
    let seen = text(header::HeaderName::from_static("last-event-id")).parse().ok();
    let after = seen.or(query.after_seq).unwrap_or(0);
    let accept = text(header::ACCEPT);
    if !accept.contains("application/json") || accept.contains("text/event-stream") {
        let subscription = Subscription::new(&app, run, after).await?;
        // A browser would come back to a stream that only ends, and again.
        if seen.is_some() && subscription.has_ended().await {
            return Ok(StatusCode::NO_CONTENT.into_response());
        }
        return Ok(event_stream(&app, subscription));
    }
    let store = app.store.clone();
    let path = format!("/api/runs/{run}/events");
    let (events, next) = app
        .blocking(move || {
            store.known(&run)?;
            let (mut page, mut size, mut last) = (Vec::new(), 0, after);
            let mut next = None;
            while next.is_none() {
                let frames = read_page(&store, &run, last, EVENT_BYTES)?;
                let Some(end) = frames.last() else { break };
                last = end.seq;
                size += frames.iter().map(|frame| frame.json.len()).sum::<usize>();
                page.extend(frames);
                next = (size >= EVENT_BYTES).then_some(last);
            }
            let events = page.iter().filter_map(|frame| RawValue::from_string(frame.json.to_string()).ok());
            Ok((events.collect::<Vec<_>>(), next))
        })
        .await?;
    let mut response = Json(events).into_response();
    if next.is_some() {
        link_next(&mut response, &path, &EventsQuery { after_seq: next })?;
    }
    Ok(response)
}

async fn cancel(
    State(app): State<Arc<App>>,
    Path(run): Path<String>,
) -> Result<(StatusCode, Json<Accepted>), Problem> {
    let run = RunId::new(run);
    let cancelled = app.runs.cancel(&run).await?;
    let (status, body) = accepted(&run);
    Ok((if matches!(cancelled, Cancelled::HadEnded(_)) { StatusCode::OK } else { status }, body))
}

fn version(as_it_was: bool) -> Version {
    if as_it_was { Version::AsItWas } else { Version::Current }
}

async fn resume(
    State(app): State<Arc<App>>,
    Path(run): Path<String>,
    OptionalBody(body): OptionalBody<ResumeBody>,
) -> Result<(StatusCode, Json<Accepted>), Problem> {
    let run = app.runs.resume(&RunId::new(run), version(body.as_it_was)).await?;
    Ok(accepted(&run.id))
}

async fn retry(
    State(app): State<Arc<App>>,
    Path(run): Path<String>,
) -> Result<(StatusCode, Json<Accepted>), Problem> {
    let run = app.runs.retry(&RunId::new(run)).await?;
    Ok(accepted(&run.id))
}

async fn fork(
    State(app): State<Arc<App>>,
    Path(run): Path<String>,
    OptionalBody(body): OptionalBody<ForkBody>,
) -> Result<(StatusCode, Json<Accepted>), Problem> {
    let (at, version) = (body.at, version(body.as_it_was));
    let changes = body.set.into_iter().map(|(path, value)| (path, NodeValue::Json(value))).collect();
    let fork = app.runs.fork(ForkRequest { of: RunId::new(run), at, changes, version }).await?;
    Ok(accepted(&fork.id))
}
