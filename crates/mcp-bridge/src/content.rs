//! Parts of results and messages in the words of the protocol, and back.

use rmcp::model::{CallToolResult, ContentBlock, ResourceContents};
use serde_json::{Map, Value};
use tool_registry::{Part, ToolError, ToolOutput};

/// A part as the protocol has it.
pub(crate) fn block(part: &Part) -> ContentBlock {
    match part {
        Part::Text { text } => ContentBlock::text(text.as_str()),
        Part::Image { image, mime } => ContentBlock::image(image.as_str(), mime.as_str()),
        Part::Audio { audio, mime } => ContentBlock::audio(audio.as_str(), mime.as_str()),
        Part::Resource { .. } => {
            resource(part).map_or_else(|| ContentBlock::text(""), ContentBlock::resource)
        }
    }
}

/// Resource contents of a part that has an address.
pub(crate) fn resource(part: &Part) -> Option<ResourceContents> {
    let Part::Resource { uri, content, blob, mime } = part else { return None };
    let contents = match (content, blob) {
        (_, Some(blob)) => ResourceContents::blob(blob.as_str(), uri.as_str()),
        (Some(text), None) => ResourceContents::text(text.as_str(), uri.as_str()),
        (None, None) => ResourceContents::text("", uri.as_str()),
    };
    Some(match mime {
        Some(mime) => contents.with_mime_type(mime.as_str()),
        None => contents,
    })
}

/// Converts a tool's output to a result for clients: content, and structured content for an object.
pub(crate) fn result(output: &ToolOutput) -> CallToolResult {
    let content = match output {
        ToolOutput::Parts(parts) => parts.iter().map(block).collect(),
        other => vec![ContentBlock::text(other.text())],
    };
    let mut result = CallToolResult::success(content);
    if let ToolOutput::Json(value @ Value::Object(_)) | ToolOutput::Ended(value @ Value::Object(_)) = output {
        result.structured_content = Some(value.clone());
    }
    result
}

/// Converts a server's result to a tool's output.
pub(crate) fn output(result: CallToolResult) -> Result<ToolOutput, ToolError> {
    let is_error = result.is_error == Some(true);
    let mut parts: Vec<Part> = result.content.into_iter().filter_map(part).collect();
    if is_error {
        let text = parts.iter().map(Part::text).collect::<Vec<_>>().join("\n");
        return Err(ToolError::failed(text).with_code("mcp_tool_error"));
    }
    // A null beside text is the absence of a structured value.
    let structured = result.structured_content.filter(|value| !value.is_null() || parts.is_empty());
    if let Some(value) = structured
        && parts.iter().all(|part| matches!(part, Part::Text { .. }))
    {
        return Ok(ToolOutput::Json(value));
    }
    Ok(match (parts.pop(), parts.is_empty()) {
        (None, _) => ToolOutput::Text(String::new()),
        (Some(Part::Text { text }), true) => ToolOutput::Text(text),
        (Some(last), _) => {
            parts.push(last);
            ToolOutput::Parts(parts)
        }
    })
}

/// Reads a result that does not fit the protocol as a whole: its valid blocks, and the faults of the others.
/// `None` if it is not the result of a call.
pub(crate) fn lenient(result: &Value) -> Option<(CallToolResult, Vec<String>)> {
    let members = result.as_object()?;
    if !members.contains_key("content") && !members.contains_key("structuredContent") {
        return None;
    }
    let mut read = CallToolResult::default();
    let mut faults = Vec::new();
    read.structured_content = members.get("structuredContent").cloned();
    read.is_error = members.get("isError").and_then(Value::as_bool);
    match members.get("content") {
        Some(Value::Array(blocks)) => {
            for (index, given) in blocks.iter().enumerate() {
                match lenient_block(given) {
                    Ok(block) => read.content.push(block),
                    Err(fault) => faults.push(format!("content block {index} is left out: {fault}")),
                }
            }
        }
        None | Some(Value::Null) => {}
        Some(_) => faults.push("`content` is left out: it is not a list".to_owned()),
    }
    Some((read, faults))
}

/// Reads a block. Members that only describe it cost no more than themselves.
fn lenient_block(given: &Value) -> Result<ContentBlock, String> {
    let members = given.as_object().ok_or("it is not an object")?;
    let kind = members.get("type").and_then(Value::as_str).ok_or("it has no `type`")?;
    let is_needed =
        |name: &str| !matches!(name, "annotations" | "_meta" | "icons" | "title" | "description" | "size");
    let needed: Map<String, Value> = members
        .iter()
        .filter(|(name, value)| is_needed(name) && !value.is_null())
        .map(|(name, value)| (name.clone(), value.clone()))
        .collect();
    serde_json::from_value(given.clone())
        .or_else(|_| serde_json::from_value(Value::Object(needed)))
        .map_err(|error| format!("type `{kind}`: {error}"))
}

fn part(block: ContentBlock) -> Option<Part> {
    Some(match block {
        ContentBlock::Text(text) => Part::Text { text: text.text },
        ContentBlock::Image(image) => Part::Image { image: image.data, mime: image.mime_type },
        ContentBlock::Audio(audio) => Part::Audio { audio: audio.data, mime: audio.mime_type },
        ContentBlock::Resource(embedded) => of_resource(embedded.resource)?,
        ContentBlock::ResourceLink(link) => {
            Part::Resource { uri: link.uri, content: None, blob: None, mime: link.mime_type }
        }
        // What only models say, and kinds of content that nobody knows yet.
        _ => return None,
    })
}

fn of_resource(contents: ResourceContents) -> Option<Part> {
    Some(match contents {
        ResourceContents::TextResourceContents { uri, mime_type, text, .. } => {
            Part::Resource { uri, content: Some(text), blob: None, mime: mime_type }
        }
        ResourceContents::BlobResourceContents { uri, mime_type, blob, .. } => {
            Part::Resource { uri, content: None, blob: Some(blob), mime: mime_type }
        }
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn text(text: &str) -> Part {
        Part::Text { text: text.to_owned() }
    }

    #[test]
    fn what_a_tool_gives_comes_back_as_it_was() {
        let resource = Part::Resource {
            uri: "weft://x".to_owned(),
            content: Some("y".to_owned()),
            blob: None,
            mime: Some("text/plain".to_owned()),
        };
        let image = Part::Image { image: "AAAA".to_owned(), mime: "image/png".to_owned() };
        for given in [
            ToolOutput::Text("plain".to_owned()),
            ToolOutput::Json(json!({"a": 1})),
            ToolOutput::Parts(vec![text("a"), image, resource]),
        ] {
            assert_eq!(output(result(&given)), Ok(given));
        }
        // A value that is no object is a text for clients that know no other structures.
        assert_eq!(output(result(&ToolOutput::Json(json!([1])))), Ok(ToolOutput::Text("[1]".to_owned())));
    }

    #[test]
    fn an_odd_block_costs_itself() {
        let odd = json!([{"type": "hologram", "x": 1}, {"type": "text"}, {"note": 1}, "loose",
            {"type": "text", "text": "three boats", "annotations": {"audience": 7}, "_meta": null}]);
        let (read, faults) = lenient(&json!({"content": odd})).unwrap();
        assert_eq!(output(read), Ok(ToolOutput::Text("three boats".to_owned())));
        assert_eq!(faults.len(), 4, "{faults:?}");
        assert!(faults[0].contains("content block 0") && faults[0].contains("hologram"), "{faults:?}");
        assert!(faults[1].contains("missing field `text`"), "{faults:?}");
        let (read, faults) = lenient(&json!({"content": null, "structuredContent": {"n": 1}})).unwrap();
        assert_eq!((output(read), faults.len()), (Ok(ToolOutput::Json(json!({"n": 1}))), 0));
        assert!(lenient(&json!({"tools": []})).is_none());
    }

    #[test]
    fn a_null_beside_text_is_the_absence_of_a_structured_value() {
        let mut result = CallToolResult::success(vec![ContentBlock::text("three boats")]);
        result.structured_content = Some(Value::Null);
        assert_eq!(output(result), Ok(ToolOutput::Text("three boats".to_owned())));
    }

    #[test]
    fn a_tool_that_failed_says_why() {
        let failed = CallToolResult::error(vec![ContentBlock::text("no luck")]);
        assert_eq!(output(failed).unwrap_err().message_for_model, "no luck");
    }
}
