//! Scenarios of agents, run as people run their own: with `weft test`.

use std::collections::HashMap;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result};
use serde_json::{Value, json};

use super::{Failure, Outcome, lines, shortened, text};

/// Scenarios of one file.
pub(crate) fn of_file(file: &Path, weft: &Path) -> Result<Outcome> {
    // It ends with 1 where a scenario fails.
    let output = Command::new(weft).args(["test", "--output", "json"]).arg(file).output()?;
    let report: Value = serde_json::from_slice(&output.stdout)
        .with_context(|| String::from_utf8_lossy(&output.stderr).into_owned())?;
    let passed = report["passed"].as_u64().context("`passed` is no number")?;
    let mut outcome = Outcome { passed: usize::try_from(passed)?, failed: Vec::new() };
    for failed in report["failed"].as_array().into_iter().flatten() {
        let at = text(failed, "at")?;
        outcome.failed.push(Failure {
            id: text(failed, "id")?.to_owned(),
            wanted: shortened(&format!("{at}: {}", failed["wanted"])),
            got: shortened(&failed["got"].to_string()),
        });
    }
    Ok(outcome)
}

/// Calls that one block of a dialogue holds.
const CALLS_A_BLOCK: usize = 10;

/// Dialogues of several turns: a script makes the true calls, and each must be executed with equal arguments.
pub(crate) fn dialogues(folder: &Path, weft: &Path) -> Result<Outcome> {
    let tools: HashMap<String, Value> = lines(&folder.join("tools.jsonl"))?
        .into_iter()
        .map(|tool| Ok((text(&tool, "id")?.to_owned(), tool)))
        .collect::<Result<_>>()?;
    let dialogues = lines(&folder.join("multi_turn.jsonl"))?;
    let mut file = tempfile()?;
    for dialogue in &dialogues {
        for style in [Style::Text, Style::Native] {
            writeln!(file.1, "{}", scenario(dialogue, &tools, style)?)?;
        }
    }
    file.1.flush()?;
    let outcome = of_file(&file.0, weft);
    std::fs::remove_file(&file.0)?;
    outcome
}

/// Form in which the model writes its calls.
#[derive(Clone, Copy)]
enum Style {
    Text,
    Native,
}

fn tempfile() -> Result<(PathBuf, std::fs::File)> {
    let path = std::env::temp_dir().join(format!("weft-dialogues-{}.jsonl", std::process::id()));
    let file = std::fs::File::create(&path)?;
    Ok((path, file))
}

fn scenario(dialogue: &Value, tools: &HashMap<String, Value>, style: Style) -> Result<Value> {
    let listed = dialogue["tools"].as_array().context("a dialogue without tools")?;
    let mut stubs = Vec::new();
    let (mut script, mut turns) = (Vec::new(), Vec::new());
    let said = dialogue["turns"].as_array().context("a dialogue without turns")?;
    let calls_of = |turn: &Value| turn["calls"].as_array().cloned().unwrap_or_default();
    let most: usize = said.iter().map(|turn| calls_of(turn).len()).sum();
    // Answers differ, so that the same call made again is no loop.
    let answers: Vec<Value> = (0..=most).map(|number| json!({"ok": format!("answer {number}")})).collect();
    for id in listed {
        let tool = id.as_str().and_then(|id| tools.get(id)).context("a tool that is not in the file")?;
        stubs.push(json!({"name": tool["name"], "description": tool["description"],
            "parameters": tool["parameters"], "reply": answers}));
    }
    for turn in said {
        let calls = calls_of(turn);
        for block in calls.chunks(CALLS_A_BLOCK) {
            script.push(match style {
                Style::Native => {
                    let calls = block
                        .iter()
                        .map(|call| json!({"name": call["name"], "arguments": call["arguments"]}));
                    json!({"tool_calls": calls.collect::<Vec<_>>()})
                }
                Style::Text => {
                    let calls = block.iter().map(|call| {
                        format!(
                            "<tool_call>{}</tool_call>",
                            json!({"name": call["name"], "arguments": call["arguments"]})
                        )
                    });
                    json!({"text": format!("I call.\n{}", calls.collect::<Vec<_>>().join("\n"))})
                }
            });
        }
        script.push(json!({"text": "done"}));
        let wanted: Vec<Value> =
            calls.iter().map(|call| json!({"tool": call["name"], "arguments": call["arguments"]})).collect();
        let user = turn["user"].as_str().unwrap_or_default();
        turns.push(json!({"user": user, "expect": {"exit": "completed", "calls": wanted}}));
    }
    let (word, protocol) = match style {
        Style::Text => ("text", "text"),
        Style::Native => ("native", "native"),
    };
    Ok(json!({"id": format!("{}-{word}", text(dialogue, "id")?), "title": "a dialogue",
        "agent": {"protocol": protocol, "budgets": {"turns": 64, "tool_calls": 500}},
        "tools": stubs, "script": script, "turns": turns}))
}
