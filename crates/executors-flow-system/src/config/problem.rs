//! Problems of a file, all reported at once, each with its place.

use std::fmt;

use agent_types::Severity;
use http_caller::ConfigProblem;
use serde::Serialize;

/// Something wrong with a file.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct Problem {
    /// Stable code for logs, tests and the wire.
    pub code: &'static str,
    /// Severity.
    pub severity: Severity,
    /// Place, as a JSON pointer.
    pub path: String,
    /// Message.
    pub message: String,
    /// The name that was probably meant.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub suggest: Option<String>,
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.path, self.message)?;
        match &self.suggest {
            Some(near) => write!(f, "; did you mean `{near}`?"),
            None => Ok(()),
        }
    }
}

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
        let (path, message) = (path.into(), message.into());
        self.add(Problem { code, severity: Severity::Error, path, message, suggest });
    }

    pub(crate) fn warning(
        &mut self,
        path: impl Into<String>,
        code: &'static str,
        message: impl Into<String>,
    ) {
        let (path, message) = (path.into(), message.into());
        self.add(Problem { code, severity: Severity::Warning, path, message, suggest: None });
    }

    /// A tool that is not there, and without which the rest works.
    pub(crate) fn missing_tool(&mut self, path: impl Into<String>, message: String, suggest: Option<String>) {
        let (code, severity, path) = ("unknown_tool", Severity::Warning, path.into());
        self.add(Problem { code, severity, path, message, suggest });
    }

    /// A problem of a request or a template below `path`.
    pub(crate) fn http(&mut self, path: &str, problem: &ConfigProblem) {
        let inner: String = problem
            .path
            .splitn(3, '.')
            .filter(|part| !part.is_empty())
            .fold(String::new(), |all, part| all + "/" + &escaped(part));
        let path = format!("{path}{inner}");
        self.near(path, problem.code.as_str(), problem.message.as_str(), problem.suggest.clone());
    }

    /// The warnings, where nothing is worse.
    pub(crate) fn into_result(self) -> Result<Vec<Problem>, FlowsError> {
        if self.0.iter().any(|problem| problem.severity == Severity::Error) {
            return Err(FlowsError::Problems { problems: self.0 });
        }
        Ok(self.0)
    }
}

/// A name as a part of a JSON pointer.
pub(crate) fn escaped(part: &str) -> String {
    part.replace('~', "~0").replace('/', "~1")
}
