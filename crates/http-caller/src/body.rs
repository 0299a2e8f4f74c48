//! Bodies of requests.

use bytes::Bytes;
use indexmap::IndexMap;
use serde_json::Value;

use crate::config::ProblemCode;
use crate::encode;
use crate::endpoint::Checker;
use crate::error::HttpError;
use crate::template::{Filler, JsonTemplate, Scope, Source, TextTemplate, as_text, form_pairs};

/// Media type of a body whose headers name none.
pub(crate) const JSON: &str = "application/json";

/// The body of a request.
#[derive(Debug, Clone)]
pub(crate) enum BodyTemplate {
    Json(JsonTemplate),
    /// Pairs, their names encoded.
    Form(Vec<(String, JsonTemplate)>),
    /// Pairs of the members of one value.
    WholeForm(Source),
    Text(TextTemplate),
}

impl BodyTemplate {
    /// Parses a body by its `Content-Type`.
    pub(crate) fn parse(
        checker: &mut Checker,
        body: &Value,
        headers: &IndexMap<String, String>,
        scope: &Scope,
    ) -> Option<Self> {
        let path = "endpoint.body";
        let named = headers.iter().find(|(name, _)| name.eq_ignore_ascii_case("content-type"));
        let media = named.map_or(JSON, |(_, value)| value.split(';').next().unwrap_or_default().trim());
        let media = media.to_ascii_lowercase();
        match (media.as_str(), body) {
            ("application/x-www-form-urlencoded", Value::Object(members)) => {
                let members = members.iter().map(|(name, value)| {
                    Some((encode::component(name), checker.take(path, JsonTemplate::parse(value, scope))?))
                });
                Some(Self::Form(members.collect::<Option<_>>()?))
            }
            ("application/x-www-form-urlencoded", Value::String(text)) => {
                let template = checker.take(path, TextTemplate::parse(text.trim(), scope))?;
                match template.only() {
                    Some(source) => Some(Self::WholeForm(source.clone())),
                    None => Self::not_a_form(checker),
                }
            }
            ("application/x-www-form-urlencoded", _) => Self::not_a_form(checker),
            (media, _) if media.starts_with("multipart/") => {
                checker.fault(path, ProblemCode::BadBody, "a multipart body cannot be sent");
                None
            }
            (media, Value::String(text)) if !is_json(media) => {
                let template = checker.take(path, TextTemplate::parse(text, scope))?;
                let holds_values = template.sources().next().is_some();
                if holds_values && template.only().is_none() && media != "text/plain" {
                    let message = format!(
                        "a value inside {media} text could become structure; let one argument be the body"
                    );
                    checker.fault(path, ProblemCode::BadBody, message);
                    return None;
                }
                Some(Self::Text(template))
            }
            (_, Value::String(text)) => Self::json_text(checker, text, scope),
            (_, body) => checker.take(path, JsonTemplate::parse(body, scope)).map(Self::Json),
        }
    }

    fn not_a_form(checker: &mut Checker) -> Option<Self> {
        let message = "the body of a form is an object, or one placeholder";
        checker.fault("endpoint.body", ProblemCode::BadBody, message);
        None
    }

    /// JSON inside a text: read first, filled then. One placeholder alone is the whole body.
    fn json_text(checker: &mut Checker, text: &str, scope: &Scope) -> Option<Self> {
        let path = "endpoint.body";
        if let Ok(template) = TextTemplate::parse(text.trim(), scope)
            && template.only().is_some()
        {
            let whole = Value::from(text.trim());
            return checker.take(path, JsonTemplate::parse(&whole, scope)).map(Self::Json);
        }
        match agent_types::read_json::<Value>(text.as_bytes()) {
            Ok(value) => checker.take(path, JsonTemplate::parse(&value, scope)).map(Self::Json),
            Err(error) => {
                let message =
                    format!("the text is not JSON: {error}; placeholders stand in quotes, \"{{name}}\"");
                checker.fault(path, ProblemCode::BadBody, message);
                None
            }
        }
    }

    /// Media type for a request whose headers name none.
    pub(crate) const fn media(&self) -> Option<&'static str> {
        match self {
            Self::Json(_) => Some(JSON),
            Self::Form(_) | Self::WholeForm(_) | Self::Text(_) => None,
        }
    }

    /// The bytes; `None` if the whole body is a missing optional argument.
    pub(crate) fn fill(&self, filler: &Filler<'_>) -> Result<Option<Bytes>, HttpError> {
        Ok(match self {
            Self::Json(template) => template.fill(filler)?.map(|value| Bytes::from(value.to_string())),
            Self::Text(template) => filler.text(template, |_, value| Ok(as_text(value)))?.map(Bytes::from),
            Self::Form(members) => {
                let mut pairs = Vec::new();
                for (name, template) in members {
                    if let Some(value) = template.fill(filler)? {
                        pairs.extend(form_pairs(name, &value));
                    }
                }
                (!pairs.is_empty()).then(|| Bytes::from(pairs.join("&")))
            }
            Self::WholeForm(source) => {
                let Some(value) = filler.value(source)?.filter(|value| !value.is_null()) else {
                    return Ok(None);
                };
                let Value::Object(members) = &*value else {
                    return Err(HttpError::bad_argument("the body of a form is an object"));
                };
                let pairs =
                    members.iter().flat_map(|(name, value)| form_pairs(&encode::component(name), value));
                // An empty object that is given is a body.
                Some(Bytes::from(pairs.collect::<Vec<_>>().join("&")))
            }
        })
    }
}

fn is_json(media: &str) -> bool {
    media == JSON || media.ends_with("+json") || media == "text/json"
}
