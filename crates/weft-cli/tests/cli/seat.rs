//! A help desk of real processes: queue, ids, the person's seat, and the end of a server in between.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use agent_types::{Clock, SystemClock};
use serde_json::{Value, json};
use session_channels::Signer;
use tempfile::TempDir;
use weft_harness::{ASK, StubServer};

use crate::common::{desk, weft, write};
use crate::serving::{Served, TOKEN};

/// Secret of a channel.
const HOOK: (&str, &str) = ("CRM_HOOK", "a secret of both sides");

const PATH: &str = "/api/chat/desk/threads/s/messages";

fn help_desk(script: &[Value]) -> TempDir {
    let folder = desk();
    let flows = json!({
        "agent": "desk",
        "system_actions": [{"action_id": "human", "handler": "handoff", "trigger_patterns": ["a person"]}]
    });
    write(folder.path(), "flows.json", &flows.to_string());
    let lines: Vec<String> = script.iter().map(Value::to_string).collect();
    write(folder.path(), "said.jsonl", &lines.join("\n"));
    write(folder.path(), "weft.toml", "script = \"said.jsonl\"\n");
    folder
}

fn said(text: &str, ms: u64) -> Value {
    json!({"text": text, "sleep_ms": ms})
}

fn send(served: &Served, body: &Value) -> Value {
    let (status, answer) = served.ask("POST", PATH, &body.to_string());
    assert_eq!(status, 202, "{answer}");
    serde_json::from_str(&answer).unwrap()
}

/// Author and text of everything that was said.
fn talk(folder: &Path) -> Vec<String> {
    let shown = weft(folder, &["session", "show", "s", "--output", "json"]).ok().json();
    let line = |message: &Value| {
        format!("{}: {}", message["author"].as_str().unwrap(), message["text"].as_str().unwrap())
    };
    shown["messages"].as_array().unwrap().iter().map(line).collect()
}

fn until(folder: &Path, count: usize) -> Vec<String> {
    for _ in 0..200 {
        let talk = talk(folder);
        if talk.len() >= count {
            return talk;
        }
        std::thread::sleep(Duration::from_millis(100));
    }
    panic!("{:?} never had {count} messages", talk(folder));
}

#[cfg(unix)]
#[test]
fn queued_messages_survive_the_end_of_their_server_in_order() {
    let folder = help_desk(&[said("One.", 1500), said("Two.", 0), said("Three.", 0)]);
    let served = Served::start(folder.path(), TOKEN, &[]);
    for (at, text) in ["first", "second", "third"].iter().enumerate() {
        let begun = send(&served, &json!({"text": text, "message_id": text}));
        assert_eq!(begun["place"].as_u64().unwrap_or(0), at as u64, "{begun}");
    }
    served.signal("KILL");
    drop(served);
    let again = Served::start(folder.path(), TOKEN, &[]);
    let repeated = send(&again, &json!({"text": "second", "message_id": "second"}));
    assert_eq!(repeated["repeated"], true);
    assert_eq!(
        until(folder.path(), 6),
        ["user: first", "agent: One.", "user: second", "agent: Two.", "user: third", "agent: Three."]
    );
}

#[test]
fn a_person_takes_a_session_answers_and_gives_it_back() {
    let reads = json!({"text": "Back.", "request": {"contains": ["a person answered the user: I am Ann."]}});
    let folder = help_desk(&[reads]);
    let served = Served::start(folder.path(), TOKEN, &[]);
    send(&served, &json!({"text": "a person please"}));
    until(folder.path(), 2);
    let waiting = weft(folder.path(), &["session", "list", "--waiting", "--output", "json"]).ok().json();
    assert_eq!((&waiting[0]["session"], &waiting[0]["with"]), (&json!("s"), &json!("person")), "{waiting}");
    weft(folder.path(), &["session", "take", "s", "--as", "ann"]).ok();
    let (status, refused) = served.ask("POST", "/api/sessions/s/take", r#"{"person": "bob"}"#);
    assert_eq!(status, 409, "{refused}");
    assert!(refused.contains("session_taken"), "{refused}");
    let (status, answer) =
        served.ask("POST", "/api/sessions/s/messages", r#"{"person": "ann", "text": "I am Ann."}"#);
    assert_eq!(status, 200, "{answer}");
    weft(folder.path(), &["session", "note", "s", "--as", "ann", "Wants a refund."]).ok();
    weft(folder.path(), &["session", "give-back", "s", "--as", "ann"]).ok();
    let refused = weft(folder.path(), &["session", "give-back", "s"]);
    assert_eq!(refused.code, 2, "{refused:#?}");
    assert!(refused.stderr.contains("error[not_handed_off]"), "{refused:#?}");
    send(&served, &json!({"text": "thanks"}));
    let talk = until(folder.path(), 7);
    assert_eq!(talk[2..4], ["person: I am Ann.", "note: Wants a refund."]);
    assert_eq!(talk[5..], ["user: thanks", "agent: Back."]);
    weft(folder.path(), &["session", "close", "s"]).ok();
    let shown = weft(folder.path(), &["session", "show", "s"]).ok().stdout;
    assert!(shown.starts_with("s\tclosed\tsince "), "{shown}");
    weft(folder.path(), &["session", "reopen", "s"]).ok();
}

#[test]
fn a_message_with_an_id_is_answered_once_by_all_processes() {
    let folder = help_desk(&[said("One.", 0), said("Two.", 0)]);
    let chat = ["chat", "--session", "s", "--message-id", "m1", "hello", "--output", "json"];
    let first = weft(folder.path(), &chat).ok().json();
    let again = weft(folder.path(), &chat).ok().json();
    assert_eq!((&first["run"], &first["text"]), (&again["run"], &again["text"]), "{again}");
    assert_eq!(talk(folder.path()).len(), 2);
}

#[test]
fn an_action_without_patterns_fires_by_its_id() {
    let folder = help_desk(&[]);
    let ran = weft(folder.path(), &["flow", "run", "human", "--session", "s"]).ok();
    assert_eq!(ran.stdout, "You are being connected to a person...\n");
    let shown = weft(folder.path(), &["session", "list", "--output", "json"]).ok().json();
    assert_eq!(shown[0]["with"], "person");
    let unknown = weft(folder.path(), &["flow", "run", "humann"]);
    assert_eq!(unknown.code, 2);
    assert!(unknown.stderr.contains("did you mean `human`?"), "{unknown:#?}");
}

#[test]
fn a_broken_file_leaves_the_last_good_one_in_force() {
    let folder = help_desk(&[]);
    let served = Served::start(folder.path(), TOKEN, &[]);
    write(folder.path(), "flows.json", "{\"flowss\": []}");
    let fault = || {
        let (_, meta) = served.ask("GET", "/api/meta", "");
        serde_json::from_str::<Value>(&meta).unwrap()["flows_fault"].clone()
    };
    for _ in 0..100 {
        if fault() != Value::Null {
            break;
        }
        std::thread::sleep(Duration::from_millis(50));
    }
    assert!(fault().as_str().is_some_and(|fault| fault.contains("flowss")), "{}", fault());
    send(&served, &json!({"text": "a person please"}));
    let is_with_person = || served.ask("GET", "/api/sessions/s", "").1.contains("\"with\":\"person\"");
    for _ in 0..100 {
        if is_with_person() {
            break;
        }
        std::thread::sleep(Duration::from_millis(50));
    }
    assert!(is_with_person(), "the last good flows are in force");
    let looked = weft(folder.path(), &["doctor"]).stdout;
    assert!(looked.contains("unknown_key") && looked.contains("--> flows.json"), "{looked}");
    served.signal("TERM");
    let (_, said) = served.ended();
    assert!(said.contains("flows.json cannot be used"), "{said}");
}

/// Signs a message to the channel of the desk, and gives the answer's status line.
fn post_signed(served: &Served, id: &str, text: &str) -> String {
    let body = json!({"conversation": "c1", "text": text}).to_string();
    let at = (SystemClock.now().as_millis() / 1000).to_string();
    let signature = Signer::new(HOOK.1).unwrap().sign(id, &at, body.as_bytes());
    let lines = format!("webhook-id: {id}\r\nwebhook-timestamp: {at}\r\nwebhook-signature: {signature}\r\n");
    let answer = served.ask_with("POST", "/channels/crm", &lines, &body);
    answer.lines().next().unwrap_or_default().to_owned()
}

#[cfg(unix)]
#[test]
fn what_a_channel_has_not_sent_survives_the_end_of_its_server() {
    let is_down = Arc::new(AtomicBool::new(true));
    let down = Arc::clone(&is_down);
    let system =
        StubServer::json(move |_| (if down.load(Ordering::SeqCst) { 503 } else { 200 }, Value::Null));
    let folder = help_desk(&[said("One.", 0), said("Two.", 800)]);
    let settings = format!(
        "script = \"said.jsonl\"\n[network]\nallow = [\"{}\"]\n[channels.crm]\nkind = \"webhook\"\n\
         agent = \"desk\"\nsecret = \"{{$secret.CRM_HOOK}}\"\nto = \"{}\"\n",
        system.address,
        system.url("/weft")
    );
    write(folder.path(), "weft.toml", &settings);
    let until = |count: usize| {
        for _ in 0..400 {
            if system.requests().len() >= count {
                return;
            }
            std::thread::sleep(Duration::from_millis(50));
        }
        panic!("{count} did not come: {:#?}", system.requests());
    };
    let served = Served::start_in(folder.path(), TOKEN, &[], &[HOOK]);
    assert_eq!(post_signed(&served, "m1", "first"), "HTTP/1.1 202 Accepted");
    until(1);
    assert_eq!(post_signed(&served, "m2", "second"), "HTTP/1.1 202 Accepted");
    served.signal("KILL");
    drop(served);
    let before = system.requests().len();
    is_down.store(false, Ordering::SeqCst);
    let again = Served::start_in(folder.path(), TOKEN, &[], &[HOOK]);
    assert_eq!(post_signed(&again, "m2", "second"), "HTTP/1.1 200 OK");
    until(before + 2);
    std::thread::sleep(Duration::from_secs(1));
    let requests = system.requests();
    let field = |request: &String, name: &str| {
        let body: Value = serde_json::from_str(request.split("\r\n\r\n").nth(1).unwrap()).unwrap();
        body[name].as_str().unwrap().to_owned()
    };
    let texts: Vec<String> = requests[before..].iter().map(|request| field(request, "text")).collect();
    assert_eq!(texts, ["One.", "Two."], "all arrived once, in order");
    assert_eq!(field(&requests[0], "id"), field(&requests[before], "id"), "under the same id");
}

#[test]
fn a_flow_asks_its_user_and_the_answer_goes_back() {
    let folder = help_desk(&[]);
    write(folder.path(), "workflows/ask.json", ASK);
    let flows = json!({
        "agent": "desk",
        "flows": [{"flow_id": "paint", "trigger_patterns": ["paint"], "target": {"workflow": "ask"},
            "response_template": "It becomes {result}."}],
        "system_actions": [{"action_id": "human", "handler": "handoff", "trigger_patterns": ["a person"]}]
    });
    write(folder.path(), "flows.json", &flows.to_string());
    weft(folder.path(), &["flow", "check"]).ok();
    let say = |text: &str| weft(folder.path(), &["chat", "--session", "s", text]).ok().stdout;
    assert_eq!(say("paint it"), "Which colour?\n");
    assert_eq!(say("green"), "It becomes green.\n");
    let expected = ["user: paint it", "flow: Which colour?", "user: green", "flow: It becomes green."];
    assert_eq!(talk(folder.path()), expected);
    // The answer has an id as any message has, and a message for a person is not an answer.
    say("paint it");
    let red = ["chat", "--session", "s", "--message-id", "m1", "red", "--output", "json"];
    let (first, again) = (weft(folder.path(), &red).ok().json(), weft(folder.path(), &red).ok().json());
    assert_eq!((&first["run"], &first["text"]), (&again["run"], &json!("It becomes red.")), "{again}");
    let alone = weft(folder.path(), &["flow", "run", "paint"]);
    assert_eq!(alone.code, 5, "where no message can answer, a flow does not ask: {alone:#?}");
    say("paint it");
    assert_eq!(say("a person"), "You are being connected to a person...\n");
    assert_eq!(talk(folder.path()).len(), 12);
}

#[test]
fn a_flow_that_cannot_ask_is_refused() {
    let folder = help_desk(&[]);
    write(folder.path(), "workflows/ask.json", ASK);
    let silent = json!({"flow_id": "paint", "trigger_patterns": ["paint"], "target": {"workflow": "ask"}, "silent": true});
    let timed = json!({"flow_id": "paint", "target": {"workflow": "ask"}});
    let timer = json!({"timer_id": "idle", "delay_ms": 1000, "action": {"flow": "paint"}});
    for file in [json!({"flows": [silent]}), json!({"flows": [timed], "timers": [timer]})] {
        write(folder.path(), "flows.json", &file.to_string());
        let checked = weft(folder.path(), &["flow", "check"]);
        assert_eq!(checked.code, 7, "{checked:#?}");
        assert!(checked.stderr.contains("error[asks_question]"), "{checked:#?}");
    }
}
