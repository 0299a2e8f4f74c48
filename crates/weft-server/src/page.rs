//! The page's files, built into the program.

use axum::extract::Request;
use axum::response::{IntoResponse, Response};
use http::{Method, StatusCode, header};
use include_dir::{Dir, include_dir};

use crate::problem::Problem;

static FILES: Dir<'_> = include_dir!("$CARGO_MANIFEST_DIR/web");

/// A file of the page, or that there is nothing.
pub(crate) async fn file(request: Request) -> Response {
    let path = request.uri().path().trim_start_matches('/');
    let name = if path.is_empty() { "index.html" } else { path };
    let found = FILES.get_file(name).filter(|_| matches!(*request.method(), Method::GET | Method::HEAD));
    let Some(file) = found else {
        return Problem::not_found("not_found", "there is nothing at this address").into_response();
    };
    let headers = [(header::CONTENT_TYPE, media_type(name)), (header::CACHE_CONTROL, caching(name))];
    (StatusCode::OK, headers, file.contents()).into_response()
}

/// Names of built files hold a digest of what they hold; the others may change with the program.
fn caching(name: &str) -> &'static str {
    if name.starts_with("assets/") { "public, max-age=31536000, immutable" } else { "no-cache" }
}

fn media_type(name: &str) -> &'static str {
    match name.rsplit_once('.').map(|(_, ending)| ending) {
        Some("html") => "text/html; charset=utf-8",
        Some("js" | "mjs") => "text/javascript; charset=utf-8",
        Some("css") => "text/css; charset=utf-8",
        Some("json" | "webmanifest" | "map") => "application/json",
        Some("svg") => "image/svg+xml",
        Some("png") => "image/png",
        Some("ico") => "image/x-icon",
        Some("woff2") => "font/woff2",
        Some("txt") => "text/plain; charset=utf-8",
        _ => "application/octet-stream",
    }
}
