//! Looking values up, and values as text.

use std::borrow::Cow;

use serde_json::{Map, Value};

use super::scope::Source;
use super::text::{Part, TextTemplate};
use crate::error::HttpError;
use crate::secret::{Secret, SecretMask, SecretSource};

/// Values that fill a template.
pub(crate) struct Filler<'v> {
    pub(crate) arguments: &'v Map<String, Value>,
    pub(crate) context: &'v Map<String, Value>,
    pub(crate) secrets: &'v dyn SecretSource,
    /// Learns of every secret before it is used.
    pub(crate) mask: &'v SecretMask,
}

impl Filler<'_> {
    /// The value; `None` for a missing optional argument.
    ///
    /// # Errors
    /// A context value or a secret that is not there.
    pub(crate) fn value(&self, source: &Source) -> Result<Option<Cow<'_, Value>>, HttpError> {
        match source {
            Source::Argument { name, path } => {
                Ok(self.arguments.get(name).and_then(|value| inside(value, path)).map(Cow::Borrowed))
            }
            Source::Context { name, path } => {
                let value = self.context.get(name).and_then(|value| inside(value, path));
                value
                    .map(|value| Some(Cow::Borrowed(value)))
                    .ok_or_else(|| HttpError::MissingContext { name: name.clone() })
            }
            Source::Secret(name) => Ok(Some(Cow::Owned(self.secret(name)?.reveal().into()))),
            Source::Exploded(source) => self.value(source),
        }
    }

    fn secret(&self, name: &str) -> Result<Secret, HttpError> {
        let secret = self.secrets.secret(name).filter(|secret| !secret.reveal().is_empty());
        let secret = secret.ok_or_else(|| HttpError::MissingSecret { name: name.to_owned() })?;
        self.mask.register(&secret);
        Ok(secret)
    }

    /// The filled text, each value written by `write`; `None` if one of them is missing or null.
    pub(crate) fn text(
        &self,
        template: &TextTemplate,
        write: impl Fn(&Source, &Value) -> Result<String, HttpError>,
    ) -> Result<Option<String>, HttpError> {
        let mut text = String::new();
        for part in &template.0 {
            match part {
                Part::Literal(literal) => text.push_str(literal),
                Part::Value(source) => match self.value(source)? {
                    Some(value) if !value.is_null() => text.push_str(&write(source, &value)?),
                    Some(_) | None => return Ok(None),
                },
            }
        }
        Ok(Some(text))
    }
}

/// A part of a value, by names of members and places in lists.
pub(crate) fn inside<'v>(value: &'v Value, path: &[String]) -> Option<&'v Value> {
    path.iter().try_fold(value, |value, step| match value {
        Value::Object(members) => members.get(step),
        Value::Array(items) => items.get(step.parse::<usize>().ok()?),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => None,
    })
}

/// A value inside a text: a text as it is, anything else as JSON.
pub(crate) fn as_text(value: &Value) -> String {
    value.as_str().map_or_else(|| value.to_string(), str::to_owned)
}
