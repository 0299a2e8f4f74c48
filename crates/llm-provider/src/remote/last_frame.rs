//! The end of chat completions whose server leaves out `[DONE]`.

use agent_types::Usage;
use genai::chat::{ChatFrameSink, FrameCtx, RawFrameRef, StopReason};
use parking_lot::Mutex;
use serde_json::Value;

/// Records the finish reason and the tokens from the last events.
///
/// The library ends an answer at `[DONE]` only, but some servers close the connection behind their last event.
#[derive(Debug, Default)]
pub(super) struct LastFrame(Mutex<Option<Ending>>);

/// Contents of the last events.
#[derive(Debug, Clone)]
pub(super) struct Ending {
    pub(super) stop: StopReason,
    pub(super) usage: Usage,
}

impl LastFrame {
    /// Takes the recorded ending, if the model has stopped.
    pub(super) fn take(&self) -> Option<Ending> {
        self.0.lock().take()
    }
}

impl ChatFrameSink for LastFrame {
    fn on_frame(&self, _: &FrameCtx, frame: RawFrameRef<'_>) {
        if let Some(ending) = ending(frame.data) {
            *self.0.lock() = Some(ending);
        }
    }
}

fn ending(data: &str) -> Option<Ending> {
    // Most events say `null` or nothing; they are not read a second time.
    if !["\"finish_reason\":\"", "\"finish_reason\": \""].iter().any(|sign| data.contains(sign)) {
        return None;
    }
    let event: Value = serde_json::from_str(data).ok()?;
    let stop = event.pointer("/choices/0/finish_reason")?.as_str()?.to_owned();
    let tokens = |name: &str| event["usage"][name].as_u64().unwrap_or(0);
    Some(Ending {
        stop: StopReason::from(stop),
        usage: Usage::new(tokens("prompt_tokens"), tokens("completion_tokens")),
    })
}
