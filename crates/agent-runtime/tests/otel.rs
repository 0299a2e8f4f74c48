//! Spans of a run: a run, its requests, its calls, and nothing private unless it is asked for.
#![cfg(feature = "otel")]
#![expect(clippy::unwrap_used, reason = "a test may stop at the first surprise")]

use agent_runtime::AgentState;
use agent_runtime::otel::Spans;
use agent_runtime::prelude::*;
use agent_types::Delivery;
use opentelemetry::trace::TracerProvider;
use opentelemetry_sdk::trace::{InMemorySpanExporter, SdkTracerProvider, SpanData};

/// Looks something up.
#[tool(read_only)]
fn look(at: String) -> Result<String, ToolError> {
    if at == "nowhere" { Err(ToolError::failed("")) } else { Ok(format!("private {at}")) }
}

async fn spans(content: bool) -> Vec<SpanData> {
    let exporter = InMemorySpanExporter::default();
    let provider = SdkTracerProvider::builder().with_simple_exporter(exporter.clone()).build();
    let spans = Spans::new(provider.tracer("weft"));
    let mut spans = if content { spans.with_content() } else { spans };
    let script = r#"{"text": "<ACTION><look><at>cellar</at></look><look><at>nowhere</at></look></ACTION>", "usage": {"input": 5, "output": 2}}
{"text": "Done."}"#;
    let agent = Agent::new(ScriptedModel::from_jsonl(script).unwrap()).tools(tools![look]);
    let run = agent.start(AgentState::default(), "Look.").unwrap();
    let mut watcher = run.subscribe(1000);
    run.outcome().await;
    weft_harness::events(&mut watcher).iter().for_each(|event| spans.see(event));
    exporter.get_finished_spans().unwrap()
}

fn attribute(span: &SpanData, key: &str) -> Option<String> {
    let found = span.attributes.iter().find(|own| own.key.as_str() == key);
    found.map(|own| own.value.to_string())
}

#[tokio::test]
async fn a33_a_run_has_spans_with_what_the_conventions_name() {
    let spans = spans(false).await;
    let names: Vec<&str> = spans.iter().map(|span| &*span.name).collect();
    assert_eq!(
        names,
        ["chat scripted", "execute_tool look", "execute_tool look", "chat scripted", "invoke_agent agent"]
    );
    let root = spans.last().unwrap();
    assert!(spans[..4].iter().all(|span| span.parent_span_id == root.span_context.span_id()));
    let tool = &spans[1];
    for (key, value) in [
        ("gen_ai.operation.name", "execute_tool"),
        ("gen_ai.tool.name", "look"),
        ("gen_ai.tool.type", "function"),
        ("gen_ai.agent.name", "agent"),
    ] {
        assert_eq!(attribute(tool, key).as_deref(), Some(value), "{key}");
    }
    assert!(attribute(tool, "gen_ai.tool.call.id").is_some());
    let failed = spans.iter().filter_map(|span| attribute(span, "error.type")).collect::<Vec<_>>();
    assert_eq!(failed, ["failed"], "an empty message is an error all the same");
    assert_eq!(attribute(&spans[0], "gen_ai.usage.input_tokens").as_deref(), Some("5"));
    let all = format!("{spans:?}");
    assert!(!all.contains("private") && !all.contains("cellar"), "{all}");
}

#[tokio::test]
async fn what_was_said_is_noted_where_it_is_asked_for() {
    let spans = spans(true).await;
    let arguments = spans.iter().filter_map(|span| attribute(span, "gen_ai.tool.call.arguments"));
    assert_eq!(arguments.collect::<Vec<_>>(), [r#"{"at":"cellar"}"#, r#"{"at":"nowhere"}"#]);
    assert!(
        spans
            .iter()
            .any(|span| attribute(span, "gen_ai.tool.call.result").as_deref() == Some("private cellar"))
    );
}
