//! Results of calls as the model and events get them: within limits, with images apart.

use std::sync::Arc;

use llm_provider::Attachment;
use tool_registry::{Part, ToolOutput};
use tool_system::BlobSource;

/// Longest summary of a result in an event, in characters.
const MAX_SUMMARY: usize = 200;

/// Bytes of the words between the beginning and the end of a long result.
const GAP: usize = 48;

/// Limits a result to `limit`: of a longer one its beginning and its end stay, and the whole is stored as a blob.
pub(super) async fn within(
    output: ToolOutput,
    limit: usize,
    blobs: Option<Arc<dyn BlobSource>>,
) -> (ToolOutput, Option<String>) {
    if output.shown().len() <= limit {
        return (output, None);
    }
    let whole = output.into_text();
    let head = whole.floor_char_boundary(limit - limit / 4);
    let tail = whole.ceil_char_boundary(whole.len() - (limit / 4).saturating_sub(GAP));
    let gap = tail - head;
    let text = format!("{}… ({gap} bytes left out) …{}", &whole[..head], &whole[tail..]);
    let blob = match blobs {
        Some(blobs) => blobs.put(whole.into_bytes()).await.ok(),
        None => None,
    };
    (ToolOutput::Text(text), blob)
}

/// Images of a result.
pub(super) fn images(output: &ToolOutput) -> Vec<Attachment> {
    match output {
        ToolOutput::Parts(parts) => parts.iter().filter_map(image).collect(),
        _ => Vec::new(),
    }
}

/// The image of a part: its bytes in Base64, or their address.
fn image(part: &Part) -> Option<Attachment> {
    let Part::Image { image, mime } = part else { return None };
    let is_address = ["data:", "http://", "https://"].iter().any(|scheme| image.starts_with(scheme));
    Some(if is_address {
        Attachment::from_url(mime.as_str(), image.as_str())
    } else {
        Attachment::from_base64(mime.as_str(), image.as_str())
    })
}

/// Beginning of a text, for an event.
pub(super) fn shortened(text: &str) -> String {
    match text.char_indices().nth(MAX_SUMMARY) {
        Some((end, _)) => format!("{}…", &text[..end].trim_end()),
        None => text.to_owned(),
    }
}

/// Cuts a text that is longer than the model should be shown, and says how much is missing.
pub(super) fn shorten_end(text: &mut String, limit: usize) {
    if text.len() <= limit {
        return;
    }
    let end = text.floor_char_boundary(limit);
    let missing = text.len() - end;
    text.truncate(end);
    text.extend(["… (", &missing.to_string(), " more bytes)"]);
}
