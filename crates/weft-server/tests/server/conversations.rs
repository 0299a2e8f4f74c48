//! Conversations: everything that was said, in order, and messages that come while one is answered.

use serde_json::{Value, json};
use weft_harness::StubServer;

use crate::common::{PLAIN, Running, pause, project, serve, serve_beside, serve_with, write};
use crate::http::{parse, raw, request};

const PATH: &str = "/api/chat/plain/threads/t/messages";

/// A project with flows whose endpoint answers with this status.
fn desk(status: u16) -> Running {
    let stub = StubServer::json(move |_| (status, json!({"id": 7})));
    let settings = format!(
        "script = \"script.jsonl\"\n[store]\nsync = \"normal\"\n[network]\nallow = [\"{}\"]\n[texts.en]\nfailed = \"Oh no.\"\n",
        stub.address
    );
    let flows = json!({
        "flows": [
            {"flow_id": "leave", "trigger_patterns": ["leave"], "response_template": "Request {result.id} is sent.",
                "endpoint": {"url": format!("http://{}/leave", stub.address), "method": "POST"},
                "on_error": {"reply": "Try tomorrow."}},
            {"flow_id": "other", "trigger_patterns": ["other"],
                "endpoint": {"url": format!("http://{}/other", stub.address), "method": "POST"}}],
        "system_actions": [{"action_id": "human", "handler": "handoff", "trigger_patterns": ["a person"]}]
    });
    let script = "{\"text\": \"Hello.\", \"repeat\": true}\n";
    let folder = project(&[
        PLAIN,
        ("flows.json", &flows.to_string()),
        ("weft.toml", &settings),
        ("script.jsonl", script),
    ]);
    serve_with(folder, |_| ())
}

async fn say(server: &Running, text: &str) -> Value {
    let begun = server.post(PATH, &json!({"text": text})).await.expect(202).json();
    let run = begun["run"].as_str().unwrap().to_owned();
    server.events(&run).await;
    server.get(&format!("/api/runs/{run}")).await.json()
}

/// Author and text of each message.
async fn said(server: &Running) -> Vec<String> {
    let messages = server.get(PATH).await.expect(200).json();
    let shown = |message: &Value| {
        format!("{}: {}", message["author"].as_str().unwrap(), message["text"].as_str().unwrap())
    };
    messages.as_array().unwrap().iter().map(shown).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn everything_that_was_said_is_in_the_conversation() {
    let server = desk(200);
    for text in ["hi", "I want leave", "a person please", "anyone?"] {
        say(&server, text).await;
    }
    assert_eq!(
        said(&server).await,
        [
            "user: hi",
            "agent: Hello.",
            "user: I want leave",
            "flow: Request 7 is sent.",
            "user: a person please",
            "action: You are being connected to a person...",
            "user: anyone?"
        ]
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn a_failed_flow_answers_in_every_client() {
    let server = desk(500);
    let failed = say(&server, "I want leave").await;
    assert_eq!((&failed["status"], &failed["text"]), (&json!("error"), &json!("Try tomorrow.")));
    say(&server, "the other").await;
    let messages = server.get(PATH).await.expect(200).json();
    assert_eq!((&messages[1]["text"], &messages[1]["failed"]), (&json!("Try tomorrow."), &json!(true)));
    assert_eq!(messages[3]["text"], "Oh no.", "{messages}");
    let asked = json!({"model": "plain", "messages": [{"role": "user", "content": "leave"}], "weft": {"thread": "t"}});
    let answer = server.post("/v1/chat/completions", &asked).await.expect(200).json();
    assert_eq!(answer["choices"][0]["message"]["content"], "Try tomorrow.");
    assert_eq!((&answer["weft"]["failed"], &answer["weft"]["exit"]), (&json!(true), &json!("tool_error")));
    let mut streamed = asked.clone();
    streamed["stream"] = true.into();
    let answer = server.post("/v1/chat/completions", &streamed).await.expect(200).body;
    assert!(answer.contains("Try tomorrow.") && answer.contains("\"failed\":true"), "{answer}");
    assert!(answer.trim_end().ends_with("[DONE]"), "{answer}");
}

#[tokio::test(flavor = "multi_thread")]
async fn an_exchange_stays_when_the_next_one_fails() {
    // The script ends behind the first answer.
    let server = serve(&[PLAIN, ("script.jsonl", "{\"text\": \"One.\"}\n")]);
    say(&server, "first").await;
    say(&server, "second").await;
    let said = said(&server).await;
    assert_eq!(said[..3], ["user: first", "agent: One.", "user: second"], "{said:?}");
}

/// Answers, of which the first takes so many milliseconds.
fn slow(ms: u64, count: usize) -> String {
    let answer = |at: usize| {
        let sleep = if at == 1 { ms } else { 20 };
        format!("{{\"text\": \"Answer {at}.\", \"sleep_ms\": {sleep}}}\n")
    };
    (1..=count).map(answer).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn messages_queue_in_order_up_to_a_limit() {
    let server = serve(&[PLAIN, ("script.jsonl", &slow(3000, 20))]);
    let mut runs = Vec::new();
    for at in 0..17 {
        let begun = server.post(PATH, &json!({"text": format!("m{at}")})).await.expect(202).json();
        assert_eq!(begun["place"].as_u64().unwrap_or(0), at, "{begun}");
        runs.push(begun["run"].as_str().unwrap().to_owned());
    }
    assert_eq!(server.post(PATH, &json!({"text": "x"})).await.expect(409).code(), "thread_full");
    let again = json!({"text": "again", "busy": "reject", "message_id": "again"});
    assert_eq!(server.post(PATH, &again).await.expect(409).code(), "thread_busy");
    let queued = server.events(&runs[3]).await;
    assert_eq!((&queued[0]["type"], &queued[0]["data"]["place"]), (&json!("run.queued"), &json!(3)));
    server.post(&format!("/api/runs/{}/cancel", runs[15]), &json!({})).await.expect(202);
    server.until(&runs[16], "ok").await;
    server.until(&runs[15], "cancelled").await;
    let said = said(&server).await;
    let expected: Vec<String> = (0..17)
        .filter(|at| *at != 15)
        .enumerate()
        .flat_map(|(nth, at)| [format!("user: m{at}"), format!("agent: Answer {}.", nth + 1)])
        .collect();
    let all = server.get("/api/runs?limit=50").await.json();
    let failed: Vec<&Value> = all
        .as_array()
        .unwrap()
        .iter()
        .filter(|run| !["ok", "cancelled"].contains(&run["status"].as_str().unwrap()))
        .collect();
    assert_eq!(said, expected, "{failed:?}");
    // A message that was refused is taken when it comes again.
    let begun = server.post(PATH, &again).await.expect(202).json();
    assert!(begun.get("repeated").is_none(), "{begun}");
    server.until(begun["run"].as_str().unwrap(), "ok").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_message_that_steers_is_the_next() {
    let call = r#"{"text": "<ACTION><workflow__sleep><value>x</value></workflow__sleep></ACTION>"}"#;
    let script = format!("{call}\n{{\"text\": \"Now.\", \"sleep_ms\": 100}}\n{{\"text\": \"Then.\"}}\n");
    let agent = r#"{"id": "plain", "name": "Plain", "tool_ids_inventory": ["workflow:sleep"]}"#;
    let server =
        serve(&[("agents/plain.json", agent), crate::common::SLEEP, ("script.jsonl", script.as_str())]);
    let begin = async |text: &str, busy: &str| {
        let begun = server.post(PATH, &json!({"text": text, "busy": busy})).await.expect(202).json();
        begun["run"].as_str().unwrap().to_owned()
    };
    let first = begin("first", "queue").await;
    let second = begin("second", "queue").await;
    // The call has begun.
    pause(150).await;
    let third = begin("third", "steer").await;
    server.until(&first, "cancelled").await;
    let events = server.events(&first).await;
    assert!(events.iter().any(|event| event["type"] == "agent.tool.finished"), "{events:?}");
    server.until(&third, "ok").await;
    server.until(&second, "ok").await;
    let users: Vec<String> =
        said(&server).await.into_iter().filter(|message| message.starts_with("user")).collect();
    assert_eq!(users, ["user: first", "user: third", "user: second"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_message_that_comes_twice_is_answered_once() {
    let server = serve(&[PLAIN, ("script.jsonl", &slow(50, 3))]);
    let body = json!({"text": "hi", "message_id": "m1"});
    let all = futures::future::join_all((0..4).map(|_| server.post(PATH, &body))).await;
    let begun: Vec<Value> = all.into_iter().map(|answer| answer.expect(202).json()).collect();
    assert!(begun.iter().all(|one| one["run"] == begun[0]["run"]), "{begun:?}");
    assert_eq!(begun.iter().filter(|one| one["repeated"] == true).count(), 3, "{begun:?}");
    server.until(begun[0]["run"].as_str().unwrap(), "ok").await;
    let asked =
        json!({"model": "plain", "messages": [{"role": "user", "content": "hi"}], "weft": {"thread": "t"}});
    for key in ["m1", "m1", "m2"] {
        let answer = server
            .send("POST", "/v1/chat/completions", &[("idempotency-key", key)], &asked.to_string())
            .await
            .expect(200)
            .json();
        let expected = if key == "m1" { "Answer 1." } else { "Answer 2." };
        assert_eq!(answer["choices"][0]["message"]["content"], expected, "{key}");
    }
    assert_eq!(said(&server).await.len(), 4);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_stateless_completion_leaves_no_conversation_and_no_timer() {
    let flows = r#"{"timers": [{"timer_id": "idle", "delay_ms": 20, "action": {"reply": "Still there?"}}]}"#;
    let server = serve(&[PLAIN, ("flows.json", flows)]);
    let asked = json!({"model": "plain", "messages": [{"role": "user", "content": "hi"}]});
    let answer = server.post("/v1/chat/completions", &asked).await.expect(200).json();
    assert_eq!(answer["choices"][0]["message"]["content"], "Hello.");
    pause(150).await;
    assert_eq!(server.get("/api/chat/plain/threads").await.expect(200).json(), json!([]));
    assert_eq!(server.get("/api/runs").await.expect(200).json().as_array().unwrap().len(), 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_queued_message_waits_for_the_answer_to_a_question() {
    let ask = r#"{"text": "<ACTION><workflow__ask></workflow__ask></ACTION>", "sleep_ms": 150}"#;
    let script =
        format!("{ask}\n{{\"text\": \"Thanks.\"}}\n{{\"text\": \"Next.\"}}\n{{\"text\": \"Last.\"}}\n");
    let agent = r#"{"id": "plain", "name": "Plain", "tool_ids_inventory": ["workflow:ask"]}"#;
    let server =
        serve(&[("agents/plain.json", agent), crate::common::ASK, ("script.jsonl", script.as_str())]);
    let first = server.post(PATH, &json!({"text": "first"})).await.expect(202).json();
    let second = server.post(PATH, &json!({"text": "second"})).await.expect(202).json();
    let third = server.post(PATH, &json!({"text": "third"})).await.expect(202).json();
    let waits = server.until(first["run"].as_str().unwrap(), "waiting").await;
    pause(100).await;
    let second = second["run"].as_str().unwrap();
    assert_eq!(server.get(&format!("/api/runs/{second}")).await.json()["status"], "running");
    server.post(&format!("/api/runs/{second}/cancel"), &json!({})).await.expect(202);
    server.until(second, "cancelled").await;
    // It makes no difference whether the question was there before the message.
    let fourth = server.post(PATH, &json!({"text": "fourth"})).await.expect(202).json();
    assert_eq!(fourth["place"], 2, "{fourth}");
    let rejects = json!({"text": "fifth", "busy": "reject"});
    let refused = server.post(PATH, &rejects).await.expect(409);
    assert_eq!((refused.code().as_str(), &refused.json()["run"]), ("run_waiting", &first["run"]));
    let ask = waits["asks"][0]["ask"].as_str().unwrap().replace('/', "%2F").replace('#', "%23");
    let path = format!("/api/asks/{}.{ask}", first["run"].as_str().unwrap());
    server.post(&path, &json!({"answer": "blue"})).await.expect(202);
    server.until(third["run"].as_str().unwrap(), "ok").await;
    server.until(fourth["run"].as_str().unwrap(), "ok").await;
    let users: Vec<String> =
        said(&server).await.into_iter().filter(|message| message.starts_with("user")).collect();
    assert_eq!(users, ["user: first", "user: third", "user: fourth"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn messages_at_two_servers_are_answered_in_their_order() {
    let one = serve(&[PLAIN, ("script.jsonl", &slow(800, 4))]);
    let other = serve_beside(&one);
    let mut last = Value::Null;
    for (at, server) in [&one, &other, &one, &other].into_iter().enumerate() {
        last = server.post(PATH, &json!({"text": format!("m{at}")})).await.expect(202).json();
        assert_eq!(last["place"].as_u64().unwrap_or(0), at as u64, "{last}");
    }
    let rejects = json!({"text": "x", "busy": "reject"});
    one.until(last["run"].as_str().unwrap(), "ok").await;
    let expected: Vec<String> =
        (0..4).flat_map(|at| [format!("user: m{at}"), format!("agent: Answer {}.", at + 1)]).collect();
    assert_eq!(said(&one).await, expected);
    // Neither server has the conversation now.
    let after = other.post(PATH, &rejects).await.expect(202).json();
    other.until(after["run"].as_str().unwrap(), "error").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_message_that_comes_again_at_another_server_follows_its_run() {
    let one = serve(&[PLAIN, ("script.jsonl", &slow(700, 2))]);
    let other = serve_beside(&one);
    let body = json!({"text": "hi", "message_id": "m1"});
    let begun = one.post(PATH, &body).await.expect(202).json();
    let again = other.post(PATH, &body).await.expect(202).json();
    assert_eq!((&again["run"], &again["repeated"]), (&begun["run"], &json!(true)));
    let asked =
        json!({"model": "plain", "messages": [{"role": "user", "content": "hi"}], "weft": {"thread": "t"}});
    let key = [("idempotency-key", "m1")];
    let answer =
        other.send("POST", "/v1/chat/completions", &key, &asked.to_string()).await.expect(200).json();
    assert_eq!(answer["choices"][0]["message"]["content"], "Answer 1.");
    assert_eq!(said(&other).await, ["user: hi", "agent: Answer 1."]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_queued_message_of_a_server_that_has_ended_is_answered_by_another() {
    let mut one = serve(&[PLAIN, ("script.jsonl", &slow(60_000, 2))]);
    let first = one.post(PATH, &json!({"text": "first"})).await.expect(202).json();
    let second = one.post(PATH, &json!({"text": "second"})).await.expect(202).json();
    one.handle.abandon();
    one.ended().await;
    write(one.folder.path(), "script.jsonl", "{\"text\": \"Hello.\"}\n");
    let other = serve_beside(&one);
    // What has begun outside of sessions is resumed or discarded by its owner; what waits, waits for that.
    let first = first["run"].as_str().unwrap();
    assert_eq!(other.get(&format!("/api/runs/{first}")).await.json()["status"], "interrupted");
    other.post(&format!("/api/runs/{first}/cancel"), &json!({})).await.expect(202);
    other.until(second["run"].as_str().unwrap(), "ok").await;
    let said = said(&other).await;
    assert_eq!(said[said.len() - 2..], ["user: second", "agent: Hello."], "{said:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn messages_behind_a_question_do_not_hold_up_the_end() {
    let ask = r#"{"text": "<ACTION><workflow__ask></workflow__ask></ACTION>"}"#;
    let agent = r#"{"id": "plain", "name": "Plain", "tool_ids_inventory": ["workflow:ask"]}"#;
    let folder = project(&[("agents/plain.json", agent), crate::common::ASK, ("script.jsonl", ask)]);
    let mut server = serve_with(folder, |options| options.settings.grace_ms = 600_000);
    let mut runs = Vec::new();
    for text in ["first", "second", "third"] {
        let begun = server.post(PATH, &json!({"text": text})).await.expect(202).json();
        runs.push(begun["run"].as_str().unwrap().to_owned());
    }
    server.until(&runs[0], "waiting").await;
    pause(100).await;
    server.handle.close();
    tokio::select! {
        () = server.ended() => {}
        () = pause(20_000) => panic!("they wait for an answer"),
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn both_sides_of_a_session_follow_it() {
    let mut server = desk(200);
    say(&server, "a person please").await;
    let listed = server.get("/api/sessions?waiting=true").await.expect(200).json();
    assert_eq!((&listed[0]["session"], &listed[0]["with"]), (&json!("t"), &json!("person")), "{listed}");
    let follows = server.get("/api/sessions/t/events?after=1");
    let acts = async {
        pause(200).await;
        let said = json!({"person": "ann", "text": "I am Ann."});
        server.post("/api/sessions/t/messages", &said).await.expect(200);
        let refused = server.post("/api/sessions/t/take", &json!({"person": "bob"})).await.expect(409);
        assert_eq!(refused.code(), "session_taken");
        pause(700).await;
        server.post("/api/sessions/t/give-back", &json!({"person": "ann"})).await.expect(200);
        pause(700).await;
        server.handle.close();
    };
    let (stream, ()) = futures::join!(follows, acts);
    let stream = stream.body;
    assert!(!stream.contains("a person please"), "the first message was known: {stream}");
    for part in ["id: 3\nevent: message\n", "I am Ann.", "event: state\n", "\"with\":\"agent\""] {
        assert!(stream.contains(part), "{part}: {stream}");
    }
    server.ended().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_flow_runs_by_its_id() {
    let server = desk(200);
    let begun = server.post("/api/flows/leave", &json!({"session": "t"})).await.expect(202).json();
    let done = server.until(begun["run"].as_str().unwrap(), "ok").await;
    assert_eq!(done["text"], "Request 7 is sent.");
    assert_eq!(said(&server).await, ["flow: Request 7 is sent."]);
    assert_eq!(server.post("/api/flows/leav", &json!({})).await.expect(404).code(), "unknown_flow");
    let unknown = server.post("/api/flows/leave", &json!({"inputs": {"x": 1}})).await.expect(422);
    assert_eq!(unknown.code(), "unknown_parameter");
    let body = json!({"session": "u"});
    let (other, queued) =
        futures::join!(server.post("/api/flows/leave", &body), server.post("/api/flows/leav", &body));
    assert_eq!((other.expect(202).status, queued.expect(404).status), (202, 404));
}

#[tokio::test(flavor = "multi_thread")]
async fn the_end_of_a_server_answers_completions_that_wait() {
    let script = ("script.jsonl", "{\"chunks\": [\"Slowly.\"], \"hang\": true}\n");
    for is_stream in [false, true] {
        let mut server = serve_with(project(&[PLAIN, script]), |options| options.settings.grace_ms = 50);
        let asked =
            json!({"model": "plain", "stream": is_stream, "messages": [{"role": "user", "content": "hi"}]});
        let (host, bearer) = (server.host(), format!("Bearer {}", server.token));
        let headers = [
            ("host", host.as_str()),
            ("authorization", bearer.as_str()),
            ("content-type", "application/json"),
        ];
        let request = request("POST", "/v1/chat/completions", &headers, &asked.to_string());
        let answer = raw(server.address, &request);
        let ends = async {
            pause(300).await;
            let run = server.get("/api/runs").await.json()[0]["run"].as_str().unwrap().to_owned();
            server.handle.close();
            run
        };
        let (answer, run) = futures::join!(answer, ends);
        let answer = parse(&answer.unwrap());
        assert!(answer.body.contains(&format!("\"run\":\"{run}\"")), "{}", answer.body);
        assert!(answer.body.contains("shutting_down"), "{}", answer.body);
        assert_eq!(answer.status, if is_stream { 200 } else { 503 });
        assert_eq!(answer.body.contains("[DONE]"), is_stream, "{}", answer.body);
        server.ended().await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_suggested_reply_leaves_nothing_in_the_session() {
    let server = desk(200);
    for text in ["hi", "a person please", "my parcel is late"] {
        say(&server, text).await;
    }
    let before = said(&server).await;
    let begun = server.post("/api/sessions/t/suggest", &json!({})).await.expect(202).json();
    let run = begun["run"].as_str().unwrap();
    server.until(run, "ok").await;
    let shown = server.get(&format!("/api/runs/{run}")).await.json();
    assert_eq!((&shown["text"], &shown["thread"]), (&json!("Hello."), &Value::Null));
    assert_eq!(said(&server).await, before);
    let request = server.get(&format!("/api/runs/{run}/requests/1")).await.expect(200).json().to_string();
    for text in ["my parcel is late", "You are being connected", "suggestion"] {
        assert!(request.contains(text), "{text} in {request}");
    }
    assert_eq!(server.post("/api/sessions/.x/suggest", &json!({})).await.expect(400).code(), "bad_thread");
}

/// A project with a flow that asks which colour.
fn painter(script: &str) -> Running {
    let flows = json!({"flows": [{"flow_id": "paint", "trigger_patterns": ["paint"],
        "target": {"workflow": "ask"}, "response_template": "It becomes {result}."}]});
    serve(&[PLAIN, crate::common::ASK, ("flows.json", &flows.to_string()), ("script.jsonl", script)])
}

#[tokio::test(flavor = "multi_thread")]
async fn messages_beside_the_answer_to_a_flow_wait_for_their_turn() {
    let server = painter("{\"text\": \"Hello.\", \"repeat\": true}\n");
    for round in 0..5 {
        let path = format!("/api/chat/plain/threads/t{round}/messages");
        let asks = server.post(&path, &json!({"text": "paint it"})).await.expect(202).json();
        server.until(asks["run"].as_str().unwrap(), "waiting").await;
        let bodies = ["green", "soon", "please"].map(|text| json!({"text": text, "message_id": text}));
        let sent = futures::future::join_all(bodies.iter().map(|body| server.post(&path, body))).await;
        for answer in sent {
            let run = answer.expect(202).json();
            server.until(run["run"].as_str().unwrap(), "ok").await;
        }
        let said = server.get(&path).await.expect(200).json().to_string();
        let count = |part: &str| said.matches(part).count();
        assert_eq!((count("It becomes"), count("Hello."), count("\"author\":\"user\"")), (1, 2, 4), "{said}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn messages_that_cannot_be_resumed_end_with_their_error() {
    let flows = json!({"system_actions": [{"action_id": "human", "handler": "handoff", "trigger_patterns": ["a person"]}]});
    let slow = "{\"text\": \"Hello.\", \"sleep_ms\": 60000}\n";
    let mut one = serve(&[PLAIN, ("flows.json", &flows.to_string()), ("script.jsonl", slow)]);
    let first = one.post(PATH, &json!({"text": "first"})).await.expect(202).json();
    let second = one.post(PATH, &json!({"text": "second"})).await.expect(202).json();
    pause(200).await;
    one.handle.abandon();
    one.ended().await;
    for name in ["flows.json", "agents/plain.json"] {
        std::fs::remove_file(one.folder.path().join(name)).unwrap();
    }
    write(one.folder.path(), "agents/other.json", r#"{"id": "other", "name": "Other"}"#);
    let other = serve_beside(&one);
    for begun in [first, second] {
        let ended = other.until(begun["run"].as_str().unwrap(), "error").await;
        assert_eq!(ended["text"], Value::Null, "{ended}");
    }
}
