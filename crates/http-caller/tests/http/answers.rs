//! Answers: rows S27 to S29 of the threats, statuses, retries, shapes.

use std::io::Write;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use agent_types::{Clock, Timestamp, VirtualClock};
use flate2::Compression;
use flate2::write::GzEncoder;
use http_caller::{HttpCaller, HttpError};
use serde_json::{Value, json};

use crate::common::{Server, call, caller, endpoint, get, ok_json, open, reply};

/// Result of a call for an answer of that body, and its warnings.
async fn shaped(body: &str, response: Value) -> (Value, Vec<String>) {
    let server = Server::saying(&ok_json(body));
    let endpoint = endpoint(&json!({"endpoint": {"url": server.url("/")}, "response": response}));
    let answer = call(&caller(&server), &endpoint, &json!({"q": "argument"})).await.unwrap();
    (answer.body, answer.warnings)
}

#[tokio::test]
async fn s27_a_reply_template_names_the_answer_only() {
    let body = r#"{"name": "Ada", "list": [{"x": 1}], "none": null}"#;
    for (template, text, warnings) in [
        ("{result.name} {name} {list.0.x} {status}", "Ada Ada 1 200", 0),
        ("{result.list}", r#"[{"x":1}]"#, 0),
        ("{result.__class__}|{secret}|{0}|{q}|{env.PATH}", "||||", 5),
        ("{none}{{x}}", "{x}", 0),
    ] {
        let (value, warned) = shaped(body, json!({"template": template})).await;
        assert_eq!((value, warned.len()), (text.into(), warnings), "{template}");
    }
    let config = json!({"endpoint": {"url": "https://a.test/"}, "response": {"template": "{$secret.KEY}"}});
    assert_eq!(crate::common::faults(&config, &http_caller::Scope::open()), ["secret_in_file"]);
}

#[tokio::test]
async fn an_answer_is_selected() {
    let body = r#"{"items": [{"n": 1}, {"n": 2}]}"#;
    for (select, expected, warnings) in [
        ("$.items[0].n", json!(1), 0),
        ("$.items[*].n", json!([1, 2]), 0),
        ("$.items[?@.n > 1]", json!([{"n": 2}]), 0),
        ("$.gone", json!(null), 1),
        ("$..gone", json!([]), 0),
    ] {
        let (value, warned) = shaped(body, json!({"select": select})).await;
        assert_eq!((value, warned.len()), (expected, warnings), "{select}");
    }
}

fn gzip(bytes: &[u8]) -> Vec<u8> {
    let mut encoder = GzEncoder::new(Vec::new(), Compression::fast());
    encoder.write_all(bytes).unwrap();
    encoder.finish().unwrap()
}

#[tokio::test]
async fn gzip_is_read() {
    let server = Server::start(|_, request, stream| {
        assert!(request.contains("accept-encoding: gzip\r\n"), "{request}");
        let body = gzip(b"{\"a\": 1}");
        let head =
            format!("HTTP/1.1 200 OK\r\ncontent-encoding: gzip\r\ncontent-length: {}\r\n\r\n", body.len());
        stream.write_all(head.as_bytes()).unwrap();
        stream.write_all(&body).unwrap();
    });
    assert_eq!(
        call(&caller(&server), &get(&server.url("/")), &json!({})).await.unwrap().body,
        json!({"a": 1})
    );
}

#[tokio::test]
async fn an_answer_without_a_body_is_no_broken_gzip() {
    let server = Server::saying(
        "HTTP/1.1 200 OK\r\ncontent-encoding: gzip\r\ncontent-length: 20\r\nconnection: close\r\n\r\n",
    );
    let head = endpoint(&json!({"endpoint": {"url": server.url("/"), "method": "HEAD"}}));
    let answer = call(&caller(&server), &head, &json!({})).await.unwrap();
    assert_eq!((answer.status, answer.body), (200, json!(null)));
    let broken = Server::saying(&reply("200 OK", "content-encoding: gzip", "no gzip"));
    let error = call(&caller(&broken), &get(&broken.url("/")), &json!({})).await.unwrap_err();
    assert_eq!(error.code(), "http_bad_answer");
}

#[tokio::test]
async fn s28_a_bomb_stops_at_the_cap() {
    let bomb = Server::start(|_, _, stream| {
        // 1,024 members of a mebibyte of zeros each, until the client has had enough.
        let member = gzip(&vec![0; 1024 * 1024]);
        let _ = stream.write_all(b"HTTP/1.1 200 OK\r\ncontent-encoding: gzip\r\n\r\n");
        let _ = (0..1024).try_for_each(|_| stream.write_all(&member));
    });
    let endless = Server::start(|_, _, stream| {
        let _ = stream.write_all(b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n");
        while stream.write_all(b"10\r\n0123456789abcdef\r\n").is_ok() {}
    });
    for server in [bomb, endless] {
        let error = call(&caller(&server), &get(&server.url("/")), &json!({})).await.unwrap_err();
        assert_eq!(error, HttpError::TooLarge { limit: 1024 * 1024 });
        assert_eq!(error.code(), "http_too_large");
    }
}

#[tokio::test]
async fn s28_a_slow_drip_ends_at_the_deadline() {
    let dripping = Arc::new(AtomicBool::new(false));
    let drips = Arc::clone(&dripping);
    let server = Server::start(move |_, _, stream| {
        let _ = stream.write_all(b"HTTP/1.1 200 OK\r\ncontent-length: 1000\r\n\r\n");
        while stream.write_all(b"x").is_ok() && !drips.load(Ordering::SeqCst) {
            drips.store(true, Ordering::SeqCst);
        }
        // The connection stays open until the client closes it.
        let mut rest = Vec::new();
        let _ = std::io::Read::read_to_end(stream, &mut rest);
    });
    let clock = VirtualClock::new(Timestamp::default());
    let policy = open(&[&server.address.to_string()]);
    let caller = HttpCaller::builder(policy).clock(Arc::new(clock.clone())).build();
    let endpoint = endpoint(&json!({"endpoint": {"url": server.url("/"), "timeout_ms": 2000}}));
    let arguments = json!({});
    let calling = call(&caller, &endpoint, &arguments);
    let time = async {
        while !dripping.load(Ordering::SeqCst) {
            tokio::task::yield_now().await;
        }
        clock.advance(Duration::from_secs(2));
        std::future::pending::<()>().await;
    };
    tokio::select! {
        result = calling => assert_eq!(result.unwrap_err(), HttpError::Timeout { limit: Duration::from_secs(2) }),
        () = time => {}
    }
}

#[tokio::test]
async fn s29_a_wrong_length_and_an_encoding_that_was_not_requested() {
    let server = Server::start(|_, _, stream| {
        let _ =
            stream.write_all(b"HTTP/1.1 200 OK\r\ncontent-type: text/plain\r\ncontent-length: 10\r\n\r\n");
        let _ = stream.write_all(&vec![b'x'; 1024 * 1024]);
    });
    assert_eq!(call(&caller(&server), &get(&server.url("/")), &json!({})).await.unwrap().body, "xxxxxxxxxx");
    for encoding in ["br", "zstd", "deflate", "gzip, gzip"] {
        let server = Server::saying(&reply("200 OK", &format!("content-encoding: {encoding}"), "xx"));
        let error = call(&caller(&server), &get(&server.url("/")), &json!({})).await.unwrap_err();
        assert_eq!(error.code(), "http_bad_answer", "{encoding}");
        assert!(error.to_string().contains(&format!("`{encoding}`, which was not asked for")), "{error}");
    }
}

#[tokio::test]
async fn a_status_from_400_is_an_error_with_a_part_of_the_body() {
    let server = Server::saying(&reply("404 Not Found", "x: y", "  no such thing  "));
    let error = call(&caller(&server), &get(&server.url("/")), &json!({})).await.unwrap_err();
    assert_eq!(error.to_string(), "HTTP 404: no such thing");
    assert!(!error.is_retryable());
    let server = Server::saying(&reply("500 Oops", "x: y", &"é".repeat(2000)));
    let error = call(&caller(&server), &get(&server.url("/")), &json!({})).await.unwrap_err();
    assert_eq!(error.to_string(), format!("HTTP 500: {}…", "é".repeat(500)));
    assert!(error.is_retryable());
}

#[tokio::test]
async fn a_text_is_read_in_the_charset_that_the_server_names() {
    for (content_type, body, expected) in [
        ("text/html; charset=gbk", &b"\xc4\xe3\xba\xc3"[..], json!("你好")),
        ("text/plain;Charset=\"ISO-8859-1\"", b"caf\xe9", json!("café")),
        ("text/plain; charset=shift_jis; x=y", b"\x93\xfa", json!("日")),
        ("application/xml; charset=utf-16", b"\xfe\xff\0<\0a", json!("<a")),
        ("application/json; charset=iso-8859-1", "\"é\"".as_bytes(), json!("é")),
        ("application/json; charset=gbk", b"{\"a\": \"\xc4\xe3\"}", json!({"a": "你"})),
        ("text/plain; charset=klingon", "é".as_bytes(), json!("é")),
        (
            "text/plain; charset=klingon",
            b"\xe9",
            json!({"content_type": "text/plain", "bytes": 1, "base64": "6Q=="}),
        ),
        (
            "text/plain; charset=gbk",
            b"\xff",
            json!({"content_type": "text/plain", "bytes": 1, "base64": "/w=="}),
        ),
        (
            "image/png; charset=iso-8859-1",
            b"\xe9",
            json!({"content_type": "image/png", "bytes": 1, "base64": "6Q=="}),
        ),
    ] {
        let head = format!("content-type: {content_type}\r\ncontent-length: {}\r\n\r\n", body.len());
        let server = Server::start(move |_, _, stream| {
            let answer = [b"HTTP/1.1 200 OK\r\n", head.as_bytes(), body].concat();
            stream.write_all(&answer).unwrap();
        });
        let answer = call(&caller(&server), &get(&server.url("/")), &json!({})).await.unwrap();
        assert_eq!(answer.body, expected, "{content_type}");
    }
}

#[tokio::test]
async fn a_body_that_is_not_text_is_described_by_its_bytes() {
    let server = Server::start(|_, _, stream| {
        stream
            .write_all(b"HTTP/1.1 200 OK\r\ncontent-type: image/png\r\ncontent-length: 2\r\n\r\n\xff\xfe")
            .unwrap();
    });
    let answer = call(&caller(&server), &get(&server.url("/")), &json!({})).await.unwrap();
    assert_eq!(answer.body, json!({"content_type": "image/png", "bytes": 2, "base64": "//4="}));
    let server = Server::saying("HTTP/1.1 204 No Content\r\n\r\n");
    assert_eq!(call(&caller(&server), &get(&server.url("/")), &json!({})).await.unwrap().body, json!(null));
}

#[tokio::test]
async fn an_unreachable_server_is_reported_without_the_path() {
    // Bound without listening, so that no other process gets the port meanwhile.
    let held = tokio::net::TcpSocket::new_v4().unwrap();
    held.bind("127.0.0.1:0".parse().unwrap()).unwrap();
    let closed = held.local_addr().unwrap();
    let caller = HttpCaller::builder(open(&["127.0.0.1"])).build();
    let error =
        call(&caller, &get(&format!("http://{closed}/private/path?q=1")), &json!({})).await.unwrap_err();
    assert_eq!(error.code(), "http_unreachable");
    assert!(error.to_string().starts_with(&format!("{closed} cannot be reached: ")), "{error}");
    assert!(!error.to_string().contains("private"), "{error}");
}

/// Runs a call while virtual time advances a millisecond at a time.
async fn in_time(server: &Server, config: Value) -> (Result<Value, HttpError>, Duration) {
    let clock = VirtualClock::new(Timestamp::default());
    let policy = open(&[&server.address.to_string()]);
    let caller = HttpCaller::builder(policy).clock(Arc::new(clock.clone())).build();
    let endpoint = endpoint(&config);
    let arguments = json!({});
    let calling = call(&caller, &endpoint, &arguments);
    let time = async {
        loop {
            tokio::task::yield_now().await;
            clock.advance(Duration::from_millis(1));
        }
    };
    tokio::select! {
        result = calling => (result.map(|answer| answer.body), clock.elapsed()),
        () = time => unreachable!("time never ends"),
    }
}

#[tokio::test]
async fn a_get_is_tried_again_as_the_server_asks() {
    let server = Server::start(|count, _, stream| {
        let answer = match count {
            1 => reply("429 Too Many Requests", "retry-after: 7", ""),
            2 => reply("503 Service Unavailable", "x: y", ""),
            _ => ok_json("\"at last\""),
        };
        stream.write_all(answer.as_bytes()).unwrap();
    });
    let config = json!({"endpoint": {"url": server.url("/"), "timeout_ms": 86_400_000}, "retry": {"max": 2, "backoff_ms": 100}});
    let (result, took) = in_time(&server, config).await;
    assert_eq!(result.unwrap(), "at last");
    assert!(took >= Duration::from_millis(7000 + 200), "{took:?}");
    assert_eq!(server.requests().len(), 3);
}

#[tokio::test]
async fn a_wait_that_outlasts_the_call_is_none() {
    let server = Server::saying(&reply("503 Service Unavailable", "retry-after: 3600", "later"));
    let config = json!({"endpoint": {"url": server.url("/"), "timeout_ms": 3_000_000}, "retry": {"max": 5}});
    let (result, _) = in_time(&server, config).await;
    assert_eq!(result.unwrap_err().to_string(), "HTTP 503: later");
    assert_eq!(server.requests().len(), 1);
}

#[tokio::test]
async fn nothing_is_tried_again_unless_the_file_says_so() {
    let server = Server::saying(&reply("503 Service Unavailable", "x: y", ""));
    let (result, _) =
        in_time(&server, json!({"endpoint": {"url": server.url("/"), "timeout_ms": 86_400_000}})).await;
    assert_eq!(result.unwrap_err().code(), "http_status");
    assert_eq!(server.requests().len(), 1);
}
