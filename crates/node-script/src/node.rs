//! The node.

use std::time::Duration;

use agent_types::EventBody;
use async_trait::async_trait;
use serde_json::{Map, Value};
use workflow_engine::{Inputs, Node, NodeContext, NodeError, Outputs, Prepared, Problem};
use workflow_model::{ConfigDefinition, DataFlowType, DynamicSlots, NodeDefinition, SlotDefinition};

use crate::sandbox::{self, Host, Limits};
use crate::settings::{MEMORY_MB, Settings, TIME_MS, Test};

/// Time of each test in the settings at most.
const TEST_TIME: Duration = Duration::from_secs(1);

/// Runs JavaScript.
pub(crate) struct Script(NodeDefinition);

impl Script {
    pub(crate) fn new() -> Self {
        let setting = ConfigDefinition::new;
        let definition = NodeDefinition::new(
            "core:Script",
            "Runs JavaScript in a sandbox: `inputs` holds the inputs by name, `return` gives the result, `console.log` writes to the log of the run.",
        )
        .input("values", SlotDefinition::new(DataFlowType::Wildcard, "a value that the code reads as `inputs.values`"))
        .output("value", SlotDefinition::new(DataFlowType::Wildcard, "the value that the code returns"))
        .config(
            "code",
            setting(
                DataFlowType::String,
                "the body of a function of `inputs` and `vars`, the variables of the workflow; whole numbers beyond 2^53 are a BigInt",
            )
            .required(),
        )
        .config("inputs", setting(DataFlowType::Array, "names of further inputs, each a slot and a member of `inputs`"))
        .config("timeoutMs", setting(DataFlowType::Integer, "how long it may run, in milliseconds, at most 60000").with_default(TIME_MS))
        .config("memoryMb", setting(DataFlowType::Integer, "memory that it may use, in MiB, at most 256").with_default(MEMORY_MB))
        .config(
            "tests",
            setting(
                DataFlowType::Array,
                "cases that `weft workflow check` runs: a list of {name?, inputs, vars?, expect} or {name?, inputs, vars?, expectError}",
            ),
        )
        .dynamic_inputs(DynamicSlots::KeysOf("inputs"))
        .blocking();
        Self(definition)
    }
}

#[async_trait]
impl Node for Script {
    fn definition(&self) -> &NodeDefinition {
        &self.0
    }

    fn prepare(&self, config: &Map<String, Value>) -> Result<Prepared, Vec<Problem>> {
        Settings::read(config).map(Prepared::new)
    }

    fn self_test(&self, config: &Map<String, Value>) -> Vec<Problem> {
        let Ok(settings) = Settings::read(config) else { return Vec::new() };
        let cases = settings.tests.iter().zip(1..);
        let failed = cases.filter_map(|(test, number)| {
            let message = failure(&settings, test)?;
            let name = test.name.clone().unwrap_or_else(|| number.to_string());
            Some(Problem::error("test_failed", format!("test `{name}`: {message}")).slot("tests"))
        });
        failed.collect()
    }

    async fn run(&self, ctx: NodeContext, inputs: Inputs) -> Result<Outputs, NodeError> {
        let settings: &Settings =
            ctx.prepared().ok_or_else(|| NodeError::fatal("the settings of the node were not prepared"))?;
        let none = Map::new();
        let variables = ctx.variables().as_object().unwrap_or(&none);
        let given = inputs.to_map();
        let result = sandbox::run(
            &settings.code,
            settings.limits,
            [("inputs", &given), ("vars", variables)],
            host(&ctx),
        )?;
        Ok(Outputs::value(result))
    }
}

fn host(ctx: &NodeContext) -> Host {
    let token = ctx.cancel_token().clone();
    let log = ctx.clone();
    Host {
        now: ctx.clock().now().as_millis(),
        seed: seed(&ctx.idempotency_key()),
        is_cancelled: Box::new(move || token.is_cancelled()),
        log: Box::new(move |level, message| log.emit(EventBody::LogLine { level, message })),
    }
}

/// The seed of a start of the node: FNV-1a of its key.
fn seed(key: &str) -> u32 {
    key.bytes().fold(0x811c_9dc5, |hash, byte| (hash ^ u32::from(byte)).wrapping_mul(0x0100_0193))
}

/// Runs one test; says how the result differs from the expected one.
fn failure(settings: &Settings, test: &Test) -> Option<String> {
    let host = Host { now: 0, seed: 0, is_cancelled: Box::new(|| false), log: Box::new(|_, _| {}) };
    let limits = Limits { time: settings.limits.time.min(TEST_TIME), ..settings.limits };
    let result = sandbox::run(&settings.code, limits, [("inputs", &test.inputs), ("vars", &test.vars)], host);
    match (result, &test.expect, &test.expect_error) {
        (Ok(result), _, Some(part)) => Some(format!("it gives {result}; expected an error with `{part}`")),
        (Ok(result), Some(expected), None) if result != *expected => {
            Some(format!("it gives {result}; expected {expected}"))
        }
        (Ok(_), _, None) => None,
        (Err(fault), _, Some(part)) if fault.to_string().contains(part.as_str()) => None,
        (Err(fault), _, _) => Some(fault.to_string()),
    }
}
