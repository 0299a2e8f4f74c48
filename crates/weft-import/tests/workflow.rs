//! Graphs of other systems become workflow files.

use serde_json::{Value, json};
use weft_import::{ImportedWorkflows as Imported, from_comfytavern, from_comfyui, from_modular};
use workflow_model::{Definitions, NoWorkflows, NodeDefinition, World, analyze};

/// A catalogue without types.
struct NoTypes;

impl Definitions for NoTypes {
    fn definition(&self, _: &str) -> Option<&NodeDefinition> {
        None
    }

    fn type_names(&self) -> Vec<&str> {
        Vec::new()
    }
}

fn edges(workflow: &workflow_model::Workflow) -> Vec<String> {
    let end = |node: &str, slot: Option<&str>| {
        slot.map_or_else(|| node.to_owned(), |slot| format!("{node}.{slot}"))
    };
    let edges = workflow.edges.iter();
    edges
        .map(|edge| {
            format!("{} > {}", end(&edge.source, edge.source_slot()), end(&edge.target, edge.target_slot()))
        })
        .collect()
}

fn notes(imported: &Imported) -> Vec<String> {
    imported.notes.iter().map(ToString::to_string).collect()
}

#[test]
fn a_graph_of_the_comfyui_editor_with_a_subgraph() {
    let file = json!({
        "nodes": [
            {"id": 1, "type": "LoadImage", "mode": 0, "pos": [10, 20], "title": "The picture",
             "outputs": [{"name": "IMAGE", "type": "IMAGE", "links": [1]}], "widgets_values": ["a.png", "image"]},
            {"id": 2, "type": "b1/../x", "mode": 0, "pos": {"0": 1.5, "1": 2},
             "inputs": [{"name": "image", "type": "IMAGE", "link": 1}],
             "outputs": [{"name": "IMAGE", "type": "IMAGE"}]},
            {"id": 3, "type": "SaveImage", "mode": 2, "inputs": [{"name": "images", "type": "IMAGE"}]},
            {"id": 4, "type": "Blur", "mode": 4},
        ],
        "links": [[1, 1, 0, 2, 0, "IMAGE"], [2, 2, 0, 3, 0, "IMAGE"], [3, 2, 0, 99, 0, "IMAGE"]],
        "definitions": {"subgraphs": [{
            "id": "b1/../x", "name": "Sharper",
            "inputs": [{"name": "strength", "type": "FLOAT"}, {"name": "image", "type": "IMAGE"}],
            "outputs": [{"name": "IMAGE", "type": "IMAGE"}],
            "nodes": [{"id": 7, "type": "Sharpen", "inputs": [{"name": "image"}, {"name": "amount"}],
                       "outputs": [{"name": "IMAGE"}]}],
            "links": [{"id": 1, "origin_id": -10, "origin_slot": 1, "target_id": 7, "target_slot": 0},
                      {"id": 2, "origin_id": -10, "origin_slot": 0, "target_id": 7, "target_slot": 1},
                      {"id": 3, "origin_id": 7, "origin_slot": 0, "target_id": -20, "target_slot": 0}],
        }]},
    });
    let imported = from_comfyui("pictures", &file.to_string()).unwrap();
    let ids: Vec<&str> = imported.workflows.iter().map(|(id, _)| id.as_str()).collect();
    assert_eq!(ids, ["pictures", "pictures/b1____x"], "the id of a subgraph becomes a safe file name");
    let (main, inner) = (&imported.workflows[0].1, &imported.workflows[1].1);
    assert_eq!(edges(main), ["1.IMAGE > 2.image", "2.IMAGE > 3.images"]);
    assert_eq!(
        edges(inner),
        ["inputs.image > 7.image", "inputs.strength > 7.amount", "7.IMAGE > outputs.IMAGE"]
    );
    assert_eq!(notes(&imported), ["`2`: a link with its other end nowhere was left out"]);
    let nodes: Vec<String> =
        main.to_value()["nodes"].as_array().unwrap().iter().map(ToString::to_string).collect();
    insta::assert_snapshot!(nodes.join("\n"), @r#"
    {"id":"1","type":"comfyui:LoadImage","configValues":{"widgets_values":["a.png","image"]},"displayName":"The picture","position":{"x":10.0,"y":20.0},"comfyui":{"outputs":[{"name":"IMAGE","type":"IMAGE","links":[1]}]}}
    {"id":"2","type":"core:NodeGroup","configValues":{"referencedWorkflowId":"pictures/b1____x"},"position":{"x":1.5,"y":2.0},"comfyui":{"inputs":[{"name":"image","type":"IMAGE","link":1}],"outputs":[{"name":"IMAGE","type":"IMAGE"}]}}
    {"id":"3","type":"comfyui:SaveImage","bypass":"mute","comfyui":{"inputs":[{"name":"images","type":"IMAGE"}]}}
    {"id":"4","type":"comfyui:Blur","bypass":"pass"}
    "#);
}

#[test]
fn a_graph_in_the_form_of_the_comfyui_api() {
    let file = json!({"prompt": {
        "4": {"class_type": "Loader", "inputs": {"name": "m.safetensors"}},
        "6": {"class_type": "Encode", "inputs": {"text": "a cat", "clip": ["4", 1], "size": ["8", 1]},
              "_meta": {"title": "Prompt"}},
    }});
    let imported = from_comfyui("api", &file.to_string()).unwrap();
    let workflow = &imported.workflows[0].1;
    assert_eq!(edges(workflow), ["4.1 > 6.clip"]);
    let encode = workflow.node("6").unwrap();
    assert_eq!(encode.input_values["size"], json!(["8", 1]), "a list that names no node is a value");
    assert_eq!(encode.display_name.as_deref(), Some("Prompt"));
}

#[test]
fn loops_of_a_modular_agent_become_zones() {
    let node =
        |id: &str, kind: &str, config: Value| json!({"id": id, "type": kind, "name": id, "config": config});
    let edge = |source: &str, target: &str| json!({"sourceNodeId": source, "targetNodeId": target, "type": "DEFAULT"});
    let mut conditional = edge("call", "inner_start");
    conditional["condition"] = json!({"expression": "n > 1"});
    let file = json!({
        "name": "Two loops",
        "nodes": [
            node("s", "START", json!({})),
            node("outer_start", "LOOP_START", json!({"loopId": "o", "maxIterations": 3})),
            node("call", "LLM", json!({"profileId": "p"})),
            node("inner_start", "LOOP_START", json!({"loopId": "i", "maxIterations": 2})),
            node("work", "SCRIPT", json!({})),
            node("inner_end", "LOOP_END", json!({"loopId": "i", "breakCondition": {"expression": "state.done"}})),
            node("outer_end", "LOOP_END", json!({"loopId": "o"})),
            node("sub", "SUBGRAPH", json!({"subgraphId": "other"})),
            node("e", "END", json!({})),
        ],
        "edges": [
            edge("s", "outer_start"), edge("outer_start", "call"), conditional, edge("inner_start", "work"),
            edge("work", "inner_end"), edge("inner_end", "outer_end"), edge("outer_end", "sub"), edge("sub", "e"),
        ],
    });
    let imported = from_modular("two", &file.to_string()).unwrap();
    let workflow = &imported.workflows[0].1;
    let parents: Vec<(&str, &str, Option<&str>)> = workflow
        .nodes
        .iter()
        .map(|node| (node.id.as_str(), node.node_type.as_str(), node.parent_node.as_deref()))
        .collect();
    assert_eq!(
        parents,
        [
            ("s", "core:GroupInput", None),
            ("outer_start", "core:LoopZone", None),
            ("call", "agent:LlmApiRequest", Some("outer_start")),
            ("inner_start", "core:LoopZone", Some("outer_start")),
            ("work", "modular:SCRIPT", Some("inner_start")),
            ("sub", "core:NodeGroup", None),
            ("e", "core:GroupOutput", None),
        ]
    );
    assert_eq!(edges(workflow), ["s > outer_start", "call > inner_start", "outer_start > sub", "sub > e"]);
    insta::assert_snapshot!(notes(&imported).join("\n"), @"
    `inner_start`: write the condition `state.done` over `state`, `index` and `out`
    `call`: the condition `n > 1` of an edge is unsupported; use a `core:Condition`
    ");
}

/// The printed example of a workflow with tools, and of a node that asks a model with more of them.
#[test]
fn models_of_a_modular_agent_keep_their_settings_and_tools() {
    let config = json!({"profileId": "clever", "prompt": "Look at these figures.", "maxToolCalls": 4,
        "dynamicTools": {"toolIds": ["chart-generator", "report-writer"], "descriptionTemplate": "工具 {toolName}: {toolDescription}"}});
    let file = json!({
        "id": "workflow-1", "name": "Figures",
        "nodes": [{"id": "start", "type": "START", "config": {}},
            {"id": "llm-1", "type": "LLM", "name": "Look", "config": config},
            {"id": "end", "type": "END", "config": {}}],
        "edges": [{"id": "a", "sourceNodeId": "start", "targetNodeId": "llm-1", "type": "DEFAULT"},
            {"id": "b", "sourceNodeId": "llm-1", "targetNodeId": "end", "type": "DEFAULT"}],
        "availableTools": {"initial": ["calculator", "data-query"]},
    });
    let imported = from_modular("figures", &file.to_string()).unwrap();
    let workflow = &imported.workflows[0].1;
    let node = workflow.node("llm-1").unwrap();
    assert_eq!((node.node_type.as_str(), json!(node.config_values)), ("agent:LlmApiRequest", config));
    assert_eq!(workflow.available_tools.as_ref().unwrap().initial, ["calculator", "data-query"]);
    assert_eq!(edges(workflow), ["start > llm-1", "llm-1.text > end.text"]);
    assert_eq!(workflow.interface_outputs.keys().collect::<Vec<_>>(), ["text"]);
    assert!(notes(&imported).is_empty(), "{:?}", notes(&imported));
}

#[test]
fn loops_that_cross_stay_nodes() {
    let node = |id: &str, kind: &str, of: &str| json!({"id": id, "type": kind, "config": {"loopId": of}});
    let edge = |source: &str, target: &str| json!({"sourceNodeId": source, "targetNodeId": target});
    let file = json!({
        "nodes": [node("a", "LOOP_START", "1"), node("b", "LOOP_START", "2"), node("c", "LOOP_END", "1"),
                  node("x", "SCRIPT", ""), node("d", "LOOP_END", "2"), node("lone", "LOOP_END", "3")],
        "edges": [edge("a", "b"), edge("b", "c"), edge("c", "x"), edge("x", "d")],
    });
    let imported = from_modular("crossed", &file.to_string()).unwrap();
    let zones = imported.workflows[0].1.nodes.iter().filter(|node| node.node_type == "core:LoopZone").count();
    assert_eq!((zones, imported.notes.len()), (1, 2), "{:?}", notes(&imported));
}

#[test]
fn a_payload_of_comfytavern() {
    let file = json!({"nodes": [{"id": "u", "fullType": "test:Upper", "inputs": {"text": "hi"}}], "edges": [],
        "outputInterfaceMappings": {"t": {"sourceNodeId": "u", "sourceSlotKey": "text"}}});
    let imported = from_comfytavern("upper", &file.to_string()).unwrap();
    let workflow = &imported.workflows[0].1;
    assert_eq!(workflow.node("u").unwrap().node_type, "test:Upper");
    assert!(edges(workflow)[0].starts_with("u.text > "));
}

#[test]
fn what_is_no_graph_is_refused() {
    for (text, code) in
        [("{", "bad_json"), ("[]", "bad_shape"), ("{\"a\": 1}", "bad_shape"), ("3", "bad_shape")]
    {
        assert_eq!(from_comfyui("x", text).unwrap_err().code(), code, "{text}");
        assert_eq!(from_modular("x", text).unwrap_err().code(), code, "{text}");
        assert_eq!(from_comfytavern("x", text).unwrap_err().code(), code, "{text}");
    }
}

#[test]
fn the_outline_puts_needs_first_and_counts_depth() {
    let file = json!({"nodes": [{"id": "c", "type": "x:C"}, {"id": "b", "type": "x:B"}, {"id": "a", "type": "x:A"}],
        "edges": [{"source": "a", "target": "b"}, {"source": "b", "target": "c"}, {"source": "a", "target": "c"}]});
    let workflow = workflow_model::Workflow::from_value(file).unwrap();
    let steps = analyze(&workflow, &World::new(&NoTypes, &NoWorkflows)).graph.outline();
    let order: Vec<String> =
        steps.iter().map(|step| format!("{} {} {}", step.depth, step.path, step.needs.join(" "))).collect();
    assert_eq!(order, ["1 a ", "2 b a", "3 c b a"]);
}

#[test]
fn older_generations_of_modular_agents() {
    let file = json!({"workflow": {"name": "Chat", "description": "Talks.",
        "parameters": {"prompt": {"type": "string", "required": true, "description": "what is said"},
                       "heat": {"type": "number", "default": 0.5}},
        "variables": [{"name": "user", "type": "string", "defaultValue": "Guest"}],
        "nodes": [{"id": "start", "type": "start"}, {"id": "route", "type": "routing", "function": "route:any"},
                  {"id": "end", "type": "end"}],
        "edges": [{"from": "start", "to": "route"}, {"from": "route", "to": "end", "condition": "done"},
                  {"from": "route", "to": "nowhere"}]}});
    let imported = from_modular("chat", &file.to_string()).unwrap();
    let workflow = &imported.workflows[0].1;
    assert_eq!(edges(workflow), ["start > route", "route > end"]);
    assert_eq!(workflow.node("route").unwrap().config_values["function"], "route:any");
    assert!(workflow.interface_inputs["prompt"].is_required());
    assert_eq!(workflow.interface_inputs["heat"].default_value(), Some(&json!(0.5)));
    assert_eq!((&*workflow.variables[0].name, &workflow.variables[0].value), ("user", &json!("Guest")));
    insta::assert_snapshot!(notes(&imported).join("\n"), @"
    `route`: order-only edges cannot carry the decision of ROUTING: unsupported
    `route`: the condition `done` of an edge is unsupported; use a `core:Condition`
    `route`: an edge with its other end nowhere was left out
    ");
}

#[test]
fn subgraphs_that_only_differ_in_what_no_file_name_holds_stay_apart() {
    let graph =
        |id: &str| json!({"id": id, "name": id, "nodes": [], "links": [], "inputs": [], "outputs": []});
    let ids = ["a.b", "a:b", "A_b", "a_b-2"];
    let nodes: Vec<Value> = (1..).zip(ids).map(|(id, class)| json!({"id": id, "type": class})).collect();
    let file = json!({"nodes": nodes, "links": [], "definitions": {"subgraphs": ids.map(graph)}});
    let imported = from_comfyui("g", &file.to_string()).unwrap();
    let names: Vec<&str> = imported.workflows.iter().map(|(id, _)| id.as_str()).collect();
    assert_eq!(names, ["g", "g/a_b", "g/a_b-2", "g/A_b-3", "g/a_b-2-2"]);
    let used = imported.workflows[0].1.nodes.iter().map(|node| &node.config_values["referencedWorkflowId"]);
    assert_eq!(used.collect::<Vec<_>>(), names[1..].iter().collect::<Vec<_>>());
    for (at, id) in ids.iter().enumerate() {
        assert_eq!(imported.workflows[at + 1].1.name.as_deref(), Some(*id));
    }
}
