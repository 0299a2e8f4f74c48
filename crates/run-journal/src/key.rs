//! Identity of an event within its run.

use std::borrow::Cow;
use std::mem::{Discriminant, discriminant};
use std::sync::Arc;

use agent_types::{CallId, EventBody, EventLocation};

/// Identity of an event: its site, its call, its type, and the part of its data that separates two events of that
/// type. Events that share an identity count in their order.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) struct EventKey {
    site: Site,
    call: Option<CallId>,
    kind: Discriminant<EventBody>,
    detail: Cow<'static, str>,
}

/// Site of an event. Numbers that a sink outside of the run adds do not count: the turn around a node.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
enum Site {
    Node(Arc<str>, Option<u64>),
    Turn(Option<u32>),
}

impl EventKey {
    pub(crate) fn new(place: &EventLocation, body: &EventBody) -> Self {
        let site = match &place.path {
            Some(path) => Site::Node(Arc::clone(path), place.iteration),
            None => Site::Turn(place.turn),
        };
        Self { site, call: place.call.clone(), kind: discriminant(body), detail: detail(body) }
    }
}

/// Data that separates events of one type at one site.
fn detail(body: &EventBody) -> Cow<'static, str> {
    match body {
        EventBody::AgentToolApproval { state, .. } => state.as_str().into(),
        EventBody::FlowMatched { flow, .. }
        | EventBody::FlowFinished { flow, .. }
        | EventBody::FlowFailed { flow, .. } => flow.clone().into(),
        EventBody::SystemAction { action, status, .. } => format!("{status} {action}").into(),
        EventBody::RunWaiting { asks, .. } => {
            let names: Vec<&str> = asks.iter().map(|ask| &*ask.ask).collect();
            names.join(" ").into()
        }
        EventBody::SystemHandedOff { action } => action.clone().into(),
        _ => "".into(),
    }
}
