//! A JSON value with placeholders in its texts.

use agent_types::Problem;
use serde_json::{Map, Value};

use super::filled::{Filler, as_text};
use super::scope::{Scope, Source};
use super::text::TextTemplate;
use crate::config::ProblemCode;
use crate::error::HttpError;

/// Deepest nesting of a body.
const MAX_DEPTH: usize = 128;

/// A JSON value whose texts may be templates. Substitution works on this tree, so that no value can become structure.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum JsonTemplate {
    /// A value without placeholders.
    Fixed(Value),
    /// A text that is one placeholder keeps the type of its value.
    Whole(Source),
    /// A text with placeholders in it.
    Text(TextTemplate),
    List(Vec<JsonTemplate>),
    Object(Vec<(String, JsonTemplate)>),
}

impl JsonTemplate {
    pub(crate) fn parse(value: &Value, scope: &Scope) -> Result<Self, Problem> {
        Self::at_depth(value, scope, 0)
    }

    fn at_depth(value: &Value, scope: &Scope, depth: usize) -> Result<Self, Problem> {
        if depth > MAX_DEPTH {
            let message = format!("the body is deeper than {MAX_DEPTH} levels");
            return Err(Problem::error(ProblemCode::BadBody, message));
        }
        Ok(match value {
            Value::String(text) => {
                let template = TextTemplate::parse(text, scope)?;
                match template.only() {
                    Some(source) => Self::Whole(source.clone()),
                    None => Self::Text(template),
                }
            }
            Value::Array(items) => {
                let items = items.iter().map(|item| Self::at_depth(item, scope, depth + 1));
                Self::List(items.collect::<Result<_, _>>()?)
            }
            Value::Object(members) => {
                let members = members
                    .iter()
                    .map(|(key, value)| Ok((key.clone(), Self::at_depth(value, scope, depth + 1)?)));
                Self::Object(members.collect::<Result<_, _>>()?)
            }
            Value::Null | Value::Bool(_) | Value::Number(_) => Self::Fixed(value.clone()),
        })
    }

    /// The filled value; `None` if it is a missing argument, or a text that names one.
    pub(crate) fn fill(&self, filler: &Filler<'_>) -> Result<Option<Value>, HttpError> {
        Ok(match self {
            Self::Fixed(value) => Some(value.clone()),
            Self::Whole(source) => filler.value(source)?.map(std::borrow::Cow::into_owned),
            Self::Text(template) => filler.text(template, |_, value| Ok(as_text(value)))?.map(Value::String),
            Self::List(items) => {
                let filled = items.iter().filter_map(|item| item.fill(filler).transpose());
                Some(filled.collect::<Result<Vec<Value>, _>>()?.into())
            }
            Self::Object(members) => {
                let mut object = Map::new();
                for (key, template) in members {
                    if let Some(value) = template.fill(filler)? {
                        object.insert(key.clone(), value);
                    }
                }
                Some(Value::Object(object))
            }
        })
    }
}
