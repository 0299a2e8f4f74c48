//! The page's files, built into the program.

use axum::extract::Request;
use axum::response::{IntoResponse, Response};
use http::{Method, StatusCode, header};
use include_dir::{Dir, include_dir};
use sha2::{Digest, Sha256};

use crate::problem::Problem;

static FILES: Dir<'_> = include_dir!("$CARGO_MANIFEST_DIR/web/dist");

/// A file of the page, or that there is nothing.
pub(crate) async fn file(request: Request) -> Response {
    let path = request.uri().path().trim_start_matches('/');
    let name = if path.is_empty() { "index.html" } else { path };
    let found = FILES.get_file(name).filter(|_| matches!(*request.method(), Method::GET | Method::HEAD));
    let Some(file) = found else {
        return Problem::not_found("not_found", "there is nothing at this address").into_response();
    };
    // Names stay the same from build to build: a browser asks each time, and is told when it has the file already.
    let tag = format!("\"{:.32}\"", format!("{:x}", Sha256::digest(file.contents())));
    let seen = request.headers().get(header::IF_NONE_MATCH).and_then(|tags| tags.to_str().ok());
    let status =
        if seen.is_some_and(|tags| tags.contains(&tag)) { StatusCode::NOT_MODIFIED } else { StatusCode::OK };
    let headers = [
        (header::CONTENT_TYPE, media_type(name)),
        (header::CACHE_CONTROL, "no-cache"),
        (header::ETAG, tag.as_str()),
    ];
    if status != StatusCode::OK {
        return (status, headers).into_response();
    }
    (headers, file.contents()).into_response()
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

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;
    use std::path::Path;

    use super::*;

    /// Sources of `web/dist`: every source file with its SHA-256.
    fn sources() -> BTreeMap<String, String> {
        let web = Path::new(env!("CARGO_MANIFEST_DIR")).join("web");
        let manifest = std::fs::read_to_string(web.join("dist/manifest.json")).unwrap();
        serde_json::from_str(&manifest).unwrap()
    }

    fn add(folder: &Path, web: &Path, found: &mut BTreeMap<String, String>) {
        for entry in std::fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            let name = path.strip_prefix(web).unwrap().to_string_lossy().replace('\\', "/");
            if path.is_dir() {
                add(&path, web, found);
            } else if !name.ends_with(".test.ts") {
                let text = std::fs::read_to_string(&path).unwrap().replace("\r\n", "\n");
                found.insert(name, format!("{:x}", Sha256::digest(text)));
            }
        }
    }

    #[test]
    fn the_built_page_is_that_of_its_sources() {
        let web = Path::new(env!("CARGO_MANIFEST_DIR")).join("web");
        let mut found = BTreeMap::new();
        add(&web.join("src"), &web, &mut found);
        for name in [
            "index.html",
            "package.json",
            "package-lock.json",
            "public/icon.svg",
            "svelte.config.js",
            "vite.config.ts",
        ] {
            let text = std::fs::read_to_string(web.join(name)).unwrap().replace("\r\n", "\n");
            found.insert(name.to_owned(), format!("{:x}", Sha256::digest(text)));
        }
        assert_eq!(found, sources(), "run `cargo xtask web`");
    }

    #[test]
    fn the_first_view_loads_only_what_is_there() {
        let index = FILES.get_file("index.html").unwrap().contents_utf8().unwrap();
        let linked = index.split(['"']).filter(|word| word.starts_with("./assets/"));
        let linked: Vec<&str> = linked.map(|word| word.trim_start_matches("./")).collect();
        assert!(!linked.is_empty());
        for name in linked {
            assert!(FILES.get_file(name).is_some(), "{name}");
        }
    }
}
