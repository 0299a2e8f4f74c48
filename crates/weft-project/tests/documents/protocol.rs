//! Calls of tools and skills as XML in a reply: the forms, the catalogue, the feedback.

use std::path::Path;

use agent_types::{EventBody, ExitReason, TraceEvent};
use serde_json::{Value, json};
use weft_project::Project;

use crate::common::{answer, echo, edge, messages, observations, project};

/// The agent `a` with these inventories.
fn agent(tools: &Value, skills: &Value) -> Value {
    json!({"id": "a", "tool_ids_inventory": tools, "skill_workflow_ids_inventory": skills})
}

/// An agent with one tool of its name, whose workflow answers with a template over its inputs.
fn with_tool(
    root: &Path,
    tool: &str,
    inputs: &[(&str, &str, bool)],
    template: &str,
    script: &[Value],
) -> Project {
    let inventory = json!([{"id": "workflow:inner", "name": tool}]);
    let files = [
        ("agents/a.json", agent(&inventory, &json!([]))),
        ("workflows/inner.json", echo("Does it.", inputs, template)),
    ];
    project(root, &files, script)
}

/// A reply whose block leads to this result of the tool, and the text for the user.
#[track_caller]
fn check(tool: &str, inputs: &[(&str, &str, bool)], template: &str, reply: &str, result: &str) {
    let folder = tempfile::tempdir().unwrap();
    let script = [json!({"text": reply}), json!({"text": "Done."})];
    let project = with_tool(folder.path(), tool, inputs, template, &script);
    let (outcome, events) = answer(&project, "Go.");
    assert_eq!(observations(&events), [format!("Tool {tool} executed successfully. Result: {result}")]);
    let before = reply.split("<ACTION>").next().unwrap().trim();
    assert_eq!(messages(&events), [before, "Done."]);
    assert_eq!(outcome.exit, ExitReason::Completed);
}

#[test]
fn a_block_has_a_tag_for_the_tool_and_one_for_each_parameter() {
    check(
        "ToolOrWorkflowID_1",
        &[
            ("parameter_name_A", "STRING", true),
            ("parameter_name_B", "STRING", true),
            ("list_parameter", "ARRAY", true),
            ("complex_parameter", "OBJECT", true),
        ],
        "{{ parameter_name_A }}|{{ parameter_name_B }}|{{ list_parameter | join('+') }}|{{ complex_parameter.sub_param_X }}{{ complex_parameter.sub_param_Y }}",
        "I do it now.\n\n<ACTION>\n    <ToolOrWorkflowID_1> <!-- the tool -->\n        <parameter_name_A>one</parameter_name_A>\n        <parameter_name_B>two\nlines</parameter_name_B>\n        <!-- lists and objects -->\n        <list_parameter>\n            <item>3</item>\n            <item>4</item>\n        </list_parameter>\n        <complex_parameter>\n            <sub_param_X>5</sub_param_X>\n            <sub_param_Y>6</sub_param_Y>\n        </complex_parameter>\n    </ToolOrWorkflowID_1>\n\n    <!-- <ToolOrWorkflowID_2><parameter_name_C>7</parameter_name_C></ToolOrWorkflowID_2> -->\n</ACTION>\n\nThat was it.",
        "one|two\nlines|3+4|56",
    );
}

#[test]
fn values_are_plain_lists_or_objects() {
    check(
        "save",
        &[("age", "INTEGER", true), ("names", "ARRAY", true), ("address", "OBJECT", true)],
        "{{ age + 1 }} {{ names | join(' and ') }}, {{ address.street }}, {{ address.city }}",
        "Saved. <ACTION><save><age>25</age><names>\n    <item>Ann</item>\n    <item>Ben</item>\n</names><address>\n    <street>1 High St</street>\n    <city>Ely</city>\n</address></save></ACTION>",
        "26 Ann and Ben, 1 High St, Ely",
    );
}

#[test]
fn character_data_keeps_what_looks_like_tags() {
    let diff = "<<<<<<< SEARCH\n:start_line:10\n-------\nconsole.log(\"old\");\n=======\nconsole.log(\"new & <special>\");\n>>>>>>> REPLACE";
    check(
        "ApplyDiffTool",
        &[("file_path", "STRING", true), ("diff_content", "STRING", true)],
        "{{ file_path }}\n{{ diff_content }}",
        &format!(
            "I change it. <ACTION>\n    <ApplyDiffTool>\n        <file_path>src/main.ts</file_path>\n        <diff_content>\n            <![CDATA[\n{diff}\n            ]]>\n        </diff_content>\n    </ApplyDiffTool>\n</ACTION>"
        ),
        &format!("src/main.ts\n{diff}"),
    );
    let patch = "--- a/config/settings.json\n+++ b/config/settings.json\n@@ -1,4 +1,4 @@\n {\n-  \"on\": false,\n+  \"on\": true,\n   \"key\": \"k\"\n }";
    check(
        "ApplyProjectDiff",
        &[("target_file", "STRING", true), ("diff_patch", "STRING", true)],
        "{{ target_file }}: {{ diff_patch }}",
        &format!(
            "I apply it. <ACTION><ApplyProjectDiff><target_file>config/settings.json</target_file>\n<diff_patch>\n<![CDATA[\n{patch}\n]]>\n</diff_patch></ApplyProjectDiff></ACTION>"
        ),
        &format!("config/settings.json: {patch}"),
    );
}

#[test]
fn tags_that_come_again_are_a_list() {
    check(
        "read_file",
        &[("args", "OBJECT", true)],
        "{% for file in args.file %}[{{ file.path }}]{% endfor %}",
        "Both files matter.\n<ACTION>\n    <read_file>\n        <args>\n            <file>\n                <path>src/app.ts</path>\n            </file>\n            <file>\n                <path>src/utils.ts</path>\n            </file>\n        </args>\n    </read_file>\n</ACTION>",
        "[src/app.ts][src/utils.ts]",
    );
}

#[test]
fn the_world_is_read_by_a_path_with_a_default() {
    let read = "Let me see.\n<ACTION>\n    <ReadWorldStateTool>\n        <path>environment.weather.current_conditions</path>\n        <default_value>unknown</default_value>\n    </ReadWorldStateTool>\n</ACTION>";
    let set = "<ACTION><tool name=\"system:update_world\"><changes><environment><weather><current_conditions>sunny</current_conditions></weather></environment></changes></tool></ACTION>";
    let script = [
        json!({"text": read}),
        json!({"text": set, "request": {"contains": ["Observation: Tool ReadWorldStateTool executed successfully. Result: unknown"]}}),
        json!({"text": read}),
        json!({"text": "It is sunny.", "request": {"contains": ["Observation: Tool ReadWorldStateTool executed successfully. Result: sunny"]}}),
    ];
    let folder = tempfile::tempdir().unwrap();
    let inventory = json!(["ReadWorldStateTool", "system:update_world"]);
    let project = project(folder.path(), &[("agents/a.json", agent(&inventory, &json!([])))], &script);
    let (outcome, events) = answer(&project, "How is the weather?");
    assert_eq!(outcome.text, "It is sunny.");
    assert_eq!(messages(&events), ["Let me see.", "Let me see.", "It is sunny."]);
}

#[test]
fn a_reply_without_a_block_is_the_answer() {
    let folder = tempfile::tempdir().unwrap();
    let project = with_tool(folder.path(), "look", &[], "x", &[json!({"text": "It is warm, go out!"})]);
    let (outcome, events) = answer(&project, "How is the weather?");
    assert_eq!((outcome.text.as_str(), observations(&events)), ("It is warm, go out!", Vec::new()));
}

#[test]
fn errors_are_observations_that_the_model_corrects() {
    let call = |inner: &str| json!({"text": format!("I ask. <ACTION>{inner}</ACTION>")});
    let script = [
        call("<GetPlayerInfo><playerId>player123</playerId> <!-- not its name --></GetPlayerInfo>"),
        call("<GetPlayerInf><player_id>player123</player_id></GetPlayerInf>"),
        call("<GetPlayerInfo><player_id>player123</player_id></GetPlayerInfo>"),
        json!({"text": "It is Kim."}),
    ];
    let folder = tempfile::tempdir().unwrap();
    let project = with_tool(
        folder.path(),
        "GetPlayerInfo",
        &[("player_id", "STRING", true)],
        "{{ player_id }}: Kim",
        &script,
    );
    let (outcome, events) = answer(&project, "Who plays?");
    assert_eq!(outcome.text, "It is Kim.");
    let seen = observations(&events);
    assert_eq!(
        seen[0],
        "Error - Invalid parameters for GetPlayerInfo: Unknown parameter 'playerId', did you mean 'player_id'?"
    );
    assert!(
        seen[1].starts_with("Error - Unknown tool 'GetPlayerInf', did you mean 'GetPlayerInfo'?"),
        "{seen:?}"
    );
    assert_eq!(seen[2], "Tool GetPlayerInfo executed successfully. Result: player123: Kim");
    let starts = events.iter().filter(|event| event.body.name() == "agent.tool.started");
    assert_eq!(starts.count(), 1, "a faulty call runs nothing");
}

#[test]
fn a_block_that_cannot_be_read_is_reported() {
    let script = [json!({"text": "<ACTION><look a=1 <></ACTION>"}), json!({"text": "I leave it."})];
    let folder = tempfile::tempdir().unwrap();
    let project = with_tool(folder.path(), "look", &[("a", "STRING", true)], "{{ a }}", &script);
    let (_, events) = answer(&project, "Go.");
    assert!(
        observations(&events)[0].starts_with("Error - Malformed XML in ACTION block"),
        "{:?}",
        observations(&events)
    );
}

/// The tools and skills of the document's list.
fn listed(root: &Path, script: &[Value]) -> Project {
    let tools = json!(["ReadWorldStateTool", "UpdatePrivateStateTool", "PublishEventTool"]);
    let skills = json!([{"id": "skills/greet", "name": "skill_greet_player"}, "Image description"]);
    let mut image = echo(
        "Describes an image.",
        &[("image_analysis_data", "OBJECT", true), ("desired_style", "STRING", false)],
        "{{ image_analysis_data.kind }} {{ desired_style | default('plain') }}",
    );
    image["name"] = "Image description".into();
    let mut greet = echo(
        "Greets a player.",
        &[("player_id", "STRING", true), ("greeting_context", "STRING", false)],
        "Hello {{ player_id }}{{ greeting_context | default('') }}",
    );
    greet["name"] = "Greeting".into();
    let files = [
        ("agents/a.json", agent(&tools, &skills)),
        ("workflows/skills/greet.json", greet),
        ("workflows/skills/image.json", image),
    ];
    project(root, &files, script)
}

#[test]
fn tools_and_skills_are_listed_with_names_and_parameters() {
    let contains = [
        "## Tools\n- <ReadWorldStateTool><path>…</path></ReadWorldStateTool>:",
        "- <path> (string, required)",
        "- <default_value> (any",
        "- <UpdatePrivateStateTool><key>…</key><value>…</value></UpdatePrivateStateTool>:",
        "- <PublishEventTool><event_type>…</event_type></PublishEventTool>:",
        "- <payload> (any",
        "## Skills\n- <skill_greet_player><player_id>…</player_id></skill_greet_player>: Greeting — Greets a player.",
        "  - <player_id> (string, required): about player_id",
        "  - <greeting_context> (string",
        "<image_analysis_data>…</image_analysis_data>",
        ": Image description — Describes an image.",
        "  - <image_analysis_data> (object, required, elements, or JSON in CDATA)",
    ];
    let script = [
        json!({"text": "I greet. <ACTION><skill_greet_player><player_id>p1</player_id></skill_greet_player></ACTION>", "request": {"contains": contains}}),
        json!({"text": "<ACTION><PublishEventTool><event_type>agent.action.completed</event_type><payload><![CDATA[{\"message\": \"Greeted\"}]]></payload></PublishEventTool></ACTION>"}),
        json!({"text": "Done."}),
    ];
    let folder = tempfile::tempdir().unwrap();
    let project = listed(folder.path(), &script);
    let faults = project.faults_of(project.agent_file("a").unwrap()).unwrap();
    assert!(faults.is_empty(), "{faults:?}");
    let (outcome, events) = answer(&project, "A player comes.");
    assert_eq!(outcome.text, "Done.", "{outcome:?}");
    assert_eq!(
        observations(&events),
        [
            "Tool skill_greet_player executed successfully. Result: Hello p1",
            "Tool PublishEventTool executed successfully. Result: published"
        ]
    );
    let published = "event `agent.action.completed` published: {\"message\":\"Greeted\"}";
    let is_published = |event: &TraceEvent| matches!(&event.body, EventBody::LogLine { message, .. } if message == published);
    assert!(events.iter().any(is_published), "{events:#?}");
}

#[test]
fn a_node_is_a_tool_by_its_type_and_a_workflow_of_its_own() {
    let folder = tempfile::tempdir().unwrap();
    let script = [
        json!({"text": "<ACTION><node:core:TextMerge><text_inputs><item>a</item><item>b</item></text_inputs></node:core:TextMerge></ACTION>"}),
        json!({"text": "Done."}),
    ];
    let project =
        project(folder.path(), &[("agents/a.json", agent(&json!(["core:TextMerge"]), &json!([])))], &script);
    let (_, events) = answer(&project, "Go.");
    assert_eq!(observations(&events), ["Tool node:core:TextMerge executed successfully. Result: ab"]);
    let nodes: Vec<&str> = events
        .iter()
        .filter_map(|event| match &event.body {
            EventBody::NodeStarted { node_type } => node_type.as_deref(),
            _ => None,
        })
        .collect();
    assert!(nodes.contains(&"core:TextMerge"), "the engine runs it: {nodes:?}");
}

#[test]
fn a_node_is_described_in_the_language_of_the_agent() {
    let request = json!({"contains": ["连接来自多条连线的文本。", "the texts, in the order of their edges"], "lacks": ["Joins texts"]});
    let mut own = agent(&json!(["core:TextMerge"]), &json!([]));
    own["language"] = "zh".into();
    let folder = tempfile::tempdir().unwrap();
    let project =
        project(folder.path(), &[("agents/a.json", own)], &[json!({"text": "好。", "request": request})]);
    let (outcome, _) = answer(&project, "你好");
    assert_eq!(outcome.text, "好。", "{outcome:?}");
}

/// The observation of a failed call, and its error for programs.
#[track_caller]
fn failure(workflow: Value) -> (String, Value) {
    let folder = tempfile::tempdir().unwrap();
    let script =
        [json!({"text": "<ACTION><workflow__w></workflow__w></ACTION>"}), json!({"text": "It failed."})];
    let files =
        [("agents/a.json", agent(&json!(["workflow:w"]), &json!([]))), ("workflows/w.json", workflow)];
    let (_, events) = answer(&project(folder.path(), &files, &script), "Go.");
    let error = events.iter().find_map(|event| match &event.body {
        EventBody::AgentToolFinished { error, .. } => error.as_ref(),
        _ => None,
    });
    (observations(&events).remove(0), serde_json::to_value(error.unwrap()).unwrap())
}

#[test]
fn a_failed_workflow_is_an_error_with_a_form() {
    let file = |node: Value, slot: &str| {
        json!({
            "nodes": [node, {"id": "out", "type": "core:GroupOutput"}],
            "edges": [edge(("bad", slot), ("out", "said"))],
            "interfaceOutputs": {"said": {"dataFlowType": "STRING"}},
        })
    };
    let (seen, error) = failure(file(
        json!({"id": "bad", "type": "core:TextTemplate", "configValues": {"template": "{{ nothing }}"}}),
        "text",
    ));
    assert!(seen.starts_with("Error - Tool workflow:w failed: `bad`: "), "{seen}");
    assert_eq!(
        (&error["node"], &error["code"], &error["kind"]),
        (&json!("bad"), &json!("failed"), &json!("failed"))
    );
    assert!(error["retryable"].is_boolean(), "{error}");
}
