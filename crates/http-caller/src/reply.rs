//! Templates over values outside of requests: replies of flows, notices.

use agent_types::{Problem, nearest};
use serde_json::{Map, Value};

use crate::config::ProblemCode;
use crate::template::{Part, as_text, inside, parse_with};

/// A text with placeholders over named values: `{result}`, `{result.items.0}`, `{$ctx.name}`.
///
/// It is parsed once. What it is filled with is never parsed again, and nothing of the program can be named.
///
/// ```
/// use http_caller::ReplyTemplate;
/// use serde_json::json;
///
/// let template = ReplyTemplate::parse("Number {result.id}, {result.nick}", &["result"])
///     .map_err(|problem| problem.message)?;
/// let values = json!({"result": {"id": 7}});
/// let (text, warnings) = template.fill(values.as_object().ok_or("an object")?);
/// assert_eq!(text, "Number 7, ");
/// assert_eq!(warnings, ["`{result.nick}` is not there"]);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ReplyTemplate(Vec<Part<Vec<String>>>);

impl ReplyTemplate {
    /// Parses a text whose placeholders begin with one of `roots`.
    ///
    /// # Errors
    /// A lone brace, or a placeholder that begins with another name (with a suggestion). The problem's path is empty.
    pub fn parse(text: &str, roots: &[&str]) -> Result<Self, Problem> {
        let resolve = |name: &str| {
            let path: Vec<String> = name.split('.').map(str::to_owned).collect();
            let first = path.first().map_or("", String::as_str);
            if roots.contains(&first) {
                return Ok(path);
            }
            let known: Vec<String> = roots.iter().map(|root| format!("{{{root}}}")).collect();
            let message = format!("`{{{name}}}` names nothing; here stand {}", known.join(", "));
            let near = nearest(first, roots.iter().copied()).map(str::to_owned);
            Err(Problem::error(ProblemCode::UnknownPlaceholder, message).suggest(near))
        };
        parse_with(text, resolve).map(Self)
    }

    /// Returns the filled text. A placeholder without a value is empty, and is reported.
    #[must_use]
    pub fn fill(&self, values: &Map<String, Value>) -> (String, Vec<String>) {
        let (mut text, mut warnings) = (String::new(), Vec::new());
        for part in &self.0 {
            let path = match part {
                Part::Literal(literal) => {
                    text.push_str(literal);
                    continue;
                }
                Part::Value(path) => path,
            };
            let found = path.split_first().and_then(|(first, rest)| inside(values.get(first)?, rest));
            match found {
                Some(Value::Null) => {}
                Some(value) => text.push_str(&as_text(value)),
                None => warnings.push(format!("`{{{}}}` is not there", path.join("."))),
            }
        }
        (text, warnings)
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn filled(text: &str) -> String {
        let values =
            json!({"result": {"id": 7, "names": ["a", "{b}"], "none": null}, "$ctx": {"who": "Ann"}});
        match ReplyTemplate::parse(text, &["result", "user_message", "$ctx"]) {
            Ok(template) => template.fill(values.as_object().unwrap()).0,
            Err(problem) => format!("{}: {problem}", problem.code),
        }
    }

    #[test]
    fn only_named_values_can_be_reached() {
        for (text, expected) in [
            ("{result.id} for {$ctx.who}", "7 for Ann"),
            ("{result.names.1}", "{b}"),
            ("{result.names}", r#"["a","{b}"]"#),
            ("{result.none}|{result.__class__}|{{}}", "||{}"),
            (
                "{resullt}",
                "unknown_placeholder: `{resullt}` names nothing; here stand {result}, {user_message}, {$ctx}; did you mean `result`?",
            ),
            (
                "{$secret.KEY}",
                "unknown_placeholder: `{$secret.KEY}` names nothing; here stand {result}, {user_message}, {$ctx}",
            ),
            ("{", "bad_template: a lone `{` in `{`; write `{{` where a brace is meant"),
        ] {
            assert_eq!(filled(text), expected, "{text}");
        }
    }
}
