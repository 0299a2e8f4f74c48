//! Tools from Rust functions, without a macro.

use std::future::Future;
use std::marker::PhantomData;

use async_trait::async_trait;
use schemars::JsonSchema;
use serde::de::DeserializeOwned;
use serde_json::{Map, Value};
use tool_schema::ToolDefinition;

use super::IntoToolResult;
use super::result::{finish, try_finish};
use crate::context::ToolContext;
use crate::output::{ToolError, ToolErrorKind, ToolOutput};
use crate::registry::RegistryError;
use crate::tool::{Tool, ToolHandler, ToolKind};

impl Tool {
    /// A native tool of an async function; the schema is that of its argument type.
    ///
    /// # Errors
    /// An id that is none, or a type whose schema cannot be used.
    pub fn func<A, F, Fut, O>(id: &str, description: &str, function: F) -> Result<Self, RegistryError>
    where
        A: DeserializeOwned + JsonSchema + Send + 'static,
        F: Fn(A, ToolContext) -> Fut + Send + Sync + 'static,
        Fut: Future<Output = O> + Send + 'static,
        O: IntoToolResult + 'static,
    {
        let definition = ToolDefinition::of_type::<A>(id.parse()?, description);
        let handler = Func { function, arguments: PhantomData };
        Ok(Self::new(definition, ToolKind::Native, handler)?)
    }

    /// The same for a function that may fail.
    ///
    /// # Errors
    /// An id that is none, or a type whose schema cannot be used.
    pub fn try_func<A, F, Fut, O>(id: &str, description: &str, function: F) -> Result<Self, RegistryError>
    where
        A: DeserializeOwned + JsonSchema + Send + 'static,
        F: Fn(A, ToolContext) -> Fut + Send + Sync + 'static,
        Fut: Future<Output = Result<O, ToolError>> + Send + 'static,
        O: IntoToolResult + 'static,
    {
        let definition = ToolDefinition::of_type::<A>(id.parse()?, description);
        let handler = TryFunc { function, arguments: PhantomData };
        Ok(Self::new(definition, ToolKind::Native, handler)?)
    }
}

struct Func<A, F> {
    function: F,
    arguments: PhantomData<fn() -> A>,
}

struct TryFunc<A, F> {
    function: F,
    arguments: PhantomData<fn() -> A>,
}

fn decoded<A: DeserializeOwned>(arguments: Map<String, Value>) -> Result<A, ToolError> {
    serde_json::from_value(Value::Object(arguments))
        .map_err(|error| ToolError::new(ToolErrorKind::InvalidArguments, error.to_string()))
}

#[async_trait]
impl<A, F, Fut, O> ToolHandler for Func<A, F>
where
    A: DeserializeOwned + Send + 'static,
    F: Fn(A, ToolContext) -> Fut + Send + Sync + 'static,
    Fut: Future<Output = O> + Send + 'static,
    O: IntoToolResult + 'static,
{
    async fn call(&self, arguments: Map<String, Value>, cx: &ToolContext) -> Result<ToolOutput, ToolError> {
        finish((self.function)(decoded(arguments)?, cx.clone()).await)
    }
}

#[async_trait]
impl<A, F, Fut, O> ToolHandler for TryFunc<A, F>
where
    A: DeserializeOwned + Send + 'static,
    F: Fn(A, ToolContext) -> Fut + Send + Sync + 'static,
    Fut: Future<Output = Result<O, ToolError>> + Send + 'static,
    O: IntoToolResult + 'static,
{
    async fn call(&self, arguments: Map<String, Value>, cx: &ToolContext) -> Result<ToolOutput, ToolError> {
        try_finish((self.function)(decoded(arguments)?, cx.clone()).await)
    }
}
