//! Every kind of pattern, with and without reply, with a target that succeeds or fails, and every reaction to failures:
//! the reply, the end of the run, the agent's memory, the events.

use agent_types::EventBody;
use executors_flow_system::UserMessage;
use serde_json::{Value, json};

use crate::common::{Setup, Stub};

/// The message that each kind of pattern is set off by.
const KINDS: [(&str, &str, &str); 3] = [
    ("exact", "leave", " LEAVE "),
    ("contains", "leave", "I want leave now"),
    ("regex", "lea(?<rest>v.)", "a LEAVE day"),
];

fn row(kind: &str, silent: bool, works: bool, on_error: &str) -> String {
    format!(
        "{kind:8} {} {} {on_error:8}",
        if silent { "silent" } else { "seen  " },
        if works { "works" } else { "fails" }
    )
}

#[tokio::test]
async fn every_way_through_a_flow() {
    let rules = [
        ("default", Value::Null),
        ("reply", json!({"reply": "Try later."})),
        ("continue", json!("continue")),
        ("silent", json!("silent")),
    ];
    let mut rows = Vec::new();
    for (kind, pattern, message) in KINDS {
        for silent in [false, true] {
            for works in [true, false] {
                for (name, rule) in &rules {
                    let status = if works { 200 } else { 500 };
                    let stub = Stub::new(&[(status, json!({"id": 7}))]).await;
                    let mut flow = json!({"flow_id": "leave", "trigger_patterns": [pattern], "match": kind, "silent": silent,
                        "endpoint": {"url": stub.url("/leave"), "method": "POST", "body": {"text": "{user_message}"}}});
                    if !silent {
                        flow["response_template"] = "Number {result.id}".into();
                    }
                    if !rule.is_null() {
                        flow["on_error"] = rule.clone();
                    }
                    let world =
                        Setup::new(json!({"flows": [flow]})).says(&["From the agent."]).with(&stub).build();
                    let observed = world.say("s", message).await;
                    let history = world.history("s").await.len();
                    let own: Vec<String> = observed
                        .names()
                        .into_iter()
                        .filter(|name| name.starts_with("flow.") || name == "agent.message")
                        .collect();
                    let failures = observed.count(|body| matches!(body, EventBody::FlowFailed { .. }));
                    // Whatever the user sees, a failure is recorded and counted, and is never a success.
                    assert_eq!(failures, usize::from(!works));
                    let counts = &world.orchestrator.flows().counts()[0];
                    assert_eq!((counts.matched, counts.failed), (1, u64::from(!works)));
                    assert_eq!(stub.asked().len(), 1, "it is asked once");
                    assert_eq!(stub.asked()[0].body, json!({"text": message}));
                    rows.push(format!(
                        "{} → {:?}, {}, {history} exchanges, {}",
                        row(kind, silent, works, name),
                        observed.text().unwrap_or("-"),
                        observed.handled.exit,
                        own.join(" ")
                    ));
                }
            }
        }
    }
    insta::assert_snapshot!(rows.join("\n"));
}

#[tokio::test]
async fn parameters_come_from_groups_message_and_context() {
    let stub = Stub::new(&[(200, json!("booked"))]).await;
    let file = json!({"flows": [{"flow_id": "table", "match": "regex",
        "trigger_patterns": ["table for (?<people>\\d+)(?: on (?<day>\\w+))?"],
        "parameter_mapping": {"people": "$group.people", "day": "$group.day", "who": "$ctx.profile.name", "tenant": "$ctx.tenant", "source": "chat", "all": "$message"},
        "target": {"endpoint": {"url": stub.url("/tables/{people}"), "method": "POST", "query_params": {"day": "{day}", "tenant": "{tenant}", "s": "{$ctx.session}"},
            "body": {"all": "{all}", "source": "{source}", "who": "{who}", "people": "{people}"}}}}]});
    let world = Setup::new(file).with(&stub).build();
    let values = json!({"tenant": "t 1"}).as_object().unwrap().clone();
    let observed = world.say("s/1", UserMessage::new("A Table for 4 on FRIDAY").with_values(values)).await;
    assert_eq!(observed.text(), Some("booked"));
    let asked = &stub.asked()[0];
    assert_eq!((asked.path.as_str(), asked.query.as_str()), ("/tables/4", "day=FRIDAY&tenant=t%201&s=s%2F1"));
    assert_eq!(asked.body, json!({"all": "A Table for 4 on FRIDAY", "source": "chat", "people": "4"}));
}
