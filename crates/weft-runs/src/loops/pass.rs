//! Parts of a record that come from the events of its pass.

use agent_types::{CallId, EventBody, StoredEvent, Usage};

use super::record::{PassCall, PassFailure, PassRecord, PassReply};
use super::short::short_text;

/// Calls, replies and failures of one pass that are listed; the others are counted.
const LISTED: usize = 20;

impl PassRecord {
    /// Takes from an event what happened in the pass.
    pub(super) fn learn(&mut self, kept: &StoredEvent) {
        let place = &kept.event.place;
        let call = || place.call.as_ref().map(ToString::to_string);
        match &kept.event.body {
            EventBody::NodeFinished { .. } | EventBody::NodeCached { .. } => self.end_node(kept),
            EventBody::NodeFailed { message, .. } => {
                self.end_node(kept);
                let path = place.path.as_deref().unwrap_or_default().to_owned();
                let failure = PassFailure { path, message: short_text(message) };
                self.left_out += u64::from(!push(&mut self.failures, failure));
            }
            EventBody::AgentLlmFinished { text, finish, usage, .. } => {
                let reply = PassReply { text: short_text(text), finish: finish.clone(), usage: *usage };
                self.left_out += u64::from(!push(&mut self.replies, reply));
            }
            EventBody::AgentToolStarted { tool } => {
                if let Some(call) = call().filter(|call| self.call_mut(call).is_none()) {
                    self.add_call(call, tool.to_string());
                }
            }
            EventBody::AgentToolFinished { tool, status, summary, blob, ms, .. } => {
                let Some(call) = call() else { return };
                if self.call_mut(&call).is_none() {
                    self.add_call(call.clone(), tool.to_string());
                }
                if let Some(own) = self.call_mut(&call) {
                    (own.status, own.ms) = (Some(*status), Some(*ms));
                    (own.observation, own.blob) = (Some(short_text(summary)), blob.clone());
                }
            }
            EventBody::AgentObservation { text, .. } => {
                if let Some(own) = call().and_then(|call| self.call_mut(&call)) {
                    own.observation = Some(short_text(text));
                }
            }
            _ => {}
        }
    }

    /// Counts a node that has ended. What is inside a call counts with the node that made the call.
    fn end_node(&mut self, kept: &StoredEvent) {
        if kept.event.place.call.as_ref().map(CallId::as_str) == self.call.as_deref() {
            self.nodes += 1;
            add_usage(&mut self.usage, kept.record.as_ref().and_then(|record| record.usage));
        }
    }

    fn call_mut(&mut self, call: &str) -> Option<&mut PassCall> {
        self.calls.iter_mut().find(|own| own.call == call)
    }

    fn add_call(&mut self, call: String, tool: String) {
        let call = PassCall { call, tool, status: None, ms: None, observation: None, blob: None };
        self.left_out += u64::from(!push(&mut self.calls, call));
    }
}

/// Adds to a list that has a limit; `false` if it is full.
fn push<T>(list: &mut Vec<T>, item: T) -> bool {
    let has_room = list.len() < LISTED;
    if has_room {
        list.push(item);
    }
    has_room
}

pub(super) fn add_usage(sum: &mut Option<Usage>, usage: Option<Usage>) {
    if let Some(usage) = usage {
        *sum.get_or_insert_default() += usage;
    }
}
