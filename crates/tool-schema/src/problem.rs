//! Problems in the arguments of a call.

use agent_types::{ObservationCode, Problem};
use serde_json::Value;

use crate::wire::{is_wire_name, wire_name};

/// Longest value that a message repeats, in characters.
const MAX_SHOWN: usize = 60;

/// A name that the schema does not declare.
pub(crate) fn unknown(path: &str, name: &str, near: Option<&str>) -> Problem {
    let path = joined(path, name);
    let hint = near.map(|near| format!(", did you mean '{near}'?")).unwrap_or_default();
    let message = format!("Unknown parameter '{}'{hint}", parameter(&path));
    Problem::error(ObservationCode::UnknownParameter.as_str(), message).path(path).suggest(near)
}

/// A required name that is absent.
pub(crate) fn missing(path: &str, name: &str) -> Problem {
    let path = joined(path, name);
    let message = format!("Missing parameter '{}'", parameter(&path));
    Problem::error(ObservationCode::MissingParameter.as_str(), message).path(path)
}

/// Two different values for a parameter that is not a list.
pub(crate) fn duplicate(path: &str) -> Problem {
    let message = format!("Parameter '{}' given twice with different values", parameter(path));
    Problem::error(ObservationCode::DuplicateParameter.as_str(), message).path(path)
}

/// A value whose type, members, bounds or JSON text do not fit.
pub(crate) fn invalid(path: &str, expected: impl Into<String>, got: &Value) -> Problem {
    let expected = expected.into();
    let message = format!("Parameter '{}' must be {expected}, got {}", parameter(path), shown(got));
    let mut problem = Problem::error(ObservationCode::InvalidArgument.as_str(), message).path(path);
    problem.expected = Some(expected.into());
    problem
}

/// A value that repeats itself so deeply that its schema stands for too many checks.
pub(crate) fn too_deep() -> Problem {
    let message = "the arguments are nested too deeply for their schema to be checked";
    Problem::error(ObservationCode::InvalidArgument.as_str(), message).path("")
}

/// A value that is not among the legal ones.
pub(crate) fn not_a_member(path: &str, members: &[Value], got: &Value) -> Problem {
    among(invalid(path, one_of(members), got), members, got)
}

/// Adds the legal values, and the one that is near.
pub(crate) fn among(mut problem: Problem, members: &[Value], got: &Value) -> Problem {
    problem.allowed = Some(members.to_vec());
    let near =
        got.as_str().and_then(|got| agent_types::nearest(got, members.iter().filter_map(Value::as_str)));
    problem.suggest(near)
}

/// Adds that a missing parameter stands inside the value of another one.
pub(crate) fn found_inside(problem: &mut Problem, other: &str) {
    let own = parameter(problem.value_path());
    problem.message = format!("{} (`{own}` stands inside `{other}`)", problem.message);
}

/// The same with the names that a native call has: those of the provider's form.
pub(crate) fn in_native_names(mut problem: Problem) -> Problem {
    let old = problem.value_path().to_owned();
    let steps = old.split('/').skip(1).map(|step| {
        let step = step.replace("~1", "/").replace("~0", "~");
        if step.bytes().all(|byte| byte.is_ascii_digit()) { step } else { native_name(&step) }
    });
    let path = steps.fold(String::new(), |path, step| joined(&path, &step));
    if path == old {
        return problem;
    }
    let quoted = |name: &str| format!("'{name}'");
    problem.message = problem.message.replacen(&quoted(&parameter(&old)), &quoted(&parameter(&path)), 1);
    if problem.is(ObservationCode::UnknownParameter.as_str())
        && let Some(near) = problem.suggest.take()
    {
        problem.message = problem.message.replacen(&quoted(&near), &quoted(&native_name(&near)), 1);
        problem.suggest = Some(native_name(&near));
    }
    problem.path(path)
}

fn native_name(name: &str) -> String {
    if is_wire_name(name) { name.to_owned() } else { wire_name(name) }
}

/// Words for legal values.
pub(crate) fn one_of(members: &[Value]) -> String {
    format!("one of {}", members.iter().map(shown).collect::<Vec<_>>().join(", "))
}

/// A pointer one step deeper.
pub(crate) fn joined(path: &str, step: &str) -> String {
    format!("{path}/{}", step.replace('~', "~0").replace('/', "~1"))
}

/// A JSON pointer in the notation of messages: `style.width`, `points[1].x`.
#[must_use]
pub fn parameter(path: &str) -> String {
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
            unknown("", "playerId", Some("player_id")).message,
            "Unknown parameter 'playerId', did you mean 'player_id'?"
        );
        assert_eq!(
            not_a_member("/unit", &[json!("c"), json!("f")], &json!("k")).message,
            r#"Parameter 'unit' must be one of "c", "f", got "k""#
        );
        assert_eq!(missing("/style", "width").message, "Missing parameter 'style.width'");
        assert_eq!(parameter("/points/1/x"), "points[1].x");
    }

    #[test]
    fn long_values_are_shortened_at_a_character() {
        let text = shown(&json!("é".repeat(100)));
        assert_eq!(text.chars().count(), MAX_SHOWN + 1);
    }
}
