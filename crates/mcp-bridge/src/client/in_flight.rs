//! Requests to one server that wait for their answers.

use std::collections::HashMap;
use std::sync::Arc;

use futures::channel::oneshot;
use parking_lot::Mutex;
use rmcp::model::{RequestId, ServerJsonRpcMessage};

/// Requests to one server that wait for their answers. Clones share them.
#[derive(Debug, Clone, Default)]
pub(super) struct InFlight(Arc<Mutex<Open>>);

#[derive(Debug, Default)]
struct Open {
    /// By id as text: some servers repeat a number as a text.
    requests: HashMap<String, Request>,
    /// The highest id that was sent.
    highest: i64,
    /// Counts the requests: one that is sent again has the id that it had.
    serial: u64,
}

#[derive(Debug)]
struct Request {
    serial: u64,
    answer: oneshot::Sender<ServerJsonRpcMessage>,
    /// Nothing comes on the request itself any more.
    is_idle: bool,
}

/// Request that an answer belongs to, by its id.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Asked {
    /// The request that it came on, or no request that was sent.
    This,
    /// Another request that waits.
    Other,
    /// A request that waits no longer.
    Past,
}

impl InFlight {
    /// Adds a request.
    pub(super) fn open(&self, id: RequestId) -> Waiting {
        let (answer, elsewhere) = oneshot::channel();
        let mut open = self.0.lock();
        open.serial += 1;
        let serial = open.serial;
        if let RequestId::Number(number) = &id {
            open.highest = open.highest.max(*number);
        }
        open.requests.insert(id.to_string(), Request { serial, answer, is_idle: false });
        drop(open);
        Waiting { id, serial, in_flight: self.clone(), elsewhere }
    }

    /// The answer that came on a request, if it is its own; the answer of another request goes there, and that of one which
    /// waits no longer goes nowhere.
    pub(super) fn own(&self, answer: ServerJsonRpcMessage, on: &RequestId) -> Option<ServerJsonRpcMessage> {
        let Some(id) = id_of(&answer) else { return Some(answer) };
        let mut open = self.0.lock();
        match open.owner(id, on) {
            Asked::This => Some(answer),
            Asked::Other => {
                log::debug!(target: "mcp", "the answer to {id} came on {on}");
                if let Some(other) = open.requests.remove(&id.to_string()) {
                    // It may have been given up.
                    drop(other.answer.send(answer));
                }
                None
            }
            Asked::Past => {
                log::warn!(target: "mcp", "one more answer to {id} came on {on}");
                None
            }
        }
    }

    /// The same for the only message of a body, which can hardly be one more answer to a request of the past.
    pub(super) fn own_in_body(
        &self,
        answer: ServerJsonRpcMessage,
        on: &RequestId,
    ) -> Option<ServerJsonRpcMessage> {
        let is_past = id_of(&answer).is_some_and(|id| self.0.lock().owner(id, on) == Asked::Past);
        if is_past { Some(answer) } else { self.own(answer, on) }
    }
}

impl Open {
    fn owner(&self, id: &RequestId, of: &RequestId) -> Asked {
        let text = id.to_string();
        if text == of.to_string() {
            return Asked::This;
        }
        if self.requests.contains_key(&text) {
            return Asked::Other;
        }
        match text.parse::<i64>() {
            Ok(number) if (0..=self.highest).contains(&number) => Asked::Past,
            Ok(_) | Err(_) => Asked::This,
        }
    }

    /// Gives up requests whose answers can come nowhere any more.
    fn settle(&mut self) {
        if self.requests.values().all(|request| request.is_idle) {
            self.requests.clear();
        }
    }
}

/// A request whose answer has not come.
#[derive(Debug)]
pub(super) struct Waiting {
    pub(super) id: RequestId,
    serial: u64,
    pub(super) in_flight: InFlight,
    /// Its answer, if that comes on another request. Closed when it can come on none.
    pub(super) elsewhere: oneshot::Receiver<ServerJsonRpcMessage>,
}

impl Waiting {
    /// Notes that nothing more comes on the request itself.
    pub(super) fn set_idle(&self) {
        let mut open = self.in_flight.0.lock();
        let own = open.requests.get_mut(&self.id.to_string()).filter(|own| own.serial == self.serial);
        if let Some(own) = own {
            own.is_idle = true;
        }
        open.settle();
    }
}

fn id_of(answer: &ServerJsonRpcMessage) -> Option<&RequestId> {
    match answer {
        ServerJsonRpcMessage::Response(response) => Some(&response.id),
        ServerJsonRpcMessage::Error(error) => error.id.as_ref(),
        ServerJsonRpcMessage::Request(_) | ServerJsonRpcMessage::Notification(_) => None,
    }
}

impl Drop for Waiting {
    fn drop(&mut self) {
        let mut open = self.in_flight.0.lock();
        let id = self.id.to_string();
        if open.requests.get(&id).is_some_and(|own| own.serial == self.serial) {
            open.requests.remove(&id);
        }
        open.settle();
    }
}
