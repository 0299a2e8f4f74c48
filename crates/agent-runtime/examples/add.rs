//! The agent of ten lines. `cargo run --example add -p agent-runtime` plays a script where `OPENAI_BASE_URL` and
//! `OPENAI_MODEL` name no model.

use agent_runtime::prelude::*;

/// Add two integers.
#[tool]
async fn add(a: i64, b: i64) -> i64 {
    a + b
}

#[expect(clippy::print_stdout, reason = "the answer is what the example is for")]
#[tokio::main]
async fn main() -> Result<()> {
    let agent = match OpenAiCompatible::from_env() {
        Ok(model) => Agent::new(model),
        Err(_) => Agent::new(ScriptedModel::from_jsonl(SCRIPT)?),
    };
    println!("{}", agent.tool(tool!(add)).run("What is 2 + 3?").await?.text);
    Ok(())
}

/// Reply of a model.
const SCRIPT: &str = r#"{"text": "I add them. <ACTION><add><a>2</a><b>3</b></add></ACTION>"}
{"text": "2 + 3 is 5."}"#;
