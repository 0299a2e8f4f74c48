//! The tools that the suite calls.

use std::time::Duration;

use agent_types::EventBody;
use agent_types::ToolDefinition;
use mcp_bridge::{Elicited, McpPeer};
use serde_json::{Map, Value, json};
use tool_registry::{Part, Tool, ToolContext, ToolError, ToolHandler, ToolKind, ToolOutput};

/// A red point as PNG.
pub(crate) const PNG: &str =
    "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mP8z8DwHwAFBQIAX8jx0gAAAABJRU5ErkJggg==";
/// Silence as WAV.
const WAV: &str = "UklGRiQAAABXQVZFZm10IBAAAAABAAEAQB8AAEAfAAABAAgAZGF0YQAAAAA=";

const PAUSE: Duration = Duration::from_millis(50);

type Answer = Result<ToolOutput, ToolError>;

/// A tool of the suite, by its name.
struct Fixture(&'static str);

fn text(text: &str) -> Part {
    Part::Text { text: text.to_owned() }
}

fn image() -> Part {
    Part::Image { image: PNG.to_owned(), mime: "image/png".to_owned() }
}

fn resource(uri: &str, mime: &str, content: &str) -> Part {
    let (uri, mime, content) = (uri.to_owned(), Some(mime.to_owned()), Some(content.to_owned()));
    Part::Resource { uri, content, blob: None, mime }
}

#[async_trait::async_trait]
impl ToolHandler for Fixture {
    async fn call(&self, arguments: Map<String, Value>, cx: &ToolContext) -> Answer {
        let argument = |name: &str| arguments[name].as_str().unwrap_or_default().to_owned();
        match self.0 {
            "test_simple_text" => {
                Ok(ToolOutput::Text("This is a simple text response for testing.".to_owned()))
            }
            "test_image_content" => Ok(ToolOutput::Parts(vec![image()])),
            "test_audio_content" => {
                let audio = Part::Audio { audio: WAV.to_owned(), mime: "audio/wav".to_owned() };
                Ok(ToolOutput::Parts(vec![audio]))
            }
            "test_embedded_resource" => Ok(ToolOutput::Parts(vec![resource(
                "test://embedded-resource",
                "text/plain",
                "This is an embedded resource content.",
            )])),
            "test_multiple_content_types" => Ok(ToolOutput::Parts(vec![
                text("Multiple content types test:"),
                image(),
                resource(
                    "test://mixed-content-resource",
                    "application/json",
                    r#"{"test":"data","value":123}"#,
                ),
            ])),
            "test_tool_with_logging" => logs(cx).await,
            "test_tool_with_progress" => progresses(cx).await,
            "test_error_handling" => {
                Err(ToolError::failed("This tool intentionally returns an error for testing"))
            }
            "test_sampling" => {
                let said = cx.dependency::<McpPeer>()?.sample(&argument("prompt"), 100).await?;
                Ok(ToolOutput::Text(format!("LLM response: {said}")))
            }
            "test_elicitation" => asks(cx, &argument("message"), person()).await,
            "test_elicitation_sep1034_defaults" => asks(cx, "Please check the defaults", defaults()).await,
            "test_elicitation_sep1330_enums" => asks(cx, "Please choose", enums()).await,
            _ => Ok(ToolOutput::Text("done".to_owned())),
        }
    }
}

async fn logs(cx: &ToolContext) -> Answer {
    for (at, line) in
        ["Tool execution started", "Tool processing data", "Tool execution completed"].into_iter().enumerate()
    {
        if at > 0 {
            cx.clock.sleep(PAUSE).await;
        }
        cx.emit(EventBody::LogLine { level: "info".to_owned(), message: line.to_owned() });
    }
    Ok(ToolOutput::Text("Three lines were logged.".to_owned()))
}

async fn progresses(cx: &ToolContext) -> Answer {
    for (at, value) in [0.0, 50.0, 100.0].into_iter().enumerate() {
        if at > 0 {
            cx.clock.sleep(PAUSE).await;
        }
        cx.emit(EventBody::NodeProgress { message: None, value: Some(value), max: Some(100.0) });
    }
    Ok(ToolOutput::Text("Progress was told.".to_owned()))
}

async fn asks(cx: &ToolContext, message: &str, schema: Value) -> Answer {
    let answer = cx.dependency::<McpPeer>()?.elicit(message, schema).await?;
    let (action, content) = match answer {
        Elicited::Accepted(content) => ("accept", content),
        Elicited::Declined => ("decline", json!({})),
        Elicited::Cancelled => ("cancel", json!({})),
    };
    Ok(ToolOutput::Text(format!("Elicitation completed: action={action}, content={content}")))
}

fn person() -> Value {
    json!({"type": "object", "required": ["username", "email"], "properties": {
        "username": {"type": "string", "description": "User's response"},
        "email": {"type": "string", "description": "User's email address"}}})
}

fn defaults() -> Value {
    json!({"type": "object", "properties": {
        "name": {"type": "string", "default": "John Doe"},
        "age": {"type": "integer", "default": 30},
        "score": {"type": "number", "default": 95.5},
        "status": {"type": "string", "enum": ["active", "inactive", "pending"], "default": "active"},
        "verified": {"type": "boolean", "default": true}}})
}

fn enums() -> Value {
    let titled = |words: [(&str, &str); 3]| {
        words.map(|(value, title)| json!({"const": value, "title": title})).to_vec()
    };
    let options = [("value1", "First Option"), ("value2", "Second Option"), ("value3", "Third Option")];
    let choices = [("value1", "First Choice"), ("value2", "Second Choice"), ("value3", "Third Choice")];
    json!({"type": "object", "properties": {
        "untitledSingle": {"type": "string", "enum": ["option1", "option2", "option3"]},
        "titledSingle": {"type": "string", "oneOf": titled(options)},
        "legacyEnum": {"type": "string", "enum": ["opt1", "opt2", "opt3"],
            "enumNames": ["Option One", "Option Two", "Option Three"]},
        "untitledMulti": {"type": "array", "items": {"type": "string", "enum": ["option1", "option2", "option3"]}},
        "titledMulti": {"type": "array", "items": {"anyOf": titled(choices)}}}})
}

/// All of them.
pub(crate) fn all() -> Result<Vec<Tool>, Box<dyn std::error::Error>> {
    let none = json!({"type": "object", "properties": {}, "additionalProperties": false});
    let one = |name: &str| {
        json!({"type": "object", "required": [name],
            "properties": {name: {"type": "string", "description": "what is passed on"}}})
    };
    let fixtures = [
        ("test_simple_text", none.clone()),
        ("test_image_content", none.clone()),
        ("test_audio_content", none.clone()),
        ("test_embedded_resource", none.clone()),
        ("test_multiple_content_types", none.clone()),
        ("test_tool_with_logging", none.clone()),
        ("test_tool_with_progress", none.clone()),
        ("test_error_handling", none.clone()),
        ("test_sampling", one("prompt")),
        ("test_elicitation", one("message")),
        ("test_elicitation_sep1034_defaults", none.clone()),
        ("test_elicitation_sep1330_enums", none),
        ("json_schema_2020_12_tool", schema_2020_12()),
    ];
    let tools = fixtures.map(|(name, parameters)| {
        let definition =
            ToolDefinition::new(name.parse()?, "A fixture of the conformance suite.", parameters);
        Ok::<_, Box<dyn std::error::Error>>(Tool::new(definition, ToolKind::NATIVE, Fixture(name)).checked()?)
    });
    tools.into_iter().collect()
}

fn schema_2020_12() -> Value {
    json!({"$schema": "https://json-schema.org/draft/2020-12/schema", "type": "object",
        "$defs": {"address": {"type": "object",
            "properties": {"street": {"type": "string"}, "city": {"type": "string"}}}},
        "properties": {"name": {"type": "string"}, "address": {"$ref": "#/$defs/address"}},
        "additionalProperties": false})
}
