//! Errors of sessions: messages that cannot be handled, and actions of a person that do not apply.

use agent_runtime::AgentError;

use crate::flows::ByIdError;
use crate::store::SessionError;

/// Reason for which a message could not be handled at all. A failure while it is handled is in
/// [`Handled`](crate::Handled).
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum OrchestratorError {
    /// The agent cannot run.
    #[error(transparent)]
    Agent(#[from] AgentError),
    /// The session cannot be read or kept.
    #[error(transparent)]
    Session(#[from] SessionError),
    /// An action of a person does not apply.
    #[error(transparent)]
    Seat(#[from] SeatError),
    /// A flow or system action cannot be run by its id.
    #[error(transparent)]
    ById(#[from] ByIdError),
}

impl OrchestratorError {
    /// Returns `true` where an action of a person does not apply.
    #[must_use]
    pub const fn is_of_seat(&self) -> bool {
        matches!(self, Self::Seat(_))
    }

    /// Returns `true` where a flow or system action cannot be run by its id.
    #[must_use]
    pub const fn is_of_id(&self) -> bool {
        matches!(self, Self::ById(_))
    }

    /// Stable code for logs, tests and the wire.
    #[must_use]
    pub const fn code(&self) -> &'static str {
        match self {
            Self::Agent(error) => error.code(),
            Self::Session(error) => error.code,
            Self::Seat(error) => error.code(),
            Self::ById(error) => error.code(),
        }
    }
}

/// Reason for which an action of a person does not apply.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum SeatError {
    /// Another person has the session.
    #[error("`{person}` has the session")]
    Taken {
        /// The person.
        person: String,
    },
    /// The agent answers in the session.
    #[error("the session was not handed off")]
    NotHandedOff,
    /// The session is closed.
    #[error("the session is closed")]
    Closed,
    /// The session is not closed.
    #[error("the session is not closed")]
    NotClosed,
}

impl SeatError {
    /// Stable code for logs, tests and the wire.
    #[must_use]
    pub const fn code(&self) -> &'static str {
        match self {
            Self::Taken { .. } => "session_taken",
            Self::NotHandedOff => "not_handed_off",
            Self::Closed => "session_closed",
            Self::NotClosed => "not_closed",
        }
    }
}
