//! The workflow that is killed: nested loops, passes side by side, streams, effects and a question.

use std::fs::OpenOptions;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::time::Duration;

use async_trait::async_trait;
use serde_json::{Value, json};
use workflow_engine::{Inputs, Node, NodeCatalog, NodeContext, NodeError, Outputs, Plan, StreamItem};
use workflow_model::{DataFlowType, NoWorkflows, NodeDefinition, SlotDefinition, Workflow};

use crate::Fault;

/// Answer to the question.
pub(crate) const ANSWER: &str = "yes";

struct Op {
    definition: NodeDefinition,
    effects: PathBuf,
}

fn any() -> SlotDefinition {
    SlotDefinition::new(DataFlowType::Wildcard, "a value")
}

#[async_trait]
impl Node for Op {
    fn definition(&self) -> &NodeDefinition {
        &self.definition
    }

    async fn run(&self, ctx: NodeContext, inputs: Inputs) -> Result<Outputs, NodeError> {
        let first = inputs.get("in").cloned().unwrap_or_default();
        match &*self.definition.node_type {
            "s:add" => Ok(Outputs::value(first.as_i64().unwrap_or(0) + 1)),
            "s:wait" => {
                ctx.sleep(Duration::from_millis(1)).await;
                Ok(Outputs::shared(first))
            }
            "s:list" => Ok(Outputs::value(inputs.taken().map(|value| (**value).clone()).collect::<Value>())),
            "s:stream" => {
                for chunk in ["a", "b", "c"] {
                    ctx.chunk("out", format!("{chunk}{first}")).await?;
                    ctx.sleep(Duration::ZERO).await;
                }
                Ok(Outputs::none())
            }
            "s:tap" => {
                let Some(mut stream) = inputs.stream("in") else { return Ok(Outputs::none()) };
                while let Some(item) = stream.next().await {
                    if let StreamItem::Chunk(text) = item {
                        ctx.chunk("out", text).await?;
                    }
                }
                Ok(Outputs::none())
            }
            "s:effect" => {
                let line = format!("{}\n", ctx.idempotency_key());
                let file = OpenOptions::new().create(true).append(true).open(&self.effects);
                file.and_then(|mut file| file.write_all(line.as_bytes()))
                    .map_err(|error| NodeError::fatal(error.to_string()))?;
                Ok(Outputs::value("done"))
            }
            "s:ask" => ctx.ask("continue?").await.map(Outputs::value),
            other => Err(NodeError::fatal(format!("no operation {other}"))),
        }
    }
}

fn catalog(effects: &Path) -> NodeCatalog {
    let mut catalog = NodeCatalog::new();
    let base = |name: &str| NodeDefinition::new(format!("s:{name}"), "soak");
    let plain = |name: &str| base(name).input("in", any()).output("out", any());
    for definition in [
        plain("add"),
        plain("wait"),
        plain("ask"),
        plain("effect").effect(),
        base("list").input("in", any().multi()).output("out", any()),
        base("stream").input("in", any()).output("out", any().stream()),
        base("tap").input("in", any().stream()).output("out", any().stream()),
    ] {
        catalog.register(Op { definition, effects: effects.to_owned() });
    }
    catalog
}

/// The plan; effects are noted in a file, a line each.
pub(crate) fn plan(effects: &Path) -> Result<Plan, Fault> {
    let node = |id: &str, kind: &str, parent: Option<&str>| match parent {
        Some(parent) => json!({"id": id, "type": kind, "parentNode": parent}),
        None => json!({"id": id, "type": kind}),
    };
    let zone = |id: &str, parent: Option<&str>, config: Value| {
        let mut zone = node(id, "core:LoopZone", parent);
        zone["configValues"] = config;
        zone
    };
    let number = |key: &str| json!([{"key": key, "dataFlowType": "INTEGER", "initial": 0}]);
    let outer = Some("L");
    let nodes = [
        zone(
            "L",
            None,
            json!({"mode": "times", "times": 7, "state": number("n"), "collect": ["v", "e", "x"]}),
        ),
        node("ls", "core:LoopState", outer),
        zone("M", outer, json!({"mode": "until", "state": number("m"), "condition": "state.m >= 5"})),
        node("ms", "core:LoopState", Some("M")),
        node("ma", "s:add", Some("M")),
        node("mw", "s:wait", Some("M")),
        node("mn", "core:LoopNext", Some("M")),
        node("items", "s:list", outer),
        zone("E", outer, json!({"mode": "each", "parallel": 3, "collect": ["w"]})),
        node("es", "core:LoopState", Some("E")),
        node("ew", "s:wait", Some("E")),
        node("eo", "core:GroupOutput", Some("E")),
        node("st", "s:stream", outer),
        node("tap", "s:tap", outer),
        node("fx", "s:effect", outer),
        node("la", "s:add", outer),
        node("ln", "core:LoopNext", outer),
        node("lo", "core:GroupOutput", outer),
        node("ask", "s:ask", None),
        node("fy", "s:effect", None),
        node("all", "s:list", None),
        node("out", "core:GroupOutput", None),
    ];
    let edges = [
        "ms.m ma.in",
        "ma.out mw.in",
        "mw.out mn.m",
        "ls.n items.in",
        "ls.index items.in",
        "M.m items.in",
        "ls.n items.in",
        "items.out E.items",
        "es.item ew.in",
        "ew.out eo.w",
        "ls.index st.in",
        "st.out tap.in",
        "E.collected.w fx.in",
        "ls.n la.in",
        "la.out ln.n",
        "M.m lo.v",
        "E.collected.w lo.e",
        "tap.out lo.x",
        "L.n ask.in",
        "ask.out fy.in",
        "L.collected.v all.in",
        "L.collected.e all.in",
        "L.collected.x all.in",
        "ask.out all.in",
        "fy.out all.in",
        "all.out out.all",
    ];
    let edge = |text: &&str| {
        let (from, to) = text.split_once(' ')?;
        let ((source, out), (target, slot)) = (from.split_once('.')?, to.split_once('.')?);
        Some(json!({"source": source, "sourceHandle": out, "target": target, "targetHandle": slot}))
    };
    let workflow = Workflow::from_value(json!({
        "interfaceOutputs": {"all": {"dataFlowType": "WILDCARD"}},
        "nodes": nodes,
        "edges": edges.iter().filter_map(edge).collect::<Vec<_>>(),
    }));
    let workflow = workflow.map_err(|error| error.to_string())?;
    Plan::new(&workflow, &catalog(effects), &NoWorkflows).map_err(|error| error.to_string())
}
