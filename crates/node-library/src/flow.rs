//! Time, log, questions, the end.

use std::time::Duration;

use agent_types::EventBody;
use async_trait::async_trait;
use serde_json::{Map, Value};
use workflow_engine::{
    Inputs, Node, NodeCatalog, NodeContext, NodeError, Outputs, Prepared, Problem, StopScope,
};
use workflow_model::{DataFlowType, NodeDefinition};

use crate::define::{Computed, any, as_text, required_text, setting};

/// Words for the importance of a line of the log.
const LEVELS: [&str; 4] = ["debug", "info", "warn", "error"];

pub(crate) fn register(catalog: &mut NodeCatalog) {
    catalog.register(Delay::new());
    catalog.register(log());
    catalog.register(stop());
    catalog.register(Ask::new());
}

/// Waits, then hands its value on.
struct Delay(NodeDefinition);

impl Delay {
    fn new() -> Self {
        let definition = NodeDefinition::new("core:Delay", "Waits, then hands its value on.")
            .input("value", any("the value"))
            .output("value", any("the same value, later"))
            .config("ms", setting(DataFlowType::Integer, "how long, in milliseconds").required());
        Self(definition)
    }
}

#[async_trait]
impl Node for Delay {
    fn definition(&self) -> &NodeDefinition {
        &self.0
    }

    fn prepare(&self, config: &Map<String, Value>) -> Result<Prepared, Vec<Problem>> {
        match config.get("ms").map(Value::as_u64) {
            Some(Some(ms)) => Ok(Prepared::new(Duration::from_millis(ms))),
            Some(None) => Err(vec![Problem::setting("ms", "expected a whole number from 0")]),
            None => Err(vec![Problem::setting("ms", "this setting is required")]),
        }
    }

    async fn run(&self, ctx: NodeContext, inputs: Inputs) -> Result<Outputs, NodeError> {
        if let Some(wait) = ctx.prepared::<Duration>().copied() {
            ctx.sleep(wait).await;
        }
        Ok(Outputs::shared(inputs.get("value").cloned().unwrap_or_default()))
    }
}

fn log() -> Computed {
    let definition =
        NodeDefinition::new("core:Log", "Writes a line to the log of the run and hands its value on.")
            .input("value", any("the value"))
            .output("value", any("the same value"))
            .config(
                "level",
                setting(DataFlowType::String, "how important it is").with_default("info").one_of(LEVELS),
            )
            .config("message", setting(DataFlowType::String, "the line; the value follows it"))
            .always();
    Computed::new(definition, |ctx, inputs| {
        let value = inputs.get("value").cloned().unwrap_or_default();
        let level = ctx.config("level").and_then(Value::as_str).unwrap_or("info").to_owned();
        let message = match (ctx.config("message").and_then(Value::as_str), value.is_null()) {
            (Some(message), true) => message.to_owned(),
            (Some(message), false) => format!("{message} {}", as_text(&value)),
            (None, _) => as_text(&value),
        };
        ctx.emit(EventBody::LogLine { level, message });
        Ok(Outputs::shared(value))
    })
}

fn stop() -> Computed {
    let definition =
        NodeDefinition::new("core:Stop", "Ends the run, or only the loop around it, with a value.")
            .input("value", any("the value"))
            .config(
                "scope",
                setting(DataFlowType::String, "what ends").with_default("run").one_of(["run", "loop"]),
            )
            .always();
    Computed::new(definition, |ctx, inputs| {
        let scope = match ctx.config("scope").and_then(Value::as_str) {
            Some("loop") => StopScope::Loop,
            Some(_) | None => StopScope::Run,
        };
        Ok(Outputs::stop(inputs.get("value").cloned().unwrap_or_default(), scope))
    })
}

/// Asks a person and gives the answer.
struct Ask(NodeDefinition);

impl Ask {
    fn new() -> Self {
        let definition = NodeDefinition::new("core:Ask", "Asks a person and waits for the answer.")
            .input("context", any("what the person should know; it follows the question"))
            .output("answer", any("the answer"))
            .config("prompt", setting(DataFlowType::String, "the question").required());
        Self(definition)
    }
}

#[async_trait]
impl Node for Ask {
    fn definition(&self) -> &NodeDefinition {
        &self.0
    }

    fn prepare(&self, config: &Map<String, Value>) -> Result<Prepared, Vec<Problem>> {
        required_text(config, "prompt").map(Prepared::new)
    }

    async fn run(&self, ctx: NodeContext, inputs: Inputs) -> Result<Outputs, NodeError> {
        let prompt = ctx.prepared::<String>().cloned().unwrap_or_default();
        let context = inputs.get("context").filter(|value| !value.is_null());
        let prompt = match context {
            Some(context) => format!("{prompt}\n{}", as_text(context)),
            None => prompt,
        };
        ctx.ask(prompt).await.map(Outputs::value)
    }
}
