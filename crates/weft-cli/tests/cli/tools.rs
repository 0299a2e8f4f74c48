//! Tools on the command line, HTTP tools over real sockets.

use std::path::Path;

use crate::common::{Ran, desk, weft, weft_with, write};
use serde_json::{Value, json};
use weft_harness::StubServer;

fn server(answer: &str) -> (String, StubServer) {
    let server = StubServer::saying(answer);
    (server.address.to_string(), server)
}

fn open(folder: &Path, address: &str) {
    let settings = std::fs::read_to_string(folder.join("weft.toml")).unwrap();
    write(folder, "weft.toml", &format!("{settings}\n[network]\nallow = [\"{address}\"]\n"));
}

fn weather(folder: &Path, address: &str, more: &Value) {
    let mut file = json!({
        "name": "get_weather",
        "description": "Weather of a city.",
        "parameters": {"type": "object", "properties": {"city": {"type": "string"}, "days": {"type": "integer", "default": 1}}, "required": ["city"]},
        "endpoint": {"url": format!("http://{address}/{{$ctx.tenant}}/{{city}}"), "query_params": {"days": "{days}"}},
    });
    for (key, value) in more.as_object().unwrap() {
        file[key] = value.clone();
    }
    write(folder, "tools/get_weather.tool.json", &file.to_string());
}

fn error_code(ran: &Ran) -> String {
    ran.json()["error"]["code"].as_str().unwrap_or_default().to_owned()
}

#[test]
fn tools_are_listed_shown_and_checked() {
    let folder = desk();
    weather(folder.path(), "a.test", &json!({}));
    let list = weft(folder.path(), &["tool", "list", "--output", "json"]).ok().json();
    let ids: Vec<&str> = list.as_array().unwrap().iter().map(|tool| tool["id"].as_str().unwrap()).collect();
    let (system, others): (Vec<&str>, Vec<&str>) = ids.iter().partition(|id| id.starts_with("system:"));
    assert!(
        system.contains(&"system:get_current_time") && system.contains(&"system:read_state"),
        "{system:?}"
    );
    let workflows = ["workflow:agent_loop", "workflow:chat", "workflow:summarize_text"];
    assert_eq!(others, [&["kb:Query", "get_weather"][..], &workflows].concat());
    assert_eq!(list[system.len() + 1]["kind"], "http");
    let of_agent = weft(folder.path(), &["tool", "list", "--agent", "desk", "--output", "json"]).ok().json();
    assert_eq!(of_agent.as_array().unwrap().len(), 3);
    let show = weft(folder.path(), &["tool", "show", "get_weather", "--output", "json"]).ok().json();
    assert_eq!(show["parameters"]["properties"]["days"], json!({"type": "integer"}));
    assert_eq!(show["defaults"], json!({"days": 1}));
    assert_eq!(weft(folder.path(), &["tool", "check"]).ok().stdout, "get_weather: ok\n");
    let checked = weft(
        folder.path(),
        &["tool", "check", "get_weather", "-i", "city=Oslo", "-i", "days=2", "--output", "json"],
    );
    let checked = checked.ok().json();
    assert_eq!((&checked["ok"], &checked["arguments"]), (&json!(true), &json!({"city": "Oslo", "days": 2})));
    let wrong =
        weft(folder.path(), &["tool", "check", "get_weather", "-i", "citty=Oslo", "--output", "json"]);
    assert_eq!(wrong.code, 7);
    let wrong = wrong.json();
    assert_eq!(wrong["ok"], false);
    assert_eq!(wrong["problems"][0]["code"], "unknown_parameter");
    assert_eq!(wrong["problems"][0]["suggest"], "city");
    let unknown = weft(folder.path(), &["tool", "call", "get_wether"]);
    assert_eq!(unknown.code, 2);
    assert!(unknown.stderr.contains("did you mean `get_weather`?"), "{}", unknown.stderr);
    let hidden = weft(folder.path(), &["tool", "show", "get_weather", "--agent", "desk"]);
    assert_eq!(hidden.code, 2, "{hidden:#?}");
}

#[test]
fn a_broken_file_is_told_with_its_place() {
    let folder = desk();
    write(folder.path(), "tools/a.tool.json", "{\"name\": \"a\",\n \"description\": \"\", \"endpoit\": {}}");
    write(
        folder.path(),
        "tools/b.tool.json",
        r#"{"name": "b", "description": "", "endpoint": {"url": "https://{x}/"}}"#,
    );
    let ran = weft(folder.path(), &["tool", "check"]);
    assert_eq!(ran.code, 7);
    for part in [
        "error[bad_tool_file]: unknown field `endpoit`",
        "did you mean `endpoint`?",
        "--> tools/a.tool.json:2:",
        "error[template_in_authority]: endpoint.url: scheme, host and port cannot hold a placeholder",
    ] {
        assert!(ran.stderr.contains(part), "{part}: {}", ran.stderr);
    }
    // It does not hide the others, and says why where it is asked for.
    let list = weft(folder.path(), &["tool", "list"]).stdout;
    assert_eq!(list.lines().filter(|line| !line.starts_with("system:")).count(), 4);
    assert!(weft(folder.path(), &["tool", "show", "b"]).stderr.contains("template_in_authority"));
}

#[test]
fn an_http_tool_is_called() {
    let (address, sent) = server("HTTP/1.1 200 OK\r\ncontent-length: 11\r\n\r\n{\"temp\":21}");
    let folder = desk();
    weather(folder.path(), &address, &json!({}));
    let call = ["tool", "call", "get_weather", "-i", "city=a/b", "--ctx", "tenant=t1", "--output", "json"];
    let refused = weft(folder.path(), &call);
    assert_eq!((refused.code, error_code(&refused).as_str()), (5, "http_blocked"));
    assert!(sent.requests().is_empty());
    open(folder.path(), &address);
    let ran = weft(folder.path(), &call).ok().json();
    assert_eq!((&ran["ok"], &ran["result"]), (&json!(true), &json!({"temp": 21})));
    assert!(sent.take_request().starts_with("GET /t1/a%2Fb?days=1 HTTP/1.1\r\n"));
    let without = weft(folder.path(), &["tool", "call", "get_weather", "-i", "city=x", "--output", "json"]);
    assert_eq!((without.code, error_code(&without).as_str()), (2, "missing_context"));
    let wrong = weft(folder.path(), &["tool", "call", "get_weather", "--output", "json"]);
    assert_eq!((wrong.code, error_code(&wrong).as_str()), (7, "missing_parameter"));
    let events =
        weft(folder.path(), &["tool", "call", "system:get_current_time", "--output", "jsonl"]).ok().lines();
    let types: Vec<&str> = events.iter().map(|event| event["type"].as_str().unwrap()).collect();
    assert_eq!(types, ["run.started", "agent.tool.started", "agent.tool.finished", "run.finished"]);
}

#[test]
fn an_agent_calls_an_http_tool_with_context_it_does_not_see() {
    let (address, sent) = server("HTTP/1.1 200 OK\r\ncontent-length: 8\r\n\r\n\"cloudy\"");
    let folder = desk();
    weather(folder.path(), &address, &json!({}));
    open(folder.path(), &address);
    write(
        folder.path(),
        "agents/sky.json",
        r#"{"id": "sky", "name": "Sky", "version": "1", "schema_version": "1", "tool_ids_inventory": ["get_weather"]}"#,
    );
    write(
        folder.path(),
        "sky.jsonl",
        concat!(
            r#"{"text": "<ACTION><get_weather><city>Oslo</city></get_weather></ACTION>", "request": {"lacks": ["tenant", "t1"]}}"#,
            "\n",
            r#"{"text": "It is cloudy.", "request": {"contains": ["cloudy"], "lacks": ["t1"]}}"#,
            "\n"
        ),
    );
    let run = ["agent", "run", "sky", "Weather?", "--script", "sky.jsonl", "--ctx", "tenant=t1"];
    assert_eq!(weft(folder.path(), &run).ok().stdout, "It is cloudy.\n");
    assert!(sent.take_request().starts_with("GET /t1/Oslo?days=1 "));
}

#[test]
fn a_workflow_sends_requests_with_context() {
    let (address, sent) = server("HTTP/1.1 200 OK\r\ncontent-length: 11\r\n\r\n{\"temp\":21}");
    let folder = desk();
    open(folder.path(), &address);
    let url = format!("http://{address}/{{$ctx.tenant}}/{{city}}");
    let workflow = json!({
        "description": "Asks the weather.",
        "interfaceInputs": {"place": {"dataFlowType": "OBJECT", "required": true, "customDescription": "{city}"}},
        "interfaceOutputs": {"body": {"dataFlowType": "WILDCARD"}},
        "nodes": [{"id": "in", "type": "core:GroupInput"}, {"id": "out", "type": "core:GroupOutput"},
            {"id": "ask", "type": "core:Http", "effect": false, "configValues": {"endpoint": {"url": url}, "response": {"select": "$.temp"}}}],
        "edges": [{"source": "in", "sourceHandle": "place", "target": "ask", "targetHandle": "values"},
            {"source": "ask", "sourceHandle": "body", "target": "out", "targetHandle": "body"}],
    });
    write(folder.path(), "workflows/weather.json", &workflow.to_string());
    let run = [
        "workflow",
        "run",
        "weather",
        "-i",
        "place:={\"city\": \"Oslo\"}",
        "--ctx",
        "tenant=t1",
        "--output",
        "json",
    ];
    assert_eq!(weft(folder.path(), &run).ok().json()["outputs"], json!({"body": 21}));
    assert!(sent.take_request().starts_with("GET /t1/Oslo HTTP/1.1\r\n"));
    // The same as a tool.
    let call = [
        "tool",
        "call",
        "workflow:weather",
        "-i",
        "place:={\"city\": \"Oslo\"}",
        "--ctx",
        "tenant=t2",
        "--output",
        "json",
    ];
    assert_eq!(weft(folder.path(), &call).ok().json()["result"], 21);
    assert!(sent.take_request().starts_with("GET /t2/Oslo HTTP/1.1\r\n"));
}

#[test]
fn s30_proxies_of_the_environment_are_ignored() {
    let (address, sent) = server("HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\n{}");
    let (proxy, asked) = server("HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\n{}");
    let folder = desk();
    weather(folder.path(), &address, &json!({}));
    open(folder.path(), &address);
    let proxy = format!("http://{proxy}");
    let variables: Vec<(&str, &str)> = ["HTTP_PROXY", "http_proxy", "HTTPS_PROXY", "ALL_PROXY", "all_proxy"]
        .map(|name| (name, proxy.as_str()))
        .to_vec();
    weft_with(
        folder.path(),
        &["tool", "call", "get_weather", "-i", "city=x", "--ctx", "tenant=t"],
        "",
        &variables,
    )
    .ok();
    assert!(sent.take_request().starts_with("GET /t/x"));
    assert!(asked.requests().is_empty(), "nobody asks the proxy");
}

#[test]
fn s50_no_output_of_the_program_tells_a_secret() {
    let echo = "HTTP/1.1 500 Oops\r\ncontent-length: 40\r\n\r\nkey S3CR3T, UzNDUjNU, bearer S3CR3T-again";
    let (address, sent) = server(echo);
    let folder = desk();
    weather(folder.path(), &address, &json!({"auth": {"type": "bearer", "token": "{$secret.WEATHER_KEY}"}}));
    open(folder.path(), &address);
    let settings = std::fs::read_to_string(folder.path().join("weft.toml")).unwrap();
    let settings = format!("{settings}\n[secrets.allow]\nWEATHER_KEY = [\"{address}\"]\n");
    write(folder.path(), "weft.toml", &settings);
    let without = weft(folder.path(), &["tool", "call", "get_weather", "-i", "city=x", "--ctx", "tenant=t"]);
    assert_eq!(without.code, 3);
    assert!(without.stderr.contains("help: set WEATHER_KEY in the environment"), "{}", without.stderr);
    let variables = [("WEATHER_KEY", "S3CR3T"), ("RUST_LOG", "trace")];
    for form in ["text", "json", "jsonl"] {
        let call = ["tool", "call", "get_weather", "-i", "city=x", "--ctx", "tenant=t", "--output", form];
        let ran = weft_with(folder.path(), &call, "", &variables);
        assert_eq!(ran.code, 5);
        assert!(sent.take_request().contains("authorization: Bearer S3CR3T\r\n"));
        let seen = format!("{}{}", ran.stdout, ran.stderr);
        assert!(seen.contains("HTTP 500: key ***"), "{seen}");
        assert!(!seen.contains("S3CR3T") && !seen.contains("UzNDUjNU"), "{seen}");
    }
}

#[test]
fn an_openapi_description_becomes_tool_files() {
    let folder = desk();
    let description = json!({"openapi": "3.0.0", "servers": [{"url": "https://api.test"}], "paths": {
        "/items/{id}": {"get": {"operationId": "getItem", "summary": "One item.",
            "parameters": [{"name": "id", "in": "path", "required": true, "schema": {"type": "integer"}}]}},
        "/upload": {"post": {"operationId": "upload", "requestBody": {"content": {"multipart/form-data": {}}}}}}});
    write(folder.path(), "shop.json", &description.to_string());
    let ran = weft(folder.path(), &["import", "openapi", "shop.json"]).ok();
    assert_eq!(ran.stdout, "wrote tools/getItem.tool.json\n");
    assert_eq!(
        ran.stderr,
        "note: POST /upload cannot be a tool: a body of type multipart/form-data cannot be sent\n"
    );
    let again = weft(folder.path(), &["import", "openapi", "shop.json"]);
    assert_eq!(again.code, 2);
    let options =
        ["import", "openapi", "shop.json", "--force", "--server", "http://127.0.0.1:9", "--output", "json"];
    let printed = weft(folder.path(), &options).ok().json();
    assert_eq!(printed["tools"], json!([{"name": "getItem", "operation": "GET /items/{id}"}]));
    assert_eq!(printed["refused"][0]["operation"], "POST /upload");
    let check = weft(folder.path(), &["tool", "check", "getItem", "-i", "id=seven", "--output", "json"]);
    assert_eq!(check.json()["problems"][0]["code"], "invalid_argument");
    write(folder.path(), "old.json", r#"{"swagger": "2.0"}"#);
    let old = weft(folder.path(), &["import", "openapi", "old.json"]);
    assert_eq!(old.code, 7);
    assert!(old.stderr.contains("names no `host`"), "{}", old.stderr);
}

#[test]
fn configurations_of_others_become_tool_files() {
    let folder = desk();
    let config = json!([{"name": "get weather", "description": "d", "parameters": {"type": "object", "properties": {"city": {"type": "string"}}},
        "endpoint": {"url": "https://a.test/{city}", "method": "GET"}}]);
    write(folder.path(), "bu.json", &config.to_string());
    assert_eq!(
        weft(folder.path(), &["import", "bu", "bu.json"]).ok().stdout,
        "wrote tools/get_weather.tool.json\n"
    );
    let script = json!({"id": "x", "implementation": {"type": "script", "command": "rm"}});
    write(folder.path(), "x.tool.json", &script.to_string());
    let ran = weft(folder.path(), &["import", "comfytavern", "x.tool.json"]);
    assert_eq!(ran.code, 7);
    assert!(ran.stderr.contains("x cannot be a tool: `script` runs code of its own"), "{}", ran.stderr);
}

#[test]
fn a_description_may_be_yaml_and_means_the_same_as_in_json() {
    let folder = desk();
    let yaml = "openapi: 3.1.0
info: {title: Pets, version: '1'}
servers:
  - url: https://pets.example/v1
paths:
  /pets/{id}:
    get:
      operationId: get_pet
      summary: >-
        One pet,
        by its number.
      parameters: &own
        - {name: id, in: path, required: true, schema: {type: integer}}
        - name: no
          in: query
          schema: {type: string, enum: [on, off]}
      responses:
        200: {description: ok}
    delete:
      operationId: drop_pet
      summary: Forgets one.
      parameters: *own
      responses: {204: {description: gone}}
";
    let parameters = json!([{"name": "id", "in": "path", "required": true, "schema": {"type": "integer"}},
        {"name": "no", "in": "query", "schema": {"type": "string", "enum": ["on", "off"]}}]);
    let as_json = json!({"openapi": "3.1.0", "info": {"title": "Pets", "version": "1"},
        "servers": [{"url": "https://pets.example/v1"}],
        "paths": {"/pets/{id}": {
            "get": {"operationId": "get_pet", "summary": "One pet, by its number.", "parameters": parameters,
                "responses": {"200": {"description": "ok"}}},
            "delete": {"operationId": "drop_pet", "summary": "Forgets one.", "parameters": parameters,
                "responses": {"204": {"description": "gone"}}}}}});
    write(folder.path(), "pets.yaml", yaml);
    write(folder.path(), "pets.json", &as_json.to_string());
    let tools = |file: &str, to: &str| {
        weft(folder.path(), &["import", "openapi", file, "--to", to]).ok();
        ["get_pet", "drop_pet"].map(|name| {
            std::fs::read_to_string(folder.path().join(format!("{to}/{name}.tool.json"))).unwrap()
        })
    };
    assert_eq!(tools("pets.yaml", "from-yaml"), tools("pets.json", "from-json"));

    write(folder.path(), "bad.yml", "openapi: 3.1.0\npaths:\n  a: [1\n");
    let bad = weft(folder.path(), &["import", "openapi", "bad.yml"]);
    assert_eq!(bad.code, 7);
    assert!(bad.stderr.contains("error[bad_yaml]") && bad.stderr.contains("bad.yml:"), "{}", bad.stderr);
    // Names that stand for one another without end are refused, not followed.
    let level = |level: usize| {
        let before = format!("*a{}", level - 1);
        format!("a{level}: &a{level} [{}]\n", [before.as_str(); 10].join(", "))
    };
    let levels: String = (1..12).map(level).collect();
    write(folder.path(), "bomb.yaml", &format!("a0: &a0 [x, x]\n{levels}"));
    let bomb = weft(folder.path(), &["import", "openapi", "bomb.yaml"]);
    assert!(bomb.stderr.contains("error[bad_yaml]"), "{}", bomb.stderr);
}

#[test]
fn a_broken_file_is_told_to_whoever_asks_for_its_tool() {
    let folder = desk();
    write(folder.path(), "tools/lamp.tool.json", "{\n");
    for command in ["show", "check"] {
        let ran = weft(folder.path(), &["tool", command, "lamp"]);
        assert_eq!(ran.code, 7, "{ran:?}");
        let said = "error[bad_tool_file]";
        assert!(ran.stderr.contains(said) && ran.stderr.contains("lamp.tool.json:2"), "{}", ran.stderr);
    }
}
