//! Errors of expressions.

/// Reason why an expression is unusable.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ExpressionError {
    /// It is not written in CEL.
    #[error("`{source_text}` is not a valid expression: {message}")]
    Syntax {
        /// The expression.
        source_text: String,
        /// Message of the parser.
        message: String,
    },
    /// It uses an undefined name.
    #[error("`{source_text}` uses `{name}`, which is not there")]
    UnknownName {
        /// The expression.
        source_text: String,
        /// The name, with its members as far as they are wrong.
        name: String,
        /// The name that was probably meant.
        suggest: Option<String>,
    },
    /// It has no value for these inputs.
    #[error("`{source_text}` cannot be evaluated: {message}")]
    Evaluation {
        /// The expression.
        source_text: String,
        /// Reason of the failure.
        message: String,
        /// Set if the reason is a member that a value does not have.
        missing: bool,
    },
}

impl ExpressionError {
    /// Returns `true` if the expression failed because a value does not have a member.
    #[must_use]
    pub const fn is_missing(&self) -> bool {
        matches!(self, Self::Evaluation { missing: true, .. })
    }

    /// Name that was probably meant.
    #[must_use]
    pub fn suggestion(&self) -> Option<String> {
        match self {
            Self::UnknownName { suggest, .. } => suggest.clone(),
            Self::Syntax { .. } | Self::Evaluation { .. } => None,
        }
    }
}
