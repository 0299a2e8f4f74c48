//! Logs that an earlier version wrote, which every later one resumes.

use std::fs;
use std::path::Path;

use agent_types::{ReplayData, ResumeLog, StoredEvent, TraceEvent};
use serde_json::{Value, json};

/// Folder of the logs, beside the crate that matches logs.
const FOLDER: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../run-journal/tests/logs");

/// Reads the log `name`: an event a line, and the last checkpoint if there is one. A log without a file is recorded now.
///
/// # Panics
/// Panics when the file cannot be read or written.
#[must_use]
pub fn old_log(name: &str, record: impl FnOnce() -> ResumeLog) -> ResumeLog {
    let file = Path::new(FOLDER).join(format!("{name}.jsonl"));
    if !file.exists() {
        fs::create_dir_all(FOLDER).unwrap();
        fs::write(&file, lines(&record())).unwrap();
    }
    let mut log = ResumeLog::default();
    for line in fs::read_to_string(&file).unwrap().lines() {
        let mut line: Value = serde_json::from_str(line).unwrap();
        match line["checkpoint"].take() {
            Value::Null => log.events.push(stored(line)),
            checkpoint => log.snapshot = Some(serde_json::from_value(checkpoint).unwrap()),
        }
    }
    log
}

fn stored(mut line: Value) -> StoredEvent {
    let record: Option<ReplayData> = serde_json::from_value(line["record"].take()).unwrap();
    let event: TraceEvent = serde_json::from_value(line["event"].take()).unwrap();
    StoredEvent { event, record }
}

fn lines(log: &ResumeLog) -> String {
    let events = log.events.iter().map(|StoredEvent { event, record }| match record {
        Some(record) => json!({"event": event, "record": record}),
        None => json!({"event": event}),
    });
    let checkpoint = log.snapshot.iter().map(|checkpoint| json!({"checkpoint": checkpoint}));
    let lines: Vec<String> = events.chain(checkpoint).map(|line| line.to_string()).collect();
    lines.join("\n") + "\n"
}
