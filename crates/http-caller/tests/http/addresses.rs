//! Targets of requests: rows S12 to S20 of the threats.

use std::io::Write;

use http_caller::{HttpCaller, NetworkPolicy, Scope};
use serde_json::json;

use crate::common::{
    Closed, Names, Server, blocked, call, caller, endpoint, faults, get, ok_json, open, reply, secrets,
};

fn strict() -> HttpCaller {
    HttpCaller::builder(NetworkPolicy::public_only()).build()
}

#[tokio::test]
async fn s12_literal_private_addresses_are_refused_before_a_socket_opens() {
    let listener = Closed::new("0.0.0.0:0");
    let port = listener.port();
    let caller = strict();
    for url in [
        format!("http://127.0.0.1:{port}/"),
        format!("http://0.0.0.0:{port}/"),
        "http://10.0.0.1/".into(),
        "http://[::1]/".into(),
        "http://169.254.169.254/".into(),
        "http://100.64.0.1/".into(),
        "http://192.168.1.1/".into(),
        "http://224.0.0.1/".into(),
        "https://[fe80::1]/".into(),
        "https://[ff02::1]/".into(),
    ] {
        assert_eq!(blocked(call(&caller, &get(&url), &json!({})).await), ("private_address", 0), "{url}");
    }
    listener.assert_untouched();
}

#[tokio::test]
async fn s13_odd_spellings_are_refused_after_normalisation() {
    let listener = Closed::new("127.0.0.1:0");
    let port = listener.port();
    let caller = strict();
    for host in [
        "2130706433",
        "0x7f.1",
        "0x7f000001",
        "0177.0.0.1",
        "017700000001",
        "127.1",
        "127.0.0.1.",
        "[::ffff:127.0.0.1]",
        "[::ffff:7f00:1]",
        "localhost",
        "localhost.",
        "LOCALHOST",
        "a.localhost",
        "ⓛocalhost",
        "１２７.0.0.1",
        "127。0。0。1",
        "%31%32%37.0.0.1",
    ] {
        let url = format!("http://{host}:{port}/");
        assert_eq!(blocked(call(&caller, &get(&url), &json!({})).await), ("private_address", 0), "{url}");
    }
    listener.assert_untouched();
}

#[tokio::test]
async fn s14_addresses_inside_addresses_are_refused() {
    let caller = strict();
    for host in [
        "2002:7f00:1::",
        "64:ff9b::7f00:1",
        "64:ff9b:1::7f00:1",
        "2001:0:7f00:1::",
        "2001::1",
        "2606:4700::5efe:127.0.0.1",
        "::127.0.0.1",
        "::ffff:0:127.0.0.1",
        "fec0::1",
        "fd00::1",
    ] {
        let url = format!("http://[{host}]/");
        assert_eq!(blocked(call(&caller, &get(&url), &json!({})).await), ("private_address", 0), "{url}");
    }
}

#[tokio::test]
async fn s15_metadata_is_refused_even_where_private_hosts_are_open() {
    let addresses = [
        "169.254.169.254",
        "169.254.170.2",
        "169.254.170.23",
        "168.63.129.16",
        "100.100.100.200",
        "fd00:ec2::254",
    ];
    for address in addresses {
        // The name is open, so private answers would do; where credentials are handed out is not.
        let caller =
            HttpCaller::builder(open(&["inside.test"])).resolver(Names::new("inside.test", &[&[address]]));
        let caller = caller.build();
        let result = call(&caller, &get("http://inside.test/"), &json!({})).await;
        assert_eq!(blocked(result), ("metadata_address", 0), "{address}");
    }
    let names = Names::new("metadata.google.internal", &[&["169.254.169.254"]]);
    let caller = HttpCaller::builder(NetworkPolicy::public_only()).resolver(names.clone()).build();
    let result = call(&caller, &get("http://metadata.google.internal/"), &json!({})).await;
    assert_eq!(blocked(result), ("private_address", 0));
    assert_eq!(names.count(), 0, "refused by its name");
}

#[tokio::test]
async fn s15_metadata_is_reached_where_it_is_listed_itself() {
    // Nothing of the kind answers on loopback, so the name stands for it.
    let server = Server::saying(&ok_json("{}"));
    let port = server.address.port();
    let names = Names::new("metadata.google.internal", &[&["127.0.0.1"]]);
    let policy = open(&[&format!("metadata.google.internal:{port}")]);
    let caller = HttpCaller::builder(policy).resolver(names).build();
    let url = format!("http://metadata.google.internal:{port}/");
    assert_eq!(call(&caller, &get(&url), &json!({})).await.unwrap().status, 200);
}

#[tokio::test]
async fn s16_a_name_with_a_private_answer_is_refused() {
    let listener = Closed::new("127.0.0.1:0");
    let port = listener.port();
    for answers in [&["10.0.0.5"][..], &["93.184.215.14", "127.0.0.1"], &["::1"], &["64:ff9b::7f00:1"]] {
        let names = Names::new("evil.test", &[answers]);
        let caller = HttpCaller::builder(NetworkPolicy::public_only()).resolver(names.clone()).build();
        let result = call(&caller, &get(&format!("http://evil.test:{port}/")), &json!({})).await;
        assert_eq!(blocked(result), ("private_address", 0), "{answers:?}");
        assert_eq!(names.count(), 1);
    }
    listener.assert_untouched();
}

#[tokio::test]
async fn s17_the_checked_address_is_the_connected_one() {
    let server = Server::saying(&ok_json("{}"));
    let port = server.address.port();
    let elsewhere = Closed::new(&format!("127.0.0.2:{port}"));
    let names = Names::new("rebind.test", &[&["127.0.0.1"], &["127.0.0.2"]]);
    let caller = HttpCaller::builder(open(&["rebind.test"])).resolver(names.clone()).build();
    call(&caller, &get(&format!("http://rebind.test:{port}/")), &json!({})).await.unwrap();
    assert_eq!(names.count(), 1, "one resolution a hop");
    assert!(server.only_request().contains(&format!("host: rebind.test:{port}\r\n")), "the name stays");
    elsewhere.assert_untouched();
}

#[tokio::test]
async fn s17_a_second_answer_is_checked_like_the_first() {
    let server = Server::saying(&ok_json("{}"));
    let port = server.address.port();
    let names = Names::new("rebind.test", &[&["127.0.0.1"], &["169.254.169.254"]]);
    let caller = HttpCaller::builder(open(&["rebind.test"])).resolver(names).build();
    let endpoint = get(&format!("http://rebind.test:{port}/"));
    call(&caller, &endpoint, &json!({})).await.unwrap();
    assert_eq!(blocked(call(&caller, &endpoint, &json!({})).await), ("metadata_address", 0));
}

#[tokio::test]
async fn s18_a_redirect_to_a_private_address_is_refused() {
    let inside = Closed::new("127.0.0.1:0");
    for target in [
        format!("http://127.0.0.1:{}/", inside.port()),
        format!("http://2130706433:{}/", inside.port()),
        format!("//localhost:{}/x", inside.port()),
    ] {
        let server = Server::saying(&reply("302 Found", &format!("location: {target}"), ""));
        let result = call(&caller(&server), &get(&server.url("/")), &json!({})).await;
        assert_eq!(blocked(result), ("private_address", 1), "{target}");
    }
    inside.assert_untouched();
}

#[tokio::test]
async fn s18_five_redirects_are_followed_and_no_more() {
    let server = Server::start(|count, _, stream| {
        let answer = if count <= 5 {
            reply("302 Found", &format!("location: /{count}"), "")
        } else {
            ok_json("\"there\"")
        };
        stream.write_all(answer.as_bytes()).unwrap();
    });
    let answer = call(&caller(&server), &get(&server.url("/")), &json!({})).await.unwrap();
    assert_eq!(answer.body, "there");
    assert!(server.requests()[5].starts_with("GET /5 "));
    let endless = Server::saying(&reply("302 Found", "location: /again", ""));
    let result = call(&caller(&endless), &get(&endless.url("/")), &json!({})).await;
    assert_eq!(blocked(result), ("too_many_redirects", 6));
    assert_eq!(endless.requests().len(), 6);
}

#[tokio::test]
async fn s19_credentials_stay_at_their_origin() {
    let other = Server::saying(&ok_json("\"elsewhere\""));
    let location = format!("location: {}", other.url("/moved"));
    let server = Server::saying(&reply("302 Found", &location, ""));
    let policy = open(&[&server.address.to_string(), &other.address.to_string()]);
    let caller = HttpCaller::builder(policy).secrets(secrets()).build();
    let endpoint = endpoint(&json!({
        "endpoint": {"url": server.url("/?k={$secret.KEY}"), "headers": {"Cookie": "s={$secret.KEY}", "X-Api-Key": "{$secret.KEY}",
            "X-Trace": "1", "Accept": "application/json"}},
        "auth": {"type": "bearer", "token": "{$secret.KEY}"},
    }));
    assert_eq!(call(&caller, &endpoint, &json!({})).await.unwrap().body, "elsewhere");
    let first = server.only_request();
    assert!(
        first.contains("authorization: Bearer S3CR3T/k+y\r\n") && first.contains("cookie: s="),
        "{first}"
    );
    let second = other.only_request();
    assert!(second.starts_with("GET /moved HTTP/1.1\r\n"), "{second}");
    for gone in ["authorization", "cookie", "x-api-key", "x-trace", "S3CR3T"] {
        assert!(!second.contains(gone), "{gone}: {second}");
    }
    assert!(second.contains("accept: application/json\r\n"), "{second}");
}

#[tokio::test]
async fn s19_a_body_stays_at_its_origin() {
    let other = Closed::new("127.0.0.1:0");
    let location = format!("location: http://127.0.0.1:{}/", other.port());
    let server = Server::saying(&reply("307 Temporary Redirect", &location, ""));
    let policy = open(&["127.0.0.1"]);
    let caller = HttpCaller::builder(policy).build();
    let endpoint = endpoint(&json!({"endpoint": {"url": server.url("/"), "body": {"a": "{a}"}}}));
    assert_eq!(blocked(call(&caller, &endpoint, &json!({"a": 1})).await), ("cross_origin_body", 1));
    other.assert_untouched();
}

#[tokio::test]
async fn s20_other_schemes_are_refused() {
    for url in
        ["file:///etc/passwd", "gopher://x.test/1", "ftp://x.test/", "data:text/plain,x", "unix:/run/x.sock"]
    {
        assert_eq!(faults(&json!({"endpoint": {"url": url}}), &Scope::open()), ["bad_scheme"], "{url}");
        let server = Server::saying(&reply("302 Found", &format!("location: {url}"), ""));
        assert_eq!(
            blocked(call(&caller(&server), &get(&server.url("/")), &json!({})).await),
            ("scheme", 1),
            "{url}"
        );
    }
    let server = Server::saying(&reply("302 Found", "location: http://user:pass@example.com/", ""));
    assert_eq!(blocked(call(&caller(&server), &get(&server.url("/")), &json!({})).await), ("user_info", 1));
}
