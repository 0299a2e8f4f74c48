//! Results that come in pieces.

use futures::{Stream, StreamExt};
use serde::Serialize;
use serde_json::Value;

use crate::context::{ChunkLimit, ToolContext};
use crate::output::{ToolError, ToolOutput};

/// Joins the pieces of a stream, and emits each as it arrives. Ends at the limit of a call's pieces.
///
/// # Errors
/// A piece cannot be represented as JSON.
#[doc(hidden)]
pub async fn collect<S>(stream: S, cx: &ToolContext) -> Result<ToolOutput, ToolError>
where
    S: Stream,
    S::Item: Serialize,
{
    let mut stream = std::pin::pin!(stream);
    let mut whole = String::new();
    while let Some(item) = stream.next().await {
        let piece = match serde_json::to_value(item).map_err(|error| ToolError::failed(error.to_string()))? {
            Value::String(text) => text,
            value => value.to_string(),
        };
        whole.push_str(&piece);
        if cx.chunk(piece) == ChunkLimit::Reached {
            whole.push_str("… (more than a call may give; the rest was not read)");
            break;
        }
    }
    Ok(ToolOutput::Text(whole))
}
