//! `core:Script`: values in and out, errors with their lines, limits, tests in the settings.
#![expect(clippy::unwrap_used, clippy::needless_pass_by_value, reason = "helpers of tests")]

use std::time::{Duration, Instant};

use agent_types::EventBody;
use serde_json::{Map, Value, json};
use weft_harness::events;
use workflow_engine::{NodeCatalog, Plan, RunOptions, RunOutcome};
use workflow_model::{NoWorkflows, Workflow, World};

fn catalog() -> NodeCatalog {
    let mut catalog = node_library::catalog();
    node_script::register(&mut catalog);
    catalog
}

fn workflow(config: &Value, inputs: &Value) -> Workflow {
    Workflow::from_value(json!({
        "nodes": [{"id": "n", "type": "core:Script", "configValues": config, "inputValues": inputs},
            {"id": "out", "type": "core:GroupOutput"}],
        "edges": [{"source": "n", "sourceHandle": "value", "target": "out", "targetHandle": "value"}],
        "interfaceOutputs": {"value": {"dataFlowType": "WILDCARD"}},
        "variables": [{"name": "limit", "value": 3}]
    }))
    .unwrap()
}

fn run(workflow: &Workflow) -> (RunOutcome, Vec<EventBody>) {
    let plan = Plan::new(workflow, &catalog(), &NoWorkflows).unwrap();
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap();
    let (options, mut subscriber) = RunOptions::new().watched(10_000);
    let outcome = runtime.block_on(async { plan.run(Map::new(), options).outcome().await });
    (outcome, events(&mut subscriber).into_iter().map(|event| event.body).collect())
}

#[track_caller]
fn check(code: &str, inputs: Value, expected: Value) {
    let names: Vec<&String> = inputs.as_object().unwrap().keys().collect();
    let outcome = run(&workflow(&json!({"code": code, "inputs": names}), &inputs)).0;
    assert_eq!(outcome.error, None, "{code}");
    assert_eq!(outcome.outputs["value"].to_string(), expected.to_string(), "{code}");
}

#[track_caller]
fn check_failure(config: Value, code: &str, message: &str) {
    let error = run(&workflow(&config, &json!({}))).0.error.unwrap();
    assert_eq!(error.code.as_deref(), Some(code), "{error}");
    assert!(error.message.contains(message), "{error}");
}

#[test]
fn values_go_in_and_out() {
    check("return inputs.a + inputs.b", json!({"a": 1, "b": 2.5}), json!(3.5));
    check(
        "return {sum: inputs.values.length, limit: vars.limit}",
        json!({"values": [1, 2]}),
        json!({"sum": 2, "limit": 3}),
    );
    check("return [null, true, 'ü\\n', {a: []}]", json!({}), json!([null, true, "ü\n", {"a": []}]));
    check("return inputs.big", json!({"big": 9_007_199_254_740_993_u64}), json!(9_007_199_254_740_993_u64));
    check("return inputs.big + 1n", json!({"big": u64::MAX - 1}), json!(u64::MAX));
    check("return typeof inputs.big", json!({"big": i64::MIN}), json!("bigint"));
    check("return 2 ** 60", json!({}), json!(1_152_921_504_606_846_976.0_f64));
    check(
        "return inputs.o",
        json!({"o": {"__proto__": {"x": 1}, "y": 2}}),
        json!({"__proto__": {"x": 1}, "y": 2}),
    );
    check("return new Date(0)", json!({}), json!("1970-01-01T00:00:00.000Z"));
    check("return Math.random() !== Math.random()", json!({}), json!(true));
    check(
        "return [Date.now() === new Date().getTime(), new Date() instanceof Date]",
        json!({}),
        json!([true, true]),
    );
}

#[test]
fn deep_values_are_written() {
    let code = "let a = 1; for (let i = 0; i < 120; i++) a = {a}; return a";
    let outcome = run(&workflow(&json!({"code": code}), &json!({}))).0;
    assert_eq!(outcome.error, None);
    let shared = "const a = [1]; return [a, a]";
    check(shared, json!({}), json!([[1], [1]]));
}

#[test]
fn values_that_json_does_not_have_are_reported() {
    for (code, message) in [
        ("", "the result is undefined; end the code with `return`"),
        ("return NaN", "result is NaN"),
        ("return {a: [1, -Infinity]}", "result.a[1] is -Infinity"),
        ("return {a: {b: undefined}}", "result.a.b is undefined"),
        ("return [() => 1]", "result[0] is a function"),
        ("return Symbol('x')", "result is a symbol"),
        ("return new Map()", "result is a Map; return Object.fromEntries(…)"),
        ("return (async () => 1)()", "result is a Promise"),
        ("return 2n ** 64n", "more than 64 bits"),
        ("const a = []; a.push(a); return a", "result[0] holds itself"),
        ("let a = 1; for (let i = 0; i < 200; i++) a = [a]; return a", "nested deeper than 128 levels"),
    ] {
        check_failure(json!({"code": code}), "script_error", message);
    }
}

#[test]
fn errors_name_the_line_of_the_code() {
    for (code, message) in [
        ("const a = 1;\nreturn a.b.c;", "line 2: TypeError: "),
        ("null.x", "line 1: TypeError: "),
        ("function f() {\n  throw new RangeError('no');\n}\n\nf();", "line 2: RangeError: no"),
        ("throw {odd: 1}", "the script threw {\"odd\":1}"),
        ("return f();\nfunction f() { return f() + 1; }", "line 2: "),
        ("require('fs')", "line 1: ReferenceError: "),
        ("return fetch('x')", "line 1: ReferenceError: "),
    ] {
        check_failure(json!({"code": code}), "script_error", message);
    }
}

#[test]
fn time_and_memory_are_limited() {
    let started = Instant::now();
    check_failure(json!({"code": "while (true) {}", "timeoutMs": 50}), "script_timeout", "longer than 50 ms");
    check_failure(
        json!({"code": "try { while (true) {} } catch { return 1 }", "timeoutMs": 50}),
        "script_timeout",
        "50 ms",
    );
    check_failure(
        json!({"code": "return /^(a+)+$/.test('a'.repeat(40) + 'b')", "timeoutMs": 50}),
        "script_timeout",
        "50 ms",
    );
    let hoard = "const all = []; while (true) all.push('x'.repeat(1000) + all.length)";
    check_failure(json!({"code": hoard, "memoryMb": 4}), "script_memory", "more than 4 MiB");
    assert!(started.elapsed() < Duration::from_secs(20), "{:?}", started.elapsed());
}

#[test]
fn loops_of_the_engine_are_bounded() {
    let started = Instant::now();
    let long = "const long = {length: 2 ** 53 - 1}, sparse = []; sparse.length = 2 ** 32 - 1; const list = Array.prototype;";
    for code in [
        "list.reverse.call(long)",
        "list.join.call(long, '')",
        "list.copyWithin.call(long, 1, 0)",
        "list.shift.call(long)",
        "list.unshift.call(long, 1)",
        "list.splice.call(long, 0, 1)",
        "list.fill.call(long, 0)",
        "list.slice.call(long, 0, 2 ** 32 - 1)",
        "list.sort.call(long)",
        "list.toLocaleString.call(long)",
        "list.flat.call(long)",
        "sparse.reverse()",
        "sparse.toString()",
        "String(sparse)",
        "[].concat(sparse)",
        "[sparse].flat()",
        "[1].flatMap(() => sparse)",
        "[].concat({length: 2 ** 53 - 1, [Symbol.isConcatSpreadable]: true})",
        "JSON.stringify({}, sparse)",
        "delete list.reverse; list.reverse = list.toReversed; sparse.reverse()",
        "WeakSet.prototype.has = () => false; Reflect.apply = () => 1; sparse.reverse()",
    ] {
        let code = format!("{long}\n{code}; return 1");
        check_failure(json!({"code": code, "timeoutMs": 1000}), "script_error", "RangeError: a list of");
    }
    for call in [
        "indexOf(part)",
        "lastIndexOf(part)",
        "includes(part)",
        "split(part)",
        "replaceAll({toString: () => part}, '')",
    ] {
        let code = format!("const part = 'a'.repeat(1e6) + 'b'; return 'a'.repeat(4e6).{call}");
        check_failure(json!({"code": code, "timeoutMs": 1000}), "script_error", "RangeError: a search for");
    }
    // A length that is another one when it is read again.
    for code in [
        "let n = 0; list.reverse.call({get length() { return n++ ? 2 ** 53 - 1 : 0 }})",
        "let n = 0; const get = (t, k) => (k === 'length' && n++ ? 2 ** 53 - 1 : t[k]); new Proxy([], {get}).reverse()",
        "let n = 0; const get = (t, k) => (k === 'length' && n++ ? 2 ** 53 - 1 : t[k]); Proxy.revocable([], {get}).proxy.join('')",
        "Error.prepareStackTrace = (_, frames) => frames",
    ] {
        let outcome = run(&workflow(
            &json!({"code": format!("{long}\n{code}; return 1"), "timeoutMs": 1000}),
            &json!({}),
        ))
        .0;
        assert!(started.elapsed() < Duration::from_secs(40), "{code} {:?}", outcome.error);
    }
    check_failure(
        json!({"code": format!("{long} new Set(sparse)"), "timeoutMs": 50}),
        "script_timeout",
        "longer than 50 ms",
    );
    assert!(started.elapsed() < Duration::from_secs(40), "{:?}", started.elapsed());
}

#[test]
fn lists_behave_as_they_do_elsewhere() {
    for (code, expected) in [
        ("[3, 1, 2].sort()", json!([1, 2, 3])),
        ("[3, 1, 2].toSorted((a, b) => b - a)", json!([3, 2, 1])),
        ("Array.from({length: 150_000}, (_, i) => i).sort().slice(0, 3)", json!([0, 1, 10])),
        ("[[1, [2]], 3].flat()", json!([1, [2], 3])),
        ("[[1, [2, [4]]], 3].flat(Infinity)", json!([1, 2, 4, 3])),
        ("[1, 2].flatMap((x, i, all) => [x, i + all.length])", json!([1, 2, 2, 3])),
        ("[1].concat([2, [3]], 4, 'ab', {a: 1})", json!([1, 2, [3], 4, "ab", {"a": 1}])),
        ("[1, 2, 3].splice(1, 1)", json!([2])),
        ("const a = [1, 2, 3]; return [a.reverse() === a, a]", json!([true, [3, 2, 1]])),
        (
            "const o = {length: 2, 0: 'a', 1: 'b'}; return [[].reverse.call(o) === o, o]",
            json!([true, {"0": "b", "1": "a", "length": 2}]),
        ),
        ("[].join.call('abc', '-')", json!("a-b-c")),
        ("`${[1, [2, 3]]}`", json!("1,2,3")),
        ("new Proxy([3, 4], {}).slice(1)", json!([4])),
        ("new Proxy([1], {}).concat(new Proxy([2], {}))", json!([1, 2])),
        ("JSON.stringify({a: 1, b: 2}, ['b'])", json!("{\"b\":2}")),
        ("Array.from(new Uint8Array([3, 1]).sort())", json!([1, 3])),
        ("[[].reverse.name, Object.keys([1])]", json!(["reverse", ["0"]])),
        ("'a-b-c'.split('-', 2)", json!(["a", "b"])),
        ("'a1b2'.split(/\\d/)", json!(["a", "b", ""])),
        ("'abc'.split()", json!(["abc"])),
        ("'aXa'.replaceAll('a', (found, at) => found + at)", json!("a0Xa2")),
        ("'aXa'.replace(/a/g, 'b').replaceAll(/b/g, '$&c').replace('X', '-')", json!("bc-bc")),
        ("['abc'.indexOf('c', 1), 'abca'.lastIndexOf('a'), 'abc'.includes('z')]", json!([2, 3, false])),
        ("(function () { return [].slice.call(arguments, 1) })(1, 2)", json!([2])),
    ] {
        let code = if code.starts_with("const ") { code.to_owned() } else { format!("return {code}") };
        check(&code, json!({}), expected);
    }
}

#[test]
fn the_end_of_the_node_ends_the_script() {
    let mut endless = workflow(&json!({"code": "while (true) {}", "timeoutMs": 60_000}), &json!({}));
    endless.nodes[0].timeout_ms = Some(50);
    let started = Instant::now();
    assert_eq!(run(&endless).0.error.unwrap().kind, "timeout");
    assert!(started.elapsed() < Duration::from_secs(20), "{:?}", started.elapsed());
}

#[test]
fn the_console_is_the_log_of_the_run() {
    let code = "console.log('got', {a: 1}, [undefined]); console.warn(2n); return null";
    let (outcome, events) = run(&workflow(&json!({"code": code}), &json!({})));
    assert_eq!(outcome.error, None);
    let lines: Vec<(String, String)> = events
        .into_iter()
        .filter_map(|event| match event {
            EventBody::LogLine { level, message } => Some((level, message)),
            _ => None,
        })
        .collect();
    let line = |level: &str, message: &str| (level.to_owned(), message.to_owned());
    assert_eq!(lines, [line("info", "got {\"a\":1} "), line("warn", "2")]);
    let code = "for (let i = 0; i < 5000; i++) console.log(i); return null";
    let events = run(&workflow(&json!({"code": code}), &json!({}))).1;
    assert_eq!(events.iter().filter(|event| matches!(event, EventBody::LogLine { .. })).count(), 1001);
}

#[test]
fn settings_are_read_when_the_plan_is_made() {
    for (config, message) in [
        (json!({}), "this setting is required"),
        (json!({"code": "return 1;\nreturn ]"}), "line 2: SyntaxError: "),
        (json!({"code": "return 1", "timeoutMs": 0}), "from 1 to 60000, found 0"),
        (json!({"code": "return 1", "memoryMb": "much"}), "from 1 to 256"),
        (json!({"code": "return 1", "tests": [{"input": {}}]}), "test 1: unknown field `input`"),
        (json!({"code": "return 1", "inputs": [1]}), "expected names, found 1"),
    ] {
        let error =
            Plan::new(&workflow(&config, &json!({})), &catalog(), &NoWorkflows).unwrap_err().to_string();
        assert!(error.contains(message), "{error}");
    }
}

#[test]
fn tests_in_the_settings_are_run_by_the_check() {
    let check = |tests: Value| {
        let workflow = workflow(
            &json!({"code": "return inputs.a * 2", "inputs": ["a"], "tests": tests}),
            &json!({"a": 1}),
        );
        let catalog = catalog();
        let problems = Plan::check(&workflow, &catalog, &World::new(&catalog, &NoWorkflows));
        problems.into_iter().map(|problem| problem.to_string()).collect::<Vec<_>>()
    };
    let passing = json!([{"inputs": {"a": 2}, "expect": 4}, {"inputs": {"a": "x"}, "expectError": "NaN"}]);
    assert_eq!(check(passing), Vec::<String>::new());
    let failing = json!([{"inputs": {"a": 2}, "expect": 5}, {"name": "none", "expect": null}]);
    assert_eq!(
        check(failing),
        [
            "n.tests: test `1`: it gives 4; expected 5",
            "n.tests: test `none`: TypeError: result is NaN, which JSON does not have",
        ]
    );
}
