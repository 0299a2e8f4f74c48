//! Problems found by the check, and the graph of a valid workflow.
#![expect(
    clippy::unwrap_used,
    clippy::format_push_string,
    clippy::needless_pass_by_value,
    reason = "helpers of tests: a wrong case may panic"
)]

mod common;

use common::{Types, project, workflow};
use serde_json::{Value, json};
use workflow_model::graph::{NodeKind, Source};
use workflow_model::{Problem, Severity, World, analyze, check_as_tool};

/// One line a problem: severity (`!` or `?`), code, place, suggestion and cycle.
fn line(problem: &Problem) -> String {
    let mark = match problem.severity {
        Severity::Error => '!',
        Severity::Warning => '?',
    };
    let mut text = format!("{mark} {}", problem.code);
    for part in [&problem.place.node, &problem.place.slot] {
        text.push_str(&format!(" {}", part.as_deref().unwrap_or("-")));
    }
    if let Some(near) = &problem.suggest {
        text.push_str(&format!(" → {near}"));
    }
    if !problem.place.nodes.is_empty() {
        text.push_str(&format!(" {:?}", problem.place.nodes));
    }
    text
}

#[track_caller]
fn check(file: Value, expected: &[&str]) {
    check_in(file, &[], expected);
}

#[track_caller]
fn check_in(file: Value, others: &[(&str, Value)], expected: &[&str]) {
    let (workflow, others, types) = (workflow(file), project(others), Types::default());
    let world = World::new(&types, &others).with_own_id(Some("main"));
    let lines: Vec<String> = analyze(&workflow, &world).problems.iter().map(line).collect();
    assert_eq!(lines, expected);
}

fn node(id: &str, node_type: &str) -> Value {
    json!({"id": id, "type": node_type})
}

fn edge(from: &str, to: &str) -> Value {
    let part = |text: &str| match text.split_once('.') {
        Some((node, slot)) => (json!(node), json!(slot)),
        None => (json!(text), Value::Null),
    };
    let ((source, source_handle), (target, target_handle)) = (part(from), part(to));
    json!({"source": source, "sourceHandle": source_handle, "target": target, "targetHandle": target_handle})
}

fn graph(nodes: &[Value], edges: &[(&str, &str)]) -> Value {
    let edges: Vec<Value> = edges.iter().map(|(from, to)| edge(from, to)).collect();
    json!({"nodes": nodes, "edges": edges})
}

#[test]
fn sound_wiring_has_no_problem() {
    check(graph(&[], &[]), &[]);
    check(graph(&[node("c", "t:Const"), node("u", "t:Upper")], &[("c.out", "u.text")]), &[]);
    check(graph(&[node("c", "t:Const"), node("d", "t:Const")], &[("c", "d")]), &[]);
    check(
        graph(
            &[node("c", "t:Const"), node("m", "t:Merge")],
            &[("c.out", "m.parts__1"), ("c.out", "m.parts__0")],
        ),
        &[],
    );
}

#[test]
fn wrong_wiring_is_named() {
    check(
        graph(
            &[node("fetch", "t:Const"), node("x", "t:Upper"), node("y", "t:Upper"), node("z", "t:Upper")],
            &[("fetch.out", "x.text"), ("fetch.out", "x.text"), ("fetsh.out", "y.text")],
        ),
        &["! unknown_node y text → fetch", "! missing_input z text", "! duplicate_input x text"],
    );
    check(
        graph(
            &[node("c", "t:Const"), node("u", "t:Uper")],
            &[("c.out", "u.text"), ("c.owt", "u.x"), ("c.out", "gone.x")],
        ),
        &["! unknown_type u - → t:Upper", "! unknown_slot c owt → out", "! unknown_node c out"],
    );
    check(
        graph(
            &[node("o", "t:Object"), node("u", "t:Upper")],
            &[("o.object", "u.text"), ("u.text", "o.texd")],
        ),
        &["! type_mismatch u text", "! unknown_slot o texd → text"],
    );
    check(graph(&[node("a", "t:Const"), node("a", "t:Const")], &[]), &["! duplicate_node a -"]);
    check(
        graph(&[json!({"id": "u", "type": "t:Upper", "inputValues": {"text": "x", "txt": 1}})], &[]),
        &["? unknown_slot u txt → text"],
    );
}

#[test]
fn a_cycle_names_its_nodes_in_order() {
    let upper = |id| node(id, "t:Upper");
    check(
        graph(
            &[upper("a"), upper("b"), upper("c"), upper("d")],
            &[("c.text", "a.text"), ("a.text", "b.text"), ("b.text", "c.text"), ("d.text", "d.text")],
        ),
        &[r#"! cycle a - ["a", "b", "c"]"#, r#"! cycle d - ["d"]"#],
    );
    check(
        graph(&[node("a", "t:Const"), node("b", "t:Const")], &[("a", "b"), ("b", "a")]),
        &[r#"! cycle a - ["a", "b"]"#],
    );
}

#[test]
fn settings_and_modes_are_checked() {
    let math = |mode: &str, edges: &[(&str, &str)]| {
        graph(
            &[json!({"id": "m", "type": "t:Math", "configValues": {"mode": mode}, "inputValues": {"a": 1}})],
            edges,
        )
    };
    check(math("add", &[]), &["! missing_input m b"]);
    check(math("negate", &[]), &[]);
    check(math("ad", &[]), &["! bad_value m mode → add"]);
    check(
        graph(
            &[
                json!({"id": "s", "type": "t:Switch", "configValues": {"cases": ["a"], "levl": 1}}),
                node("u", "t:Const"),
            ],
            &[("s.a", "u.value"), ("s.b", "u.value")],
        ),
        &[
            "! unknown_slot s b",
            "! duplicate_input u value",
            "! bad_value s level",
            "? bad_value s levl → level",
        ],
    );
}

#[test]
fn tool_lists_and_variables_are_checked() {
    let mut file = graph(&[], &[]);
    file["availableTools"] = json!({"initial": ["kb:docs", "kb:docs"], "hidden": ["kb:dosc"]});
    file["variables"] = json!([{"name": "a", "value": 1}, {"name": "a", "value": 2}]);
    let (workflow, others, types) = (workflow(file), project(&[]), Types::default());
    let tools = ["kb:docs".to_owned()];
    let world = World::new(&types, &others).with_tools(&tools);
    let lines: Vec<String> = analyze(&workflow, &world).problems.iter().map(line).collect();
    assert_eq!(lines, ["! bad_value - kb:docs", "! unknown_tool - kb:dosc → kb:docs", "! bad_value - a"]);
}

fn zone(config: Value) -> Value {
    json!({"id": "L", "type": "core:LoopZone", "configValues": config})
}

fn inside(id: &str, node_type: &str) -> Value {
    json!({"id": id, "type": node_type, "parentNode": "L"})
}

#[test]
fn zones_are_checked() {
    let times = json!({"mode": "times", "times": 2});
    check(
        graph(&[zone(times.clone()), inside("a", "t:Const"), node("b", "t:Upper")], &[("a.out", "b.text")]),
        &["! edge_leaves_zone a out"],
    );
    check(
        graph(
            &[zone(
                json!({"mode": "times", "times": 2, "state": [{"key": "k"}, {"key": "index", "initial": 0}]}),
            )],
            &[],
        ),
        &["! reserved_name L index", "! missing_initial L k"],
    );
    check(
        graph(
            &[
                zone(json!({"mode": "until", "state": [{"key": "k", "initial": 0}], "collect": ["v", "w"]})),
                inside("s", "core:LoopState"),
                inside("go", "core:GroupOutput"),
                inside("n", "core:LoopNext"),
                node("b", "t:Const"),
            ],
            &[
                ("s.k", "go.v"),
                ("s.kk", "n.k"),
                ("s.index", "n.brake"),
                ("L.v", "b.value"),
                ("L.totl", "b.value"),
            ],
        ),
        &[
            "! bad_value L condition",
            "! unknown_slot s kk",
            "! unknown_slot n brake → break",
            "! unknown_slot L totl",
            "! unknown_slot L w",
            "! duplicate_input b value",
        ],
    );
    check(graph(&[zone(json!({"mode": "each"}))], &[]), &["! missing_input L items"]);
    check(
        graph(&[zone(json!({"mode": "evry", "onMax": "stop"}))], &[]),
        &["! bad_value L mode", "! bad_value L onMax", "! bad_value L condition"],
    );
    check(
        graph(&[node("s", "core:LoopState"), json!({"id": "x", "type": "t:Const", "parentNode": "y"})], &[]),
        &["! unknown_node x -", "! bad_value s -"],
    );
    let output = inside("go", "core:GroupOutput");
    check(
        graph(&[zone(times), output, inside("c", "t:Const")], &[("c.out", "go.stream")]),
        &["! reserved_name L stream"],
    );
}

#[test]
fn a_result_of_the_zone_may_not_feed_its_own_body() {
    let body = [
        zone(json!({"mode": "times", "times": 1})),
        inside("a", "t:Const"),
        inside("go", "core:GroupOutput"),
    ];
    check(graph(&body, &[("a.out", "go.v"), ("L.v", "a.value")]), &[r#"! cycle L - ["L"]"#]);
}

#[test]
fn groups_are_checked() {
    let echo = json!({
        "nodes": [node("gi", "core:GroupInput"), node("go", "core:GroupOutput")],
        "edges": [edge("gi.text", "go.result")],
        "interfaceInputs": {"text": {"dataFlowType": "STRING", "required": true}},
        "interfaceOutputs": {"result": {"dataFlowType": "STRING"}}
    });
    let group = |id: &str, workflow: &str| json!({"id": id, "type": "core:NodeGroup", "configValues": {"referencedWorkflowId": workflow}});
    let others = [("echo", echo)];
    check_in(
        graph(
            &[node("c", "t:Const"), group("g", "echo"), node("u", "t:Upper")],
            &[("c.out", "g.text"), ("g.result", "u.text")],
        ),
        &others,
        &[],
    );
    check_in(
        graph(
            &[group("g", "echo"), node("u", "t:Upper"), group("h", "ecco"), group("m", "main")],
            &[("g.result", "u.text"), ("g.reslt", "u.text")],
        ),
        &others,
        &[
            "! unknown_workflow h - → echo",
            "! self_reference m -",
            "! missing_input g text",
            "! unknown_slot g reslt → result",
            "! duplicate_input u text",
        ],
    );
    // The group hands its own result to itself.
    check_in(
        graph(&[group("g", "echo"), node("u", "t:Upper")], &[("g.result", "g.text"), ("g.result", "u.text")]),
        &others,
        &[r#"! cycle g - ["g"]"#],
    );
}

#[test]
fn workflows_that_embed_each_other_are_refused() {
    let embed = |id: &str| {
        graph(
            &[json!({"id": "g", "type": "core:NodeGroup", "configValues": {"referencedWorkflowId": id}})],
            &[],
        )
    };
    check_in(embed("b"), &[("b", embed("c")), ("c", embed("b"))], &["! self_reference g/g/g -"]);
    // Two uses at each of forty levels would be 2^40 nodes.
    let twice = |id: &str| {
        let group = |name: &str| json!({"id": name, "type": "core:NodeGroup", "configValues": {"referencedWorkflowId": id}});
        graph(&[group("g"), group("h"), node("c", "t:Const")], &[])
    };
    let names: Vec<String> = (0..41).map(|n| format!("w{n}")).collect();
    let mut others: Vec<(&str, Value)> = (0..40).map(|n| (names[n].as_str(), twice(&names[n + 1]))).collect();
    others.push(("w40", graph(&[], &[])));
    check_in(embed("w0"), &others, &["! bad_value - -"]);
}

#[test]
fn the_graph_runs_through_groups() {
    let inner = json!({
        "nodes": [node("gi", "core:GroupInput"), node("u", "t:Upper"), node("v", "t:Upper"), node("go", "core:GroupOutput")],
        "edges": [edge("gi.a", "u.text"), edge("gi.a", "v.text"), edge("u.text", "go.r"), edge("gi.b", "go.same")],
        "interfaceInputs": {"a": {"dataFlowType": "STRING"}, "b": {"dataFlowType": "STRING", "config": {"suggestions": [{"value": "s"}]}}},
        "interfaceOutputs": {"r": {"dataFlowType": "STRING"}, "same": {"dataFlowType": "STRING"}}
    });
    let group = |id: &str| json!({"id": id, "type": "core:NodeGroup", "configValues": {"referencedWorkflowId": "inner"}});
    let mut file = graph(
        &[node("c", "t:Const"), group("g"), group("h"), node("x", "t:Merge"), node("go", "core:GroupOutput")],
        &[("c.out", "g.a"), ("g.r", "h.a"), ("h.same", "x.parts"), ("h.r", "go.out")],
    );
    file["interfaceOutputs"] = json!({"out": {"dataFlowType": "STRING"}});
    let (workflow, others, types) = (workflow(file), project(&[("inner", inner)]), Types::default());
    let analysis = analyze(&workflow, &World::new(&types, &others));
    assert_eq!(analysis.problems, []);
    let graph = analysis.graph;
    let paths: Vec<&str> = graph.nodes.iter().map(|node| &*node.path).collect();
    assert_eq!(paths, ["c", "x", "g/u", "g/v", "h/u", "h/v"]);
    let sources = |node: usize| graph.nodes[node].inputs[0].sources.to_vec();
    let out = graph.find_name("out").unwrap();
    assert_eq!(sources(2), [Source::Node(0, out)]);
    assert_eq!(sources(3), sources(2));
    let text = graph.find_name("text").unwrap();
    assert_eq!(sources(4), [Source::Node(2, text)]);
    let absent = graph.find_name("b").unwrap();
    assert_eq!(sources(1), [Source::Absent(absent)], "a suggestion is not a default");
    assert_eq!(graph.scopes[0].outputs[&out].sources, [Source::Node(4, text)]);
    assert_eq!(graph.scopes[0].output_nodes, ["go".into()]);
}

#[test]
fn both_spellings_of_a_body_are_one_form() {
    let config = json!({"mode": "times", "times": 3, "state": [{"key": "k", "dataFlowType": "INTEGER", "initial": 0}]});
    let frame = json!({"id": "f", "type": "core:Frame", "parentNode": "L"});
    let framed = json!({"id": "a", "type": "t:Const", "parentNode": "f"});
    let by_parent = graph(
        &[zone(config.clone()), frame, inside("s", "core:LoopState"), framed, inside("n", "core:LoopNext")],
        &[("s.k", "a.value"), ("a.out", "n.k")],
    );
    let mut nested = config;
    nested["body"] = graph(
        &[node("s", "core:LoopState"), node("a", "t:Const"), node("n", "core:LoopNext")],
        &[("s.k", "a.value"), ("a.out", "n.k")],
    );
    let by_body = graph(&[zone(nested)], &[]);
    let shape = |file: Value| {
        let (workflow, types) = (workflow(file), Types::default());
        let analysis = analyze(&workflow, &World::new(&types, &workflow_model::NoWorkflows));
        assert_eq!(analysis.problems, []);
        let graph = analysis.graph;
        assert!(matches!(graph.nodes[0].kind, NodeKind::Zone { scope: 1, .. }));
        assert_eq!(graph.full_path(1), "L/a");
        (graph.nodes[1].inputs[0].sources.clone(), graph.scopes[1].next.clone())
    };
    assert_eq!(shape(by_parent), shape(by_body));
}

#[test]
fn a_tool_needs_descriptions() {
    let file = json!({
        "description": " ", "nodes": [], "edges": [],
        "interfaceInputs": {
            "a": {"dataFlowType": "STRING", "customDescription": "said"},
            "b": {"dataFlowType": "STRING", "matchCategories": ["ComboOption"], "config": {"default": "z", "suggestions": ["x"]}},
            "t": {"dataFlowType": "WILDCARD", "matchCategories": ["Trigger"]}
        }
    });
    let lines: Vec<String> = check_as_tool(&workflow(file)).iter().map(line).collect();
    assert_eq!(lines, ["? missing_description - -", "? missing_description - b", "? bad_value - b"]);
}

#[test]
fn zones_that_contain_themselves_are_reported() {
    for parents in [&["a"][..], &["b", "a"], &["b", "c", "a"]] {
        let nodes: Vec<serde_json::Value> = ["a", "b", "c"]
            .iter()
            .zip(parents)
            .map(|(id, parent)| {
                serde_json::json!({"id": id, "type": "core:LoopZone", "parentNode": parent,
                    "configValues": {"mode": "times", "times": 1}})
            })
            .collect();
        let workflow =
            workflow_model::Workflow::from_value(serde_json::json!({"nodes": nodes, "edges": []})).unwrap();
        let problems = workflow_model::check(&workflow, &Types::default(), &workflow_model::NoWorkflows);
        assert!(problems.iter().any(|problem| problem.code == "cycle"), "{problems:?}");
    }
}

#[test]
fn what_does_nothing_where_it_stands_is_warned_of() {
    let config = json!({"mode": "add", "mod": 1, "x": 2, "retry": {"max": 1}});
    let math = json!({"id": "m", "type": "t:Math", "configValues": config, "inputValues": {"a": 1, "b": 2},
        "cancelRest": true});
    check(
        graph(&[math], &[]),
        &["? bad_value m mod → mode", "? bad_value m x", "? bad_value m retry", "? bad_value m cancelRest"],
    );
    let config = json!({"mode": "until", "condition": "index > 2", "times": 3, "parallel": 2, "onItemError": "drop",
        "colect": [], "timeoutMs": 5});
    check(
        graph(&[zone(config)], &[]),
        &[
            "? bad_value L times",
            "? bad_value L parallel",
            "? bad_value L onItemError",
            "? bad_value L colect → collect",
            "? bad_value L timeoutMs",
        ],
    );
    check(
        graph(&[zone(json!({"mode": "times", "times": 2, "test": "before", "onMax": "fail"}))], &[]),
        &["? bad_value L test", "? bad_value L onMax"],
    );
}

#[test]
fn the_branch_of_a_failure_is_the_output_error() {
    let upper = |on_error: &str| json!({"id": "u", "type": "t:Upper", "inputValues": {"text": "x"}, "onError": on_error});
    let file = |on_error| graph(&[upper(on_error), node("c", "t:Const")], &[("u.onError", "c.value")]);
    check(file("branch"), &["! unknown_slot u onError → error"]);
    let (types, others) = (Types::default(), project(&[]));
    let workflow = workflow(file("fail"));
    let problems = analyze(&workflow, &World::new(&types, &others)).problems;
    assert!(
        problems[0].message.contains("`\"onError\": \"branch\"` gives it the output `error`"),
        "{problems:?}"
    );
}
