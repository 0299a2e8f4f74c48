//! Outputs of each core node for given inputs.
#![expect(
    clippy::unwrap_used,
    clippy::panic,
    clippy::needless_pass_by_value,
    reason = "helpers of tests: a wrong case may panic"
)]

mod common;

use std::sync::Arc;

use agent_types::{EventBody, SystemClock};
use llm_provider::{CallPolicy, GuardedModel, LlmProvider, ModelSource, ScriptedModel, SingleModel};
use serde_json::{Map, Value, json};
use workflow_engine::{OnWaiting, Plan, RunOptions, Services};
use workflow_model::NoWorkflows;

use common::{run, single};

#[track_caller]
fn check(node_type: &str, config: Value, inputs: Value, expected: Value) {
    let outputs: Vec<&str> = expected.as_object().unwrap().keys().map(String::as_str).collect();
    let outcome = run(&single(node_type, &config, &inputs, &outputs), RunOptions::new()).0;
    assert_eq!(outcome.error, None, "{node_type}");
    let present: Map<String, Value> = expected
        .as_object()
        .unwrap()
        .iter()
        .filter(|(_, value)| **value != json!("-absent-"))
        .map(|(k, v)| (k.clone(), v.clone()))
        .collect();
    assert_eq!(Value::Object(outcome.outputs), Value::Object(present), "{node_type} {config}");
}

#[track_caller]
fn check_failure(node_type: &str, config: Value, inputs: Value, output: &str, expected: &str) {
    let outcome = run(&single(node_type, &config, &inputs, &[output]), RunOptions::new()).0;
    let error = outcome.error.unwrap().to_string();
    assert!(error.contains(expected), "{error}");
}

#[track_caller]
fn check_refused(node_type: &str, config: Value, inputs: Value, expected: &str) {
    let workflow = single(node_type, &config, &inputs, &[]);
    let error = Plan::new(&workflow, &node_library::catalog(), &NoWorkflows).unwrap_err().to_string();
    assert!(error.contains(expected), "{error}");
}

#[test]
fn templates() {
    let template = |text: &str| json!({ "template": text });
    check(
        "TextTemplate",
        template("{{ a }}-{{ values.b }}\n"),
        json!({"values": {"a": 1, "b": "x"}}),
        json!({"text": "1-x\n"}),
    );
    check(
        "TextTemplate",
        template("{{ values }} {{ vars.limit }}"),
        json!({"values": "v"}),
        json!({"text": "v 3"}),
    );
    check(
        "TextTemplate",
        template("Dear {{ name }}, {% for i in items %}{{ i }};{% endfor %}"),
        json!({"name": "A <b>", "items": [1, 2]}),
        json!({"text": "Dear A <b>, 1;2;"}),
    );
    check("TextTemplate", template("{{ 问候 }}"), json!({"问候": "你好"}), json!({"text": "你好"}));
    check_failure("TextTemplate", template("{{ nobody }}"), json!({}), "text", "undefined value");
    check_failure(
        "TextTemplate",
        template("{% for a in range(9999) %}{% for b in range(9999) %}x{% endfor %}{% endfor %}"),
        json!({}),
        "text",
        "fuel",
    );
    check_refused("TextTemplate", template("{{ a"), json!({}), "syntax error");
    check_refused("TextTemplate", json!({}), json!({}), "this setting is required");
    check_refused("TextTemplate", template("{% include 'secret' %}{{ a }}"), json!({"b": 1}), "template");
}

#[test]
fn texts() {
    check(
        "TextMerge",
        json!({}),
        json!({"text_inputs": ["a", 1, true], "separator": "-"}),
        json!({"merged_text": "a-1-true"}),
    );
    check("TextMerge", json!({}), json!({"text_inputs": "one"}), json!({"merged_text": "one"}));
    check("TextSplit", json!({"separator": ", "}), json!({"text": "a, b"}), json!({"parts": ["a", "b"]}));
    check("TextSplit", json!({"separator": ""}), json!({"text": "aé"}), json!({"parts": ["a", "é"]}));
    check("TextSplit", json!({}), json!({"text": "a\nb"}), json!({"parts": ["a", "b"]}));
    check(
        "TextReplace",
        json!({"pattern": "(\\w+)@", "with": "<$1>"}),
        json!({"text": "me@x"}),
        json!({"text": "<me>x"}),
    );
    check("TextReplace", json!({"pattern": "b"}), json!({"text": "abc"}), json!({"text": "ac"}));
    check_refused(
        "TextReplace",
        json!({"pattern": "("}),
        json!({"text": "x"}),
        "not a valid regular expression",
    );
    check(
        "TextJoin",
        json!({"separator": "+"}),
        json!({"parts": ["a", 1, {"b": 2}]}),
        json!({"text": "a+1+{\"b\":2}"}),
    );
    check_failure(
        "TextJoin",
        json!({}),
        json!({"parts": "x"}),
        "text",
        "the input `parts` takes ARRAY, but got a text",
    );
}

#[test]
fn json_values() {
    check("JsonParse", json!({}), json!({"text": " {\"a\": [1]} "}), json!({"value": {"a": [1]}}));
    check_failure("JsonParse", json!({}), json!({"text": "{"}), "value", "the text is not valid JSON");
    let shop = json!({"value": {"items": [{"n": "a", "p": 5}, {"n": "b", "p": 15}, {"n": "c", "p": 7}]}});
    check(
        "JsonSelect",
        json!({"path": "$.items[?@.p < 10].n"}),
        shop.clone(),
        json!({"value": "a", "matches": ["a", "c"]}),
    );
    check("JsonSelect", json!({"path": "$.none"}), shop, json!({"value": "-absent-", "matches": []}));
    check_refused("JsonSelect", json!({"path": "items"}), json!({"value": 1}), "not a valid JSONPath");
    check(
        "JsonMerge",
        json!({}),
        json!({"values": [{"a": {"x": 1}, "b": 1}, {"a": {"y": 2}}, {"b": [2]}]}),
        json!({"value": {"a": {"x": 1, "y": 2}, "b": [2]}}),
    );
    let set = |pointer: &str, value: Value, expected: Value| {
        check(
            "JsonSet",
            json!({"pointer": pointer}),
            json!({"value": value, "set": 9}),
            json!({"value": expected}),
        );
    };
    set("/a/b", json!({}), json!({"a": {"b": 9}}));
    set("/l/-", json!({"l": [1]}), json!({"l": [1, 9]}));
    set("/l/0", json!({"l": [1]}), json!({"l": [9]}));
    set("/x~1y", json!({"x/y": 1}), json!({"x/y": 9}));
    set("", json!({"x": 1}), json!(9));
    check_failure(
        "JsonSet",
        json!({"pointer": "/l/7"}),
        json!({"value": {"l": []}, "set": 1}),
        "value",
        "`7` is not an index of a list of 0",
    );
    check_refused("JsonSet", json!({"pointer": "a"}), json!({"set": 1}), "must be empty or begin with `/`");
}

#[test]
fn expressions_and_branches() {
    check("Const", json!({"value": {"a": 1}}), json!({}), json!({"value": {"a": 1}}));
    check("Const", json!({}), json!({}), json!({"value": null}));
    check("Expression", json!({"cel": "a * 2 + vars.limit"}), json!({"a": 4}), json!({"value": 11}));
    check("Expression", json!({"cel": "values.x + x"}), json!({"values": {"x": 1}}), json!({"value": 2}));
    check_failure(
        "Expression",
        json!({"cel": "values.x + 1"}),
        json!({"values": {"x": "1"}}),
        "value",
        "cannot be evaluated",
    );
    check_refused("Expression", json!({"cel": "1 +"}), json!({}), "is not a valid expression");
    let condition = |value: i64, expected: Value| {
        check("Condition", json!({"cel": "value > vars.limit"}), json!({"value": value}), expected);
    };
    condition(4, json!({"then": 4, "else": "-absent-"}));
    condition(3, json!({"then": "-absent-", "else": 3}));
    check_failure("Condition", json!({"cel": "value"}), json!({"value": 1}), "then", "not true or false");
    let names = json!({"cases": ["red", "3"]});
    check(
        "Switch",
        names.clone(),
        json!({"value": 3}),
        json!({"3": 3, "red": "-absent-", "default": "-absent-"}),
    );
    check("Switch", names, json!({"value": "blue"}), json!({"default": "blue", "red": "-absent-"}));
    let expressions = json!({"cases": {"big": "value > 10", "odd": "value % 2 == 1"}});
    check("Switch", expressions.clone(), json!({"value": 13}), json!({"big": 13, "odd": "-absent-"}));
    check("Switch", expressions, json!({"value": 4}), json!({"default": 4, "big": "-absent-"}));
    check_refused("Switch", json!({"cases": {"a": "valu > 1"}}), json!({"value": 1}), "uses `valu`");
}

#[test]
fn arithmetic() {
    let math = |mode: &str, inputs: Value, expected: Value| {
        check("MathOperation", json!({"operationMode": mode}), inputs, json!({"result": expected}));
    };
    math("multiply", json!({"a": 6, "b": 7}), json!(42));
    math("divide", json!({"a": 1, "b": 4}), json!(0.25));
    math("sqrt", json!({"a": 9}), json!(3));
    math("add", json!({"a": 1}), json!(1));
    check("MathOperation", json!({}), json!({"a": 1, "b": 2}), json!({"result": 3}));
    check_failure(
        "MathOperation",
        json!({"operationMode": "divide"}),
        json!({"a": 1, "b": 0}),
        "result",
        "has no result",
    );
    check_refused(
        "MathOperation",
        json!({"operationMode": "multipli"}),
        json!({}),
        "did you mean `multiply`?",
    );
}

#[test]
fn time_log_and_the_end() {
    check("Delay", json!({"ms": 5000}), json!({"value": 1}), json!({"value": 1}));
    check_refused("Delay", json!({"ms": "soon"}), json!({}), "expected a whole number");
    let log = single("Log", &json!({"level": "warn", "message": "got"}), &json!({"value": {"a": 1}}), &[]);
    let events = run(&log, RunOptions::new()).1;
    let line = EventBody::LogLine { level: "warn".to_owned(), message: "got {\"a\":1}".to_owned() };
    assert!(events.contains(&line), "{events:#?}");
    let stop = single("Stop", &json!({}), &json!({"value": 9}), &[]);
    assert_eq!(run(&stop, RunOptions::new()).0.stopped.as_deref(), Some(&json!(9)));
}

#[test]
fn a_question_waits_for_its_answer() {
    let ask = single("Ask", &json!({"prompt": "Really?"}), &json!({"context": "It is late."}), &["answer"]);
    let options = RunOptions { on_waiting: OnWaiting::End, ..RunOptions::new() };
    let outcome = run(&ask, options).0;
    assert_eq!(outcome.asks[0].prompt.as_deref(), Some("Really?\nIt is late."));
    assert_eq!(outcome.asks[0].ask.as_ref(), "n");
}

#[test]
fn a_model_is_asked() {
    let request = |messages: Value| {
        single(
            "GenericLlmRequest",
            &json!({"prompt": "Be brief."}),
            &json!({"messages": messages, "activated_model_id": "m"}),
            &["response", "responseText", "stream_output"],
        )
    };
    let options = |script: &str| {
        let model = Arc::new(ScriptedModel::from_jsonl(script).unwrap());
        RunOptions::new()
            .with_services(Services::new().with::<dyn ModelSource>(Arc::new(SingleModel::new(model))))
    };
    let script = r#"{"chunks": ["HI", " THERE"], "usage": {"input": 3, "output": 2}, "request": {"contains": ["Be brief.", "hi"]}}"#;
    for messages in [
        json!("hi"),
        json!([{"role": "user", "content": "hi"}]),
        json!("[{\"role\":\"user\",\"content\":\"hi\"}]"),
    ] {
        let (outcome, events) = run(&request(messages), options(script));
        assert_eq!(outcome.error, None);
        assert_eq!(
            Value::Object(outcome.outputs),
            json!({"response": "HI THERE", "responseText": "HI THERE", "stream_output": "HI THERE"})
        );
        assert_eq!(outcome.usage.total, 5);
        let chunks = events.iter().filter(|event| matches!(event, EventBody::NodeChunk { .. })).count();
        assert_eq!(chunks, 2);
    }
    let script = "{\"error\": {\"status\": 503, \"retry_after_ms\": 0}}\n{\"text\": \"HI\"}";
    let busy: Arc<dyn LlmProvider> = Arc::new(ScriptedModel::from_jsonl(script).unwrap());
    let busy = Arc::new(GuardedModel::new(busy, CallPolicy::default(), Arc::new(SystemClock)));
    let busy = Services::new().with::<dyn ModelSource>(Arc::new(SingleModel::new(busy)));
    let (outcome, events) = run(&request(json!("hi")), RunOptions::new().with_services(busy));
    assert_eq!(outcome.outputs["response"], "HI");
    let is_emitted =
        |event: &EventBody| matches!(event, EventBody::LogLine { message, .. } if message.contains("503"));
    assert_eq!(events.iter().filter(|event| is_emitted(event)).count(), 1);
    let outcome = run(&request(json!("hi")), options(r#"{"error": {"status": 500}}"#)).0;
    assert!(outcome.error.unwrap().message.contains("500"));
    let outcome = run(&request(json!("hi")), RunOptions::new()).0;
    assert!(outcome.error.unwrap().message.contains("ModelSource"));
}

#[test]
fn streams_are_read_and_written_in_order() {
    check("StreamToString", json!({}), json!({"stream": "abc"}), json!({"text": "abc"}));
    let template = json!({"template": "A: {a}, B: {b} {{x}}{gone}"});
    check("Reply", template, json!({"a": "1", "b": 2}), json!({"text": "A: 1, B: 2 {x}"}));
    check("Reply", json!({"template": "{a}-{a}"}), json!({"a": "1"}), json!({"text": "1-1"}));
    check_refused("Reply", json!({"template": "{a"}), json!({}), "has no `}`");
    let unknown = single("Reply", &json!({"template": "{name}"}), &json!({"nam": "x"}), &["text"]);
    let plan = Plan::new(&unknown, &node_library::catalog(), &NoWorkflows).unwrap();
    assert!(plan.warnings()[0].message.contains("`nam`"));
}

#[test]
fn messages_rules_and_numbers() {
    check(
        "CreateMessage",
        json!({}),
        json!({"content": "hi"}),
        json!({"message": {"role": "user", "content": "hi"}}),
    );
    let messages =
        json!({"messages": [{"role": "user", "content": "a"}, [{"role": "assistant", "content": "b"}]]});
    check(
        "MergeMessages",
        json!({}),
        messages,
        json!({"messages": [{"role": "user", "content": "a"}, {"role": "assistant", "content": "b"}]}),
    );
    let rules = json!([{"pattern": "a+", "replacement": "b"}, {"pattern": "b", "replacement": "c", "enabled": false}]);
    check("ApplyRegex", json!({}), json!({"text": "aaX", "rules": rules}), json!({"text": "bX"}));
    check_failure(
        "ApplyRegex",
        json!({}),
        json!({"text": "x", "rules": [{"pattern": "("}]}),
        "text",
        "not a valid regular expression",
    );
    check("RandomNumber", json!({}), json!({"min": 7, "max": 7}), json!({"value": 7}));
    let drawn = |seed: i64| {
        run(
            &single("RandomNumber", &json!({}), &json!({"min": -5, "max": 5, "seed": seed}), &["value"]),
            RunOptions::new(),
        )
        .0
        .outputs["value"]
            .as_i64()
            .unwrap()
    };
    assert_eq!(drawn(3), drawn(3));
    assert!((0..50).all(|seed| (-5..=5).contains(&drawn(seed))));
    check_failure("RandomNumber", json!({}), json!({"min": 2, "max": 1}), "value", "greater than");
}

#[test]
fn every_part_of_every_node_is_described() {
    for definition in node_library::definitions() {
        let name = &definition.node_type;
        assert!(!definition.description.is_empty(), "{name}");
        let modes = definition.modes.iter().flat_map(|modes| modes.modes.values());
        let slots = definition.inputs.iter().chain(&definition.outputs);
        for (slot, described) in slots.chain(modes.flat_map(|mode| mode.inputs.iter().chain(&mode.outputs))) {
            assert!(!described.description.is_empty(), "{name}.{slot}");
        }
        for (key, config) in &definition.config {
            assert!(!config.description.is_empty(), "{name}.{key}");
        }
    }
}
