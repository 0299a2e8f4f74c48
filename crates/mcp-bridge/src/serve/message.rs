//! Messages of clients as they arrive: some are broken.

use rmcp::model::{ErrorData, RequestId};
use rmcp::service::{RoleServer, RxJsonRpcMessage};
use serde_json::Value;

/// The protocol's answer to a message that cannot be read.
#[derive(Debug)]
pub(super) struct Unreadable {
    pub(super) error: ErrorData,
    /// Id of the request, as far as it can be read.
    pub(super) id: Option<RequestId>,
}

/// A text without the byte order mark that it may begin with.
pub(super) fn without_mark(text: &[u8]) -> &[u8] {
    text.strip_prefix(b"\xef\xbb\xbf").unwrap_or(text)
}

/// Reads a message. A blank text holds none, and a notification that cannot be read is passed over.
pub(super) fn read_message(text: &[u8]) -> Result<Option<RxJsonRpcMessage<RoleServer>>, Unreadable> {
    let text = without_mark(text).trim_ascii();
    if text.is_empty() {
        return Ok(None);
    }
    let value: Value = agent_types::read_json(text).map_err(|error| Unreadable {
        error: ErrorData::parse_error(format!("the message is not JSON: {error}"), None),
        id: None,
    })?;
    match serde_json::from_slice(text) {
        Ok(message) => Ok(Some(message)),
        Err(_) if value.get("method").is_some() && value.get("id").is_none() => Ok(None),
        Err(error) => Err(Unreadable {
            error: ErrorData::invalid_request(
                format!("this is not a message of the protocol: {error}"),
                None,
            ),
            id: value.get("id").and_then(|id| serde_json::from_value(id.clone()).ok()),
        }),
    }
}
