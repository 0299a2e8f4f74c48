//! Tools from Rust functions: what `#[tool]` writes is put together here.

mod blocking;
mod closure;
mod parameters;
mod result;
mod stream;

use std::future::Future;

pub use agent_types::ApprovalDefault;
use async_trait::async_trait;
pub use blocking::{on_a_thread, stuck_threads};
pub use parameters::{Arguments, Parameter, Parameters, json};
pub use result::{IntoToolError, IntoToolResult, finish, succeeded, try_finish};
use serde_json::{Map, Value};
pub use stream::collect;

use crate::context::ToolContext;
use crate::kind::ToolKind;
use crate::output::{ToolError, ToolOutput};
use crate::registry::RegistryError;
use crate::tool::{Tool, ToolHandler};

/// A function that `#[tool]` made a tool of; the type has the function's name.
///
/// ```
/// use tool_registry::{FunctionTool, tool, tools};
///
/// /// Adds two integers.
/// /// * `a` - the first of them
/// #[tool(name = "math:add", read_only)]
/// async fn add(a: i64, #[arg(default = 1, range = 0..=9)] b: i64) -> i64 {
///     a + b
/// }
///
/// assert_eq!(<add as FunctionTool>::tool()?.id().as_str(), "math:add");
/// assert_eq!(tool!(add)?.definition().parameters["properties"]["b"]["maximum"], 9);
/// let [tool] = tools![add];
/// assert_eq!(tool?.definition().defaults["b"], 1);
/// # Ok::<(), tool_registry::RegistryError>(())
/// ```
pub trait FunctionTool {
    /// Its tool.
    ///
    /// # Errors
    /// The id is invalid.
    fn tool() -> Result<Tool, RegistryError>;
}

/// A tool, or what became of one: what [`tools!`](crate::tools) and `tool!` give, and a tool that is there already.
pub trait IntoTool {
    /// The tool.
    ///
    /// # Errors
    /// Why there is none.
    fn into_tool(self) -> Result<Tool, RegistryError>;
}

impl IntoTool for Tool {
    fn into_tool(self) -> Result<Tool, RegistryError> {
        Ok(self)
    }
}

impl IntoTool for Result<Tool, RegistryError> {
    fn into_tool(self) -> Result<Tool, RegistryError> {
        self
    }
}

/// The tools of functions that `#[tool]` stands on: `tools![add, math::sub]` is a list of `Result<Tool, RegistryError>`.
#[macro_export]
macro_rules! tools {
    ($($path:path),* $(,)?) => { [$(<$path as $crate::FunctionTool>::tool()),*] };
}

/// Hints of a tool about its own behaviour.
#[doc(hidden)]
#[must_use]
#[expect(clippy::fn_params_excessive_bools, reason = "written by the macro, in the order of the fields")]
pub fn annotations(
    read_only: bool,
    effect: bool,
    idempotent: bool,
    open_world: bool,
) -> agent_types::Annotations {
    agent_types::Annotations { read_only, effect, idempotent, open_world }
}

/// A tool of its parts.
///
/// # Errors
/// The id is invalid.
#[doc(hidden)]
pub fn tool<F, Fut>(
    id: &str,
    description: &str,
    parameters: Parameters,
    function: F,
) -> Result<Tool, RegistryError>
where
    F: Fn(Arguments, ToolContext) -> Fut + Send + Sync + 'static,
    Fut: Future<Output = Result<ToolOutput, ToolError>> + Send + 'static,
{
    let definition = parameters.definition(id.parse()?, description);
    let defaults = definition.defaults.clone();
    Ok(Tool::new(definition, ToolKind::NATIVE, Function { function, defaults }))
}

struct Function<F> {
    function: F,
    defaults: Map<String, Value>,
}

#[async_trait]
impl<F, Fut> ToolHandler for Function<F>
where
    F: Fn(Arguments, ToolContext) -> Fut + Send + Sync + 'static,
    Fut: Future<Output = Result<ToolOutput, ToolError>> + Send + 'static,
{
    async fn call(&self, arguments: Map<String, Value>, cx: &ToolContext) -> Result<ToolOutput, ToolError> {
        (self.function)(Arguments::new(arguments, &self.defaults), cx.clone()).await
    }
}
