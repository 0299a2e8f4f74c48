//! Trace events: numbered facts of a run.
//!
//! On the wire an event is one flat object: the envelope's keys, then `type` and `data`.

use std::collections::BTreeMap;
use std::sync::Arc;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::{AskKind, CallId, DefinitionDigests, EventBody, RunId, Timestamp, ToolId};

/// Version of the envelope.
const ENVELOPE_VERSION: u8 = 1;

/// One numbered fact of a run.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[non_exhaustive]
pub struct TraceEvent {
    /// Version of this form, 1.
    pub v: u8,
    /// The run it belongs to.
    pub run: RunId,
    /// From 1, without holes within a run.
    pub seq: u64,
    /// Time at which the event was numbered.
    pub ts: Timestamp,
    /// Location within the run.
    #[serde(flatten)]
    pub place: EventLocation,
    /// Kind of the event and its data.
    #[serde(flatten)]
    pub body: EventBody,
}

impl TraceEvent {
    /// Puts a fact into its envelope.
    #[must_use]
    pub fn new(run: RunId, seq: u64, ts: Timestamp, place: EventLocation, body: EventBody) -> Self {
        Self { v: ENVELOPE_VERSION, run, seq, ts, place, body }
    }
}

/// Location within a run. Absent parts do not apply.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct EventLocation {
    /// Node or zone, from the root of its workflow: `loop[3]/inner[0]/a`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub path: Option<Arc<str>>,
    /// Innermost pass, from 0.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub iteration: Option<u64>,
    /// Attempt of a node, from 1.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub attempt: Option<u32>,
    /// Turn of the agent, from 1.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub turn: Option<u32>,
    /// The tool call that this is part of.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub call: Option<CallId>,
    /// The call in which that call was made.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub parent_call: Option<CallId>,
    /// Levels of agents and workflows above; absent at the root.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub depth: Option<u32>,
    /// The span that this event starts, ends or lies in; 0 is the run itself.
    #[serde(default)]
    pub span: u64,
    /// The span around that span.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub parent: Option<u64>,
}

/// One open question of a run.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct AskSummary {
    /// Id that an answer names.
    pub ask: Arc<str>,
    /// Subject of the question.
    #[serde(default)]
    pub kind: AskKind,
    /// The tool whose call waits.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tool: Option<ToolId>,
    /// The arguments of that call.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub arguments: Option<Arc<Map<String, Value>>>,
    /// The node that asks.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub path: Option<Arc<str>>,
    /// Prompt of the question.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub prompt: Option<String>,
    /// Digests of the parts of what the call would do, as it was asked about.
    #[serde(default, skip_serializing_if = "DefinitionDigests::is_empty")]
    pub definition: DefinitionDigests,
}

/// One call as a summary of a parsed reply holds it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct CallSummary {
    /// Its id.
    pub call: CallId,
    /// Tool to be called.
    pub tool: ToolId,
}

/// Fault of a call that failed, for programs.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ToolFault {
    /// Stable code, as fine as the tool says it.
    pub code: String,
    /// Kind of the failure.
    pub kind: String,
    /// Node of a workflow that failed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub node: Option<String>,
    /// HTTP status that a server answered with.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub status: Option<u16>,
    /// The same call may succeed later.
    pub retryable: bool,
    /// Detail for developers, which the model is not shown.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub detail: Option<String>,
}

impl ToolFault {
    /// A fault whose code and kind are the same word.
    #[must_use]
    pub fn new(code: &str) -> Self {
        Self { code: code.to_owned(), kind: code.to_owned(), ..Self::default() }
    }
}

/// Outputs of a node beside its main output, by slot.
pub type OtherOutputs = Arc<BTreeMap<Arc<str>, Arc<Value>>>;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_event_is_one_flat_object() {
        let place =
            EventLocation { path: Some("a".into()), attempt: Some(1), span: 3, ..EventLocation::default() };
        let body = EventBody::node_finished(Some(Arc::new(1.into())));
        let event = TraceEvent::new(RunId::new("r"), 7, Timestamp::from_millis(0), place, body);
        let text = serde_json::to_string(&event).unwrap();
        assert_eq!(
            text,
            r#"{"v":1,"run":"r","seq":7,"ts":"1970-01-01T00:00:00.000Z","path":"a","attempt":1,"span":3,"type":"node.finished","data":{"value":1}}"#
        );
        assert_eq!(serde_json::from_str::<TraceEvent>(&text).unwrap(), event);
        let others = [("b".into(), Arc::new(2.into())), ("a".into(), Arc::new(Value::Null))].into();
        let text = r#"{"type":"node.finished","data":{"value":null,"outputs":{"a":null,"b":2}}}"#;
        let body = EventBody::NodeFinished {
            value: Some(Arc::default()),
            outputs: Some(Arc::new(others)),
            handled: None,
            cache: None,
        };
        assert_eq!(serde_json::to_string(&body).unwrap(), text);
        assert_eq!(serde_json::from_str::<EventBody>(text).unwrap(), body);
        assert_eq!(EventBody::RunQueued { place: None }.name(), "run.queued");
    }
}
