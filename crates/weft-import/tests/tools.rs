//! Descriptions of other systems as tools.

#![expect(clippy::unwrap_used, clippy::panic, reason = "a test may stop at the first surprise")]

use proptest::prelude::*;
use serde_json::{Value, json};
use weft_import::{
    ImportedTools, OpenApiOptions, from_bu_tools as from_bu, from_comfytavern_tool, from_openapi,
};

fn shop() -> Value {
    json!({
        "openapi": "3.1.0",
        "servers": [{"url": "https://{region}.shop.test/v1/", "variables": {"region": {"default": "eu"}}}],
        "security": [{"key": []}],
        "paths": {
            "/items/{id}": {
                "parameters": [{"name": "id", "in": "path", "required": true, "schema": {"type": "integer"}}],
                "get": {"operationId": "getItem", "summary": "One item.", "parameters": [
                    {"$ref": "#/components/parameters/Fields"},
                    {"name": "id", "in": "query", "schema": {"type": "string"}},
                    {"name": "X-Trace", "in": "header", "schema": {"type": "string"}},
                    {"name": "X-Api-Key", "in": "header", "required": true, "schema": {"type": "string"}},
                    {"name": "page", "in": "query", "style": "deepObject", "schema": {"type": "object", "properties": {"size": {"type": "integer"}}}},
                    {"name": "session", "in": "cookie", "schema": {"type": "string"}},
                ]},
                "put": {"operationId": "put item", "requestBody": {"required": true, "content": {
                    "application/xml": {"schema": {"type": "string"}},
                    "application/json": {"schema": {"$ref": "#/components/schemas/Item"}}}}},
                "trace": {"operationId": "traceItem"},
            },
            "/upload": {"post": {"requestBody": {"content": {"multipart/form-data": {"schema": {}}}}}},
            "/login": {"post": {"operationId": "getItem", "security": [], "requestBody": {"required": true, "content": {
                "application/x-www-form-urlencoded": {"schema": {"type": "object", "properties": {"user": {"type": "string"}, "pass": {"type": "string"}}}}}}}},
        },
        "components": {
            "parameters": {"Fields": {"name": "fields", "in": "query", "description": "What to show.", "schema": {"type": "array", "items": {"type": "string"}}}},
            "schemas": {
                "Base": {"type": "object", "properties": {"id": {"type": "integer", "readOnly": true}, "name": {"type": "string"}}, "required": ["id", "name"]},
                "Item": {"allOf": [
                    {"type": "object", "properties": {"price": {"type": "number", "minimum": 0, "exclusiveMinimum": true, "nullable": true}}},
                    {"type": "object", "properties": {"parent": {"$ref": "#/components/schemas/Item"}, "base": {"$ref": "#/components/schemas/Base"}}, "required": ["base"]}]},
            },
            "securitySchemes": {"key": {"type": "apiKey", "in": "header", "name": "X-API-Key"}},
        },
    })
}

fn import(document: &Value) -> ImportedTools {
    from_openapi(&document.to_string(), &OpenApiOptions::default()).unwrap()
}

fn file(imported: &ImportedTools, name: &str) -> Value {
    let tool = imported.tools.iter().find(|(_, tool)| tool.name == name);
    serde_json::to_value(&tool.unwrap_or_else(|| panic!("{name}: {imported:#?}")).1).unwrap()
}

#[test]
fn an_operation_is_a_tool() {
    let imported = import(&shop());
    let names: Vec<&str> = imported.tools.iter().map(|(_, tool)| tool.name.as_str()).collect();
    assert_eq!(names, ["getItem", "put_item", "getItem_2"]);
    assert_eq!(
        file(&imported, "getItem"),
        json!({
            "name": "getItem",
            "description": "One item.",
            "parameters": {"type": "object", "properties": {
                "fields": {"type": "array", "items": {"type": "string"}, "description": "What to show."},
                "id": {"type": "string"},
                "X-Trace": {"type": "string"},
                "page": {"type": "object", "properties": {"size": {"type": "integer"}}},
                "id_path": {"type": "integer"},
            }, "required": ["id_path"]},
            "endpoint": {
                "url": "https://eu.shop.test/v1/items/{id_path}",
                "method": "GET",
                "headers": {"X-Trace": "{X-Trace}"},
                "query_params": {"fields": ["{fields}"], "id": "{id}", "page": {"value": "{page}", "style": "deepObject"}},
            },
            "auth": {"type": "header", "name": "X-API-Key", "value": "{$secret.KEY}"},
        })
    );
    assert_eq!(
        imported.notes[..2],
        [
            "GET /items/{id}: the cookie parameter `session` was left out: cookies cannot be sent as parameters",
            "GET /items/{id}: the path parameter `id` is called `id_path`",
        ]
    );
}

#[test]
fn references_all_of_and_old_words_become_json_schema() {
    let put = file(&import(&shop()), "put_item");
    let item = json!({"type": "object", "properties": {
            "price": {"type": ["number", "null"], "exclusiveMinimum": 0},
            "parent": {"$ref": "#/$defs/Item"},
            "base": {"$ref": "#/$defs/Base"},
        }, "required": ["base"]});
    assert_eq!(
        put["parameters"],
        json!({
            "type": "object",
            "properties": {"id": {"type": "integer"}, "body": {"$ref": "#/$defs/Item"}},
            "required": ["id", "body"],
            "$defs": {"Item": item, "Base": {"type": "object", "properties": {"name": {"type": "string"}}, "required": ["name"]}},
        })
    );
    assert_eq!(put["endpoint"]["body"], "{body}");
}

#[test]
fn a_form_is_the_whole_body() {
    let login = file(&import(&shop()), "getItem_2");
    assert_eq!(login["endpoint"]["body"], "{body}");
    assert_eq!(login["endpoint"]["headers"], json!({"Content-Type": "application/x-www-form-urlencoded"}));
    assert_eq!(login["auth"], Value::Null);
}

#[test]
fn what_cannot_be_used_has_a_reason() {
    let refused = |document: &Value| -> Vec<String> {
        import(document).refused.iter().map(|one| format!("{}: {}", one.operation, one.reason)).collect()
    };
    assert_eq!(
        refused(&shop()),
        [
            "TRACE /items/{id}: the method TRACE cannot be called",
            "POST /upload: a body of type multipart/form-data cannot be sent",
        ]
    );
    let one = |operation: Value, server: &str| {
        refused(
            &json!({"openapi": "3.0.0", "servers": [{"url": server}], "paths": {"/x": {"get": operation}}}),
        )
        .concat()
    };
    let parameter = |parameter: Value| one(json!({"parameters": [parameter]}), "https://a.test");
    assert_eq!(
        one(json!({}), "/v1"),
        "GET /x: the server `/v1` is not a whole address; give one with --server"
    );
    assert_eq!(
        one(json!({}), "https://{r}.a.test"),
        "GET /x: the server `https://{r}.a.test` has a variable without a default; give one with --server"
    );
    assert_eq!(
        parameter(json!({"name": "c", "in": "cookie", "required": true})),
        "GET /x: the cookie parameter `c`: cookies cannot be sent as parameters"
    );
    assert_eq!(
        parameter(
            json!({"name": "q", "in": "query", "required": true, "style": "tabDelimited", "schema": {"type": "object"}})
        ),
        "GET /x: the query parameter `q`: the style tabDelimited is not supported"
    );
    assert_eq!(
        one(json!({"parameters": [{"$ref": "#/nowhere"}]}), "https://a.test"),
        "GET /x: a parameter's reference `#/nowhere` leads nowhere"
    );
    assert_eq!(
        parameter(
            json!({"name": "h", "in": "header", "required": true, "schema": {"type": "array", "items": {"type": "object"}}})
        ),
        "GET /x: the header parameter `h`: a list of lists or objects has no form there"
    );
}

/// The one tool of a description with one path.
fn single(path: &str, operation: &Value, components: &Value) -> (Value, Vec<String>) {
    let document = json!({"openapi": "3.0.0", "servers": [{"url": "https://a.test"}], "components": components,
        "paths": {path: {"post": operation}}});
    let imported = import(&document);
    assert_eq!(imported.refused, [], "{document}");
    (serde_json::to_value(&imported.tools[0].1).unwrap(), imported.notes)
}

#[test]
fn objects_are_written_in_their_style() {
    let object =
        json!({"type": "object", "properties": {"a": {"type": "string"}, "deep": {"type": "object"}}});
    let given = |place: &str, more: Value| {
        let mut parameter = json!({"name": "w", "in": place, "required": true, "schema": object});
        parameter.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        let path = if place == "path" { "/by/{w}" } else { "/by" };
        let (tool, notes) = single(path, &json!({"parameters": [parameter]}), &json!({}));
        assert!(notes.iter().any(|note| note.contains("`deep`")), "{notes:?}");
        tool["endpoint"].clone()
    };
    assert_eq!(given("path", json!({}))["url"], "https://a.test/by/{w}");
    assert_eq!(given("path", json!({"explode": true}))["url"], "https://a.test/by/{w*}");
    assert_eq!(given("header", json!({"explode": true}))["headers"]["w"], "{w*}");
    for (more, style) in [
        (json!({}), json!({"value": "{w}", "style": "form", "explode": true})),
        (json!({"style": "deepObject"}), json!({"value": "{w}", "style": "deepObject"})),
        (
            json!({"style": "pipeDelimited"}),
            json!({"value": "{w}", "style": "pipeDelimited", "explode": false}),
        ),
    ] {
        assert_eq!(given("query", more)["query_params"]["w"], style);
    }
}

#[test]
fn a_path_parameter_that_the_path_does_not_hold_is_left_out() {
    let parameter = json!({"name": "ghost", "in": "path", "required": true, "schema": {"type": "string"}});
    let (tool, notes) = single("/plain", &json!({"parameters": [parameter]}), &json!({}));
    assert_eq!(tool["parameters"]["properties"], json!({}));
    assert!(notes[0].contains("`ghost`"), "{notes:?}");
}

#[test]
fn a_discriminator_decides_and_members_that_overlap_refuse_nothing() {
    let schemas = json!({"schemas": {
        "Cat": {"type": "object", "properties": {"kind": {"type": "string"}, "name": {"type": "string"}}},
        "Dog": {"type": "object", "properties": {"kind": {"type": "string"}, "name": {"type": "string"}}}}});
    let members = json!([{"$ref": "#/components/schemas/Cat"}, {"$ref": "#/components/schemas/Dog"}]);
    let read = |schema: Value| {
        let body =
            json!({"requestBody": {"required": true, "content": {"application/json": {"schema": schema}}}});
        let (tool, notes) = single("/pets", &body, &schemas);
        (tool_schema::CompiledSchema::new(&tool["parameters"]).unwrap(), notes)
    };
    let fits = |schema: &tool_schema::CompiledSchema, body: &Value| {
        schema.type_json(json!({"body": body})).problems.is_empty()
    };
    let (schema, notes) = read(json!({"oneOf": members}));
    assert!(fits(&schema, &json!({"name": "Tom"})));
    assert!(notes.iter().any(|note| note.contains("members 1 and 2")), "{notes:?}");
    let mapping = json!({"propertyName": "kind", "mapping": {"cat": "#/components/schemas/Cat"}});
    let (schema, notes) = read(json!({"oneOf": members, "discriminator": mapping}));
    assert_eq!(notes, Vec::<String>::new());
    assert!(fits(&schema, &json!({"kind": "cat"})) && fits(&schema, &json!({"kind": "Dog"})));
    assert!(!fits(&schema, &json!({"kind": "cow"})));
    let apart = json!({"oneOf": [{"type": "string"}, {"type": "integer"}]});
    assert_eq!(read(apart).1, Vec::<String>::new());
}

#[test]
fn a_description_of_swagger_is_converted() {
    let document = json!({"swagger": "2.0", "host": "a.test", "basePath": "/v1", "schemes": ["http", "https"],
        "consumes": ["application/json"],
        "securityDefinitions": {"login": {"type": "basic"}}, "security": [{"login": []}],
        "parameters": {"Item": {"in": "body", "name": "item", "required": true, "schema": {"$ref": "#/definitions/Item"}}},
        "definitions": {"Item": {"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"]}},
        "paths": {"/items/{id}": {
            "parameters": [{"name": "id", "in": "path", "required": true, "type": "integer", "minimum": 1}],
            "get": {"operationId": "find", "parameters": [
                {"name": "tags", "in": "query", "type": "array", "items": {"type": "string"}, "collectionFormat": "multi"},
                {"name": "sizes", "in": "query", "type": "array", "items": {"type": "integer"}, "collectionFormat": "pipes"},
                {"name": "ids", "in": "query", "type": "array", "items": {"type": "integer"}}]},
            "put": {"operationId": "store", "parameters": [{"$ref": "#/parameters/Item"}]},
            "post": {"operationId": "send", "parameters": [
                {"name": "note", "in": "formData", "type": "string", "required": true, "description": "A word."}]}}}});
    let imported = import(&document);
    assert_eq!(imported.refused, []);
    let find = file(&imported, "find");
    assert_eq!(find["endpoint"]["url"], "https://a.test/v1/items/{id}");
    assert_eq!(
        find["endpoint"]["query_params"],
        json!({"tags": ["{tags}"], "sizes": {"value": "{sizes}", "style": "pipeDelimited"}, "ids": "{ids}"})
    );
    assert_eq!(find["parameters"]["properties"]["id"], json!({"type": "integer", "minimum": 1}));
    assert_eq!(find["auth"]["type"], "basic");
    let store = file(&imported, "store");
    assert_eq!(store["parameters"]["properties"]["body"], json!({"$ref": "#/$defs/Item"}));
    assert_eq!(store["parameters"]["required"], json!(["id", "body"]));
    let send = file(&imported, "send");
    assert_eq!(send["endpoint"]["headers"]["Content-Type"], "application/x-www-form-urlencoded");
    assert_eq!(send["parameters"]["properties"]["body"]["properties"]["note"]["description"], "A word.");
    assert!(imported.notes[0].contains("Swagger 2.0"), "{:?}", imported.notes);
}

#[test]
fn a_body_is_sent_with_a_get_where_the_file_says_so() {
    let document = json!({"openapi": "3.0.0", "servers": [{"url": "https://a.test"}], "paths": {"/x": {"get": {
        "operationId": "look", "requestBody": {"content": {"application/json": {}}}}}}});
    assert_eq!(file(&import(&document), "look")["endpoint"]["body"], "{body}");
    let imported = bu(&json!({"url": "https://a.test/", "method": "GET", "body": {"q": "{city}"}}));
    let endpoint = file(&imported, "get_weather")["endpoint"].clone();
    assert_eq!(endpoint, json!({"url": "https://a.test/", "method": "GET", "body": {"q": "{city}"}}));
}

#[test]
fn damaged_schemas_keep_what_makes_sense() {
    let document = json!({"openapi": "3.0.1", "servers": [{"url": "https://a.test"}], "paths": {"/x/{undeclared}": {"post": {"requestBody": {"content": {
    "application/json": {"schema": {"type": "object", "required": [{}, "a"], "allOf": {}, "properties": {
        "a": {"type": "string", "enum": [{}], "pattern": "(?<x>["},
        "b": {"type": "string", "minLength": "3", "format": {}},
        "c": {"items": {}, "type": "array", "maxItems": -1},
        "d": {"$ref": "#/components/schemas/Gone"},
    }}}}}}}}});
    let imported = import(&document);
    assert_eq!(imported.refused, []);
    let (_, tool) = &imported.tools[0];
    assert_eq!(tool.name, "post_x_undeclared");
    assert_eq!(
        tool.parameters.as_ref().unwrap()["properties"],
        json!({
            "body": {"type": "object", "required": ["a"], "properties": {"a": {"type": "string"}, "b": {"type": "string", "minLength": 3},
                "c": {"items": {}, "type": "array"}, "d": {}}},
            "undeclared": {"type": "string"},
        })
    );
    assert!(imported.notes.len() >= 6, "{:#?}", imported.notes);
}

#[test]
fn other_files_are_refused() {
    let error = |text: &str| from_openapi(text, &OpenApiOptions::default()).unwrap_err().to_string();
    assert_eq!(
        error(r#"{"swagger": "2.0"}"#),
        "the description (Swagger 2.0) names no `host`; give the address with --server"
    );
    assert_eq!(
        error(r#"{"swagger": "1.2"}"#),
        "expected OpenAPI 3.0 or 3.1, or Swagger 2.0, found swagger 1.2"
    );
    assert_eq!(error("[]"), "expected OpenAPI 3.0 or 3.1, or Swagger 2.0, found no `openapi` key");
    assert!(error("openapi: 3.0.0").starts_with("the file is not JSON: "));
}

#[test]
fn an_address_can_be_given() {
    let options = OpenApiOptions::default().with_server("http://127.0.0.1:8080/");
    let imported = from_openapi(&shop().to_string(), &options).unwrap();
    assert_eq!(imported.tools[0].1.endpoint.url, "http://127.0.0.1:8080/items/{id_path}");
}

fn bu(endpoint: &Value) -> ImportedTools {
    let parameters = json!({"type": "object", "properties": {"city": {"type": "str"}, "n": {"type": "integer", "default": 3}}});
    from_bu(
        &json!({"name": "get weather", "description": "d", "parameters": parameters, "endpoint": endpoint})
            .to_string(),
    )
    .unwrap()
}

#[test]
fn placeholders_of_other_systems_become_ours() {
    let imported = bu(
        &json!({"url": "https://a.test/{city}?t=#tenant#", "method": "POST", "headers": {"Content-Type": "application/json", "X-N": "{n}"},
        "body": {"q": "{city}", "who": "{{$contact.name}}", "auto": "todo_autofill_by_system", "raw": "a } b"}, "timeout": 2.5}),
    );
    let tool = file(&imported, "get_weather");
    assert_eq!(
        tool["endpoint"],
        json!({"url": "https://a.test/{city}?t={$ctx.tenant}", "method": "POST", "headers": {"X-N": "{n}"},
            "body": {"q": "{city}", "who": "{$ctx.name}", "raw": "a }} b"}, "timeout_ms": 2500})
    );
    assert_eq!(tool["parameters"]["required"], json!(["city"]));
    assert_eq!(tool["parameters"]["properties"]["city"], json!({"type": "string"}));
    assert_eq!(imported.notes.len(), 2, "{:?}", imported.notes);
}

#[test]
fn a_body_in_a_text_is_read_or_refused() {
    let good = bu(&json!({"url": "https://a.test/", "body": "{\"q\": \"{city}\"}"}));
    assert_eq!(file(&good, "get_weather")["endpoint"]["body"], json!({"q": "{city}"}));
    let bad = bu(&json!({"url": "https://a.test/", "body": "{\"q\": {city}}"}));
    assert!(bad.refused[0].reason.starts_with("its body is not JSON: "), "{bad:?}");
    let host = bu(&json!({"url": "https://{city}/"}));
    assert!(host.refused[0].reason.contains("cannot hold a placeholder"), "{host:?}");
    let double = from_bu(
        &json!([{"name": "t", "description": "", "template": "double", "parameters": {"type": "object", "properties": {"a": {"type": "string"}}},
            "endpoint": {"url": "https://a.test/?x={{a}}&y={a}"}}]).to_string(),
    );
    assert_eq!(file(&double.unwrap(), "t")["endpoint"]["url"], "https://a.test/?x={a}&y={{a}}");
}

#[test]
fn tools_that_run_code_are_refused_by_name() {
    let reason =
        |document: Value| from_comfytavern_tool(&document.to_string()).unwrap().refused[0].reason.clone();
    assert_eq!(
        reason(json!({"id": "a", "implementation": {"type": "script", "command": "x"}})),
        "`script` runs code of its own: only workflows and HTTP endpoints can be called"
    );
    assert_eq!(
        reason(json!({"id": "a", "implementation": {"type": "workflow", "workflowId": "sum"}})),
        "it is a workflow: list `workflow:sum` in the agent's inventory"
    );
    assert_eq!(
        reason(json!({"toolId": "a", "handler": {"type": "external-script"}})),
        "`external-script` runs code of its own: only workflows and HTTP endpoints can be called"
    );
    let http = json!({"toolId": "ping", "description": "Pings.", "handler": {"type": "service-method", "url": "https://a.test/ping"}});
    let imported = from_comfytavern_tool(&http.to_string()).unwrap();
    assert_eq!(file(&imported, "ping")["endpoint"], json!({"url": "https://a.test/ping", "method": "GET"}));
    assert_eq!(from_comfytavern_tool("{}").unwrap_err().code(), "bad_import");
}

/// Every place in a value.
fn places(value: &Value, at: &str, found: &mut Vec<String>) {
    found.push(at.to_owned());
    let mut inside = |key: &str, value| {
        places(value, &format!("{at}/{}", key.replace('~', "~0").replace('/', "~1")), found);
    };
    match value {
        Value::Object(members) => members.iter().for_each(|(key, value)| inside(key, value)),
        Value::Array(items) => {
            items.iter().enumerate().for_each(|(index, value)| inside(&index.to_string(), value));
        }
        _ => {}
    }
}

proptest! {
    #[test]
    fn a_damaged_description_is_read_or_refused(
        damage in prop::collection::vec((any::<prop::sample::Index>(), 0..9_usize), 1..4)
    ) {
        let junk = [json!(null), json!(true), json!(7), json!("{"), json!("\u{0}é/../"), json!([]), json!({}), json!([{}]),
            json!({"$ref": "#/components/schemas/Item"})];
        let mut document = shop();
        for (place, kind) in damage {
            let mut all = Vec::new();
            places(&document, "", &mut all);
            let place = all[place.index(all.len())].clone();
            *document.pointer_mut(&place).unwrap() = junk[kind].clone();
        }
        let Ok(imported) = from_openapi(&document.to_string(), &OpenApiOptions::default()) else { return Ok(()) };
        prop_assert!(imported.tools.len() + imported.refused.len() <= 5);
        prop_assert!(imported.refused.iter().all(|one| !one.reason.is_empty()));
        let _ = from_bu(&document.to_string());
        let _ = from_comfytavern_tool(&document.to_string());
    }
}
