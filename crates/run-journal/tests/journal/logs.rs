//! Logs that an earlier version wrote, cut behind each of their events.

use std::path::Path;

use agent_types::{StoredEvent, TraceEvent, UnsequencedEvent};
use run_journal::Journal;
use serde_json::Value;

fn read(file: &Path) -> Vec<StoredEvent> {
    let text = std::fs::read_to_string(file).unwrap();
    let events = text.lines().filter_map(|line| {
        let mut line: Value = serde_json::from_str(line).unwrap();
        let event: TraceEvent = serde_json::from_value(line.get_mut("event")?.take()).unwrap();
        Some(StoredEvent { event, record: None })
    });
    events.collect()
}

#[test]
fn a_log_of_an_earlier_version_matches_itself_and_lacks_the_rest() {
    let files = std::fs::read_dir(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/logs")).unwrap();
    let files: Vec<_> = files.map(|file| file.unwrap().path()).collect();
    assert!(files.len() >= 4, "{files:?}");
    for file in files {
        let events = read(&file);
        assert!(events.len() > 5, "{}", file.display());
        for cut in 0..=events.len() {
            let mut journal = Journal::new(&events[..cut]);
            for StoredEvent { event, .. } in events.clone() {
                journal.emit(UnsequencedEvent::new(event.place, event.body));
            }
            assert_eq!(journal.take_missing().len(), events.len() - cut, "{} cut at {cut}", file.display());
        }
    }
}
