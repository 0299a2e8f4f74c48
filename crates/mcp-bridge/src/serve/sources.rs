//! Sources of prompts and resources.

use async_trait::async_trait;
use serde_json::{Map, Value};
use tool_registry::{Part, ToolError};

/// A prompt that a client's user can choose.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct PromptInfo {
    /// Its name.
    pub name: String,
    /// Display name.
    pub title: Option<String>,
    /// Purpose of the prompt.
    pub description: Option<String>,
    /// Arguments of the prompt.
    pub arguments: Vec<PromptArgument>,
}

impl PromptInfo {
    /// A prompt that takes nothing.
    #[must_use]
    pub fn new(name: impl Into<String>, description: impl Into<String>) -> Self {
        Self { name: name.into(), description: Some(description.into()), ..Self::default() }
    }

    /// The same with one more argument.
    #[must_use]
    pub fn with_argument(mut self, argument: PromptArgument) -> Self {
        self.arguments.push(argument);
        self
    }
}

/// Something that a prompt takes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PromptArgument {
    /// Its name.
    pub name: String,
    /// Meaning of the argument.
    pub description: Option<String>,
    /// `true` if the argument is required.
    pub required: bool,
}

/// Speaker of a message.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Speaker {
    /// The user.
    User,
    /// The assistant.
    Assistant,
}

/// A message of a prompt.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PromptMessage {
    /// Speaker of the message.
    pub speaker: Speaker,
    /// Content of the message.
    pub part: Part,
}

/// Source of prompts.
#[async_trait]
pub trait PromptSource: Send + Sync + std::fmt::Debug {
    /// The prompts of now.
    fn prompts(&self) -> Vec<PromptInfo>;

    /// The messages of a prompt; `None` if the prompt is unknown.
    ///
    /// # Errors
    /// The prompt cannot be made of these arguments.
    async fn prompt(
        &self,
        name: &str,
        arguments: &Map<String, Value>,
    ) -> Result<Option<Vec<PromptMessage>>, ToolError>;

    /// Values that an argument may take, which begin so.
    fn complete(&self, prompt: &str, argument: &str, beginning: &str) -> Vec<String> {
        let _ = (prompt, argument, beginning);
        Vec::new()
    }
}

/// Something that a client can read.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct ResourceInfo {
    /// Its address.
    pub uri: String,
    /// Its name.
    pub name: String,
    /// Description of the resource.
    pub description: Option<String>,
    /// Its media type.
    pub mime: Option<String>,
}

impl ResourceInfo {
    /// A resource of a name and a media type.
    #[must_use]
    pub fn new(uri: impl Into<String>, name: impl Into<String>, mime: impl Into<String>) -> Self {
        Self { uri: uri.into(), name: name.into(), mime: Some(mime.into()), description: None }
    }

    /// The same with what it is.
    #[must_use]
    pub fn with_description(mut self, description: Option<String>) -> Self {
        self.description = description;
        self
    }
}

/// Addresses that a client can make.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ResourceTemplate {
    /// Addresses with names in braces.
    pub uri_template: String,
    /// Its name.
    pub name: String,
    /// Description of the resources at such addresses.
    pub description: String,
    /// The media type of what is there.
    pub mime: String,
}

/// Source of resources.
#[async_trait]
pub trait ResourceSource: Send + Sync + std::fmt::Debug {
    /// The resources of now.
    ///
    /// # Errors
    /// They cannot be listed.
    async fn resources(&self) -> Result<Vec<ResourceInfo>, ToolError>;

    /// Addresses that a client can make.
    fn templates(&self) -> Vec<ResourceTemplate> {
        Vec::new()
    }

    /// Reads the resource at an address, as [`Part::Resource`]; `None` if the address is unknown.
    ///
    /// # Errors
    /// It cannot be read.
    async fn read(&self, uri: &str) -> Result<Option<Part>, ToolError>;

    /// Values that a name of a template may take, which begin so.
    fn complete(&self, uri_template: &str, name: &str, beginning: &str) -> Vec<String> {
        let _ = (uri_template, name, beginning);
        Vec::new()
    }
}
