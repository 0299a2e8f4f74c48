//! Problems in the arguments of a call.

use agent_types::Fault;
use serde::Serialize;
use serde_json::Value;

/// Longest value that a message repeats, in characters.
const MAX_SHOWN: usize = 60;

/// The kind of a problem.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum ProblemCode {
    /// Not declared.
    UnknownParameter,
    /// Required and absent.
    MissingParameter,
    /// Two different values for a parameter that is not a list.
    DuplicateParameter,
    /// Type, members, bounds or JSON text do not fit.
    InvalidArgument,
}

impl ProblemCode {
    /// Stable name on the wire.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::UnknownParameter => "unknown_parameter",
            Self::MissingParameter => "missing_parameter",
            Self::DuplicateParameter => "duplicate_parameter",
            Self::InvalidArgument => "invalid_argument",
        }
    }
}

/// Fault of the arguments, with its location.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[non_exhaustive]
pub struct Problem {
    /// JSON pointer to the value, or to where it should be.
    pub path: String,
    /// The kind.
    pub code: ProblemCode,
    /// A sentence without a full stop, as the model reads it.
    pub message: String,
    /// The type or form that fits.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub expected: Option<String>,
    /// The members, where only some values are legal.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub allowed: Option<Vec<Value>>,
    /// Suggested name or member.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub suggest: Option<String>,
    /// Received value, shortened, for messages.
    #[serde(skip)]
    pub got: String,
}

impl Problem {
    /// The first step of the path: the parameter.
    #[must_use]
    pub fn parameter(&self) -> String {
        dotted(&self.path)
    }

    /// The same as a part of an observation.
    #[must_use]
    pub fn fault(&self) -> Fault {
        let parameter = self.parameter();
        match self.code {
            ProblemCode::UnknownParameter => Fault::Unknown { parameter, near: self.suggest.clone() },
            ProblemCode::MissingParameter => Fault::Missing { parameter },
            ProblemCode::DuplicateParameter => Fault::Duplicate { parameter },
            ProblemCode::InvalidArgument => Fault::Invalid {
                parameter,
                expected: self.expected.clone().unwrap_or_default(),
                got: self.got.clone(),
            },
        }
    }

    pub(crate) fn unknown(path: &str, name: &str, near: Option<&str>) -> Self {
        let path = joined(path, name);
        Self::new(path, ProblemCode::UnknownParameter).suggesting(near.map(str::to_owned)).worded()
    }

    pub(crate) fn missing(path: &str, name: &str) -> Self {
        Self::new(joined(path, name), ProblemCode::MissingParameter).worded()
    }

    pub(crate) fn duplicate(path: &str) -> Self {
        Self::new(path.to_owned(), ProblemCode::DuplicateParameter).worded()
    }

    pub(crate) fn invalid(path: &str, expected: impl Into<String>, got: &Value) -> Self {
        let mut problem = Self::new(path.to_owned(), ProblemCode::InvalidArgument);
        problem.expected = Some(expected.into());
        problem.got = shown(got);
        problem.worded()
    }

    pub(crate) fn not_a_member(path: &str, members: &[Value], got: &Value) -> Self {
        let list: Vec<String> = members.iter().map(shown).collect();
        let mut problem = Self::invalid(path, format!("one of {}", list.join(", ")), got);
        problem.suggest = got.as_str().and_then(|got| {
            agent_types::nearest(got, members.iter().filter_map(Value::as_str)).map(str::to_owned)
        });
        problem.allowed = Some(members.to_vec());
        problem
    }

    fn new(path: String, code: ProblemCode) -> Self {
        let (message, got) = (String::new(), String::new());
        Self { path, code, message, expected: None, allowed: None, suggest: None, got }
    }

    fn suggesting(mut self, near: Option<String>) -> Self {
        self.suggest = near;
        self
    }

    fn worded(mut self) -> Self {
        self.message = self.fault().to_string();
        self
    }
}

/// A pointer one step deeper.
pub(crate) fn joined(path: &str, step: &str) -> String {
    format!("{path}/{}", step.replace('~', "~0").replace('/', "~1"))
}

/// A JSON pointer as people write a path: `style.width`, `points[1].x`.
fn dotted(path: &str) -> String {
    let mut out = String::new();
    for step in path.split('/').skip(1) {
        let step = step.replace("~1", "/").replace("~0", "~");
        if !out.is_empty() && step.bytes().all(|b| b.is_ascii_digit()) {
            out.extend(["[", &step, "]"]);
        } else {
            out.push_str(if out.is_empty() { "" } else { "." });
            out.push_str(&step);
        }
    }
    out
}

/// A value as compact JSON, shortened.
pub(crate) fn shown(value: &Value) -> String {
    let text = value.to_string();
    match text.char_indices().nth(MAX_SHOWN) {
        Some((end, _)) => format!("{}…", &text[..end]),
        None => text,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn messages_read_as_observations_do() {
        assert_eq!(
            Problem::unknown("", "playerId", Some("player_id")).message,
            "Unknown parameter 'playerId', did you mean 'player_id'?"
        );
        assert_eq!(
            Problem::not_a_member("/unit", &[json!("c"), json!("f")], &json!("k")).message,
            r#"Parameter 'unit' must be one of "c", "f", got "k""#
        );
        assert_eq!(Problem::missing("/style", "width").message, "Missing parameter 'style.width'");
        assert_eq!(Problem::duplicate("/points/1/x").parameter(), "points[1].x");
    }

    #[test]
    fn long_values_are_shortened_at_a_character() {
        let text = shown(&json!("é".repeat(100)));
        assert_eq!(text.chars().count(), MAX_SHOWN + 1);
    }
}
