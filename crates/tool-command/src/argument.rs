//! Arguments of a program: literals, and values of a call that stay whole arguments.

use agent_types::{Problem, nearest};
use serde_json::{Map, Value};
use tool_registry::{ToolError, ToolErrorKind};

/// Argument behind which no program reads options.
const NO_MORE_OPTIONS: &str = "--";

/// An argument of `command`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Argument {
    /// A text as it stands.
    Literal(String),
    /// A value between two texts.
    Filled { before: String, name: String, after: String },
}

/// Names that placeholders may hold.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Names<'n>(pub(crate) &'n Value);

impl Names<'_> {
    /// Checks the name of a placeholder.
    pub(crate) fn check(self, name: &str, path: &str) -> Result<(), Problem> {
        let properties = self.0.get("properties").and_then(Value::as_object);
        let mut known = properties.into_iter().flatten().map(|(name, _)| name.as_str());
        if known.clone().any(|other| other == name) {
            return Ok(());
        }
        if name.starts_with('$') {
            return Err(Problem::error(
                "command_placeholder",
                format!("`{{{name}}}` cannot stand here: other programs see arguments; give it in `env`"),
            )
            .path(path));
        }
        let near = nearest(name, &mut known);
        Err(Problem::error("unknown_placeholder", format!("`{{{name}}}` names no parameter"))
            .path(path)
            .suggest(near))
    }
}

impl Argument {
    /// Reads an argument; `{{` and `}}` are braces.
    pub(crate) fn parse(text: &str, names: Names<'_>, path: &str) -> Result<Self, Problem> {
        let bad = |message: String| Problem::error("command_placeholder", message).path(path);
        let (mut before, mut name) = (String::new(), None::<String>);
        let mut after = String::new();
        let mut rest = text;
        while let Some(at) = rest.find(['{', '}']) {
            let place = if name.is_some() { &mut after } else { &mut before };
            place.push_str(&rest[..at]);
            let brace = &rest[at..=at];
            rest = &rest[at + 1..];
            if let Some(more) = rest.strip_prefix(brace) {
                place.push_str(brace);
                rest = more;
                continue;
            }
            let found = if brace == "{" { rest.split_once('}') } else { None };
            let Some((found, more)) = found else {
                return Err(bad(format!("`{brace}` stands alone; write `{brace}{brace}` for a brace")));
            };
            if name.is_some() {
                return Err(bad("an argument holds one placeholder; make it two arguments".into()));
            }
            names.check(found, path)?;
            name = Some(found.to_owned());
            rest = more;
        }
        Ok(match name {
            Some(name) => Self::Filled { before, name, after: after + rest },
            None => Self::Literal(before + rest),
        })
    }

    /// Returns `true` if a value stands in it.
    pub(crate) const fn is_filled(&self) -> bool {
        matches!(self, Self::Filled { .. })
    }
}

/// The arguments of a call.
///
/// # Errors
/// A value that a program would take as an option, or that no argument can hold.
pub(crate) fn filled(arguments: &[Argument], values: &Map<String, Value>) -> Result<Vec<String>, ToolError> {
    let mut all = Vec::new();
    let mut options_end = false;
    for argument in arguments {
        match argument {
            Argument::Literal(text) => {
                options_end |= text == NO_MORE_OPTIONS;
                all.push(text.clone());
            }
            Argument::Filled { before, name, after } => {
                let may_be_option = before.is_empty() && !options_end;
                for text in texts(values.get(name)) {
                    all.push(format!("{before}{}{after}", checked(name, text?, may_be_option)?));
                }
            }
        }
    }
    Ok(all)
}

type Number = bool;

/// The texts of a value: one for each item of a list, none where it is absent.
fn texts(value: Option<&Value>) -> Vec<Result<(String, Number), ToolError>> {
    let text = |value: &Value| match value {
        Value::String(text) => Ok((text.clone(), false)),
        other => Ok((other.to_string(), other.is_number())),
    };
    match value {
        None | Some(Value::Null) => Vec::new(),
        Some(Value::Array(items)) => items.iter().map(text).collect(),
        Some(one) => vec![text(one)],
    }
}

fn checked(
    name: &str,
    (text, is_number): (String, Number),
    may_be_option: bool,
) -> Result<String, ToolError> {
    let bad = |message: String| {
        ToolError::new(ToolErrorKind::InvalidArguments, message).with_code("command_argument")
    };
    if text.contains('\0') {
        return Err(bad(format!("`{name}` holds a NUL character, which no argument can hold")));
    }
    if may_be_option && !is_number && text.starts_with('-') {
        let message = format!("`{name}` begins with `-`, and the program would read it as an option");
        let help = format!(
            "write \"{NO_MORE_OPTIONS}\" before \"{{{name}}}\" in `command`, or \"--name={{{name}}}\""
        );
        return Err(bad(message).with_detail(help));
    }
    Ok(text)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn fill(command: &[&str], values: &Value) -> Result<Vec<String>, String> {
        let schema = json!({"properties": {"a": {}, "list": {}}});
        let arguments: Result<Vec<Argument>, Problem> =
            command.iter().map(|text| Argument::parse(text, Names(&schema), "command")).collect();
        let arguments = arguments.map_err(|problem| problem.to_string())?;
        filled(&arguments, values.as_object().unwrap()).map_err(|error| error.message_for_model)
    }

    #[test]
    fn values_stay_whole_arguments() {
        for (command, values, expected) in [
            (&["{a}"][..], json!({"a": "$(rm -r /); x y"}), &["$(rm -r /); x y"][..]),
            (&["x", "--n={a}!"], json!({"a": -5}), &["x", "--n=-5!"]),
            (&["{list}"], json!({"list": ["p", "q r"]}), &["p", "q r"]),
            (&["-x{list}"], json!({"list": [1, 2]}), &["-x1", "-x2"]),
            (&["{a}", "end"], json!({}), &["end"]),
            (&["--", "{a}"], json!({"a": "-rf"}), &["--", "-rf"]),
            (&["{{a}}", "{a}"], json!({"a": {"k": 1}}), &["{a}", "{\"k\":1}"]),
        ] {
            assert_eq!(fill(command, &values).unwrap(), expected, "{command:?}");
        }
    }

    #[test]
    fn what_is_wrong_is_reported() {
        for (command, values, expected) in [
            ("{a}", json!({"a": "-rf"}), "`a` begins with `-`, and the program would read it as an option"),
            ("{a}", json!({"a": "x\0"}), "`a` holds a NUL character, which no argument can hold"),
            ("{lisst}", json!({}), "command: `{lisst}` names no parameter; did you mean `list`?"),
            ("{a", json!({}), "command: `{` stands alone; write `{{` for a brace"),
            ("a}", json!({}), "command: `}` stands alone; write `}}` for a brace"),
            ("{a}{a}", json!({}), "command: an argument holds one placeholder; make it two arguments"),
            (
                "{$secret.KEY}",
                json!({}),
                "command: `{$secret.KEY}` cannot stand here: other programs see arguments; give it in `env`",
            ),
        ] {
            assert_eq!(fill(&[command], &values).unwrap_err(), expected, "{command}");
        }
    }
}
