//! The page's files, built into the program.

use std::collections::BTreeMap;
use std::io::Write;
use std::sync::{Mutex, PoisonError};

use axum::extract::Request;
use axum::response::{IntoResponse, Response};
use bytes::Bytes;
use flate2::Compression;
use flate2::write::GzEncoder;
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
        (header::VARY, "accept-encoding"),
        (header::ETAG, tag.as_str()),
    ];
    if status != StatusCode::OK {
        return (status, headers).into_response();
    }
    let taken = request.headers().get(header::ACCEPT_ENCODING).and_then(|names| names.to_str().ok());
    let small = if taken.is_some_and(takes_gzip) { compressed(name, file.contents()) } else { None };
    match small {
        Some(small) => (headers, [(header::CONTENT_ENCODING, "gzip")], small).into_response(),
        None => (headers, file.contents()).into_response(),
    }
}

/// Whether `Accept-Encoding` names gzip, and not only to refuse it.
fn takes_gzip(names: &str) -> bool {
    names.split(',').any(|name| {
        let (coding, weight) = name.split_once(';').unwrap_or((name, ""));
        let refused =
            weight.trim().strip_prefix("q=").and_then(|q| q.parse().ok()).is_some_and(|q: f32| q <= 0.0);
        coding.trim().eq_ignore_ascii_case("gzip") && !refused
    })
}

/// A file, compressed when it is first asked for. None where that is not smaller.
fn compressed(name: &str, contents: &[u8]) -> Option<Bytes> {
    static SMALL: Mutex<BTreeMap<String, Option<Bytes>>> = Mutex::new(BTreeMap::new());
    // Nothing that can panic runs under this lock.
    let mut small = SMALL.lock().unwrap_or_else(PoisonError::into_inner);
    small
        .entry(name.to_owned())
        .or_insert_with(|| gzip(contents).filter(|small| small.len() < contents.len()))
        .clone()
}

fn gzip(contents: &[u8]) -> Option<Bytes> {
    let mut encoder = GzEncoder::new(Vec::new(), Compression::best());
    encoder.write_all(contents).ok()?;
    encoder.finish().ok().map(Bytes::from)
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
    use std::io::Read;
    use std::path::Path;

    use flate2::read::GzDecoder;

    use super::*;

    /// What `web/dist` was built from: every source file with its SHA-256.
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
    fn a_file_goes_compressed_to_those_who_take_it() {
        for (names, taken) in [
            ("gzip", true),
            ("br, GZIP;q=0.5", true),
            ("gzip;q=0", false),
            ("gzip; q=0.0, br", false),
            ("br", false),
            ("", false),
        ] {
            assert_eq!(takes_gzip(names), taken, "{names}");
        }
        let contents = FILES.get_file("index.html").unwrap().contents();
        let small = compressed("index.html", contents).unwrap();
        let mut again = Vec::new();
        GzDecoder::new(small.as_ref()).read_to_end(&mut again).unwrap();
        assert_eq!(again, contents);
        assert_eq!(compressed("tiny", b"a"), None);
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
