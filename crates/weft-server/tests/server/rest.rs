//! REST, from the project's files to runs and their questions.

use serde_json::json;

use crate::common::{ASK, COUNT, PLAIN, SLEEP, pause, project, seqs, serve, serve_with, write};

/// An agent that looks at the clock, which a person must approve.
const CAREFUL: (&str, &str) = (
    "agents/careful.json",
    r#"{"id": "careful", "name": "Careful", "tool_ids_inventory": ["system:get_current_time"],
        "approval": {"tools": {"system:get_current_time": "ask"}}}"#,
);

const CAREFUL_SCRIPT: (&str, &str) = (
    "script.jsonl",
    r#"{"text": "I look.\n<ACTION><tool name=\"system:get_current_time\"><timezone>UTC</timezone></tool></ACTION>"}
{"text": "It is late."}
"#,
);

#[tokio::test(flavor = "multi_thread")]
async fn lists_have_ids() {
    let server = serve(&[PLAIN, COUNT]);
    let meta = server.send("GET", "/api/meta", &[("authorization", "")], "").await.expect(200);
    assert_eq!(meta.json()["name"], "weft");
    for (path, id) in [
        ("/api/agents", "plain"),
        ("/api/workflows", "count"),
        ("/api/nodes", "core:TextMerge"),
        ("/api/tools", "workflow:count"),
        ("/v1/models", "plain"),
    ] {
        let list = server.get(path).await.expect(200).json();
        let list = list.as_array().or_else(|| list["data"].as_array()).unwrap();
        assert!(list.iter().any(|entry| entry["id"] == id), "{path}: {list:?}");
    }
    let nodes = server.get("/api/nodes?lang=zh").await.expect(200).json();
    let merge = nodes.as_array().unwrap().iter().find(|node| node["id"] == "core:TextMerge").unwrap();
    assert_eq!(
        (&merge["title"], &merge["definition"]["inputs"]["text_inputs"]["displayName"]),
        (&json!("合并文本"), &json!("各文本"))
    );
    let described = server.get("/api/openapi.json").await.expect(200).json();
    assert_eq!(described["openapi"], "3.1.0");
    assert_eq!(server.get("/api/agents/plan").await.expect(404).code(), "unknown_agent");
    assert_eq!(server.get("/api/nothing").await.expect(404).code(), "not_found");
    for path in
        ["/api/runs?limit=abc", "/api/runs/%ff", "/api/asks?run=%ff&x=%", "/api/runs/r/events?after_seq=-1"]
    {
        let answer = server.get(path).await;
        assert!(
            answer.status < 500 && (answer.status == 200 || !answer.code().is_empty()),
            "{path}: {answer:?}"
        );
    }
    assert_eq!(server.get("/api/runs?limit=abc").await.expect(400).code(), "bad_value");
    assert_eq!(server.get("/api/runs/%ff").await.expect(400).code(), "bad_value");
    assert_eq!(server.post("/api/meta", &json!({})).await.expect(405).code(), "method_not_allowed");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_save_says_what_it_replaces() {
    let server = serve(&[COUNT]);
    let read = server.get("/api/workflows/count").await.expect(200);
    let tag = read.header("etag").unwrap().to_owned();
    let mut workflow = read.json()["workflow"].clone();
    workflow["description"] = json!("Counts on.");
    let body = workflow.to_string();
    let save = async |headers: &[(&str, &str)], id: &str| {
        server.send("PUT", &format!("/api/workflows/{id}"), headers, &body).await
    };
    assert_eq!(save(&[], "count").await.expect(428).code(), "match_required");
    assert_eq!(save(&[("if-match", "\"other\"")], "count").await.expect(412).code(), "changed_meanwhile");
    assert_eq!(save(&[("if-none-match", "*")], "count").await.expect(412).code(), "exists_already");
    let saved = save(&[("if-match", &tag)], "count").await.expect(200);
    assert_ne!(saved.header("etag"), Some(tag.as_str()));
    assert_eq!(save(&[("if-match", &tag)], "count").await.expect(412).code(), "changed_meanwhile");
    save(&[("if-none-match", "*")], "more%2Fcopy").await.expect(200);
    let list = server.get("/api/workflows").await.json();
    assert_eq!(list[1]["id"], "more/copy");
    assert_eq!(list[1]["description"], "Counts on.");
    let on_disk = std::fs::read_to_string(server.folder.path().join("workflows/more/copy.json")).unwrap();
    assert_eq!(serde_json::from_str::<serde_json::Value>(&on_disk).unwrap(), workflow);
}

#[tokio::test(flavor = "multi_thread")]
async fn files_are_seen_when_they_change() {
    let server = serve(&[COUNT]);
    write(server.folder.path(), "workflows/new.json", COUNT.1);
    for _ in 0..100 {
        if server.get("/api/workflows/new").await.status == 200 {
            return;
        }
        pause(20).await;
    }
    panic!("the new workflow was never seen");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_save_beside_a_file_that_cannot_be_read_says_so() {
    let server = serve(&[COUNT]);
    let bad = server.folder.path().join("tools");
    std::fs::write(&bad, "no folder").unwrap();
    let save = async || server.send("PUT", "/api/workflows/later", &[("if-none-match", "*")], COUNT.1).await;
    let refused = save().await.expect(422);
    assert_eq!(refused.code(), "unreadable_file");
    assert!(refused.json()["detail"].as_str().unwrap().contains("tools"), "{}", refused.body);
    std::fs::remove_file(bad).unwrap();
    std::fs::remove_file(server.folder.path().join("workflows/later.json")).unwrap();
    save().await.expect(200);
}

#[tokio::test(flavor = "multi_thread")]
async fn workflows_are_checked_placed_and_shown_as_tools() {
    let server = serve(&[COUNT]);
    let schema = server.get("/api/workflows/count/schema").await.expect(200).json();
    assert_eq!(schema["name"], "workflow:count");
    assert_eq!(schema["parameters"]["properties"]["n"]["type"], "integer");
    let good = server.send("POST", "/api/workflows/count/validate", &[], "").await.expect(200).json();
    assert_eq!(good, json!({"ok": true, "problems": []}));
    let broken = json!({"nodes": [{"id": "a", "type": "core:Nothing"}], "edges": []});
    let bad = server.post("/api/workflows/count/validate", &broken).await.expect(200).json();
    assert_eq!(bad["problems"][0]["code"], "unknown_type");
    let tools = json!({"nodes": [], "edges": [], "availableTools": {"initial": ["workflow:coutn"]}});
    let bad = server.post("/api/workflows/other/validate", &tools).await.expect(200).json();
    assert_eq!(bad["problems"][0]["code"], "unknown_tool", "{bad}");
    assert_eq!(bad["problems"][0]["suggest"], "workflow:count");
    let placed = server.send("POST", "/api/workflows/count/layout", &[], "").await.expect(200).json();
    assert_eq!(placed["nodes"].as_array().unwrap().len(), 6);
}

#[tokio::test(flavor = "multi_thread")]
async fn the_page_goes_compressed_to_those_who_take_it() {
    let server = serve(&[]);
    for (takes, how) in [("gzip, br", Some("gzip")), ("gzip;q=0", None), ("identity", None)] {
        let page = server.send("GET", "/index.html", &[("accept-encoding", takes)], "").await.expect(200);
        let found = page.headers.iter().find(|(name, _)| name == "content-encoding");
        assert_eq!(found.map(|(_, value)| value.as_str()), how, "{takes}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn tools_are_checked_and_called() {
    let server = serve(&[COUNT]);
    let path = |what: &str| format!("/api/tools/workflow:count{what}");
    assert_eq!(server.get(&path("")).await.expect(200).json()["kind"], "workflow");
    let checked = server.post(&path("/check"), &json!({"arguments": {"n": "3"}})).await.expect(200).json();
    assert_eq!((&checked["ok"], &checked["arguments"]), (&json!(true), &json!({"n": 3})));
    assert_eq!(checked["coercions"].as_array().unwrap().len(), 1);
    let checked = server.post(&path("/check"), &json!({"arguments": {"m": 3}})).await.expect(200).json();
    assert_eq!(checked["problems"][0]["code"], "unknown_parameter");
    let called = server.post(&path("/call"), &json!({"arguments": {"n": 3}})).await.expect(200).json();
    assert_eq!((&called["ok"], &called["result"]), (&json!(true), &json!(3)));
    assert!(called["run"].is_string());
    let called = server.post(&path("/call"), &json!({"arguments": {}})).await.expect(200).json();
    assert_eq!(called["error"]["code"], "missing_parameter");
    for (tool, arguments, said) in
        [("update_world", json!({"changes": {"k": "v"}}), ""), ("read_world", json!({"key": "k"}), "v")]
    {
        let path = format!("/api/tools/system:{tool}/call");
        let called = server.post(&path, &json!({"arguments": arguments})).await.expect(200).json();
        assert_eq!(called["ok"], true, "{tool}: {called}");
        assert!(called["result"].to_string().contains(said), "{tool}: {called}");
    }
    for (tool, code) in [("nothing", "unknown_tool"), ("mcp:none/x", "unknown_mcp_server")] {
        let path = format!("/api/tools/{}/call", tool.replace('/', "%2f"));
        assert_eq!(server.post(&path, &json!({})).await.expect(404).code(), code);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn an_agent_is_given_tools_and_loses_them() {
    let server = serve(&[PLAIN, COUNT]);
    let path = "/api/agents/plain/tools/workflow:count";
    let given = server.send("PUT", path, &[], "").await.expect(200);
    assert_eq!(given.json()["tools"][0]["id"], "workflow:count");
    let tag = given.header("etag").unwrap().to_owned();
    let stale = server.send("DELETE", path, &[("if-match", "\"x\"")], "").await.expect(412);
    assert_eq!(stale.code(), "changed_meanwhile");
    let taken = server.send("DELETE", path, &[("if-match", &tag)], "").await.expect(200);
    assert_eq!(taken.json()["tools"], json!([]));
    assert_eq!(server.send("DELETE", path, &[], "").await.expect(404).code(), "unknown_tool");
}

#[tokio::test(flavor = "multi_thread")]
async fn runs_tell_their_events_and_what_came_of_them() {
    let server = serve(&[PLAIN, COUNT]);
    let done = server.ask("plain", "hi").await;
    assert_eq!(
        (&done["status"], &done["exit"], &done["text"]),
        (&json!("ok"), &json!("completed"), &json!("Hello."))
    );
    // A script begins anew for every run.
    assert_eq!(server.ask("plain", "hi").await["text"], "Hello.");
    let run = server.begin(&json!({"workflow": "count", "inputs": {"n": "5"}})).await;
    let events = server.events(&run).await;
    assert_eq!(seqs(&events), (1..=events.len() as u64).collect::<Vec<_>>());
    assert_eq!(server.get(&format!("/api/runs/{run}")).await.json()["outputs"], json!({"last": 5}));
    let page = server
        .send("GET", &format!("/api/runs/{run}/events?after_seq=3"), &[("accept", "application/json")], "")
        .await
        .expect(200);
    assert_eq!(page.json(), json!(events[3..]));
    let bad = json!({"workflow": "count", "inputs": {"m": 5}});
    assert_eq!(server.post("/api/runs", &bad).await.expect(422).code(), "unknown_parameter");
    assert_eq!(server.post("/api/runs", &json!({})).await.expect(422).code(), "bad_value");
    assert_eq!(server.post("/api/runs", &json!({"agnet": 1})).await.expect(422).code(), "bad_value");
    assert_eq!(server.get("/api/runs/r1").await.expect(404).code(), "unknown_run");
}

#[tokio::test(flavor = "multi_thread")]
async fn runs_are_listed_page_by_page() {
    let server = serve(&[PLAIN]);
    let mut begun = Vec::new();
    for _ in 0..5 {
        begun.push(server.ask("plain", "hi").await["run"].clone());
    }
    begun.reverse();
    let mut path = "/api/runs?limit=2&agent=plain".to_owned();
    let mut seen = Vec::new();
    loop {
        let page = server.get(&path).await.expect(200);
        seen.extend(page.json().as_array().unwrap().iter().map(|run| run["run"].clone()));
        match page.header("link") {
            Some(link) => path = link.trim_start_matches('<').split('>').next().unwrap().to_owned(),
            None => break,
        }
    }
    assert_eq!(seen, begun);
    assert_eq!(server.get("/api/runs?status=error").await.json(), json!([]));
    assert_eq!(server.get("/api/runs?status=odd").await.expect(400).code(), "bad_status");
    assert_eq!(server.get("/api/runs?cursor=odd").await.expect(400).code(), "bad_cursor");
    for (at, count) in [(i64::MAX, 5), (i64::MIN, 0)] {
        let page = server.get(&format!("/api/runs?cursor={at}.x")).await.expect(200).json();
        assert_eq!(page.as_array().unwrap().len(), count, "{at}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_call_is_approved_or_denied() {
    let server = serve(&[CAREFUL, CAREFUL_SCRIPT]);
    let run = server.begin(&json!({"agent": "careful", "message": "how late is it"})).await;
    let waiting = server.until(&run, "waiting").await;
    assert_eq!((&waiting["exit"], &waiting["asks"][0]["ask"]), (&json!("awaiting_approval"), &json!("c1")));
    let open = server.get("/api/asks").await.expect(200).json();
    assert_eq!(open[0]["id"], json!(format!("{run}.c1")));
    assert_eq!(
        server.post("/api/asks/c9", &json!({"approve": true})).await.expect(404).code(),
        "unknown_ask"
    );
    assert_eq!(server.post("/api/asks/c1", &json!({})).await.expect(422).code(), "bad_value");
    let approved = server.post("/api/asks/c1", &json!({"approve": true})).await.expect(202);
    assert_eq!(approved.json()["run"], json!(run));
    assert_eq!(server.until(&run, "ok").await["text"], "It is late.");
    let gone = server.post(&format!("/api/asks/{run}.c1"), &json!({"approve": true})).await.expect(404);
    assert_eq!(gone.code(), "unknown_ask");
    let request = async |place: &str| server.get(&format!("/api/runs/{run}/requests/{place}")).await;
    let second = request("2").await.expect(200).json();
    assert_eq!((&second["turn"], &second["model"]), (&json!(2), &json!("scripted")), "{second}");
    let messages = second["request"]["messages"].as_array().unwrap();
    let last = messages.last().unwrap()["text"].as_str().unwrap();
    assert!(last.contains("Tool system:get_current_time executed successfully"), "turn 1's result: {second}");
    let first = request("1").await.expect(200).json();
    assert_eq!(first["request"]["messages"].as_array().unwrap(), &messages[..messages.len() - 2]);
    for place in ["3", "2?call=c1", "2?path=a"] {
        let none = request(place).await.expect(404);
        assert_eq!(none.code(), "unknown_request", "{place}");
        assert_eq!(none.json()["help"], "it has those of turn 1, turn 2");
    }
    assert_eq!(request("first").await.expect(400).code(), "bad_value");
    let unknown = server.get("/api/runs/none/requests/1").await.expect(404);
    assert_eq!(unknown.code(), "unknown_run");

    let run = server.begin(&json!({"agent": "careful", "message": "and now"})).await;
    server.until(&run, "waiting").await;
    server.post(&format!("/api/asks/{run}.c1"), &json!({"deny": "not now"})).await.expect(202);
    server.until(&run, "ok").await;
    let events = server.events(&run).await;
    let found = events
        .iter()
        .any(|event| event["data"]["text"].as_str().is_some_and(|text| text.contains("not now")));
    assert!(found, "{events:#?}");
}

/// A workflow whose node calls a tool that a person must approve.
const BOOKING: (&str, &str) = (
    "workflows/booking.json",
    r#"{"description": "Books a room.",
    "interfaceInputs": {"query": {"dataFlowType": "STRING", "description": "what is wanted"}},
    "interfaceOutputs": {"observation": {"dataFlowType": "STRING"}},
    "availableTools": {"initial": ["book"]},
    "nodes": [{"id": "in", "type": "core:GroupInput"}, {"id": "out", "type": "core:GroupOutput"},
        {"id": "decide", "type": "agent:LlmDecisionWithTools"}, {"id": "run", "type": "agent:ExecuteTool"}],
    "edges": [{"source": "in", "sourceHandle": "query", "target": "decide", "targetHandle": "query"},
        {"source": "decide", "sourceHandle": "tool_call_requests", "target": "run", "targetHandle": "tool_call_requests"},
        {"source": "run", "sourceHandle": "observation", "target": "out", "targetHandle": "observation"}]}"#,
);

#[tokio::test(flavor = "multi_thread")]
async fn a_run_of_a_workflow_is_approved_as_the_request_says() {
    let tool = r#"{"name": "book", "description": "Books a room.",
        "parameters": {"type": "object", "properties": {"room": {"type": "string"}}, "required": ["room"]},
        "endpoint": {"url": "http://127.0.0.1:9/bookings", "method": "POST", "body": {"room": "{room}"}}}"#;
    let script = r#"{"text": "<ACTION><book><room>blue</room></book></ACTION>"}"#;
    let server = serve(&[BOOKING, ("tools/book.tool.json", tool), ("script.jsonl", script)]);
    for (approve, status, said) in [
        ("ask", "waiting", ""),
        ("none", "ok", "denied: approvals are turned off for this run"),
        ("all", "ok", "Error - Tool book failed"),
    ] {
        let body = json!({"workflow": "booking", "inputs": {"query": "blue"}, "approve": approve});
        let done = server.until(&server.begin(&body).await, status).await;
        assert!(done["outputs"].to_string().contains(said) || said.is_empty(), "{approve}: {done}");
    }
    for (body, fields) in [
        (json!({"workflow": "booking", "message": "hi", "thread": "t"}), "`message` and no `thread`"),
        (json!({"workflow": "booking", "output_schema": {}}), "`output_schema`"),
        (json!({"agent": "a", "message": "hi", "inputs": {"n": 1}}), "`inputs`"),
    ] {
        let refused = server.post("/api/runs", &body).await.expect(422);
        assert_eq!(refused.code(), "bad_value");
        assert!(refused.json()["detail"].as_str().unwrap().contains(fields), "{}", refused.body);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_question_is_answered_by_name_or_by_run() {
    let server = serve(&[ASK]);
    let one = server.begin(&json!({"workflow": "ask"})).await;
    let other = server.begin(&json!({"workflow": "ask"})).await;
    server.until(&one, "waiting").await;
    let waiting = server.until(&other, "waiting").await;
    let ask = waiting["asks"][0]["ask"].as_str().unwrap();
    let both = server.post(&format!("/api/asks/{ask}"), &json!({"answer": "red"})).await.expect(409);
    assert_eq!(both.code(), "which_ask");
    let approved =
        server.post(&format!("/api/asks/{one}.{ask}"), &json!({"approve": true})).await.expect(422);
    assert_eq!(approved.code(), "no_approval");
    server.post(&format!("/api/asks/{ask}"), &json!({"answer": "red", "run": one})).await.expect(202);
    assert_eq!(server.until(&one, "ok").await["outputs"], json!({"said": "red"}));
    server.post(&format!("/api/asks/{ask}"), &json!({"answer": "blue"})).await.expect(202);
    assert_eq!(server.until(&other, "ok").await["outputs"], json!({"said": "blue"}));
}

#[tokio::test(flavor = "multi_thread")]
async fn runs_are_cancelled_resumed_and_forked() {
    let server = serve(&[ASK, SLEEP, COUNT]);
    let run = server.begin(&json!({"workflow": "sleep", "inputs": {"value": "x"}})).await;
    server.post(&format!("/api/runs/{run}/cancel"), &json!({})).await.expect(202);
    server.until(&run, "cancelled").await;
    server.post(&format!("/api/runs/{run}/cancel"), &json!({})).await.expect(200);
    let ended = server.post(&format!("/api/runs/{run}/resume"), &json!({})).await.expect(409);
    assert_eq!(ended.code(), "run_ended");
    // One that waits is ended here too.
    let run = server.begin(&json!({"workflow": "ask"})).await;
    server.until(&run, "waiting").await;
    server.send("POST", &format!("/api/runs/{run}/cancel"), &[], "").await.expect(202);
    server.until(&run, "cancelled").await;

    let run = server.begin(&json!({"workflow": "sleep", "inputs": {"value": "x"}})).await;
    server.until(&run, "ok").await;
    let changed = json!({"set": {"wait": "y"}});
    let fork = server.post(&format!("/api/runs/{run}/fork"), &changed).await.expect(202).json();
    let fork = fork["run"].as_str().unwrap();
    let done = server.until(fork, "ok").await;
    assert_eq!((&done["outputs"], &done["parent"]), (&json!({"value": "y"}), &json!(run)));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_conversation_goes_on_one_message_at_a_time() {
    let script = "{\"text\": \"One.\", \"sleep_ms\": 300}\n{\"text\": \"Two.\", \"request\": {\"contains\": [\"One.\"]}}\n";
    let server = serve(&[PLAIN, ("script.jsonl", script)]);
    let path = "/api/chat/plain/threads/t1/messages";
    let first = server.post(path, &json!({"text": "first"})).await.expect(202).json();
    // The second waits for the first, which is nearly over.
    let second = server.post(path, &json!({"text": "second"})).await.expect(202).json();
    assert_ne!(first, second);
    assert_eq!(server.until(second["run"].as_str().unwrap(), "ok").await["text"], "Two.");
    let said = server.get(path).await.expect(200).json();
    let texts: Vec<_> = said.as_array().unwrap().iter().map(|message| message["text"].clone()).collect();
    assert_eq!(texts, ["first", "One.", "second", "Two."]);
    let threads = server.get("/api/chat/plain/threads").await.expect(200).json();
    assert_eq!((&threads[0]["id"], &threads[0]["runs"]), (&json!("t1"), &json!(2)));
    assert_eq!(threads[0]["title"], "first");
}

#[tokio::test(flavor = "multi_thread")]
async fn messages_that_come_at_once_come_one_after_the_other() {
    let script = ["1", "2", "3", "4"].map(|n| format!("{{\"text\": \"{n}\", \"sleep_ms\": 50}}\n")).concat();
    let server = serve(&[PLAIN, ("script.jsonl", &script)]);
    let message = json!({"agent": "plain", "message": "hi", "thread": "t"});
    let begun = futures::future::join_all((0..4).map(|_| server.begin(&message))).await;
    let mut texts = Vec::new();
    for run in &begun {
        texts.push(server.until(run, "ok").await["text"].clone());
    }
    texts.sort_by_key(ToString::to_string);
    // A script goes on behind the replies that the conversation has had.
    assert_eq!(texts, ["1", "2", "3", "4"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_run_of_a_conversation_does_not_go_on_beside_another() {
    let script = "{\"text\": \"Slow.\", \"sleep_ms\": 60000}\n";
    let mut first = serve(&[PLAIN, ("script.jsonl", script)]);
    let message = json!({"agent": "plain", "message": "hi", "thread": "t"});
    let left = first.begin(&message).await;
    first.handle.abandon();
    first.ended().await;
    let server = serve_with(first.folder, |_| ());
    // What was interrupted is resumed or discarded first.
    let refused = server.post("/api/runs", &message).await.expect(409);
    assert_eq!((refused.code().as_str(), &refused.json()["run"]), ("run_interrupted", &json!(left)));
    let resume = format!("/api/runs/{left}/resume");
    server.post(&resume, &json!({})).await.expect(202);
    let rejects = json!({"agent": "plain", "message": "hi", "thread": "t", "busy": "reject"});
    let busy = server.post("/api/runs", &rejects).await.expect(409);
    assert_eq!((busy.code().as_str(), &busy.json()["run"]), ("thread_busy", &json!(left)));
    let own = server.post(&resume, &json!({})).await.expect(409);
    assert_eq!(own.code(), "run_busy");
    server.post(&format!("/api/runs/{left}/cancel"), &json!({})).await.expect(202);
    server.until(&left, "cancelled").await;
    let at_work = server.begin(&message).await;
    server.post(&format!("/api/runs/{at_work}/cancel"), &json!({})).await.expect(202);
    server.until(&at_work, "cancelled").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn events_wake_agents_that_listen() {
    let listener = r#"{"id": "ear", "name": "Ear", "subscribed_event_types": ["door.opened"]}"#;
    let server = serve(&[("agents/ear.json", listener)]);
    let event = |name: &str| json!({"event": name, "payload": {"door": 3}});
    let woken = server.post("/api/agents/ear/events", &event("door.opened")).await.expect(202).json();
    server.until(woken["run"].as_str().unwrap(), "ok").await;
    let deaf = server.post("/api/agents/ear/events", &event("door.closed")).await.expect(422);
    assert_eq!(deaf.code(), "not_subscribed");
}

#[tokio::test(flavor = "multi_thread")]
async fn large_values_are_read_by_their_digest() {
    let server = serve(&[SLEEP]);
    let long = "long ".repeat(2000);
    let run = server.begin(&json!({"workflow": "sleep", "inputs": {"value": long}})).await;
    let events = server.events(&run).await;
    let sha = events.iter().find_map(|event| event["data"]["value"]["$blob"].as_str()).unwrap();
    let blob = server.get(&format!("/api/blobs/{sha}")).await.expect(200);
    assert_eq!(blob.json(), json!(long));
    assert_eq!(blob.header("content-type"), Some("application/octet-stream"));
    assert_eq!(server.get("/api/blobs/..%2f..%2fetc").await.expect(400).code(), "bad_digest");
    assert_eq!(
        server.get(&format!("/api/blobs/{}", "0".repeat(64))).await.expect(404).code(),
        "unknown_blob"
    );
    assert_eq!(server.until(&run, "ok").await["outputs"], json!({"value": long}));
}

#[tokio::test(flavor = "multi_thread")]
async fn flows_answer_before_the_agent() {
    let flows = r#"{"flows": [{"flow_id": "hours", "trigger_patterns": ["opening hours"],
        "target": {"workflow": "sleep"}, "parameter_mapping": {"value": "nine to five"}, "response_template": "{result}"}]}"#;
    let server = serve_with(project(&[PLAIN, SLEEP, ("flows.json", flows)]), |_| ());
    let path = "/api/chat/plain/threads/t/messages";
    let run = server.post(path, &json!({"text": "what are the opening hours"})).await.expect(202).json();
    let done = server.until(run["run"].as_str().unwrap(), "ok").await;
    assert_eq!((&done["exit"], &done["text"]), (&json!("flow_completed"), &json!("nine to five")));
    let run = server.post(path, &json!({"text": "hi"})).await.expect(202).json();
    assert_eq!(server.until(run["run"].as_str().unwrap(), "ok").await["text"], "Hello.");
}

#[tokio::test(flavor = "multi_thread")]
async fn timers_of_a_scripted_project_go_off() {
    let flows = r#"{"timers": [{"timer_id": "idle", "delay_ms": 100, "action": {"reply": "Still there?"}}]}"#;
    let server = serve(&[PLAIN, ("flows.json", flows)]);
    let path = "/api/chat/plain/threads/t/messages";
    let run = server.post(path, &json!({"text": "hi"})).await.expect(202).json();
    server.until(run["run"].as_str().unwrap(), "ok").await;
    for _ in 0..200 {
        let runs = server.get("/api/runs?thread=t").await.expect(200).json();
        if runs.as_array().unwrap().len() == 2 {
            let fired = server.until(runs[0]["run"].as_str().unwrap(), "ok").await;
            assert_eq!(fired["text"], "Still there?");
            return;
        }
        pause(20).await;
    }
    panic!("the timer never went off");
}

#[tokio::test]
async fn a_tool_tells_what_a_model_reads_and_who_uses_it() {
    let server = serve(&[
        COUNT,
        (
            "agents/counter.json",
            r#"{"id": "counter", "name": "Counter", "tool_ids_inventory": ["workflow:count"]}"#,
        ),
        PLAIN,
    ]);
    let tool = server.get("/api/tools/workflow:count").await.expect(200).json();
    let prompt = tool["told"].as_str().unwrap();
    assert!(prompt.contains("<workflow__count>") && prompt.contains("how far"), "{prompt}");
    assert!(tool["told_tokens"].as_u64().unwrap() > 5);
    assert_eq!(tool["used_by_agents"], json!(["counter"]));
    assert_eq!(tool["used_by_workflows"], json!([]));
    let checked = server.post("/api/tools/workflow:count/check", &json!({"arguments": {"n": "3"}})).await;
    let checked = checked.expect(200).json();
    let action = checked["action"].as_str().unwrap();
    assert!(action.contains("<ACTION>") && action.contains('3'), "{action}");

    let preview = server.get("/api/agents/plain/tools/workflow:count").await.expect(200);
    let (tag, preview) = (preview.header("etag").unwrap().to_owned(), preview.json());
    assert_eq!(preview["file"], "agents/plain.json");
    assert_eq!(preview["differs"], true);
    assert!(!preview["before"].as_str().unwrap().contains("workflow:count"));
    let path = "/api/agents/plain/tools/workflow:count";
    server.send("PUT", path, &[("if-match", &tag)], "").await.expect(200);
    let written = std::fs::read_to_string(server.folder.path().join("agents/plain.json")).unwrap();
    assert_eq!(preview["after"], written.as_str());
    server.send("PUT", path, &[("if-match", &tag)], "").await.expect(412);
}

#[tokio::test(flavor = "multi_thread")]
async fn passes_of_loops_are_read_page_by_page() {
    let server = serve(&[COUNT]);
    let run = server.begin(&json!({"workflow": "count", "inputs": {"n": "5"}})).await;
    server.until(&run, "ok").await;
    let mut path = format!("/api/runs/{run}/loops?limit=2&loop=loop");
    let mut seen = Vec::new();
    loop {
        let page = server.get(&path).await.expect(200);
        seen.extend(page.json().as_array().unwrap().iter().cloned());
        match page.header("link") {
            Some(link) => path = link.trim_start_matches('<').split('>').next().unwrap().to_owned(),
            None => break,
        }
    }
    assert_eq!(seen.len(), 6, "{seen:#?}");
    assert_eq!((&seen[0]["kind"], &seen[0]["pass"]), (&json!("pass"), &json!(0)));
    assert_eq!(seen[0]["before"], json!({"i": 0, "n": 5}));
    assert_eq!(seen[0]["after"], json!({"i": 1, "n": 5}));
    assert_eq!((&seen[3]["decision"], &seen[4]["decision"]), (&json!("next"), &json!("condition")));
    assert_eq!((&seen[5]["kind"], &seen[5]["passes"]), (&json!("loop"), &json!(5)));
    let third = server.get(&format!("/api/runs/{run}/loops?loop=loop&pass=2&limit=1")).await.expect(200);
    assert_eq!(third.json(), json!([seen[2]]));
    let in_call = server.get(&format!("/api/runs/{run}/loops?loop=loop&pass=2&call=c1")).await.expect(200);
    assert_eq!(in_call.json(), json!([]));
    let none = server.get(&format!("/api/runs/{run}/loops?loop=no")).await.expect(200);
    assert_eq!(none.json(), json!([]));
    let bad = server.get(&format!("/api/runs/{run}/loops?cursor=x")).await.expect(400);
    assert_eq!(bad.code(), "bad_cursor");
    assert_eq!(server.get("/api/runs/none/loops").await.expect(404).code(), "unknown_run");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_timer_that_waits_for_an_approval_resumes_with_its_own_message() {
    let flows = r#"{"timers": [{"timer_id": "idle", "delay_ms": 100, "max_triggers": 1, "action": {"ask": "Look at the clock for {$ctx.session}."}}]}"#;
    let agent = r#"{"id": "plain", "name": "Plain", "tool_ids_inventory": ["system:get_current_time"],
        "approval": {"tools": {"system:get_current_time": "ask"}}}"#;
    let asked = json!({"contains": ["Look at the clock for one."]});
    let script = [
        json!({"text": "Hello."}),
        json!({"text": "<ACTION><tool name=\"system:get_current_time\"></tool></ACTION>", "request": asked}),
        json!({"text": "It is late.", "request": asked}),
    ];
    let script = script.map(|line| line.to_string()).join("\n");
    let server = serve(&[("agents/plain.json", agent), ("flows.json", flows), ("script.jsonl", &script)]);
    server.post("/api/chat/plain/threads/one/messages", &json!({"text": "Hi."})).await.expect(202);
    let run = waiting_run(&server).await;
    let ask =
        server.get(&format!("/api/runs/{run}")).await.json()["asks"][0]["ask"].as_str().unwrap().to_owned();
    server.post(&format!("/api/asks/{run}.{ask}"), &json!({"approve": true})).await.expect(202);
    let done = server.until(&run, "ok").await;
    assert_eq!(done["text"], "It is late.");
    let thread = server.get("/api/chat/plain/threads/one/messages").await.expect(200).body;
    assert!(thread.contains("It is late."), "{thread}");
}

/// The run that waits.
async fn waiting_run(server: &crate::common::Running) -> String {
    for _ in 0..400 {
        let runs = server.get("/api/runs").await.expect(200).json();
        let waits = runs.as_array().unwrap().iter().find(|run| run["status"] == "waiting");
        if let Some(run) = waits {
            return run["run"].as_str().unwrap().to_owned();
        }
        pause(20).await;
    }
    panic!("no run waits: {}", server.get("/api/runs").await.body);
}
