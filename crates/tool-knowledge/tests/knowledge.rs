//! The tool of a knowledge base.
#![expect(clippy::unwrap_used, reason = "helpers of tests: a wrong case may panic")]

use std::sync::Arc;

use agent_types::{Budget, BudgetLimits, CallId, EventLocation, Recorder, RunId, SystemClock};
use async_trait::async_trait;
use serde_json::{Value, json};
use tool_knowledge::{KnowledgeSource, Passage, knowledge_tool};
use tool_registry::{CallEnd, Tool, ToolContext, ToolError, ToolOutput};

async fn call(tool: &Tool, arguments: Value) -> CallEnd {
    let clock = Arc::new(SystemClock);
    let sink = Recorder::new(RunId::new("r"), clock.clone());
    let budget = Budget::new(BudgetLimits::default());
    let cx =
        ToolContext::new(CallId::new("c"), tool.id().clone(), clock, budget, sink, EventLocation::default());
    tool.invoke(arguments.as_object().unwrap().clone(), cx).await.end
}

#[derive(Debug)]
struct Books;

#[async_trait]
impl KnowledgeSource for Books {
    async fn search(&self, query: &str, limit: usize) -> Result<Vec<Passage>, ToolError> {
        let passage = |n: usize| Passage { source: format!("book.md:{n}"), text: format!("{query} {n}\n") };
        Ok((0..limit.min(2)).filter(|_| query != "nothing").map(passage).collect())
    }
}

#[tokio::test]
async fn a_knowledge_base_gives_passages_with_their_source() {
    let tool = knowledge_tool("Query", "Searches the books.", Arc::new(Books)).unwrap();
    assert_eq!(tool.id().as_str(), "kb:Query");
    let end = call(&tool, json!({"query": "bees"})).await;
    assert_eq!(end, CallEnd::Ok(ToolOutput::Text("[book.md:0]\nbees 0\n\n[book.md:1]\nbees 1".into())));
    let end = call(&tool, json!({"query": "nothing"})).await;
    assert_eq!(end, CallEnd::Ok(ToolOutput::Text("nothing was found; try other words".into())));
}
