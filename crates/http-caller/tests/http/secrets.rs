//! Secrets are sent where they belong and seen nowhere else: rows S50 and S51 of the threats.

use std::io::Write;
use std::sync::Mutex;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use http_caller::{HttpCaller, Scope};
use serde_json::{Value, json};

use crate::common::{Closed, SECRET, Server, call, caller, config, endpoint, ok_json, open, reply, secrets};

/// Every line that any library of the process logs, at the finest level.
struct Log(Mutex<String>);

static LOG: Log = Log(Mutex::new(String::new()));

impl log::Log for Log {
    fn enabled(&self, _: &log::Metadata<'_>) -> bool {
        true
    }

    fn log(&self, record: &log::Record<'_>) {
        self.0.lock().unwrap().extend([record.target(), " ", &record.args().to_string(), "\n"]);
    }

    fn flush(&self) {}
}

/// Returns `true` when a text reveals the secret in some form.
fn reveals(text: &str) -> bool {
    let base64 = STANDARD.encode(SECRET);
    [SECRET, "S3CR3T", "S3CR3T%2Fk%2By", "S3CR3T%2fk%2by", base64.trim_end_matches('=')]
        .iter()
        .any(|form| text.contains(form))
}

fn with_secrets(url: &str) -> Value {
    json!({
        "endpoint": {"url": format!("{url}?key={{$secret.KEY}}"), "headers": {"X-Api-Key": "{$secret.KEY}"}, "query_params": {"q": "{q}"}},
        "auth": {"type": "basic", "username": "me", "password": "{$secret.KEY}"},
    })
}

#[tokio::test]
async fn s50_a_secret_is_seen_nowhere() {
    // Another test may have set it; only this one looks.
    let _ = log::set_logger(&LOG);
    log::set_max_level(log::LevelFilter::Trace);
    let echo = |status: &'static str| {
        Server::start(move |_, request, stream| {
            let (head, _) = request.split_once("\r\n\r\n").unwrap();
            let body = json!({"head": head, "key": SECRET, SECRET: 1, "b64": STANDARD.encode(format!("me:{SECRET}"))}).to_string();
            let headers = format!("content-type: application/json\r\nx-echo: {SECRET}");
            stream.write_all(reply(status, &headers, &body).as_bytes()).unwrap();
        })
    };
    for status in ["200 OK", "500 Oops"] {
        let server = echo(status);
        let caller = caller(&server);
        let endpoint = endpoint(&with_secrets(&server.url("/")));
        let result = call(&caller, &endpoint, &json!({"q": "x"})).await;
        let request = server.only_request();
        assert!(request.contains("GET /?key=S3CR3T%2Fk%2By&q=x "), "{request}");
        assert!(request.contains(&format!("x-api-key: {SECRET}\r\n")), "{request}");
        assert!(
            request
                .contains(&format!("authorization: Basic {}\r\n", STANDARD.encode(format!("me:{SECRET}")))),
            "{request}"
        );
        let seen = match &result {
            Ok(answer) => format!("{answer:?} {} {}", answer.body, Value::from(answer.headers.clone())),
            Err(error) => format!("{error:?} {error}"),
        };
        assert!(seen.contains("***"), "{seen}");
        assert!(!reveals(&seen), "{seen}");
        for shown in [format!("{caller:?}"), format!("{endpoint:?}"), format!("{:?}", secrets())] {
            assert!(!reveals(&shown), "{shown}");
        }
    }
    let log = LOG.0.lock().unwrap().clone();
    assert!(log.contains("reqwest") || log.contains("hyper"), "the log is read: {log}");
    assert!(!reveals(&log), "{log}");
}

#[tokio::test]
async fn s50_a_secret_is_masked_where_it_was_cut_or_moved() {
    // The body is cut in the message; the secret stands across the cut.
    let body = format!("{}{SECRET} tail", "x".repeat(497));
    let server = Server::saying(&reply("500 Oops", "x: y", &body));
    let error =
        call(&caller(&server), &endpoint(&with_secrets(&server.url("/"))), &json!({})).await.unwrap_err();
    assert!(!error.to_string().contains("S3C"), "{error}");
    // A redirect that repeats the secret is refused without revealing it.
    let location = format!("location: http://127.0.0.1:1/{SECRET}?k={SECRET}");
    let server = Server::saying(&reply("302 Found", &location, ""));
    let error =
        call(&caller(&server), &endpoint(&with_secrets(&server.url("/"))), &json!({})).await.unwrap_err();
    assert_eq!(error.code(), "http_blocked");
    assert!(!reveals(&format!("{error} {error:?}")), "{error:?}");
    // Parts of an answer that a template puts together.
    let halves = json!({"a": "S3CR3", "b": "T/k+y"}).to_string();
    let server = Server::saying(&ok_json(&halves));
    let mut config = with_secrets(&server.url("/"));
    config["response"] = json!({"template": "{a}{b}"});
    let answer = call(&caller(&server), &endpoint(&config), &json!({})).await.unwrap();
    assert_eq!(answer.body, "***");
}

#[tokio::test]
async fn s51_no_argument_chooses_a_secret_or_where_it_goes() {
    let listener = Closed::new("127.0.0.1:0");
    let evil = format!("http://127.0.0.1:{}/?k={{$secret.KEY}}", listener.port());
    // A tool cannot let an argument be its address ...
    let whole = config(&json!({"endpoint": {"url": "{url}"}}));
    let error = http_caller::Endpoint::new(&whole, &Scope::open()).unwrap_err();
    assert_eq!(error.problems[0].code, "template_in_authority");
    // ... and an argument that looks like a placeholder is text.
    let server = Server::saying(&ok_json("{}"));
    let policy = open(&[&server.address.to_string()]);
    let caller = HttpCaller::builder(policy).secrets(secrets()).build();
    let endpoint = endpoint(
        &json!({"endpoint": {"url": server.url("/"), "query_params": {"url": "{url}"}, "body": {"u": "{url}"},
        "headers": {"X-Url": "{url}"}}}),
    );
    call(&caller, &endpoint, &json!({"url": evil})).await.unwrap();
    let request = server.only_request();
    assert!(!reveals(&request), "{request}");
    assert!(request.contains("{$secret.KEY}"), "{request}");
    listener.assert_untouched();
}

#[tokio::test]
async fn a_secret_that_is_not_set_is_said() {
    let server = Server::saying(&ok_json("{}"));
    let endpoint = endpoint(
        &json!({"endpoint": {"url": server.url("/")}, "auth": {"type": "bearer", "token": "{$secret.NOPE}"}}),
    );
    let error = call(&caller(&server), &endpoint, &json!({})).await.unwrap_err();
    assert_eq!((error.code(), error.to_string()), ("missing_secret", "the secret `NOPE` is not set".into()));
    assert_eq!(server.requests(), Vec::<String>::new());
}
