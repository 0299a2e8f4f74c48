//! A hundred turns with a server of each dialect that gives every call the same id, checked as a strict server would.

use std::collections::HashSet;

use agent_types::ToolSpec;
use llm_provider::{LlmRequest, Message, ProviderKind, StandardResponse, complete};
use serde_json::{Value, json};

use super::connect;
use super::stub::{Answer, Stub};

const TURNS: usize = 100;

/// A reply with reasoning that is wanted back and one call, in the form of each dialect.
fn reply(kind: ProviderKind) -> String {
    let events = |events: &[Value]| events.iter().map(super::loose::event).collect::<String>();
    match kind {
        ProviderKind::OpenAi | ProviderKind::Local => events(&[
            json!({"choices": [{"index": 0, "delta": {"reasoning_content": "Hm."}}]}),
            json!({"choices": [{"index": 0, "delta": {"tool_calls": [{"index": 0, "id": "c", "function": {"name": "add", "arguments": "{\"a\":1}"}}]}}]}),
            json!({"choices": [{"index": 0, "delta": {}, "finish_reason": "tool_calls"}]}),
        ]),
        ProviderKind::OpenAiResponses => events(&[
            json!({"type": "response.output_item.done", "output_index": 0, "item": {"type": "reasoning", "id": "r", "summary": [], "encrypted_content": "e"}}),
            json!({"type": "response.output_item.done", "output_index": 1, "item": {"type": "function_call", "id": "f", "call_id": "c", "name": "add", "arguments": "{\"a\":1}"}}),
            json!({"type": "response.completed", "response": {"status": "completed", "output": []}}),
        ]),
        ProviderKind::Anthropic => events(&[
            json!({"type": "content_block_start", "index": 0, "content_block": {"type": "thinking", "thinking": "Hm."}}),
            json!({"type": "content_block_delta", "index": 0, "delta": {"type": "signature_delta", "signature": "s"}}),
            json!({"type": "content_block_stop", "index": 0}),
            json!({"type": "content_block_start", "index": 1, "content_block": {"type": "tool_use", "id": "c", "name": "add", "input": {"a": 1}}}),
            json!({"type": "message_delta", "delta": {"stop_reason": "tool_use"}}),
            json!({"type": "message_stop"}),
        ]),
        ProviderKind::Gemini => events(&[
            json!({"candidates": [{"content": {"parts": [{"functionCall": {"id": "c", "name": "add", "args": {"a": 1}}, "thoughtSignature": "s"}]}, "finishReason": "STOP"}]}),
        ]),
        ProviderKind::Ollama => {
            let message = json!({"thinking": "Hm.", "tool_calls": [{"id": "c", "function": {"name": "add", "arguments": {"a": 1}}}]});
            format!("{}\n", json!({"message": message, "done": true, "done_reason": "stop"}))
        }
    }
}

/// One message of a request as a strict server sees it.
#[derive(Debug, Default)]
struct Seen {
    role: String,
    has_content: bool,
    has_reasoning: bool,
    calls: Vec<String>,
    results: Vec<String>,
}

fn seen(kind: ProviderKind, message: &Value) -> Seen {
    let id = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let list = |value: &Value| value.as_array().cloned().unwrap_or_default();
    let blocks = [list(&message["content"]), list(&message["parts"])].concat();
    let filled = |text: &Value| text.as_str().is_some_and(|text| !text.trim().is_empty());
    let mut seen = Seen { role: id(&message["role"]), ..Seen::default() };
    seen.has_content = filled(&message["content"]) || blocks.iter().any(|block| filled(&block["text"]));
    seen.has_reasoning = match kind {
        ProviderKind::Anthropic => blocks.first().is_some_and(|block| filled(&block["signature"])),
        ProviderKind::Gemini => blocks.iter().any(|block| filled(&block["thoughtSignature"])),
        ProviderKind::Ollama => filled(&message["thinking"]),
        _ => filled(&message["reasoning_content"]),
    };
    seen.calls.extend(list(&message["tool_calls"]).iter().map(|call| id(&call["id"])));
    seen.results.extend(message.get("tool_call_id").map(id));
    for block in &blocks {
        match block["type"].as_str() {
            Some("tool_use") => seen.calls.push(id(&block["id"])),
            Some("tool_result") => seen.results.push(id(&block["tool_use_id"])),
            _ => {
                seen.calls.extend(block.get("functionCall").map(|call| id(&call["id"])));
                seen.results.extend(block.get("functionResponse").map(|call| id(&call["id"])));
            }
        }
    }
    match message["type"].as_str() {
        Some("function_call") => seen.calls.push(id(&message["call_id"])),
        Some("function_call_output") => seen.results.push(id(&message["call_id"])),
        _ => {}
    }
    seen
}

#[track_caller]
fn check(kind: ProviderKind, body: &Value) {
    let messages = ["messages", "contents", "input"].iter().find_map(|key| body[*key].as_array()).unwrap();
    let (mut ids, mut open, mut reasoned) = (HashSet::new(), Vec::new(), false);
    let mut last = String::new();
    for message in messages {
        if message["type"] == "reasoning" {
            reasoned = message["encrypted_content"].is_string();
            continue;
        }
        let seen = seen(kind, message);
        assert!(
            seen.has_content || !seen.calls.is_empty() || !seen.results.is_empty(),
            "{kind:?}: {message} is empty"
        );
        if !seen.calls.is_empty() {
            assert!(seen.has_reasoning || reasoned, "{kind:?}: {message} lacks its reasoning");
        }
        reasoned = false;
        for id in &seen.calls {
            assert!(!id.is_empty() && ids.insert(id.clone()), "{kind:?}: the id of {message} is not unique");
        }
        if seen.results.is_empty() {
            assert!(open.is_empty(), "{kind:?}: {open:?} have no result before {message}");
        }
        open.retain(|id| !seen.results.contains(id));
        open.extend(seen.calls);
        if kind == ProviderKind::Anthropic {
            assert_ne!(seen.role, last, "{kind:?}: {message} does not take its turn");
        }
        last = seen.role;
    }
    assert!(open.is_empty(), "{kind:?}: {open:?} have no result");
}

/// The history after a reply: its result, and now and then something that no strict server would take.
fn answer_turn(history: &mut Vec<Message>, turn: usize, response: StandardResponse) {
    let call = response.tool_calls[0].id.clone();
    history.push(Message::Assistant { text: response.text, calls: response.tool_calls });
    history.push(Message::Tool { call, name: "add".into(), text: "2".into() });
    match turn % 10 {
        3 => history.push(Message::assistant(" ")),
        5 => history.extend([Message::assistant(""), Message::user("")]),
        7 => history.extend([Message::assistant("So far."), Message::user("Go on."), Message::user("Well?")]),
        _ => {}
    }
}

#[tokio::test]
async fn a_hundred_turns_satisfy_a_strict_server() {
    for kind in [
        ProviderKind::OpenAi,
        ProviderKind::OpenAiResponses,
        ProviderKind::Anthropic,
        ProviderKind::Gemini,
        ProviderKind::Ollama,
    ] {
        let stub = Stub::serve((0..TURNS).map(|_| Answer::stream([reply(kind)]))).await;
        let model = connect(kind, &stub);
        let mut history = vec![Message::system("Be brief."), Message::user("Add.")];
        for turn in 0..TURNS {
            let tool = ToolSpec {
                name: "add".into(),
                description: "Adds.".into(),
                parameters: json!({"type": "object"}),
            };
            let request = LlmRequest::new(history.clone()).with_tools(vec![tool]);
            let response = complete(&model, request).await.unwrap();
            answer_turn(&mut history, turn, response);
        }
        let seen = stub.seen();
        assert_eq!(seen.len(), TURNS);
        seen.iter().for_each(|request| check(kind, &request.body));
    }
}
