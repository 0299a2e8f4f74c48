//! Execution payloads of `ComfyTavern`: as its own engine ran them where nothing was lost, and right where something was.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use anyhow::{Context, Result};
use serde_json::{Value, json};

use super::{Outcome, check};
use crate::workspace;

/// Expected result of a payload.
enum Wanted {
    /// The recorded status and results.
    Recorded,
    /// The recorded status; the recorded results where the others may finish.
    RecordedWhereOthersFinish,
    /// No run, but these problems of the plan.
    Refused(&'static str),
    /// The right result, where the recorded one is wrong. `docs/guide/workflows.md` gives the reasons.
    Right(&'static str, Value),
}

fn wanted() -> Vec<(&'static str, Wanted)> {
    use Wanted::{Recorded, RecordedWhereOthersFinish, Refused, Right};
    vec![
        ("chain", Recorded),
        ("multi_ordered", Recorded),
        ("mode_node", Recorded),
        ("stream_one_consumer", Recorded),
        ("llm_stream", Recorded),
        ("empty", Recorded),
        ("error_branch", RecordedWhereOthersFinish),
        ("missing_required", Refused("missing_input")),
        ("unknown_type", Refused("unknown_type")),
        ("cycle", Refused("cycle")),
        ("dangling_edge", Refused("unknown_node")),
        ("duplicate_ids", Refused("duplicate_node")),
        ("two_groups_same_ids", Refused("duplicate_node")),
        ("stream_to_interface", Right("ok", json!({"live": "ab"}))),
        ("stream_interface_and_groupoutput", Right("ok", json!({"live": "abcd"}))),
        ("stream_batch_output", Right("ok", json!({"full": "a b c"}))),
        ("stream_two_consumers", Right("ok", json!({"t": "a|b|c|d", "t2": "a|b|c|d"}))),
        ("llm_batch", Right("ok", json!({"t": "HI THERE"}))),
        ("bypass_default", Right("ok", json!({"x": "keep", "n": 0}))),
        ("bypass_passthrough", Right("ok", json!({"x": "keep"}))),
        ("bypass_mute", Right("ok", json!({}))),
        ("multi_no_order", Right("ok", json!({"t": "A-B"}))),
        ("type_mismatch_edge", Right("error", json!({}))),
        ("parallel_wall", Right("ok", json!({}))),
        ("interrupt", Right("cancelled", json!({}))),
    ]
}

/// Milliseconds that a payload may take, where that is the question.
const TIMES: [(&str, u64); 2] = [("parallel_wall", 100), ("interrupt", 50)];

/// Runs all payloads of the folder.
pub(crate) fn comfytavern(folder: &Path, _weft: &Path) -> Result<Outcome> {
    let file = folder.join("cases.json").display().to_string();
    let got = run(&file, &[])?;
    let others_finish = run(&file, &["--finish-others"])?;
    let recorded = fs::read_to_string(folder.join("reference-engine-results.json"))?;
    let recorded: Value = serde_json::from_str(&recorded)?;
    let mut outcome = Outcome::default();
    let wanted = wanted();
    for (id, wanted) in &wanted {
        let got = got.get(*id).with_context(|| format!("no payload `{id}`"))?;
        let (wanted, got) = match wanted {
            Wanted::Recorded => (as_recorded(&recorded[id]), result(got)),
            Wanted::RecordedWhereOthersFinish => {
                let finished = result(&others_finish[*id]);
                let both = json!({"first": result(got)["status"], "others": finished});
                let recorded = as_recorded(&recorded[id]);
                (json!({"first": recorded["status"], "others": recorded}), both)
            }
            Wanted::Refused(code) => (json!([code]), got["codes"].clone()),
            Wanted::Right(status, outputs) => (json!({"status": status, "outputs": outputs}), result(got)),
        };
        check(&mut outcome, id, &wanted, &got);
    }
    for (id, ms) in TIMES {
        check(&mut outcome, &format!("{id}, time"), &json!(ms), &got[id]["ms"]);
    }
    let judged = |id: &String| wanted.iter().any(|(own, _)| own == id);
    for id in got.keys().filter(|id| !judged(id)) {
        check(&mut outcome, id, &json!("an answer that somebody thought of"), &Value::Null);
    }
    Ok(outcome)
}

/// Result of each payload, by its name.
fn run(file: &str, options: &[&str]) -> Result<BTreeMap<String, Value>> {
    let printed =
        workspace::output(workspace::program("weft-harness")?, &[&["--payloads", file], options].concat())?;
    let lines = printed.lines().map(|line| Ok(serde_json::from_str(line)?));
    lines
        .map(|line: Result<Value>| {
            line.map(|line| (line["id"].as_str().unwrap_or_default().to_owned(), line))
        })
        .collect()
}

fn result(got: &Value) -> Value {
    json!({"status": got["status"], "outputs": got["outputs"]})
}

fn as_recorded(recorded: &Value) -> Value {
    let status = if recorded["result"]["status"] == "complete" { "ok" } else { "error" };
    json!({"status": status, "outputs": recorded.get("interface").cloned().unwrap_or_else(|| json!({}))})
}
