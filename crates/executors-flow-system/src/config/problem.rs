//! Problems of a file, all reported at once, each with its place.

use agent_types::{Problem, Severity};

/// Reason for which a file cannot be used.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum FlowsError {
    /// The text is not valid JSON.
    #[error("line {line}, column {column}: {message}")]
    Json {
        /// From 1.
        line: usize,
        /// From 1, in bytes.
        column: usize,
        /// Message of the JSON parser.
        message: String,
    },
    /// The file says what cannot be done.
    #[error("{}", .problems.iter().map(ToString::to_string).collect::<Vec<_>>().join("\n"))]
    Problems {
        /// All problems, warnings among them.
        problems: Vec<Problem>,
    },
}

impl FlowsError {
    /// Stable code for logs, tests and the wire.
    #[must_use]
    pub fn code(&self) -> &'static str {
        match self {
            Self::Json { .. } => "bad_json",
            Self::Problems { problems } => problems
                .iter()
                .find(|problem| problem.severity == Severity::Error)
                .map_or("bad_flows", |first| first.code),
        }
    }
}

/// Gathers problems.
#[derive(Debug, Default)]
pub(crate) struct Problems(Vec<Problem>);

impl Problems {
    pub(crate) fn add(&mut self, problem: Problem) {
        self.0.push(problem);
    }

    pub(crate) fn error(&mut self, path: impl Into<String>, code: &'static str, message: impl Into<String>) {
        self.near(path, code, message, None);
    }

    /// An error about a name, with the one that was probably meant.
    pub(crate) fn near(
        &mut self,
        path: impl Into<String>,
        code: &'static str,
        message: impl Into<String>,
        suggest: Option<String>,
    ) {
        self.add(Problem::error(code, message).path(path).suggest(suggest));
    }

    pub(crate) fn warning(
        &mut self,
        path: impl Into<String>,
        code: &'static str,
        message: impl Into<String>,
    ) {
        self.add(Problem::warning(code, message).path(path));
    }

    /// A tool that is not there, and without which the rest works.
    pub(crate) fn missing_tool(&mut self, path: impl Into<String>, message: String, suggest: Option<String>) {
        self.add(Problem::warning("unknown_tool", message).path(path).suggest(suggest));
    }

    /// A problem of a request or a template below `path`.
    pub(crate) fn http(&mut self, path: &str, problem: Problem) {
        let parts = problem.value_path().splitn(3, '.').filter(|part| !part.is_empty());
        let path = parts.fold(path.to_owned(), |all, part| all + "/" + &escaped(part));
        self.add(problem.path(path));
    }

    /// The warnings, where nothing is worse.
    pub(crate) fn into_result(self) -> Result<Vec<Problem>, FlowsError> {
        if Problem::are_warnings(&self.0) {
            Ok(self.0)
        } else {
            Err(FlowsError::Problems { problems: self.0 })
        }
    }
}

/// A name as a part of a JSON pointer.
pub(crate) fn escaped(part: &str) -> String {
    part.replace('~', "~0").replace('/', "~1")
}
