//! The prompts and resources that the suite reads.

use async_trait::async_trait;
use mcp_bridge::{
    PromptArgument, PromptInfo, PromptMessage, PromptSource, ResourceInfo, ResourceSource, ResourceTemplate,
    Speaker,
};
use serde_json::{Map, Value, json};
use tool_registry::{Part, ToolError};

use crate::tools::PNG;

/// Prompts and resources of the suite.
#[derive(Debug)]
pub(crate) struct Fixtures;

fn said(part: Part) -> PromptMessage {
    PromptMessage { speaker: Speaker::User, part }
}

fn text(text: &str) -> PromptMessage {
    said(Part::Text { text: text.to_owned() })
}

fn required(name: &str) -> PromptArgument {
    PromptArgument { name: name.to_owned(), description: Some("a test argument".to_owned()), required: true }
}

#[async_trait]
impl PromptSource for Fixtures {
    fn prompts(&self) -> Vec<PromptInfo> {
        vec![
            PromptInfo::new("test_simple_prompt", "Takes nothing."),
            PromptInfo::new("test_prompt_with_arguments", "Takes two texts.")
                .with_argument(required("arg1"))
                .with_argument(required("arg2")),
            PromptInfo::new("test_prompt_with_embedded_resource", "Has a resource in it.")
                .with_argument(required("resourceUri")),
            PromptInfo::new("test_prompt_with_image", "Has an image in it."),
        ]
    }

    async fn prompt(
        &self,
        name: &str,
        arguments: &Map<String, Value>,
    ) -> Result<Option<Vec<PromptMessage>>, ToolError> {
        let argument = |name: &str| arguments[name].as_str().unwrap_or_default().to_owned();
        Ok(Some(match name {
            "test_simple_prompt" => vec![text("This is a simple prompt for testing.")],
            "test_prompt_with_arguments" => {
                let (one, two) = (argument("arg1"), argument("arg2"));
                vec![text(&format!("Prompt with arguments: arg1='{one}', arg2='{two}'"))]
            }
            "test_prompt_with_embedded_resource" => vec![
                said(Part::Resource {
                    uri: argument("resourceUri"),
                    content: Some("Embedded resource content for testing.".to_owned()),
                    blob: None,
                    mime: Some("text/plain".to_owned()),
                }),
                text("Please process the embedded resource above."),
            ],
            "test_prompt_with_image" => vec![
                said(Part::Image { image: PNG.to_owned(), mime: "image/png".to_owned() }),
                text("Please analyze the image above."),
            ],
            _ => return Ok(None),
        }))
    }

    fn complete(&self, prompt: &str, argument: &str, beginning: &str) -> Vec<String> {
        let words = match (prompt, argument) {
            ("test_prompt_with_arguments", "arg1") => ["paris", "park", "party"].as_slice(),
            _ => &[],
        };
        words.iter().filter(|word| word.starts_with(beginning)).map(|word| (*word).to_owned()).collect()
    }
}

#[async_trait]
impl ResourceSource for Fixtures {
    async fn resources(&self) -> Result<Vec<ResourceInfo>, ToolError> {
        let resource = |uri: &str, name: &str, mime: &str| {
            ResourceInfo::new(uri, name, mime).with_description(Some("A fixture.".to_owned()))
        };
        Ok(vec![
            resource("test://static-text", "text", "text/plain"),
            resource("test://static-binary", "image", "image/png"),
            resource("test://watched-resource", "watched", "text/plain"),
        ])
    }

    fn templates(&self) -> Vec<ResourceTemplate> {
        vec![ResourceTemplate {
            uri_template: "test://template/{id}/data".to_owned(),
            name: "data".to_owned(),
            description: "Data of an id.".to_owned(),
            mime: "application/json".to_owned(),
        }]
    }

    async fn read(&self, uri: &str) -> Result<Option<Part>, ToolError> {
        let part = |mime: &str, content: Option<String>, blob: Option<&str>| Part::Resource {
            uri: uri.to_owned(),
            content,
            blob: blob.map(str::to_owned),
            mime: Some(mime.to_owned()),
        };
        let id = uri.strip_prefix("test://template/").and_then(|rest| rest.strip_suffix("/data"));
        Ok(match (uri, id) {
            ("test://static-text", _) => Some(part(
                "text/plain",
                Some("This is the content of the static text resource.".to_owned()),
                None,
            )),
            ("test://static-binary", _) => Some(part("image/png", None, Some(PNG))),
            ("test://watched-resource", _) => Some(part("text/plain", Some("still".to_owned()), None)),
            (_, Some(id)) => {
                let data = json!({"id": id, "templateTest": true, "data": format!("Data for ID: {id}")});
                Some(part("application/json", Some(data.to_string()), None))
            }
            _ => None,
        })
    }
}
