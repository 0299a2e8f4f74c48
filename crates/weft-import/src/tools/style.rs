//! Forms of parameter values, and the styles that write them.

use http_caller::QueryStyle;
use serde_json::Value;

use super::schema::Schemas;

/// Form of the values of a parameter.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Form {
    /// A text, a number or a truth value, as far as it is declared.
    Plain,
    /// A list of plain values.
    List,
    /// An object, with those of its members that are declared as lists or objects.
    Object { nested: Vec<String> },
}

impl Form {
    /// The form that a schema declares.
    ///
    /// # Errors
    /// No style writes such values.
    pub(super) fn from_schema<'d>(schemas: &Schemas<'d>, schema: &'d Value) -> Result<Self, String> {
        let Ok(schema) = schemas.resolved(schema) else { return Ok(Self::Plain) };
        if is_of(schema, "array", "items") {
            let items = schema.get("items").and_then(|items| schemas.resolved(items).ok());
            return match items {
                Some(items) if is_compound(items) => {
                    Err("a list of lists or objects has no form there".to_owned())
                }
                Some(_) | None => Ok(Self::List),
            };
        }
        if !is_of(schema, "object", "properties") {
            return Ok(Self::Plain);
        }
        let members = schema.get("properties").and_then(Value::as_object).into_iter().flatten();
        let nested = members.filter(|(_, member)| schemas.resolved(member).is_ok_and(is_compound));
        Ok(Self::Object { nested: nested.map(|(name, _)| name.clone()).collect() })
    }
}

fn is_compound(schema: &Value) -> bool {
    is_of(schema, "array", "items") || is_of(schema, "object", "properties")
}

/// Returns `true` for a schema of this type, or one that speaks of its parts only.
fn is_of(schema: &Value, kind: &str, part: &str) -> bool {
    match schema.get("type") {
        Some(Value::Array(kinds)) => kinds.iter().any(|own| own == kind),
        Some(own) => own == kind,
        None => schema.get(part).is_some(),
    }
}

/// The style of a query parameter by its name.
pub(super) fn query_style(name: &str) -> Result<QueryStyle, String> {
    match name {
        "form" => Ok(QueryStyle::Form),
        "deepObject" => Ok(QueryStyle::DeepObject),
        "spaceDelimited" => Ok(QueryStyle::SpaceDelimited),
        "pipeDelimited" => Ok(QueryStyle::PipeDelimited),
        other => Err(format!("the style {other} is not supported")),
    }
}
