//! Status, code and message of the end of a call.

use std::borrow::Cow;

use agent_types::{ToolFault, ToolStatus};

use crate::invoke::CallEnd;
use crate::output::{INTERNAL_ERROR, ToolErrorKind};

impl CallEnd {
    /// Fault of a call that failed, for programs.
    #[must_use]
    pub fn fault(&self) -> Option<Box<ToolFault>> {
        let detail = match self {
            Self::Ok(_) => return None,
            Self::Failed(error) => error.detail.clone(),
            Self::Panicked { message } => Some(message.clone()),
            Self::TimedOut { .. } | Self::Cancelled => None,
        };
        let kind = self.status().as_str().to_owned();
        let known = ToolFault { kind, retryable: self.is_retryable(), detail, ..ToolFault::new(self.code()) };
        let Self::Failed(error) = self else { return Some(Box::new(known)) };
        let Some(origin) = error.origin.as_deref().cloned() else { return Some(Box::new(known)) };
        let (kind, code) = (origin.kind.unwrap_or(known.kind), origin.code.unwrap_or(known.code));
        Some(Box::new(ToolFault { kind, code, node: origin.node, status: origin.status, ..known }))
    }

    /// Status of the call, as events record it.
    #[must_use]
    pub fn status(&self) -> ToolStatus {
        match self {
            Self::Ok(_) => ToolStatus::Ok,
            Self::Failed(error) => match error.kind {
                ToolErrorKind::Refused => ToolStatus::Refused,
                ToolErrorKind::Timeout => ToolStatus::Timeout,
                ToolErrorKind::Cancelled => ToolStatus::Cancelled,
                ToolErrorKind::Failed | ToolErrorKind::InvalidArguments => ToolStatus::Failed,
            },
            Self::Panicked { .. } => ToolStatus::Panicked,
            Self::TimedOut { .. } => ToolStatus::Timeout,
            Self::Cancelled => ToolStatus::Cancelled,
        }
    }

    /// Stable code: `ok`, or what went wrong, as fine as the tool says it.
    #[must_use]
    pub fn code(&self) -> &'static str {
        match self {
            Self::Ok(_) => "ok",
            Self::Failed(error) => error.code.unwrap_or(match error.kind {
                ToolErrorKind::InvalidArguments => "invalid_argument",
                ToolErrorKind::Timeout => "timeout",
                ToolErrorKind::Refused => "refused",
                ToolErrorKind::Cancelled => "cancelled",
                ToolErrorKind::Failed => "failed",
            }),
            Self::Panicked { .. } => "panicked",
            Self::TimedOut { .. } => "timeout",
            Self::Cancelled => "cancelled",
        }
    }

    /// The result, or what went wrong in a sentence.
    #[must_use]
    pub fn message(&self) -> Cow<'_, str> {
        match self {
            Self::Ok(output) => output.shown(),
            Self::Failed(error) => error.message_for_model.as_str().into(),
            Self::Panicked { .. } => INTERNAL_ERROR.into(),
            Self::TimedOut { limit } => format!("no answer within {} ms", limit.as_millis()).into(),
            Self::Cancelled => "cancelled".into(),
        }
    }

    /// Returns `true` if the same call may succeed later.
    #[must_use]
    pub fn is_retryable(&self) -> bool {
        match self {
            Self::Failed(error) => error.retryable,
            Self::TimedOut { .. } | Self::Cancelled => true,
            Self::Ok(_) | Self::Panicked { .. } => false,
        }
    }
}
