//! Tools from Rust functions, without a macro.

use std::future::Future;
use std::marker::PhantomData;

use agent_types::ToolDefinition;
use async_trait::async_trait;
use schemars::JsonSchema;
use serde::de::DeserializeOwned;
use serde_json::{Map, Value};

use super::IntoToolResult;
use super::result::{finish, try_finish};
use crate::context::ToolContext;
use crate::kind::ToolKind;
use crate::output::{ToolError, ToolErrorKind, ToolOutput};
use crate::registry::RegistryError;
use crate::tool::{Tool, ToolHandler};

impl Tool {
    /// A native tool of an async function; the schema is that of its argument type.
    ///
    /// # Errors
    /// The id is invalid.
    pub fn func<A, F, Fut, O>(id: &str, description: &str, function: F) -> Result<Self, RegistryError>
    where
        A: DeserializeOwned + JsonSchema + Send + 'static,
        F: Fn(A, ToolContext) -> Fut + Send + Sync + 'static,
        Fut: Future<Output = O> + Send + 'static,
        O: IntoToolResult + 'static,
    {
        let definition = ToolDefinition::of_type::<A>(id.parse()?, description);
        let handler = Func { function, arguments: PhantomData };
        Ok(Self::new(definition, ToolKind::NATIVE, handler))
    }

    /// The same for a function that may fail.
    ///
    /// # Errors
    /// The id is invalid.
    pub fn try_func<A, F, Fut, O>(id: &str, description: &str, function: F) -> Result<Self, RegistryError>
    where
        A: DeserializeOwned + JsonSchema + Send + 'static,
        F: Fn(A, ToolContext) -> Fut + Send + Sync + 'static,
        Fut: Future<Output = Result<O, ToolError>> + Send + 'static,
        O: IntoToolResult + 'static,
    {
        let definition = ToolDefinition::of_type::<A>(id.parse()?, description);
        let handler = TryFunc { function, arguments: PhantomData };
        Ok(Self::new(definition, ToolKind::NATIVE, handler))
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
