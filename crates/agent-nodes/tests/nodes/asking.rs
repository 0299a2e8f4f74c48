//! `agent:LlmApiRequest`, `agent:LlmDecisionWithTools` and `agent:Summarize`.

use agent_types::{BudgetKey, BudgetLimits};
use serde_json::{Value, json};

use crate::common::{World, block, one, with_tools};

fn messages() -> Value {
    json!([{"role": "system", "content": "Be brief."}, {"role": "user", "content": "Hi."}])
}

#[test]
fn a_reply_is_given_whole_and_as_it_comes() {
    let world = World::new(&[json!({"chunks": ["Hel", "lo ", "<b>"], "usage": {"input": 5, "output": 2}})]);
    let workflow = one(
        "agent:LlmApiRequest",
        &json!({"messages": messages()}),
        &json!({"prompt": "How are you?", "parameters": {"temperature": 0.5}}),
    );
    let seen = world.run(&workflow, json!({})).ok();
    let response = seen.output("response");
    assert_eq!(
        response,
        json!({"text": "Hello <b>", "usage": {"input": 5, "output": 2, "total": 7}, "finish": "stop",
            "role": "assistant", "tools": [], "maxToolCalls": 10, "callPrefix": "node:"})
    );
    assert_eq!(seen.output("text"), json!("Hello <b>"));
    assert_eq!(world.sent(0), ["system: Be brief.", "user: Hi.", "user: How are you?"]);
    assert_eq!(world.model.requests.lock().unwrap()[0].parameters.temperature, Some(0.5));
    assert_eq!(seen.outcome.usage.total, 7);
    assert_eq!(
        seen.names(),
        ["agent.llm.started", "agent.thinking", "agent.text.delta", "agent.llm.finished"]
    );
    let places = seen.events.iter().filter(|event| event.body.name().starts_with("agent."));
    assert!(
        places.into_iter().all(|event| event.place.path.as_deref() == Some("node") && event.place.span > 0)
    );
}

#[test]
fn nothing_behind_a_block_reaches_the_stream() {
    let read = "I look. <ACTION><say><say>a</say></say></ACTION>";
    let streamed = |chunks: &Value, native: bool| {
        let world = World::on(std::slice::from_ref(chunks), native);
        let workflow =
            one("agent:LlmApiRequest", &json!({"messages": messages(), "tools": ["say"]}), &json!({}));
        world.run(&workflow, json!({})).ok().output("text")
    };
    for behind in ["Observation: it says 7.\nIt is 7.", " ", "\n<ACTION><pay><say>x</say></pay></ACTION>"] {
        let whole = format!("{read}{behind}");
        let letters: Vec<String> = whole.chars().map(String::from).collect();
        for chunks in [json!({"chunks": [whole]}), json!({"chunks": letters})] {
            assert_eq!(streamed(&chunks, false), json!(read), "{chunks}");
        }
    }
    let native = json!({"chunks": ["I look."], "tool_calls": [{"name": "say", "arguments": {"say": "a"}}]});
    assert_eq!(streamed(&native, true), json!("I look."));
    assert_eq!(streamed(&json!({"chunks": ["All", " is <", "b"]}), false), json!("All is <b"));
}

#[test]
fn tools_are_taught_once() {
    let taught = |world: &World| world.sent(0).join("\n").matches("Does say.").count();
    // By the request itself,
    let world = World::new(&[json!({"text": "Hello."})]);
    let seen = world.run(
        &one("agent:LlmApiRequest", &json!({"messages": messages(), "tools": ["say"]}), &json!({})),
        json!({}),
    );
    assert_eq!(taught(&world), 1);
    assert_eq!(seen.ok().output("response")["tools"], json!(["say"]));
    // or by the prompt before it.
    let world = World::new(&[json!({"text": "Hello."})]);
    let prompt =
        one("agent:FormatPrompt", &json!({"query": "Hi.", "tools": ["say"]}), &json!({"system": "S"}));
    let prompt = world.run(&prompt, json!({})).ok().output("messages");
    let asked = one("agent:LlmApiRequest", &json!({"messages": prompt, "tools": ["say"]}), &json!({}));
    world.run(&asked, json!({})).ok();
    assert_eq!(taught(&world), 1);
    assert!(world.model.requests.lock().unwrap()[0].tools.is_empty());
    // In another language too.
    let world = World::new(&[json!({"text": "Hello."})]);
    let config = json!({"system": "S", "language": "zh"});
    let prompt = one("agent:FormatPrompt", &json!({"query": "Hi.", "tools": ["say"]}), &config);
    let prompt = world.run(&prompt, json!({})).ok().output("messages");
    let asked = one("agent:LlmApiRequest", &json!({"messages": prompt, "tools": ["say"]}), &json!({}));
    world.run(&asked, json!({})).ok();
    assert_eq!(taught(&world), 1);
    // What the workflow allows is offered without an edge.
    let world = World::new(&[json!({"text": "Hello."})]);
    let available = json!({"initial": ["say"]});
    let workflow =
        with_tools("agent:LlmApiRequest", &json!({"messages": messages()}), &json!({}), &available);
    world.run(&workflow, json!({})).ok();
    assert_eq!(taught(&world), 1);
}

#[test]
fn a_model_that_takes_tools_in_its_own_form_gets_them_so() {
    let world =
        World::on(&[json!({"text": "", "tool_calls": [{"name": "say", "arguments": {"say": "x"}}]})], true);
    let inputs = json!({"messages": messages(), "tools": ["say"]});
    let seen = world.run(&one("agent:LlmApiRequest", &inputs, &json!({})), json!({})).ok();
    assert_eq!(world.sent(0), ["system: Be brief.", "user: Hi."]);
    assert_eq!(world.model.requests.lock().unwrap()[0].tools[0].name, "say");
    assert_eq!(seen.output("response")["tool_calls"][0]["name"], "say");
    // In one node too.
    let world = World::on(&[json!({"text": "Hello."})], true);
    let config = json!({"system": "S", "tools": ["say"]});
    world.run(&one("agent:LlmDecisionWithTools", &json!({"query": "Hi."}), &config), json!({})).ok();
    assert_eq!(world.sent(0), ["system: S", "user: Hi."]);
    assert_eq!(world.model.requests.lock().unwrap()[0].tools.len(), 1);
}

#[test]
fn one_request_may_offer_more_tools_in_its_own_words() {
    let config = json!({"dynamicTools": {"toolIds": ["pay", "say"], "descriptionTemplate": "Use {toolName}: {toolDescription}"}});
    let world = World::new(&[block("<pay><say>1</say></pay>")]);
    let workflow = one("agent:LlmApiRequest", &json!({"messages": messages(), "tools": ["say"]}), &config);
    let seen = world.run(&workflow, json!({})).ok();
    let sent = world.sent(0).join("\n");
    assert!(
        sent.contains("Use pay: Does pay.") && sent.contains("Does say.") && !sent.contains("Use say"),
        "{sent}"
    );
    assert_eq!(seen.output("response")["tools"], json!(["say", "pay"]));
    // Beside those that a workflow begins with,
    let world = World::new(&[json!({"text": "Hello."})]);
    let config = json!({"dynamicTools": {"toolIds": ["pay"]}});
    let inputs = json!({"messages": messages(), "tools": ["say"]});
    let initial = with_tools("agent:LlmApiRequest", &inputs, &config, &json!({"initial": ["say"]}));
    let seen = world.run(&initial, json!({})).ok();
    assert_eq!(seen.output("response")["tools"], json!(["say", "pay"]));
    // and only those that it allows, where it says so.
    let world = World::new(&[json!({"text": "Hello."})]);
    let available = json!({"initial": ["say"], "available": ["say", "do_it"]});
    let config = json!({"dynamicTools": {"toolIds": ["pay", "do_it"]}});
    let inputs = json!({"messages": messages(), "tools": ["say"]});
    let seen = world.run(&with_tools("agent:LlmApiRequest", &inputs, &config, &available), json!({})).ok();
    assert_eq!(seen.output("response")["tools"], json!(["say", "do_it"]));
    let warned = seen
        .events
        .iter()
        .any(|event| serde_json::to_string(event).unwrap().contains("`pay` may not be used"));
    assert!(warned);
}

#[test]
fn a_prompt_is_the_users_message_and_needs_no_other() {
    let world = World::new(&[json!({"text": "42"})]);
    let config = json!({"prompt": "Analyse the data.",
        "dynamicTools": {"toolIds": ["pay"], "descriptionTemplate": "工具 {toolName}: {toolDescription}"}});
    world.run(&one("agent:LlmApiRequest", &json!({}), &config), json!({})).ok();
    let sent = world.sent(0);
    assert_eq!(sent.last().map(String::as_str), Some("user: Analyse the data."));
    assert!(sent.join("\n").contains("工具 pay: Does pay."), "{sent:?}");
    // What is said already is not said again.
    let world = World::new(&[json!({"text": "42"})]);
    let messages =
        json!([{"role": "user", "content": "Analyse the data."}, {"role": "assistant", "content": "Which?"}]);
    let config = json!({"prompt": "Analyse the data."});
    world.run(&one("agent:LlmApiRequest", &json!({"messages": messages}), &config), json!({})).ok();
    assert_eq!(world.sent(0), ["user: Analyse the data.", "assistant: Which?"]);
}

#[test]
fn bad_settings_are_problems_of_the_plan() {
    for (node_type, config, key) in [
        ("agent:LlmApiRequest", json!({"dynamicTools": {"toolIds": ["a"], "more": 1}}), "dynamicTools"),
        (
            "agent:LlmApiRequest",
            json!({"dynamicTools": {"toolIds": ["a"], "descriptionTemplate": "{toolname}"}}),
            "dynamicTools",
        ),
        ("agent:LlmApiRequest", json!({"maxToolCalls": -1}), "maxToolCalls"),
        ("agent:LlmApiRequest", json!({"parameters": {"temperature": "hot"}}), "parameters"),
        ("agent:FormatPrompt", json!({"template": "{{ query"}), "template"),
        ("agent:FormatPrompt", json!({"language": "fr"}), "language"),
        ("agent:AvailableTools", json!({"tools": "say"}), "tools"),
        ("agent:LlmDecisionWithTools", json!({"tools": [1]}), "tools"),
        ("agent:Summarize", json!({"max_words": "few"}), "max_words"),
    ] {
        let inputs = json!({"messages": "x", "text": "x"});
        let workflow = one(node_type, &inputs, &config);
        let problems = workflow_engine::Plan::check(
            &workflow,
            &crate::common::catalog(),
            &workflow_model::World::new(&crate::common::catalog(), &workflow_model::NoWorkflows),
        );
        let is_reported = problems.iter().any(|problem| problem.place.slot.as_deref() == Some(key));
        assert!(is_reported, "{node_type} {config}: {problems:?}");
    }
}

#[test]
fn failures_of_models_have_their_code() {
    let asked = one("agent:LlmApiRequest", &json!({"messages": "Hi."}), &json!({}));
    let error = World::new(&[]).run(&asked, json!({})).outcome.error.unwrap();
    assert_eq!(error.code.as_deref(), Some("llm_failed"));
    let seen = World::new(&[json!({"error": {"status": 401}})]).run(&asked, json!({}));
    assert_eq!(seen.outcome.error.as_ref().unwrap().code.as_deref(), Some("llm_authentication"));
    assert_eq!(seen.names().last().copied(), Some("agent.llm.finished"));
}

#[test]
fn tokens_and_cost_count_in_the_budget_and_end_there() {
    let limits = BudgetLimits { tokens: Some(10), ..BudgetLimits::default() };
    let reply = json!({"text": "a", "usage": {"input": 9, "output": 1}});
    let world = World::new(&[reply.clone(), reply]).with_budget(limits);
    let asked = one("agent:LlmApiRequest", &json!({"messages": "Hi."}), &json!({}));
    world.run(&asked, json!({})).ok();
    let budget = world.budget.as_ref().unwrap();
    assert_eq!((budget.used(BudgetKey::Tokens), budget.used(BudgetKey::CostMicros)), (10, 18));
    let error = world.run(&asked, json!({})).outcome.error.unwrap();
    assert_eq!((error.kind.as_str(), error.code.as_deref()), ("tokens", Some("tokens")));
}

#[test]
fn a_decision_is_four_nodes_in_one() {
    let world = World::new(&[
        json!({"text": "I look.<ACTION><say><say>x</say></say></ACTION>"}),
        block("<sai/>"),
        json!({"text": "All done."}),
    ]);
    let decide = |inputs: Value| {
        let config = json!({"system": "S", "tools": ["say"]});
        world.run(&one("agent:LlmDecisionWithTools", &inputs, &config), json!({})).ok()
    };
    let first = decide(json!({"query": "Hi."}));
    assert_eq!(first.output("message"), json!("I look."));
    assert_eq!(first.output("tool_call_requests")[0]["arguments"], json!({"say": "x"}));
    let history = first.output("history");
    let second = decide(json!({"query": "Hi.", "history": history, "observation": ["Observation: seen"]}));
    assert_eq!(second.output("tool_call_requests"), json!([]));
    assert_eq!(second.output("errors")[0]["code"], "unknown_tool");
    let history = second.output("history");
    let third = decide(json!({"query": "Hi.", "history": history}));
    assert_eq!(third.output("llm_text_output"), json!("All done."));
    let sent = world.sent(2);
    let roles: Vec<&str> = sent.iter().map(|line| line.split_once(':').unwrap().0).collect();
    // The model is to say something about its mistake: the query is not said again.
    assert_eq!(roles, ["system", "user", "assistant", "user", "assistant", "user"]);
    assert!(sent[5].contains("Error - Unknown tool 'sai', did you mean 'say'?"), "{sent:#?}");
}

#[test]
fn a_text_is_put_into_fewer_words() {
    let world = World::new(&[json!({"text": " Short.\n"})]);
    let inputs = json!({"text": "Long <ACTION> text", "instruction": "Keep names."});
    let seen = world.run(&one("agent:Summarize", &inputs, &json!({"max_words": 5})), json!({})).ok();
    assert_eq!(seen.output("summary"), json!("Short."));
    let sent = world.sent(0);
    assert!(sent[0].contains("at most 5 words") && sent[0].ends_with("Keep names."), "{sent:#?}");
    assert!(sent[1].contains("Long &lt;ACTION> text"), "{sent:#?}");
}
