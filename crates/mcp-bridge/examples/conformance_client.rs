//! A client for the official conformance suite: reaches the server of its last argument, and calls every tool once.

#![expect(clippy::print_stdout, reason = "a program tells what it does")]

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

use agent_types::{Budget, BudgetLimits, CallId, Clock, EventLocation, Recorder, RunId, SystemClock};
use mcp_bridge::{ElicitationPolicy, McpClients, McpSettings, MemoryPins, PinStore};
use serde_json::{Map, Value, json};
use tool_registry::{CallEnd, Tool, ToolContext};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let url = std::env::args().next_back().filter(|url| url.starts_with("http")).ok_or("no address")?;
    let settings = McpSettings {
        url: Some(url),
        elicitation: ElicitationPolicy::Defaults,
        timeout_ms: 30_000,
        ..McpSettings::default()
    };
    let servers = BTreeMap::from([("suite".to_owned(), settings)]);
    let clock: Arc<dyn Clock> = Arc::new(SystemClock);
    let pins: Arc<dyn PinStore> = Arc::new(MemoryPins::default());
    let clients = McpClients::new(&servers, Path::new("."), &clock, &pins);
    let tools = clients.tools("suite")?;
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    runtime.block_on(async {
        for tool in &tools {
            let end = call(tool, &clock).await;
            println!("{}: {}", tool.id(), end.message());
        }
        clients.close().await;
    });
    Ok(())
}

async fn call(tool: &Tool, clock: &Arc<dyn Clock>) -> CallEnd {
    let sink = Recorder::new(RunId::generate(), Arc::clone(clock));
    let budget = Budget::new(BudgetLimits::default());
    let id = CallId::new("c1");
    let cx =
        ToolContext::new(id, tool.id().clone(), Arc::clone(clock), budget, sink, EventLocation::default());
    tool.invoke(arguments(tool), cx).await.end
}

/// Something for each parameter.
fn arguments(tool: &Tool) -> Map<String, Value> {
    let properties = tool.definition().parameters.get("properties").and_then(Value::as_object);
    let made = properties.into_iter().flatten().map(|(name, schema)| {
        let value = match schema["type"].as_str() {
            Some("number" | "integer") => json!(2),
            Some("boolean") => json!(true),
            _ => json!("text"),
        };
        (name.clone(), value)
    });
    made.collect()
}
