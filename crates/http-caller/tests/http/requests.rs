//! Requests as sent: rows S21 to S26 of the threats, and the plain cases.

use http_caller::Scope;
use serde_json::{Value, json};

use crate::common::{Server, call, call_in, caller, endpoint, faults, ok_json};

/// The request line and the body of one call.
async fn sent(call_config: Value, arguments: Value) -> (String, String) {
    let server = Server::saying(&ok_json("{}"));
    let mut config = call_config;
    config["endpoint"]["url"] = server.url(config["endpoint"]["url"].as_str().unwrap()).into();
    call(&caller(&server), &endpoint(&config), &arguments).await.unwrap();
    let request = server.only_request();
    let (head, body) = request.split_once("\r\n\r\n").unwrap();
    (head.lines().next().unwrap().trim_end_matches(" HTTP/1.1").to_owned(), body.to_owned())
}

/// The code of a call that sends nothing.
async fn refused(mut config: Value, arguments: Value) -> &'static str {
    let server = Server::saying(&ok_json("{}"));
    config["endpoint"]["url"] = server.url(config["endpoint"]["url"].as_str().unwrap()).into();
    let error = call(&caller(&server), &endpoint(&config), &arguments).await.unwrap_err();
    assert_eq!(server.requests(), Vec::<String>::new());
    error.code()
}

#[tokio::test]
async fn s21_a_value_in_the_path_is_one_segment() {
    let users = || json!({"endpoint": {"url": "/users/{id}/profile"}});
    for (id, line) in [
        (json!("../admin?x="), "GET /users/..%2Fadmin%3Fx%3D/profile"),
        (json!("a b"), "GET /users/a%20b/profile"),
        (json!("%2e%2e"), "GET /users/%252e%252e/profile"),
        (json!("..\\x#y;z"), "GET /users/..%5Cx%23y%3Bz/profile"),
        (json!("..."), "GET /users/.../profile"),
        (json!("名"), "GET /users/%E5%90%8D/profile"),
        (json!(7), "GET /users/7/profile"),
        (json!(["a", "b,c"]), "GET /users/a,b%2Cc/profile"),
    ] {
        assert_eq!(sent(users(), json!({"id": id})).await.0, line);
    }
    for id in [json!("."), json!(".."), json!(""), json!(null)] {
        assert_eq!(refused(users(), json!({"id": id})).await, "invalid_argument", "{id}");
    }
    for id in [".", "%2e"] {
        // Together with what the file writes, a value may not step up either.
        let config = json!({"endpoint": {"url": "/users/.{id}"}});
        let expected = if id == "." { "invalid_argument" } else { "" };
        if expected.is_empty() {
            assert_eq!(sent(config, json!({"id": id})).await.0, "GET /users/.%252e");
        } else {
            assert_eq!(refused(config, json!({"id": id})).await, expected);
        }
    }
}

#[test]
fn s22_scheme_host_and_port_hold_no_placeholder() {
    let check = |url: &str, expected: &[&str]| {
        let parameters =
            json!({"type": "object", "properties": {"host": {"enum": ["a.test"]}}, "required": ["host"]});
        let config = json!({"endpoint": {"url": url}});
        assert_eq!(faults(&config, &Scope::new(&parameters, &[])), expected, "{url}");
    };
    for url in [
        "https://{host}/x",
        "{host}",
        "{host}://a.test/",
        "https://a.{host}/",
        "https://a.test:{host}/",
        "https://a.test{host}",
        "http{host}://a.test/",
        "https:{host}",
    ] {
        check(url, &["template_in_authority"]);
    }
    check("https://user@evil.test/", &["secret_in_file"]);
    check("https://a.test/{host}", &[]);
    check("https://a.test#{host}", &["bad_url"]);
    check("https://a.test?{host}=1", &["bad_url"]);
    check("https:///x", &["bad_url"]);
    check("a.test/x", &["bad_url"]);
    check("https://a.test\\x/{host}", &["bad_url"]);
    check("", &["bad_url"]);
}

#[tokio::test]
async fn s23_a_value_in_the_query_is_one_pair() {
    for (q, line) in [
        (json!("a&admin=1#f"), "GET /?q=a%26admin%3D1%23f"),
        (json!("a+b c"), "GET /?q=a%2Bb%20c"),
        (json!([1, "x,y"]), "GET /?q=1,x%2Cy"),
        (json!({"a": 1}), "GET /?q=%7B%22a%22%3A1%7D"),
        (json!(true), "GET /?q=true"),
        (json!(""), "GET /?q="),
        (json!(null), "GET /"),
    ] {
        assert_eq!(sent(json!({"endpoint": {"url": "/?q={q}"}}), json!({"q": q})).await.0, line);
        let apart = json!({"endpoint": {"url": "/", "query_params": {"q": "{q}"}}});
        assert_eq!(sent(apart, json!({"q": q})).await.0, line);
    }
    let config = json!({"endpoint": {"url": "/?fixed=a%20b", "query_params": {"tag[]": ["{tags}"], "n": 3, "gone": "x{gone}"}}});
    let line = sent(config, json!({"tags": ["a", "b&c"]})).await.0;
    assert_eq!(line, "GET /?fixed=a%20b&tag%5B%5D=a&tag%5B%5D=b%26c&n=3");
}

#[tokio::test]
async fn s24_a_value_in_a_header_stays_on_its_line() {
    let config = || json!({"endpoint": {"url": "/", "headers": {"X-User": "{name}", "X-Gone": "a{gone}"}}});
    for name in ["a\r\nX-Admin: 1", "a\nb", "a\rb", "a\r\n b", "a\0b", "a\u{7f}", "a\tb"] {
        assert_eq!(refused(config(), json!({"name": name})).await, "invalid_header_value", "{name:?}");
    }
    let server = Server::saying(&ok_json("{}"));
    let mut config = config();
    config["endpoint"]["url"] = server.url("/").into();
    call(&caller(&server), &endpoint(&config), &json!({"name": "Zoë: a; b"})).await.unwrap();
    let request = server.only_request();
    assert!(request.contains("x-user: Zoë: a; b\r\n") && !request.contains("x-gone"), "{request}");
    for header in [
        "Host",
        "Content-Length",
        "Transfer-Encoding",
        "Connection",
        "Accept-Encoding",
        "Proxy-Authorization",
        "a b",
    ] {
        let config = json!({"endpoint": {"url": "https://a.test/", "headers": {header: "x"}}});
        assert_eq!(faults(&config, &Scope::open()), ["bad_header"], "{header}");
    }
}

#[tokio::test]
async fn s25_a_body_is_filled_as_a_tree() {
    let text = "\"},\"admin\":true,{\"\n\\ 😀";
    for body in [json!({"text": "{text}"}), json!("{\"text\": \"{text}\"}")] {
        let (line, body) = sent(json!({"endpoint": {"url": "/", "body": body}}), json!({"text": text})).await;
        assert_eq!(line, "POST /");
        assert_eq!(serde_json::from_str::<Value>(&body).unwrap(), json!({"text": text}));
    }
    let body = json!({"n": "{n}", "list": ["{n}", "{gone}"], "in": "n is {n}", "gone": "{gone}", "half": "a{gone}",
        "deep": {"x": "{user.names.1}"}, "braces": "{{n}}", "null": "{null}", "kept": null});
    let arguments = json!({"n": 7, "user": {"names": ["a", "b"]}, "null": null});
    let (_, sent_body) = sent(json!({"endpoint": {"url": "/", "body": body}}), arguments).await;
    assert_eq!(
        sent_body,
        r#"{"n":7,"list":[7],"in":"n is 7","deep":{"x":"b"},"braces":"{n}","null":null,"kept":null}"#
    );
    let (_, whole) =
        sent(json!({"endpoint": {"url": "/", "body": "{all}"}}), json!({"all": [1, {"a": 2.5}]})).await;
    assert_eq!(whole, r#"[1,{"a":2.5}]"#);
    let (_, empty) = sent(json!({"endpoint": {"url": "/", "body": {}}}), json!({})).await;
    assert_eq!(empty, "{}");
}

#[tokio::test]
async fn forms_and_plain_texts_are_bodies_too() {
    let form = json!({"endpoint": {"url": "/", "headers": {"Content-Type": "application/x-www-form-urlencoded"},
        "body": {"a": "{a}", "b": ["{b}"], "c": "{gone}"}}});
    assert_eq!(sent(form, json!({"a": "x&y=1", "b": 2})).await.1, "a=x%26y%3D1&b=2");
    let text = json!({"endpoint": {"url": "/", "method": "put", "headers": {"Content-Type": "text/plain"}, "body": "Hi {a}\n"}});
    assert_eq!(sent(text, json!({"a": "{b}"})).await, ("PUT /".into(), "Hi {b}\n".into()));
    let xml = |body: &str| {
        let config = json!({"endpoint": {"url": "https://a.test/", "headers": {"Content-Type": "application/xml"}, "body": body}});
        faults(&config, &Scope::open())
    };
    assert_eq!(xml("<a>{a}</a>"), ["bad_body"]);
    assert_eq!(xml("{a}"), Vec::<&str>::new());
}

#[tokio::test]
async fn s26_what_was_filled_in_is_never_expanded() {
    let config = json!({"endpoint": {"url": "/{id}?q={id}", "headers": {"X-A": "{id}"}, "body": {"a": "{id}", "t": "{$ctx.tenantId}"}}});
    for id in ["{tenantId}", "{{secret}}", "{$secret.KEY}", "{$ctx.tenantId}"] {
        let server = Server::saying(&ok_json("{}"));
        let mut config = config.clone();
        config["endpoint"]["url"] = server.url("/{id}?q={id}").into();
        let arguments = json!({"id": id, "tenantId": "mine", "$ctx.tenantId": "mine"});
        call_in(&caller(&server), &endpoint(&config), &arguments, &json!({"tenantId": "t1"})).await.unwrap();
        let request = server.only_request();
        let (head, body) = request.split_once("\r\n\r\n").unwrap();
        assert!(head.contains(&format!("x-a: {id}")), "{head}");
        assert!(!head.contains("t1") && !head.contains("S3CR3T"), "{head}");
        assert_eq!(serde_json::from_str::<Value>(body).unwrap(), json!({"a": id, "t": "t1"}));
    }
}

#[tokio::test]
async fn s26_context_wins_over_arguments() {
    let server = Server::saying(&ok_json("{}"));
    let parameters =
        json!({"type": "object", "properties": {"tenantId": {"type": "string"}, "q": {"type": "string"}}});
    let scope = Scope::new(&parameters, &["tenantId".to_owned()]);
    let config = crate::common::config(&json!({"endpoint": {"url": server.url("/{tenantId}?q={q}")}}));
    let endpoint = http_caller::Endpoint::new(&config, &scope).unwrap();
    let arguments = json!({"tenantId": "mine", "q": "x"});
    call_in(&caller(&server), &endpoint, &arguments, &json!({"tenantId": "t1"})).await.unwrap();
    assert!(server.only_request().starts_with("GET /t1?q=x "));
    let error = call(&caller(&server), &endpoint, &arguments).await.unwrap_err();
    assert_eq!(error.code(), "missing_context");
    assert_eq!(error.help().unwrap(), "give it with --ctx tenantId=VALUE");
}

#[test]
fn faults_are_reported_when_the_file_is_loaded() {
    let parameters = json!({"type": "object", "properties": {"city": {"type": "string"}, "user": {"type": "object",
        "properties": {"name": {"type": "string"}}}, "a.b": {"type": "string"}}, "required": ["city"]});
    let scope = Scope::new(&parameters, &["tenant".to_owned()]);
    let problems = |config: Value| {
        let error = http_caller::Endpoint::new(&crate::common::config(&config), &scope);
        error.map_or_else(|error| error.problems.iter().map(ToString::to_string).collect(), |_| Vec::new())
    };
    assert_eq!(
        problems(
            json!({"endpoint": {"url": "https://a.test/{citty}", "query_params": {"t": "{tennant}"}, "body": {"u": "{user.nmae}"}}})
        ),
        [
            "endpoint.url: `{citty}` names no parameter and no context value; did you mean `city`?",
            "endpoint.query_params.t: `{tennant}` names no parameter and no context value; did you mean `tenant`?",
            "endpoint.body: `{user.nmae}` names no parameter and no context value; did you mean `name`?",
        ]
    );
    for (config, code) in [
        (json!({"endpoint": {"url": "https://a.test/{user}"}}), "optional_in_path"),
        (json!({"endpoint": {"url": "https://a.test/?q={city"}}), "bad_template"),
        (json!({"endpoint": {"url": "https://a.test/", "body": "{\"a\": {city}}"}}), "bad_body"),
        (json!({"endpoint": {"url": "https://a.test/", "method": "HEAD", "body": {}}}), "bad_method"),
        (json!({"endpoint": {"url": "https://a.test/", "method": "BREW"}}), "bad_method"),
        (
            json!({"endpoint": {"url": "https://a.test/", "headers": {"Authorization": "Bearer abc"}}}),
            "secret_in_file",
        ),
        (
            json!({"endpoint": {"url": "https://a.test/"}, "auth": {"type": "bearer", "token": "abc"}}),
            "secret_in_file",
        ),
        (
            json!({"endpoint": {"url": "https://a.test/"}, "auth": {"type": "bearer", "token": "{city}"}}),
            "secret_in_file",
        ),
        (json!({"endpoint": {"url": "https://a.test/"}, "response": {"select": "$["}}), "bad_select"),
        (json!({"endpoint": {"url": "https://a.test/", "method": "POST"}, "retry": {"max": 1}}), "bad_retry"),
        (json!({"endpoint": {"url": "https://a.test/", "timeout_ms": 0}}), "bad_limit"),
    ] {
        assert_eq!(faults(&config, &scope), [code], "{config}");
    }
    for text in ["{a.b}", "{user.name}", "{$ctx.any}", "{tenant}", "{$secret.KEY}"] {
        assert_eq!(
            problems(json!({"endpoint": {"url": "https://a.test/", "query_params": {"q": text}}})),
            Vec::<String>::new()
        );
    }
}
