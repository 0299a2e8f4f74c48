//! Types of nodes.

use std::sync::Arc;

use axum::Json;
use axum::extract::State;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use workflow_model::structural::{WORKFLOW, structural_definitions};

use super::{Operation, get};
use crate::app::App;
use crate::body::Query;
use crate::problem::Problem;

/// A type of node.
#[derive(Debug, Serialize, JsonSchema)]
pub(super) struct Node {
    /// Its type, such as `core:TextMerge`.
    id: String,
    /// Its name for people.
    title: String,
    /// Description of the node type.
    description: String,
    /// Its slots and settings.
    definition: Value,
}

pub(super) fn operations() -> Vec<Operation> {
    vec![
        get("/api/nodes", "Types of nodes", list)
            .query(&[("lang", "language of their words, where they have some in it: `zh`")])
            .gives::<Vec<Node>>(),
    ]
}

#[derive(Debug, Deserialize)]
struct ListQuery {
    lang: Option<String>,
}

async fn list(
    State(app): State<Arc<App>>,
    Query(query): Query<ListQuery>,
) -> Result<Json<Vec<Node>>, Problem> {
    let project = app.project();
    // The page knows the other types of wiring by itself.
    let wiring = structural_definitions().into_iter().filter(|node| node.node_type == WORKFLOW);
    let (catalog, lang) = (project.catalog(), query.lang.unwrap_or_default());
    let definitions = catalog.definitions().cloned().chain(wiring);
    let nodes = definitions.map(|node| catalog.in_language(node, &lang)).map(|node| Node {
        id: node.node_type.clone(),
        title: node.display_name.clone(),
        description: node.description.clone(),
        definition: serde_json::to_value(&node).unwrap_or_default(),
    });
    Ok(Json(nodes.collect()))
}
