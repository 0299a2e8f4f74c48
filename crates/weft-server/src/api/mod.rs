//! REST: one table from which the routes and their description come.

mod accepted;
mod agents;
mod asks;
mod blobs;
mod chat;
mod flows;
mod loops;
mod meta;
mod nodes;
mod requests;
mod runs;
mod sessions;
mod standing;
mod suggest;
mod tools;
mod triggers;
mod workflows;

use std::sync::Arc;

use axum::Router;
use axum::handler::Handler;
use axum::routing::{MethodFilter, MethodRouter, on};
use http::{Method, StatusCode};
use schemars::{JsonSchema, Schema, SchemaGenerator};

use crate::app::App;

/// Makes the schema of a type, with what it refers to in the generator.
type SchemaOf = fn(&mut SchemaGenerator) -> Schema;

/// Something that can be asked for.
pub(crate) struct Operation {
    pub(crate) method: Method,
    pub(crate) path: &'static str,
    /// Summary of the operation, in a line.
    pub(crate) summary: &'static str,
    /// Names of the query with what they mean.
    pub(crate) query: &'static [(&'static str, &'static str)],
    pub(crate) body: Option<SchemaOf>,
    pub(crate) answer: Option<SchemaOf>,
    /// Status and form of a good answer.
    pub(crate) status: StatusCode,
    pub(crate) media: &'static str,
    route: MethodRouter<Arc<App>>,
}

impl Operation {
    fn new<H: Handler<T, Arc<App>>, T: 'static>(
        filter: MethodFilter,
        method: Method,
        path: &'static str,
        summary: &'static str,
        handler: H,
    ) -> Self {
        Self {
            method,
            path,
            summary,
            query: &[],
            body: None,
            answer: None,
            status: StatusCode::OK,
            media: "application/json",
            route: on(filter, handler),
        }
    }

    const fn query(mut self, names: &'static [(&'static str, &'static str)]) -> Self {
        self.query = names;
        self
    }

    fn takes<T: JsonSchema>(mut self) -> Self {
        self.body = Some(SchemaGenerator::subschema_for::<T>);
        self
    }

    fn gives<T: JsonSchema>(mut self) -> Self {
        self.answer = Some(SchemaGenerator::subschema_for::<T>);
        self
    }

    fn status(mut self, status: StatusCode) -> Self {
        self.status = status;
        self
    }

    const fn media(mut self, media: &'static str) -> Self {
        self.media = media;
        self
    }
}

fn get<H: Handler<T, Arc<App>>, T: 'static>(
    path: &'static str,
    summary: &'static str,
    handler: H,
) -> Operation {
    Operation::new(MethodFilter::GET, Method::GET, path, summary, handler)
}

fn post<H: Handler<T, Arc<App>>, T: 'static>(
    path: &'static str,
    summary: &'static str,
    handler: H,
) -> Operation {
    Operation::new(MethodFilter::POST, Method::POST, path, summary, handler)
}

fn put<H: Handler<T, Arc<App>>, T: 'static>(
    path: &'static str,
    summary: &'static str,
    handler: H,
) -> Operation {
    Operation::new(MethodFilter::PUT, Method::PUT, path, summary, handler)
}

fn delete<H: Handler<T, Arc<App>>, T: 'static>(
    path: &'static str,
    summary: &'static str,
    handler: H,
) -> Operation {
    Operation::new(MethodFilter::DELETE, Method::DELETE, path, summary, handler)
}

/// Everything that can be asked for.
pub(crate) fn operations() -> Vec<Operation> {
    let parts = [
        meta::operations(),
        workflows::operations(),
        nodes::operations(),
        tools::operations(),
        agents::operations(),
        runs::operations(),
        loops::operations(),
        requests::operations(),
        asks::operations(),
        chat::operations(),
        flows::operations(),
        sessions::operations(),
        suggest::operations(),
        blobs::operations(),
        triggers::operations(),
    ];
    parts.into_iter().flatten().collect()
}

/// The routes of the table.
pub(crate) fn router() -> Router<Arc<App>> {
    operations()
        .into_iter()
        .fold(Router::new(), |router, operation| router.route(operation.path, operation.route))
}
