//! Failures of requests in the words of tools.

use http_caller::HttpError;
use tool_registry::{FaultOrigin, ToolError, ToolErrorKind};

/// The same failure in the words of tools.
pub(crate) fn tool_error(error: &HttpError) -> ToolError {
    let kind = match error {
        HttpError::BadArgument { .. } | HttpError::BadHeaderValue { .. } => ToolErrorKind::InvalidArguments,
        HttpError::Timeout { .. } => ToolErrorKind::Timeout,
        HttpError::MissingContext { .. }
        | HttpError::MissingSecret { .. }
        | HttpError::SecretNotAllowed { .. }
        | HttpError::Blocked { .. } => ToolErrorKind::Refused,
        _ => ToolErrorKind::Failed,
    };
    let mut failed =
        ToolError::new(kind, error.to_string()).with_code(error.code()).retryable(error.is_retryable());
    if let HttpError::Status { retry_after, status, .. } = error {
        failed.retry_after = *retry_after;
        failed = failed.with_origin(FaultOrigin { status: Some(*status), ..FaultOrigin::default() });
    }
    match error.help() {
        Some(help) => failed.with_detail(help),
        None => failed,
    }
}
