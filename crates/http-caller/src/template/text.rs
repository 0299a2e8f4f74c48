//! A text with placeholders.

use agent_types::Problem;

use super::scope::{Scope, Source};
use crate::config::ProblemCode;

/// A piece of a template.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Part<S = Source> {
    /// Text as it is.
    Literal(String),
    /// A value.
    Value(S),
}

/// A text with placeholders, parsed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct TextTemplate(pub(crate) Vec<Part>);

impl TextTemplate {
    pub(crate) fn parse(text: &str, scope: &Scope) -> Result<Self, Problem> {
        Ok(Self(parse_with(text, |name| scope.resolve(name))?))
    }

    /// The one placeholder that is all of the text.
    pub(crate) fn only(&self) -> Option<&Source> {
        match &self.0[..] {
            [Part::Value(source)] => Some(source),
            _ => None,
        }
    }

    pub(crate) fn sources(&self) -> impl Iterator<Item = &Source> {
        self.0.iter().filter_map(|part| match part {
            Part::Literal(_) => None,
            Part::Value(source) => Some(source),
        })
    }
}

/// Cuts a text into its parts; `resolve` says what a name means.
pub(crate) fn parse_with<S>(
    text: &str,
    resolve: impl Fn(&str) -> Result<S, Problem>,
) -> Result<Vec<Part<S>>, Problem> {
    let mut parts = Vec::new();
    let mut literal = String::new();
    let mut rest = text;
    while let Some(at) = rest.find(['{', '}']) {
        literal.push_str(&rest[..at]);
        rest = &rest[at..];
        if let Some(after) = rest.strip_prefix("{{") {
            literal.push('{');
            rest = after;
        } else if let Some(after) = rest.strip_prefix("}}") {
            literal.push('}');
            rest = after;
        } else {
            let inner = rest.strip_prefix('{').and_then(|inner| inner.split_once('}'));
            let Some((name, after)) = inner.filter(|(name, _)| !name.contains('{')) else {
                return Err(lone(text, &rest[..1]));
            };
            if !literal.is_empty() {
                parts.push(Part::Literal(std::mem::take(&mut literal)));
            }
            parts.push(Part::Value(resolve(name.trim())?));
            rest = after;
        }
    }
    literal.push_str(rest);
    if !literal.is_empty() {
        parts.push(Part::Literal(literal));
    }
    Ok(parts)
}

fn lone(text: &str, brace: &str) -> Problem {
    let shown: String = text.chars().take(60).collect();
    let message = format!("a lone `{brace}` in `{shown}`; write `{brace}{brace}` where a brace is meant");
    Problem::error(ProblemCode::BadTemplate, message)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shown(text: &str) -> String {
        match parse_with(text, |name| Ok(name.to_owned())) {
            Ok(parts) => parts
                .into_iter()
                .map(|part| match part {
                    Part::Literal(text) => text,
                    Part::Value(name) => format!("<{name}>"),
                })
                .collect(),
            Err(refused) => format!("error: {}", refused.message),
        }
    }

    #[test]
    fn one_form_of_placeholder() {
        for (text, expected) in [
            ("", ""),
            ("plain", "plain"),
            ("{a}", "<a>"),
            ("x{a}y{ b.c }z", "x<a>y<b.c>z"),
            ("{{a}}", "{a}"),
            ("{{{a}}}", "{<a>}"),
            ("}}{{", "}{"),
            ("{$ctx.a}{$secret.B}", "<$ctx.a><$secret.B>"),
            ("{a", "error: a lone `{` in `{a`; write `{{` where a brace is meant"),
            ("a}", "error: a lone `}` in `a}`; write `}}` where a brace is meant"),
            ("{a{b}}", "error: a lone `{` in `{a{b}}`; write `{{` where a brace is meant"),
        ] {
            assert_eq!(shown(text), expected, "{text}");
        }
    }
}
