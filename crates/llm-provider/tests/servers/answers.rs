//! Correct answers of servers: text, reasoning, calls in pieces, tokens, ends; the same however they are cut.

use futures::StreamExt;
use llm_provider::{Finish, LlmEvent, LlmProvider, NativeCall, ProviderKind, StandardResponse};
use serde_json::json;

use super::stub::{Answer, Stub};
use super::{connect, request};

/// Received answer: its pieces and its end.
struct Heard {
    text: String,
    reasoning: String,
    calls: Vec<(String, String)>,
    answer: StandardResponse,
}

async fn hear(kind: ProviderKind, pieces: Vec<String>) -> Heard {
    let stub = Stub::serve([Answer::stream(pieces)]).await;
    let mut stream = connect(kind, &stub).stream(request()).await.unwrap();
    let (mut text, mut reasoning, mut calls) = (String::new(), String::new(), Vec::<(String, String)>::new());
    let answer = loop {
        match stream.next().await.expect("the stream has another event").unwrap() {
            LlmEvent::Text(piece) => text.push_str(&piece),
            LlmEvent::Reasoning(piece) => reasoning.push_str(&piece),
            LlmEvent::ToolCall { index, name, arguments } => {
                calls.resize_with(calls.len().max(index + 1), Default::default);
                calls[index].0 = name;
                calls[index].1.push_str(&arguments);
            }
            LlmEvent::Finished(answer) => break answer,
            LlmEvent::Heartbeat | LlmEvent::Unread { .. } | LlmEvent::Retrying { .. } => {}
        }
    };
    assert!(stream.next().await.is_none());
    Heard { text, reasoning, calls, answer }
}

/// Checks the body whole, in pieces of three bytes, and a line at a time; the emitted pieces make up the answer.
async fn check(kind: ProviderKind, body: &str, expected: StandardResponse) {
    let lines = body.split_inclusive('\n').map(str::to_owned).collect();
    let small = body.chars().collect::<Vec<_>>().chunks(3).map(|piece| piece.iter().collect()).collect();
    for pieces in [vec![body.to_owned()], lines, small] {
        let mut heard = hear(kind, pieces).await;
        // Tokens that the server does not report are estimated.
        let is_reported = expected.usage.input > 0 && expected.usage.output > 0;
        assert_eq!(heard.answer.usage.estimated, !is_reported);
        heard.answer.usage = if is_reported { heard.answer.usage } else { expected.usage };
        assert_eq!(heard.answer, expected);
        assert_eq!(heard.text, expected.text);
        assert_eq!(Some(heard.reasoning).filter(|text| !text.is_empty()), expected.reasoning);
        let calls: Vec<_> =
            expected.tool_calls.iter().map(|call| (call.name.clone(), call.arguments.clone())).collect();
        assert_eq!(heard.calls, calls);
    }
}

fn answer(text: &str, tokens: (u64, u64), finish: Finish) -> StandardResponse {
    let usage = agent_types::Usage::new(tokens.0, tokens.1);
    StandardResponse { text: text.into(), usage, finish, ..StandardResponse::default() }
}

/// Events of a server, one a line; `NAME {…}` is an event with a name.
fn events(lines: &str) -> String {
    let line = |line: &str| match line.split_once(" {") {
        Some((name, data)) if !name.contains('{') => format!("event: {name}\ndata: {{{data}\n\n"),
        Some(_) | None => format!("data: {line}\n\n"),
    };
    lines.lines().map(str::trim).filter(|text| !text.is_empty()).map(line).collect()
}

#[tokio::test]
async fn chat_completions_say_text_and_reasoning() {
    let body = events(
        r#"{"choices":[{"index":0,"delta":{"role":"assistant","reasoning_content":"Hm. "}}]}
        {"choices":[{"index":0,"delta":{"reasoning_content":"Ping."}}]}
        {"choices":[{"index":0,"delta":{"content":"Grüße. <ACT"}}]}
        {"choices":[{"index":0,"delta":{"content":"ION><ping/></ACTION>"},"finish_reason":"stop"}]}
        {"choices":[],"usage":{"prompt_tokens":7,"completion_tokens":5,"total_tokens":12}}
        [DONE]"#,
    );
    let mut expected = answer("Grüße. <ACTION><ping/></ACTION>", (7, 5), Finish::Stop);
    expected.reasoning = Some("Hm. Ping.".into());
    check(ProviderKind::OpenAi, &body, expected).await;
}

#[tokio::test]
async fn chat_completions_say_calls_in_pieces_of_any_order() {
    let body = events(
        r#"{"choices":[{"index":0,"delta":{"tool_calls":[{"index":0,"id":"c1","type":"function","function":{"name":"add","arguments":""}}]}}]}
        {"choices":[{"index":0,"delta":{"tool_calls":[{"index":0,"function":{"arguments":"{\"a\": 1,"}}]}}]}
        {"choices":[{"index":0,"delta":{"tool_calls":[{"index":1,"id":"c2","type":"function","function":{"name":"now","arguments":"{"}}]}}]}
        {"choices":[{"index":0,"delta":{"tool_calls":[{"index":0,"function":{"arguments":" \"b\": 2}"}}]}}]}
        {"choices":[{"index":0,"delta":{},"finish_reason":"length"}]}
        [DONE]"#,
    );
    let mut expected = answer("", (0, 0), Finish::Length);
    expected.tool_calls =
        vec![NativeCall::new("c1", "add", r#"{"a": 1, "b": 2}"#), NativeCall::new("c2", "now", "{")];
    check(ProviderKind::OpenAi, &body, expected).await;
}

#[tokio::test]
async fn calls_are_distinguished_without_ids() {
    // Two calls of one tool, no id, both in one event and then in turn.
    let body = events(
        r#"{"choices":[{"index":0,"delta":{"tool_calls":[{"index":0,"function":{"name":"add","arguments":"{\"a\":"}},{"index":1,"function":{"name":"add","arguments":"{\"a\":"}}]}}]}
        {"choices":[{"index":0,"delta":{"tool_calls":[{"index":0,"id":"","function":{"arguments":"1}"}}]}}]}
        {"choices":[{"index":0,"delta":{"tool_calls":[{"index":1,"id":"","function":{"arguments":"2}"}}]}}]}
        {"choices":[{"index":0,"delta":{},"finish_reason":"stop"}]}
        [DONE]"#,
    );
    let mut expected = answer("", (0, 0), Finish::ToolCalls);
    expected.tool_calls =
        vec![NativeCall::new("call_0", "add", r#"{"a":1}"#), NativeCall::new("call_1", "add", r#"{"a":2}"#)];
    check(ProviderKind::OpenAi, &body, expected).await;
}

#[tokio::test]
async fn responses_say_reasoning_text_and_calls() {
    let body = events(
        r#"response.created {"type":"response.created","response":{"id":"r1","object":"response","created_at":0,"status":"in_progress","model":"m","output":[]}}
        response.reasoning_summary_text.delta {"type":"response.reasoning_summary_text.delta","output_index":0,"delta":"Hm."}
        response.output_text.delta {"type":"response.output_text.delta","output_index":1,"content_index":0,"delta":"I "}
        response.output_text.delta {"type":"response.output_text.delta","output_index":1,"content_index":0,"delta":"add."}
        response.output_item.added {"type":"response.output_item.added","output_index":2,"item":{"type":"function_call","id":"f1","call_id":"c1","name":"add","arguments":""}}
        response.function_call_arguments.delta {"type":"response.function_call_arguments.delta","output_index":2,"delta":"{\"a\":"}
        response.function_call_arguments.delta {"type":"response.function_call_arguments.delta","output_index":2,"delta":" 1}"}
        response.output_item.done {"type":"response.output_item.done","output_index":2,"item":{"type":"function_call","id":"f1","call_id":"c1","name":"add","arguments":"{\"a\": 1}"}}
        response.completed {"type":"response.completed","response":{"id":"r1","object":"response","created_at":0,"status":"completed","model":"m","output":[],"usage":{"input_tokens":3,"output_tokens":4,"total_tokens":7}}}"#,
    );
    let mut expected = answer("I add.", (3, 4), Finish::ToolCalls);
    expected.reasoning = Some("Hm.".into());
    expected.tool_calls = vec![NativeCall::new("c1", "add", r#"{"a": 1}"#)];
    check(ProviderKind::OpenAiResponses, &body, expected).await;
}

#[tokio::test]
async fn anthropic_says_thinking_text_and_calls() {
    let body = events(
        r#"message_start {"type":"message_start","message":{"id":"m1","type":"message","role":"assistant","content":[],"model":"m","usage":{"input_tokens":11,"output_tokens":1}}}
        content_block_start {"type":"content_block_start","index":0,"content_block":{"type":"thinking","thinking":""}}
        content_block_delta {"type":"content_block_delta","index":0,"delta":{"type":"thinking_delta","thinking":"Hm."}}
        content_block_stop {"type":"content_block_stop","index":0}
        ping {"type":"ping"}
        content_block_start {"type":"content_block_start","index":1,"content_block":{"type":"text","text":""}}
        content_block_delta {"type":"content_block_delta","index":1,"delta":{"type":"text_delta","text":"I add."}}
        content_block_stop {"type":"content_block_stop","index":1}
        content_block_start {"type":"content_block_start","index":2,"content_block":{"type":"tool_use","id":"t1","name":"add","input":{}}}
        content_block_delta {"type":"content_block_delta","index":2,"delta":{"type":"input_json_delta","partial_json":""}}
        content_block_delta {"type":"content_block_delta","index":2,"delta":{"type":"input_json_delta","partial_json":"{\"a\": "}}
        content_block_delta {"type":"content_block_delta","index":2,"delta":{"type":"input_json_delta","partial_json":"1}"}}
        content_block_stop {"type":"content_block_stop","index":2}
        message_delta {"type":"message_delta","delta":{"stop_reason":"tool_use"},"usage":{"output_tokens":9}}
        message_stop {"type":"message_stop"}"#,
    );
    let mut expected = answer("I add.", (11, 9), Finish::ToolCalls);
    expected.reasoning = Some("Hm.".into());
    expected.tool_calls = vec![NativeCall::new("t1", "add", r#"{"a": 1}"#)];
    check(ProviderKind::Anthropic, &body, expected).await;
}

#[tokio::test]
async fn gemini_says_thoughts_text_and_whole_calls() {
    let body = events(
        r#"{"candidates":[{"content":{"role":"model","parts":[{"text":"Hm.","thought":true}]}}]}
        {"candidates":[{"content":{"role":"model","parts":[{"text":"I "}]}}]}
        {"candidates":[{"content":{"role":"model","parts":[{"text":"add."},{"functionCall":{"name":"add","args":{"a":1}},"thoughtSignature":"c2ln"},{"functionCall":{"name":"add","args":{"a":1}}}]},"finishReason":"STOP"}],"usageMetadata":{"promptTokenCount":3,"candidatesTokenCount":4,"totalTokenCount":7}}"#,
    );
    let stub = Stub::serve([Answer::stream([body])]).await;
    let answer = llm_provider::complete(&connect(ProviderKind::Gemini, &stub), request()).await.unwrap();
    assert_eq!((answer.text.as_str(), answer.reasoning.as_deref()), ("I add.", Some("Hm.")));
    assert_eq!((answer.usage.input, answer.usage.output, answer.finish), (3, 4, Finish::ToolCalls));
    let calls: Vec<_> =
        answer.tool_calls.iter().map(|call| (call.name.as_str(), call.arguments.as_str())).collect();
    assert_eq!(calls, [("add", r#"{"a":1}"#); 2], "two calls alike are two calls");
    assert_eq!(answer.tool_calls[0].signatures, ["c2ln"]);
    assert_ne!(answer.tool_calls[0].id, answer.tool_calls[1].id);
}

#[tokio::test]
async fn ollama_says_thinking_text_and_whole_calls() {
    let body = r#"{"model":"m","message":{"role":"assistant","content":"","thinking":"Hm."},"done":false}
{"model":"m","message":{"role":"assistant","content":"I add."},"done":false}
{"model":"m","message":{"role":"assistant","content":"","tool_calls":[{"id":"c1","function":{"name":"add","arguments":{"a":1}}}]},"done":false}
{"model":"m","message":{"role":"assistant","content":""},"done":true,"done_reason":"stop","prompt_eval_count":3,"eval_count":4}
"#;
    let mut expected = answer("I add.", (3, 4), Finish::ToolCalls);
    expected.reasoning = Some("Hm.".into());
    let call = NativeCall::new("c1", "add", r#"{"a":1}"#);
    let source = Some("ollama/stub".to_owned());
    expected.tool_calls = vec![NativeCall { reasoning: vec![json!({"thinking": "Hm."})], source, ..call }];
    check(ProviderKind::Ollama, body, expected).await;
}

#[tokio::test]
async fn chat_completions_may_end_without_saying_so() {
    let body = events(
        r#"{"choices":[{"index":0,"delta":{"content":"pong"},"finish_reason":null}]}
        {"choices":[{"index":0,"delta":{"content":""},"finish_reason":"length"}],"usage":{"prompt_tokens":3,"completion_tokens":4}}"#,
    );
    check(ProviderKind::OpenAi, &body, answer("pong", (3, 4), Finish::Length)).await;
}

#[tokio::test]
async fn events_of_server_tools_are_ignored() {
    let body = events(
        r#"content_block_start {"type":"content_block_start","index":0,"content_block":{"type":"server_tool_use","id":"s1","name":"web_search","input":{}}}
        content_block_delta {"type":"content_block_delta","index":0,"delta":{"type":"input_json_delta","partial_json":"{\"query\": \"x\"}"}}
        content_block_stop {"type":"content_block_stop","index":0}
        content_block_start {"type":"content_block_start","index":1,"content_block":{"type":"text","text":""}}
        content_block_delta {"type":"content_block_delta","index":1,"delta":{"type":"text_delta","text":"Found."}}
        content_block_stop {"type":"content_block_stop","index":1}
        message_delta {"type":"message_delta","delta":{"stop_reason":"max_tokens"},"usage":{"output_tokens":9}}
        message_stop {"type":"message_stop"}"#,
    );
    check(ProviderKind::Anthropic, &body, answer("Found.", (0, 9), Finish::Length)).await;
}

#[tokio::test]
async fn a_response_that_was_cut_off_keeps_its_call_as_far_as_it_came() {
    let body = events(
        r#"response.output_item.added {"type":"response.output_item.added","output_index":0,"item":{"type":"function_call","id":"f1","call_id":"c1","name":"add","arguments":""}}
        response.function_call_arguments.delta {"type":"response.function_call_arguments.delta","output_index":0,"delta":"{\"a\": "}
        response.incomplete {"type":"response.incomplete","response":{"id":"r1","object":"response","created_at":0,"status":"incomplete","model":"m","output":[]}}"#,
    );
    let mut expected = answer("", (0, 0), Finish::Length);
    expected.tool_calls = vec![NativeCall::new("c1", "add", "{\"a\": ")];
    check(ProviderKind::OpenAiResponses, &body, expected).await;
}

#[tokio::test]
async fn a_call_without_arguments_may_come_at_the_end_only() {
    let body = events(
        r#"response.completed {"type":"response.completed","response":{"id":"r1","object":"response","created_at":0,"status":"completed","model":"m","output":[{"type":"function_call","call_id":"c1","name":"ping","arguments":"{}"}]}}"#,
    );
    let stub = Stub::serve([Answer::stream([body])]).await;
    let answer =
        llm_provider::complete(&connect(ProviderKind::OpenAiResponses, &stub), request()).await.unwrap();
    assert_eq!(answer.tool_calls, [NativeCall::new("c1", "ping", "{}")]);
    assert_eq!(answer.finish, Finish::ToolCalls);
}
