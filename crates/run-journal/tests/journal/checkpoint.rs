//! The frame of a checkpoint.

use run_journal::CheckpointFrame;
use serde::{Deserialize, Serialize};
use serde_json::Value;

#[derive(Debug, PartialEq, Serialize, Deserialize)]
struct State {
    arguments: Vec<Value>,
}

const FRAME: CheckpointFrame = CheckpointFrame { version: 2, layout: 7 };

#[test]
fn a_checkpoint_is_read_in_its_frame_only() {
    let state = State { arguments: vec![1.into()] };
    let text = FRAME.write(&state).unwrap();
    assert_eq!(text, r#"{"version":2,"layout":7,"arguments":[1]}"#);
    assert!(FRAME.fits(&text));
    assert_eq!(FRAME.read::<State>(&text).unwrap(), state);
    let changed = "the workflow or the format of checkpoints has changed since the checkpoint";
    let rows = [
        (CheckpointFrame { version: 3, ..FRAME }, &*text, changed),
        (CheckpointFrame { layout: 8, ..FRAME }, &*text, changed),
        (FRAME, "{}", changed),
        (FRAME, r#"{"version":2,"layout":7}"#, "missing field `arguments`"),
    ];
    for (frame, text, message) in rows {
        let error = frame.read::<State>(text).unwrap_err();
        assert!(error.to_string().starts_with(message), "{error}");
    }
    assert!(!FRAME.fits("{}") && !FRAME.fits("x"));
    assert!(FRAME.write(&5).is_err());
}

#[test]
fn a_deep_value_is_read_back() {
    let deep = (0..200).fold(Value::Null, |value, _| Value::Array(vec![value]));
    let text = FRAME.write(&State { arguments: vec![deep] }).unwrap();
    assert!(FRAME.read::<State>(&text).is_ok());
}
