//! Contents of requests. Bodies are JSON, of a limited length, within a limited time; faults in paths and queries are
//! reported in
//! the same form.

use std::sync::Arc;

use axum::body::{Body, to_bytes};
use axum::extract::rejection::{PathRejection, QueryRejection};
use axum::extract::{FromRequest, FromRequestParts, Request};
use bytes::Bytes;
use futures::future::{Either, select};
use http::request::Parts;
use http::{HeaderMap, StatusCode, header};
use serde::de::DeserializeOwned;

use crate::app::App;
use crate::problem::Problem;

/// A body that must be JSON of this form.
pub(crate) struct JsonBody<T>(pub(crate) T);

/// A body that may be absent; then it is the form's default.
pub(crate) struct OptionalBody<T>(pub(crate) T);

impl<T: DeserializeOwned> FromRequest<Arc<App>> for JsonBody<T> {
    type Rejection = Problem;

    async fn from_request(request: Request, app: &Arc<App>) -> Result<Self, Problem> {
        let is_json = is_json(request.headers());
        if !is_json {
            return Err(Problem::new(
                StatusCode::UNSUPPORTED_MEDIA_TYPE,
                "not_json",
                "the body must be sent as application/json",
            ));
        }
        let bytes = read(request.into_body(), app).await?;
        parse(&bytes).map(Self)
    }
}

impl<T: DeserializeOwned + Default> FromRequest<Arc<App>> for OptionalBody<T> {
    type Rejection = Problem;

    async fn from_request(request: Request, app: &Arc<App>) -> Result<Self, Problem> {
        let is_json = is_json(request.headers());
        let bytes = read(request.into_body(), app).await?;
        match (bytes.is_empty(), is_json) {
            (true, _) => Ok(Self(T::default())),
            (false, true) => parse(&bytes).map(Self),
            (false, false) => Err(Problem::new(
                StatusCode::UNSUPPORTED_MEDIA_TYPE,
                "not_json",
                "the body must be sent as application/json",
            )),
        }
    }
}

/// Parameters in the path of a request.
pub(crate) struct Path<T>(pub(crate) T);

/// Parameters in the query of a request.
pub(crate) struct Query<T>(pub(crate) T);

impl<T: DeserializeOwned + Send, S: Send + Sync> FromRequestParts<S> for Path<T> {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, Problem> {
        let found = axum::extract::Path::from_request_parts(parts, state).await;
        found.map(|axum::extract::Path(names)| Self(names)).map_err(|refused: PathRejection| {
            Problem::new(refused.status(), "bad_value", refused.body_text())
        })
    }
}

impl<T: DeserializeOwned, S: Send + Sync> FromRequestParts<S> for Query<T> {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, Problem> {
        let found = axum::extract::Query::from_request_parts(parts, state).await;
        found.map(|axum::extract::Query(query)| Self(query)).map_err(|refused: QueryRejection| {
            Problem::new(refused.status(), "bad_value", refused.body_text())
        })
    }
}

fn is_json(headers: &HeaderMap) -> bool {
    let kind = headers.get(header::CONTENT_TYPE).and_then(|kind| kind.to_str().ok()).unwrap_or_default();
    let kind = kind.split(';').next().unwrap_or_default().trim();
    kind.eq_ignore_ascii_case("application/json")
}

/// The bytes of a body.
pub(crate) async fn read(body: Body, app: &App) -> Result<Bytes, Problem> {
    let limit = app.options.settings.max_body_kib.saturating_mul(1024);
    read_up_to(body, limit, app).await
}

/// The bytes of a body of at most so many.
pub(crate) async fn read_up_to(body: Body, limit: usize, app: &App) -> Result<Bytes, Problem> {
    let reading = std::pin::pin!(to_bytes(body, limit));
    match select(reading, app.clock.sleep(app.options.slow)).await {
        Either::Left((Ok(bytes), _)) => Ok(bytes),
        Either::Left((Err(error), _)) => {
            let is_long = std::error::Error::source(&error)
                .is_some_and(<dyn std::error::Error>::is::<http_body_util::LengthLimitError>);
            Err(if is_long {
                Problem::new(
                    StatusCode::PAYLOAD_TOO_LARGE,
                    "body_too_large",
                    format!("a body may have {limit} bytes"),
                )
                .with_help("raise max_body_kib in [server] of weft.toml")
            } else {
                Problem::bad_request("broken_body", "the body ended before its time")
            })
        }
        Either::Right(((), _)) => {
            Err(Problem::new(StatusCode::REQUEST_TIMEOUT, "slow_request", "the body took too long to come"))
        }
    }
}

fn parse<T: DeserializeOwned>(bytes: &[u8]) -> Result<T, Problem> {
    // Whether it is JSON at all is told apart from whether it has the right form.
    agent_types::read_json(bytes).map_err(|error| {
        let status = if error.is_data() { StatusCode::UNPROCESSABLE_ENTITY } else { StatusCode::BAD_REQUEST };
        let code = if error.is_data() { "bad_value" } else { "bad_json" };
        Problem::new(status, code, error.to_string())
    })
}
