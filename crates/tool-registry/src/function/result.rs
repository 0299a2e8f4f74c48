//! From what a function returns to the result of a call.

use std::any::Any;
use std::fmt::Display;

use serde::Serialize;
use serde_json::Value;

use crate::output::{ToolError, ToolErrorKind, ToolOutput};

/// Return value of a tool's function: anything that serialises, or a [`ToolOutput`]. A function that may fail is given
/// to [`Tool::try_func`](crate::Tool::try_func).
pub trait IntoToolResult {
    /// The result of the call.
    ///
    /// # Errors
    /// The value cannot be represented as JSON.
    fn into_tool_result(self) -> Result<ToolOutput, ToolError>;
}

impl<T: Serialize + 'static> IntoToolResult for T {
    fn into_tool_result(self) -> Result<ToolOutput, ToolError> {
        let value = match taken::<T, ToolOutput>(self) {
            Ok(output) => return Ok(output),
            Err(value) => value,
        };
        let value = serde_json::to_value(value).map_err(|error| {
            ToolError::new(
                ToolErrorKind::Failed,
                format!("the result cannot be represented as JSON: {error}"),
            )
        })?;
        Ok(match value {
            Value::String(text) => ToolOutput::Text(text),
            value => ToolOutput::Json(value),
        })
    }
}

/// The value, if it is a `W`.
fn taken<T: 'static, W: 'static>(value: T) -> Result<W, T> {
    let mut value = Some(value);
    let wanted = (&mut value as &mut dyn Any).downcast_mut::<Option<W>>().and_then(Option::take);
    match (wanted, value) {
        (Some(wanted), _) => Ok(wanted),
        // Only one of the two can be there.
        (None, Some(value)) => Err(value),
        (None, None) => unreachable!("a value is not taken and not left"),
    }
}

/// Error of a tool's function: a [`ToolError`] as it is, anything else by its text, which the model reads.
pub trait IntoToolError {
    /// The failure of the call.
    fn into_tool_error(self) -> ToolError;
}

impl<E: Display + 'static> IntoToolError for E {
    fn into_tool_error(self) -> ToolError {
        taken::<E, ToolError>(self).unwrap_or_else(|error| ToolError::failed(error.to_string()))
    }
}

/// The result of a function that cannot fail.
///
/// # Errors
/// The returned value cannot be represented as JSON.
#[doc(hidden)]
pub fn finish(result: impl IntoToolResult) -> Result<ToolOutput, ToolError> {
    result.into_tool_result()
}

/// The result of a function that may fail.
///
/// # Errors
/// The function failed, or its value cannot be represented as JSON.
#[doc(hidden)]
pub fn try_finish<T: IntoToolResult, E: IntoToolError>(
    result: Result<T, E>,
) -> Result<ToolOutput, ToolError> {
    succeeded(result)?.into_tool_result()
}

/// Converts the result of a function that may fail.
///
/// # Errors
/// It failed.
#[doc(hidden)]
pub fn succeeded<T, E: IntoToolError>(result: Result<T, E>) -> Result<T, ToolError> {
    result.map_err(IntoToolError::into_tool_error)
}
