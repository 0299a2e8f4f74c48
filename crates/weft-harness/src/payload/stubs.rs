//! Stub nodes with the slots that payloads of tests name.

use std::time::Duration;

use async_trait::async_trait;
use workflow_engine::{Inputs, Node, NodeCatalog, NodeContext, NodeError, Outputs, StreamItem};
use workflow_model::{BypassBehavior, DataFlowType, NodeDefinition, SlotDefinition};

/// The `core:` nodes and the stubs.
pub(super) fn catalog() -> NodeCatalog {
    let mut catalog = node_library::catalog();
    for definition in definitions() {
        catalog.register(Stub(definition));
    }
    catalog
}

struct Stub(NodeDefinition);

fn text() -> SlotDefinition {
    SlotDefinition::new(DataFlowType::String, "a text")
}

fn any() -> SlotDefinition {
    SlotDefinition::new(DataFlowType::Wildcard, "a value")
}

fn number() -> SlotDefinition {
    SlotDefinition::new(DataFlowType::Integer, "a number")
}

fn definitions() -> Vec<NodeDefinition> {
    let node = |name: &str| NodeDefinition::new(format!("test:{name}"), "a stub");
    let pass = |name: &str| {
        node(name).input("a", text()).input("b", number()).output("x", text()).output("n", number())
    };
    vec![
        node("Const").input("value", any()).output("out", any()),
        node("Upper").input("text", text().required()).output("text", text()),
        node("Fail").output("text", text()),
        node("Streamer").input("text", text()).output("stream", text().stream()).output("full", text()),
        node("Collect").input("stream", text().stream()).output("text", text()),
        node("Slow").input("text", text()).output("text", text()),
        pass("Pass"),
        pass("PassMap").bypass(BypassBehavior::map([("x", "a")])),
        pass("Mute").bypass(BypassBehavior::Mute),
    ]
}

#[async_trait]
impl Node for Stub {
    fn definition(&self) -> &NodeDefinition {
        &self.0
    }

    async fn run(&self, ctx: NodeContext, inputs: Inputs) -> Result<Outputs, NodeError> {
        match &*self.0.node_type {
            "test:Const" => Ok(Outputs::shared(inputs.get("value").cloned().unwrap_or_default())),
            "test:Upper" => Ok(Outputs::value(inputs.text("text")?.to_uppercase())),
            "test:Fail" => Err(NodeError::fatal("boom")),
            "test:Streamer" => stream(&ctx, &inputs).await,
            "test:Collect" => collect(&inputs).await,
            "test:Slow" => {
                ctx.sleep(Duration::from_millis(100)).await;
                Ok(Outputs::shared(inputs.get("text").cloned().unwrap_or_default()))
            }
            _ => {
                let number = inputs.get("b").and_then(|b| b.as_i64()).unwrap_or(0);
                Ok(Outputs::named("x", format!("{}!", inputs.text("a")?)).with("n", number + 1))
            }
        }
    }
}

/// One chunk a word, and the whole text.
async fn stream(ctx: &NodeContext, inputs: &Inputs) -> Result<Outputs, NodeError> {
    for word in inputs.text("text")?.split(' ') {
        ctx.chunk("stream", word).await?;
    }
    Ok(Outputs::named("full", inputs.text("text")?))
}

/// The chunks, with a bar between them.
async fn collect(inputs: &Inputs) -> Result<Outputs, NodeError> {
    let mut parts = Vec::new();
    let mut stream = inputs.stream("stream").ok_or_else(|| NodeError::fatal("no stream"))?;
    while let Some(item) = stream.next().await {
        match item {
            StreamItem::Chunk(part) | StreamItem::Mark(part) => parts.push(part.to_string()),
            StreamItem::Retracted => parts.clear(),
        }
    }
    Ok(Outputs::value(parts.join("|")))
}
