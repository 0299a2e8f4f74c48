//! Workflows that deliberate in place of a model.
#![expect(clippy::unwrap_used, reason = "a test may stop at the first surprise")]

use std::path::Path;
use std::sync::Arc;

use agent_runtime::{Agent, AgentState, ApprovalMode, RunOutcome};
use agent_types::{EventBody, EventSink, ExitReason, ResumeLog, RunId, SystemClock, TraceEvent};
use run_store::{NewRun, Store, StoredRun};
use serde_json::{Value, json};
use weft_harness::{Cut, Cuts, write};
use weft_project::{Project, ProjectOptions};

fn edge(from: (&str, &str), to: (&str, &str)) -> Value {
    json!({"source": from.0, "sourceHandle": from.1, "target": to.0, "targetHandle": to.1})
}

fn text(stream: bool) -> Value {
    json!({"dataFlowType": "STRING", "isStream": stream})
}

/// A model that reads what the agent knows, and whose reply is the decision.
fn thinking() -> Value {
    json!({
        "description": "Thinks.",
        "interfaceInputs": {"message": {"dataFlowType": "STRING"}, "history": {"dataFlowType": "ARRAY"},
            "observations": {"dataFlowType": "ARRAY"}, "tools": {"dataFlowType": "ARRAY"}},
        "interfaceOutputs": {"full_text": text(true)},
        "nodes": [{"id": "in", "type": "core:GroupInput"}, {"id": "out", "type": "core:GroupOutput"},
            {"id": "prompt", "type": "agent:FormatPrompt"}, {"id": "model", "type": "agent:LlmApiRequest"}],
        "edges": [edge(("in", "message"), ("prompt", "query")), edge(("in", "history"), ("prompt", "history")),
            edge(("in", "observations"), ("prompt", "observation")), edge(("in", "tools"), ("prompt", "tools")),
            edge(("prompt", "messages"), ("model", "messages")), edge(("model", "text"), ("out", "full_text"))],
    })
}

/// A template in place of a model.
fn echo(template: &str) -> Value {
    let inputs = [
        ("message", "STRING"),
        ("history", "ARRAY"),
        ("observations", "ARRAY"),
        ("private_state", "OBJECT"),
        ("world_state", "OBJECT"),
        ("tools", "ARRAY"),
    ];
    let named = inputs.iter().filter(|(name, _)| template.contains(name));
    let mut edges: Vec<Value> = named.map(|(name, _)| edge(("in", name), ("say", name))).collect();
    edges.extend([edge(("say", "text"), ("out", "said")), edge(("one", "value"), ("out", "count"))]);
    let slots = inputs.iter().map(|(name, kind)| ((*name).to_owned(), json!({"dataFlowType": kind})));
    json!({
        "interfaceInputs": slots.collect::<serde_json::Map<_, _>>(),
        "interfaceOutputs": {"said": text(false), "count": {"dataFlowType": "INTEGER"}},
        "nodes": [{"id": "in", "type": "core:GroupInput"}, {"id": "out", "type": "core:GroupOutput"},
            {"id": "say", "type": "core:TextTemplate", "configValues": {"template": template}},
            {"id": "one", "type": "core:Const", "configValues": {"value": 1}}],
        "edges": edges,
    })
}

/// A project whose agent deliberates by this workflow.
fn project(root: &Path, workflow: &Value, profile: &Value, script: &[Value]) -> Project {
    let lines: Vec<String> = script.iter().map(ToString::to_string).collect();
    write(root, "weft.toml", "script = \"script.jsonl\"\n");
    write(root, "script.jsonl", &lines.join("\n"));
    write(root, "workflows/think.json", &workflow.to_string());
    let mut agent = json!({"id": "a", "core_deliberation_workflow_id": "think",
        "tool_ids_inventory": ["system:update_state", "system:read_state"]});
    agent.as_object_mut().unwrap().extend(profile.as_object().cloned().unwrap_or_default());
    write(root, "agents/a.json", &agent.to_string());
    let mut options = ProjectOptions::default();
    options.environment = None;
    Project::open(root, &options).unwrap()
}

fn block_on<T>(future: impl Future<Output = T>) -> T {
    tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap().block_on(future)
}

/// Answers "Hi." and returns the emitted events.
fn play(agent: &Agent) -> (RunOutcome, Vec<TraceEvent>) {
    block_on(async {
        let run = agent.start(AgentState::default(), "Hi.").unwrap();
        let mut watcher = run.subscribe(100_000);
        let (outcome, _) = run.outcome().await;
        (outcome, weft_harness::events(&mut watcher))
    })
}

fn count(events: &[TraceEvent], name: &str, own: bool) -> usize {
    let named = events.iter().filter(|event| event.body.name() == name);
    named.filter(|event| event.place.path.is_none() == own).count()
}

fn script() -> Vec<Value> {
    vec![
        json!({"chunks": ["I note it. ", "<ACTION><tool name=\"system:update_state\"><changes><seen>yes</seen></changes></tool></ACTION>"],
            "usage": {"input": 10, "output": 5}}),
        json!({"text": "<ACTION><nope/></ACTION>", "usage": {"input": 1, "output": 1},
            "request": {"contains": ["Tool system:update_state executed successfully"], "once": ["Hi."]}}),
        json!({"text": "It is noted.", "usage": {"input": 2, "output": 3}, "request": {"contains": ["Unknown tool 'nope'"]}}),
    ]
}

#[test]
fn its_text_is_read_like_a_models() {
    let folder = tempfile::tempdir().unwrap();
    let project = project(folder.path(), &thinking(), &json!({}), &script());
    let (outcome, events) = play(&project.agent("a").unwrap());
    assert_eq!((outcome.exit, outcome.text.as_str()), (ExitReason::Completed, "It is noted."), "{outcome:?}");
    assert_eq!(outcome.usage.total, 22, "the requests inside count");
    let started = events.iter().find_map(|event| match &event.body {
        EventBody::AgentLlmStarted { model, .. } if event.place.path.is_none() => Some(model.clone()),
        _ => None,
    });
    assert_eq!(started.as_deref(), Some("workflow:think"));
    // What nodes do is told inside the turn; the text is told once, by the agent.
    assert_eq!(
        (count(&events, "agent.llm.finished", true), count(&events, "agent.llm.finished", false)),
        (3, 3)
    );
    assert_eq!((count(&events, "agent.text.delta", true), count(&events, "agent.text.delta", false)), (2, 0));
    let nodes: Vec<u32> = events
        .iter()
        .filter(|event| matches!(&event.body, EventBody::NodeStarted { .. }))
        .map(|event| event.place.turn.unwrap())
        .collect();
    assert_eq!(nodes.iter().filter(|turn| **turn == 2).count(), 4);
    let starts = count(&events, "node.started", false);
    assert_eq!(starts, count(&events, "node.finished", false));
}

#[test]
fn it_is_told_what_the_agent_knows() {
    let folder = tempfile::tempdir().unwrap();
    let template = "{% if observations %}{{ observations | join(';') }}|{{ history | length }}|{{ history[0].content }}|{{ private_state.seen }}|{{ tools | map(attribute='id') | join(',') }}\
        {% else %}{{ message }} {{ history | length }} <ACTION><tool name=\"system:update_state\"><changes><seen>yes</seen></changes></tool></ACTION>{% endif %}";
    let project = project(folder.path(), &echo(template), &json!({}), &[]);
    let (outcome, _) = play(&project.agent("a").unwrap());
    assert_eq!(
        outcome.text,
        "Observation: Tool system:update_state executed successfully. Result: {\"seen\":\"yes\"}|2|Hi.|yes|system:update_state,system:read_state"
    );
    assert_eq!(outcome.usage.total, 0);
}

#[test]
fn it_is_told_what_all_agents_share() {
    let folder = tempfile::tempdir().unwrap();
    let template = "{% if observations %}the door is {{ world_state.door }}\
        {% else %}<ACTION><tool name=\"system:update_world\"><changes><door>open</door></changes></tool></ACTION>{% endif %}";
    let more = json!({"tool_ids_inventory": ["system:update_world"]});
    let project = project(folder.path(), &echo(template), &more, &[]);
    let (outcome, _) = play(&project.agent("a").unwrap());
    assert_eq!(outcome.text, "the door is open");
}

#[track_caller]
fn refused(workflow: &Value, code: &str, message: &str) {
    let folder = tempfile::tempdir().unwrap();
    let project = project(folder.path(), workflow, &json!({}), &[]);
    let error = project.agent("a").unwrap_err();
    assert_eq!(error.code(), code);
    assert!(error.to_string().contains(message), "{error}");
}

#[test]
fn what_cannot_deliberate_is_refused_before_the_run() {
    let mut many = echo("x");
    many["interfaceOutputs"]["more"] = text(false);
    refused(&many, "bad_deliberation", "it needs an output `full_text`, or a single one of type STRING");
    let mut strange = echo("x");
    strange["interfaceInputs"]["mood"] = json!({"dataFlowType": "STRING", "required": true});
    refused(&strange, "bad_deliberation", "it requires the input `mood`");
    refused(
        &json!({"nodes": [{"id": "x", "type": "core:Nope"}], "edges": []}),
        "bad_deliberation",
        "core:Nope",
    );
    let folder = tempfile::tempdir().unwrap();
    let project = project(folder.path(), &echo("x"), &json!({"core_deliberation_workflow_id": "thin"}), &[]);
    let error = project.agent("a").unwrap_err();
    assert_eq!((error.code(), error.help().as_deref()), ("unknown_workflow", Some("did you mean `think`?")));
}

#[test]
fn one_that_has_effects_is_refused_where_a_run_may_only_read() {
    let folder = tempfile::tempdir().unwrap();
    let mut sending = echo("x");
    let send = json!({"id": "send", "type": "core:Http",
        "configValues": {"endpoint": {"method": "POST", "url": "http://localhost:1/orders"}}});
    assert!(
        project(folder.path(), &sending, &json!({}), &[]).agent("a").unwrap().read_only().check().is_ok()
    );
    sending["nodes"].as_array_mut().unwrap().push(send);
    let agent = project(folder.path(), &sending, &json!({}), &[]).agent("a").unwrap();
    assert!(agent.clone().check().is_ok());
    assert_eq!(agent.read_only().check().unwrap_err().code(), "not_read_only");
}

#[test]
fn failures_and_limits_end_the_run() {
    let folder = tempfile::tempdir().unwrap();
    let project_of = |workflow: &Value, profile: Value| project(folder.path(), workflow, &profile, &script());
    let (outcome, events) = play(&project_of(&echo("{{ nothing }}"), json!({})).agent("a").unwrap());
    assert_eq!(outcome.exit, ExitReason::LlmFailed);
    assert!(
        outcome.error.as_deref().unwrap().contains("`say`: the template: undefined value"),
        "{outcome:?}"
    );
    assert_eq!(count(&events, "agent.llm.finished", true), 1);
    let budgets = json!({"budgets": {"tokens": 12}});
    let (outcome, _) = play(&project_of(&thinking(), budgets).agent("a").unwrap());
    assert_eq!(outcome.exit, ExitReason::BudgetExceeded);
    let budgets = json!({"budgets": {"node_starts": 2}});
    let (outcome, _) = play(&project_of(&thinking(), budgets).agent("a").unwrap());
    assert_eq!(outcome.exit, ExitReason::BudgetExceeded, "{outcome:?}");
}

fn go(agent: &Agent, run: &Arc<StoredRun>, log: Option<ResumeLog>) -> RunOutcome {
    block_on(async {
        let sink = Arc::clone(run) as Arc<dyn EventSink>;
        let outcome = agent.start_in(AgentState::default(), "Hi.", sink, log).unwrap().outcome().await.0;
        run.close().await.unwrap();
        outcome
    })
}

/// Counts the recorded requests to models.
fn asked(log: &ResumeLog) -> usize {
    let ends = log.events.iter().filter(|kept| matches!(kept.event.body, EventBody::AgentLlmFinished { .. }));
    ends.filter(|kept| kept.event.place.path.is_some()).count()
}

#[test]
fn cut_anywhere_it_comes_to_the_same_end_and_asks_once() {
    let folder = tempfile::tempdir().unwrap();
    let agent = |skip: usize| {
        let script = &script()[skip..];
        // What a reply wants of its request is looked at in the other tests.
        let plain: Vec<Value> = script
            .iter()
            .cloned()
            .map(|mut reply| {
                reply["request"] = json!({});
                reply
            })
            .collect();
        project(folder.path(), &thinking(), &json!({}), &plain).agent("a").unwrap()
    };
    let store = Store::memory().unwrap();
    let whole = store.begin(NewRun::new(RunId::new("whole")), Arc::new(SystemClock)).unwrap();
    let wanted = go(&agent(0), &whole, None);
    assert_eq!(wanted.text, "It is noted.", "{wanted:?}");
    drop(whole);
    for Cut { upto, id: run, run: stored, log } in Cuts::new(&store, "whole") {
        let skip = asked(&log);
        let outcome = go(&agent(skip), &stored, Some(log));
        drop(stored);
        assert_eq!((outcome.exit, &outcome.text), (wanted.exit, &wanted.text), "cut at {upto}: {outcome:?}");
        assert_eq!(outcome.usage, wanted.usage, "cut at {upto}");
        let events = store.events(&run, 0, usize::MAX).unwrap();
        let events: Vec<TraceEvent> = events.into_iter().map(|kept| kept.event).collect();
        assert_eq!(count(&events, "agent.llm.finished", false), 3, "cut at {upto}: nothing is asked twice");
        assert_eq!(count(&events, "agent.llm.finished", true), 3, "cut at {upto}");
        assert_eq!(count(&events, "run.finished", true), 1, "cut at {upto}");
    }
}

#[test]
fn a_person_may_be_asked_while_it_deliberates() {
    let asking = json!({
        "interfaceInputs": {"message": {"dataFlowType": "STRING"}},
        "interfaceOutputs": {"said": text(false)},
        "nodes": [{"id": "in", "type": "core:GroupInput"}, {"id": "out", "type": "core:GroupOutput"},
            {"id": "ask", "type": "core:Ask", "configValues": {"prompt": "What now?"}}],
        "edges": [edge(("in", "message"), ("ask", "context")), edge(("ask", "answer"), ("out", "said"))],
    });
    let folder = tempfile::tempdir().unwrap();
    let agent = || project(folder.path(), &asking, &json!({}), &[]).agent("a").unwrap();
    let clock = || Arc::new(SystemClock);
    let store = Store::memory().unwrap();
    let run = RunId::new("r");
    let stored = store.begin(NewRun::new(run.clone()), clock()).unwrap();
    let mut outcome = go(&agent(), &stored, None);
    drop(stored);
    let replies = ["<ACTION><tool name=\"system:read_state\"/></ACTION>", "Enough."];
    for (turn, reply) in (1..).zip(replies) {
        assert_eq!(outcome.exit, ExitReason::AwaitingApproval, "{outcome:?}");
        let [pending] = &outcome.pending[..] else { panic!("{:?}", outcome.pending) };
        assert_eq!(
            (pending.ask.as_str(), pending.prompt.as_deref()),
            (format!("t{turn}/ask").as_str(), Some("What now?\nHi."))
        );
        store.answer(&run, &pending.ask, &json!(reply)).unwrap();
        let (stored, log) = store.resume(&run, clock()).unwrap();
        outcome = go(&agent(), &stored, Some(log));
    }
    assert_eq!((outcome.exit, outcome.text.as_str()), (ExitReason::Completed, "Enough."), "{outcome:?}");
}

#[test]
fn nodes_use_the_agents_tools() {
    let run = json!({
        "interfaceInputs": {"message": {"dataFlowType": "STRING"}},
        "interfaceOutputs": {"said": text(false)},
        "availableTools": {"initial": ["system:get_current_time"]},
        "nodes": [{"id": "in", "type": "core:GroupInput"}, {"id": "out", "type": "core:GroupOutput"},
            {"id": "run", "type": "agent:ExecuteTool", "inputValues": {"tool_call_requests": [
                {"tool": "system:update_state", "arguments": {"changes": {"seen": "yes"}}},
                {"tool": "system:read_state", "arguments": {}}]}}],
        "edges": [edge(("run", "observation"), ("out", "said"))],
    });
    let folder = tempfile::tempdir().unwrap();
    let project = project(folder.path(), &run, &json!({}), &[]);
    let (outcome, events) = play(&project.agent("a").unwrap().with_approval(ApprovalMode::None));
    assert!(
        outcome.text.ends_with("Tool system:read_state executed successfully. Result: {\"seen\":\"yes\"}"),
        "{outcome:?}"
    );
    let calls: Vec<String> = events
        .iter()
        .filter(|event| matches!(event.body, EventBody::AgentToolStarted { .. }))
        .map(|event| event.place.call.as_ref().unwrap().to_string())
        .collect();
    assert_eq!(calls, ["t1.run:1", "t1.run:2"]);
}
