//! Triggers: what starts agents, when it fires next, and which runs it has begun.

use std::sync::Arc;

use agent_runtime::SubscribedEvent;
use agent_triggers::{DeadLetter, TriggerRun, due};
use agent_types::Timestamp;
use axum::Json;
use axum::extract::State;
use http::StatusCode;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use weft_project::Project;
use weft_runs::Firing;

use super::accepted::{Accepted, accepted};
use super::{Operation, get, post};
use crate::app::App;
use crate::body::{OptionalBody, Path};
use crate::problem::Problem;

/// A trigger with its firings.
#[derive(Debug, Serialize, JsonSchema)]
pub(super) struct TriggerDetail {
    /// Its id; of an event that an agent listens to, `AGENT:EVENT`.
    id: String,
    /// The agent that it starts.
    agent: String,
    /// Its cause: `cron every files webhook event`.
    kind: &'static str,
    /// Set when it fires by itself.
    enabled: bool,
    /// The next moment at which it fires.
    #[serde(skip_serializing_if = "Option::is_none")]
    next: Option<Timestamp>,
    /// Its last firings, the newest last.
    runs: Vec<TriggerRun>,
}

/// Data of a firing by hand.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub(super) struct FireBody {
    /// Data for the agent.
    payload: Value,
}

pub(super) fn operations() -> Vec<Operation> {
    vec![
        get("/api/triggers", "Triggers of the project", list).gives::<Vec<TriggerDetail>>(),
        post("/api/triggers/{trigger}/fire", "Fire a trigger now", fire)
            .takes::<FireBody>()
            .gives::<Accepted>()
            .status(StatusCode::ACCEPTED),
        get("/api/dead-letters", "Events that reached no agent", dead).gives::<Vec<DeadLetter>>(),
    ]
}

async fn list(State(app): State<Arc<App>>) -> Result<Json<Vec<TriggerDetail>>, Problem> {
    let now = app.clock.now();
    app.with_project(move |project| {
        let mut all = Vec::new();
        for entry in project.triggers() {
            let trigger = &entry.trigger;
            let record = project.trigger_store()?.record(&trigger.id)?;
            all.push(TriggerDetail {
                id: trigger.id.clone(),
                agent: entry.agent.clone(),
                kind: trigger.kind.as_str(),
                enabled: trigger.enabled,
                next: due(trigger, &record, now).next,
                runs: record.runs().to_vec(),
            });
        }
        all.extend(events(project)?);
        Ok(Json(all))
    })
    .await
}

/// The events that agents listen to.
fn events(project: &Project) -> Result<Vec<TriggerDetail>, Problem> {
    let subscribed = project.agents().flat_map(|file| {
        let events = file.profile.subscribed_event_types.iter().map(SubscribedEvent::name);
        events.map(move |event| (file.profile.id.clone(), format!("{}:{event}", file.profile.id)))
    });
    let detail = |(agent, id): (String, String)| {
        let runs = project.trigger_store()?.record(&id)?.runs().to_vec();
        Ok::<_, Problem>(TriggerDetail { id, agent, kind: "event", enabled: true, next: None, runs })
    };
    subscribed.map(detail).collect()
}

async fn fire(
    State(app): State<Arc<App>>,
    Path(id): Path<String>,
    OptionalBody(body): OptionalBody<FireBody>,
) -> Result<(StatusCode, Json<Accepted>), Problem> {
    let run = app.runs.fire_trigger(&id, Firing::manual(body.payload)).await?;
    Ok(accepted(&run.id))
}

async fn dead(State(app): State<Arc<App>>) -> Result<Json<Vec<DeadLetter>>, Problem> {
    app.with_project(|project| Ok(Json(project.trigger_store()?.dead_letters()?))).await
}
