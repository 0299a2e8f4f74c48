//! Problems: everything that is wrong with a file, a workflow or the arguments of a call.

use serde::Serialize;
use serde_json::Value;

/// Severity of a problem.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Severity {
    /// The file cannot be used.
    Error,
    /// The file can be used, and a part of it has less effect than its author may expect.
    Warning,
}

impl Severity {
    /// Name on the wire.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Error => "error",
            Self::Warning => "warning",
        }
    }
}

/// Location of a problem within what was checked; empty for the whole of it.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct ProblemPlace {
    /// Path of a node of a workflow, as in `group/inner`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub node: Option<String>,
    /// Slot, setting or other key of a workflow.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub slot: Option<String>,
    /// Nodes of a cycle, each feeding the next and the last one the first.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub nodes: Vec<String>,
    /// Value of a file or of arguments, as a JSON pointer or as keys with dots between them.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub path: Option<String>,
}

impl std::fmt::Display for ProblemPlace {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let parts = [&self.path, &self.node, &self.slot].into_iter().flatten().map(String::as_str);
        f.write_str(&parts.collect::<Vec<_>>().join("."))
    }
}

/// Something that is wrong, with its location and the name that was probably meant. Small, so that results are.
///
/// ```
/// use agent_types::Problem;
///
/// let problem = Problem::error("unknown_key", "`nmae` is not known here").path("/tools/0/nmae").suggest(Some("name"));
/// assert_eq!(problem.to_string(), "/tools/0/nmae: `nmae` is not known here; did you mean `name`?");
/// assert_eq!(
///     serde_json::to_value(&problem)?,
///     serde_json::json!({"code": "unknown_key", "severity": "error", "path": "/tools/0/nmae",
///         "message": "`nmae` is not known here", "suggest": "name"}),
/// );
/// # Ok::<(), serde_json::Error>(())
/// ```
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct Problem {
    /// Stable code for logs, tests and the wire.
    pub code: &'static str,
    /// Severity.
    pub severity: Severity,
    /// Location.
    #[serde(flatten)]
    pub place: Box<ProblemPlace>,
    /// Description for the user.
    pub message: String,
    /// The type or form that fits.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub expected: Option<Box<str>>,
    /// Legal values, where only some are.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub allowed: Option<Vec<Value>>,
    /// Name or value that was probably meant.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub suggest: Option<String>,
}

impl Problem {
    /// A problem that keeps its subject from being used.
    #[must_use]
    pub fn error(code: impl Into<&'static str>, message: impl Into<String>) -> Self {
        Self {
            code: code.into(),
            severity: Severity::Error,
            place: Box::default(),
            message: message.into(),
            expected: None,
            allowed: None,
            suggest: None,
        }
    }

    /// A problem that the author should know of.
    #[must_use]
    pub fn warning(code: impl Into<&'static str>, message: impl Into<String>) -> Self {
        Self { severity: Severity::Warning, ..Self::error(code, message) }
    }

    /// A setting of a node that cannot be used.
    #[must_use]
    pub fn setting(key: impl Into<String>, message: impl Into<String>) -> Self {
        Self::error("bad_value", message).slot(key)
    }

    /// The same problem, about the value at a path.
    #[must_use]
    pub fn path(mut self, path: impl Into<String>) -> Self {
        self.place.path = Some(path.into());
        self
    }

    /// The same problem, about a node.
    #[must_use]
    pub fn at(mut self, node: impl Into<String>) -> Self {
        self.place.node = Some(node.into());
        self
    }

    /// The same problem, about a slot or key.
    #[must_use]
    pub fn slot(self, slot: impl Into<String>) -> Self {
        self.slot_of(Some(slot))
    }

    /// The same problem, about a slot or key where one is named.
    #[must_use]
    pub fn slot_of(mut self, slot: Option<impl Into<String>>) -> Self {
        self.place.slot = slot.map(Into::into);
        self
    }

    /// The same problem, about a cycle of nodes.
    #[must_use]
    pub fn cycle(mut self, nodes: Vec<String>) -> Self {
        self.place.node = nodes.first().cloned();
        self.place.nodes = nodes;
        self
    }

    /// The same problem with the name that was probably meant.
    #[must_use]
    pub fn suggest(mut self, name: Option<impl Into<String>>) -> Self {
        self.suggest = name.map(Into::into);
        self
    }

    /// Path of the value; empty where it is the whole.
    #[must_use]
    pub fn value_path(&self) -> &str {
        self.place.path.as_deref().unwrap_or_default()
    }

    /// Returns `true` for a problem of that code.
    #[must_use]
    pub fn is(&self, code: impl Into<&'static str>) -> bool {
        self.code == code.into()
    }

    /// Returns `true` if no problem is an error.
    #[must_use]
    pub fn are_warnings(problems: &[Self]) -> bool {
        problems.iter().all(|problem| problem.severity == Severity::Warning)
    }

    /// The messages of all problems as one text, without their places.
    #[must_use]
    pub fn messages(problems: &[Self]) -> String {
        problems.iter().map(|problem| problem.message.as_str()).collect::<Vec<_>>().join("; ")
    }
}

impl std::fmt::Display for Problem {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        if *self.place == ProblemPlace::default() {
            f.write_str(&self.message)?;
        } else {
            write!(f, "{}: {}", self.place, self.message)?;
        }
        match &self.suggest {
            Some(near) => write!(f, "; did you mean `{near}`?"),
            None => Ok(()),
        }
    }
}

/// Declares the codes of a crate's problems as an enum `ProblemCode` with its names on the wire.
#[macro_export]
macro_rules! problem_codes {
    ($($(#[$doc:meta])* $variant:ident = $code:literal,)+) => {
        /// Codes of problems; the form on the wire is never reworded.
        #[derive(Debug, Clone, Copy, PartialEq, Eq)]
        #[non_exhaustive]
        pub enum ProblemCode {
            $($(#[$doc])* $variant,)+
        }

        impl ProblemCode {
            /// Stable name on the wire.
            #[must_use]
            pub const fn as_str(self) -> &'static str {
                match self { $(Self::$variant => $code,)+ }
            }
        }

        impl From<ProblemCode> for &'static str {
            fn from(code: ProblemCode) -> Self {
                code.as_str()
            }
        }
    };
}
