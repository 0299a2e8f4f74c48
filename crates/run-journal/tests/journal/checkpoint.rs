//! The frame of a checkpoint.

use run_journal::{CheckpointError, CheckpointFrame};
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
    let rows = [
        (
            CheckpointFrame { version: 3, ..FRAME },
            &*text,
            "the checkpoint has format 2, and this version reads 3",
        ),
        (CheckpointFrame { layout: 8, ..FRAME }, &*text, "the workflow has changed since the snapshot"),
        (FRAME, "{}", "the checkpoint cannot be read: missing field `version` at line 1 column 2"),
        (FRAME, r#"{"version":2,"layout":7}"#, "the checkpoint cannot be read: missing field `arguments`"),
    ];
    for (frame, text, message) in rows {
        let error = frame.read::<State>(text).unwrap_err();
        assert_eq!(error.code(), "bad_snapshot");
        assert!(error.to_string().starts_with(message), "{error}");
    }
    assert!(!FRAME.fits("{}") && !FRAME.fits("x"));
    assert!(matches!(FRAME.write(&5), Err(CheckpointError::Unreadable(_))));
}

#[test]
fn a_deep_value_is_read_back() {
    let deep = (0..200).fold(Value::Null, |value, _| Value::Array(vec![value]));
    let text = FRAME.write(&State { arguments: vec![deep] }).unwrap();
    assert!(FRAME.read::<State>(&text).is_ok());
}
