//! The names that placeholders may use.

use agent_types::{Problem, nearest};
use serde_json::{Map, Value};

use crate::config::ProblemCode;

/// Beginning of a context value.
const CONTEXT: &str = "$ctx.";
/// Beginning of a secret.
const SECRET: &str = "$secret.";

/// Source of a placeholder's value.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Source {
    /// An argument, or a part of one.
    Argument { name: String, path: Vec<String> },
    /// A context value, or a part of one.
    Context { name: String, path: Vec<String> },
    /// A secret.
    Secret(String),
    /// `{name*}`: an argument or a context value, the members of an object written as `name=value`.
    Exploded(Box<Source>),
}

/// The names that the placeholders of an endpoint may use: the declared parameters and the listed context values.
#[derive(Debug, Clone, Default)]
pub struct Scope {
    /// None where any name will do.
    parameters: Option<Map<String, Value>>,
    required: Vec<String>,
    context: Vec<String>,
    secrets_only: bool,
}

impl Scope {
    /// Any name is an argument, as in a node whose inputs are not declared.
    #[must_use]
    pub fn open() -> Self {
        Self::default()
    }

    /// The properties of a JSON Schema of arguments, and names of context values. A name in both is a context value.
    #[must_use]
    pub fn new(parameters: &Value, context: &[String]) -> Self {
        let properties = parameters.get("properties").and_then(Value::as_object).cloned().unwrap_or_default();
        let named = parameters.get("required").and_then(Value::as_array).into_iter().flatten();
        let mut required: Vec<String> = named.filter_map(Value::as_str).map(str::to_owned).collect();
        let with_default = properties.iter().filter(|(_, schema)| schema.get("default").is_some());
        required.extend(with_default.map(|(name, _)| name.clone()));
        Self { parameters: Some(properties), required, context: context.to_vec(), secrets_only: false }
    }

    /// Only secrets and context values: for credentials.
    pub(crate) fn credentials(&self) -> Self {
        Self { secrets_only: true, ..self.clone() }
    }

    /// Returns `true` for a value that exists in every call.
    pub(crate) fn is_always_there(&self, source: &Source) -> bool {
        match source {
            Source::Argument { name, path } => {
                self.parameters.is_none() || (path.is_empty() && self.required.contains(name))
            }
            Source::Context { .. } | Source::Secret(_) => true,
            Source::Exploded(source) => self.is_always_there(source),
        }
    }

    /// Resolves a placeholder to its source.
    pub(crate) fn resolve(&self, text: &str) -> Result<Source, Problem> {
        match text.strip_suffix('*').filter(|_| !self.is_known(text)) {
            Some(name) => Ok(Source::Exploded(Box::new(self.resolve_plain(name)?))),
            None => self.resolve_plain(text),
        }
    }

    fn resolve_plain(&self, text: &str) -> Result<Source, Problem> {
        if let Some(name) = text.strip_prefix(CONTEXT) {
            let (name, path) = parted(name);
            return if name.is_empty() { Err(bad(text)) } else { Ok(Source::Context { name, path }) };
        }
        if let Some(name) = text.strip_prefix(SECRET) {
            let is_name = !name.is_empty() && name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_');
            return if is_name { Ok(Source::Secret(name.into())) } else { Err(bad(text)) };
        }
        let (first, path) = self.known(text);
        if self.context.contains(&first) {
            return Ok(Source::Context { name: first, path });
        }
        if self.secrets_only {
            let message = format!("`{{{text}}}` is an argument; credentials are `{{$secret.NAME}}`");
            return Err(Problem::error(ProblemCode::SecretInFile, message));
        }
        let Some(parameters) = &self.parameters else {
            return if first.is_empty() || first.starts_with('$') {
                Err(bad(text))
            } else {
                Ok(Source::Argument { name: first, path })
            };
        };
        let Some(schema) = parameters.get(&first) else {
            let known = parameters.keys().chain(&self.context).map(String::as_str);
            return Err(unknown(text, nearest(&first, known).map(str::to_owned)));
        };
        check_path(text, schema, &path)?;
        Ok(Source::Argument { name: first, path })
    }

    fn is_known(&self, name: &str) -> bool {
        self.context.iter().any(|known| known == name)
            || self.parameters.as_ref().is_some_and(|parameters| parameters.contains_key(name))
    }

    /// Finds the longest known name that the text begins with, and the rest as a path: names may hold points
    /// themselves.
    fn known(&self, text: &str) -> (String, Vec<String>) {
        if self.is_known(text) {
            return (text.to_owned(), Vec::new());
        }
        let ends = text.match_indices('.').map(|(end, _)| end).rev();
        let longest = ends.map(|end| text.split_at(end)).find(|(name, _)| self.is_known(name));
        match longest {
            Some((name, rest)) => (name.to_owned(), rest.split('.').skip(1).map(str::to_owned).collect()),
            None => parted(text),
        }
    }
}

/// Checks a path into a value of that schema: refused only where the schema excludes such a member.
fn check_path(text: &str, schema: &Value, path: &[String]) -> Result<(), Problem> {
    let mut schema = schema;
    for step in path {
        let Some(members) = schema.get("properties").and_then(Value::as_object) else { return Ok(()) };
        match members.get(step) {
            Some(inner) => schema = inner,
            None if schema.get("additionalProperties").is_some_and(|more| more != &Value::Bool(false)) => {
                return Ok(());
            }
            None => {
                let near = nearest(step, members.keys().map(String::as_str)).map(str::to_owned);
                return Err(unknown(text, near));
            }
        }
    }
    Ok(())
}

fn parted(text: &str) -> (String, Vec<String>) {
    let mut parts = text.split('.').map(str::to_owned);
    (parts.next().unwrap_or_default(), parts.collect())
}

fn unknown(text: &str, near: Option<String>) -> Problem {
    let message = format!("`{{{text}}}` names no parameter and no context value");
    Problem::error(ProblemCode::UnknownPlaceholder, message).suggest(near)
}

fn bad(text: &str) -> Problem {
    let message =
        format!("`{{{text}}}` is not a placeholder; write {{name}}, {{$ctx.name}} or {{$secret.NAME}}");
    Problem::error(ProblemCode::BadTemplate, message)
}
